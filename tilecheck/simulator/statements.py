"""Statements: sequence, conditions, loops, bindings, stores; and the launch, which runs one block after the
other.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import product
from typing import Any

import torch
from torch import Tensor

from tilecheck.simulator.access import Affine, Closure, cell_of
from tilecheck.simulator.clusters import run_clusters
from tilecheck.simulator.intrinsics import INTRINSICS
from tilecheck.simulator.iterations import watches_of
from tilecheck.simulator.launch_shape import THREAD_TAGS, Launch, read_launch
from tilecheck.simulator.memory import Array, Registers
from tilecheck.simulator.reducers import update_by_store
from tilecheck.simulator.state import Break, Continue, Return, State, both, either
from tilecheck.simulator.translator import (
    CALLS,
    OTHERWISE,
    STATEMENTS,
    Translator,
    handles,
    lanes_along,
    operator_name,
)
from tilecheck.simulator.values import Value, truth

Body = Callable[[State], Any]


@handles(STATEMENTS, "SeqStmt")
def _sequence(t: Translator, node: Any) -> Closure:
    parts = [t.stmt(part) for part in node.seq]

    def run(s: State) -> None:
        for part in parts:
            part(s)
            if s.mask is not None and not bool(s.mask.any()):
                return  # every lane has left

    return run


@handles(STATEMENTS, "Evaluate")
def _evaluate(t: Translator, node: Any) -> Closure:
    if type(node.value).__name__ != "Call":
        return lambda s: None
    return t.expr(node.value) if operator_name(node.value) in INTRINSICS else t.call(node.value)


@handles(STATEMENTS, "Bind")
def _bind(t: Translator, node: Any) -> Closure:
    value = node.value
    if type(value).__name__ == "Call" and operator_name(value) == "tl.launch_thread_idx":
        return _bind_thread(t, node.var, int(value.args[0]))
    if not _all_defined(t, value):
        # Seen in persistent programs: the binding stands before the loop whose variable it uses.
        t.defer(node.var, value)
        return lambda s: None
    closure = t.expr(value)
    pure = _is_pure(value)
    slot = t.define(node.var, t.axes(value), t.affine(value) if pure and _is_integer(value) else None)

    def run(s: State) -> None:
        result = closure(s)
        s.vars[slot] = result.clone() if isinstance(result, Tensor) and result._base is not None else result

    return run


def _bind_thread(t: Translator, var: Any, index: int) -> Closure:
    axis = t.launch.axis_of_thread(index)
    if axis is None:
        slot = t.define(var)

        def run_single(s: State) -> None:
            s.vars[slot] = 0

        return run_single
    slot = t.define(var, frozenset({axis}), Affine(lanes={axis: 1}))
    lane = lanes_along(axis, t.launch.threads[axis][1], t.rank)

    def run(s: State) -> None:
        s.vars[slot] = lane

    return run


def _all_defined(t: Translator, value: Any) -> bool:
    from tilelang import tvm

    missing = False

    def look(node: Any) -> None:
        nonlocal missing
        if isinstance(node, tvm.tirx.Var) and str(node.dtype) != "handle":
            missing |= not t.is_defined(node)

    tvm.tirx.stmt_functor.post_order_visit(value, look)
    return not missing


def _is_pure(value: Any) -> bool:
    from tilelang import tvm

    pure = True

    def look(node: Any) -> None:
        nonlocal pure
        pure &= not isinstance(node, (tvm.tirx.BufferLoad, tvm.tirx.Call))

    tvm.tirx.stmt_functor.post_order_visit(value, look)
    return pure


def _is_integer(value: Any) -> bool:
    return str(value.dtype).startswith(("int", "uint"))


@handles(STATEMENTS, "BufferStore")
def _store(t: Translator, node: Any) -> Closure:
    if node.buffer.data in t.reducers:
        return update_by_store(t, node)
    value = t.expr(node.value)
    slot = t.buffer(node.buffer)
    t.store_locations[node.buffer.data] = t.location
    if t.is_registers(slot):
        for written in t.stored_registers:
            written.add(slot)
        return _store_register(t, node, slot, value)
    access = t.touching(node, t.access(node), stores=True)
    named = access.used if access.affine is not None else set(t.parallel)
    missing = tuple(axis for axis in t.parallel if axis not in named and t.lanes[axis] > 1)
    return lambda s: access.store(s, value(s), missing)


def _store_register(t: Translator, node: Any, slot: int, value: Closure) -> Closure:
    indices = [t.expr(i) for i in t.indices(node)]
    location = t.location

    def run(s: State) -> None:
        registers: Registers = s.memory[slot]
        cell = cell_of(s, registers, indices, location)
        if cell is not None:
            registers.store(cell, value(s), s.mask)

    return run


@handles(STATEMENTS, "IfThenElse")
def _if(t: Translator, node: Any) -> Closure:
    condition, then = t.expr(node.condition), t.stmt(node.then_case)
    otherwise = t.stmt(node.else_case) if node.else_case is not None else None

    def run(s: State) -> None:
        chosen = truth(condition(s))
        if not isinstance(chosen, Tensor):
            if chosen:
                then(s)
            elif otherwise is not None:
                otherwise(s)
            return
        outer = s.mask
        yes, no = both(outer, chosen), both(outer, ~chosen)
        if not bool(no.any()):
            then(s)
            return
        if bool(yes.any()):
            s.mask = yes
            then(s)
        if otherwise is not None and bool(no.any()):
            s.mask = s.narrow(no)
            otherwise(s)
        s.mask = s.narrow(outer)

    return run


@handles(STATEMENTS, "For")
def _for(t: Translator, node: Any) -> Closure:
    from tilelang import tvm

    tag = str(node.thread_binding.thread_tag) if node.thread_binding is not None else ""
    if tag.startswith("blockIdx"):
        return _grid(t, node)
    if tag in THREAD_TAGS:
        return _thread_loop(t, node, THREAD_TAGS.index(tag))
    if tag:
        raise t.unsupported(f"loops over {tag}")
    if node.kind == tvm.tirx.ForKind.PARALLEL:
        return _parallel(t, node)
    return _serial(t, node)


def _serial(t: Translator, node: Any) -> Closure:
    """Serial, pipelined, unrolled and vectorised loops: the order of the iterations is that of the source."""
    start, extent = t.expr(node.min), t.expr(node.extent)
    step = t.expr(node.step) if getattr(node, "step", None) is not None else None
    slot = t.define(node.loop_var, t.union_of_axes((node.min, node.extent)))
    t.in_range(node.loop_var, node.min, node.extent)
    body = t.stmt(node.body)

    def run(s: State) -> None:
        first, count = start(s), extent(s)
        stride = 1 if step is None else int(step(s))
        if isinstance(first, Tensor) or isinstance(count, Tensor):
            _run_ragged(s, slot, first, count, stride, body)
            return
        loop = _LaneLoop(s)
        try:
            for i in range(first, first + count, stride):
                s.vars[slot] = i
                if not loop.iterate(body):
                    break
        finally:
            loop.close()

    return run


def _run_ragged(s: State, slot: int, first: Value, count: Value, stride: int, body: Body) -> None:
    """A serial loop whose bounds differ between lanes: it runs until the last lane is through."""
    first, count = torch.as_tensor(first), torch.as_tensor(count)
    outer = s.mask
    loop = _LaneLoop(s)
    try:
        for step in range(0, int(count.max()) if count.numel() else 0, stride):
            s.vars[slot] = first + step
            if not loop.iterate(body, within=step < count):
                break
    finally:
        loop.close()
        s.mask = s.narrow(outer)


class _LaneLoop:
    """Bookkeeping of lanes that leave a loop before the others."""

    def __init__(self, s: State) -> None:
        self.s, self.mask, self.broken, self.continued = s, s.mask, s.broken, s.continued
        s.broken = s.continued = None

    def iterate(self, body: Body, within: Tensor | None = None) -> bool:
        """Runs the body for the lanes that are still in the loop; false once none is."""
        s = self.s
        s.continued = None
        if s.broken is not None or s.returned is not None or within is not None:
            mask = self.mask if within is None else both(self.mask, within)
            s.mask = s.narrow(mask)
            if s.mask is not None and not bool(s.mask.any()):
                return within is not None and s.broken is None and s.returned is None
        else:
            s.mask = self.mask
        try:
            body(s)
        except Continue:
            pass
        except Break:
            return False
        return True

    def close(self) -> None:
        s = self.s
        s.broken, s.continued = self.broken, self.continued
        s.mask = s.narrow(self.mask)


_LONGEST_WHILE = 1_000_000
"""Iterations after which a while loop is taken to wait for another block: here blocks follow each other."""


@handles(STATEMENTS, "While")
def _while(t: Translator, node: Any) -> Closure:
    condition, body = t.expr(node.condition), t.stmt(node.body)
    endless = t.unsupported(
        f"a while loop of more than {_LONGEST_WHILE} iterations (does it wait for a block?)"
    )

    def run(s: State) -> None:
        loop = _LaneLoop(s)
        outer = s.mask
        inside: Tensor | None = None
        try:
            for _ in range(_LONGEST_WHILE):
                s.mask = s.narrow(outer if inside is None else both(outer, inside))
                going = truth(condition(s))
                if isinstance(going, Tensor):
                    inside = going if inside is None else inside & going
                    if not bool(both(s.mask, inside).any()):
                        break
                elif not going:
                    break
                if not loop.iterate(body, within=inside):
                    break
            else:
                raise endless
        finally:
            loop.close()

    return run


def _parallel(t: Translator, node: Any) -> Closure:
    """All iterations at once: the loop variable is an axis of the lane grid."""
    from tilelang import tvm

    if not isinstance(node.extent, tvm.tirx.IntImm):
        raise t.unsupported(f"a parallel loop whose extent is known only at run time: {node.extent}")
    if not t.in_launch:
        raise t.unsupported("a parallel loop outside of all kernels")
    extent = int(node.extent)
    axis = len(t.launch.threads) + len(t.parallel)
    constant_start = int(node.min) if isinstance(node.min, tvm.tirx.IntImm) else None
    start = t.expr(node.min)
    form = Affine(lanes={axis: 1})
    form = form.plus(
        Affine(const=constant_start) if constant_start is not None else Affine(terms=[(1, start)])
    )
    slot = t.define(node.loop_var, frozenset({axis}), form)
    t.in_range(node.loop_var, node.min, node.extent)
    lane = lanes_along(axis, extent, t.rank)
    t.parallel.append(axis)
    t.lanes[axis] = extent
    t.stored_registers.append(set())
    try:
        body = t.stmt(node.body)
    finally:
        t.parallel.pop()
        del t.lanes[axis]
    registers = tuple(t.stored_registers.pop())
    watches = []
    if not t.parallel:
        watches = watches_of(t.touches, t.rank)
        t.touches.clear()

    def run(s: State) -> None:
        if extent == 0:
            return
        for buffer, watch in watches:
            watch.begin(s.memory[buffer])
        first = start(s)
        s.vars[slot] = lane + first if first else lane
        outer = s.mask
        body(s)
        s.mask = outer
        for cell in registers:
            s.memory[cell].leave_loop((axis,))

    return run


def _thread_loop(t: Translator, node: Any, index: int) -> Closure:
    if not t.in_launch:
        raise t.unsupported("a loop over threads outside of all kernels")
    axis = t.launch.axis_of_thread(index)
    slot = t.define(node.loop_var, frozenset() if axis is None else frozenset({axis}))
    if axis is not None:
        t.define(node.loop_var, frozenset({axis}), Affine(lanes={axis: 1}))
        t.lanes[axis] = t.launch.threads[axis][1]
    lane: Value = 0 if axis is None else lanes_along(axis, t.launch.threads[axis][1], t.rank)
    body = t.stmt(node.body)

    def run(s: State) -> None:
        s.vars[slot] = lane
        body(s)

    return run


@handles(CALLS, "tl.loop_break", "tirx.break_loop")
def _break(t: Translator, node: Any) -> Closure:
    return _left("broken", Break)


@handles(CALLS, "tirx.continue_loop")
def _continue(t: Translator, node: Any) -> Closure:
    return _left("continued", Continue)


@handles(CALLS, "tirx.thread_return")
def _return(t: Translator, node: Any) -> Closure:
    return _left("returned", Return)


def _left(kept: str, way: type[Exception]) -> Closure:
    """The active lanes leave, `kept` in the state's field of this name; `way` if all of them do."""

    def run(s: State) -> None:
        if s.mask is None:
            raise way
        setattr(s, kept, either(getattr(s, kept), s.mask))
        s.mask = torch.zeros_like(s.mask)

    return run


