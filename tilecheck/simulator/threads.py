"""What one thread does: element atomics, synchronisation, shuffles and votes, printing and assertions.

Threads run in lock step, statement by statement, so a barrier of a block has nothing to do; a missing one is
not seen. Blocks of a cluster do wait for each other.
"""

import math
from typing import Any

import torch
from torch import Tensor

from tilecheck.simulator.access import Access, Closure
from tilecheck.simulator.operators import ClusterBarrier, cast_tile, combine, tile_operator, update_cells
from tilecheck.simulator.state import State
from tilecheck.simulator.statements import check_assertion
from tilecheck.simulator.translator import CALLS, Translator, handles, operator_name
from tilecheck.simulator.values import (
    Value,
    as_tensor,
    common_shape,
    load_form,
    to_values,
    truth,
    value_dtype,
)

WARP = 32

_NOTHING_TO_DO = (
    *("tirx.tvm_storage_sync", "tl.sync_warp", "tl.fence_proxy_async", "tirx.assume", "tirx.tvm_tuple"),
    "tl.named_barrier_arrive",
    *("tl.wait_wgmma", "tl.warpgroup_arrive", "tl.warpgroup_commit_batch", "tl.warpgroup_wait"),
    *("tl.warpgroup_fence_operand", "tirx.ptx_commit_group", "tirx.ptx_wait_group", "tl.pdl_trigger"),
    *(
        "tl.set_max_nreg",
        "tl.no_set_max_nreg",
        "tl.annotate_producer_reg_dealloc",
        "tl.annotate_consumer_reg_alloc",
    ),
)


@handles(CALLS, *_NOTHING_TO_DO)
def _nothing(t: Translator, node: Any) -> Closure:
    return lambda s: None


@handles(CALLS, "tl.pdl_sync")
def _wait_for_the_launch_before(t: Translator, node: Any) -> Closure:
    def run(s: State) -> None:
        s.early = False

    return run


@handles(CALLS, "tl.cluster_arrive", "tl.cluster_arrive_relaxed", "tl.cluster_wait", "tl.cluster_sync")
def _cluster_barrier(t: Translator, node: Any) -> Closure:
    name, location = operator_name(node).removeprefix("tl."), t.location

    def run(s: State) -> None:
        assert s.cluster is not None
        if name != "cluster_wait":
            s.cluster.arrive(s, location, relaxed=name == "cluster_arrive_relaxed")
        if name in ("cluster_wait", "cluster_sync"):
            s.cluster.wait(s, location)

    return tile_operator(t, run, name)


@handles(CALLS, "tl.block_rank_in_cluster")
def _rank_in_cluster(t: Translator, node: Any) -> Closure:
    return lambda s: s.rank


@handles(CALLS, "tl.mbarrier_wait_parity")
def _wait_for_copies(t: Translator, node: Any) -> Closure:
    """Waits for copies from other blocks of the cluster that signal this barrier."""
    barrier = ClusterBarrier(t, node.args[0])
    parity, location = t.expr(node.args[1]), t.location

    def run(s: State) -> None:
        assert s.cluster is not None
        s.cluster.wait_for(s, barrier.of(s, s), int(parity(s)) % 2, location)

    return tile_operator(t, run, "mbarrier_wait_parity")


_ATOMIC_KINDS = {"add": "sum", "max": "max", "min": "min", "or": "bitor"}


@handles(
    CALLS,
    *(f"tl.atomic_{kind}_elem_op" for kind in _ATOMIC_KINDS),
    *(f"tl.atomic_{kind}_ret_elem_op" for kind in ("add", "max", "min")),
)
def _element_atomic(t: Translator, node: Any) -> Closure:
    name = operator_name(node)
    kind = _ATOMIC_KINDS[name.split("_")[1]]
    target = t.access(node.args[0].args[0])
    dtype = str(node.args[0].args[0].buffer.dtype)
    value = t.expr(node.args[1])
    returns = "_ret_" in name
    every = t.acting_lanes()

    def run(s: State) -> Value:
        given = as_tensor(value(s), dtype).to(value_dtype(dtype))
        array, flat, chosen = target.elements(s, common_shape(every, given.shape))
        cells, contributions = flat[chosen], given.expand(flat.shape)[chosen]
        before = _previous(array, cells, contributions, kind, dtype) if returns else None
        update_cells(array, cells, contributions, kind)
        if before is None:
            return None
        result = torch.zeros(flat.shape, dtype=value_dtype(dtype))
        result[chosen] = before
        return load_form(result.reshape(()) if result.numel() == 1 else result, dtype)

    return run


