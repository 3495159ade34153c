"""Turns the IR of a program into Python closures over a `State`, once; running a block is then calling them.

Nodes are dispatched by the name of their class, calls by the name of their operator. What no table knows is
refused by its name and line.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tilecheck.simulator.access import Access, Affine, Closure
from tilecheck.simulator.early_launch import only_after_the_launch_before
from tilecheck.simulator.findings import (
    Location,
    SimulationError,
    Unsupported,
    location_of,
    location_of_span,
)
from tilecheck.simulator.iterations import Touch
from tilecheck.simulator.state import LEAVING, State
from tilecheck.simulator.values import Value, is_known

OTHERWISE = (
    "; check the kernel on a GPU, or write it with what is modelled: T.copy, T.Pipelined, and in clusters "
    "T.cluster_sync and T.copy_cluster(dst_block=..., remote_barrier=one of T.alloc_cluster_barrier)"
)
"""What to do about copies, barriers and warps that are told by hand what to do."""

Handler = Callable[["Translator", Any], Closure]
Axes = frozenset[int] | None
"""Axes of the lane grid along which a value differs; None: possibly any."""

EXPRESSIONS: dict[str, Handler] = {}
STATEMENTS: dict[str, Handler] = {}
CALLS: dict[str, Handler] = {}
"""Operator name -> translation of its calls; for calls that are values and for those that are statements."""

_NO_AXES: Axes = frozenset()
_THREAD_VALUES = frozenset(
    {"tl.get_lane_idx", "tl.get_warp_idx", "tl.get_warp_idx_sync", "tl.get_warp_group_idx"}
)


def handles(table: dict[str, Handler], *names: str) -> Callable[[Handler], Handler]:
    """Decorator: enters a translation into `table` under `names`."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            table[name] = handler
        return handler

    return enter


