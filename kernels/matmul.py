"""Matrix product on tensor cores: C = A @ B, of any size and in all four transpose layouts.

    C[m, n] = sum over k of A[m, k] * B[k, n]

Contract. A is (M, K), stored as (K, M) with `trans_a`; B is (K, N), stored as (N, K) with `trans_b`; C is
(M, N). All are contiguous and of one type: fp16, bf16 or fp32. The sum runs in fp32 and is rounded once, to
that type. Tensor cores read fp32 as tf32: of 23 stored significand bits they drop 13. K = 0 gives zeros.

Tiling. A block of threads keeps a tile of C, block_m x block_n, in registers. It walks K in steps of
block_k, through tiles of A and B in shared memory that are loaded up to `stages` steps ahead of the tensor
cores. Where a tile reaches over an edge, loads give zero and stores do nothing, so tails need no code.
Blocks that run at the same time form panels of `swizzle` rows of blocks, which share tiles of A and B in
L2.

Tiles move by bulk copy (TMA), issued by warps of their own, where the architecture has it and rows start at
multiples of 16 bytes; else by cp.async or plain loads. On Hopper, tiles of 64 rows and more of a 16-bit
type multiply through wgmma, all others through mma.sync.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from tilecheck.arches import KIB, Arch
from tilecheck.dtypes import dtype as dtype_named
from tilecheck.landmarks import Landmark, global_accesses, has_block_tensor_cores, present, tensor_cores
from tilecheck.spec import Case, Cost, KernelSpec, Reference, Term
from tilecheck.tiling import SPECIALIZED_REGISTERS, Tiling


@dataclass(frozen=True)
class Schedule:
    """How the product is cut up.

    block_m, block_n, block_k: the tile, in elements.  stages: tiles in flight, 0 for no pipeline.
    threads: that multiply; bulk copies add theirs.  swizzle: rows of blocks in a panel, 0 for plain order.
    """

    block_m: int
    block_n: int
    block_k: int
    stages: int
    threads: int
    swizzle: int = 10


def default_schedule(case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> Schedule:
    """The largest tile of a short list that gives most multiprocessors (108 on A100, 132 on H100) a block."""
    M, N = case.dims["M"], case.dims["N"]
    wide = dtype_named(case.dtype).bytes == 4
    small = Schedule(64, 64, 32 if wide else 64, 4, 128)
    if M <= 16:  # one row of tensor core instructions; a taller tile would multiply padding
        tiles = [Schedule(16, 64, 64 if wide else 128, 4, 128)]
    elif _has_wgmma(arch) and not wide:
        tiles = [Schedule(128, 256, 64, 4, 256), Schedule(128, 128, 64, 4, 256), small]
    else:
        # On Blackwell 128 threads would spill: loading warps leave them 240 registers, 128 of them hold sums.
        threads = 256 if wide and arch.capability >= (10, 0) else 128
        tiles = [Schedule(128, 128, 32, 3, threads), small]
    schedule = next((s for s in tiles if _ceildiv(M, s.block_m) * _ceildiv(N, s.block_n) >= 96), tiles[-1])
    if _uses_wgmma(schedule, case, arch) and not any(_bulk_copied(case, arch, pass_configs)):
        return replace(schedule, stages=1)
    return schedule


def legal(schedule: Schedule, case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> None:
    """ValueError if TileLang 0.1.15 cannot compile `schedule` for `case` on `arch`, or may do so wrongly."""
    s = schedule

    def require(holds: bool, rule: str) -> None:
        if not holds:
            raise ValueError(f"{rule}: {s}, case {case} on {arch.name}")

    require(s.threads > 0 and s.threads % 32 == 0, "threads must be a positive multiple of 32")
    require(s.stages >= 0 and s.swizzle >= 0, "stages and swizzle must not be negative")
    # The box of a bulk copy is at most 256 elements a side; an instruction is 16 x 8, over 256 bits of K.
    require(s.block_m in range(16, 257, 16), "block_m must be a multiple of 16 up to 256")
    require(s.block_n in range(8, 257, 8), "block_n must be a multiple of 8 up to 256")
    depth = 32 // dtype_named(case.dtype).bytes  # the remainder was dropped in silence: tilelang #2381
    require(s.block_k > 0 and s.block_k % depth == 0, f"block_k must be a positive multiple of {depth}")

    wgmma = _uses_wgmma(s, case, arch)
    grids = _warp_grids(s, wgmma)
    require(len(grids) > 0, "the warps must share the tile out evenly, in whole 16 rows and 8 columns")
    accumulators = s.block_m * s.block_n // s.threads
    require(accumulators < arch.registers_per_thread, f"{accumulators} accumulators a thread are too many")
    # wgmma over 24, 40, 56 ... columns is wrong (tilelang #2593), and over 8 it does not compile unless B is
    # transposed. Which grid of warps it will be is TileLang's choice.
    columns = sorted({s.block_n // n for _, n in grids})
    even = all(c % 16 == 0 or (c == 8 and case.flags.get("trans_b")) for c in columns)
    require(even or not wgmma, f"wgmma over {columns} columns a warp, not multiples of 16, is wrong")

    bulk = _bulk_copied(case, arch, pass_configs)
    # wgmma reads shared memory by the async proxy, and a cp.async pipeline drains without the fence for it.
    require(
        any(bulk) or not wgmma or s.stages <= 1,
        "wgmma takes 2 stages only by bulk copy, of rows of whole 16 bytes",
    )
    copying = 0  # threads that do nothing but copy
    if any(bulk) and s.stages > 0:
        # They hand registers over to those that multiply, which works between whole warpgroups.
        require(s.threads % 128 == 0, "beside bulk copies threads must be a multiple of 128")
        copying = 128 if all(bulk) else s.threads
    launched = s.threads + copying
    require(launched <= arch.max_threads, f"{launched} threads exceed {arch.max_threads}")
    if wgmma:  # all its sums are in registers at once, with 26 values more (ptxas: "Insufficient registers")
        needed, registers = columns[-1] // 2 + 26, arch.registers_per_sm // launched // 8 * 8
        require(needed <= registers, f"wgmma needs {needed} registers, {launched} threads leave {registers}")
    # Barriers are static shared memory, and the dynamic one starts at a multiple of 1 KiB after them.
    shared = shared_memory(s, case, arch, pass_configs) + (KIB if copying else 0)
    limit = arch.shared_per_block
    require(shared <= limit, f"{shared} bytes of shared memory exceed {limit}")
    require(_ceildiv(case.dims["M"], s.block_m) <= 65535, "a grid has at most 65535 rows of blocks")


def shared_memory(schedule: Schedule, case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> int:
    """Bytes of dynamic shared memory of a block: a tile of A and one of B for each stage.

    The larger of the two lies first; where the other may start depends on what reads and writes it.
    """
    s, size = schedule, dtype_named(case.dtype).bytes
    trans_a, trans_b = _transposed(case)
    bulk_a, bulk_b = (bulk and s.stages > 0 for bulk in _bulk_copied(case, arch, pass_configs))
    wgmma = _uses_wgmma(s, case, arch)

    def tile(across: int, along_k: bool, bulk: bool) -> tuple[int, int]:
        row = (s.block_k if along_k else across) * size
        return max(s.stages, 1) * across * s.block_k * size, _alignment(row, bulk, wgmma)

    a, b = tile(s.block_m, not trans_a, bulk_a), tile(s.block_n, trans_b, bulk_b)
    (first, _), (second, aligned) = (a, b) if a[0] >= b[0] else (b, a)
    return _ceildiv(first, aligned) * aligned + second


def _alignment(row: int, bulk: bool, wgmma: bool) -> int:
    """Where a tile with rows of `row` bytes may start: eight rows of the widest swizzle that divides them for
    a bulk copy, of the widest at all for wgmma alone, else whole 16 bytes.
    """
    if bulk:
        return 8 * max(16, math.gcd(row, 128))
    return KIB if wgmma else 16


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def _has_wgmma(arch: Arch) -> bool:
    return arch.capability == (9, 0)


def _uses_wgmma(s: Schedule, case: Case, arch: Arch) -> bool:
    """Whether `T.gemm` becomes wgmma; the rule is TileLang's (AllowWgmma in src/cuda/op/gemm.cc)."""
    narrow = dtype_named(case.dtype).bytes == 2
    return _has_wgmma(arch) and narrow and s.block_m >= 64 and s.threads % 128 == 0


