"""Tile operators: copy, fill, gemm, reductions, scans, atomics on tiles. A region is a box of a buffer."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tilecheck.simulator.access import Closure
from tilecheck.simulator.element_loops import copy_by_element, fill_by_element, reduce_by_element
from tilecheck.simulator.findings import Location, Unsupported
from tilecheck.simulator.memory import Array, joined_by, updated_by
from tilecheck.simulator.state import State
from tilecheck.simulator.translator import (
    CALLS,
    OTHERWISE,
    Translator,
    constantly,
    handles,
    operator_name,
    uniform,
)
from tilecheck.simulator.values import (
    Value,
    bits_of,
    cast,
    is_float,
    is_float8,
    store_form,
    to_tf32,
    to_values,
    truth,
    value_dtype,
    wrap,
)

Box: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""(minima, extents), one per dimension."""

_DISTANCE = {"global": 0, "shared": 1, "shared.dyn": 1, "local.fragment": 2, "local": 2, "local.var": 2}
"""How near to the tensor cores a scope is; a copy runs over the extents of its nearer side."""


class Region:
    """A box of a buffer, named by one operator at one line of the source.

    minima, extents: closures, one per dimension.
    """

    def __init__(self, t: Translator, node: Any) -> None:
        load, _, *extents = node.args
        self.slot = t.buffer(load.buffer)
        if t.is_registers(self.slot) or self.slot in t.private:
            raise t.unsupported(f"a tile operator on the thread-local buffer {load.buffer.name}")
        self.name = str(load.buffer.name)
        self.dtype = str(load.buffer.dtype)
        self.scope = str(load.buffer.scope())
        self.location = t.location
        indices = t.indices(load)
        self.minima = [t.expr(i) for i in indices]
        self.extents = [t.expr(e) for e in extents]
        self.is_one = [type(e).__name__ == "IntImm" and int(e) == 1 for e in extents]
        self.data = load.buffer.data
        self.outside = t.safe_values.get(self.data)
        self.fixed = [i for i, one in enumerate(self.is_one) if one and _is_constant(indices[i])]

    def array(self, s: State) -> Array:
        return s.memory[self.slot]  # type: ignore[no-any-return]

    def box(self, s: State) -> tuple[list[int], list[int]]:
        """(minima, extents) as the active block has them."""
        what = f"a region of {self.name}"
        minima = [uniform(m(s), what, s, self.location) for m in self.minima]
        extents = [uniform(e(s), what, s, self.location) for e in self.extents]
        if self.scope == "global":
            self._check_fixed(s, minima, extents)
        return minima, extents

    def _check_fixed(self, s: State, minima: list[int], extents: list[int]) -> None:
        """TileLang guards no index that is a constant: a row that is not there is really accessed."""
        array = self.array(s)
        for i in self.fixed:
            if not 0 <= minima[i] < array.shape[i]:
                _report_range(s, array, minima, extents, self.location)
                return

    def read(self, s: State) -> Tensor:
        """The box as values; all of it has to lie in the buffer."""
        minima, extents = self.box(s)
        return self.read_box(s, minima, extents)

    def read_box(
        self, s: State, minima: Sequence[int], extents: Sequence[int], unwritten: bool = False
    ) -> Tensor:
        """Values of a box of the same buffer; past its edge the annotated safe value, else 0."""
        outside = 0 if self.outside is None else self.outside(s)
        return read_box(s, self.array(s), minima, extents, self.location, outside, unwritten=unwritten)

    def write(self, s: State, value: Tensor) -> None:
        """Stores `value` into the box."""
        minima, extents = self.box(s)
        write_box(s, self.array(s), minima, extents, value, self.location)


def _is_constant(index: Any) -> bool:
    return type(index).__name__ == "IntImm"


def _clip(array: Array, minima: Sequence[int], extents: Sequence[int]) -> tuple[list[int], list[int]]:
    """(first, past the last) of each dimension, relative to the box, of the part inside the buffer."""
    low = [max(0, -m) for m in minima]
    high = [min(e, n - m) for m, e, n in zip(minima, extents, array.shape, strict=True)]
    return low, high


def _entries(array: Array, shadow: Tensor, minima: Sequence[int], extents: Sequence[int]) -> Tensor:
    """Those of a shadow for a box inside the buffer."""
    offset = sum(m * stride for m, stride in zip(minima, array.strides, strict=True))
    return array.shadow(shadow, tuple(extents), array.strides, offset)


