"""How often the gate alarms where nothing changed: which runs count, what is kept, and what it proves."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.latency.conftest import TOOLCHAIN, RunFile
from tilecheck.latency.alarms import Trial, keep, read, summary, trial, upper_bound
from tilecheck.latency.baselines import BaselineError, read_run

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


def of(taken: str, *verdicts: str, baseline: str = "0001_bar.json") -> Trial:
    rows = {f"row-{i}": verdict for i, verdict in enumerate(verdicts)}
    return Trial(taken, baseline, rows, dict.fromkeys(rows, (0.02, None)))


class TestSummary:
    def test_counts_rows_and_runs_and_says_what_that_proves(self) -> None:
        trials = [of("a", "same", "same"), of("b", "same", "slower"), of("c", "inconclusive", "same")]
        assert list(summary(trials)) == [
            "b: row-1: slower: +2.0 %",
            "c: row-0: inconclusive: +2.0 %",
            "3 runs of unchanged kernels, 6 rows: 4 same, 1 slower, 0 faster, 1 inconclusive",
            "slower: 1 of 6 rows, under 582 of 1000; 1 of 3 runs, under 86.5 % of runs, whose rows are not "
            "independent (both with 95% confidence)",
            "anything but the same: 2 of 6 rows, under 729 of 1000; 2 of 3 runs, under 98.3 % of runs, whose "
            "rows are not independent (both with 95% confidence)",
        ]

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

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("{", "line 2: no verdicts of a run"),
            ("[]", "line 2: no verdicts of a run"),
            ('{"version": 1, "taken": "a", "baseline": "b", "rows": {"x": ["fine", 0, null]}}', "fine"),
            ('{"version": 2}', "line 2: of version 2; this reads 1"),
        ],
    )
    def test_what_cannot_be_read_is_said_and_kept(self, tmp_path: Path, line: str, words: str) -> None:
        file = tmp_path / "alarms.jsonl"
        keep(file, [of("a", "same")])
        file.write_text(text := f"{file.read_text()}{line}\n")
        with pytest.raises(BaselineError, match=words):
            keep(file, [of("b", "same")])
        assert file.read_text() == text
