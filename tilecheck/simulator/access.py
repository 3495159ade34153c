"""Element access: one `BufferLoad` or `BufferStore`, for all lanes at once.

Most indices of tile programs are *affine* in the lanes: `A[by * 64 + i, k]` is a base that all lanes share
plus a multiple of a lane's own coordinate. Such an access is a strided view of the memory, and its bounds are
known from four integers. Everything else (gathers, edges, divided indices) goes through index tensors.

Bounds follow TileLang 0.1.15 (its pass LegalizeSafeMemoryAccess): a load from *global* memory past the edge
gives 0 and a store there is dropped, unless all indices are constants; shared memory and fragments have no
such guard.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tilecheck.simulator.findings import Location
from tilecheck.simulator.memory import (
    Array,
    Registers,
    folded,
    joined_by,
    mark_written,
    updated_by,
    write_memory,
)
from tilecheck.simulator.state import State
from tilecheck.simulator.values import Value, common_shape, load_form, store_form, value_dtype

Closure = Callable[[State], Value]


@dataclass
class Affine:
    """const + sum of coefficient * term + sum of coefficient * lane coordinate.

    terms: (coefficient, closure of a value that all lanes share).  lanes: axis -> coefficient.
    """

    const: int = 0
    terms: list[tuple[int, Closure]] = field(default_factory=list)
    lanes: dict[int, int] = field(default_factory=dict)

    def plus(self, other: "Affine", sign: int = 1) -> "Affine":
        lanes = dict(self.lanes)
        for axis, coefficient in other.lanes.items():
            lanes[axis] = lanes.get(axis, 0) + sign * coefficient
        return Affine(
            self.const + sign * other.const,
            [*self.terms, *((sign * c, t) for c, t in other.terms)],
            {axis: c for axis, c in lanes.items() if c},
        )

    def times(self, factor: int) -> "Affine":
        return Affine(
            self.const * factor,
            [(c * factor, t) for c, t in self.terms],
            {axis: c * factor for axis, c in self.lanes.items()},
        )

    def base(self) -> Closure:
        """Closure of the part that all lanes share."""
        const, terms = self.const, self.terms
        if not terms:
            return lambda s: const
        if len(terms) == 1:
            factor, term = terms[0]
            if factor == 1 and const == 0:
                return term
            return lambda s: factor * term(s) + const
        return lambda s: const + sum(c * t(s) for c, t in terms)


class Access:
    """The element that each lane reads or writes, in one buffer, from one line of the source."""

    def __init__(
        self,
        slot: int,
        name: str,
        indices: Sequence[Closure],
        affine: Sequence[Affine] | None,
        extents: dict[int, int],
        rank: int,
        location: Location,
        guarded: bool,
        outside: Closure | None = None,
        hidden: int = 0,
    ) -> None:
        """indices: closures of the whole indices.  affine: their affine forms, None if one has none.
        extents: axis -> number of lanes, of the axes in force here.  guarded: TileLang guards it where it is
        global.  outside: what a guarded load past the edge gives; None: 0.  hidden: number of leading indices
        that the source does not have (the thread, in memory that each thread has to itself).
        """
        self.outside, self.hidden = outside, hidden
        self.slot, self.name, self.indices = slot, name, list(indices)
        self.location, self.guarded, self.rank = location, guarded, rank
        # A view of memory with a negative stride is not to be had in torch: reversed accesses are gathers.
        backwards = affine is not None and any(c < 0 for a in affine for c in a.lanes.values())
        self.affine = None if affine is None or backwards else list(affine)
        self.watch: Any = (
            None  # of the parallel loop around, where its iterations may touch each other's elements
        )
        self._strides: tuple[int, ...] | None = None
        if self.affine is None:
            return
        self.bases = [a.base() for a in self.affine]
        self.used = {axis for a in self.affine for axis in a.lanes}
        self.size = tuple(extents[axis] if axis in self.used else 1 for axis in range(rank))
        self.low = [sum(min(c, 0) * (extents[x] - 1) for x, c in a.lanes.items()) for a in self.affine]
        self.high = [sum(max(c, 0) * (extents[x] - 1) for x, c in a.lanes.items()) for a in self.affine]

    def _offset(self, s: State, array: Array) -> int | None:
        """Offset of lane 0 in memory; None if a lane is out of range."""
        offset = 0
        shape, strides = array.shape, array.strides
        for d, base in enumerate(self.bases):
            b = base(s)
            if b + self.low[d] < 0 or b + self.high[d] >= shape[d]:
                return None
            offset += b * strides[d]
        return offset

    def _lane_strides(self, array: Array) -> tuple[int, ...]:
        if self._strides is None:
            steps = [0] * self.rank
            for d, a in enumerate(self.affine or ()):
                for axis, coefficient in a.lanes.items():
                    steps[axis] += coefficient * array.strides[d]
            self._strides = tuple(steps)
        return self._strides

    def load(self, s: State) -> Value:
        array: Array = s.memory[self.slot]
        if self.watch is not None:
            self.watch.read(s, self)
        if self.affine is None:
            return self._gather(s, array)
        offset = self._offset(s, array)
        if offset is None:
            return self._gather(s, array)
        strides = self._lane_strides(array)
        storage = array.storage
        size = self.size if self.used else ()
        if not self.used:
            strides = ()
        if not storage.complete and not storage.is_complete():
            assert storage.written is not None
            bad = array.by_element(~array.shadow(storage.written, size, strides, offset))
            self._check_written(s, array, bad)
        if storage.owner is not None:
            self._check_owner(s, array, array.shadow(storage.owner, size, strides, offset))
        if storage.reader is not None:
            reader = array.shadow(storage.reader, size, strides, offset)
            joined = joined_by(s, reader)
            if s.mask is not None:
                joined = torch.where(array.by_entry(folded(s.mask, size)), joined, reader)
            reader.copy_(joined)
        return load_form(array.values(size, strides, offset), array.dtype)

    def store(self, s: State, value: Value, missing: tuple[int, ...]) -> None:
        """missing: axes of the parallel loops around the store that no index names."""
        array: Array = s.memory[self.slot]
        if self.watch is not None:
            self.watch.write(s, self)
        mask = s.mask
        offset = None
        if self.affine is not None and self._one_value_each(value, mask, missing):
            offset = self._offset(s, array)
        if offset is None:
            self._scatter(s, array, value)
            return
        size, strides = (self.size, self._lane_strides(array)) if self.rank else ((), ())
        storage = array.storage
        if storage.owner is not None:
            self._claim(s, array, array.shadow(storage.owner, size, strides, offset), mask)
        if storage.reader is not None:
            self._check_readers(s, array, array.shadow(storage.reader, size, strides, offset), mask)
        write_memory(array.values(size, strides, offset), value, array.dtype, mask)
        mark_written(array, size, strides, offset, mask)

    def _one_value_each(self, value: Value, mask: Tensor | None, missing: tuple[int, ...]) -> bool:
        """Whether each element gets one value from one lane, or the same from all that share it."""
        others = [axis for axis in range(self.rank) if axis not in self.used]
        for part in (value, mask):
            if isinstance(part, Tensor) and part.dim() and any(part.shape[axis] > 1 for axis in others):
                return False
        return not (missing and mask is not None) and self._is_injective()

    def _is_injective(self) -> bool:
        """Different lanes, different elements: every axis alone in some index, or nested by its stride."""
        alone: set[int] = set()
        for a in self.affine or ():
            if len(a.lanes) == 1:
                alone |= a.lanes.keys()
            else:
                reach = 0
                for axis, coefficient in sorted(a.lanes.items(), key=lambda item: abs(item[1])):
                    if abs(coefficient) <= reach:
                        break
                    reach += abs(coefficient) * (self.size[axis] - 1)
                else:
                    alone |= a.lanes.keys()
        return alone >= self.used

    def resolve(self, s: State, array: Array) -> tuple[list[Tensor], Tensor, Tensor]:
        """(index tensors made safe, lanes in range, active lanes), of one common shape."""
        found = [index(s) for index in self.indices]
        tensors = [f if isinstance(f, Tensor) else torch.tensor(f) for f in found]
        shape = common_shape(*(t.shape for t in tensors), () if s.mask is None else s.mask.shape)
        inside = torch.ones(shape, dtype=torch.bool)
        for t, n in zip(tensors, array.shape, strict=True):
            inside &= (t >= 0) & (t < n)
        active = torch.ones(shape, dtype=torch.bool) if s.mask is None else s.mask.expand(shape)
        if not (array.is_global and self.guarded):
            outside = active & ~inside
            if bool(outside.any()):
                self._report(s, "out of range", tensors, outside, array, "")
        safe = [torch.where(inside, t, 0).to(torch.int64) for t in tensors]
        return safe, inside, active

    def _gather(self, s: State, array: Array) -> Value:
        if array.data.numel() == 0:
            return load_form(torch.zeros((1,) * self.rank, dtype=array.data.dtype), array.dtype)
        index, inside, active = self.resolve(s, array)
        storage = array.storage
        flat = offsets(index, array.strides)
        if not storage.complete and not storage.is_complete():
            assert storage.written is not None
            bad = array.by_element(~storage.written[array.entries(flat)]) & inside
            self._check_written(s, array, bad, index)
        if storage.owner is not None:
            self._check_owner(s, array, storage.owner[array.entries(flat)] * array.by_entry(inside))
        if storage.reader is not None:
            at = array.entries(flat.expand(inside.shape)[inside & active])
            storage.reader[at] = joined_by(s, storage.reader[at])
        value = load_form(array.data[tuple(index)], array.dtype)
        if bool(inside.all()):
            return value
        zero = torch.zeros((), dtype=value_dtype(array.dtype))
        blank = zero if self.outside is None else torch.as_tensor(self.outside(s)).to(zero.dtype)
        if inside.dim() == 0:
            return value if bool(inside) else load_form(blank, array.dtype)
        return torch.where(inside, value, blank)

    def _scatter(self, s: State, array: Array, value: Value) -> None:
        if array.data.numel() == 0:
            return
        index, inside, active = self.resolve(s, array)
        storage = array.storage
        stored = store_form(value, array.dtype)
        stored = stored if isinstance(stored, Tensor) else torch.tensor(stored)
        shape = common_shape(inside.shape, stored.shape)
        chosen = (inside & active).expand(shape)
        cells = tuple(i.expand(shape)[chosen] for i in index)
        wanted = stored.to(array.data.dtype).expand(shape)[chosen]
        if wanted.numel() == 0:
            return
        flat = offsets(cells, array.strides)
        if storage.owner is not None:
            self._claim(s, array, storage.owner[array.entries(flat)], None)
            storage.owner[array.entries(flat)] = s.block
        if storage.reader is not None:
            self._check_readers(s, array, storage.reader[array.entries(flat)], None)
        array.data[cells] = wanted
        kept = array.data[cells]
        differs = ~((kept == wanted) | ((kept != kept) & (wanted != wanted)))
        if bool(differs.any()):
            first = int(differs.nonzero()[0])
            at = ", ".join(str(int(c[first])) for c in cells)
            s.findings.add(
                "conflicting writes",
                self.location,
                self.name,
                f"several lanes write different values to {self.name}[{at}] ({s.where})",
            )
        if storage.written is not None and not storage.complete:
            storage.written[array.entries(flat)] = True

    def elements(self, s: State, shape: torch.Size) -> tuple[Array, Tensor, Tensor]:
        """(array, offset in memory of each lane's element, lanes that touch one), of at least `shape`; for
        atomics.

        The elements count as written by nobody in particular: any number of blocks may update them.
        """
        array: Array = s.memory[self.slot]
        index, inside, active = self.resolve(s, array)
        shape = common_shape(inside.shape, shape)
        flat = offsets(index, array.strides)
        flat = flat.expand(shape)
        chosen = (inside & active).expand(shape)
        storage = array.storage
        if not storage.complete and not storage.is_complete():
            assert storage.written is not None
            bad = array.by_element(~storage.written[array.entries(flat)]) & chosen
            self._check_written(s, array, bad, index)
        if storage.owner is not None:
            entries = array.entries(flat[chosen])
            owners = storage.owner[entries]
            if not storage.ordered_by_program and bool(s.foreign(owners).any()):
                s.findings.add(
                    "race",
                    self.location,
                    self.name,
                    f"{s.where} updates elements of {self.name} that {array.others} writes",
                )
            storage.owner[entries] = updated_by(s, storage, owners)
        return array, flat, chosen

    def _claim(self, s: State, array: Array, owner: Tensor, mask: Tensor | None) -> None:
        """The block at hand becomes owner of what it stores to; another block that stored there before is a
        race.
        """
        taken = array.by_element(s.foreign(owner))
        if mask is not None:
            taken = taken & mask
        if bool(taken.any()):
            s.findings.add(
                "conflicting writes",
                self.location,
                self.name,
                f"{s.where} writes elements of {self.name} that {array.others} wrote "
                f"({int(taken.sum())} at once)",
            )
        if mask is None:
            owner.fill_(s.block)
        else:
            owner.copy_(torch.where(array.by_entry(mask), s.block, owner))

    def _check_readers(self, s: State, array: Array, reader: Tensor, mask: Tensor | None) -> None:
        """A block that read what the block at hand now stores to might as well have come later."""
        foreign = array.by_element(s.foreign(reader))
        if mask is not None:
            foreign = foreign & mask
        if bool(foreign.any()):
            s.findings.add(
                "race",
                self.location,
                self.name,
                f"{s.where} writes elements of {self.name} that {array.others} reads",
            )

    def _check_owner(self, s: State, array: Array, owner: Tensor) -> None:
        if array.storage.ordered_by_program:
            return
        foreign = array.by_element(s.foreign(owner))
        if s.mask is not None:
            foreign = foreign & s.mask
        if bool(foreign.any()):
            s.findings.add(
                "race",
                self.location,
                self.name,
                f"{s.where} reads elements of {self.name} that {array.others} writes",
            )

    def _check_written(
        self, s: State, array: Array, bad: Tensor, index: Sequence[Tensor] | None = None
    ) -> None:
        if s.mask is not None:
            bad = bad & s.mask
        if bool(bad.any()):
            found = index if index is not None else [torch.as_tensor(i(s)) for i in self.indices]
            self._report(s, "unwritten read", found, bad, array, ", which nothing has written")

    def _report(
        self, s: State, kind: str, index: Sequence[Tensor], bad: Tensor, array: Array, remark: str
    ) -> None:
        if s.findings.known(kind, self.location, self.name):
            return
        shape = common_shape(bad.shape, *(i.shape for i in index))
        lane = tuple(bad.expand(shape).nonzero()[0]) if shape else ()
        at = ", ".join(str(int(i.expand(shape)[lane])) for i in index[self.hidden :])
        extent = "x".join(map(str, array.shape[self.hidden :]))
        s.findings.add(
            kind,
            self.location,
            self.name,
            f"{self.name}[{at}]{remark}; {self.name} is {extent} ({array.scope}; {s.where}, "
            f"{int(bad.sum())} of {bad.numel()} lanes)",
        )


def offsets(index: Sequence[Tensor], strides: Sequence[int]) -> Tensor:
    """Offsets in memory of the elements that index tensors name."""
    flat = torch.zeros((), dtype=torch.int64)
    for i, stride in zip(index, strides, strict=True):
        flat = flat + i * stride
    return flat


def cell_of(
    s: State, registers: Registers, indices: Sequence[Closure], location: Location
) -> tuple[int, ...] | None:
    """The cell that all lanes name; None, and a finding, if it is out of range."""
    cell = tuple(int(i(s)) for i in indices)
    if all(0 <= c < n for c, n in zip(cell, registers.shape, strict=True)):
        return cell
    name = registers.name
    text = f"{name}[{', '.join(map(str, cell))}]; {name} is {registers.shape} ({s.where})"
    s.findings.add("out of range", location, name, text)
    return None