def _previous(array: Any, cells: Tensor, values: Tensor, kind: str, dtype: str) -> Tensor:
    """What each lane finds before its update, if the lanes come in order."""
    memory = torch.as_strided(
        array.data, (int(cells.max()) + 1 if cells.numel() else 0,), (1,), array.data.storage_offset()
    )
    running: dict[int, Tensor] = {}
    before = []
    for cell, value in zip(cells.tolist(), values, strict=True):
        old = running.get(cell)
        if old is None:
            old = to_values(memory[cell], dtype)
        before.append(old)
        running[cell] = cast_tile(combine(old, value, kind), dtype)
    return torch.stack(before) if before else torch.zeros(0, dtype=value_dtype(dtype))


@handles(CALLS, "tl.atomic_addx2_elem_op", "tl.atomic_addx4_elem_op")
def _vector_atomic(t: Translator, node: Any) -> Closure:
    width = 2 if "x2" in operator_name(node) else 4
    target_load, source = node.args[0].args[0], node.args[1]
    targets = [t.access(_shifted(target_load, i)) for i in range(width)]
    if operator_name(source) == "tl.access_ptr" if hasattr(source, "op") else False:
        values = [t.expr(_shifted(source.args[0], i)) for i in range(width)]
    else:
        raise t.unsupported(f"{operator_name(node)} of a vector value")
    dtype = str(target_load.buffer.dtype)
    every = t.acting_lanes()

    def run(s: State) -> None:
        for target, value in zip(targets, values, strict=True):
            given = as_tensor(value(s), dtype).to(value_dtype(dtype))
            array, flat, chosen = target.elements(s, common_shape(every, given.shape))
            update_cells(array, flat[chosen], given.expand(flat.shape)[chosen], "sum")

    return run


def _shifted(load: Any, by: int) -> Any:
    """The load of the element `by` places further along the last axis."""
    from tilelang import tvm

    *front, last = load.indices
    return tvm.tirx.BufferLoad(load.buffer, [*front, last + by])


@handles(CALLS, "tl.atomic_load_elem_op")
def _atomic_load(t: Translator, node: Any) -> Closure:
    return t.expr(node.args[0].args[0])


@handles(CALLS, "tl.atomic_store_elem_op")
def _atomic_store(t: Translator, node: Any) -> Closure:
    access: Access = t.access(node.args[0].args[0])
    value = t.expr(node.args[1])
    missing = tuple(axis for axis in t.parallel if access.affine is None or axis not in access.used)
    return lambda s: access.store(s, value(s), missing)


def _linear_thread(t: Translator) -> Tensor:
    """Number of each thread in its block, over the thread axes of the lane grid."""
    shape = _shape_of_threads(t)
    return torch.arange(math.prod(shape), dtype=torch.int32).reshape(shape)


@handles(CALLS, "tl.get_lane_idx", "tl.get_warp_idx", "tl.get_warp_idx_sync", "tl.get_warp_group_idx")
def _thread_number(t: Translator, node: Any) -> Closure:
    if node.args and not all(int(a) == d for a, d in zip(node.args, (32, 4), strict=False)):
        raise t.unsupported(f"{operator_name(node)} with other than 32 threads a warp")
    thread = _linear_thread(t)
    name = operator_name(node)
    value = thread % WARP if "lane" in name else thread // (4 * WARP) if "group" in name else thread // WARP
    return lambda s: value


def _shape_of_threads(t: Translator) -> tuple[int, ...]:
    """Shape of a value that every thread has one of, over the lane grid of the kernel at hand."""
    counts = tuple(extent for _, extent in t.launch.threads)
    return counts + (1,) * (t.rank - len(counts))


def _by_thread(threads: tuple[int, ...], value: Value, dtype: str) -> Tensor:
    """Values in thread order."""
    return as_tensor(value, dtype).expand(threads).reshape(-1)


def _of_whole_warps(t: Translator, what: str) -> tuple[int, ...]:
    """The shape of the threads; refuses an operation of warps where the lanes at hand are no whole ones."""
    if t.parallel:
        raise t.unsupported(f"{what} inside a parallel loop")
    count = math.prod(extent for _, extent in t.launch.threads)
    if count % WARP:
        raise t.unsupported(f"{what} in a block of {count} threads, which is no multiple of {WARP}")
    return _shape_of_threads(t)