def _grid(t: Translator, node: Any) -> Closure:
    """Blocks run one after the other, those of a cluster in turns; each starts with memory that nothing has
    written.
    """
    if t.in_launch:
        raise t.unsupported("a grid inside a grid")
    levels = [node]
    while _is_grid(levels[-1].body):
        levels.append(levels[-1].body)
    bounds = [(t.expr(level.min), t.expr(level.extent)) for level in levels]
    slots = [t.define(level.loop_var) for level in levels]
    for level in levels:
        t.in_range(level.loop_var, level.min, level.extent)
    around, location = t.launch, t.location
    t.in_launch = True
    t.launch = launch = read_launch(node)
    t.synchronises |= launch.synchronises
    for axis, (_, count) in enumerate(launch.threads):
        t.lanes[axis] = count
    first_buffer = len(t.block_buffers)
    body = t.stmt(levels[-1].body)
    t.in_launch = False
    t.launch = around
    t.lanes.clear()
    mine = t.block_buffers[first_buffer:]
    exposed = {slot: _in_the_same_place(t, launch, slot, mine) for slot in t.exposed}
    t.exposed.clear()

    def begin(s: State) -> None:
        for slot, i in zip(slots, s.place, strict=True):
            s.vars[slot] = i
        for buffer in mine:
            memory = s.memory[buffer]
            if isinstance(memory, Array):
                memory.storage.forget()
            else:
                memory.forget()
        s.early = launch.early
        s.mask = s.broken = s.continued = s.returned = None

    def go_on(s: State) -> None:
        with suppress(Return):
            body(s)

    def run(s: State) -> None:
        grid = [range(low := start(s), low + extent(s)) for start, extent in bounds]
        if launch.cluster is not None:
            run_clusters(s, launch, grid, exposed, begin, go_on, location)
        else:
            for s.place in product(*grid):
                s.block += 1
                begin(s)
                go_on(s)
        s.place = ()
        for memory in s.memory:
            if isinstance(memory, Array):
                memory.storage.end_launch()

    return run


