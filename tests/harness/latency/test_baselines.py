"""Files of times: which is the bar, what is wrong with one, and what several make together."""

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilecheck.latency.baselines import (
    BaselineError,
    Run,
    choose,
    model_folder,
    numbered,
    read_run,
    stored_models,
    write_next,
)
from tilecheck.latency.comparison import compare
from tilecheck.latency.gate import Verdict
from tilecheck.latency.noise import noise_between
from tilecheck.latency.promotion import merge, moved, objections

RunFile = Callable[..., Path]

ROWS = {"matmul:square": 100e-6, "row_softmax:wide-fp16": 50e-6}
EXPECTED = ["matmul-square", "row-softmax-wide-fp16"]


def edited(path: Path, change: Callable[[Any], object]) -> Path:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


def places(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where anything is in a file, as keys and positions from the top down."""
    parts = content.items() if isinstance(content, dict) else enumerate(content)
    for key, part in parts:
        yield (*above, key)
        if isinstance(part, (dict, list)):
            yield from places(part, (*above, key))


class TestReading:
    def test_rows_are_known_by_kernel_and_case(self, run_file: RunFile) -> None:
        run = read_run(run_file("run.json", ROWS))
        assert list(run.rows) == EXPECTED
        assert (run.gpu, run.commit, run.dirty, run.failed) == ("NVIDIA H200", "0123456789abcdef", False, ())
        row = run.rows["matmul-square"]
        assert (row.median, row.method, row.vendors, row.noise) == (100e-6, "events", {"cublas": 90e-6}, None)
        assert row.bar.libraries == {"torch": "2.11.0", "cuda": "12.8"}

    def test_benchmarks_of_others_are_passed_over(self, run_file: RunFile) -> None:
        def add(content: Any) -> None:
            content["benchmarks"].append({"name": "test_theirs", "extra_info": {}})

        assert list(read_run(edited(run_file("run.json", ROWS), add)).rows) == EXPECTED

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "line 1, column 1: no JSON: Expecting value"),
            ('{"machine_info": {', "line 1, column 19: no JSON"),
            ("[]", r"the whole is \[\], no object"),
            ('{"benchmarks": []}', "no latency rows in it"),
            ('{"benchmarks": [NaN]}', "no JSON: NaN is no number"),
            ('{"benchmarks": [], "benchmarks": []}', 'no JSON: an object has "benchmarks" twice'),
            ("[" * 100_000, "no JSON: maximum recursion depth"),
        ],
        ids=["empty", "cut-off", "list", "no-rows", "nan", "key-twice", "deep"],
    )
    def test_what_is_no_such_file_is_one_line(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "0001_x.json"
        path.write_text(text)
        with pytest.raises(BaselineError, match=message) as caught:
            read_run(path)
        assert "0001_x.json: " in str(caught.value)
        assert "take it back with git" in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("text", ["{}", '{"schema": 1, "runs": []}'], ids=["object", "report"])
    def test_a_file_of_something_else_is_not_to_be_mended(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "results.json"
        path.write_text(text)
        with pytest.raises(
            BaselineError, match=r"results\.json: it holds no times; `tilecheck calib"
        ) as caught:
            read_run(path)
        assert "mend" not in str(caught.value) and "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda c: c["machine_info"].pop("gpu"), "the whole: machine_info: gpu is missing"),
            (
                lambda c: c["benchmarks"][0]["stats"].pop("median"),
                "row matmul-square: stats: median is missing",
            ),
            (
                lambda c: c["benchmarks"][0]["stats"].update(median="1 us"),
                'stats: median is "1 us", no number > 0',
            ),
            (lambda c: c["benchmarks"][0]["stats"].update(median=-1), "stats: median is -1, no number > 0"),
            (
                lambda c: c["benchmarks"][0]["stats"].update(median=1e-320),
                "median is 1e-320, too small a number",
            ),
            (
                lambda c: c["benchmarks"][0]["stats"].update(median=10**400),
                "median is 10*[.]{3}, too large a",
            ),
            (
                lambda c: c["benchmarks"][0]["extra_info"]["vendors"].update(cublas=1e308),
                r"vendors: cublas is 1e\+308, too large a number",
            ),
            (lambda c: c["benchmarks"][0]["extra_info"].update(noise="low"), 'noise is "low", no number'),
            (lambda c: c["benchmarks"][0]["extra_info"].update(vendors=[]), r"vendors is \[\], no object"),
            (
                lambda c: c["benchmarks"][1]["extra_info"].update(kernel="matmul", case="square"),
                r"benchmarks\[1\]: name is 'test_latency\[row-softmax-wide-fp16\]', and by extra_info it is",
            ),
            (lambda c: c["benchmarks"].append(c["benchmarks"][0]), "row matmul-square occurs twice"),
        ],
    )
    def test_what_a_row_lacks_is_named(
        self, run_file: RunFile, change: Callable[[Any], object], message: str
    ) -> None:
        with pytest.raises(BaselineError, match=message):
            read_run(edited(run_file("run.json", ROWS), change))

    @pytest.mark.parametrize("value", [None, "x", -1, [], {}, True, 10**400, 1e-400, "two\nlines", "\ud800"])
    def test_whatever_is_wrong_in_it_is_one_line_that_can_be_written(
        self, run_file: RunFile, value: Any
    ) -> None:
        path = run_file("run.json", ROWS)
        text = path.read_text()
        told = []
        for place in places(json.loads(text)):
            content = json.loads(text)
            part = functools.reduce(lambda part, key: part[key], place[:-1], content)
            part[place[-1]] = value
            path.write_text(json.dumps(content))
            with contextlib.suppress(BaselineError):
                read_run(path)
                continue
            with pytest.raises(BaselineError) as caught:
                read_run(path)
            told.append(str(caught.value))
        assert len(told) > 10
        assert not [line for line in told if "\n" in line or not line.encode()]

    @pytest.mark.parametrize(
        "name",
        ["min", "max", "mean", "median", "stddev", "q1", "q3", "iqr", "rounds", "iterations", "outliers"],
    )
    @pytest.mark.parametrize("value", ["missing", None, "x", -1, 10**400])
    def test_statistics_that_pytest_benchmark_or_promotion_needs_are_wanted(
        self, run_file: RunFile, name: str, value: Any
    ) -> None:
        def spoil(content: Any) -> None:
            stats = content["benchmarks"][0]["stats"]
            if value == "missing":
                del stats[name]
            else:
                stats[name] = 3 if (name, value) == ("outliers", "x") else value

        with pytest.raises(BaselineError, match=f"row matmul-square: stats: {name} is "):
            read_run(edited(run_file("run.json", ROWS), spoil))

    @pytest.mark.parametrize(("name", "value"), [("rounds", 0.5), ("iterations", 1.5)])
    def test_counts_are_whole(self, run_file: RunFile, name: str, value: float) -> None:
        with pytest.raises(BaselineError, match=f"stats: {name} is {value}, no whole number"):
            read_run(
                edited(
                    run_file("run.json", ROWS), lambda c: c["benchmarks"][0]["stats"].update({name: value})
                )
            )

    @pytest.mark.parametrize("name", ["noise", "ratio_noise"])
    def test_noise_that_would_let_anything_pass_is_refused(self, run_file: RunFile, name: str) -> None:
        with pytest.raises(BaselineError, match=f"{name} is 0.2, more than 0.1"):
            read_run(run_file("run.json", ROWS, extra={name: 0.2}))

    def test_the_steadiest_vendor_has_a_time(self, run_file: RunFile) -> None:
        path = run_file("run.json", ROWS, extra={"steadiest": "cudnn"})
        with pytest.raises(
            BaselineError, match='extra_info: steadiest is "cudnn", and there is no time of it'
        ):
            read_run(path)

    def test_names_of_gpus_may_have_any_sign_of_a_line(self, run_file: RunFile) -> None:
        assert read_run(run_file("run.json", ROWS, gpu="Tesla\u00a0V100 東京")).gpu == "Tesla\u00a0V100 東京"

    def test_no_file_is_an_error_too(self, tmp_path: Path) -> None:
        with pytest.raises(BaselineError, match=r"none\.json: there is no such file"):
            read_run(tmp_path / "none.json")


class TestFolders:
    @pytest.mark.parametrize(
        ("gpu", "folder"),
        [("NVIDIA H200", "nvidia-h200"), ("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3")],
    )
    def test_are_named_after_the_model(self, gpu: str, folder: str) -> None:
        assert model_folder(gpu) == folder

    @pytest.mark.parametrize("gpu", ["", "..", "東京", "京都"])
    def test_a_model_without_a_letter_has_a_folder_of_its_own(self, gpu: str) -> None:
        others = [model_folder(other) for other in ("NVIDIA H200", "大阪")]
        assert model_folder(gpu).startswith("gpu-")
        assert model_folder(gpu) not in others

    def test_models_that_share_words_do_not_share_a_folder(self) -> None:
        names = ["NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA H200 MIG 1g.18gb", "NVIDIA H200 MIG 2g.35gb"]
        folders = {model_folder(name) for name in names}
        assert len(folders) == len(names)
        assert not any("/" in model_folder(f"A/B\\..{name}") for name in names)

    @pytest.mark.parametrize(
        "name",
        ["0002.json", "2_x.json", "00002_x.json", "10000_x.json", "0002-x.json", "0002_.json", "0002_x.JSON"],
    )
    def test_a_name_that_is_all_but_a_number_is_never_passed_over(self, tmp_path: Path, name: str) -> None:
        for each in ("0001_a.json", name):
            (tmp_path / each).touch()
        for asked in (None, "1"):
            with pytest.raises(BaselineError, match=rf"{name} has no name of stored times.*rename it"):
                choose(tmp_path, asked)

    def test_the_newest_number_counts_and_others_by_number_or_name(self, tmp_path: Path) -> None:
        for name in ("0002_b.json", "0010_a.json", "0001_c.json", "notes.json", "0011_x.txt"):
            (tmp_path / name).touch()
        assert [path.name for path in numbered(tmp_path)] == ["0001_c.json", "0002_b.json", "0010_a.json"]
        assert choose(tmp_path, None).name == "0010_a.json"
        for asked in ("2", "0002", "0002_b", "0002_b.json"):
            assert choose(tmp_path, asked).name == "0002_b.json"
        with pytest.raises(BaselineError, match=r"no stored times '7' in .*; there are 0001_c.json, 0002_b"):
            choose(tmp_path, "7")

    def test_two_files_of_one_number_are_one_too_many(self, tmp_path: Path) -> None:
        for name in ("0001_a.json", "0002_b.json", "0002_c.json"):
            (tmp_path / name).touch()
        for asked in (None, "2"):
            message = r"several stored times '0*2' in .*; there are 0002_b.json, 0002_c.json"
            with pytest.raises(BaselineError, match=message):
                choose(tmp_path, asked)
        assert choose(tmp_path, "0002_c").name == "0002_c.json"

    def test_models_without_times_do_not_count(self, tmp_path: Path) -> None:
        (tmp_path / "codegen").mkdir()
        (tmp_path / "codegen" / "sm_90a.json").touch()
        (tmp_path / "nvidia-h200").mkdir()
        (tmp_path / "nvidia-h200" / "0001_a.json").touch()
        assert list(stored_models(tmp_path)) == ["nvidia-h200"]

    def test_numbers_count_up_and_nothing_is_replaced(self, tmp_path: Path) -> None:
        folder = tmp_path / "nvidia-h200"
        paths = [write_next(folder, "tilelang-0.1.15", {"n": n}) for n in range(3)]
        assert [path.name[:5] for path in paths] == ["0001_", "0002_", "0003_"]
        assert [json.loads(path.read_text())["n"] for path in paths] == [0, 1, 2]
        assert sorted(path.name for path in folder.iterdir()) == [path.name for path in paths]


class TestPromotion:
    @staticmethod
    def runs(run_file: RunFile, *factors: float, **parts: Any) -> list[Any]:
        return [
            read_run(run_file(f"run{i}.json", {id: t * factor for id, t in ROWS.items()}, **parts))
            for i, factor in enumerate(factors)
        ]

    def test_of_good_runs_is_not_objected_to(self, run_file: RunFile) -> None:
        assert objections(self.runs(run_file, 1.0, 1.002, 0.999), EXPECTED) == []

    def test_takes_medians_and_the_noise_between_runs(self, run_file: RunFile, tmp_path: Path) -> None:
        runs = self.runs(run_file, 1.0, 1.004, 0.998)
        merged = merge(runs, tmp_path / "0001_x.json")
        row = merged.rows["matmul-square"]
        assert row.median == 100e-6
        assert row.runs == 3
        assert row.noise == pytest.approx(noise_between([100, 100.4, 99.8]))
        assert row.ratio_noise == pytest.approx(row.noise)
        assert (row.steadiest, row.vendor_noise) == ("cublas", 0)
        assert row.machine_noise == max(other.noise or 0.0 for other in merged.rows.values())
        assert row.raw["stats"]["min"] == pytest.approx(0.998 * 99e-6)
        assert row.raw["stats"]["rounds"] == 300
        assert "data" not in row.raw["stats"]
        path = write_next(tmp_path / "stored", "x", merged.raw)
        assert read_run(path).rows["matmul-square"].bar == row.bar

    def test_what_machines_were_known_to_differ_by_is_not_forgotten(
        self, run_file: RunFile, tmp_path: Path
    ) -> None:
        """Runs of machines that are alike would make bands that the next machine leaves."""
        unlike = merge(self.runs(run_file, 1.0, 1.02, 1.01), tmp_path / "0001_x.json")
        alike = self.runs(run_file, 1.0, 1.001, 1.0)

        def shown(before: Run | None) -> float:
            (noise,) = {row.machine_noise for row in merge(alike, tmp_path / "b.json", before).rows.values()}
            return noise

        known = unlike.rows["matmul-square"].machine_noise
        assert shown(None) < 0.001 < known == shown(unlike)
        assert shown(merge(alike, tmp_path / "c.json")) == shown(None)

    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            ({"commit_info": {"id": "abc", "dirty": True}}, "sources changed since commit abc"),
            ({"commit_info": {}}, "of no known commit"),
            (
                {"commit_info": {"id": "fff", "dirty": False}},
                "run3.json is of commit fff, and .*run0.json of",
            ),
            ({"gpu": "NVIDIA H100"}, "run3.json is of NVIDIA H100, and .*run0.json of NVIDIA H200"),
            (
                {"extra": {"toolchain": {"tilelang": "0.1.16", "torch": "2.11.0"}}},
                r"another toolchain than .*run0.json: cuda 12.8 -> none, .*tilelang 0.1.15 -> 0.1.16",
            ),
            ({"tilecheck": {"failed": ["a::b"]}}, "tests failed: a::b"),
            ({"tilecheck": {"strangers": 2}}, "2 other processes computed on the GPU"),
            (
                {"extra": {"throttled": ["power cap", "temperature"]}},
                r"matmul-square: the driver lowered the clock \(temperature\)",
            ),
            (
                {"extra": {"clock_mhz": 1900}},
                "matmul-square: at 1900 to 1980 MHz; clocks may differ by 1.5 %",
            ),
            ({"extra": {"clock_mhz": 0}}, "matmul-square: the clock is unknown"),
            ({"extra": {"method": "graph64"}}, r"the runs differ in method: events \| graph64"),
            ({"extra": {"schedule": "x"}}, "the runs differ in schedule"),
            ({"extra": {"source_hash": "x"}}, "the runs differ in source hash"),
            ({"vendor": None}, "the runs differ in vendors"),
            (
                {"vendor": 50e-6},
                "matmul-square: over cublas, its runs differ by 80.0 %, and those of it by 80.0 %; no",
            ),
            ({"datetime": ""}, "run3.json: does not say when it was taken"),
            ({"rows": {"matmul:square": 1e-4}}, "run3.json: without row-softmax-wide-fp16"),
            ({"rows": {**ROWS, "old:row": 1e-4}}, "run3.json: with rows that no kernel has: old-row"),
            ({"rows": {**ROWS, "matmul:square": 1.06e-4}}, "matmul-square: 100 us to 106 us; the runs may"),
        ],
    )
    def test_is_refused_with_the_reason(self, run_file: RunFile, parts: dict[str, Any], message: str) -> None:
        import re

        runs = self.runs(run_file, 1.0, 1.0, 1.0)
        runs.append(read_run(run_file("run3.json", **{"rows": ROWS, **parts})))
        found = objections(runs, EXPECTED)
        assert any(re.search(message, line) for line in found), found

    def test_the_bar_is_the_steadiest_vendor_and_times_are_medians_over_the_runs(
        self, run_file: RunFile, tmp_path: Path
    ) -> None:
        runs = []
        for factor, fast in ((1.02, 70e-6), (1.0, 72e-6), (0.99, 74e-6)):
            vendors = {"fast": fast, "steady": factor * 90e-6}
            rows = {"matmul:square": factor * 1e-4}
            extra = {"vendors": vendors, "clock_mhz": 1980 * factor}
            runs.append(read_run(run_file(f"{factor}.json", rows, extra=extra)))
        merged = merge(runs, tmp_path / "0001_x.json")
        assert merged.made_of == tuple(run.taken for run in runs)
        row = merged.rows["matmul-square"]
        assert (row.median, row.clock_mhz) == (1e-4, 1980)
        assert row.vendors == {"fast": 72e-6, "steady": 90e-6}
        assert (row.steadiest, row.ratio_noise) == ("steady", pytest.approx(0, abs=1e-12))
        assert (row.vendor_noise, row.machine_noise) == pytest.approx((row.noise, row.noise))
        assert row.raw["extra_info"]["vendor_ratio"] == pytest.approx(100 / 72)
        assert row.raw["stats"]["outliers"] == "2;1" and row.raw["extra_info"]["clock_mhz"] == 1980

    def test_a_vendor_that_moved_too_far_is_refused_although_the_ratio_did_not(
        self, run_file: RunFile, tmp_path: Path
    ) -> None:
        runs = self.runs(run_file, 1.0, 1.0)
        rows = {id: 0.955 * time for id, time in ROWS.items()}
        runs.append(read_run(run_file("run3.json", rows, vendor=0.83 * 90e-6)))
        found = objections(runs, EXPECTED)
        assert len(found) == 2
        assert "matmul-square: over cublas, its runs differ by 15.1 %, and those of it by 20.5 %" in found[0]
        with pytest.raises(BaselineError, match=r"vendor_noise is 0\.1\d+, more than 0\.1"):
            merge(runs, tmp_path / "0001_x.json")  # which could not be read

    def test_wants_three_runs_each_of_its_own(self, run_file: RunFile) -> None:
        runs = self.runs(run_file, 1.0, 1.0)
        assert any("2 of at least 3 runs" in line for line in objections(runs, EXPECTED))
        again = [*runs, runs[0], runs[0]]
        assert sum("is the same run as" in line for line in objections(again, EXPECTED)) == 2

    def test_says_what_moved(self, run_file: RunFile, tmp_path: Path) -> None:
        old = read_run(run_file("old.json", {"matmul:square": 100e-6, "gone:row": 1e-5}))
        new = read_run(run_file("new.json", {"matmul:square": 110e-6, "row_softmax:wide-fp16": 5e-5}))
        assert list(moved(old, new)) == [
            "matmul-square: 100 us -> 110 us, +10.0 %",
            "row-softmax-wide-fp16: 50 us, new",
            "gone-row: dropped",
        ]
        assert next(moved(None, old)) == "matmul-square: 100 us, new"


class TestComparison:
    def test_judges_every_row_as_the_gate_does(self, run_file: RunFile) -> None:
        old = read_run(run_file("a.json", ROWS))
        new = read_run(run_file("b.json", {"matmul:square": 110e-6, "row_softmax:wide-fp16": 50e-6}))
        found = compare(old, new)
        assert found.judgements["matmul-square"].verdict is Verdict.SLOWER
        assert found.judgements["row-softmax-wide-fp16"].verdict is Verdict.SAME
        assert found.exit_code == 1
        assert list(found.lines())[-1] == "2 rows: 1 slower, 0 inconclusive, 0 faster, 1 same"

    def test_a_toolchain_that_changed_for_some_rows_is_told(self, run_file: RunFile) -> None:
        def change(content: Any) -> None:
            content["benchmarks"][1]["extra_info"]["toolchain"]["driver"] = "590.1"

        old = read_run(run_file("old.json", ROWS))
        new = read_run(edited(run_file("new.json", ROWS), change))
        assert compare(old, new).toolchain == "driver 580.65 -> 590.1"

    def test_rows_of_one_file_only_leave_it_open(self, run_file: RunFile) -> None:
        old = read_run(run_file("a.json", ROWS))
        new = read_run(run_file("b.json", {"matmul:square": 100e-6}))
        assert compare(old, old).exit_code == 0
        assert compare(old, new).exit_code == compare(new, old).exit_code == 3
        assert "row-softmax-wide-fp16: only in the first file" in list(compare(old, new).lines())

    def test_other_gpus_and_other_rows_are_not_compared(self, run_file: RunFile) -> None:
        old = read_run(run_file("a.json", ROWS))
        with pytest.raises(BaselineError, match=r"is of NVIDIA H200, and .* of NVIDIA B200"):
            compare(old, read_run(run_file("b.json", ROWS, gpu="NVIDIA B200")))
        with pytest.raises(BaselineError, match="have no row in common"):
            compare(old, read_run(run_file("c.json", {"other:row": 1e-6})))
