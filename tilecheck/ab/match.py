"""The run: rows that both sides have, timed in turn, with a verdict each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilecheck.ab.bench import Bench
from tilecheck.ab.pairs import PAIRS, Pairs, order
from tilecheck.ab.sides import RowError
from tilecheck.counting import many
from tilecheck.latency.gate import Verdict

CLOCK = 0.01
"""Sides whose clocks differ by more than this share met different machines."""


@dataclass(frozen=True)
class Result:
    """What came of one row.

    pairs: None where it could not be compared, for the `reason`, which may also qualify a verdict.
    wrong: whether the new side is at fault for that: it does not compile, or its output is wrong.
    """

    row: str
    verdict: Verdict
    pairs: Pairs | None = None
    reason: str = ""
    wrong: bool = False


def shared_rows(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], list[str]]:
    """Rows of both sides, in the new one's order, and those that only one has."""
    only = [row for row in (*old, *new) if (row in old) != (row in new)]
    return [row for row in new if row in old], only


def play(
    old: Bench, new: Bench, rows: Sequence[str], told: Callable[[str], None], pairs: int = PAIRS
) -> Iterator[Result]:
    """Compares `rows`, one after the other; everything is compiled before the first is timed.

    told: called with a line before anything that takes long.
    """
    failed: list[dict[str, str]] = []
    for bench, name in ((old, "old"), (new, "new")):
        told(f"compiling {many(len(rows), 'kernel')} of the {name} side")
        failed.append(bench.prepare(rows))
    for row in rows:
        try:
            yield _reject(row, failed) or _wrong(row, old, new) or _time(row, old, new, pairs)
        except RowError as error:  # no reason to leave the others untimed
            yield Result(row, Verdict.INCONCLUSIVE, reason=str(error))


def _reject(row: str, failed: Sequence[dict[str, str]]) -> Result | None:
    for side, errors in zip(("old", "new"), failed, strict=True):
        if row in errors:
            reason = f"{side} side: {errors[row]}"
            return Result(row, Verdict.INCONCLUSIVE, reason=reason, wrong=side == "new")
    return None


def _wrong(row: str, old: Bench, new: Bench) -> Result | None:
    for side, bench in (("new", new), ("old", old)):
        if found := bench.check(row):
            return Result(row, Verdict.INCONCLUSIVE, reason=f"{side} side: {found}", wrong=side == "new")
    return None


def _time(row: str, old: Bench, new: Bench, count: int) -> Result:
    blocks: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    method: str | None = None  # that of the first block, which is the old side's
    for pair in range(count):
        for side in order(pair):
            blocks[side].append((old, new)[side].time(row, method))
            method = method or str(blocks[side][0]["method"])
    seconds = [tuple(float(block["seconds"]) for block in side) for side in blocks]
    pairs = Pairs(*seconds)
    methods = {str(block["method"]) for side in blocks for block in side}
    if len(methods) > 1:
        reason = f"taken differently: {' and '.join(sorted(methods))}"
        return Result(row, Verdict.INCONCLUSIVE, pairs, reason)
    clocks = [sorted(float(block["clock_mhz"]) for block in side)[count // 2] for side in blocks]
    if clocks[0] and abs(clocks[1] / clocks[0] - 1) > CLOCK:
        reason = f"clocks differ: {clocks[0]:.0f} and {clocks[1]:.0f} MHz"
        return Result(row, pairs.verdict, pairs, reason)
    return Result(row, pairs.verdict, pairs)
