"""The run of a comparison, between benches whose times are made."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilecheck.ab.match import Result, play, shared_rows
from tilecheck.ab.report import as_json, exit_code, line, summary
from tilecheck.ab.sides import RowError
from tilecheck.latency.gate import Verdict

ROWS = ["a-one", "a-two", "b-one"]


@dataclass
class FakeBench:
    """times: seconds of each row.  log: what was asked, shared by both sides."""

    name: str
    times: dict[str, float]
    log: list[tuple[str, str]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    method: str = "events"
    stubborn: bool = False
    clock: float = 1980.0

    def rows(self) -> list[str]:
        return list(self.times)

    def prepare(self, rows: Sequence[str]) -> dict[str, str]:
        self.log.append((self.name, "prepare"))
        return {row: error for row, error in self.refused.items() if row in rows}

    def check(self, row: str) -> str | None:
        return self.wrong.get(row)

    def time(self, row: str, method: str | None = None) -> dict[str, Any]:
        self.log.append((self.name, row))
        taken = method if method and not self.stubborn else self.method
        return {"seconds": self.times[row], "clock_mhz": self.clock, "method": taken}


def played(new: dict[str, float], **changes: Any) -> tuple[list[Result], list[tuple[str, str]]]:
    log: list[tuple[str, str]] = []
    old = FakeBench("old", dict.fromkeys(new, 1e-3), log)
    return list(play(old, FakeBench("new", new, log, **changes), list(new), lambda _: None)), log


def test_verdicts_and_exit_code() -> None:
    results, _ = played({"a-one": 1e-3, "a-two": 1.03e-3, "b-one": 0.9e-3})
    assert [result.verdict for result in results] == [Verdict.SAME, Verdict.SLOWER, Verdict.FASTER]
    assert exit_code(results) == 1
    assert exit_code([results[0], results[2]]) == 0


def test_everything_is_compiled_before_the_first_is_timed_and_sides_take_turns() -> None:
    _, log = played({"a-one": 1e-3, "b-one": 1e-3})
    assert log[:2] == [("old", "prepare"), ("new", "prepare")]
    assert log[2:6] == [("old", "a-one"), ("new", "a-one"), ("new", "a-one"), ("old", "a-one")]
    assert [row for _, row in log[2:]] == ["a-one"] * 16 + ["b-one"] * 16


@pytest.mark.parametrize("kind", ["refused", "wrong"])
def test_a_new_side_that_does_not_compile_or_is_wrong_is_never_timed(kind: str) -> None:
    results, log = played({"a-one": 1e-3, "b-one": 1e-3}, **{kind: {"a-one": "why"}})
    assert results[0] == Result("a-one", Verdict.INCONCLUSIVE, None, "new side: why", wrong=True)
    assert ("new", "a-one") not in log
    assert results[1].verdict is Verdict.SAME
    assert exit_code(results) == 1
    assert "not compared: new side: why" in line(results[0])


def test_an_old_side_at_fault_is_no_fault_of_the_new() -> None:
    old = FakeBench("old", {"a-one": 1e-3}, wrong={"a-one": "why"})
    results = list(play(old, FakeBench("new", {"a-one": 1e-3}), ["a-one"], lambda _: None))
    assert not results[0].wrong
    assert exit_code(results) == 3


def test_times_taken_differently_are_not_compared() -> None:
    results, _ = played({"a-one": 2e-3}, method="graph64", stubborn=True)
    assert results[0].verdict is Verdict.INCONCLUSIVE
    assert results[0].reason == "taken differently: events and graph64"


def test_the_new_side_is_timed_as_the_old_one_was() -> None:
    results, _ = played({"a-one": 1.1e-3}, method="graph64")
    assert results[0].verdict is Verdict.SLOWER


def test_clocks_that_differ_are_told() -> None:
    results, _ = played({"a-one": 1.1e-3}, clock=1800.0)
    assert (results[0].verdict, results[0].reason) == (Verdict.SLOWER, "clocks differ: 1980 and 1800 MHz")


@pytest.mark.parametrize("asked", ["check", "time"])
def test_a_row_that_raises_leaves_the_others_to_be_compared(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = getattr(FakeBench, asked)

    def broken(self: FakeBench, row: str, *more: Any) -> Any:
        if (self.name, row) == ("new", "a-one"):
            raise RowError("HEAD: OutOfMemoryError: CUDA out of memory")
        return answer(self, row, *more)

    monkeypatch.setattr(FakeBench, asked, broken)
    results, _ = played({"a-one": 1e-3, "b-one": 1e-3})
    reason = "HEAD: OutOfMemoryError: CUDA out of memory"
    assert results[0] == Result("a-one", Verdict.INCONCLUSIVE, None, reason)
    assert results[1].verdict is Verdict.SAME
    assert exit_code(results) == 3


def test_rows_of_one_side_are_told() -> None:
    rows, only = shared_rows(["a-one", "gone"], ["new", "a-one"])
    assert (rows, only) == (["a-one"], ["gone", "new"])
    results, _ = played({"a-one": 1e-3})
    assert summary(results, only, "HEAD~1", "working tree") == (
        "HEAD~1 -> working tree: 1 same\n2 rows of one side alone: gone, new"
    )


def test_line_has_both_medians_and_the_ratio() -> None:
    results, _ = played({"a-one": 1.03e-3})
    assert line(results[0]).split() == ["a-one", "1000.00", "us", "1030.00", "us", "1.030", "slower"]


def test_results_for_programs() -> None:
    results, _ = played({"a-one": 1.03e-3, "a-two": 1e-3}, refused={"a-two": "no such intrinsic"})
    content = json.loads(as_json(results, ["gone"], "HEAD~1", "working tree"))
    assert (content["old"], content["new"], content["only"]) == ("HEAD~1", "working tree", ["gone"])
    one, two = content["rows"]
    assert one["ratio"] == pytest.approx(1.03) and one["new"] == pytest.approx(1.03e-3)
    assert (one["row"], one["verdict"], one["wrong"]) == ("a-one", "slower", False)
    assert (two["verdict"], two["ratio"], two["wrong"]) == ("not compared", None, True)
