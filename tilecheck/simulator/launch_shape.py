"""What must be known of a program before it is translated: thread indices, nesting, register buffers."""

from dataclasses import dataclass, field
from typing import Any

THREAD_TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_NEEDS_THREADS = (
    "tl.get_lane_idx",
    "tl.get_warp_idx",
    "tl.get_warp_idx_sync",
    "tl.get_warp_group_idx",
    "tl.shfl",
    "tl.warp_reduce",
    "tl.any_sync",
    "tl.all_sync",
    "tl.ballot",
    "tl.syncthreads_",
    "tirx.tvm_thread_allreduce",
)


_WRITTEN_OUT = ("tl.tileop.copy", "tl.tileop.fill", "tl.tileop.reduce")
"""Tile operators that are translated as loops over elements where an operand is a thread's own."""


@dataclass
class Launch:
    """threads: ((thread index 0..2 for x..z, extent), ...), of the indices that are lanes, slowest (z) first.

    parallel_depth: levels of the deepest nest of parallel loops.
    register_data: data variables of the `local` buffers that can be held as cells.
    private_data: those of the others, of which each thread has an array.
    synchronises: blocks may wait for each other (atomics, fences), so that reading another's result is no
    race.
    """

    threads: tuple[tuple[int, int], ...] = ()
    parallel_depth: int = 0
    register_data: set[Any] = field(default_factory=set)
    private_data: set[Any] = field(default_factory=set)
    synchronises: bool = False

    @property
    def rank(self) -> int:
        return len(self.threads) + self.parallel_depth

    def axis_of_thread(self, index: int) -> int | None:
        for axis, (i, _) in enumerate(self.threads):
            if i == index:
                return axis
        return None


def read_launch(body: Any) -> Launch:
    """Reads the launch of a program off its body, without translating it."""
    from tilelang import tvm

    tir = tvm.tirx
    launch = Launch()
    thread_vars: dict[Any, int] = {}
    used: set[Any] = set()
    extents = [1, 1, 1]
    needs_threads = False
    local_data: set[Any] = set()
    by_data: dict[Any, set[Any]] = {}

    def visit(node: Any) -> None:
        nonlocal needs_threads
        if isinstance(node, tir.Bind):
            call = node.value
            if isinstance(call, tir.Call) and getattr(call.op, "name", "") == "tl.launch_thread_idx":
                thread_vars[node.var] = int(call.args[0])
        elif isinstance(node, tir.Var):
            used.add(node)
        elif isinstance(node, tir.SBlock):
            for i, n in enumerate(node.annotations.get("tl.launch_threads", ())):
                extents[i] = max(extents[i], int(n))
            for buffer in node.alloc_buffers:
                if buffer.scope() in ("local", "local.var"):
                    local_data.add(buffer.data)
        elif isinstance(node, tir.For):
            tag = node.thread_binding.thread_tag if node.thread_binding is not None else ""
            if tag in THREAD_TAGS and isinstance(node.extent, tir.IntImm):
                i = THREAD_TAGS.index(tag)
                extents[i] = max(extents[i], int(node.extent))
                thread_vars[node.loop_var] = i
                used.add(node.loop_var)
        elif isinstance(node, (tir.BufferLoad, tir.BufferStore)):
            by_data.setdefault(node.buffer.data, set()).add(node.buffer)
        elif isinstance(node, tir.Call):
            name = getattr(node.op, "name", "")
            needs_threads |= name.startswith(_NEEDS_THREADS)
            launch.synchronises |= "atomic" in name or "fence" in name or "sync_grid" in name

    tir.stmt_functor.post_order_visit(body, visit)
    lanes = {thread_vars[v] for v in used if v in thread_vars}
    if needs_threads or _every_thread_updates(body):
        lanes |= {i for i in range(3) if extents[i] > 1}
    launch.threads = tuple((i, extents[i]) for i in (2, 1, 0) if i in lanes and extents[i] > 1)
    launch.parallel_depth = _parallel_depth(body)
    tiled = _tile_operands(body)
    launch.register_data = {
        data
        for data in local_data
        if len(by_data.get(data, ())) <= 1
        and data not in tiled
        and not _indexed_by_lanes(body, data, thread_vars)
    }
    launch.private_data = local_data - launch.register_data if launch.threads else set()
    return launch