def missing_in(array: Array, minima: Sequence[int], extents: Sequence[int]) -> Tensor | None:
    """Elements of a box that nothing has written; None where all are, or the box is not inside the buffer."""
    storage = array.storage
    if storage.complete or storage.is_complete() or not _inside(array, minima, extents):
        return None
    assert storage.written is not None
    return array.by_element(~_entries(array, storage.written, minima, extents))


def _inside(array: Array, minima: Sequence[int], extents: Sequence[int]) -> bool:
    return all(m >= 0 and m + e <= n for m, e, n in zip(minima, extents, array.shape, strict=True))


def _report_range(
    s: State, array: Array, minima: Sequence[int], extents: Sequence[int], location: Location
) -> None:
    box = ", ".join(f"{m}:{m + e}" if e != 1 else str(m) for m, e in zip(minima, extents, strict=True))
    s.findings.add(
        "out of range",
        location,
        array.name,
        f"{array.name}[{box}]; {array.name} is {array.extent} ({array.scope}; {s.where})",
    )


def read_box(
    s: State,
    array: Array,
    minima: Sequence[int],
    extents: Sequence[int],
    location: Location,
    outside: Value = 0,
    atomic: bool = False,
    unwritten: bool = False,
) -> Tensor:
    """Values of a box; outside the buffer they are `outside`.

    atomic: for an update that others may make.  unwritten: not for use, so that nothing need have written it.
    """
    if _inside(array, minima, extents):
        return _read_inside(s, array, minima, extents, location, atomic, unwritten)
    if not array.is_global:
        _report_range(s, array, minima, extents, location)
    low, high = _clip(array, minima, extents)
    result = torch.empty(tuple(extents), dtype=value_dtype(array.dtype))
    result[...] = outside
    if all(a < b for a, b in zip(low, high, strict=True)):
        first = [m + a for m, a in zip(minima, low, strict=True)]
        size = [b - a for a, b in zip(low, high, strict=True)]
        part = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        result[part] = _read_inside(s, array, first, size, location, atomic, unwritten)
    return result


def _read_inside(
    s: State,
    array: Array,
    minima: Sequence[int],
    extents: Sequence[int],
    location: Location,
    atomic: bool,
    unwritten: bool,
) -> Tensor:
    offset = sum(m * stride for m, stride in zip(minima, array.strides, strict=True))
    size = tuple(extents)
    storage = array.storage
    if not unwritten and not storage.complete and not storage.is_complete():
        assert storage.written is not None
        bad = array.by_element(~array.shadow(storage.written, size, array.strides, offset))
        if bool(bad.any()):
            at = ", ".join(str(m + int(i)) for m, i in zip(minima, bad.nonzero()[0], strict=True))
            s.findings.add(
                "unwritten read",
                location,
                array.name,
                f"{array.name}[{at}], which nothing has written; {array.name} is "
                f"{array.extent} ({array.scope}; {s.where}, {int(bad.sum())} of {bad.numel()} elements)",
            )
    if storage.owner is not None and not storage.ordered_by_program:
        owner = array.shadow(storage.owner, size, array.strides, offset)
        if bool(s.foreign(owner).any()):
            s.findings.add(
                "race",
                location,
                array.name,
                f"{s.where} reads elements of {array.name} that {array.others} writes",
            )
    if storage.reader is not None and not atomic:
        reader = array.shadow(storage.reader, size, array.strides, offset)
        reader.copy_(joined_by(s, reader))
    value = array.values(size, array.strides, offset)
    return to_values(value, array.dtype)


