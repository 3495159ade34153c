"""Sum of two vectors: C = A + B, for any length.

    C[i] = A[i] + B[i]

Contract. A, B and C are contiguous, of N elements and one type: fp32, fp16 or bf16. An IEEE 754 sum is
rounded once, to nearest, so each element has one right answer, and C must agree with it in every bit.

Tiling. A block of threads adds `block` elements in registers. Where the vectors are whole 16 bytes long, a
thread accesses 16 bytes at a time, its neighbour the next 16; else the widest unit that divides their
length. Past the end, loads give zero and stores do nothing.

Early launch. From Hopper on, blocks of the next launch may start while those of this one end, and wait with
their accesses until it has ended (programmatic dependent launch): where launches follow each other, their
start costs nothing. On H200, 2^20 elements in fp32 take 4.1 us instead of 4.8, and 2^16 1.2 instead of 2.0.
"""

import math
from dataclasses import dataclass

import torch

from tilecheck.arches import Arch
from tilecheck.dtypes import dtype as dtype_named
from tilecheck.landmarks import Landmark, absent, global_accesses
from tilecheck.spec import Case, Cost, KernelSpec, Reference
from tilecheck.tiling import Tiling


@dataclass(frozen=True)
class Schedule:
    """block: elements that a block of threads adds.  threads: its size."""

    block: int
    threads: int


