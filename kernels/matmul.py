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

Forms. `program` has a block for each tile; `split` a cluster of blocks, which share K out. `persistent` has
as many blocks as the GPU holds, which take tile after tile: while one is stored, the next is loaded and
multiplied. `persistent_tf32` is that for fp32.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from tilecheck.arches import KIB, Arch
from tilecheck.dtypes import dtype as dtype_named
from tilecheck.fields import short_repr
from tilecheck.landmarks import Landmark, global_accesses, has_block_tensor_cores, present, tensor_cores
from tilecheck.spec import Case, Cost, KernelSpec, Reference, Term
from tilecheck.tiling import COPYING_REGISTERS, SPECIALIZED_REGISTERS, Tiling, even_blocks

MULTIPROCESSORS = 132
"""Of an H100 SXM and an H200: blocks that stay. On a GPU with fewer, some would wait until others end."""

SPLIT_PADDING = 8
"""Columns of fp32 behind a tile of sums, by which rows of a fragment lie in different banks."""


@dataclass(frozen=True)
class Schedule:
    """How the product is cut up.

    block_m, block_n, block_k: the tile, in elements.  stages: tiles in flight, 0 for no pipeline.
    threads: that multiply; bulk copies add theirs.  swizzle: rows of blocks in a panel, 0 for plain order.
    blocks: at most, that stay and take tile after tile; 0 for a block for each tile.  staged: a tile of C
    goes through shared memory, from where a bulk copy stores it.  splits: of K, each a block of a cluster.
    """

    block_m: int
    block_n: int
    block_k: int
    stages: int
    threads: int
    swizzle: int = 10
    blocks: int = 0
    staged: bool = False
    splits: int = 1

    def __repr__(self) -> str:
        return short_repr(self, "blocks", "staged", "splits")