def write_box(
    s: State,
    array: Array,
    minima: Sequence[int],
    extents: Sequence[int],
    value: Tensor,
    location: Location,
    atomic: bool = False,
) -> None:
    """Stores `value` (of the box's shape, or one that broadcasts to it) into a box; what is outside is
    dropped.  atomic: an update that others may make, too.
    """
    if not _inside(array, minima, extents):
        if not array.is_global:
            _report_range(s, array, minima, extents, location)
        low, high = _clip(array, minima, extents)
        if not all(a < b for a, b in zip(low, high, strict=True)):
            return
        value = value.expand(tuple(extents))[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
        minima = [m + a for m, a in zip(minima, low, strict=True)]
        extents = [b - a for a, b in zip(low, high, strict=True)]
    offset = sum(m * stride for m, stride in zip(minima, array.strides, strict=True))
    size = tuple(extents)
    storage = array.storage
    if storage.owner is not None:
        mine = array.shadow(storage.owner, size, array.strides, offset)
        if not atomic and bool(s.foreign(mine).any()):
            s.findings.add(
                "conflicting writes",
                location,
                array.name,
                f"{s.where} writes elements of {array.name} that {array.others} wrote",
            )
        if atomic:
            mine.copy_(updated_by(s, storage, mine))
        else:
            mine.fill_(s.block)
    if storage.reader is not None:
        reader = array.shadow(storage.reader, size, array.strides, offset)
        if bool(s.foreign(reader).any()):
            s.findings.add(
                "race",
                location,
                array.name,
                f"{s.where} writes elements of {array.name} that {array.others} reads",
            )
    array.values(size, array.strides, offset).copy_(store_form(value, array.dtype))
    if storage.written is not None and not storage.complete:
        if size == array.shape:
            storage.complete = True
        array.shadow(storage.written, size, array.strides, offset).fill_(True)


def tile_operator(t: Translator, run: Callable[[State], None], name: str) -> Closure:
    """A tile operator is carried out by all threads of the block together; a subset of them cannot."""
    location = t.location
    if t.parallel:
        raise t.unsupported(f"{name} inside a parallel loop")

    def checked(s: State) -> None:
        if s.mask is not None:
            raise Unsupported(
                f"{location}: the simulator does not model {name} under a condition that differs between "
                "threads"
            )
        run(s)

    return checked if t.launch.threads else run


_NOT_MODELLED = {
    "barrier": "a barrier that it signals",
    "cluster_mask": "cluster_mask, one copy into several blocks",
    "use_2cta": "use_2cta",
    "gather4_rows": "gather4_rows",
}
"""Annotations of a copy that make it another one; in words."""


@handles(CALLS, "tl.tileop.copy", "tl.tileop.async_copy", "tl.tileop.tma_copy")
def _copy(t: Translator, node: Any) -> Closure:
    if (loops := copy_by_element(node)) is not None:
        return t.stmt(loops)
    options = {str(name): value for name, value in dict(node.annotations or {}).items()}
    to_peer = "dst_block" in options and not _is_no_block(options["dst_block"])
    for name, words in _NOT_MODELLED.items():
        if name in options and not (to_peer and name == "barrier"):
            raise t.unsupported(f"{operator_name(node)} with {words}{OTHERWISE}")
    source, target = Region(t, node.args[0]), Region(t, node.args[1])
    t.store_locations[target.data] = t.location
    over_source = _DISTANCE.get(source.scope, 0) >= _DISTANCE.get(target.scope, 0)
    if not over_source and _surely_smaller(node.args[1], node.args[0]):
        raise t.unsupported(f"a copy from a larger part of {source.name} to a smaller one of {target.name}")

    def boxes(s: State) -> tuple[Box, Box]:
        source_min, source_ext = source.box(s)
        target_min, target_ext = target.box(s)
        steps = _steps(source, source_ext) if over_source else _steps(target, target_ext)
        source_box, target_box = _paired(source, steps), _paired(target, steps)
        if source_box is None or target_box is None:
            raise Unsupported(
                f"{source.location}: a copy of {source.name}{source_ext} to {target.name}{target_ext}: the "
                "extents that are not 1 do not pair up, and TileLang rejects it"
            )
        return (source_min, source_box), (target_min, target_box)

    if to_peer:
        send = _copy_to_peer(t, source, target, boxes, options["dst_block"], options.get("barrier"))
        return tile_operator(t, send, "a copy to another block")

    def run(s: State) -> None:
        source_box, (target_min, target_ext) = boxes(s)
        value = cast(source.read_box(s, *source_box), source.dtype, target.dtype)
        write_box(s, target.array(s), target_min, target_ext, value.reshape(target_ext), target.location)

    return tile_operator(t, run, "a copy")


def _is_no_block(rank: Any) -> bool:
    """TileLang takes the constant -1 for no rank at all."""
    return (isinstance(rank, int) or _is_constant(rank)) and int(rank) == -1


def _copy_to_peer(
    t: Translator,
    source: Region,
    target: Region,
    boxes: Callable[[State], tuple[Box, Box]],
    rank: Any,
    barrier: Any,
) -> Callable[[State], None]:
    """A copy into `target` of the block of this rank in the cluster.

    Rows are sent whole, with the padding between them: elements that nothing has written here count as
    unwritten there.
    """
    if not (source.scope.startswith("shared") and target.scope.startswith("shared")):
        raise t.unsupported(f"a copy to another block from {source.scope} to {target.scope} memory")
    t.exposed.add(target.slot)
    peer_rank = t.expr(rank) if hasattr(rank, "dtype") else constantly(int(rank))
    signalled = None if barrier is None else ClusterBarrier(t, barrier)
    location = t.location

    def run(s: State) -> None:
        assert s.cluster is not None
        to = uniform(peer_rank(s), "a rank", s, location)
        peer = s.cluster.peer(s, to, target.slot, target.name, location)
        if peer is None:
            return
        source_box, target_box = boxes(s)
        missing = missing_in(source.array(s), *source_box)
        value = cast(source.read_box(s, *source_box, unwritten=True), source.dtype, target.dtype)
        array, extents = target.array(peer), target_box[1]
        cell = None if signalled is None else signalled.of(s, peer)
        mine, s.block = s.block, s.cluster.number_of_copy(s, cell)
        try:
            write_box(s, array, *target_box, value.reshape(extents), location)
        finally:
            number, s.block = s.block, mine
        shadow = None
        if _inside(array, *target_box):
            assert array.storage.owner is not None
            shadow = _entries(array, array.storage.owner, *target_box)
            if missing is not None:
                _forget(array, target_box, missing.reshape(extents))
        s.cluster.sent(s, peer, number, cell, shadow, target.slot, target.name, location)

    return run


def _forget(array: Array, box: Box, missing: Tensor) -> None:
    """Elements of a box count as unwritten."""
    storage = array.storage
    assert storage.written is not None
    if storage.complete:
        storage.written.fill_(True)
        storage.complete = False
    _entries(array, storage.written, *box).masked_fill_(array.by_entry(missing), False)


class ClusterBarrier:
    """An mbarrier that every block of a cluster has, at the index that a load names."""

    def __init__(self, t: Translator, load: Any) -> None:
        counts = t.launch.cluster_barriers.get(load.buffer.data)
        if counts is None:
            raise t.unsupported(f"the barrier {load.buffer.name}{OTHERWISE}")
        self._counts, self._slot = counts, t.buffer(load.buffer)
        self._index, self._location = t.expr(load.indices[0]), t.location
        self._name = str(load.buffer.name)

    def of(self, s: State, owner: State) -> Any:
        """The barrier of block `owner`, at the index that block `s` means."""
        assert s.cluster is not None
        cell = uniform(self._index(s), f"an index of {self._name}", s, self._location)
        return s.cluster.barrier(owner.rank, self._slot, cell, self._counts[cell])


def _surely_smaller(target: Any, source: Any) -> bool:
    """Whether TileLang rejects a copy because its loop, over the target, would not cover the source."""
    sizes = [[int(e) for e in r.args[2:] if _is_constant(e) and int(e) != 1] for r in (target, source)]
    if any(not _is_constant(e) for r in (target, source) for e in r.args[2:]):
        return False
    return any(a < b for a, b in zip(*sizes, strict=False))


def _steps(region: Region, extents: Sequence[int]) -> list[int]:
    """Extents of the loop that TileLang makes: those that are not 1 as written; at run time they may be."""
    return [e for e, one in zip(extents, region.is_one, strict=True) if not one]


def _paired(region: Region, steps: Sequence[int]) -> list[int] | None:
    """The loop's extents on this side: axes that are not 1 take the steps in order; None if they cannot."""
    if region.is_one.count(False) != len(steps):
        return None
    rest = iter(steps)
    return [1 if one else next(rest) for one in region.is_one]


@handles(CALLS, "tl.tileop.transpose")
def _transpose(t: Translator, node: Any) -> Closure:
    source, target = Region(t, node.args[0]), Region(t, node.args[1])

    def run(s: State) -> None:
        value = source.read(s).transpose(-1, -2)
        target.write(s, cast(value, source.dtype, target.dtype))

    return tile_operator(t, run, "a transpose")


@handles(CALLS, "tl.tileop.fill")
def _fill(t: Translator, node: Any) -> Closure:
    if (loops := fill_by_element(node)) is not None:
        return t.stmt(loops)
    load = node.args[0].args[0]
    value, source, target = t.expr(node.args[1]), str(node.args[1].dtype), str(load.buffer.dtype)
    region = Region(t, node.args[0])
    t.store_locations[region.data] = t.location

    def run(s: State) -> None:
        filler = cast(value(s), source, target)
        tensor = filler if isinstance(filler, Tensor) else torch.tensor(filler, dtype=value_dtype(target))
        region.write(s, tensor)

    return tile_operator(t, run, "a fill")


@handles(CALLS, "tl.tileop.im2col", "tl.tileop.c2d_im2col")
def _im2col(t: Translator, node: Any) -> Closure:
    """Rows: output pixels nhw_step * tile rows onwards; columns: (kernel row, kernel column, channel)."""
    image, columns = Region(t, node.args[0]), Region(t, node.args[1])
    nhw_step, c_step = t.expr(node.args[2]), t.expr(node.args[3])
    kernel, stride, dilation, pad = (int(a) for a in node.args[4:8])

    def run(s: State) -> None:
        array = image.array(s)
        n, h, w, c = array.shape
        out_h = (h + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        out_w = (w + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        minima, extents = columns.box(s)
        rows, depth = extents[-2], extents[-1]
        pixel = torch.arange(rows)[:, None] + int(nhw_step(s)) * rows
        element = torch.arange(depth)[None, :] + int(c_step(s)) * depth
        batch, y, x = pixel // (out_h * out_w), (pixel // out_w) % out_h, pixel % out_w
        ky, kx, channel = element // (kernel * c), (element // c) % kernel, element % c
        iy = y * stride + ky * dilation - pad
        ix = x * stride + kx * dilation - pad
        inside = (iy >= 0) & (iy < h) & (ix >= 0) & (ix < w) & (batch < n) & (ky < kernel)
        gathered = array.data[
            torch.where(inside, batch, 0),
            torch.where(inside, iy, 0),
            torch.where(inside, ix, 0),
            channel.expand_as(inside),
        ]
        value = torch.where(inside, gathered, torch.zeros((), dtype=gathered.dtype))
        write_box(s, columns.array(s), minima, extents, value.reshape(extents), columns.location)

    return tile_operator(t, run, "im2col")


@handles(CALLS, "tl.tileop.gemm", "tl.tileop.wgmma_gemm", "tl.tileop.tcgen05_gemm")
def _gemm(t: Translator, node: Any) -> Closure:
    if operator_name(node) != "tl.tileop.gemm" and type(node.args[10]).__name__ != "IntImm":
        raise t.unsupported(f"{operator_name(node)} with a barrier{OTHERWISE}")
    a, b, c = (Region(t, r) for r in node.args[:3])
    transpose_a, transpose_b = bool(node.args[3]), bool(node.args[4])
    clear = t.expr(node.args[9])

    def run(s: State) -> None:
        left = _matrix(a.read(s), a.dtype, transpose_a)
        right = _matrix(b.read(s), b.dtype, transpose_b)
        minima, extents = c.box(s)
        old = None
        if not truth(clear(s)):
            old = read_box(s, c.array(s), minima, extents, c.location).reshape(extents[-2:])
        value = multiply(left, right, old, a.dtype, c.dtype)
        write_box(s, c.array(s), minima, extents, value.reshape(extents), c.location)

    return tile_operator(t, run, "a gemm")


def _matrix(tile: Tensor, dtype: str, transposed: bool) -> Tensor:
    tile = tile.reshape(tile.shape[-2:])
    if dtype == "float32":
        tile = to_tf32(tile, nearest=False)
    return tile.T if transposed else tile


_INSTRUCTION_K = 16
"""Products that one tensor-core instruction adds up before it rounds into a 16-bit accumulator."""


def multiply(a: Tensor, b: Tensor, accumulator: Tensor | None, operand: str, result: str) -> Tensor:
    """accumulator + a @ b as a tensor core does it: exact products, sums in the accumulator's dtype."""
    if not is_float(operand):
        product = (a.double() @ b.double()).to(torch.int64)
        total = product if accumulator is None else accumulator.to(torch.int64) + product
        return total.to(value_dtype(result))
    wide = torch.float64 if operand == "float64" else torch.float32
    a, b = a.to(wide), b.to(wide)
    if result in ("float16", "bfloat16"):
        dtype = value_dtype(result)
        total = torch.zeros(a.shape[0], b.shape[1], dtype=dtype) if accumulator is None else accumulator
        for k in range(0, a.shape[1], _INSTRUCTION_K):
            step = a[:, k : k + _INSTRUCTION_K] @ b[k : k + _INSTRUCTION_K]
            total = (total.to(wide) + step).to(dtype)
        return total
    product = a @ b
    return product if accumulator is None else accumulator + product


@handles(CALLS, "tl.tileop.reduce")
def _reduce(t: Translator, node: Any) -> Closure:
    if (loops := reduce_by_element(node)) is not None:
        return t.stmt(loops)
    source, target = Region(t, node.args[0]), Region(t, node.args[1])
    kind, axis, clear = str(node.args[2].value), int(node.args[3]), bool(node.args[4])
    keep_nan = bool(dict(node.annotations or {}).get("nan_propagate", False)) and target.dtype in (
        "float16",
        "bfloat16",
    )

    def run(s: State) -> None:
        minima, extents = target.box(s)
        value = reduce_axis(source.read(s), axis, kind, source.dtype, target.dtype, keep_nan).reshape(extents)
        if not clear:
            old = read_box(s, target.array(s), minima, extents, target.location)
            value = cast_tile(combine(old, value, kind, keep_nan), target.dtype)
        write_box(s, target.array(s), minima, extents, value, target.location)

    return tile_operator(t, run, "a reduction")


def reduce_axis(
    tile: Tensor, axis: int, kind: str, source: str, target: str, keep_nan: bool = False
) -> Tensor:
    """Reduction of a tile along one axis, from the kind's neutral element on.

    TileLang casts each element to the target's dtype and accumulates in that (MakeReduce in its
    backend/common/op/reduce.h): a sum of float16 into float16 rounds at each step.
    """
    tile = cast(tile, source, target)
    if kind in ("abssum", "absmax"):
        tile = tile.abs()
    if kind in ("sum", "abssum"):
        if is_float(target) and bits_of(target) < 32:
            return _sum_in_steps(tile, axis, target)
        return wrap(tile.sum(axis, dtype=tile.dtype), target)  # type: ignore[no-any-return]
    if kind in ("max", "min", "absmax"):
        return _extreme(tile, axis, kind, target, keep_nan)
    if kind in ("bitand", "bitor", "bitxor"):
        parts = tile.unbind(axis)
        result = parts[0]
        for part in parts[1:]:
            result = combine(result, part, kind)
        return result
    raise NotImplementedError(f"reduction {kind}")


_LANES_OF_A_SUM = 32
"""Partial sums along an axis, as the threads of a warp hold them; the real number depends on the layout that
TileLang infers."""


def _sum_in_steps(tile: Tensor, axis: int, dtype: str) -> Tensor:
    """Sum of narrow floats, rounded after each addition: by lane first, then over pairs of lanes."""
    rest = [cast(part.float(), "float32", dtype) for part in torch.split(tile, _LANES_OF_A_SUM, axis)]
    partial: Tensor = rest[0].clone()
    for part in rest[1:]:
        lanes = partial.narrow(axis, 0, part.shape[axis])
        lanes.copy_(_rounded_sum(lanes, part, dtype))
    while (count := partial.shape[axis]) > 1:
        half = count // 2
        pairs = _rounded_sum(partial.narrow(axis, 0, half), partial.narrow(axis, half, half), dtype)
        partial = torch.cat([pairs, partial.narrow(axis, 2 * half, count - 2 * half)], axis)
    return partial.squeeze(axis)


def _rounded_sum(a: Tensor, b: Tensor, dtype: str) -> Tensor:
    return cast(a.float() + b.float(), "float32", dtype)  # type: ignore[no-any-return]


def _extreme(tile: Tensor, axis: int, kind: str, dtype: str, keep_nan: bool) -> Tensor:
    if is_float(dtype) and not keep_nan:
        # fmaxf drops NaN; a row of nothing else leaves the neutral element
        neutral = 0.0 if kind == "absmax" else float("-inf") if kind == "max" else float("inf")
        tile = torch.where(tile.isnan(), torch.tensor(neutral, dtype=tile.dtype), tile)
    flip = _SIGN_OF_UINT64 if dtype == "uint64" else 0
    if flip:
        tile = tile ^ flip
    result = tile.amin(axis) if kind == "min" else tile.amax(axis)
    return result ^ flip if flip else result


_SIGN_OF_UINT64 = -(1 << 63)
"""A uint64 is held in an int64 of the same bits; with this bit flipped, both order alike."""


def cast_tile(value: Tensor, dtype: str) -> Tensor:
    """A result brought into the range of its dtype."""
    if is_float8(dtype):
        return cast(value, "float32", dtype)  # type: ignore[no-any-return]
    return wrap(value.to(value_dtype(dtype)), dtype)  # type: ignore[no-any-return]


def combine(a: Tensor, b: Tensor, kind: str, keep_nan: bool = False) -> Tensor:
    """Two partial results of a reduction."""
    if kind in ("sum", "abssum"):
        return a + b
    if kind in ("max", "absmax", "min"):
        b = b.to(a.dtype)
        if keep_nan or not a.is_floating_point():
            return torch.minimum(a, b) if kind == "min" else torch.maximum(a, b)
        return torch.fmin(a, b) if kind == "min" else torch.fmax(a, b)
    if kind == "bitand":
        return a & b
    return a | b if kind == "bitor" else a ^ b


@handles(CALLS, "tl.tileop.cumsum", "tl.tileop.cummax")
def _scan(t: Translator, node: Any) -> Closure:
    source, target = Region(t, node.args[0]), Region(t, node.args[1])
    axis, reverse = int(node.args[2]), bool(node.args[3])
    is_sum = operator_name(node) == "tl.tileop.cumsum"

    def run(s: State) -> None:
        tile = source.read(s)
        tile = tile.flip(axis) if reverse else tile
        tile = tile.cumsum(axis, dtype=tile.dtype) if is_sum else tile.cummax(axis).values
        target.write(s, cast(tile.flip(axis) if reverse else tile, source.dtype, target.dtype))

    return tile_operator(t, run, "a scan")


def update_cells(array: Array, flat: Tensor, value: Tensor, kind: str) -> None:
    """memory[flat[i]] = memory[flat[i]] (kind) value[i], one after the other."""
    memory = torch.as_strided(array.data, (array.span,), (1,), array.data.storage_offset())
    value = value.to(value_dtype(array.dtype))
    if kind == "sum" and not is_float8(array.dtype):
        memory.index_put_((flat,), store_form(value, array.dtype), accumulate=True)
        return
    cells, place = torch.unique(flat, return_inverse=True)
    current = to_values(memory[cells], array.dtype)
    if kind in ("max", "min"):
        flip = _SIGN_OF_UINT64 if array.dtype == "uint64" else None
        if flip is not None:
            current, value = current ^ flip, value ^ flip
        current = current.scatter_reduce(0, place, value, "amax" if kind == "max" else "amin")
        memory[cells] = store_form(current if flip is None else current ^ flip, array.dtype)
        return
    for i, v in zip(place.tolist(), value, strict=True):
        current[i] = cast_tile(combine(current[i], v, kind), array.dtype)
    memory[cells] = store_form(current, array.dtype)


@handles(CALLS, "tl.tileop.atomicadd", "tl.tileop.atomicmax", "tl.tileop.atomicmin")
def _tile_atomic(t: Translator, node: Any) -> Closure:
    kind = {"atomicadd": "sum", "atomicmax": "max", "atomicmin": "min"}[
        operator_name(node).rpartition(".")[2]
    ]
    target = Region(t, node.args[1])
    is_region = operator_name(node.args[0]) == "tl.region" if hasattr(node.args[0], "op") else False
    source = Region(t, node.args[0]) if is_region else None
    scalar = None if is_region else t.expr(node.args[0])

    def run(s: State) -> None:
        minima, extents = target.box(s)
        if source is not None:
            source_min, source_ext = source.box(s)
            over_source = _DISTANCE.get(source.scope, 0) >= _DISTANCE.get(target.scope, 0)
            steps = _steps(source, source_ext) if over_source else _steps(target, extents)
            source_box, target_box = _paired(source, steps), _paired(target, steps)
            if source_box is None or target_box is None:
                raise Unsupported(
                    f"{source.location}: an atomic of {source.name}{source_ext} on {target.name}{extents}"
                )
            value = read_box(s, source.array(s), source_min, source_box, source.location)
            extents = target_box
            value = cast(value, source.dtype, target.dtype).reshape(extents)
        else:
            assert scalar is not None
            value = torch.as_tensor(scalar(s)).to(value_dtype(target.dtype)).expand(extents)
        old = read_box(s, target.array(s), minima, extents, target.location, atomic=True)
        write_box(
            s, target.array(s), minima, extents, combine(old, value, kind), target.location, atomic=True
        )

    return tile_operator(t, run, "an atomic on a tile")
