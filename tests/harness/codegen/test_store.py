"""Stored facts survive being written, edited and broken; differences are told in the words of the field."""

import dataclasses
import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.facts import AMPERE, HOPPER, changed
from tilecheck import files
from tilecheck.codegen import changes, store
from tilecheck.codegen.facts import Facts
from tilecheck.gist import toolchain_changes

hypothesis = pytest.importorskip("hypothesis", reason="wants the extra: pip install -e .[test]")
st = hypothesis.strategies

TOOLS = {"nvcc": "13.0.88", "tilelang": "0.1.15"}
NEWER = {"nvcc": "13.1.80", "tilelang": "0.1.15"}


def key(case: str, kernel: str = "matmul") -> store.Key:
    return (kernel, case, "default")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a file with two rows."""
    path = store.path_of(tmp_path, "sm_90a")
    store.update(path, "sm_90a", TOOLS, {key("large"): HOPPER, key("small"): AMPERE})
    return path


class TestFile:
    def test_holds_what_was_written(self, path: Path) -> None:
        stored = store.read(path, "sm_90a")
        assert stored == store.Stored("sm_90a", TOOLS, {key("large"): HOPPER, key("small"): AMPERE})

    @hypothesis.given(
        rows=st.dictionaries(
            st.tuples(st.text(), st.text(), st.text()),
            st.builds(
                Facts,
                *(
                    st.text() if f.type is str else st.integers(0, 2**40)
                    for f in dataclasses.fields(Facts)[:-1]
                ),
                instructions=st.dictionaries(st.text(), st.integers(0, 2**40), max_size=3),
            ),
            max_size=3,
        )
    )
    def test_holds_any_facts(self, rows: dict[store.Key, Facts]) -> None:
        stored = store.Stored("sm_80", TOOLS, rows)
        assert store.parse(store.dump(stored), Path("sm_80.json"), "sm_80") == stored

    def test_that_is_not_there_is_none(self, tmp_path: Path) -> None:
        assert store.read(tmp_path / "sm_80.json", "sm_80") is None
        assert store.stored_arches(tmp_path) == []

    def test_row_is_sorted_and_four_lines(self, path: Path) -> None:
        store.update(path, "sm_90a", TOOLS, {key("any", "attention"): HOPPER})
        lines = path.read_text().splitlines()
        assert [line.strip() for line in lines if line.startswith(" " * 6) and line[6] == '"'] == [
            '"any": {',
            '"large": {',
            '"small": {',
        ]
        row = lines[lines.index('      "large": {') + 2 :][:5]
        assert row == [
            '          "schedule": "Schedule(block_m=128, stages=4, threads=128)",',
            '          "kernels": 1, "threads": 256, "registers": 168, "spill_stores": 0, "spill_loads": 0, '
            '"stack": 0, "static_shared": 1024, "dynamic_shared": 65536, "barriers": 1,',
            '          "instructions": {"HGMMA": 8, "LDG.128": 4, "LDG.32": 1, "STG.128": 16, "STSM": 16, '
            '"UTMALDG": 12, "UTMASTG": 1, "total": 800},',
            '          "cubin_bytes": 7392, "source_hash": "6f88b29da5840c5a", '
            '"sass_hash": "5cb5104ec0cf1f30"',
            "        }",
        ]

    def test_update_of_a_row_leaves_the_others_byte_for_byte(self, path: Path) -> None:
        before = path.read_text().splitlines()
        store.update(
            path, "sm_90a", TOOLS, {key("small"): dataclasses.replace(AMPERE, spill_stores=48, registers=255)}
        )
        after = path.read_text().splitlines()
        (changed,) = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        assert '"spill_stores": 48' in after[changed]
        assert changed > before.index('      "small": {')

    def test_rows_are_dropped_by_name_only(self, path: Path) -> None:
        store.update(path, "sm_90a", TOOLS, {}, drop=[key("small")])
        stored = store.read(path, "sm_90a")
        assert stored is not None and set(stored.facts) == {key("large")}

    def test_rows_of_two_toolchains_never_mix(self, path: Path) -> None:
        before = path.read_text()
        with pytest.raises(store.StoreError, match="record all of sm_90a together"):
            store.update(path, "sm_90a", NEWER, {key("small"): AMPERE})
        assert path.read_text() == before
        store.update(path, "sm_90a", NEWER, {key("small"): HOPPER, key("large"): HOPPER})
        stored = store.read(path, "sm_90a")
        assert stored is not None and stored.toolchain == NEWER

    def test_order_by_hand_is_fine(self, path: Path) -> None:
        content = json.loads(path.read_text())
        content["facts"]["matmul"] = dict(reversed(content["facts"]["matmul"].items()))
        canonical, stored = path.read_text(), store.read(path, "sm_90a")
        path.write_text(json.dumps(dict(reversed(content.items()))))
        assert store.read(path, "sm_90a") == stored
        store.update(path, "sm_90a", TOOLS, {})
        assert path.read_text() == canonical

    def test_nothing_else_is_left_in_the_folder(self, path: Path) -> None:
        assert {p.name for p in path.parent.iterdir()} == {"sm_90a.json", ".sm_90a.json.lock"}

    def test_failed_write_leaves_the_file(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        before = path.read_text()
        monkeypatch.setattr(files.os, "fsync", full)
        with pytest.raises(store.StoreError, match=r"sm_90a\.json: not written: No space left on device"):
            store.update(path, "sm_90a", TOOLS, {key("new"): HOPPER})
        assert path.read_text() == before
        assert {p.name for p in path.parent.iterdir()} == {"sm_90a.json", ".sm_90a.json.lock"}

    def test_writers_at_the_same_time_lose_nothing(self, path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        writers = [context.Process(target=write_rows, args=(path, name)) for name in ("a", "b")]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
            assert writer.exitcode == 0
        stored = store.read(path, "sm_90a")
        assert stored is not None and len(stored.facts) == 2 + 2 * 10


def write_rows(path: Path, name: str) -> None:
    for i in range(10):
        store.update(path, "sm_90a", TOOLS, {key(f"{name}{i}"): HOPPER})


BROKEN = [
    ("", "", "line 1, column 1: no JSON: Expecting value"),
    (
        '"registers": 168',
        '"registers": "168"',
        'facts: matmul: large: default: registers is "168", no integer',
    ),
    ('"registers": 168', '"registers": 168.5', "registers is 168.5, no integer >= 0"),
    ('"registers": 168', '"registers": true', "registers is true, no integer >= 0"),
    ('"registers": 168', '"registers": -1', "registers is -1, no integer >= 0"),
    ('"registers": 168', '"registers": NaN', "no JSON: NaN is no number"),
    (
        '"registers": 168',
        '"registers": 168, "registers": 255',
        "matmul: large: default: 'registers' occurs twice",
    ),
    ('"registers": 168, ', "", "facts: matmul: large: default: registers missing"),
    ('"registers": 168', '"registers": 168, "colour": 1', "default: 'colour' unknown; there are schedule, "),
    ('"HGMMA": 8', '"HGMMA": null', "large: default: instructions: HGMMA is null, no integer >= 0"),
    ('"HGMMA": 8', '"HGMMA": 8, "HGMMA": 9', "large: default: instructions: 'HGMMA' occurs twice"),
    ('"sass_hash": "5c', '"sass_hash": 5, "x": "', "large: default: 'x' unknown"),
    ('"small": {', '"large": {', "facts: matmul: 'large' occurs twice"),
    ('"default": {', '"default": [], "d": {', "facts: matmul: large: default is [], no object"),
    ('"schema": 1', '"schema": 2', "schema is 2, and this tilecheck reads 1"),
    ('"schema": 1', '"version": 1', "the whole: schema missing"),
    ('"arch": "sm_90a"', '"arch": "sm_80"', "arch is 'sm_80', and the file is that of sm_90a"),
    ('"nvcc": "13.0.88"', '"nvcc": 13.0', "toolchain: nvcc is 13.0, no string"),
    ('  "arch"', '<<<<<<< ours\n  "arch"', "line 3, column 1: no JSON"),
    ('{\n  "schema"', "[" * 100_000, "no JSON: "),
]


class TestBrokenFile:
    @pytest.mark.parametrize(("right", "wrong", "message"), BROKEN, ids=[str(i) for i in range(len(BROKEN))])
    def test_one_line_says_what_and_where_and_it_is_never_overwritten(
        self, path: Path, right: str, wrong: str, message: str
    ) -> None:
        text = path.read_text()
        assert right in text
        path.write_text(text.replace(right, wrong, 1) if right else "")
        before = path.read_bytes()
        with pytest.raises(store.StoreError) as raised:
            store.read(path, "sm_90a")
        assert message in str(raised.value)
        assert str(raised.value).startswith(str(path))
        assert "git checkout -- " in str(raised.value)
        assert "\n" not in str(raised.value)
        for whole in (False, True):
            with pytest.raises(store.StoreError):
                store.update(path, "sm_90a", TOOLS, {key("large"): HOPPER}, whole=whole)
        assert path.read_bytes() == before

    def test_every_truncation_is_noticed(self, path: Path) -> None:
        text = path.read_text()
        for end in range(0, len(text.rstrip()), 7):
            with pytest.raises(store.StoreError):
                store.parse(text[:end], path, "sm_90a")

    def test_bytes_that_are_no_text(self, path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b"large", b"l\xffrge"))
        with pytest.raises(store.StoreError, match=r"byte \d+ is no UTF-8"):
            store.read(path, "sm_90a")


PIPELINED = changed(AMPERE, {"LDGDEPBAR": 4, "DEPBAR": 2})


class TestChanges:
    @pytest.mark.parametrize(
        ("old", "new", "words", "severity"),
        [
            (HOPPER, HOPPER, "", "neutral"),
            (
                HOPPER,
                changed(HOPPER, {"UTMALDG": 0}, registers=255, spill_stores=48),
                "spill stores 0 -> 48, UTMALDG 12 -> 0, registers 168 -> 255",
                "regression",
            ),
            (HOPPER, changed(HOPPER, {"STL": 3}), "STL 0 -> 3", "regression"),
            (AMPERE, changed(AMPERE, {"LDGSTS.128": 0, "LDG.128": 10}), None, "regression"),
            (AMPERE, changed(AMPERE, {"LDGSTS.128": 4, "LDGSTS.32": 16}), None, "regression"),
            (AMPERE, changed(AMPERE, {"LDGSTS.128": 4, "STS.128": 4}), None, "regression"),
            (AMPERE, changed(AMPERE, {"LDGSTS.128": 0}), "LDGSTS.128 8 -> 0", "regression"),
            (AMPERE, changed(AMPERE, {"LDSM": 0, "LDS.32": 64}), None, "regression"),
            (AMPERE, changed(AMPERE, {"HMMA": 0}), "HMMA 32 -> 0", "regression"),
            (HOPPER, changed(HOPPER, {"HGMMA": 0, "HMMA": 64}), None, "regression"),
            (HOPPER, changed(HOPPER, {"STG.128": 0, "STG.32": 64}), None, "regression"),
            (
                HOPPER,
                dataclasses.replace(HOPPER, dynamic_shared=98304),
                "dynamic shared memory 65536 -> 98304",
                "regression",
            ),
            # A pipeline of cp.async that is lost; the waits that stay are for a bulk store.
            (PIPELINED, AMPERE, "DEPBAR 2 -> 0, LDGDEPBAR 4 -> 0", "regression"),
            (PIPELINED, changed(AMPERE, {"DEPBAR": 1}), "DEPBAR 2 -> 1, LDGDEPBAR 4 -> 0", "regression"),
            (changed(PIPELINED, {"UTMALDG": 4}), changed(AMPERE, {"UTMALDG": 4}), None, "regression"),
            # A stage more or less.
            (PIPELINED, changed(PIPELINED, {"LDGDEPBAR": 3, "DEPBAR": 1}), None, "neutral"),
            # Unrolled differently: nobody knows which is faster.
            (AMPERE, changed(AMPERE, {"HMMA": 16, "LDGSTS.128": 4, "LDSM": 8, "total": 90}), None, "neutral"),
            (AMPERE, changed(AMPERE, {"BAR": 2}), "BAR 0 -> 2", "neutral"),
            (
                HOPPER,
                dataclasses.replace(HOPPER, sass_hash="1", cubin_bytes=7400),
                "SASS changed, same counts, cubin 7392 -> 7400 bytes",
                "neutral",
            ),
            (
                HOPPER,
                dataclasses.replace(HOPPER, schedule="Schedule(block_m=64, stages=3, threads=128)"),
                "schedule block_m=128 -> 64, stages=4 -> 3",
                "neutral",
            ),
            (
                HOPPER,
                dataclasses.replace(HOPPER, schedule="Other(rows=4)"),
                "schedule Schedule(block_m=128, stages=4, threads=128) -> Other(rows=4)",
                "neutral",
            ),
        ],
    )
    def test_are_told_and_judged(self, old: Facts, new: Facts, words: str | None, severity: str) -> None:
        found = changes.changes(old, new)
        assert words is None or changes.in_words(found) == words
        assert changes.worst(found) == severity
        assert changes.bind(found) == bool(found)
        # The other way round the worse is the better.
        opposite = {"regression": "improvement", "improvement": "regression", "neutral": "neutral"}
        back = changes.changes(new, old)
        assert sorted(opposite[c.severity] for c in back) == sorted(c.severity for c in found)

    @pytest.mark.parametrize(
        ("threads", "registers", "severity"),
        [
            ((128, 256), (56, 32), "improvement"),  # 9 blocks, 1152 threads; 8, 2048
            ((128, 256), (26, 18), "neutral"),  # 2048 both times
            ((128, 128), (56, 72), "regression"),  # 9 blocks; 7
            ((128, 512), (80, 112), "regression"),  # 6 blocks, 768 threads; 1, 512
        ],
    )
    def test_registers_are_judged_by_the_threads_that_they_leave_room_for(
        self, threads: tuple[int, int], registers: tuple[int, int], severity: str
    ) -> None:
        old, new = (
            dataclasses.replace(AMPERE, threads=t, registers=r)
            for t, r in zip(threads, registers, strict=True)
        )
        judged = {c.words: c.severity for c in changes.changes(old, new)}
        assert judged[f"registers {registers[0]} -> {registers[1]}"] == severity

    def test_bulk_copies_need_no_groups(self) -> None:
        found = changes.changes(PIPELINED, changed(AMPERE, {"LDGSTS.128": 0, "UTMALDG": 4, "SYNCS": 9}))
        assert {c.words for c in found if c.severity != "neutral"} == {"UTMALDG 0 -> 4"}

    def test_better_way_in_place_of_another_is_no_loss(self) -> None:
        found = changes.changes(
            AMPERE, changed(AMPERE, {"HMMA": 0, "HGMMA": 8, "LDGSTS.128": 0, "UTMALDG": 2})
        )
        assert {c.words: c.severity for c in found if c.severity != "neutral"} == {
            "HGMMA 0 -> 8": "improvement",
            "UTMALDG 0 -> 2": "improvement",
        }

    def test_source_alone_informs(self) -> None:
        found = changes.changes(HOPPER, dataclasses.replace(HOPPER, source_hash="1"))
        assert changes.in_words(found) == "CUDA source changed, same SASS"
        assert not changes.bind(found)

    def test_each_fact_that_moves_is_told(self) -> None:
        for field in dataclasses.fields(Facts):
            other: Any = {int: 9999, str: "other"}.get(field.type, {"UTMASTG": 1})  # type: ignore[call-overload]
            assert changes.changes(HOPPER, dataclasses.replace(HOPPER, **{field.name: other})), field.name

    @pytest.mark.parametrize(
        ("before", "now", "severity"),
        [
            (128, 129, "regression"),  # one block of 256 threads in place of two
            (129, 128, "improvement"),
            (168, 255, "neutral"),  # one block before and after
            (10, 13, "neutral"),  # as many blocks as have room for their threads
        ],
    )
    def test_registers_matter_where_they_leave_room_for_another_block(
        self, before: int, now: int, severity: str
    ) -> None:
        old, new = (dataclasses.replace(HOPPER, threads=256, registers=n) for n in (before, now))
        (change,) = changes.changes(old, new)
        assert (change.words, change.severity) == (f"registers {before} -> {now}", severity)

    def test_rows_come_with_the_worst_first(self) -> None:
        old = {key(name): HOPPER for name in ("same", "gone", "spills", "better", "moved", "slower")}
        new = {
            key("same"): HOPPER,
            key("new"): HOPPER,
            key("moved"): dataclasses.replace(HOPPER, barriers=2),
            key("better"): dataclasses.replace(HOPPER, registers=128),
            key("slower"): dataclasses.replace(HOPPER, static_shared=HOPPER.static_shared + 8),
            key("spills"): dataclasses.replace(HOPPER, spill_loads=4),
        }
        assert [(row.row[1], str(row)) for row in changes.compare(old, new)] == [
            ("spills", "spill loads 0 -> 4"),
            ("slower", f"static shared memory {HOPPER.static_shared} -> {HOPPER.static_shared + 8}"),
            ("gone", "removed"),
            ("new", "added"),
            ("better", "registers 168 -> 128"),
            ("moved", "barriers 1 -> 2"),
        ]

    def test_toolchains(self) -> None:
        assert toolchain_changes(TOOLS, TOOLS) == ""
        assert toolchain_changes(TOOLS, NEWER) == "nvcc 13.0.88 -> 13.1.80"
        assert toolchain_changes(TOOLS, {"nvcc": "13.0.88"}) == "tilelang 0.1.15 -> none"
