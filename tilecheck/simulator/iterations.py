"""Iterations of one parallel loop that touch each other's elements: one reads what another writes.

The simulator runs all iterations at once, statement by statement; a GPU runs them in any order. A program
whose result depends on the order is wrong even where this run's happens to be what its author wants.

Most loops touch a buffer that they write at one index only, which needs no watch.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tilecheck.simulator.access import Access, offsets
from tilecheck.simulator.memory import Array
from tilecheck.simulator.state import State
from tilecheck.simulator.values import common_shape

_NONE, _SEVERAL = 0, -1


@dataclass
class Touch:
    """One load or store inside a nest of parallel loops. axes: (axis, extent) of the loops around it."""

    access: Access
    buffer: Any
    indices: Sequence[Any]
    axes: tuple[tuple[int, int], ...]
    stores: bool


class Watch:
    """Who read and who wrote each element of a buffer since the loop began; iterations count from 1."""

    def __init__(self, rank: int, axes: Sequence[tuple[int, int]]) -> None:
        shape = [1] * rank
        for axis, extent in axes:
            shape[axis] = extent
        self._lane = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape)
        self._reader = self._writer = torch.zeros(0, dtype=torch.int64)

    def begin(self, array: Array) -> None:
        self._reader = torch.zeros(array.span, dtype=torch.int64)
        self._writer = torch.zeros(array.span, dtype=torch.int64)

    def read(self, s: State, access: Access) -> None:
        flat, lane = self._places(s, access)
        self._report(s, access, self._writer[flat], lane, "reads", "writes")
        known = self._reader[flat]
        self._reader[flat] = lane
        # Of several iterations at one element, the last one's number stays: the others find it there.
        several = (self._reader[flat] != lane) | ((known != _NONE) & (known != lane))
        self._reader[flat[several]] = _SEVERAL

    def write(self, s: State, access: Access) -> None:
        flat, lane = self._places(s, access)
        self._report(s, access, self._reader[flat], lane, "writes", "reads")
        self._writer[flat] = lane

    def _places(self, s: State, access: Access) -> tuple[Tensor, Tensor]:
        array: Array = s.memory[access.slot]
        index, inside, active = access.resolve(s, array)
        shape = common_shape(inside.shape, self._lane.shape)
        chosen = (inside & active).expand(shape)
        return offsets(index, array.strides).expand(shape)[chosen], self._lane.expand(shape)[chosen]

    def _report(
        self, s: State, access: Access, other: Tensor, lane: Tensor, does: str, other_does: str
    ) -> None:
        if bool(((other != _NONE) & (other != lane)).any()):
            s.findings.add(
                "race",
                access.location,
                access.name,
                f"an iteration of the parallel loop {does} elements of {access.name} that another "
                f"{other_does} ({s.where})",
            )


def watches_of(touches: Sequence[Touch], rank: int) -> list[tuple[int, Watch]]:
    """(slot, watch) of each buffer that a nest of loops both loads and stores, at different indices."""
    from tilelang import tvm

    by_buffer: dict[Any, list[Touch]] = defaultdict(list)
    for touch in touches:
        by_buffer[touch.buffer].append(touch)
    found = []
    for group in by_buffer.values():
        first = group[0]
        both = {touch.stores for touch in group} == {True, False}
        alike = all(tvm.ir.structural_equal(touch.indices, first.indices) for touch in group)
        if not both or alike or any(touch.axes != first.axes for touch in group):
            continue
        watch = Watch(rank, first.axes)
        for touch in group:
            touch.access.watch = watch
        found.append((first.access.slot, watch))
    return found