def _tile_operands(body: Any) -> set[Any]:
    """Data variables of buffers that pointers, or tile operators that are not written out as loops, name."""
    from tilelang import tvm

    named: dict[Any, int] = {}

    def visit(node: Any) -> None:
        if not isinstance(node, tvm.tirx.Call):
            return
        name = getattr(node.op, "name", "")
        if name in ("tl.region", "tl.access_ptr"):
            data = node.args[0].buffer.data
            named[data] = named.get(data, 0) + 1
        elif name in _WRITTEN_OUT:
            for operand in node.args[:2]:
                if getattr(getattr(operand, "op", None), "name", "") == "tl.region":
                    named[operand.args[0].buffer.data] -= 1

    tvm.tirx.stmt_functor.post_order_visit(body, visit)
    return {data for data, count in named.items() if count > 0}


def _every_thread_updates(body: Any) -> bool:
    """Whether an atomic stands outside of all parallel loops: each thread of the block carries it out."""
    from tilelang import tvm

    tir = tvm.tirx
    found = False

    def look(node: Any) -> None:
        nonlocal found
        if isinstance(node, tir.Call):
            name = getattr(node.op, "name", "")
            found |= name.startswith("tl.atomic_") and name.endswith("elem_op")

    def walk(node: Any) -> None:
        if isinstance(node, tir.For) and node.kind == tir.ForKind.PARALLEL:
            return
        inside = statements_in(node)
        if not inside:
            tir.stmt_functor.post_order_visit(node, look)
        for child in inside:
            walk(child)

    walk(body)
    return found


def _parallel_depth(body: Any) -> int:
    from tilelang import tvm

    tir = tvm.tirx
    deepest = 0

    def walk(node: Any, depth: int) -> None:
        nonlocal deepest
        deepest = max(deepest, depth)
        for child in statements_in(node):
            walk(child, depth + (isinstance(node, tir.For) and node.kind == tir.ForKind.PARALLEL))

    walk(body, 0)
    return deepest


def statements_in(node: Any) -> list[Any]:
    """The statements directly inside a statement."""
    from tilelang import tvm

    tir = tvm.tirx
    if isinstance(node, tir.SeqStmt):
        return list(node.seq)
    if isinstance(node, tir.IfThenElse):
        return [node.then_case] + ([node.else_case] if node.else_case is not None else [])
    if isinstance(node, tir.SBlockRealize):
        return [node.block]
    if isinstance(node, tir.SBlock):
        return ([node.init] if node.init is not None else []) + [node.body]
    return [node.body] if hasattr(node, "body") else []


def _indexed_by_lanes(body: Any, data: Any, thread_vars: dict[Any, int]) -> bool:
    """Whether an index of the buffer may differ between lanes: then it is no set of cells of a thread."""
    from tilelang import tvm

    tir = tvm.tirx
    lanes: set[Any] = set(thread_vars)
    found = False

    def collect(node: Any) -> None:
        if isinstance(node, tir.For) and node.kind == tir.ForKind.PARALLEL:
            lanes.add(node.loop_var)

    tir.stmt_functor.post_order_visit(body, collect)

    def mentions(expr: Any) -> bool:
        hit = False

        def look(node: Any) -> None:
            nonlocal hit
            hit |= isinstance(node, tir.Var) and node in lanes

        tir.stmt_functor.post_order_visit(expr, look)
        return hit

    def visit(node: Any) -> None:
        nonlocal found
        if isinstance(node, tir.Bind) and mentions(node.value):
            lanes.add(node.var)
        if isinstance(node, (tir.BufferLoad, tir.BufferStore)) and node.buffer.data.same_as(data):
            found |= any(mentions(i) for i in node.indices)

    tir.stmt_functor.post_order_visit(body, visit)
    return found
