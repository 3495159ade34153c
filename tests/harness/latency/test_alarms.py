"""How often the gate alarms where nothing changed: which runs count, what is kept, and what it proves."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness.latency.conftest import TOOLCHAIN, RunFile
from tilecheck.latency.alarms import FILE, Trial, against, keep, read, summary, trial, upper_bound
from tilecheck.latency.baselines import BaselineError, StoredRow, choose, read_run, stored_models
from tilecheck.latency.gate import Measurement, judge

LINE = '{"version": 2, "taken": "b", "baseline": "b", "digest": "d", "rows": %s}'
KNOWN = {"noise": 0.001, "ratio_noise": 0.001, "vendor_noise": 0.001, "steadiest": "cublas"}


@pytest.fixture
def bar(run_file: RunFile) -> Any:
    rows = {"matmul:square": 1e-4, "matmul:wide": 2e-4}
    return read_run(run_file("0001_bar.json", rows, extra=KNOWN, tilecheck={"runs": ["then"]}))


class TestTrial:
    def test_judges_each_row_once(self, run_file: RunFile, bar: Any) -> None:
        new = read_run(run_file("new.json", {"matmul:square": 1.001e-4, "matmul:wide": 2.1e-4}))
        found = trial(new, bar)
        assert found.verdicts == {"matmul-square": "same", "matmul-wide": "slower"}
        assert found.changes == {"matmul-square": (0.001, 0.001), "matmul-wide": (0.05, 0.05)}
        assert (found.taken, found.baseline, found.alarms) == (new.taken, "0001_bar.json", 1)
        assert found.digest == bar.digest

    @pytest.mark.parametrize(
        "extra",
        [
            {"schedule": "Schedule(stages=3)"},
            {"source_hash": "def"},
            {"method": "graph64"},
            {"toolchain": {**TOOLCHAIN, "driver": "590.1"}},
        ],
        ids=lambda extra: next(iter(extra)),
    )
    def test_a_changed_kernel_is_no_false_alarm(
        self, run_file: RunFile, bar: Any, extra: dict[str, Any]
    ) -> None:
        path = run_file("new.json", {"matmul:square": 1e-4, "matmul:wide": 4e-4})
        content = json.loads(path.read_text())
        content["benchmarks"][1]["extra_info"].update(extra)
        path.write_text(json.dumps(content))
        assert trial(read_run(path), bar).verdicts == {"matmul-square": "same"}

    @pytest.mark.parametrize(
        ("parts", "words"),
        [
            ({"gpu": "NVIDIA A100"}, "is of NVIDIA A100, and .* of NVIDIA H200"),
            ({"datetime": "then"}, "was made of"),
            ({"datetime": ""}, "does not say when it was taken"),
            ({"extra": {"source_hash": "def"}}, "has no row that is the same kernel"),
        ],
    )
    def test_what_proves_nothing_is_refused(
        self, run_file: RunFile, bar: Any, parts: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(BaselineError, match=words):
            trial(read_run(run_file("new.json", {"matmul:square": 1e-4}, **parts)), bar)

    def test_a_run_that_is_the_baseline_itself_proves_nothing(self, run_file: RunFile) -> None:
        saved = read_run(run_file("0001_saved.json", {"matmul:square": 1e-4}))
        with pytest.raises(BaselineError, match="was made of"):
            trial(saved, saved)


def of(taken: str, *verdicts: str, baseline: str = "0001_bar.json", digest: str = "now") -> Trial:
    rows = {f"row-{i}": verdict for i, verdict in enumerate(verdicts)}
    return Trial(taken, baseline, digest, rows, dict.fromkeys(rows, (0.02, None)))


class TestSummary:
    def test_counts_rows_and_runs_and_says_what_that_proves(self) -> None:
        trials = [of("a", "same", "same"), of("b", "same", "slower"), of("c", "inconclusive", "same")]
        assert list(summary(trials)) == [
            "b: row-1: slower: +2.0 %",
            "c: row-0: inconclusive: +2.0 %",
            "3 runs of unchanged kernels, of 2 rows each, 6 in all: 4 same, 1 slower, 0 faster, "
            "1 inconclusive",
            "slower: 1 of 6 rows, under 582 of 1000; 1 of 3 runs, under 86.5 % of runs, whose rows are not "
            "independent (both with 95% confidence)",
            "anything but the same: 2 of 6 rows, under 729 of 1000; 2 of 3 runs, under 98.3 % of runs, whose "
            "rows are not independent (both with 95% confidence)",
        ]

    def test_says_how_many_rows_a_run_has_that_counts_as_one(self) -> None:
        *_, counts, _, _ = summary([of("a", "same"), of("b", "same", "same", "same")])
        assert counts.startswith("2 runs of unchanged kernels, of 1 to 3 rows each, 4 in all: 4 same")

    def test_one_of_a_kind_is_not_several(self) -> None:
        one = list(summary([of("a", "same")]))
        assert one[0] == "1 run of unchanged kernels, of 1 row: 1 same, 0 slower, 0 faster, 0 inconclusive"
        assert "0 of 1 row, under" in one[1] and "0 of 1 run, under" in one[1]
        assert next(summary([of("a", "same", "same")])).startswith(
            "1 run of unchanged kernels, of 2 rows: 2 "
        )
        assert next(summary([of("a", "same"), of("b", "same")])).startswith(
            "2 runs of unchanged kernels, of 1 row each, 2 in all: 2 same"
        )

    @pytest.mark.parametrize(
        ("events", "of", "bound"),
        [(0, 900, 0.00332), (0, 15, 0.181), (1, 100, 0.0466), (5, 100, 0.1023), (3, 3, 1.0)],
    )
    def test_the_bound_is_that_of_clopper_and_pearson(self, events: int, of: int, bound: float) -> None:
        assert upper_bound(events, of) == pytest.approx(bound, rel=0.003)

    @pytest.mark.parametrize(("events", "of"), [(0, 0), (-1, 5), (6, 5)])
    def test_no_share_has_no_bound(self, events: int, of: int) -> None:
        with pytest.raises(ValueError, match=f"{events} events of {of}"):
            upper_bound(events, of)


class TestKept:
    def test_later_runs_add_to_those_that_are_kept(self, tmp_path: Path) -> None:
        file = tmp_path / "gpu" / "alarms.jsonl"
        assert read(file) == []
        assert keep(file, [of("a", "same")]) == [of("a", "same")]
        again = of("a", "same", baseline="0002_bar.json")
        assert keep(file, [of("b", "slower"), of("a", "same"), again]) == read(file)
        assert read(file) == [of("a", "same"), of("b", "slower"), again]

    def test_a_run_counts_once_under_whatever_name(self, tmp_path: Path) -> None:
        file = tmp_path / FILE
        assert keep(file, [of("a", "same"), of("a", "same")]) == [of("a", "same")]
        file.write_text(file.read_text() * 2)
        with pytest.raises(BaselineError, match="line 2: the run of a is there twice; remove the line"):
            read(file)

    def test_verdicts_on_what_a_baseline_was_before_count_no_more(
        self, run_file: RunFile, bar: Any, tmp_path: Path
    ) -> None:
        new = read_run(run_file("new.json", {"matmul:square": 1.01e-4}))
        first = keep(tmp_path / FILE, [trial(new, bar), of("b", "same", digest=bar.digest)])
        assert against(bar, [*first, of("a", "slower", baseline="0002_bar.json")]) == (first, 0)
        content = json.loads(bar.path.read_text())
        bar.path.write_text(json.dumps(content, indent=3))
        assert read_run(bar.path).digest == bar.digest
        content["benchmarks"][0]["stats"]["median"] = 0.9e-4
        bar.path.write_text(json.dumps(content))
        other = read_run(bar.path)
        assert against(other, first) == ([], 2)
        kept = keep(tmp_path / FILE, [trial(new, other)])
        assert len(kept) == 2
        assert against(other, kept) == ([trial(new, other)], 1)
        assert trial(new, other).verdicts == {"matmul-square": "slower"}

    def test_two_that_keep_at_once_lose_nothing(self, tmp_path: Path) -> None:
        file = tmp_path / FILE
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: keep(file, [of(f"{n}", "same")]), range(24)))
        assert {each.taken for each in read(file)} == {f"{n}" for n in range(24)}

    def test_where_it_cannot_be_written_it_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "gpu").touch()
        with pytest.raises(BaselineError, match=r"gpu/alarms.jsonl: not written: "):
            keep(tmp_path / "gpu" / FILE, [of("a", "same")])

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("{", "line 2: no verdicts of a run"),
            ("[]", "line 2: no verdicts of a run"),
            ("", "line 2: no verdicts of a run"),
            ("[" * 100_000, "line 2: no verdicts of a run"),
            (LINE % '{"x": ["fine", 0, null]}', "fine"),
            (LINE % '{"x": ["same", NaN, null]}', "nan is no share"),
            (LINE % '{"x": ["same", 0, 1e999]}', "inf is no share"),
            (LINE % "{}", "no rows"),
            (LINE % "[]", "line 2: no verdicts of a run"),
            (LINE.replace('"digest": "d", ', "") % '{"x": ["same", 0, null]}', "digest"),
            ('{"version": 1}', "line 2: of version 1; this reads 2"),
        ],
    )
    def test_what_cannot_be_read_is_said_and_kept(self, tmp_path: Path, line: str, words: str) -> None:
        file = tmp_path / "alarms.jsonl"
        keep(file, [of("a", "same")])
        file.write_text(text := f"{file.read_text()}{line}\n")
        with pytest.raises(BaselineError, match=words):
            keep(file, [of("b", "same")])
        assert file.read_text() == text


def test_the_verdicts_that_are_kept_in_this_repository_are_those_of_todays_gate() -> None:
    root = Path(__file__).parents[3] / "baselines"
    for model in stored_models(root):
        bar = read_run(choose(root / model, None))
        kept, outdated = against(bar, read(root / model / FILE))
        assert not outdated, f"{bar.path.name} was changed; hold the runs against it again"
        for each in kept:
            for id, verdict in each.verdicts.items():
                measured = _as_it_was(bar.rows[id], *each.changes[id])
                assert judge(measured, bar.rows[id].bar).verdict.value == verdict, (each.taken, id)


def _as_it_was(stored: StoredRow, time: float, ratio: float | None) -> Measurement:
    """A measurement that differs from the stored row by these shares."""
    vendors = {}
    if ratio is not None:
        vendors = {name: seconds * (1 + time) / (1 + ratio) for name, seconds in stored.vendors.items()}
    return replace(stored.measurement, median=stored.median * (1 + time), vendors=vendors)
