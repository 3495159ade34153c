"""What people and scripts get to see of a comparison."""

import json
from collections import Counter
from collections.abc import Sequence
from statistics import median

from tilecheck.ab.match import Result
from tilecheck.counting import many
from tilecheck.latency.gate import Verdict

ROW = "{row:44} {old:>10} {new:>10} {ratio:>7}  {verdict}"


def line(result: Result) -> str:
    """One row: both medians, new over old, and the verdict with its reason."""
    verdict = "not compared" if result.pairs is None else result.verdict.value
    reason = f": {result.reason}" if result.reason else ""
    if result.pairs is None:
        return ROW.format(row=result.row, old="", new="", ratio="", verdict=f"{verdict}{reason}")
    pairs = result.pairs
    return ROW.format(
        row=result.row,
        old=microseconds(median(pairs.old)),
        new=microseconds(median(pairs.new)),
        ratio=f"{pairs.ratio:.3f}",
        verdict=f"{verdict}{reason}",
    )


def microseconds(seconds: float) -> str:
    """ "187.04 us"."""
    return f"{seconds * 1e6:.2f} us"


def summary(results: Sequence[Result], only: Sequence[str], old: str, new: str) -> str:
    """The last lines: how many of each verdict, and rows that only one side has."""
    compared = [result for result in results if result.pairs is not None]
    count = Counter(result.verdict for result in compared)
    counted = [f"{count[verdict]} {verdict.value}" for verdict in Verdict if count[verdict]]
    if missing := len(results) - len(compared):
        counted.append(f"{missing} not compared")
    lines = [f"{old} -> {new}: {', '.join(counted)}"]
    if only:
        lines.append(f"{many(len(only), 'row')} of one side alone: {', '.join(only)}")
    return "\n".join(lines)


def as_json(results: Sequence[Result], only: Sequence[str], old: str, new: str) -> str:
    """For programs: "old" and "new" name the sides; "rows" has a verdict each, with medians in seconds and
    the new over the old, None where they could not be compared; "only" is of one side alone.
    """
    rows = [
        {
            "row": result.row,
            "verdict": "not compared" if result.pairs is None else result.verdict.value,
            "old": None if result.pairs is None else median(result.pairs.old),
            "new": None if result.pairs is None else median(result.pairs.new),
            "ratio": None if result.pairs is None else result.pairs.ratio,
            "reason": result.reason,
            "wrong": result.wrong,
        }
        for result in results
    ]
    return json.dumps({"old": old, "new": new, "rows": rows, "only": list(only)}, indent=1) + "\n"


def exit_code(results: Sequence[Result]) -> int:
    """1: a row is slower, or the new side is at fault; 3: not all could be told; 0: nothing is slower."""
    if any(result.wrong or result.verdict is Verdict.SLOWER for result in results):
        return 1
    return 3 if any(result.verdict is Verdict.INCONCLUSIVE for result in results) else 0
