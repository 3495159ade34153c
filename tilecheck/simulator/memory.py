"""Memory of a simulated program, with shadows that know which elements were written, and by which block.

Two forms. An `Array` is a tensor: global, shared and fragment buffers. `Registers` are the cells of a `local`
buffer that only ever gets the same index in every lane, so that a cell can hold another value in each lane,
as the registers of a thread do.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tilecheck.simulator.values import Value, is_float, memory_dtype, store_form

if TYPE_CHECKING:
    from tilecheck.simulator.state import State

_NOBODY = 0
_ATOMICS = -1
"""Owner of an element that atomics updated: any number of blocks may."""
SEVERAL = 1 << 30
"""Reader of an element that several blocks read: a number that no block has."""


@dataclass
class Storage:
    """What is known of a piece of memory, element by element. Views of it share this.

    written: flat, None where it is not tracked (parameters hold what the caller put there).
    complete: everything was written, so that `written` need not be asked.
    owner: flat, None except for global outputs and for what blocks of a cluster write into: number of the
    block that wrote the element in this launch.
    reader: flat, like owner: the block that read it, or that several did.
    ever: flat, like owner: written in any launch.
    ordered_by_program: a block may learn that another has come so far, so that reading its result is no race.
    unit: bytes that one entry of these tensors speaks for: the smallest element of all views of the memory.
    """

    written: Tensor | None = None
    complete: bool = True
    owner: Tensor | None = None
    reader: Tensor | None = None
    ever: Tensor | None = None
    ordered_by_program: bool = False
    unit: int = 1

    def forget(self) -> None:
        """A block starts: nothing of its own memory is written."""
        if self.written is not None:
            self.written.zero_()
            self.complete = False
        for shadow in (self.owner, self.reader):
            if shadow is not None:
                shadow.zero_()

    def expose(self) -> None:
        """Other blocks of the cluster write into this memory of a block."""
        if self.owner is None and self.written is not None:
            self.owner = torch.zeros(self.written.numel(), dtype=torch.int32)
            self.reader = torch.zeros_like(self.owner)

    def is_complete(self) -> bool:
        if not self.complete and self.written is not None and bool(self.written.all()):
            self.complete = True
        return self.complete

    def end_launch(self) -> None:
        """Launches follow each other in order: what one wrote, the next may write again."""
        if self.owner is not None and self.ever is not None:
            self.ever |= self.owner != _NOBODY
            self.owner.zero_()
            if self.reader is not None:
                self.reader.zero_()


@dataclass
class Array:
    """A buffer of the program: a shape over a tensor's memory, and the shadows of that memory."""

    name: str
    dtype: str
    scope: str
    data: Tensor
    storage: Storage
    shape: tuple[int, ...] = field(init=False)
    strides: tuple[int, ...] = field(init=False)
    scale: int = field(init=False)

    def __post_init__(self) -> None:
        """scale: entries of the shadows for one element."""
        self.shape = tuple(self.data.shape)
        self.strides = tuple(self.data.stride())
        self.scale = self.data.dtype.itemsize // self.storage.unit

    @property
    def is_global(self) -> bool:
        return self.scope == "global"

    @property
    def others(self) -> str:
        """Which blocks may touch it beside the one at hand, in words."""
        return "another block of the same launch" if self.is_global else "another block of the cluster"

    @property
    def extent(self) -> str:
        """The shape in words: 64x32."""
        return "x".join(map(str, self.shape))

    @property
    def span(self) -> int:
        """Elements of memory from the first to the last."""
        if not self.data.numel():
            return 0
        return 1 + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))

    def values(self, size: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
        """A view of the memory itself, in the form in which it is stored."""
        return torch.as_strided(self.data, size, strides, offset + self.data.storage_offset())

    def shadow(self, of: Tensor, size: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
        """The entries of a shadow for the elements of a view; a last axis of `scale` if that is not 1."""
        if self.scale == 1:
            return torch.as_strided(of, size, strides, offset)
        wide = tuple(stride * self.scale for stride in strides)
        return torch.as_strided(of, (*size, self.scale), (*wide, 1), offset * self.scale)

    def entries(self, flat: Tensor) -> Tensor:
        """Where in a shadow the elements at offsets `flat` are; with a last axis like that of `shadow`."""
        return flat if self.scale == 1 else flat[..., None] * self.scale + torch.arange(self.scale)

    def by_element(self, found: Tensor) -> Tensor:
        """What is true of any entry of an element."""
        return found if self.scale == 1 else found.any(-1)

    def by_entry(self, mask: Tensor) -> Tensor:
        """A mask of elements, shaped so that it applies to their entries."""
        return mask if self.scale == 1 else mask[..., None]


def allocate(name: str, dtype: str, scope: str, shape: tuple[int, ...], unit: int) -> Array:
    """Memory of a block: nothing in it is written, and floats start as NaN, so that nothing passes for a
    zero.
    """
    data = torch.zeros(shape, dtype=memory_dtype(dtype))
    if is_float(dtype):
        data = torch.full(shape, float("nan")).to(memory_dtype(dtype))
    entries = data.numel() * (data.dtype.itemsize // unit)
    return Array(
        name, dtype, scope, data, Storage(torch.zeros(entries, dtype=torch.bool), complete=False, unit=unit)
    )


def parameter(name: str, dtype: str, data: Tensor, unit: int, *, stored_to: bool, read: bool) -> Array:
    """A tensor of the caller; with shadows where the program stores to it, of readers where it also reads."""
    if data.dtype is not memory_dtype(dtype):
        data = data.view(memory_dtype(dtype))
    array = Array(name, dtype, "global", data, Storage(unit=unit))
    if stored_to:
        entries = array.span * array.scale
        array.storage.owner = torch.zeros(entries, dtype=torch.int32)
        array.storage.reader = torch.zeros(entries, dtype=torch.int32) if read else None
        array.storage.ever = torch.zeros(entries, dtype=torch.bool)
    return array


def view(base: Array, name: str, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Another shape, or another element type, over the memory of `base` (`T.reshape`, `T.view`)."""
    flat = torch.as_strided(base.data, (base.data.numel(),), (1,), base.data.storage_offset())
    target = memory_dtype(dtype)
    if target is not flat.dtype:
        flat = flat.view(target)
    data = torch.as_strided(flat, shape, strides, flat.storage_offset())
    return Array(name, dtype, base.scope, data, base.storage)


def mark_written(
    array: Array, size: tuple[int, ...], strides: tuple[int, ...], offset: int, mask: Value
) -> None:
    storage = array.storage
    if storage.written is None or storage.complete:
        return
    shadow = array.shadow(storage.written, size, strides, offset)
    if mask is None:
        shadow.fill_(True)
    else:
        shadow |= array.by_entry(mask)


def updated_by(s: "State", storage: Storage, owners: Tensor) -> Tensor:
    """Entries of an owner shadow after an atomic of the block at hand. What it stored there itself before
    stays its own, since no other may update that without knowing that it is there.
    """
    if storage.ordered_by_program:
        return torch.full_like(owners, _ATOMICS)
    return torch.where((owners > 0) & ~s.foreign(owners), s.block, _ATOMICS).to(owners.dtype)


def joined_by(s: "State", readers: Tensor) -> Tensor:
    """Entries of a reader shadow after the block at hand has read there too."""
    return torch.where(s.foreign(readers), SEVERAL, s.block).to(readers.dtype)


def folded(mask: Tensor, size: tuple[int, ...]) -> Tensor:
    """A mask of lanes for a view that some of its axes do not tell apart: true where any lane is."""
    if not size:
        return mask.any()
    alike = [axis for axis, n in enumerate(size) if n == 1 and mask.shape[axis] > 1]
    return mask.any(alike, keepdim=True) if alike else mask


class Registers:
    """Cells of a `local` buffer: index -> (value, lanes in which it is written; None: in all)."""

    def __init__(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape
        self.cells: dict[tuple[int, ...], tuple[Value, Any]] = {}

    def forget(self) -> None:
        self.cells.clear()

    def store(self, index: tuple[int, ...], value: Value, mask: Tensor | None) -> None:
        if isinstance(value, Tensor) and value._base is not None:
            value = value.clone()  # a view would change with the memory it looks at
        if mask is None:
            self.cells[index] = (value, None)
            return
        old, valid = self.cells.get(index, (value, False))
        if valid is False or isinstance(valid, str):
            self.cells[index] = (value, mask)
        else:
            self.cells[index] = (torch.where(mask, value, old), None if valid is None else valid | mask)

    def leave_loop(self, axes: tuple[int, ...]) -> None:
        """After a T.Parallel, a value that its iterations do not share belongs to none of the threads."""
        for index, (value, valid) in self.cells.items():
            for part in (value, valid):
                if isinstance(part, Tensor) and part.dim() and any(part.shape[axis] > 1 for axis in axes):
                    self.cells[index] = (value, "stale")


def write_memory(view_: Tensor, value: Value, dtype: str, mask: Tensor | None) -> None:
    """Stores `value` (a lane value) through a view of memory; only where `mask` says so."""
    stored = store_form(value, dtype)
    if mask is not None:
        stored = torch.where(mask, stored, view_)
    if isinstance(stored, Tensor):
        view_.copy_(stored)
    else:
        view_.fill_(stored)
