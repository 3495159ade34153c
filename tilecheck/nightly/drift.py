"""What slowly becomes slower: 0.3 % a night stays in every night's band, and is 10 % in a month.

Two tests, both of ranks, so that neither asks how times are distributed:

slope  Mann-Kendall (Mann 1945, Kendall 1975): of all pairs of nights, how many more are slower than faster.
step   Wilcoxon's rank sum (1945; as Mann and Whitney's U, 1947): the last nights against those before them.

Their distributions over all orders of n nights are counted, not approximated. So, if nothing drifts and
nights are exchangeable, which is all that is assumed, the chance of a false alarm is at most `FALSE_ALARMS` a
night, over all rows, windows and tests together (Bonferroni): one in 1000 nights. A tie speaks for neither
side. How large a drift is comes from the slope of Theil (1950) and Sen (1968), the median of all pairs'
slopes, and for a step from the medians of both parts. Under `LEAST` in all it is not worth a word.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

FALSE_ALARMS = 1e-3
"""Chance, a night, that anything is reported although nothing drifts."""

SLOPES = (10, 20, 30)
"""Lengths of the windows, in nights, that a slope is looked for in."""

STEP = (20, 10)
"""Nights before a step and after it."""

LEAST = 0.01
"""A smaller change over the whole window than this share is none."""

FEWEST = min(SLOPES)
"""With fewer nights nothing can be said."""

_TESTS = len(SLOPES) + 1

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Drift:
    """A row that becomes slower.

    nights: the window.  per_night: share a night; for a step 0.  total: share over the window.
    chance: of so clear a drift in a row that does not drift.
    """

    row: str
    kind: Literal["slope", "step"]
    nights: int
    per_night: float
    total: float
    chance: float

    def __str__(self) -> str:
        how = (
            f"{self.per_night * 100:+.2f} % a night over {self.nights} nights"
            if self.kind == "slope"
            else f"a step, the last {STEP[1]} nights against the {STEP[0]} before"
        )
        return f"{self.total * 100:+.1f} % ({how}; by chance once in {1 / max(self.chance, 1e-300):.2g} rows)"


def drifts(series: Mapping[str, Sequence[float]], false_alarms: float = FALSE_ALARMS) -> list[Drift]:
    """The rows that become slower, the largest change first.

    series: of each row its times, the oldest first, one a night, all taken alike.
    """
    long = {row: np.log(np.asarray(times)) for row, times in series.items() if len(times) >= FEWEST}
    if not long:
        return []
    bar = false_alarms / (len(long) * _TESTS)
    found = (_worst(row, times, bar) for row, times in long.items())
    return sorted((drift for drift in found if drift is not None), key=lambda drift: -drift.total)


def _worst(row: str, times: Array, bar: float) -> Drift | None:
    candidates = [_slope(row, times[-n:]) for n in SLOPES if len(times) >= n]
    if len(times) >= sum(STEP):
        candidates.append(_step(row, times[-sum(STEP) :]))
    sure = [drift for drift in candidates if drift.chance <= bar and drift.total >= LEAST]
    return min(sure, key=lambda drift: drift.chance, default=None)


def _slope(row: str, times: Array) -> Drift:
    n = len(times)
    slope = theil_sen(times)
    return Drift(
        row,
        "slope",
        n,
        float(np.expm1(slope)),
        float(np.expm1(slope * (n - 1))),
        kendall_chance(n, kendall(times)),
    )


def _step(row: str, times: Array) -> Drift:
    before, after = times[: STEP[0]], times[STEP[0] :]
    total = float(np.expm1(np.median(after) - np.median(before)))
    return Drift(row, "step", len(times), 0.0, total, rank_sum_chance(*STEP, rank_sum(before, after)))


# Statistics: for one history, or for many at once, along the last axis


def kendall(times: Array) -> Array:
    """Pairs of nights of which the later is slower, less those of which it is faster."""
    i, j = np.triu_indices(times.shape[-1], 1)
    return np.asarray(np.sign(times[..., j] - times[..., i]).sum(axis=-1))


def rank_sum(before: Array, after: Array) -> Array:
    """Mann and Whitney's U: pairs of a night before and one after, of which the latter is slower; a tie
    counts half.
    """
    return np.asarray((np.sign(after[..., :, None] - before[..., None, :]) + 1).sum(axis=(-1, -2)) / 2)


def theil_sen(times: Array) -> float:
    """The median of the slopes of all pairs, a night."""
    i, j = np.triu_indices(len(times), 1)
    return float(np.median((times[j] - times[i]) / (j - i)))


# Their distributions, counted


def kendall_chance(nights: int, statistic: float | Array) -> float:
    """Chance of at least this statistic if all orders of the nights are alike."""
    pairs = nights * (nights - 1) // 2
    # An order with k pairs turned round has the statistic pairs - 2 k.
    most = np.floor((pairs - np.asarray(statistic)) / 2).astype(int)
    return float(_kendall_cumulated(nights)[most]) if most >= 0 else 0.0


@functools.cache
def _kendall_cumulated(nights: int) -> Array:
    """By k: the share of orders with at most k pairs turned round (Mahonian numbers)."""
    shares = np.ones(1)
    for n in range(2, nights + 1):
        shares = np.convolve(shares, np.full(n, 1 / n))
    return np.cumsum(shares)


def rank_sum_chance(before: int, after: int, statistic: float | Array) -> float:
    """Chance of at least this U if all orders are alike."""
    least = int(np.ceil(statistic))
    return float(_rank_sum_shares(before, after)[least:].sum())


@functools.cache
def _rank_sum_shares(before: int, after: int) -> Array:
    """By U: its share of all ways to choose which nights are the later ones."""
    # counts[k][u]: ways to choose k of the nights so far, with u pairs.
    counts = [np.zeros(before * after + 1) for _ in range(after + 1)]
    counts[0][0] = 1
    for rank in range(before + after):
        for k in range(min(after, rank + 1), 0, -1):
            beaten = rank - (k - 1)  # of the others, if this night is the k-th chosen one
            if beaten <= before:
                counts[k][beaten:] += counts[k - 1][: before * after + 1 - beaten]
    return np.asarray(counts[after] / counts[after].sum())
