"""What must be known of a program before it is translated: thread indices, nesting, register buffers."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

THREAD_TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
# Node classes are told apart by name: `isinstance` of TVM's asks an abstract base class, which is far slower.
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

_UPDATES = (
    *("tl.atomic_add_elem_op", "tl.atomic_max_elem_op", "tl.atomic_min_elem_op", "tl.atomic_or_elem_op"),
    *("tl.atomic_addx2_elem_op", "tl.atomic_addx4_elem_op"),
    *("tl.tileop.atomicadd", "tl.tileop.atomicmax", "tl.tileop.atomicmin"),
)
"""Atomics that tell their block nothing: they give back no value."""

_WITHIN_A_BLOCK = ("tl.fence_proxy_async", "tl.warpgroup_fence_operand")
"""Fences that order what threads of one block see."""


@dataclass
class Launch:
    """threads: ((thread index 0..2 for x..z, extent), ...), of the indices that are lanes, slowest (z) first.

    parallel_depth: levels of the deepest nest of parallel loops.
    register_data: data variables of the `local` buffers that can be held as cells.
    private_data: those of the others, of which each thread has an array.
    synchronises: a block may learn that another has come so far, so that reading its result is no race.
    cluster: blocks of a cluster along x, y and z; None where nothing speaks of clusters.
    cluster_barriers: data variable of the mbarriers of a cluster -> arrivals that each of them waits for.
    early: it may start before the launch before it has ended.
    shared_spans: data variable of a shared buffer -> first and last step of the kernel that names it; filled
    where the kernel has clusters.
    """

    threads: tuple[tuple[int, int], ...] = ()
    parallel_depth: int = 0
    register_data: set[Any] = field(default_factory=set)
    private_data: set[Any] = field(default_factory=set)
    synchronises: bool = False
    cluster: tuple[int, ...] | None = None
    cluster_barriers: dict[Any, list[int]] = field(default_factory=dict)
    early: bool = False
    shared_spans: dict[Any, tuple[int, int]] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        return len(self.threads) + self.parallel_depth

    def axis_of_thread(self, index: int) -> int | None:
        for axis, (i, _) in enumerate(self.threads):
            if i == index:
                return axis
        return None


def read_launch(body: Any) -> Launch:
    """Reads the launch of a kernel off its body, without translating it."""
    nodes = nodes_by_class(body)
    launch = Launch()
    thread_vars: dict[Any, int] = {}
    extents = [1, 1, 1]
    bound_by_loops: set[Any] = set()
    for bind in nodes["Bind"]:
        if _call_name(bind.value) == "tl.launch_thread_idx":
            thread_vars[bind.var] = int(bind.value.args[0])
    for loop in nodes["For"]:
        tag = loop.thread_binding.thread_tag if loop.thread_binding is not None else ""
        if tag in THREAD_TAGS and type(loop.extent).__name__ == "IntImm":
            i = THREAD_TAGS.index(tag)
            extents[i] = max(extents[i], int(loop.extent))
            thread_vars[loop.loop_var] = i
            bound_by_loops.add(loop.loop_var)
    own_data: set[Any] = set()
    for block in nodes["SBlock"]:
        for i, n in enumerate(block.annotations.get("tl.launch_threads", ())):
            extents[i] = max(extents[i], int(n))
        own_data |= {b.data for b in block.alloc_buffers if b.scope() in ("local", "local.var")}
        if "cluster_dims" in block.annotations:
            launch.cluster = tuple(int(n) for n in block.annotations["cluster_dims"])
            launch.early = True
        counts = block.annotations.get("barrier_init", {})
        for b in block.alloc_buffers:
            if b.scope() == "shared.cluster_barrier":
                launch.cluster_barriers[b.data] = [int(n) for n in counts[b.data]]
    names = {_call_name(call) for call in nodes["Call"]}
    launch.early |= "tl.pdl_sync" in names
    if launch.cluster is None and (launch.cluster_barriers or _speaks_of_clusters(nodes["Call"], names)):
        launch.cluster = (1, 1, 1)
    if launch.cluster is not None:
        launch.shared_spans = _shared_spans(body)
    launch.synchronises = _may_order_blocks(nodes)
    used = bound_by_loops.union(nodes["Var"])
    lanes = {i for var, i in thread_vars.items() if var in used}
    if any(n.startswith(_NEEDS_THREADS) for n in names) or _every_thread_updates(body, names):
        lanes |= {i for i in range(3) if extents[i] > 1}
    launch.threads = tuple((i, extents[i]) for i in (2, 1, 0) if i in lanes and extents[i] > 1)
    launch.parallel_depth = _parallel_depth(body)
    if own_data:
        launch.register_data = _held_as_cells(nodes, own_data, set(thread_vars))
        launch.private_data = own_data - launch.register_data if launch.threads else set()
    return launch


def _speaks_of_clusters(calls: list[Any], names: set[str]) -> bool:
    return any(n.startswith(("tl.cluster_", "tl.block_rank_in_cluster")) for n in names) or any(
        "dst_block" in call.annotations for call in calls if call.annotations
    )


def _shared_spans(body: Any) -> dict[Any, tuple[int, int]]:
    spans: dict[Any, tuple[int, int]] = {}
    for number, step in enumerate(_steps(body)):
        nodes = nodes_by_class(step)
        for access in (*nodes["BufferLoad"], *nodes["BufferStore"]):
            if access.buffer.scope() in ("shared", "shared.dyn"):
                data = access.buffer.data
                spans[data] = (spans.get(data, (number, number))[0], number)
    return spans


def _steps(node: Any) -> list[Any]:
    """The statements of a kernel; loops and conditions are one."""
    is_grid = type(node).__name__ == "For" and node.thread_binding is not None
    if is_grid or type(node).__name__ in ("SeqStmt", "SBlockRealize", "SBlock", "AttrStmt"):
        return [step for inside in statements_in(node) for step in _steps(inside)]
    return [node]


def _may_order_blocks(nodes: dict[str, list[Any]]) -> bool:
    """Whether a block can learn that others have come so far: by a fence, by what an atomic gives back, or by
    reading a tensor that atomics update. Sums that are only added up order nothing.
    """
    updated = []
    for call in nodes["Call"]:
        name = _call_name(call)
        if "sync_grid" in name or ("fence" in name and name not in _WITHIN_A_BLOCK):
            return True
        if "atomic" in name:
            target = _target_of_atomic(call, name)
            if target is None or (target.buffer.scope() == "global" and name not in _UPDATES):
                return True
            updated.append(target)
    data = {load.buffer.data for load in updated if load.buffer.scope() == "global"}
    return any(
        load.buffer.data in data and not any(load.same_as(target) for target in updated)
        for load in nodes["BufferLoad"]
    )


def _target_of_atomic(call: Any, name: str) -> Any | None:
    """The load that stands for what an atomic updates; None where it is given in another form."""
    operand = call.args[1 if name.startswith("tl.tileop.") else 0]
    return operand.args[0] if _call_name(operand) in ("tl.region", "tl.access_ptr") else None


def nodes_by_class(body: Any) -> dict[str, list[Any]]:
    """The nodes of a body by the name of their class, children before parents."""
    from tilelang import tvm

    nodes: dict[str, list[Any]] = defaultdict(list)
    tvm.tirx.stmt_functor.post_order_visit(body, lambda node: nodes[type(node).__name__].append(node))
    return nodes


def _call_name(node: Any) -> str:
    return getattr(node.op, "name", "") if type(node).__name__ == "Call" else ""


def _held_as_cells(nodes: dict[str, list[Any]], own_data: set[Any], thread_vars: set[Any]) -> set[Any]:
    """Those of `own_data` that no operator takes as a tile, without views, indexed alike in every lane."""
    tiled = _tile_operands(nodes["Call"])
    differing = thread_vars | {loop.loop_var for loop in nodes["For"] if _is_parallel(loop)}
    for bind in nodes["Bind"]:
        if _mentions(bind.value, differing):
            differing.add(bind.var)
    buffers: dict[Any, set[Any]] = defaultdict(set)
    by_lane: set[Any] = set()
    for access in (*nodes["BufferLoad"], *nodes["BufferStore"]):
        data = access.buffer.data
        if data in own_data:
            buffers[data].add(access.buffer)
            if any(_mentions(index, differing) for index in access.indices):
                by_lane.add(data)
    return {d for d in own_data if len(buffers[d]) <= 1 and d not in tiled and d not in by_lane}


def _tile_operands(calls: list[Any]) -> set[Any]:
    """Data variables of buffers that pointers, or tile operators that are not written out as loops, name."""
    named: dict[Any, int] = defaultdict(int)
    for call in calls:
        name = _call_name(call)
        if name in ("tl.region", "tl.access_ptr"):
            named[call.args[0].buffer.data] += 1
        elif name in _WRITTEN_OUT:
            for operand in call.args[:2]:
                if _call_name(operand) == "tl.region":
                    named[operand.args[0].buffer.data] -= 1
    return {data for data, count in named.items() if count > 0}


def _mentions(expr: Any, variables: set[Any]) -> bool:
    kind = type(expr).__name__
    if kind == "IntImm":
        return False
    if kind == "Var":
        return expr in variables
    return any(var in variables for var in nodes_by_class(expr)["Var"])


def _is_parallel(node: Any) -> bool:
    from tilelang import tvm

    return type(node).__name__ == "For" and bool(node.kind == tvm.tirx.ForKind.PARALLEL)


def _every_thread_updates(body: Any, names: set[str]) -> bool:
    """Whether an atomic stands outside of all parallel loops: each thread of the block carries it out."""
    atomics = {n for n in names if n.startswith("tl.atomic_") and n.endswith("elem_op")}
    if not atomics:
        return False

    def walk(node: Any) -> bool:
        if _is_parallel(node):
            return False
        inside = statements_in(node)
        if inside:
            return any(walk(child) for child in inside)
        return any(_call_name(call) in atomics for call in nodes_by_class(node)["Call"])

    return walk(body)


def _parallel_depth(body: Any) -> int:
    """Levels of the deepest nest of parallel loops."""
    inside = [_parallel_depth(child) for child in statements_in(body)]
    return max(inside, default=0) + _is_parallel(body)


def statements_in(node: Any) -> list[Any]:
    """The statements directly inside a statement."""
    kind = type(node).__name__
    if kind == "SeqStmt":
        return list(node.seq)
    if kind == "IfThenElse":
        return [node.then_case] + ([node.else_case] if node.else_case is not None else [])
    if kind == "SBlockRealize":
        return [node.block]
    if kind == "SBlock":
        return ([node.init] if node.init is not None else []) + [node.body]
    return [node.body] if hasattr(node, "body") else []