class Translator:
    """One program's translation.

    launch: of the kernel at hand; programs may have several.
    rank: number of axes of its lane grid: one for each thread index that it uses, then one for each level of
    its deepest nest of parallel loops.
    """

    def __init__(self, prim_func: Any, *, guarded: bool = True, reuses_memory: bool = True) -> None:
        """guarded: TileLang guards accesses to global memory.  reuses_memory: it may lay two shared buffers
        in one place. It does both unless a pass option forbids.
        """
        from tilelang import tvm

        from tilecheck.simulator.launch_shape import Launch

        self.prim_func = prim_func
        self.location = Location()
        self.launch = Launch()
        self.synchronises = False  # whether any kernel lets its blocks wait for each other
        self.lanes: dict[int, int] = {}  # axis -> extent, of the axes in force
        self.parallel: list[int] = []  # axes of the parallel loops around
        self._slots: dict[Any, int] = {}
        self._axes: dict[Any, Axes] = {}
        self._affine: dict[Any, Affine | None] = {}
        self._deferred: dict[Any, Any] = {}
        self._buffers: dict[Any, int] = {}
        self.buffers: list[Any] = []  # by slot
        self.block_buffers: list[int] = []  # slots of the memory that every block has anew
        self.exposed: set[int] = set()  # slots of those that other blocks of a cluster write into
        self.register_slots: set[int] = set()
        self.private: dict[int, tuple[int, ...]] = {}  # slot -> threads, of which each has an array to itself
        self.stored_registers: list[set[int]] = []  # by enclosing parallel loop
        self.touches: list[Touch] = []  # loads and stores in the nest of parallel loops at hand
        self.reducers: dict[Any, str] = {}
        self.safe_values: dict[Any, Closure] = {}  # data variable -> what loads past the edge give, if not 0
        self.reduce_kind = "sum"  # of the thread all-reduce that an attribute announces
        self.store_locations: dict[Any, Location] = {}  # data variable -> last line that stores to it
        self.in_launch = False
        self.reuses_memory = reuses_memory
        self._guarded = guarded
        self._ranges = tvm.arith.Analyzer()

    def expr(self, node: Any) -> Closure:
        """The closure that gives the value of an expression."""
        handler = EXPRESSIONS.get(type(node).__name__)
        if handler is None:
            raise self.unsupported(f"expression {type(node).__name__}")
        dtype = str(node.dtype)
        if dtype != "handle" and not is_known(dtype):
            what = f"operator {operator_name(node)}, " if type(node).__name__ == "Call" else ""
            raise self.unsupported(f"{what}values of dtype {dtype}")
        return handler(self, node)

    def stmt(self, node: Any) -> Closure:
        """The closure that runs a statement."""
        handler = STATEMENTS.get(type(node).__name__)
        outer = self.location
        self.location = location_of(node) or outer
        try:
            if handler is None:
                raise self.unsupported(f"statement {type(node).__name__}")
            closure = handler(self, node)
            if self.launch.early:
                clusters = self.launch.cluster not in (None, (1, 1, 1))
                closure = only_after_the_launch_before(node, closure, self.location, clusters=clusters)
            return _blaming(self.location, closure)
        except (Unsupported, *LEAVING):
            raise
        except Exception as e:
            raise _failure(self.location, e) from e
        finally:
            self.location = outer

    def call(self, node: Any) -> Closure:
        name = operator_name(node)
        handler = CALLS.get(name)
        if handler is None:
            raise self.unsupported(f"operator {name}{OTHERWISE if 'barrier' in name else ''}")
        return handler(self, node)

    def unsupported(self, what: str) -> Unsupported:
        return Unsupported(f"{self.location}: the simulator does not model {what}")

    def define(self, var: Any, axes: Axes = _NO_AXES, affine: Affine | None = None) -> int:
        """A slot for a variable that differs between lanes along `axes`."""
        self._axes[var] = axes
        self._affine[var] = affine
        self._deferred.pop(var, None)
        return self._slots.setdefault(var, len(self._slots))

    def defer(self, var: Any, value: Any) -> None:
        """The variable stands for an expression that is evaluated wherever the variable is used."""
        self._deferred[var] = value

    def is_defined(self, var: Any) -> bool:
        return var in self._axes or var in self._deferred

    def variable(self, var: Any) -> Closure:
        if var in self._deferred:
            return self.expr(self._deferred[var])
        if var not in self._axes:
            raise self.unsupported(f"variable {var.name}, used before it is defined")
        slot = self._slots[var]
        return lambda s: s.vars[slot]

    @property
    def variable_count(self) -> int:
        return len(self._slots)

    def buffer(self, buffer: Any) -> int:
        """The slot of a buffer; views of one memory have slots of their own."""
        if buffer not in self._buffers:
            if not is_known(str(buffer.dtype)):
                self.location = location_of_span(buffer.span) or self.location
                raise self.unsupported(f"buffer {buffer.name} of dtype {buffer.dtype}")
            self._buffers[buffer] = len(self.buffers)
            self.buffers.append(buffer)
            if buffer.data in self.launch.register_data:
                self.register_slots.add(self._buffers[buffer])
            elif buffer.data in self.launch.private_data:
                self.private[self._buffers[buffer]] = tuple(n for _, n in self.launch.threads)
        return self._buffers[buffer]

    def allocate(self, buffer: Any) -> None:
        """Memory that every block has anew; a workspace in global memory all blocks share."""
        slot = self.buffer(buffer)
        if str(buffer.scope()) != "global":
            self.block_buffers.append(slot)

    @property
    def rank(self) -> int:
        return self.launch.rank

    def is_registers(self, slot: int) -> bool:
        return slot in self.register_slots

    def in_range(self, var: Any, start: Any, extent: Any) -> None:
        """A loop variable runs from `start` over `extent` numbers."""
        from tilelang import tvm

        self._ranges.bind(var, tvm.ir.Range.from_min_extent(start, extent), allow_override=True)

    def indices(self, load: Any) -> list[Any]:
        """The indices of a load, a store or a region. Those that are surely negative count from the end, as
        TileLang has it (its pass LegalizeNegativeIndex); those that may be are what they are.
        """
        return [
            extent + index if _has_minus(index) and self._ranges.can_prove(index < 0) else index
            for index, extent in zip(load.indices, load.buffer.shape, strict=True)
        ]

    def acting_lanes(self) -> tuple[int, ...]:
        """Shape of the lanes that carry out an update here, each once: the iterations of the parallel loops
        around, which the threads share among them; outside of those, every thread.
        """
        return tuple(
            self.lanes.get(axis, 1) if not self.parallel or axis in self.parallel else 1
            for axis in range(self.rank)
        )

    def access(self, node: Any) -> Access:
        """The element access of a BufferLoad or BufferStore."""
        from tilelang import tvm

        slot = self.buffer(node.buffer)
        places = self.indices(node)
        affine = [self.affine(index) for index in places]
        indices = [self.expr(index) for index in places]
        own = self.private.get(slot, ())
        # In memory the arrays of the threads lie one after the other: a thread's number is a leading index.
        for axis in reversed(range(len(own))):
            affine.insert(0, Affine(lanes={axis: 1}))
            indices.insert(0, constantly(lanes_along(axis, own[axis], self.rank)))
        return Access(
            slot,
            node.buffer.name,
            indices,
            None if any(a is None for a in affine) else [a for a in affine if a is not None],
            dict(self.lanes),
            self.rank,
            self.location,
            guarded=self._guarded and not all(isinstance(index, tvm.tirx.IntImm) for index in places),
            outside=self.safe_values.get(node.buffer.data),
            hidden=len(own),
        )

    def touching(self, node: Any, access: Access, *, stores: bool) -> Access:
        """Takes down a load or store, if parallel loops are around it."""
        if self.parallel:
            axes = tuple((axis, self.lanes[axis]) for axis in self.parallel)
            self.touches.append(Touch(access, node.buffer, node.indices, axes, stores))
        return access

    def axes(self, node: Any) -> Axes:
        """Axes along which the value of an expression differs."""
        kind = type(node).__name__
        if kind in ("IntImm", "FloatImm", "StringImm"):
            return _NO_AXES
        if kind in ("Var", "SizeVar"):
            if node in self._deferred:
                return self.axes(self._deferred[node])
            return self._axes.get(node, _NO_AXES)
        if kind == "BufferLoad":
            if self.buffer(node.buffer) in self.register_slots:
                return None if self.lanes else _NO_AXES
            return self.union_of_axes(node.indices)
        if kind == "Cast":
            return self.axes(node.value)
        if kind == "Call":
            if operator_name(node) in _THREAD_VALUES:
                return frozenset(range(len(self.launch.threads)))
            return None if self.lanes and _may_differ(node) else self.union_of_axes(node.args)
        if kind == "Not":
            return self.axes(node.a)
        if kind == "Select":
            return self.union_of_axes((node.condition, node.true_value, node.false_value))
        if hasattr(node, "a") and hasattr(node, "b"):
            return self.union_of_axes((node.a, node.b))
        return None

    def union_of_axes(self, nodes: Any) -> Axes:
        """Axes along which any of some values differs."""
        union: frozenset[int] = frozenset()
        for node in nodes:
            found = self.axes(node)
            if found is None:
                return None
            union |= found
        return union

    def affine(self, node: Any) -> Affine | None:
        """The affine form of an index, None if it has none."""
        kind = type(node).__name__
        if kind == "IntImm":
            return Affine(const=int(node))
        if kind in ("Var", "SizeVar") and self._affine.get(node) is not None:
            return self._affine[node]
        if kind in ("Var", "SizeVar") and node in self._deferred:
            return self.affine(self._deferred[node])
        axes = self.axes(node)
        if axes is not None and not axes:
            return Affine(terms=[(1, self.expr(node))])
        if kind in ("Add", "Sub"):
            a, b = self.affine(node.a), self.affine(node.b)
            return None if a is None or b is None else a.plus(b, 1 if kind == "Add" else -1)
        if kind == "Mul":
            for factor, other in ((node.a, node.b), (node.b, node.a)):
                if type(factor).__name__ == "IntImm":
                    form = self.affine(other)
                    return None if form is None else form.times(int(factor))
            return None
        if kind == "Cast" and str(node.dtype).startswith("int") and str(node.value.dtype).startswith("int"):
            return self.affine(node.value)
        return None


