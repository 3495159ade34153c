"""The roofs over the rows of a report: what a GPU is rated for, and what it has been seen to reach. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilecheck.report.model import Kernel, Latency

FAR_PAST_L2 = 2**30
"""Bytes, of which no L2 keeps a share that counts until after a kernel has ended."""


@dataclass(frozen=True)
class Roof:
    """flops: operations a second.  bytes: a second, of device memory.  None: unknown."""

    flops: float | None
    bytes: float | None


@dataclass(frozen=True)
class Point:
    """A row under its roof.  flops, bytes: of its case."""

    row: Latency
    dtype: str
    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes

    @property
    def rated(self) -> tuple[float, float]:
        """Operations and bytes a second that the GPU is rated for, in this type."""
        return self.row.peak_flops or math.nan, self.row.peak_bytes or math.nan

    @property
    def least(self) -> float:
        """Seconds that the fastest took, ours or a vendor's."""
        return min([self.row.median, *self.row.vendors.values()])


def points_of(kernel: Kernel, rows: Sequence[Latency]) -> list[Point]:
    """The rows of a kernel whose cost and roof are known."""
    cases = {case.id: case for case in kernel.cases}
    return [
        Point(row, case.dtype, case.flops, case.bytes)
        for row in rows
        if (case := cases.get(row.case)) and case.flops and case.bytes and row.peak_flops and row.peak_bytes
    ]


def measured(points: Sequence[Point]) -> Mapping[tuple[float, float], Roof]:
    """The most that any row reached, by what the GPU is rated for: operations of those that tensor cores
    bound, and bytes of those that move far more than L2 holds.
    """
    found = {}
    for flops, rate in {point.rated for point in points}:
        bound = [
            p.flops / p.least for p in points if p.rated == (flops, rate) and p.intensity >= flops / rate
        ]
        moved = [p.bytes / p.least for p in points if p.rated[1] == rate and p.bytes >= FAR_PAST_L2]
        found[flops, rate] = Roof(max(bound, default=None), max(moved, default=None))
    return found
