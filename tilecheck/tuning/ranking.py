"""How long a schedule may take, to try the likely ones first. It ranks; nothing is decided by it.

A wave is what all multiprocessors hold at a time; its blocks share a multiprocessor's tensor cores and shared
memory, and its part of the bandwidth of L2 and of device memory:

    time of a wave = latency + max(operations / peak, bytes / bandwidth of each memory, chain)
    chain = steps of a block * (latency + a step's own work) / stages

The chain is what a block alone takes: with few stages it waits for each of its reads, and only other blocks
on the multiprocessor use the time. A last wave with few blocks takes as long as a whole one (wave
quantisation). Nothing is faster than the roofline.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilecheck.arches import Arch
from tilecheck.latency.monitor import GpuFacts
from tilecheck.latency.roofline import Roof, roof
from tilecheck.occupancy import occupancy
from tilecheck.spec import Cost
from tilecheck.tiling import Tiling
from tilecheck.tuning.space import Candidate, Space, values_of

L2_BYTES_PER_CLOCK = 5120
"""Of a whole GPU; NVIDIA A100 Tensor Core GPU Architecture (2020), "A100 L2 cache"."""

SM_BYTES_PER_CLOCK = 64
"""What a multiprocessor takes in at most; the same paper."""

LATENCY = 0.8e-6
"""Seconds from asking device memory to having it: the order of magnitude of published microbenchmarks."""

SHARED_BYTES_PER_CLOCK = 128
"""Of a multiprocessor: 32 banks of 4 bytes (CUDA C++ Programming Guide 13.0, "Shared Memory")."""

STEP = 50e-9
"""Seconds for the barriers of a step: a guess, by which of equal schedules the one with fewer comes first."""

SPILLING = 1.5
"""How many times longer code is taken to run that spills registers: a guess, which puts it last."""

ALIKE = 0.25
"""How far back each further one goes that the model cannot tell from others, as a share of its time: the
neighbours of a good one come early anyway."""


@dataclass(frozen=True)
class Usage:
    """What a block takes of its multiprocessor: as the schedule says, or as the compiler found.

    registers: of a thread; 0: not known.  shared: bytes.  spills: registers go through memory.
    """

    threads: int
    registers: int
    shared: int
    spills: bool = False

    @classmethod
    def of(cls, tiling: Tiling, shared: int, arch: Arch) -> "Usage":
        """What a schedule says; where registers are short, the compiler spills."""
        over = tiling.registers > min(arch.registers_per_thread, arch.registers_per_sm // tiling.threads)
        return cls(tiling.threads, tiling.registers, shared, over)


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
    rows: list[tuple[Candidate, Estimate]] = []
    for candidate in space.candidates:
        tiling = spec.tiling_of(case, arch, candidate.schedule)
        assert tiling is not None
        shared = spec.shared_memory_of(case, arch, candidate.schedule) or 0
        usage = (usages or {}).get(candidate.key) or Usage.of(tiling, shared, arch)
        rows.append((candidate, estimate(tiling, usage, cost, arch, gpu, top)))
    return list(_spread(space, rows))


def estimate(tiling: Tiling, usage: Usage, cost: Cost, arch: Arch, gpu: GpuFacts, top: Roof) -> Estimate:
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
    return max(1, occupancy(arch, usage.threads, usage.registers or None, usage.shared or None).blocks)


def _wave(tiling: Tiling, cost: Cost, blocks: int, busy: int, gpu: GpuFacts, top: Roof) -> tuple[float, str]:
    """Seconds for `blocks` on each of `busy` multiprocessors, and what takes the most of them."""
    most = SM_BYTES_PER_CLOCK * gpu.max_clock
    operations = tiling.flops * gpu.multiprocessors / top.flops
    cache = tiling.bytes / min(most, L2_BYTES_PER_CLOCK * gpu.max_clock / busy)
    memory = cost.bytes / max(tiling.blocks, 1) / min(most, gpu.bandwidth / busy)
    chain = tiling.steps * LATENCY + operations + max(cache, memory)
    times = {
        "operations": blocks * operations,
        "L2": blocks * cache,
        "memory": blocks * memory,
        "shared memory": blocks * tiling.shared / (SHARED_BYTES_PER_CLOCK * gpu.max_clock),
        "latency": chain / tiling.stages,
    }
    bound = max(times, key=lambda name: times[name])
    return LATENCY + tiling.steps * STEP + times[bound], bound


def _spread(space: Space, rows: list[tuple[Candidate, Estimate]]) -> list[tuple[Candidate, Estimate]]:
    """By the estimate; of several with the same one the nearest to the default first, the others later."""
    near = {candidate.key: place for place, candidate in enumerate(_by_distance(space))}
    rows = sorted(rows, key=lambda row: (row[1].seconds, near[row[0].key]))
    keys: list[float] = []
    for place, (_, found) in enumerate(rows):
        again = place > 0 and rows[place - 1][1] == found
        keys.append(keys[-1] + ALIKE * found.seconds if again else found.seconds)
    return [row for _, row in sorted(zip(keys, rows, strict=True), key=lambda pair: pair[0])]


def _by_distance(space: Space) -> list[Candidate]:
    usual = space.default.values
    return sorted(
        space.candidates,
        key=lambda c: sum(value != usual[name] for name, value in values_of(c.schedule).items()),
    )


def neighbours(candidate: Candidate, among: Iterable[Candidate]) -> list[Candidate]:
    """Those that differ from `candidate` in one knob, in their order."""
    own = candidate.values
    return [c for c in among if sum(own[name] != value for name, value in c.values.items()) == 1]
