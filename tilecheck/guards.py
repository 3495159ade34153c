"""Buffers that show what a kernel did to memory: poison in its outputs, guard bands around every tensor.

The poison is a bit pattern no kernel writes. For floats wider than 8 bits it is a signalling NaN with a
payload: arithmetic and conversions only ever give quiet ones. For integers it is 0xA5 in every byte, which a
kernel may write by chance; so may any pattern of e4m3fn, whose only NaN is 0x7F or 0xFF. The bands hold the
same pattern, so that a read past the end shows in the result.

A band is at least 4 KiB and at least one row: a store past a tail begins right behind the last element, and
one with a wrong row index is at most a row away before it wraps. It is at most 4 MiB, for vectors are one
long row.
"""

import math
from collections.abc import Sequence

import torch

from tilecheck import regions
from tilecheck.oracle import BITS
from tilecheck.regions import Region

ALIGNMENT = 256
"""Bytes. Bulk copies want 16 for an address in global memory, and cudaMalloc gives 256."""

_BAND_BYTES = (4 << 10, 4 << 20)

_POISON = {
    torch.float64: 0x7FF5_A5A5_A5A5_A5A5,
    torch.float32: 0x7FA5_A5A5,
    torch.float16: 0x7D5A,
    torch.bfloat16: 0x7FA5,
    torch.float8_e5m2: 0x7D,
    torch.float8_e4m3fn: 0xFF,
}


def poison_of(dtype: torch.dtype) -> int:
    """The dtype's poison as an integer, as the views of `oracle.BITS` hold it."""
    size = dtype.itemsize
    pattern = _POISON.get(dtype, int.from_bytes(b"\xa5" * size, "big"))
    signed = size > 1 and pattern >= 1 << (8 * size - 1)
    return pattern - (1 << (8 * size)) if signed else pattern


def is_certain(dtype: torch.dtype) -> bool:
    """Whether an element that holds poison was surely not written."""
    return dtype == torch.bool or (dtype in _POISON and dtype != torch.float8_e4m3fn)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bit patterns: a view, in which NaN equals itself."""
    return tensor.view(BITS[tensor.element_size()])


class Guarded:
    """A poisoned tensor of `shape` and `strides` (elements; None: contiguous) between guard bands.

    tensor: what a kernel is given; its address is a multiple of 256 bytes plus `misaligned` (bytes, a
        multiple of the element size).
    Gaps that strides leave between elements are guarded too. Raises ValueError for strides that are negative
    or lay two elements on one place.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        strides: Sequence[int] | None = None,
        misaligned: int = 0,
    ) -> None:
        shape = tuple(shape)
        strides = _contiguous(shape) if strides is None else tuple(strides)
        if len(strides) != len(shape) or any(s < 0 for s in strides):
            raise ValueError(f"strides {list(strides)} do not fit shape {list(shape)}")
        if misaligned % dtype.itemsize:
            raise ValueError(f"{misaligned} bytes off is no multiple of the {dtype.itemsize} of {dtype}")
        count = math.prod(shape)
        self._extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if count else 0
        if count > self._extent:
            raise ValueError(f"strides {list(strides)} of shape {list(shape)} overlap")
        self._dense = count == self._extent
        row = shape[-1] * dtype.itemsize if shape else 0
        band_bytes = -(-min(max(row, _BAND_BYTES[0]), _BAND_BYTES[1]) // ALIGNMENT) * ALIGNMENT
        self._band = band_bytes // dtype.itemsize
        total = (2 * self._band + self._extent) * dtype.itemsize
        memory = torch.empty(total + ALIGNMENT + misaligned, dtype=torch.uint8, device=device)
        start = -memory.data_ptr() % ALIGNMENT + misaligned
        self._whole = memory[start : start + total].view(dtype)
        self._poison = poison_of(dtype)
        bits(self._whole).fill_(self._poison)
        self.tensor = self._whole.as_strided(shape, strides, self._whole.storage_offset() + self._band)

    def fill(self, values: torch.Tensor) -> None:
        """Puts `values` (same shape and dtype) into the tensor, bit by bit."""
        bits(self.tensor).copy_(bits(values))

    def damage(self) -> list[str]:
        """What was written outside the tensor's elements, one line each side; empty if nothing was."""
        end = self._band + self._extent
        whole = bits(self._whole)
        found = []
        if hit := self._changed(whole[: self._band]):
            count, _, last = hit
            nearest = self._band - last
            found.append(
                f"{regions.elements(count)} written before its start, the nearest {nearest} before it"
            )
        if hit := self._changed(whole[end:]):
            count, first, _ = hit
            found.append(
                f"{regions.elements(count)} written past its end, the nearest {first + 1} past the last one"
            )
        if not self._dense:
            inner = whole[self._band : end].clone()
            inner.as_strided(self.tensor.shape, self.tensor.stride(), 0).fill_(self._poison)
            if hit := self._changed(inner):
                count, first, _ = hit
                found.append(
                    f"{regions.elements(count)} written between its rows, the first at offset {first}"
                )
        return found

    def _changed(self, band: torch.Tensor) -> tuple[int, int, int] | None:
        """(count, first, last) of the elements that no longer hold poison."""
        hit = (band != self._poison).nonzero()
        return (len(hit), int(hit[0]), int(hit[-1])) if len(hit) else None

    def unwritten(self) -> Region:
        """Where the tensor still holds poison; whether that is proof `is_certain` says."""
        found = Region(tuple(self.tensor.shape))
        for where in regions.chunks(self.tensor.shape):
            mask = bits(self.tensor[where]) == self._poison
            found = found.plus(mask, regions.starts(where, mask.ndim))
        return found

    def changed(self, before: torch.Tensor) -> Region:
        """Where the tensor's bits differ from those of `before`."""
        found = Region(tuple(self.tensor.shape))
        for where in regions.chunks(self.tensor.shape):
            mask = bits(self.tensor[where]) != bits(before[where])
            found = found.plus(mask, regions.starts(where, mask.ndim))
        return found


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)
