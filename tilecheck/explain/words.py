"""An explanation as text, at most `WIDTH` columns wide."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilecheck.arches import Arch
from tilecheck.explain.layout import Layout, Loop, Tile
from tilecheck.latency.roofline import roof
from tilecheck.occupancy import RESERVED_SHARED, WARP, Occupancy, occupancy, waves
from tilecheck.spec import Cost

if TYPE_CHECKING:
    from tilecheck.codegen import Facts, Lowered
    from tilecheck.latency.monitor import GpuFacts
    from tilecheck.program import Program

WIDTH = 110
_INDENT = 14  # the longest name, and two blanks on each side

TIGHT = 1.05
"""A kernel that asks for up to so many times the least asks for the least."""


@dataclass(frozen=True)
class Sources:
    """What an explanation is made of.

    gpu: whose multiprocessors and roofs count.  origin: where its numbers are from.
    lowered, facts: of the compiler; None: not to be had, for the reason `lacking`.
    """

    gpu: "GpuFacts"
    origin: str
    lowered: "Lowered | None" = None
    facts: "Facts | None" = None
    lacking: str = ""


def explanation(program: "Program", layout: Layout, sources: Sources) -> str:
    """What `program` does, in words and numbers."""
    held = _occupancy(program.arch, layout, sources)
    sections: list[tuple[str, Rows]] = [
        ("", _head(program, sources)),
        ("a block", _block(layout, sources)),
        ("the launch", _launch(layout, held, sources)),
        ("the work", _work(program, layout, sources)),
        ("not known", _unknown(program, layout, sources)),
    ]
    head = f"{program.spec.name}, {program.case}, on {program.arch.name}"
    lines = textwrap.wrap(head, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    for title, found in sections:
        rows = list(found)
        if rows and title:
            lines += ["", title]
        for name, text in rows:
            lines += textwrap.wrap(
                text,
                WIDTH,
                initial_indent=f"  {name:{_INDENT - 2}}",
                subsequent_indent=" " * _INDENT,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


Rows = Iterator[tuple[str, str]]


def _head(program: "Program", sources: Sources) -> Rows:
    yield "why", program.case.why
    if program.variant:
        yield "schedule", program.variant
    gpu = sources.gpu
    yield "GPU", f"{gpu.name}: {gpu.multiprocessors} multiprocessors, {sources.origin}"


def _block(layout: Layout, sources: Sources) -> Rows:
    launched = layout.threads if sources.lowered is None else sources.lowered.threads
    more = launched - layout.threads
    copying = f", and {more} more that only copy: {launched} launched" if more > 0 else ""
    yield "threads", f"{layout.threads}, {-(-layout.threads // WARP)} warps{copying}"
    for name, tile in zip(_first("tiles", layout.tiles), layout.tiles, strict=True):
        yield name, _tile(tile)
    for name, loop in zip(_first("loops", layout.loops), layout.loops, strict=True):
        yield name, _loop(loop)
    if sources.lowered is not None:
        yield "shared", _shared(layout, sources)
    if (facts := sources.facts) is not None:
        spilled = f"{facts.spill_stores + facts.spill_loads} bytes spilled"
        yield (
            "registers",
            f"{facts.registers} of a thread at the launch, {facts.registers_of_block} of a block; "
            f"{spilled if facts.spill_stores or facts.spill_loads else 'none spilled'}",
        )
        counts = [f"{name} {count}" for name, count in _tensor_cores(facts).items()]
        yield "tensor", ", ".join(counts) or "no instruction of the tensor cores"


def _tensor_cores(facts: "Facts") -> dict[str, int]:
    """The instructions of tensor cores that there are, and how many."""
    from tilecheck.codegen.table import TENSOR_CORES

    return {name: count for name in TENSOR_CORES if (count := facts.value(name))}


def _first(name: str, rows: Sequence[object]) -> list[str]:
    """The name beside the first of several rows."""
    return [name, *[""] * (len(rows) - 1)][: len(rows)]


def _tile(tile: Tile) -> str:
    shape = " x ".join(map(str, tile.shape))
    return f"{tile.name}: {shape} {tile.dtype}, {_bytes(tile.bytes)} in {_PLACES.get(tile.scope, tile.scope)}"


_PLACES = {
    "shared": "static shared memory",
    "shared.dyn": "shared memory",
    "local.fragment": "registers, spread over the threads",
    "local": "registers of each thread",
    "local.var": "a register of each thread",
}


def _loop(loop: Loop) -> str:
    if loop.least is None:
        trips = "trips not known before it runs"
    elif loop.least == loop.most:
        trips = "1 trip" if loop.most == 1 else f"{loop.most} trips"
    else:
        trips = f"{loop.least} to {loop.most} trips, by block"
    return f"{loop.name}: {trips}" + (f", pipelined in {loop.stages} stages" if loop.stages else "")


def _shared(layout: Layout, sources: Sources) -> str:
    assert sources.lowered is not None
    dynamic, static = sources.lowered.dynamic_shared, sources.facts.static_shared if sources.facts else 0
    tiles = sum(tile.bytes for tile in layout.tiles if tile.scope in ("shared", "shared.dyn"))
    if not dynamic and not static:
        return "none"
    parts = f"{dynamic} bytes" + (f", and {static} static" if static else "")
    if not tiles:
        return f"{parts}; no tile is in it: what threads exchange, as in reductions, takes it"
    return f"{parts}; one of each tile is {tiles} bytes, stages and what shares its place make the difference"


def _occupancy(arch: Arch, layout: Layout, sources: Sources) -> Occupancy:
    lowered, facts = sources.lowered, sources.facts
    threads = layout.threads if lowered is None else lowered.threads
    registers = None if facts is None else facts.registers
    shared = None if lowered is None else lowered.dynamic_shared + (facts.static_shared if facts else 0)
    return occupancy(arch, threads, registers, shared)


def _launch(layout: Layout, held: Occupancy, sources: Sources) -> Rows:
    grid = " x ".join(str(extent) for extent in layout.grid)
    yield "grid", f"{grid} = {layout.blocks} block{'' if layout.blocks == 1 else 's'}"
    limits = ", ".join(f"{name} {blocks}" for name, blocks in held.limits.items())
    limited = " and ".join(held.limited_by)
    at_most = "" if sources.facts is not None else " at most"
    blocks = "1 block" if held.blocks == 1 else f"{held.blocks} blocks"
    yield (
        "occupancy",
        f"{blocks} on a multiprocessor{at_most}, limited by {limited} ({limits}); "
        f"{held.blocks * held.warps} of {held.most_warps} warps, {held.share:.0%}",
    )
    if held.blocks == 0:
        yield "waves", f"none: no block fits ({RESERVED_SHARED} bytes of shared memory are reserved)"
        return
    count, full = waves(layout.blocks, sources.gpu.multiprocessors, held.blocks)
    size = sources.gpu.multiprocessors * held.blocks
    waves_of = "1 wave" if count == 1 else f"{count} waves"
    share = "under 1%" if full < 0.01 else f"{full:.0%}"
    yield "waves", f"{waves_of} of up to {size} blocks, the last one {share} full"


def _work(program: "Program", layout: Layout, sources: Sources) -> Rows:
    cost = program.spec.cost_of(program.case)
    if layout.products:
        told = ""
        if cost and cost.flops:
            # The least counts what is no product, too: fewer than it are no fault.
            more = layout.products >= cost.flops
            told = f", {layout.products / cost.flops:.2f} times the least" if more else ", beside others"
        yield "products", f"{_operations(layout.products)} in whole tiles{told}"
    yield from _traffic("reads", layout.read, _least(program, layout.read))
    yield from _traffic("writes", layout.written, _least(program, layout.written))
    if cost is None:
        return
    asked = sum(layout.read.values()) + sum(layout.written.values())
    times = asked / cost.bytes if cost.bytes else 0.0
    whole = not layout.open
    if cost.bytes and whole:
        verdict = (
            "the least"
            if times <= TIGHT
            else f"{times:.3g} times that; what L2 and L1 do not keep comes from device memory again"
        )
        yield "bytes", f"at least {_bytes(cost.bytes)}; the blocks ask for {_bytes(asked)}, {verdict}"
    elif cost.bytes:
        yield "bytes", f"at least {_bytes(cost.bytes)}"
    yield from _roofline(program, cost, sources)


def _roofline(program: "Program", cost: Cost, sources: Sources) -> Rows:
    if not cost.bytes:
        return
    yield "operations", f"at least {_operations(cost.flops)}"
    intensity = cost.flops / cost.bytes
    try:
        top = roof(sources.gpu, program.arch, program.case.dtype)
    except ValueError as error:
        yield "intensity", f"{_rounded(intensity)} operations a byte; {error}"
        return
    ridge = top.flops / top.bytes
    if sources.facts is not None and not _tensor_cores(sources.facts):
        # What other units do in a clock depends on the operation; no rate here is theirs.
        told = f"none by tensor cores, whose ridge is {_rounded(ridge)}"
        yield "intensity", f"{_rounded(intensity)} operations a byte, {told}"
        moved = _seconds(cost.bytes / top.bytes)
        yield "roofline", f"{moved} at least for the bytes at {top.bytes / 1e12:.3g} TB/s"
        return
    bound = "operations" if intensity > ridge else "device memory"
    yield (
        "intensity",
        f"{_rounded(intensity)} operations a byte, {'over' if intensity > ridge else 'under'} the ridge of "
        f"{_rounded(ridge)}: bound by {bound}",
    )
    compute, memory = cost.flops / top.flops, cost.bytes / top.bytes
    yield (
        "roofline",
        f"{_seconds(max(compute, memory))} at least: {_seconds(compute)} for the operations at "
        f"{top.flops / 1e12:.4g} TFLOP/s, {_seconds(memory)} for the bytes at {top.bytes / 1e12:.3g} TB/s",
    )


def _traffic(name: str, asked: Mapping[str, int], least: Mapping[str, int]) -> Rows:
    parts = []
    for tensor, size in asked.items():
        times = size / least[tensor] if least.get(tensor) else 0.0
        parts.append(f"{tensor} {_bytes(size)} ({times:.3g} x)" if times else f"{tensor} {_bytes(size)}")
    if parts:
        yield name, f"{', '.join(parts)}, in whole tiles; x: times its size"


def _least(program: "Program", asked: Mapping[str, int]) -> dict[str, int]:
    from math import prod

    from tilelang import tvm

    return {
        name: prod(program[name].shape or ()) * tvm.DataType(program[name].dtype).bits // 8 for name in asked
    }


def _unknown(program: "Program", layout: Layout, sources: Sources) -> Rows:
    lacking = [] if sources.facts is not None else ["registers"]
    if sources.lowered is None:
        lacking += ["shared memory", "threads that only copy"]
    if lacking:
        yield "compiler", f"{', '.join(lacking)}, and what they allow of occupancy: {sources.lacking}"
    if program.spec.cost is None:
        yield "cost", "intensity and roofline: the spec gives no cost"
    for text in layout.open:
        yield "count", text


def _rounded(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _bytes(size: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:.0f} bytes"


def _operations(count: float) -> str:
    for unit, factor in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count:.0f} FLOP"


def _seconds(seconds: float) -> str:
    for unit, factor in (("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
