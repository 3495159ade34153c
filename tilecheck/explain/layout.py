"""Tiles, grid, loops and traffic of a program, read off its traced form: what it asks for, before any pass.

Traffic counts whole tiles, so at an edge it is more than is there to move, and each condition as if it held.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from tilecheck.accesses import operands_written

if TYPE_CHECKING:
    from tilecheck.program import Program

MOST_BLOCKS = 4096
"""Values of block and loop indices that a trip count is worked out for; with more it is left open."""

_GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


@dataclass(frozen=True)
class Tile:
    """A buffer of a block.  scope: as TileLang calls it.  bytes: of all its elements."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    bytes: int


@dataclass(frozen=True)
class Loop:
    """A serial loop of a block.  stages: of its pipeline, 0 for none.
    least, most: trips, over all blocks; None: not known before it runs.
    """

    name: str
    stages: int
    least: int | None
    most: int | None


@dataclass(frozen=True)
class Layout:
    """One launch.

    grid: blocks along x, y and z.  threads: of a block, as the program says.
    read, written: bytes that all blocks ask for together, by tensor.
    products: operations of all `gemm`s, padding included.
    open: what could not be counted, in words.
    """

    grid: tuple[int, int, int]
    threads: int
    tiles: tuple[Tile, ...]
    loops: tuple[Loop, ...]
    read: Mapping[str, int]
    written: Mapping[str, int]
    products: int
    open: tuple[str, ...] = ()

    @property
    def blocks(self) -> int:
        return prod(self.grid)


def layout_of(program: "Program") -> Layout:
    """Reads the layout off a program."""
    reader = _Reader(program)
    reader.visit(program.prim_func.body, _Place())
    return Layout(
        grid=(reader.grid[0], reader.grid[1], reader.grid[2]),
        threads=reader.threads,
        tiles=tuple(reader.tiles),
        loops=tuple(reader.loops),
        read=reader.read,
        written=reader.written,
        products=reader.products,
        open=tuple(dict.fromkeys(reader.open)),
    )


@dataclass(frozen=True)
class _Place:
    """Where a statement is: the grid's indices around it, how often a block comes by, and the lanes there.

    blocks: index variable -> extent, of a loop too where loops inside depend on it.  trips: for each value of
    the indices that it depends on, how often; None: not known.  depends: those indices.  lanes: iterations of
    the parallel loops around it.
    """

    blocks: Mapping[Any, int] = field(default_factory=dict)
    depends: tuple[Any, ...] = ()
    trips: Sequence[int] | None = (1,)
    lanes: int = 1
    parallel: bool = False

    def times(self) -> int | None:
        """How often it is executed, by all blocks together."""
        if self.trips is None:
            return None
        others = prod(extent for var, extent in self.blocks.items() if var not in self.depends)
        return sum(self.trips) * others * self.lanes


