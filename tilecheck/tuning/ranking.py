"""How long a schedule may take, to try the likely ones first. It ranks; nothing is decided by it.

A wave is what all multiprocessors hold at a time; its blocks share a multiprocessor's tensor cores, and its
part of the bandwidth of L2 and of device memory:

    time of a wave = latency + max(operations / peak, bytes / bandwidth of L2, bytes at least / that of memory)

Bandwidth is reached only by as many bytes under way as latency times bandwidth (Little's law), which is what
pipeline stages and resident blocks are for. A last wave with few blocks takes as long as a whole one: wave
quantisation. Nothing is faster than the roofline.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilecheck.arches import Arch
from tilecheck.monitor import GpuFacts
from tilecheck.roofline import Roof, roof
from tilecheck.spec import Cost
from tilecheck.tiling import Tiling
from tilecheck.tuning.space import RESERVED_SHARED, Candidate, Space, values_of

L2_BYTES_PER_CLOCK = 5120
"""Of a whole GPU; NVIDIA A100 Tensor Core GPU Architecture (2020), "A100 L2 cache"."""

SM_BYTES_PER_CLOCK = 64
"""What a multiprocessor takes in at most; the same paper."""

LATENCY = 0.8e-6
"""Seconds from asking device memory to having it: the order of magnitude of published microbenchmarks."""

SPILLING = 1.5
"""How many times longer code is taken to run that spills registers: a guess, which puts it last."""


@dataclass(frozen=True)
class Usage:
    """What a block takes of its multiprocessor: as the schedule says, or as the compiler found.

    registers: of a thread; 0: not known.  shared: bytes.
    """

    threads: int
    registers: int
    shared: int
    spills: bool = False


@dataclass(frozen=True)
class Estimate:
    """seconds: of the model.  waves: that the grid makes, the last one counted by its share.
    resident: blocks that a multiprocessor holds.  bound: what takes the most time in a whole wave.
    """

    seconds: float
    waves: float
    resident: int
    bound: str


def ranked(
    space: Space, gpu: GpuFacts, usages: Mapping[str, Usage] | None = None
) -> list[tuple[Candidate, Estimate | None]]:
    """The candidates of `space`, likely ones first, each with its estimate for `gpu`.

    usages: what the compiler found, by the candidate's key.
    Without a `tiling` or a cost there are no estimates; those nearest to the default come first then.
    """
    spec, case, arch = space.spec, space.case, space.arch
    cost = spec.cost_of(case)
    if spec.tiling is None or cost is None:
        return [(candidate, None) for candidate in _by_distance(space)]
    top = roof(gpu, arch, case.dtype)
    rows = []
    for candidate in space.candidates:
        tiling = spec.tiling_of(case, arch, candidate.schedule)
        assert tiling is not None
        shared = spec.shared_memory_of(case, arch, candidate.schedule) or 0
        usage = (usages or {}).get(candidate.key) or Usage(tiling.threads, tiling.registers, shared)
        rows.append((candidate, estimate(tiling, usage, cost, arch, gpu, top)))
    return sorted(rows, key=lambda row: row[1].seconds)  # stable: the order of the knobs' values breaks ties


def estimate(
    tiling: Tiling, usage: Usage, cost: Cost, arch: Arch, gpu: GpuFacts, top: Roof
) -> Estimate:
    """The model's time of one launch. top: `roof(gpu, arch, dtype)`."""
    resident = resident_blocks(usage, arch)
    whole, left = divmod(tiling.blocks, gpu.multiprocessors * resident)
    seconds, bound = _wave(tiling, cost, resident, gpu.multiprocessors, gpu, top)
    total = whole * seconds
    if left:
        busy = min(left, gpu.multiprocessors)
        total += _wave(tiling, cost, -(-left // busy), busy, gpu, top)[0]
    total = max(total, top.least_seconds(cost)) * (SPILLING if usage.spills else 1.0)
    return Estimate(total, tiling.blocks / (gpu.multiprocessors * resident), resident, bound)


def resident_blocks(usage: Usage, arch: Arch) -> int:
    """How many blocks a multiprocessor holds at a time; 1 where it holds none, which is not ours to judge."""
    warps = -(-usage.threads // 32)
    limits = [arch.blocks_per_sm, arch.threads_per_sm // (32 * warps)]
    if usage.shared:
        limits.append(arch.shared_per_sm // (usage.shared + RESERVED_SHARED))
    if usage.registers:
        given = -(-usage.registers * 32 // 256) * 256  # to a warp, in units of 256
        limits.append(arch.registers_per_sm // (given * warps))
    return max(1, min(limits))


def _wave(
    tiling: Tiling, cost: Cost, blocks: int, busy: int, gpu: GpuFacts, top: Roof
) -> tuple[float, str]:
    """Seconds for `blocks` on each of `busy` multiprocessors, and what takes the most of them."""
    most = SM_BYTES_PER_CLOCK * gpu.max_clock
    cache = min(most, L2_BYTES_PER_CLOCK * gpu.max_clock / busy)
    memory = min(most, gpu.bandwidth / busy)
    under_way = max(blocks * tiling.in_flight, 1.0)
    least = cost.bytes / max(tiling.blocks, 1)
    times = {
        "operations": blocks * tiling.flops * gpu.multiprocessors / top.flops,
        "L2": blocks * tiling.bytes / min(cache, under_way / LATENCY),
        "memory": blocks * least / min(memory, under_way / LATENCY),
    }
    bound = max(times, key=lambda name: times[name])
    return LATENCY + times[bound], bound


def _by_distance(space: Space) -> list[Candidate]:
    usual = space.default.values
    return sorted(
        space.candidates, key=lambda c: sum(value != usual[name] for name, value in values_of(c.schedule).items())
    )


def neighbours(candidate: Candidate, among: Iterable[Candidate]) -> list[Candidate]:
    """Those that differ from `candidate` in one knob, in their order."""
    own = candidate.values
    return [c for c in among if sum(own[name] != value for name, value in c.values.items()) == 1]