def _in_the_same_place(t: Translator, launch: Launch, slot: int, others: Iterable[int]) -> list[int]:
    """Shared buffers that TileLang may lay where it lays that of `slot`: those that no step of the kernel
    needs beside it (pass MergeSharedMemoryAllocations).
    """
    first, last = launch.shared_spans[t.buffers[slot].data]
    spans = {other: launch.shared_spans.get(t.buffers[other].data) for other in others}
    return [
        other
        for other, span in spans.items()
        if t.reuses_memory and span and (span[1] < first or last < span[0])
    ]


def _is_grid(node: Any) -> bool:
    binding = getattr(node, "thread_binding", None)
    return binding is not None and str(binding.thread_tag).startswith("blockIdx")


@handles(STATEMENTS, "SBlockRealize")
def _realize(t: Translator, node: Any) -> Closure:
    return t.stmt(node.block)


@handles(STATEMENTS, "SBlock")
def _block(t: Translator, node: Any) -> Closure:
    for buffer in node.alloc_buffers:
        t.allocate(buffer)
    for key in ("reducer_info", "reducer_info_v2"):
        for data, info in dict(node.annotations.get(key, {})).items():
            t.reducers[data] = str(info["op"])
    outer = t.safe_values
    annotated = dict(node.annotations.get("safe_value_map", {}))
    t.safe_values = {**outer, **{data: t.expr(value) for data, value in annotated.items()}}
    try:
        return t.stmt(node.body)
    finally:
        t.safe_values = outer


