"""Where in a tensor something holds: how often, where first, and the box around it in words.

Also walks a tensor in chunks, so that a check of 2^28 elements in float64 needs no further copies of it.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

CHUNK = 1 << 20
"""Elements a chunk holds at most: 8 MiB for a temporary in float64, so that a CPU keeps it in its cache."""


def chunks(shape: Sequence[int], limit: int = CHUNK) -> Iterator[tuple[slice, ...]]:
    """Index tuples that cover a tensor of this shape in row-major order, each of at most `limit` elements."""
    if 0 in shape:
        return
    axis = next((a for a in range(len(shape)) if math.prod(shape[a + 1 :]) <= limit), None)
    if axis is None:  # no axes at all
        yield ()
        return
    step = max(1, limit // math.prod(shape[axis + 1 :]))
    for outer in itertools.product(*(range(n) for n in shape[:axis])):
        for start in range(0, shape[axis], step):
            yield (*(slice(i, i + 1) for i in outer), slice(start, min(start + step, shape[axis])))


def starts(where: tuple[slice, ...], ndim: int) -> tuple[int, ...]:
    """Index of the first element of a chunk."""
    return (*(s.start for s in where), *(0 for _ in range(ndim - len(where))))


def index_in(flat: int, shape: Sequence[int], offset: Sequence[int]) -> tuple[int, ...]:
    """Index in the tensor of element `flat` (row-major) of a chunk of `shape` that begins at `offset`."""
    index = []
    for n in reversed(shape):
        flat, i = divmod(flat, n)
        index.append(i)
    return tuple(i + o for i, o in zip(reversed(index), offset, strict=True))


def elements(count: int) -> str:
    """`1 element`, `64 elements`."""
    return f"{count} element" if count == 1 else f"{count} elements"


@dataclass(frozen=True)
class Region:
    """Elements of a tensor of `shape`: how many, the first in row-major order, and the box around all of them
    (for each axis the lowest and the highest index)."""

    shape: tuple[int, ...]
    count: int = 0
    first: tuple[int, ...] | None = None
    box: tuple[tuple[int, int], ...] = ()

    def plus(self, mask: torch.Tensor, offset: Sequence[int]) -> "Region":
        """This region and where `mask` (boolean; a later chunk, which begins at `offset`) holds."""
        count = int(mask.sum())
        if count == 0:
            return self
        first = index_in(int(mask.flatten().to(torch.uint8).argmax()), mask.shape, offset)
        box = []
        for axis, start in enumerate(offset):
            others = tuple(a for a in range(mask.ndim) if a != axis)
            hit = (mask.any(dim=others) if others else mask).nonzero()
            box.append((int(hit[0]) + start, int(hit[-1]) + start))
        if self.first is not None:
            first = self.first
            box = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(self.box, box, strict=True)]
        return Region(self.shape, self.count + count, first, tuple(box))

    def __str__(self) -> str:
        """`first at [64, 0]; they lie in rows 64..127, columns 0..31 (all 2048 there)`.

        The last two axes are called rows and columns; those of length 1 before the last are left out. For one
        element its index alone.
        """
        if self.first is None:
            return "nowhere"
        if self.count == 1:
            return f"at {list(self.first)}"
        names = [f"axis {a} at" for a in range(len(self.shape))]
        names[-2:] = ["row", "column"] if len(names) > 1 else ["element"]
        spans = ", ".join(
            f"{name} {low}" if low == high else f"{name}{'' if name.endswith('at') else 's'} {low}..{high}"
            for name, (low, high), size in zip(names, self.box, self.shape, strict=True)
            if size > 1 or name == names[-1]
        )
        size = math.prod(high - low + 1 for low, high in self.box)
        share = "all" if size == self.count else f"{self.count} of"
        return f"first at {list(self.first)}; they lie in {spans} ({share} {size} there)"


def region(mask: torch.Tensor) -> Region:
    """The region where `mask` (boolean) holds."""
    found = Region(tuple(mask.shape))
    for where in chunks(mask.shape):
        found = found.plus(mask[where], starts(where, mask.ndim))
    return found