def _bulk_copied(case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether tiles of A, and of B, move by bulk copy: their rows have to start at multiples of 16 bytes, and
    TileLang must be allowed warps that do nothing but copy.
    """
    if not arch.bulk_copy or pass_configs.get("tl.disable_warp_specialized"):
        return False, False
    size, (row_a, row_b) = dtype_named(case.dtype).bytes, _row_lengths(case)
    return row_a * size % 16 == 0, row_b * size % 16 == 0


def _row_lengths(case: Case) -> tuple[int, int]:
    """How many elements of A, and of B, lie side by side in memory."""
    trans_a, trans_b = _transposed(case)
    return case.dims["M" if trans_a else "K"], case.dims["K" if trans_b else "N"]


def _transposed(case: Case) -> tuple[bool, bool]:
    return bool(case.flags.get("trans_a")), bool(case.flags.get("trans_b"))


def _warp_grids(s: Schedule, wgmma: bool) -> list[tuple[int, int]]:
    """How the warps can lie over the tile, (along M, along N); wgmma takes four at a time along M."""
    warps, group = s.threads // 32, 4 if wgmma else 1
    return [
        (m, warps // m)
        for m in range(group, warps + 1, group)
        if warps % m == 0 and s.block_m % (16 * m) == 0 and s.block_n % (8 * (warps // m)) == 0
    ]


def program(M, N, K, trans_a, trans_b, dtype, block_m, block_n, block_k, stages, threads, swizzle):
    import tilelang.language as T

    a_shape, a_tile = ((K, M), (block_k, block_m)) if trans_a else ((M, K), (block_m, block_k))
    b_shape, b_tile = ((N, K), (block_n, block_k)) if trans_b else ((K, N), (block_k, block_n))

    @T.prim_func
    def matmul(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), dtype)):
        # A block of threads for each tile of C.
        with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(a_tile, dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            C_local = T.alloc_fragment((block_m, block_n), "float32")
            T.use_swizzle(swizzle, enable=swizzle > 0)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_k), num_stages=stages):
                # Global to shared memory, while the tensor cores work on earlier tiles.
                T.copy(A[k * block_k, by * block_m] if trans_a else A[by * block_m, k * block_k], A_shared)
                T.copy(B[bx * block_n, k * block_k] if trans_b else B[k * block_k, bx * block_n], B_shared)
                # Shared memory to tensor cores, sum in registers.
                T.gemm(A_shared, B_shared, C_local, transpose_A=trans_a, transpose_B=trans_b)
            # Round once and store.
            T.copy(C_local, C[by * block_m, bx * block_n])

    return matmul


def reference(A: torch.Tensor, B: torch.Tensor, trans_a: bool, trans_b: bool, dtype: str) -> Reference:
    a, b = A.T if trans_a else A, B.T if trans_b else B
    terms = product_terms(a, b, dtype)
    return Reference(a @ b, terms, open=past_range(terms[0].magnitude))


def product_terms(a: torch.Tensor, b: torch.Tensor, dtype: str) -> tuple[Term, ...]:
    """What tensor cores may do to an element of `a` (M, K) times `b` (K, N), both float64.

    An instruction adds 16 products of 16-bit numbers, or 8 of tf32, to the sum, and cuts off where it should
    round: up to 2 * 2^-24 of a sum that |a| @ |b| bounds. 4 steps more are for sums within it.
    """
    steps = _ceildiv(a.shape[1], 8 if dtype == "float32" else 16)
    accumulation = Term("accumulation in fp32", (steps + 4) * 2 * 2.0**-24, a.abs() @ b.abs())
    if dtype != "float32":
        return (accumulation,)
    # Cut to tf32, an operand loses up to 2^-10 of itself, or nothing if it has no bits to lose. What all lose
    # alike scales the sum. The rest varies like random numbers, for a product by a standard deviation of
    # 0.29 * 2^-10 an operand, and adds up as the root of the squares; 2.1 * 2^-10 is 7 deviations. Short
    # sums cannot lose that much: what they can, and half of it to spare, is less.
    a_cut, b_cut = _more_than_tf32(a), _more_than_tf32(b)
    alike = (a_cut @ b).abs() + (a @ b_cut).abs()
    varied = (a_cut.square() @ b.square() + a.square() @ b_cut.square()).sqrt()
    most = a_cut.abs() @ b.abs() + a.abs() @ b_cut.abs()
    return accumulation, Term(
        "operands cut to tf32", 2.0**-10, torch.minimum(alike + 2.1 * varied, 1.5 * most)
    )


def past_range(magnitude: torch.Tensor) -> torch.Tensor:
    """Where sums of this magnitude may pass fp32's largest number on the way, and end as infinity or NaN."""
    return magnitude.isfinite() & (magnitude > torch.finfo(torch.float32).max)


def _more_than_tf32(x: torch.Tensor) -> torch.Tensor:
    """`x` where it has more than the 11 significant bits of tf32, else 0."""
    significand = torch.frexp(x).mantissa * 2**11
    return x.where(significand != significand.round(), 0.0)


def cost(M: int, N: int, K: int, dtype: str) -> Cost:
    return Cost(flops=2 * M * N * K, bytes=(M * K + K * N + M * N) * dtype_named(dtype).bytes)


def landmarks(
    case: Case, arch: Arch, schedule: Schedule, pass_configs: Mapping[str, Any]
) -> Iterator[Landmark]:
    """A product, of which threads only store the result."""
    yield from product_landmarks(case, arch, schedule, pass_configs)
    # No thread loads tiles, if rows start where cp.async can read.
    yield from global_accesses(loads=0 if row_unit(case) >= 4 else row_unit(case), stores=pair_bytes(case))


def product_landmarks(
    case: Case, arch: Arch, schedule: Schedule, pass_configs: Mapping[str, Any]
) -> Iterator[Landmark]:
    """How tiles of A and B come to the tensor cores, and to which."""
    tf32, (trans_a, trans_b) = case.dtype == "float32", _transposed(case)
    # wgmma takes tf32 only where A and B lie along K.
    rows = 16 if tf32 and _has_wgmma(arch) and (trans_a or not trans_b) else schedule.block_m
    yield tensor_cores(arch, rows)
    if not has_block_tensor_cores(arch, rows) and not (tf32 and trans_a):
        yield present("ldmatrix", "LDSM", "fragments are gathered from shared memory word by word")
    if any(_bulk_copied(case, arch, pass_configs)) and schedule.stages > 0:
        yield present("bulk-copies", "UTMALDG", "threads that should multiply copy tiles")
        yield present("mbarriers", "SYNCS", "nobody waits for the tiles")
    elif row_unit(case) >= 4:
        yield present("async-copies", f"LDGSTS.{8 * row_unit(case)}", "tiles go through registers")
        yield present("copy-groups", "LDGDEPBAR", "nobody waits for the tiles")


def row_unit(case: Case) -> int:
    """The bytes, up to 16, at whose multiples all rows of A and B start."""
    return math.gcd(16, *(length * dtype_named(case.dtype).bytes for length in _row_lengths(case)))


def pair_bytes(case: Case) -> int:
    """Of C a thread has pairs that lie side by side: how much of one it can move at once."""
    return math.gcd(2, case.dims["N"]) * dtype_named(case.dtype).bytes


def tiling(case: Case, arch: Arch, schedule: Schedule, pass_configs: Mapping[str, Any]) -> Tiling:
    """A block reads a tile of A and one of B in each step, which each row or column of warps reads again."""
    s, size = schedule, dtype_named(case.dtype).bytes
    steps = max(1, _ceildiv(case.dims["K"], s.block_k))
    wgmma, bulk = _uses_wgmma(s, case, arch), any(_bulk_copied(case, arch, pass_configs)) and s.stages > 0
    launched, together = s.threads + 128 * bulk, 4 if wgmma else 1  # warps of a wgmma read B together
    reads = min(n * s.block_m + m // together * s.block_n for m, n in _warp_grids(s, wgmma))
    return Tiling(
        blocks=_ceildiv(case.dims["M"], s.block_m) * _ceildiv(case.dims["N"], s.block_n),
        threads=launched,
        flops=2 * s.block_m * s.block_n * s.block_k * steps,
        bytes=((s.block_m + s.block_n) * s.block_k * steps + s.block_m * s.block_n) * size,
        steps=steps,
        stages=max(s.stages, 1),
        registers=min(SPECIALIZED_REGISTERS, arch.registers_per_sm // launched)
        if bulk
        else s.block_m * s.block_n // s.threads * 5 // 4 + 40,
        shared=(s.block_m + s.block_n + reads) * s.block_k * steps * size,
    )


@contextmanager
def tf32_allowed() -> Iterator[None]:
    """cuBLAS through torch multiplies fp32 as tf32, as ours does."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def cublas(A: torch.Tensor, B: torch.Tensor, trans_a: bool, trans_b: bool) -> torch.Tensor:
    with tf32_allowed():
        return (A.T if trans_a else A) @ (B.T if trans_b else B)


def counting(A: torch.Tensor, B: torch.Tensor, K: int, rng: torch.Generator) -> dict[str, torch.Tensor]:
    """Integers from 0 on, whose sums are exact in fp32. In 16-bit types they are about 2^13, past 2^11, up to
    which fp16 counts in ones; in fp32 about 2^22 and below 2^24, up to which it does.
    """
    most = 2**24 if A.dtype == torch.float32 else 2**15
    top = max(1, min(255, int((most / max(K, 1)) ** 0.5)))

    def draw(like: torch.Tensor) -> torch.Tensor:
        return torch.randint(0, top + 1, like.shape, generator=rng).to(like.dtype)

    return {"A": draw(A), "B": draw(B)}


def overflowing(A: torch.Tensor, K: int) -> dict[str, torch.Tensor]:
    """A so large that the standard deviation of C is half of fp16's largest number: some of C is infinite."""
    return {"A": A * (32752 / max(K, 1) ** 0.5)}


def powers_of_two(B: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
    """B of powers of two: products have the bits of A, and one is lost where A loses one."""
    signs = torch.randint(0, 2, B.shape, generator=rng) * 2 - 1
    return {"B": signs * 2.0 ** torch.randint(-2, 3, B.shape, generator=rng)}


def eleven_bits(A: torch.Tensor, B: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
    """Odd numbers of 11 bits, all that tf32 keeps, over 2^10: products have 22, which sums have to hold."""

    def draw(like: torch.Tensor) -> torch.Tensor:
        odd = torch.randint(2**9, 2**10, like.shape, generator=rng) * 2 + 1
        return ((torch.randint(0, 2, like.shape, generator=rng) * 2 - 1) * odd * 2.0**-10).to(like.dtype)

    return {"A": draw(A), "B": draw(B)}


def wide_range(A: torch.Tensor, B: torch.Tensor) -> dict[str, torch.Tensor]:
    """A past fp16's largest number, B below its smallest: neither may go through fp16."""
    return {"A": A * 2.0**20, "B": B * 2.0**-30}


def special_values(A: torch.Tensor, B: torch.Tensor) -> dict[str, torch.Tensor]:
    """NaN and infinity in two rows of A, infinity in a column of B: each spoils its row or column of C."""
    A, B = A.clone(), B.clone()
    A[A.shape[0] // 2, A.shape[1] // 3] = math.nan
    A[A.shape[0] // 3, A.shape[1] // 2] = math.inf
    B[B.shape[0] // 4, B.shape[1] // 2] = -math.inf
    return {"A": A, "B": B}


FP16, BF16, FP32 = ("float16",), ("bfloat16",), ("float32",)
HALF, ALL = FP16 + BF16, FP16 + BF16 + FP32


def _rows(
    id: str, dtypes: tuple[str, ...], layout: str, M: int, N: int, K: int, why: str, draw: str = "normal"
) -> tuple[Case, ...]:
    """`layout` as in BLAS: n or t for A, then for B."""
    flags = {"trans_a": layout[0] == "t", "trans_b": layout[1] == "t"}
    return Case.per_dtype(dtypes, id, {"M": M, "N": N, "K": K}, why, flags, draw)


# Where the grid is small, tiles are 64 x 64 x 64 (32 deep in fp32), and 16 x 64 x 128 for M up to 16.
CASES = (
    *_rows("one-tile", ALL, "nn", 64, 64, 64, "one tile; a pipeline of one trip in 16-bit types"),
    *_rows("m-short", FP16, "nn", 63, 64, 64, "M one below a tile"),
    *_rows("m-over", FP16, "nn", 65, 64, 64, "M one above a tile: a block of one row"),
    *_rows("n-short", FP16, "nn", 64, 63, 64, "N one below a tile; B unaligned, A not"),
    *_rows("n-over", FP16, "nn", 64, 65, 64, "N one above a tile: a block of one column"),
    *_rows("k-short", FP16, "nn", 64, 64, 63, "K one below a tile; A unaligned, B not"),
    *_rows("k-over", FP16, "nn", 64, 64, 65, "K one above a tile: a trip for one k"),
    *_rows("all-over", ALL, "nn", 65, 65, 65, "tails of one in M, N and K at once"),
    *_rows("all-short", BF16, "nn", 63, 63, 63, "every tile one short"),
    *_rows("aligned-tails", ALL, "nn", 72, 88, 104, "tails in M, N and K, past the edge of bulk copies"),
    *_rows("primes", ALL, "nn", 61, 67, 71, "primes"),
    *_rows("primes-above-100", FP16, "nn", 101, 103, 107, "primes, two tiles a side"),
    *_rows("single-element", ALL, "nn", 1, 1, 1, "M = N = K = 1"),
    *_rows("k-one", FP16, "nn", 64, 64, 1, "K = 1: an outer product"),
    *_rows("n-one", FP16, "nn", 64, 1, 64, "N = 1: a matrix times a vector"),
    *_rows("vector", HALF, "nn", 1, 136, 264, "M = 1: a vector times a matrix, as in decoding"),
    *_rows("vector-unaligned", FP32, "nn", 1, 130, 133, "M = 1, nothing aligned"),
    *_rows("skinny-short", FP16, "nn", 15, 72, 128, "M one below the skinny tile"),
    *_rows("skinny", FP16, "nn", 16, 64, 128, "the skinny tile, one trip"),
    *_rows("skinny-over", FP16, "nn", 17, 64, 128, "M one above the skinny tile: another tile is chosen"),
    *_rows("stride-2", FP16, "nn", 64, 67, 67, "rows start at multiples of 2 bytes"),
    *_rows("stride-4", FP16, "nn", 64, 66, 66, "rows start at multiples of 4 bytes"),
    *_rows("stride-8", FP16, "nn", 64, 68, 68, "rows start at multiples of 8 bytes"),
    *_rows("trips-2", FP16, "nn", 64, 64, 128, "2 trips of 4 stages"),
    *_rows("trips-3", FP16, "nn", 64, 64, 192, "one trip less than stages"),
    *_rows("trips-4", FP16, "nn", 64, 64, 256, "as many trips as stages"),
    *_rows("trips-5", FP16, "nn", 64, 64, 320, "one trip more than stages: a stage is used again"),
    *_rows("trips-9", FP16, "nn", 64, 64, 520, "barriers change phase twice; a tail in K"),
    *_rows("trips-66", FP16, "nn", 64, 64, 4224, "many trips"),
    *_rows("nt-tails", ALL, "nt", 65, 66, 67, "B transposed; tails in M, N and K, nothing aligned"),
    *_rows("tn-tails", ALL, "tn", 65, 66, 67, "A transposed; tails in M, N and K, nothing aligned"),
    *_rows("tt-tails", ALL, "tt", 65, 66, 67, "both transposed; tails in M, N and K, nothing aligned"),
    *_rows("nt-aligned", ALL, "nt", 72, 80, 88, "B transposed; tails in M, N and K in bulk copies"),
    *_rows("tn-aligned", ALL, "tn", 72, 80, 88, "A transposed; tails in M, N and K in bulk copies"),
    *_rows("tt-aligned", ALL, "tt", 72, 80, 88, "both transposed; tails in M, N and K in bulk copies"),
    *_rows("nt-vector", BF16, "nt", 1, 72, 136, "M = 1, weights as torch stores them"),
    *_rows("tt-half-aligned", BF16, "tt", 72, 64, 65, "both transposed; A aligned, B not"),
    *_rows("last-panel", FP16, "nn", 705, 65, 16, "12 rows of blocks: the second panel of 10 is not full"),
    *_rows("k-zero", FP16, "nn", 65, 66, 0, "K = 0: an empty sum, all zeros"),
    *_rows("counting", ALL, "nn", 64, 64, 1500, "exact in fp32, while an fp16 sum loses count", "counting"),
    *_rows("counting-tails", FP16, "tn", 33, 65, 131, "exact, with tails and A transposed", "counting"),
    *_rows("one-hot", ALL, "nn", 65, 72, 130, "C repeats elements of B: a lost k shows", "one-hot"),
    *_rows("one-hot-tt", FP16, "tt", 65, 66, 67, "a lost k shows, both transposed", "one-hot"),
    *_rows("cancelling", ALL, "nn", 64, 64, 256, "sums near zero of large products", "cancelling"),
    *_rows("overflow", FP16, "nn", 64, 64, 64, "past 65504 results are infinite", "overflowing"),
    *_rows("powers-of-two", FP32, "nn", 64, 64, 1, "A keeps all bits of tf32", "powers-of-two"),
    *_rows("eleven-bits", FP32, "nn", 64, 72, 8, "no operand loses a bit, and no sum may", "eleven-bits"),
    *_rows("eleven-bits-trips", FP32, "nt", 65, 66, 68, "nor over three trips", "eleven-bits"),
    *_rows("wide-range", BF16 + FP32, "nn", 64, 64, 64, "values that fp16 cannot hold", "wide-range"),
    *_rows("special", ALL, "nn", 65, 72, 70, "NaN and infinity spread along a row or column", "special"),
    # Under every schedule of the grid.
    *_rows("grid-tails", FP16, "nn", 200, 328, 200, "3 to 7 trips; tails, as bulk copies cut them"),
    *_rows("grid-whole", BF16, "nt", 384, 384, 80, "1 to 3 trips; more blocks than multiprocessors"),
    *_rows("grid-trips", FP32, "tn", 192, 384, 216, "3 to 9 trips; block_k that only tf32 can have"),
    # Model shapes.
    *_rows("llama8b-up", HALF, "nn", 4096, 14336, 4096, "Llama-3-8B, up projection, prefill"),
    *_rows("llama8b-up-nt", BF16, "nt", 4096, 14336, 4096, "the same, weights as torch stores them"),
    *_rows("llama8b-down", BF16, "nn", 4096, 4096, 14336, "Llama-3-8B, down projection, prefill"),
    *_rows("llama8b-out-16", BF16, "nn", 16, 4096, 4096, "Llama-3-8B, output projection, 16 sequences"),
    *_rows("llama8b-out-1", BF16, "nn", 1, 4096, 4096, "Llama-3-8B, output projection, 1 sequence"),
    *_rows("dsv3-latents", BF16, "nn", 128, 2112, 7168, "DeepSeek-V3, latent projections, 128 tokens"),
    *_rows("dsv3-expert-down", BF16, "nn", 128, 7168, 2048, "DeepSeek-V3, down projection of an expert"),
    *_rows("dsv3-out", HALF, "nn", 4096, 7168, 16384, "DeepSeek-V3, output projection: the deepest K"),
    *_rows("dsv3-queries", BF16, "nn", 4096, 24576, 1536, "DeepSeek-V3, queries from latents: wide, shallow"),
    *_rows("square-4096", ALL, "nn", 4096, 4096, 4096, "bound by tensor cores"),
    *_rows("square-8192", HALF, "nn", 8192, 8192, 8192, "bound by tensor cores, many waves of blocks"),
    *_rows("odd-4095", FP16, "nn", 4095, 4095, 4095, "large, and nothing aligned: no bulk copy anywhere"),
    *_rows("square-512", FP16, "nn", 512, 512, 512, "shorter than a launch: 64 blocks, 8 trips"),
    *_rows("square-1024", BF16, "nn", 1024, 1024, 1024, "one wave of blocks"),
    *_rows("square-2048", HALF, "nn", 2048, 2048, 2048, "fewer blocks than two waves"),
)

LATENCY_CASES = (
    *("llama8b-up-fp16", "llama8b-up-bf16", "llama8b-up-nt-bf16", "llama8b-down-bf16"),
    *("llama8b-out-16-bf16", "llama8b-out-1-bf16"),
    *("dsv3-latents-bf16", "dsv3-expert-down-bf16", "dsv3-out-fp16", "dsv3-out-bf16", "dsv3-queries-bf16"),
    *("square-512-fp16", "square-1024-bf16", "square-2048-fp16", "square-2048-bf16"),
    *("square-4096-fp16", "square-4096-bf16", "square-4096-fp32", "square-8192-fp16", "square-8192-bf16"),
    "odd-4095-fp16",
)

GRID = {
    "block_m": (16, 48, 64, 128, 256),
    "block_n": (8, 24, 64, 104, 128, 192),
    "block_k": (24, 32, 40, 48, 56, 64, 80),
    "stages": (0, 1, 2, 3, 4),
    "threads": (64, 96, 128, 256, 384, 512),
    "swizzle": (0, 3),
    "pass_configs": (
        {},
        {"tl.enable_fast_math": True},
        {"tl.disable_warp_specialized": True, "tl.disable_tma_lower": True},  # no bulk copies
    ),
}

TUNING = {
    "block_m": (16, 32, 64, 128, 192, 256),
    "block_n": (32, 64, 96, 128, 192, 256),
    "block_k": (32, 64, 128, 256),
    "stages": (1, 2, 3, 4, 5, 6),
    "threads": (128, 256, 384),
    "swizzle": (0, 4, 10, 16),
}

SPEC = KernelSpec(
    name="matmul",
    program=program,
    reference=reference,
    outputs=("C",),
    cases=CASES,
    default_schedule=default_schedule,
    legal=legal,
    cost=cost,
    draws={
        "counting": counting,
        "overflowing": overflowing,
        "powers-of-two": powers_of_two,
        "eleven-bits": eleven_bits,
        "wide-range": wide_range,
        "special": special_values,
    },
    vendor={"cublas": cublas},
    grid=GRID,
    grid_cases=("grid-tails-fp16", "grid-whole-bf16", "grid-trips-fp32"),
    latency_cases=LATENCY_CASES,
    landmarks=landmarks,
    shared_memory=shared_memory,
    code_cases=("llama8b-up-bf16", "nt-tails-fp16", "square-4096-fp32", "llama8b-out-16-bf16"),
    tuning=TUNING,
    tuning_cases=(
        "square-4096-bf16",
        "square-8192-bf16",
        "llama8b-up-bf16",
        "llama8b-down-bf16",
        "llama8b-out-16-bf16",
        "dsv3-out-bf16",
        "dsv3-latents-bf16",
        "dsv3-expert-down-bf16",
    ),
    tiling=tiling,
)
