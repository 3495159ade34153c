"""Is a schedule faster than the one in use, or is it noise? Pure arithmetic on times taken in turn."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilecheck.gist import telling_line, wrong_line
from tilecheck.tuning.outcomes import Failure, Timing

LEAST_GAIN = 0.005
"""Share of the time of the default: two processes agree within 0.2 to 0.3 % (`tilecheck.latency.timing`)."""

FINALISTS = 3
"""The fastest of a search, which meet the default once more."""

REPEATS = 5
TURN_BUDGET = 1.5
"""Seconds of samples for one turn of all contenders."""


@dataclass(frozen=True)
class Confirmed:
    """Whether `winner` is to be kept, and why.

    median, default: seconds, medians over the turns; default is None where the default has no time.
    noise: how far the default's own time moved from turn to turn, as a share.
    gain: share of the default's time that the winner saves, the median over the turns; None without default.
    """

    winner: str
    kept: bool
    reason: str
    median: float
    timing: Timing
    default: float | None = None
    noise: float = 0.0
    gain: float | None = None


def confirmed(
    turns: Sequence[Mapping[str, Timing]], default: str, failure: Failure | None = None
) -> Confirmed:
    """The best contender of `turns` against the one called `default`.

    turns: times by name, the same names in each.  failure: why the default is not among them, although it
    has a time of its own: none is faster then, as far as is known. Raises ValueError where there is none.
    """
    medians = {name: statistics.median(turn[name].median for turn in turns) for name in (turns or [{}])[0]}
    if not medians:
        raise ValueError("nothing was timed in turn")
    others = [name for name in medians if name != default]
    winner = min(others, key=lambda name: medians[name], default=default)
    gains: list[float] = []
    noise = 0.0
    if default in medians:
        gains = [1 - turn[winner].median / turn[default].median for turn in turns]
        noise = max(abs(turn[default].median / medians[default] - 1) for turn in turns)
    methods = {turn[name].method for turn in turns for name in (winner, default) if name in turn}
    if not others:
        kept, reason = False, "nothing else is right and has a time"
    elif failure is not None:
        line = wrong_line if failure.kind == "wrong" else telling_line
        kept = False
        reason = f"the default had a time, and none in turn: {failure.kind}: {line(failure.reason)}"
    elif not gains:
        kept, reason = True, "the default has no time"
    elif len(methods) > 1:
        kept, reason = False, f"times taken by {' and by '.join(sorted(methods))} are not compared"
    else:
        kept, reason = _faster(gains, noise)
    return Confirmed(
        winner=winner,
        kept=kept,
        reason=reason,
        median=medians[winner],
        timing=min((turn[winner] for turn in turns), key=lambda t: abs(t.median - medians[winner])),
        default=medians.get(default),
        noise=noise,
        gain=statistics.median(gains) if gains else None,
    )


def _faster(gains: Sequence[float], noise: float) -> tuple[bool, str]:
    """Whether these shares of the default's time, saved in each turn, are a gain; with the reason."""
    gain, least = statistics.median(gains), max(LEAST_GAIN, noise)
    if gain <= -least:
        return False, f"{gain:+.2%}: slower"
    if gain <= least:
        return False, f"{gain:+.2%} is within noise, {least:.2%}"
    if min(gains) <= 0:
        return False, f"{gain:+.2%}, but not in every turn: {min(gains):+.2%} in one"
    return True, f"{gain:+.2%}, over noise of {least:.2%}"