class _Reader:
    """Walks over a program's statements."""

    def __init__(self, program: "Program") -> None:
        from tilelang import tvm

        self._tvm = tvm
        self._names: dict[Any, str] = {}
        for var, parameter in zip(program.prim_func.params, program.parameters, strict=True):
            if var in program.prim_func.buffer_map:
                self._names[program.prim_func.buffer_map[var].data] = parameter.name
        sizes = {**program.case.dims, **program.case.flags}
        symbolic = [
            var
            for buffer in program.prim_func.buffer_map.values()
            for extent in buffer.shape
            for var in tvm.tirx.analysis.undefined_vars(extent)
        ]
        self._bound: dict[Any, Any] = {
            var: tvm.tirx.IntImm(var.dtype, sizes[var.name])
            for var in (*symbolic, *program.prim_func.params)
            if isinstance(sizes.get(var.name), int)
        }
        self.grid, self.threads, self._launches = [1, 1, 1], 1, 0
        self.tiles: list[Tile] = []
        self.loops: list[Loop] = []
        self.read: dict[str, int] = {}
        self.written: dict[str, int] = {}
        self.products = 0
        self.open: list[str] = []

    def visit(self, node: Any, place: _Place) -> None:
        """Visits a statement."""
        kind = type(node).__name__
        if kind == "SeqStmt":
            for each in node:
                self.visit(each, place)
        elif kind == "SBlockRealize":
            self.visit(node.block, place)
        elif kind == "SBlock":
            self._block(node, place)
        elif kind == "For":
            self._loop(node, place)
        elif kind == "Bind":
            self._expression(node.value, place)
            self._bound[node.var] = self._tvm.tirx.stmt_functor.substitute(node.value, self._bound)
        elif kind == "IfThenElse":
            self._expression(node.condition, place)
            for branch in (node.then_case, node.else_case):
                if branch is not None:
                    self.visit(branch, place)
        elif kind == "AttrStmt":
            self.visit(node.body, place)
        elif kind == "While":
            self._expression(node.condition, place)
            self.visit(node.body, replace(place, trips=None))
        elif kind == "Evaluate":
            self._expression(node.value, place)
        elif kind == "BufferStore":
            self._elements(node.buffer, self.written, place)
            self._expression(node.value, place)
            for index in node.indices:
                self._expression(index, place)
        else:
            self.open.append(f"statements of the kind {kind}")

    def _block(self, node: Any, place: _Place) -> None:
        for buffer in node.alloc_buffers:
            shape = tuple(self._number(extent) or 0 for extent in buffer.shape)
            size = -(-prod(shape) * self._tvm.DataType(buffer.dtype).bits // 8)
            self.tiles.append(Tile(buffer.name, shape, str(buffer.dtype), str(buffer.scope()), size))
        if threads := node.annotations.get("tl.launch_threads"):
            self.threads = prod(int(extent) for extent in threads)
            self._launches += 1
            if self._launches > 1:
                self.open.append("all kernels together: grid and threads are those of the last one")
        self.visit(node.body, place)

    def _loop(self, node: Any, place: _Place) -> None:
        tag = "" if node.thread_binding is None else node.thread_binding.thread_tag
        if tag in _GRID:
            extent = self._number(node.extent)
            if extent is None:
                self.open.append(f"the grid along {tag[-1]}")
            self.grid[_GRID.index(tag)] = extent or 1
            self.visit(node.body, replace(place, blocks={**place.blocks, node.loop_var: extent or 1}))
        elif int(node.kind) == int(self._tvm.tirx.ForKind.PARALLEL):
            lanes = self._number(node.extent)
            trips = place.trips if lanes is not None else None
            self.visit(
                node.body, replace(place, lanes=place.lanes * (lanes or 1), trips=trips, parallel=True)
            )
        else:
            self._serial(node, place)

    def _serial(self, node: Any, place: _Place) -> None:
        extent = self._tvm.tirx.stmt_functor.substitute(node.extent, self._bound)
        used = set(self._tvm.tirx.analysis.undefined_vars(extent))
        depends = tuple(var for var in place.blocks if var in {*place.depends, *used})
        trips = self._trips(extent, depends, place) if used <= set(place.blocks) else None
        pipelined = node.annotations.get("num_stages") if node.annotations else None
        own = None if trips is None else [count for count, times in trips if times] or [0]
        self.loops.append(
            Loop(
                node.loop_var.name,
                int(pipelined or 0),
                None if own is None else min(own),
                None if own is None else max(own),
            )
        )
        inside = replace(place, depends=depends, trips=None)
        if trips is not None and own is not None:
            if self._decides(node.loop_var, node.body) and len(trips) * max(own) <= MOST_BLOCKS:
                inside = replace(
                    inside,
                    blocks={**place.blocks, node.loop_var: max(own)},
                    depends=(*depends, node.loop_var),
                    trips=[times * (i < count) for count, times in trips for i in range(max(own))],
                )
            else:
                inside = replace(inside, trips=[count * times for count, times in trips])
        self.visit(node.body, inside)

    def _decides(self, index: Any, body: Any) -> bool:
        """Whether loops in `body` may depend on the index, through what is bound there or at once."""
        extents: list[Any] = []

        def collect(node: Any) -> None:
            kind = type(node).__name__
            if kind in ("For", "Bind"):
                extents.append(node.extent if kind == "For" else node.value)

        self._tvm.tirx.stmt_functor.post_order_visit(body, collect)
        return any(index in self._tvm.tirx.analysis.undefined_vars(extent) for extent in extents)

    def _trips(self, extent: Any, depends: tuple[Any, ...], place: _Place) -> list[tuple[int, int]] | None:
        """For each value of the indices in `depends`: trips of this loop, and how often it is begun."""
        if place.trips is None or prod(place.blocks[var] for var in depends) > MOST_BLOCKS:
            return None
        outer = dict(
            zip(
                itertools.product(*(range(place.blocks[var]) for var in place.depends)),
                place.trips,
                strict=True,
            )
        )
        trips = []
        for values in itertools.product(*(range(place.blocks[var]) for var in depends)):
            at = dict(zip(depends, values, strict=True))
            count = self._number(
                self._tvm.tirx.stmt_functor.substitute(
                    extent, {var: self._tvm.tirx.IntImm(var.dtype, value) for var, value in at.items()}
                )
            )
            if count is None:
                return None
            trips.append((max(count, 0), outer[tuple(at[var] for var in place.depends)]))
        return trips

    def _expression(self, node: Any, place: _Place) -> None:
        """Visits an expression: its tile operators, and the loads among its operands."""
        found: list[Any] = []
        self._tvm.tirx.stmt_functor.post_order_visit(node, found.append)
        calls = [each for each in found if type(each).__name__ == "Call"]
        # Where tiles lie, and what atomics update, is no load.
        places = [call.args[0] for call in calls if _operator(call) == "tl.region"]
        for call in calls:
            if _operator(call).startswith("tl.tileop."):
                self._tile_operator(call, place)
            elif _operator(call).endswith("access_ptr"):
                places.append(call.args[0])
                for bit, into in ((1, self.read), (2, self.written)):
                    if int(call.args[2]) & bit:
                        self._elements(call.args[0].buffer, into, place)
        for each in found:
            if type(each).__name__ == "BufferLoad" and not any(each.same_as(other) for other in places):
                self._elements(each.buffer, self.read, place)

    def _tile_operator(self, call: Any, place: _Place) -> None:
        name = _operator(call).rpartition(".")[2]
        written, updated = operands_written(name)
        for position, operand in enumerate(call.args):
            if type(operand).__name__ != "Call" or _operator(operand) != "tl.region":
                continue
            extents = [self._number(extent) for extent in operand.args[2:]]
            size = None if None in extents else prod(extent or 0 for extent in extents)
            if position in (*written, *updated):
                self._asked(operand.args[0].buffer, self.written, place, size)
            if position not in written:
                self._asked(operand.args[0].buffer, self.read, place, size)
        if name in ("gemm", "wgmma_gemm"):
            sizes = [self._number(extent) for extent in call.args[5:8]]
            times = place.times()
            if times is None or None in sizes:
                self.open.append("the operations of a gemm in a loop of unknown trips")
            else:
                self.products += 2 * prod(size or 0 for size in sizes) * times

    def _elements(self, buffer: Any, into: dict[str, int], place: _Place) -> None:
        """An element, for each lane of the parallel loops around it."""
        name = self._names.get(buffer.data)
        if name is not None and not place.parallel and self.threads > 1:
            self.open.append(f"accesses of {name} by single threads")
            return
        self._asked(buffer, into, place, 1)

    def _asked(self, buffer: Any, into: dict[str, int], place: _Place, elements: int | None) -> None:
        name = self._names.get(buffer.data)
        if name is None:
            return
        times = place.times()
        if times is None or elements is None:
            self.open.append(f"traffic of {name}, in a loop of unknown trips")
            return
        into[name] = into.get(name, 0) + elements * times * self._tvm.DataType(buffer.dtype).bits // 8

    def _number(self, value: Any) -> int | None:
        """The value of an expression; None where it is not known before the program runs."""
        if isinstance(value, int):
            return value
        bound = self._tvm.tirx.stmt_functor.substitute(value, self._bound)
        simple = self._tvm.arith.Analyzer().simplify(bound)
        return int(simple) if isinstance(simple, self._tvm.tirx.IntImm) else None


def _operator(call: Any) -> str:
    return str(getattr(call.op, "name", ""))