@handles(CALLS, "tl.shfl_sync", "tl.shfl_xor_sync", "tl.shfl_up_sync", "tl.shfl_down_sync")
def _shuffle(t: Translator, node: Any) -> Closure:
    how = operator_name(node).removeprefix("tl.shfl_").removesuffix("sync").rstrip("_")
    threads = _of_whole_warps(t, operator_name(node))
    dtype = str(node.dtype)
    value, delta = t.expr(node.args[1]), t.expr(node.args[2])
    width = int(node.args[3]) if len(node.args) > 3 else WARP

    def run(s: State) -> Value:
        flat = _by_thread(threads, value(s), dtype)
        offset = _by_thread(threads, delta(s), "int32")
        lane = torch.arange(flat.numel())
        segment, place = lane - lane % width, lane % width
        wanted = {
            "": offset % width,
            "xor": place ^ offset,
            "up": place - offset,
            "down": place + offset,
        }[how]
        source = torch.where((wanted >= 0) & (wanted < width), segment + wanted, lane)
        return flat[source.clamp(max=flat.numel() - 1)].reshape(threads)

    return run


@handles(CALLS, *(f"tl.warp_reduce_{kind}" for kind in ("sum", "max", "min", "bitand", "bitor")))
def _warp_reduce(t: Translator, node: Any) -> Closure:
    kind = operator_name(node).removeprefix("tl.warp_reduce_")
    threads = _of_whole_warps(t, operator_name(node))
    dtype, value = str(node.dtype), t.expr(node.args[0])

    def run(s: State) -> Value:
        flat = _by_thread(threads, value(s), dtype)
        return _over_groups(flat, WARP, kind).reshape(threads)

    return run


def _over_groups(flat: Tensor, size: int, kind: str) -> Tensor:
    """Every thread of a group gets the group's result; sums add pairs at growing distance, as shuffles do."""
    groups = flat.reshape(-1, min(size, flat.numel()))
    result = groups
    step = groups.shape[1] // 2
    while step:
        result = combine(result, result[:, torch.arange(groups.shape[1]) ^ step], kind)
        step //= 2
    return result


@handles(CALLS, "tl.any_sync", "tl.all_sync", "tl.ballot_sync", "tl.ballot")
def _vote(t: Translator, node: Any) -> Closure:
    name = operator_name(node)
    threads = _of_whole_warps(t, name)
    predicate, dtype = t.expr(node.args[-1]), str(node.dtype)

    def run(s: State) -> Value:
        flat = _by_thread(threads, truth(predicate(s)), "bool")
        active = torch.ones_like(flat) if s.mask is None else _by_thread(threads, s.mask, "bool")
        votes, present = (x.reshape(-1, WARP) for x in (flat & active, active))
        if name == "tl.any_sync":
            result = votes.any(1)
        elif name == "tl.all_sync":
            result = (votes | ~present).all(1)
        else:
            result = (votes.to(torch.int64) << torch.arange(WARP)).sum(1)
        return result.to(value_dtype(dtype)).repeat_interleave(WARP).reshape(threads)

    return run


@handles(CALLS, "tl.any_of", "tl.all_of")
def _vote_of_memory(t: Translator, node: Any) -> Closure:
    """Whether any, or all, of a run of elements in row-major order are true."""
    load, count = node.args[0].args[0], node.args[1]
    if type(count).__name__ != "IntImm":
        raise t.unsupported(f"{operator_name(node)} of a number of elements known only at run time: {count}")
    elements = [t.access(_further(load, i)) for i in range(int(count))]
    all_of = operator_name(node) == "tl.all_of"

    def run(s: State) -> Value:
        result: Value = all_of
        for element in elements:
            found = truth(element.load(s))
            result = result & found if all_of else result | found
        return result

    return run