def _blaming(location: Location, closure: Closure) -> Closure:
    """The closure of a statement; what the simulator itself fails at is told with the statement's line."""

    def run(s: State) -> None:
        try:
            closure(s)
        except (Unsupported, SimulationError, *LEAVING):
            raise
        except Exception as e:
            raise _failure(location, e) from e

    return run


def _failure(location: Location, e: Exception) -> Unsupported:
    return Unsupported(f"{location}: the simulator cannot carry this out ({type(e).__name__}: {e})")


def lanes_along(axis: int, extent: int, rank: int) -> Tensor:
    """The coordinate of each lane along one axis of the lane grid."""
    shape = [1] * rank
    shape[axis] = extent
    return torch.arange(extent, dtype=torch.int32).reshape(shape)


def constantly(value: Value) -> Closure:
    return lambda s: value


def _has_minus(index: Any) -> bool:
    """Whether an index could be negative at all: proving that it is takes time."""
    kind = type(index).__name__
    if kind == "IntImm":
        return int(index) < 0
    if kind in ("Add", "Mul", "FloorDiv", "FloorMod"):
        return _has_minus(index.a) or _has_minus(index.b)
    return kind == "Sub"


def operator_name(call: Any) -> str:
    """Name of the operator of a Call: "tl.tileop.copy", or that of the external function."""
    name = getattr(call.op, "name", None)
    return str(name) if name is not None else str(call.op)


def _may_differ(call: Any) -> bool:
    """Whether a call gives each lane a value of its own, whatever its arguments are."""
    name = operator_name(call)
    return any(part in name for part in ("shfl", "atomic", "warp", "rng_", "thread_allreduce", "_sync"))


def uniform(value: Value, what: str, s: State, location: Location) -> int:
    """A value that all lanes must share (loop bounds of tile operators, region offsets)."""
    if isinstance(value, Tensor) and value.dim():
        first = value.flatten()[0]
        if not bool((value == first).all()):
            raise Unsupported(f"{location}: the simulator does not model {what} that differs between threads")
        return int(first)
    return int(value)