def default_schedule(case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> Schedule:
    """The first of a short list, from large tiles to small ones, that is legal and of which `case` has enough
    for most multiprocessors (108 on A100, 132 on H100) to get a block.
    """
    M, N = case.dims["M"], case.dims["N"]
    return next(
        s
        for s, least in _listed(case, arch, any(_bulk_copied(case, arch, pass_configs)))
        if _ceildiv(M, s.block_m) * _ceildiv(N, s.block_n) >= least
        and (least == 0 or _is_legal(s, case, arch, pass_configs))
    )


def _listed(case: Case, arch: Arch, bulk: bool) -> Iterator[tuple[Schedule, int]]:
    """Schedules, each with the number of tiles from which on it is taken; gains are those on H200."""
    wide = dtype_named(case.dtype).bytes == 4
    hopper = _has_wgmma(arch) and not wide
    if case.dims["M"] <= 16:  # one row of tensor core instructions; a taller tile would multiply padding
        if hopper and bulk:  # as many loads under way as there is room for: 12.4 -> 9.9 us on H200
            yield Schedule(16, 64, 256, 4, 128, 0), 64
        yield Schedule(16, 64, 64 if wide else 128, 4, 128), 0
        return
    if wide:
        yield Schedule(256, 128, 32, 4, 256, 8, MULTIPROCESSORS), 96
    else:
        yield Schedule(128, 256, 64, 4, 256, 16, MULTIPROCESSORS), 96
    stages = 4 if bulk or not hopper else 1
    if hopper:
        if bulk:
            yield Schedule(128, 256, 64, stages, 256), 96
            yield Schedule(128, 128, 64, stages, 256), 96
            yield Schedule(128, 64, 128, 4, 256, 0, staged=True), 96  # fewer columns for more blocks
            if case.dims["K"] >= 4096:  # long enough to pay for adding up the sums of two
                yield Schedule(64, 64, 128, 4, 128, 0, splits=2), 48
            yield Schedule(64, 64, 128, 4, 128, 0, staged=True), 48
        else:
            yield Schedule(128, 128, 64, stages, 128), 96
    else:
        # On Blackwell 128 threads would spill: loading warps leave them 240 registers, 128 of them hold sums.
        threads = 256 if wide and arch.capability >= (10, 0) else 128
        yield Schedule(128, 128, 32, 3, threads), 96
    yield Schedule(64, 64, 32 if wide else 64, stages, 128), 0


def legal(schedule: Schedule, case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> None:
    """ValueError if TileLang 0.1.15 cannot compile `schedule` for `case` on `arch`, or may do so wrongly."""
    s = schedule

    def require(holds: bool, rule: str) -> None:
        if not holds:
            raise ValueError(f"{rule}: {s}, case {case} on {arch.name}")

    require(s.threads > 0 and s.threads % 32 == 0, "threads must be a positive multiple of 32")
    require(min(s.stages, s.swizzle, s.blocks) >= 0, "stages, swizzle and blocks must not be negative")
    # The box of a bulk copy is at most 256 elements a side; an instruction is 16 x 8, over 256 bits of K.
    require(s.block_m in range(16, 257, 16), "block_m must be a multiple of 16 up to 256")
    require(s.block_n in range(8, 257, 8), "block_n must be a multiple of 8 up to 256")
    depth = 32 // dtype_named(case.dtype).bytes  # the remainder was dropped in silence: tilelang #2381
    require(s.block_k > 0 and s.block_k % depth == 0, f"block_k must be a positive multiple of {depth}")

    wgmma = _uses_wgmma(s, case, arch)
    grids = _warp_grids(s, case, wgmma)
    require(len(grids) > 0, "the warps must share the tile out evenly, in whole 16 rows and 8 columns")
    accumulators = s.block_m * s.block_n // s.threads
    require(accumulators < arch.registers_per_thread, f"{accumulators} accumulators a thread are too many")
    # wgmma over 24, 40, 56 ... columns is wrong (tilelang #2593), and over 8 it does not compile unless B is
    # transposed. Which grid of warps it will be is TileLang's choice.
    columns = sorted({_sums(s, case)[1] // n for _, n in grids})
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
    if s.blocks:
        require(wgmma and all(bulk), "blocks that stay take wgmma, and bulk copies of A and B")
        require(s.stages > 0, "blocks that stay take a pipeline")
        require(min(case.dims.values()) > 0, "blocks that stay begin each sum with a product")
        registers = s.threads * SPECIALIZED_REGISTERS + copying * COPYING_REGISTERS
        require(registers <= arch.registers_per_sm, f"{registers} registers exceed {arch.registers_per_sm}")
        _require_layout(s, case, require)
    if s.staged:
        require(not s.blocks, "staged=True is for a block for each tile; blocks that stay always stage C")
        require(wgmma and all(bulk), "C is staged after wgmma, and bulk copies of A and B")
        require(s.block_n <= s.stages * s.block_k, "a staged tile of C has to fit where tiles of A were")
        _require_bulk_store(case, require)
    require(s.splits in range(1, 9), "a cluster of splits has 1 to 8 blocks")
    if s.splits > 1:
        _require_cluster(s, case, wgmma and all(bulk), require)
    # Barriers are static shared memory, and the dynamic one starts at a multiple of 1 KiB after them.
    shared = shared_memory(s, case, arch, pass_configs) + (KIB if copying else 0)
    limit = arch.shared_per_block
    require(shared <= limit, f"{shared} bytes of shared memory exceed {limit}")
    rows = _ceildiv(case.dims["M"], s.block_m)
    require(s.blocks > 0 or rows <= 65535, "a grid has at most 65535 rows of blocks")


def _is_legal(schedule: Schedule, case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> bool:
    try:
        legal(schedule, case, arch, pass_configs)
    except ValueError:
        return False
    return True


def _require_layout(s: Schedule, case: Case, require: Callable[[bool, str], None]) -> None:
    """Where the tiles of a block that stays lie as bulk copies and wgmma want them."""
    if _turned(s, case):
        # wgmma takes tf32 out of shared memory only along K: A does lie so, B goes through registers.
        require(not any(_transposed(case)), "blocks that stay take tf32 only of A and B as they are")
        require(s.block_k % 32 == 0, "block_k must be whole 128 bytes of tf32")
    else:
        require(s.block_n % 128 == 0, "each half of block_n must be whole 128 bytes")
        _require_bulk_store(case, require)


def _require_cluster(s: Schedule, case: Case, fast: bool, require: Callable[[bool, str], None]) -> None:
    """What blocks that share K out need, beside the `fast` tiles of wgmma and bulk copies."""
    require(fast and s.stages > 0, "splits of K take wgmma, bulk copies of A and B, and a pipeline")
    require(not (s.blocks or s.staged or s.swizzle), "splits of K take no blocks, staged or swizzle")
    columns = _ceildiv(case.dims["N"], s.block_n)
    require(columns <= 65535, "a grid of clusters has at most 65535 columns of blocks")
    require(s.block_m % s.splits == 0, "splits must share the rows of a tile out evenly")
    # Sums take the place of tiles of A, which are the larger ones.
    size, width = dtype_named(case.dtype).bytes, s.block_n + SPLIT_PADDING
    sums, tiles = (2 * s.block_m - s.block_m // s.splits) * width * 4, s.stages * s.block_m * s.block_k * size
    require(
        sums <= tiles and s.block_n <= s.block_m, f"{sums} bytes of sums do not fit in {tiles} of tiles of A"
    )


def _require_bulk_store(case: Case, require: Callable[[bool, str], None]) -> None:
    size = dtype_named(case.dtype).bytes
    require(case.dims["N"] * size % 16 == 0, "a bulk copy stores C in rows of whole 16 bytes")


def shared_memory(schedule: Schedule, case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> int:
    """Bytes of dynamic shared memory of a block: a tile of A and one of B for each stage, and half a tile of
    C where blocks stay and store it by bulk copy; else it takes the place of tiles that are used up.

    The largest lies first; where the others may start depends on what reads and writes them.
    """
    s, size = schedule, dtype_named(case.dtype).bytes
    trans_a, trans_b = _transposed(case)
    bulk_a, bulk_b = (bulk and s.stages > 0 for bulk in _bulk_copied(case, arch, pass_configs))
    wgmma = _uses_wgmma(s, case, arch)

    def tile(across: int, along_k: bool, bulk: bool) -> tuple[int, int]:
        row = (s.block_k if along_k else across) * size
        return max(s.stages, 1) * across * s.block_k * size, _alignment(row, bulk, wgmma)

    tiles = [tile(s.block_m, not trans_a, bulk_a), tile(s.block_n, trans_b, bulk_b)]
    if s.blocks and stores_in_bulk(case, s):
        tiles.append((s.block_m * s.block_n // 2 * size, KIB))
    end = 0
    for taken, aligned in sorted(tiles, key=lambda tile: tile[0], reverse=True):
        end = _ceildiv(end, aligned) * aligned + taken
    return end


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
    taken = dtype_named(case.dtype).bytes == 2 or _turned(s, case)
    return _has_wgmma(arch) and taken and s.block_m >= 64 and s.threads % 128 == 0


def _turned(s: Schedule, case: Case) -> bool:
    """Whether it is `persistent_tf32`, which computes the transpose of C."""
    return s.blocks > 0 and dtype_named(case.dtype).bytes == 4


def _sums(s: Schedule, case: Case) -> tuple[int, int]:
    """Rows and columns of the tile of sums, as tensor cores have it."""
    return (s.block_n, s.block_m) if _turned(s, case) else (s.block_m, s.block_n)


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


def _warp_grids(s: Schedule, case: Case, wgmma: bool) -> list[tuple[int, int]]:
    """How the warps can lie over the tile of sums, (along its rows, along its columns); wgmma takes four at a
    time along rows, and blocks that stay have all there.
    """
    warps, group = s.threads // 32, 4 if wgmma else 1
    rows, columns = _sums(s, case)
    return [
        (m, warps // m)
        for m in range(warps if s.blocks else group, warps + 1, group)
        if warps % m == 0 and rows % (16 * m) == 0 and columns % (8 * (warps // m)) == 0
    ]


def program(
    M, N, K, trans_a, trans_b, dtype, block_m, block_n, block_k, stages, threads, schedule, case, arch
):
    s, sizes = schedule, (block_m, block_n, block_k, stages, threads)
    if s.blocks:
        walk = TileWalk(M, N, block_m, block_n, s.swizzle, s.blocks)
        if dtype == "float32":
            return persistent_tf32(M, N, K, dtype, *sizes, walk)
        return persistent(M, N, K, trans_a, trans_b, dtype, *sizes, walk)
    policy = warp_policy(s, case, arch)
    if s.splits > 1:
        return split(M, N, K, trans_a, trans_b, dtype, *sizes, policy, s.splits)
    import tilelang.language as T

    a_shape, a_tile = stored(trans_a, (M, K), (block_m, block_k))
    b_shape, b_tile = stored(trans_b, (K, N), (block_k, block_n))

    @T.prim_func
    def matmul(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), dtype)):
        # A block of threads for each tile of C.
        with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(a_tile, dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            C_local = T.alloc_fragment((block_m, block_n), "float32")
            T.use_swizzle(s.swizzle, enable=s.swizzle > 0)
            if not hands_registers_over(s, arch):
                T.no_set_max_nreg()
            if arch.capability >= (9, 0):
                launch_early()
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_k), num_stages=stages):
                # Global to shared memory, while the tensor cores work on earlier tiles.
                T.copy(A[k * block_k, by * block_m] if trans_a else A[by * block_m, k * block_k], A_shared)
                T.copy(B[bx * block_n, k * block_k] if trans_b else B[k * block_k, bx * block_n], B_shared)
                # Shared memory to tensor cores, sum in registers.
                T.gemm(A_shared, B_shared, C_local, trans_a, trans_b, policy)
            # Round once and store.
            if s.staged:
                C_shared = T.alloc_shared((block_m, block_n), dtype)
                T.copy(C_local, C_shared)
                T.copy(C_shared, C[by * block_m, bx * block_n])
            else:
                T.copy(C_local, C[by * block_m, bx * block_n])

    return matmul


def stored(transposed, *shapes):
    """Shapes as they lie in memory."""
    return tuple(shape[::-1] if transposed else shape for shape in shapes)


def launch_early():
    """Lets the launch after this one begin, and waits until the one before has ended: what blocks do before
    they read takes no time of its own. From Hopper on.
    """
    import tilelang.language as T

    T.evaluate(T.pdl_trigger())
    T.evaluate(T.pdl_sync())


def warp_policy(s, case, arch):
    """How warps share a tile of `program` out: for wgmma along rows as long as these last, so that each one
    multiplies the widest tile; else near a square.
    """
    import tilelang.language as T

    whole_rows = _uses_wgmma(s, case, arch) and s.block_m % (s.threads // 2) == 0
    return T.GemmWarpPolicy.FullRow if whole_rows else T.GemmWarpPolicy.Square


def hands_registers_over(s: Schedule, arch: Arch) -> bool:
    """Whether threads of `program` that only copy give registers to those that multiply. A block then takes
    all that the multiprocessor has; with up to 64 sums a thread, Hopper has room for a block beside it.
    """
    return not _has_wgmma(arch) or s.block_m * s.block_n // s.threads > 64


def split(M, N, K, trans_a, trans_b, dtype, block_m, block_n, block_k, stages, threads, policy, splits):
    """`program` by clusters, for few tiles and a deep K: each block of a cluster sums a share of K, and
    finishes some rows of the tile.

    Measured on an H200, 128 x 2112 x 7168 in bf16: 13.4 us, `program` 27.9 us, cuBLAS 14.9 us.
    """
    import tilelang.language as T

    a_shape, a_tile = stored(trans_a, (M, K), (block_m, block_k))
    b_shape, b_tile = stored(trans_b, (K, N), (block_k, block_n))
    steps, rows = _ceildiv(_ceildiv(K, block_k), splits), block_m // splits
    add_up = adding_shares(block_m, block_n, splits)

    @T.prim_func
    def matmul(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), dtype)):
        grid = (splits, T.ceildiv(N, block_n), T.ceildiv(M, block_m))
        with T.Kernel(*grid, threads=threads, cluster_dims=(splits, 1, 1)) as (share, bx, by):
            A_shared = T.alloc_shared(a_tile, dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            C_local = T.alloc_fragment((block_m, block_n), "float32")
            total = T.alloc_fragment((rows * block_n,), "float32")
            T.no_set_max_nreg()
            launch_early()
            T.clear(C_local)
            for k in T.Pipelined(steps, num_stages=stages):
                at = (share * steps + k) * block_k
                T.copy(A[at, by * block_m] if trans_a else A[by * block_m, at], A_shared)
                T.copy(B[bx * block_n, at] if trans_b else B[at, bx * block_n], B_shared)
                T.gemm(A_shared, B_shared, C_local, trans_a, trans_b, policy)
            add_up(C_local, share, total)
            m = by * block_m + share * rows
            for i in T.Parallel(rows * block_n):
                C[m + i // block_n, bx * block_n + i % block_n] = total[i]
            T.cluster_wait()

    return matmul


def adding_shares(block_m, block_n, splits):
    """A macro that adds up the sums `C_local` of a cluster's blocks: each gets the `total` of some rows, one
    after the other. Before a block ends it has to wait for the cluster: its sums may be on their way.
    """
    import tilelang.language as T

    rows, width = block_m // splits, block_n + SPLIT_PADDING

    @T.macro
    def add_up(C_local, share, total):
        own = T.alloc_shared((block_m, width), "float32")
        others = T.alloc_shared((block_m - rows, width), "float32")
        arrived = T.alloc_cluster_barrier([splits - 1])
        # Sums take the place of tiles: those of others may come once all blocks are through with theirs.
        T.cluster_arrive()
        T.copy(C_local, own[:, 0:block_n])
        T.fence_proxy_async()
        T.cluster_wait()
        # By bulk copy, from shared memory to shared memory, each block to the next ones first.
        for step in T.unroll(1, splits):
            peer = (share + step) % splits
            T.copy_cluster(
                own[peer * rows : (peer + 1) * rows, :],
                others[(step - 1) * rows : step * rows, :],
                dst_block=peer,
                remote_barrier=arrived[0],
            )
        T.mbarrier_wait_parity(arrived[0], 0)
        T.cluster_arrive()
        # Always in one order.
        for i in T.Parallel(rows * block_n):
            total[i] = own[share * rows + i // block_n, i % block_n]
        for step in T.unroll(splits - 1):
            for i in T.Parallel(rows * block_n):
                total[i] += others[step * rows + i // block_n, i % block_n]

    return add_up


def persistent(M, N, K, trans_a, trans_b, dtype, block_m, block_n, block_k, stages, threads, walk):
    """`program` by blocks that stay. Between two blocks of a multiprocessor, tensor cores wait for the stores
    of one and the first loads of the other. Here the warp that loads runs ahead into the next tile, and
    another one stores C by bulk copy, in two halves out of shared memory.

    Measured on an H200, 4096 x 4096 x 4096 in bf16: 170 us, `program` 196 us, cuBLAS 173 us.
    """
    import tilelang.language as T

    a_shape, a_tile = stored(trans_a, (M, K), (block_m, block_k))
    b_shape, b_tile = stored(trans_b, (K, N), (block_k, block_n))
    half, whole_rows = block_n // 2, T.GemmWarpPolicy.FullRow

    @T.prim_func
    def matmul(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(walk.blocks, threads=threads) as block:
            A_shared = T.alloc_shared(a_tile, dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            C_shared = T.alloc_shared((block_m, half), dtype)
            C_local = T.alloc_fragment((block_m, block_n), "float32")
            T.annotate_ws_schedule(warp_roles(threads, stages, (A_shared, B_shared), (C_shared,)))
            with T.ws_op("launch"):
                launch_early()
            for turn in T.serial(walk.turns(block), annotations={T.WSID: "tiles"}):
                m, n = walk.corner(block, turn)
                for k in T.serial(T.ceildiv(K, block_k), annotations={T.WSID: "steps"}):
                    # Global to shared memory, up to `stages` steps ahead, over the end of the tile.
                    with T.ws_op("load A"):
                        T.copy(A[k * block_k, m] if trans_a else A[m, k * block_k], A_shared)
                    with T.ws_op("load B"):
                        T.copy(B[n, k * block_k] if trans_b else B[k * block_k, n], B_shared)
                    # Shared memory to tensor cores; each warp has whole rows of the sum.
                    with T.ws_op("multiply"):
                        T.gemm(A_shared, B_shared, C_local, trans_a, trans_b, whole_rows, clear_accum=k == 0)
                for part in T.unroll(2, annotations={T.WSID: "parts"}):
                    # Round once to shared memory, and store, while the next tile is multiplied.
                    with T.ws_op("round"):
                        T.copy(C_local[0, part * half], C_shared)
                    with T.ws_op("store"):
                        T.copy(C_shared, C[m, n + part * half])

    return matmul


def persistent_tf32(M, N, K, dtype, block_m, block_n, block_k, stages, threads, walk):
    """`persistent` for fp32, as C^T = B^T @ A^T. wgmma takes tf32 out of shared memory only along K, as A
    lies; its left operand may come from registers, in which B is turned. `program` has to multiply through
    mma.sync, at half the rate. C^T is stored from registers: there is no room for it in shared memory; one
    warpgroup multiplies while the other does that.

    Measured on an H200, 4096 x 4096 x 4096: 342 us, `program` 631 us, cuBLAS 339 us.
    """
    import tilelang.language as T
    from tilelang.layout import make_full_bank_swizzled_layout

    whole_rows = T.GemmWarpPolicy.FullRow
    step, tile = ("turn B", "multiply", "lead"), ("follow", "steps", "store")
    follow, lead = one_ahead(threads)

    @T.prim_func
    def matmul(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(walk.blocks, threads=threads) as block:
            A_tf32, B_tf32 = T.view(A, dtype=T.tfloat32), T.view(B, dtype=T.tfloat32)
            A_shared = T.alloc_shared((block_m, block_k), T.tfloat32)
            B_shared = T.alloc_shared((block_k, block_n), T.tfloat32)
            B_local = T.alloc_fragment((block_n, block_k), T.tfloat32)
            C_local = T.alloc_fragment((block_n, block_m), "float32")
            T.annotate_layout({B_shared: make_full_bank_swizzled_layout(B_shared)})
            T.annotate_ws_schedule(warp_roles(threads, stages, (A_shared, B_shared), (), step, tile))
            with T.ws_op("launch"):
                launch_early()
            for turn in T.serial(walk.turns(block), annotations={T.WSID: "tiles"}):
                m, n = walk.corner(block, turn)
                with T.ws_op("follow"):
                    follow(turn)
                for k in T.serial(T.ceildiv(K, block_k), annotations={T.WSID: "steps"}):
                    with T.ws_op("load A"):
                        T.copy(A_tf32[m, k * block_k], A_shared)
                    with T.ws_op("load B"):
                        T.copy(B_tf32[k * block_k, n], B_shared)
                    with T.ws_op("turn B"):
                        for i, j in T.Parallel(block_n, block_k):
                            B_local[i, j] = B_shared[j, i]
                    with T.ws_op("multiply"):
                        T.gemm(B_local, A_shared, C_local, False, True, whole_rows, clear_accum=k == 0)
                    with T.ws_op("lead"):
                        lead(turn, k)
                with T.ws_op("store"):
                    for i, j in T.Parallel(block_m, block_n):
                        C[m + i, n + j] = C_local[j, i]

    return matmul


class TileWalk:
    """Which tiles a block that stays takes.

    Tiles are numbered column by column through panels of `swizzle` rows, 0 for row by row. On each turn the
    blocks, at most `blocks`, take as many tiles in a row: they share tiles of A and B in L2, as the swizzle
    of `program` does.
    """

    def __init__(self, M: int, N: int, block_m: int, block_n: int, swizzle: int, blocks: int) -> None:
        self._block_m, self._block_n, self._height = block_m, block_n, swizzle or 1
        self._rows, self._columns = _ceildiv(M, block_m), _ceildiv(N, block_n)
        self.blocks = even_blocks(self._rows * self._columns, blocks)

    def turns(self, block):
        """How many tiles the block takes."""
        return (self._rows * self._columns - block + self.blocks - 1) // self.blocks

    def corner(self, block, turn):
        """The first row and the first column of the tile that it takes on its `turn`."""
        import tilelang.language as T

        number = turn * self.blocks + block
        panel, within = number // (self._height * self._columns), number % (self._height * self._columns)
        height, above = self._height, panel * self._height
        if self._rows % height:
            height = T.min(height, self._rows - above)  # of the last panel
        return (above + within % height) * self._block_m, within // height * self._block_n


def one_ahead(threads):
    """Macros by which the first of the warpgroups that multiply begins a step over K before the others, which
    wait once, on the first turn. The distance stays while nothing makes warpgroups wait for each other, as
    results in shared memory would.
    """
    import tilelang.language as T

    barrier = 8  # TileLang numbers its own from 1

    @T.macro
    def follow(turn):
        if turn == 0 and T.get_warp_group_idx() > 0:
            T.sync_threads(barrier, threads)

    @T.macro
    def lead(turn, k):
        if turn == 0 and k == 0 and T.get_warp_group_idx() == 0:
            T.named_barrier_arrive(barrier, threads)

    return follow, lead


def warp_roles(
    threads,
    stages,
    operands,
    results=(),
    step=("multiply",),
    tile=("steps", "parts"),
    part=(),
    ahead=1,
):
    """Which warps of a block that stays do what, by the names that a program gives its statements.

    One loads the tiles `operands`, up to `stages` steps ahead; `threads` multiply; one stores `results`, of
    which `ahead` wait at most. Who writes a tile waits until it is free, who reads it until it is full: the
    barriers for that are TileLang's.
    step, tile, part: what those that multiply do in a step over K, for a tile of C, and with a part of one
    until it waits to be stored, in this order.
    """
    import tilelang.language as T

    def filled(pipeline, *names):
        return [T.WSSync.producer_acquire(pipeline), *names, T.WSSync.producer_commit(pipeline)]

    def used(pipeline, *names):
        return [T.WSSync.consumer_wait(pipeline), *names, T.WSSync.consumer_release(pipeline)]

    warps = threads // 32
    roles = [
        T.WSRole("multiply", warps_lo=0, warps_hi=warps, max_nreg=SPECIALIZED_REGISTERS),
        T.WSRole("load", warps_lo=warps, warps_hi=warps + 1, max_nreg=COPYING_REGISTERS),
    ]
    pipelines = [T.WSPipeline("operands", operands, depth=stages)]
    scopes = [
        T.WSScope(
            "steps", {"load": filled("operands", "load A", "load B"), "multiply": used("operands", *step)}
        )
    ]
    work = {"load": ["steps"], "multiply": [*tile]}
    if results:
        roles.append(T.WSRole("store", warps_lo=warps + 1, warps_hi=warps + 2, max_nreg=COPYING_REGISTERS))
        pipelines.append(T.WSPipeline("results", results, depth=ahead))
        scopes.append(
            T.WSScope(
                "parts",
                {"multiply": [*part, *filled("results", "round")], "store": used("results", "store")},
            )
        )
        work["store"] = ["parts"]
    scopes += [
        T.WSScope("tiles", work),
        T.WSScope(T.WSScope.ROOT, {role: ["launch", "tiles"] for role in work}),
    ]
    return T.WSSchedule(warps + 4, roles, pipelines, scopes)  # roles share registers by four warps


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
    """A product, of which threads only store the result, if they do."""
    yield from product_landmarks(case, arch, schedule, pass_configs)
    # No thread loads tiles, if rows start where cp.async can read.
    loads = 0 if row_unit(case) >= 4 else row_unit(case)
    yield from global_accesses(loads, 0 if stores_in_bulk(case, schedule) else pair_bytes(case, schedule))


def product_landmarks(
    case: Case, arch: Arch, schedule: Schedule, pass_configs: Mapping[str, Any]
) -> Iterator[Landmark]:
    """How tiles of A and B come to the tensor cores, and to which."""
    tf32, (trans_a, trans_b) = case.dtype == "float32", _transposed(case)
    # wgmma takes tf32 out of shared memory only where A and B lie along K.
    across = tf32 and not schedule.blocks and (trans_a or not trans_b)
    rows = 16 if across and _has_wgmma(arch) else schedule.block_m
    yield tensor_cores(arch, rows)
    if not has_block_tensor_cores(arch, rows) and not (tf32 and trans_a):
        yield present("ldmatrix", "LDSM", "fragments are gathered from shared memory word by word")
    if any(_bulk_copied(case, arch, pass_configs)) and schedule.stages > 0:
        yield present("bulk-copies", "UTMALDG", "threads that should multiply copy tiles")
        yield present("mbarriers", "SYNCS", "nobody waits for the tiles")
    elif row_unit(case) >= 4:
        yield present("async-copies", f"LDGSTS.{8 * row_unit(case)}", "tiles go through registers")
        yield present("copy-groups", "LDGDEPBAR", "nobody waits for the tiles")
    if stores_in_bulk(case, schedule):
        yield present("bulk-stores", "UTMASTG", "threads that should multiply store the result")


def row_unit(case: Case) -> int:
    """The bytes, up to 16, at whose multiples all rows of A and B start."""
    return math.gcd(16, *(length * dtype_named(case.dtype).bytes for length in _row_lengths(case)))


def pair_bytes(case: Case, schedule: Schedule) -> int:
    """Of C a thread has pairs that lie side by side, of its transpose none: how much it can move at once."""
    pair = 1 if _turned(schedule, case) else math.gcd(2, case.dims["N"])
    return pair * dtype_named(case.dtype).bytes


def stores_in_bulk(case: Case, schedule: Schedule) -> bool:
    """Whether C goes through shared memory, from where bulk copies store it."""
    return schedule.staged or (schedule.blocks > 0 and not _turned(schedule, case))


def tiling(case: Case, arch: Arch, schedule: Schedule, pass_configs: Mapping[str, Any]) -> Tiling:
    """A block reads a tile of A and one of B in each step, which each row or column of warps reads again."""
    s, size = schedule, dtype_named(case.dtype).bytes
    tiles = _ceildiv(case.dims["M"], s.block_m) * _ceildiv(case.dims["N"], s.block_n)
    blocks = even_blocks(tiles, s.blocks or tiles) * s.splits
    turns = _ceildiv(tiles * s.splits, max(1, blocks))
    steps = max(1, _ceildiv(_ceildiv(case.dims["K"], s.block_k), s.splits)) * turns
    wgmma, bulk = _uses_wgmma(s, case, arch), any(_bulk_copied(case, arch, pass_configs)) and s.stages > 0
    launched, together = s.threads + 128 * bulk, 4 if wgmma else 1  # warps of a wgmma read B together
    rows, columns = _sums(s, case)
    reads = min(n * rows + m // together * columns for m, n in _warp_grids(s, case, wgmma))
    return Tiling(
        blocks=blocks,
        threads=launched,
        flops=2 * s.block_m * s.block_n * s.block_k * steps,
        bytes=((s.block_m + s.block_n) * s.block_k * steps + s.block_m * s.block_n * turns) * size,
        steps=steps,
        stages=max(s.stages, 1),
        registers=min(SPECIALIZED_REGISTERS, arch.registers_per_sm // launched)
        if bulk and (s.blocks or (s.splits == 1 and hands_registers_over(s, arch)))
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
    *_rows("grid-single", FP32, "nn", 136, 200, 72, "fp32 of which wgmma takes A as it lies; tails"),
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
    "block_k": (24, 32, 40, 48, 64, 80),
    "stages": (0, 1, 2, 3, 4),
    "threads": (64, 96, 128, 256, 384, 512),
    "swizzle": (0, 3),
    "blocks": (0, 5),
    "staged": (False, True),
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
    "blocks": (0, MULTIPROCESSORS),
    "staged": (False, True),
    "splits": (1, 2, 4),
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
    grid_cases=("grid-tails-fp16", "grid-whole-bf16", "grid-trips-fp32", "grid-single-fp32"),
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