@handles(STATEMENTS, "AttrStmt")
def _attribute(t: Translator, node: Any) -> Closure:
    """Attributes change how a program runs, not what it computes; one of them announces a reduction."""
    if str(node.attr_key) == "warp_specialize":
        raise t.unsupported(f"warp specialisation by T.ws{OTHERWISE}")
    if str(node.attr_key) != "reduce_scope":
        return t.stmt(node.body)
    outer = t.reduce_kind
    t.reduce_kind = {"Add": "sum", "Max": "max", "Min": "min"}.get(type(node.node.result[0]).__name__, "")
    if not t.reduce_kind:
        raise t.unsupported(f"an all-reduce with {node.node.result[0]}")
    try:
        return t.stmt(node.body)
    finally:
        t.reduce_kind = outer


@handles(STATEMENTS, "DeclBuffer", "AllocBuffer", "Allocate")
def _declare(t: Translator, node: Any) -> Closure:
    if hasattr(node, "buffer") and type(node).__name__ == "AllocBuffer":
        t.allocate(node.buffer)
    return t.stmt(node.body) if hasattr(node, "body") else (lambda s: None)


@handles(STATEMENTS, "AssertStmt")
def _assert(t: Translator, node: Any) -> Closure:
    condition, location = t.expr(node.condition), t.location
    text = str(node.message)
    rest = t.stmt(node.body) if hasattr(node, "body") else (lambda s: None)

    def run(s: State) -> None:
        check_assertion(s, truth(condition(s)), location, text)
        rest(s)

    return run


def check_assertion(s: State, held: Value, location: Any, text: str) -> None:
    """Reports an assertion that some active lane does not hold."""
    if isinstance(held, Tensor):
        failed = ~held if s.mask is None else s.mask & ~held
        failed_at_all = bool(failed.any())
    else:
        failed_at_all = not held
    if failed_at_all:
        s.findings.add("assertion", location, text, f"device assertion failed: {text} ({s.where})")