def _further(load: Any, by: int) -> Any:
    """The load of the element `by` places further in row-major order."""
    from tilelang import tvm

    indices = list(load.indices)
    for axis in range(len(indices) - 1, 0, -1):
        if type(load.buffer.shape[axis]).__name__ != "IntImm" or type(indices[axis]).__name__ != "IntImm":
            indices[axis] += by
            return tvm.tirx.BufferLoad(load.buffer, indices)
        extent, place = int(load.buffer.shape[axis]), int(indices[axis]) + by
        by, indices[axis] = place // extent, tvm.tirx.IntImm(indices[axis].dtype, place % extent)
    indices[0] += by
    return tvm.tirx.BufferLoad(load.buffer, indices)


@handles(CALLS, "tl.syncthreads_count", "tl.syncthreads_and", "tl.syncthreads_or")
def _block_vote(t: Translator, node: Any) -> Closure:
    name, dtype = operator_name(node), str(node.dtype)
    threads = _of_whole_warps(t, name)
    predicate = t.expr(node.args[0])

    def run(s: State) -> Value:
        flat = _by_thread(threads, truth(predicate(s)), "bool")
        total = flat.sum() if "count" in name else flat.all() if "and" in name else flat.any()
        return total.to(value_dtype(dtype)).expand(threads)

    return run


@handles(CALLS, "tirx.tvm_thread_allreduce")
def _block_reduce(t: Translator, node: Any) -> Closure:
    """Sum over the threads named last; the reducer itself stands in an attribute around the call."""
    value, condition = t.expr(node.args[1]), t.expr(node.args[2])
    store_to = node.args[3]
    dtype = str(node.args[1].dtype)
    slot = t.buffer(store_to.buffer)
    kind = t.reduce_kind
    over: set[int] = set()
    for thread in node.args[4:]:
        over |= t.axes(thread) or frozenset()
    axes = sorted(over) or list(range(len(t.launch.threads)))
    threads = _shape_of_threads(t)

    def run(s: State) -> None:
        given = as_tensor(value(s), dtype)
        lanes = given.expand(threads)
        keep = truth(condition(s))
        if keep is False:
            return
        if isinstance(keep, Tensor):
            neutral = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}[kind]
            lanes = torch.where(keep, lanes, torch.tensor(neutral, dtype=lanes.dtype))
        total = _over_axes(lanes, axes, kind)
        memory = s.memory[slot]
        if t.is_registers(slot):
            memory.store(tuple(int(i) for i in store_to.indices), total, s.mask)
        else:
            memory.data.copy_(total.reshape(memory.data.shape))
            memory.storage.complete = True

    return run


@handles(CALLS, "tirx.call_extern", "tirx.call_pure_extern")
def _extern(t: Translator, node: Any) -> Closure:
    name = str(node.args[0].value)
    if name == "debug_print_var":
        return _print(t, str(node.args[1].value), node.args[2])
    if name == "debug_print_buffer_value":
        text, buffer, number = str(node.args[1].value), str(node.args[2].value), t.expr(node.args[3])
        value = t.expr(node.args[4])
        return lambda s: _tell(s, text, value(s), f"buffer={buffer}, index={number(s)}, ")
    if name == "debug_print_msg":
        text = str(node.args[1].value)
        return lambda s: s.tell(text)
    raise t.unsupported(f"the external function {name}")


def _print(t: Translator, text: str, value: Any) -> Closure:
    closure = t.expr(value)
    return lambda s: _tell(s, text, closure(s))


def _tell(s: State, text: str, value: Value, of: str = "") -> None:
    """One line for all lanes; those that a condition switched off are left out."""
    if isinstance(value, Tensor):
        lanes = value if s.mask is None else value.expand(common_shape(value.shape, s.mask.shape))
        shown = lanes.flatten().tolist() if s.mask is None else lanes[s.mask.expand(lanes.shape)].tolist()
        value = shown[0] if len(shown) == 1 else shown
    s.tell(f"msg='{text}' {of}{s.where}: {value}")


def _over_axes(lanes: Tensor, axes: list[int], kind: str) -> Tensor:
    if kind == "sum":
        return lanes.sum(axes, keepdim=True)
    return lanes.amax(axes, keepdim=True) if kind == "max" else lanes.amin(axes, keepdim=True)


@handles(CALLS, "tl.device_assert", "tl.device_assert_with_msg")
def _device_assert(t: Translator, node: Any) -> Closure:
    condition, location = t.expr(node.args[0]), t.location
    text = str(node.args[1].value) if len(node.args) > 1 else str(node.args[0])

    def run(s: State) -> None:
        check_assertion(s, truth(condition(s)), location, text)

    return run
