"""What times taken in turn say of two sides. Pure arithmetic.

One block of samples of each side, one right after the other, is a pair; its ratio knows of no drift that is
slower than a pair. Of n independent ratios, the true median lies between the smallest and the largest but for
a chance of 2 / 2^n, whatever their distribution (the sign test; Conover, Practical Nonparametric Statistics).
With 8 pairs that is 1 in 128.

That is of two processes, and not of what they run: the memory that their tensors lie in differs, so that
identical code is steadily slower in one than in the other. On an H200, of 76 rows 74 were within 0.3 %, and
all within 0.51 %; another time a vector add of identical SASS was slower by 0.7 % in all eight pairs. No
number of pairs tells that from a slower kernel, so `LEAST` is above it.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tilecheck.latency.gate import Verdict

PAIRS = 8

SAME_WITHIN = 0.015
"""A row is the same if all ratios are within this share of 1."""

LEAST = 0.01
"""A smaller change than this is none, however sure it is: identical code differs by up to 0.7 % between two
processes.
"""


@dataclass(frozen=True)
class Pairs:
    """Medians of blocks, in seconds, of the old and the new side, in turn; both of one length."""

    old: tuple[float, ...]
    new: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.old) != len(self.new) or not self.old:
            raise ValueError(f"{len(self.old)} blocks of the old side and {len(self.new)} of the new")

    @property
    def ratios(self) -> tuple[float, ...]:
        """New over old, of each pair."""
        return tuple(new / old for old, new in zip(self.old, self.new, strict=True))

    @property
    def ratio(self) -> float:
        """New over old: the median of the pairs."""
        return statistics.median(self.ratios)

    @property
    def verdict(self) -> Verdict:
        """Of the new side."""
        low, high = min(self.ratios), max(self.ratios)
        if low > 1 + LEAST:
            return Verdict.SLOWER
        if high < 1 - LEAST:
            return Verdict.FASTER
        if low >= 1 - SAME_WITHIN and high <= 1 + SAME_WITHIN:
            return Verdict.SAME
        return Verdict.INCONCLUSIVE


def order(pair: int) -> Sequence[int]:
    """Which side goes first in a pair, 0 or 1: turn about, so that going first favours neither."""
    return (0, 1) if pair % 2 == 0 else (1, 0)