def default_schedule(N: int, dtype: str) -> Schedule:
    """16 bytes of each vector a thread, and twice that from 2^20 elements on, where blocks are many."""
    accesses = 1 if N < 2**20 else 2
    return Schedule(block=128 * accesses * 16 // dtype_named(dtype).bytes, threads=128)


def legal(schedule: Schedule, N: int, arch: Arch) -> None:
    """ValueError if `schedule` cannot be compiled, or not launched, for N elements on `arch`."""
    block, threads = schedule.block, schedule.threads
    if not (threads % 32 == 0 and 0 < threads <= arch.max_threads):
        raise ValueError(f"threads must be a multiple of 32 up to {arch.max_threads}: {schedule}")
    if not (block > 0 and block % threads == 0):
        raise ValueError(f"block must be a positive multiple of threads: {schedule}")
    if block // threads > 64:
        raise ValueError(
            f"{block // threads} elements a thread of two operands leave no registers: {schedule}"
        )
    if -(-N // block) >= 2**31:
        raise ValueError(f"{-(-N // block)} blocks exceed the 2^31 - 1 of a grid: {schedule}, {N=}")


def shared_memory() -> int:
    """None: the vectors go through registers alone."""
    return 0


def program(N, dtype, block, threads, arch):
    import tilelang.language as T

    @T.prim_func
    def vector_add(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
            A_local = T.alloc_fragment((block,), dtype)
            B_local = T.alloc_fragment((block,), dtype)
            if arch.capability >= (9, 0):
                T.pdl_trigger()  # the next launch may start
                T.pdl_sync()  # the one before has ended, and what it wrote is there
            # Global memory to registers: both loads are under way before the first sum waits.
            T.copy(A[bx * block], A_local)
            T.copy(B[bx * block], B_local)
            for i in T.Parallel(block):
                A_local[i] += B_local[i]
            T.copy(A_local, C[bx * block])

    return vector_add


def reference(A: torch.Tensor, B: torch.Tensor, dtype: str) -> Reference:
    # float64 has more than twice the bits of each type, so rounding twice is rounding once.
    return Reference((A + B).to(getattr(torch, dtype)), exact=True)


def cost(N: int, dtype: str) -> Cost:
    return Cost(flops=N, bytes=3 * N * dtype_named(dtype).bytes)


def landmarks(N: int, dtype: str) -> tuple[Landmark, ...]:
    """Accesses as wide as the vectors' length allows, and no waiting."""
    unit = math.gcd(16, N * dtype_named(dtype).bytes)
    return (
        *global_accesses(loads=unit, stores=unit),
        absent("no-barriers", "BAR", "threads have nothing to wait for"),
    )


def tiling(N: int, dtype: str, block: int, threads: int) -> Tiling:
    """All loads of a block are under way at once, into registers."""
    size = block * dtype_named(dtype).bytes
    return Tiling(-(-N // block), threads, block, 3 * size, registers=2 * size // (4 * threads) + 16)


def eager(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """torch's own kernel."""
    return A + B


def halfway(N: int, dtype: str, rng: torch.Generator) -> dict[str, torch.Tensor]:
    """Sums half way between two numbers of the type, which round to the even one."""
    kind, torch_dtype = dtype_named(dtype), getattr(torch, dtype)
    top = round(1 / kind.unit)  # integers from top / 2 to top are 1 apart
    integers = torch.randint(top // 2, top, (N,), generator=rng)
    return {"A": integers.to(torch_dtype), "B": torch.full((N,), 0.5, dtype=torch_dtype)}


def special_pairs(N: int, dtype: str) -> dict[str, torch.Tensor]:
    """Every pair of zeros, ones, infinities, NaN, the largest, smallest and smallest normal numbers."""
    kind = dtype_named(dtype)
    sizes = [0.0, 1.0, kind.smallest_normal, 2 * kind.unit * kind.smallest_normal, kind.largest, math.inf]
    values = torch.tensor([math.nan, *sizes, *(-size for size in sizes)], dtype=torch.float64)
    at = torch.arange(N)
    a, b = values[at % len(values)], values[at // len(values) % len(values)]
    return {"A": a.to(getattr(torch, dtype)), "B": b.to(getattr(torch, dtype))}


HALF = ("float16", "bfloat16")
ALL = ("float32", *HALF)


def _rows(id: str, dtypes: tuple[str, ...], N: int, why: str, draw: str = "normal") -> tuple[Case, ...]:
    return Case.per_dtype(dtypes, id, {"N": N}, why, draw=draw)


# Below 2^20 elements a block adds 512 in fp32, 1024 in fp16 and bf16.
CASES = (
    *_rows("one", ALL, 1, "a single element"),
    *_rows("seven", ALL, 7, "prime, below one access"),
    *_rows("warp-short", ALL, 31, "one below a warp of single elements"),
    *_rows("block-short", ALL, 1023, "one below a whole number of blocks"),
    *_rows("block", ALL, 1024, "whole blocks, no tail"),
    *_rows("block-over", ALL, 1025, "one above: the last block adds one element"),
    *_rows("aligned-tail", ALL, 1000, "a tail of whole 16 bytes"),
    *_rows("access-8", HALF, 1004, "a length of whole 8 bytes, not 16"),
    *_rows("access-4", HALF, 1002, "a length of whole 4 bytes, not 8"),
    *_rows("prime", ALL, 10007, "prime, many blocks"),
    *_rows("power", ALL, 2**16, "many whole blocks; on a GPU, launch time shows"),
    *_rows("halfway", ALL, 1000, "round to nearest even, never twice and never to zero", "halfway"),
    *_rows("cancelling", ALL, 999, "small differences of large numbers", "cancelling"),
    *_rows("grid-tails", ("float16",), 30011, "prime; more blocks than multiprocessors, by most schedules"),
    *_rows("grid-whole", ("float32",), 61440, "whole blocks of each size of the grid"),
    *_rows(
        "special", ALL, 169, "NaN, infinities, overflow, denormals and -0 as IEEE 754 has them", "special"
    ),
    *_rows("million-odd", ("float16",), 2**20 + 1, "two accesses a thread, and a tail of one"),
    *_rows("many-blocks", ("float32",), 2**21 + 2**15 + 1, "2081 blocks, the last of one element"),
    *_rows("2e20", ALL, 2**20, "fits in L2"),
    *_rows("2e24", ALL, 2**24, "larger than L2"),
    *_rows("2e28", ("float32", "bfloat16"), 2**28, "bound by memory alone; 3 GiB in fp32"),
)

LATENCY_CASES = (
    *("power-fp32", "power-fp16", "power-bf16"),
    *("2e20-fp32", "2e20-fp16", "2e20-bf16"),
    *("2e24-fp32", "2e24-fp16", "2e24-bf16"),
    *("2e28-fp32", "2e28-bf16"),
)

GRID = {
    "block": (192, 512, 768, 960, 1024, 5120),
    "threads": (64, 96, 128, 192, 320, 512),
    "pass_configs": ({}, {"tl.enable_fast_math": True}),
}

TUNING = {
    "block": (512, 1024, 2048, 4096, 8192, 16384),
    "threads": (64, 128, 256, 512, 1024),
}

SPEC = KernelSpec(
    name="vector_add",
    program=program,
    reference=reference,
    outputs=("C",),
    cases=CASES,
    default_schedule=default_schedule,
    legal=legal,
    cost=cost,
    draws={"halfway": halfway, "special": special_pairs},
    vendor={"torch": eager},
    grid=GRID,
    grid_cases=("grid-tails-fp16", "grid-whole-fp32"),
    latency_cases=LATENCY_CASES,
    landmarks=landmarks,
    shared_memory=shared_memory,
    code_cases=("2e28-fp32", "2e24-bf16", "access-8-fp16", "million-odd-fp16"),
    tuning=TUNING,
    tuning_cases=("2e28-fp32", "2e24-fp32", "2e20-fp32", "power-fp32"),
    tiling=tiling,
)
