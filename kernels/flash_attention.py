"""Exact attention in one pass over the keys: FlashAttention, forward.

    Out[b, h] = softmax(Q[b, h] @ K[b, g].T / sqrt(head_dim)) @ V[b, g],   g = h // (heads // kv_heads)

Contract
    Q, Out: (batch, heads, q_len, head_dim); K, V: (batch, kv_heads, k_len, head_dim); fp16 or bf16, sums in
    fp32. k_len is at least 1; head_dim is a multiple of 16 up to 256; heads is a multiple of kv_heads, and
    consecutive query heads share a key head (grouped queries).
    causal: query i sees key j where j <= i + k_len - q_len, so that the last query sees every key: the mask
    is aligned to the bottom right, as in FlashAttention 2.1 and later. `is_causal=True` of torch aligns it
    to the top left (j <= i), which is the same only for q_len == k_len; its `causal_lower_right` is this.
    A query that sees no key (causal, the first q_len - k_len) or only scores of -inf gives zeros.

Tiling
    A block owns `block_m` queries of one head and walks over the keys, `block_n` at a time. Scores, weights
    and output stay in registers: no q_len x k_len matrix reaches memory. Each query carries the largest
    score and the sum of the weights so far; where a tile raises the former, what has been accumulated is
    rescaled (Milakov and Gimelshein, arXiv:1805.02867; Dao, arXiv:2307.08691).

Forms
    `program` takes one step after the other. `overlapped`, for Hopper, multiplies one tile of keys while the
    scores of the next become weights; its blocks may stay, and take tile after tile of queries.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from tilecheck.arches import KIB, Arch
from tilecheck.dtypes import dtype as element
from tilecheck.fields import short_repr
from tilecheck.landmarks import Landmark, global_accesses, has_block_tensor_cores, present, tensor_cores
from tilecheck.spec import Case, Cost, KernelSpec, Reference, Term
from tilecheck.tiling import COPYING_REGISTERS, SPECIALIZED_REGISTERS, Tiling, even_blocks


@dataclass(frozen=True)
class Schedule:
    """block_m, block_n: queries and keys of a tile.  stages: tiles of keys in flight; 0: no pipeline.
    threads: that compute; where there are bulk copies, a pipeline adds 128 that load.
    overlap: products beside softmax, in the form `overlapped`.  blocks: at most, that stay there, and take
    tile after tile of queries; 0 for a block for each tile.
    """

    block_m: int
    block_n: int
    stages: int
    threads: int
    overlap: bool = False
    blocks: int = 0

    def __repr__(self) -> str:
        return short_repr(self, "overlap", "blocks")


def default_schedule(q_len: int, k_len: int, head_dim: int, causal: bool, arch: Arch) -> Schedule:
    """Tiles that fit in registers, and two stages unless those spill or cannot be built, or three are faster.
    On Hopper products and softmax overlap up to a head dim of 128, and blocks stay unless keys are many.
    """
    if arch.capability == (9, 0):
        if q_len <= 64:
            return Schedule(64, 128 if head_dim <= 128 else 64, 2, 128)
        if head_dim <= 64:
            if not causal or k_len <= 2048:
                return Schedule(192, 128, 2, 384, overlap=True, blocks=MULTIPROCESSORS)
            # A third stage is 1 % faster with 8k keys and more, and slower with 4k.
            return Schedule(192, 128, 2 if k_len <= 4096 else 3, 384, overlap=True)
        if head_dim > 128:
            return Schedule(128, 64, 2, 256)
        if causal:
            return Schedule(128, 128, 2, 256, overlap=True, blocks=MULTIPROCESSORS if k_len <= 4096 else 0)
        if k_len <= 4096:  # wide tiles have less to do between products, and waste more of the last one
            block_n = 128 if k_len <= 1024 else 160
            return Schedule(128, block_n, 2, 256, overlap=True, blocks=MULTIPROCESSORS)
        return Schedule(128, 176, 2, 256, overlap=True)
    block_n = 64 if head_dim <= 64 else 32
    stages = 2 if arch.bulk_copy or (not causal and head_dim <= 128) else 1  # causal: see `legal`
    return Schedule(64, block_n, stages, 128)


MULTIPROCESSORS = 132
"""Of an H100 SXM and an H200: blocks that stay. On a GPU with fewer, some would wait until others end."""

KEYS_IN_L2 = 32 * 2**20
"""Bytes of keys and values that blocks read at a time: about half of Hopper's L2 cache."""

REGISTERS = {128: 240, 256: 240, 384: 160}
"""Of a thread that computes in `overlapped`, by how many do: what 128 threads leave that only copy."""


def legal(schedule: Schedule, case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> None:
    """ValueError, with the reason, where `schedule` cannot compute `case` on `arch`."""
    block_m, block_n, stages, threads = schedule.block_m, schedule.block_n, schedule.stages, schedule.threads
    heads, kv_heads, head_dim = (case.dims[name] for name in ("heads", "kv_heads", "head_dim"))
    if case.dtype not in ("float16", "bfloat16"):
        raise ValueError(f"dtype {case.dtype} is neither float16 nor bfloat16")
    if heads % kv_heads:
        raise ValueError(f"heads={heads} is no multiple of kv_heads={kv_heads}")
    for name in ("heads", "batch"):  # y and z of the grid; x may be up to 2^31 - 1
        if case.dims[name] > 65535:
            raise ValueError(f"{name}={case.dims[name]} exceeds the 65535 blocks of a grid's y and z")
    if not 0 < head_dim <= 256 or head_dim % 16:
        raise ValueError(f"head_dim={head_dim} must be a multiple of 16, an mma's K, up to 256")
    if not 0 < block_n <= 256 or block_n % 16:
        raise ValueError(f"block_n={block_n} must be a multiple of 16, an mma's K, up to 256, a TMA box")

    # A warp owns its queries' scores, weights and output, as tiles of 16 rows.
    if threads <= 0 or threads % 32:
        raise ValueError(f"threads={threads} must be whole warps of 32")
    if not 0 < block_m <= 256 or block_m % (threads // 2):
        raise ValueError(f"block_m={block_m} must give each warp of {threads} threads 16 rows or a multiple")
    values = block_m * (block_n + head_dim) // threads
    if values >= arch.registers_per_thread:
        raise ValueError(f"{values} scores and sums for each of threads={threads} are too many: {schedule}")

    if stages < 0:
        raise ValueError(f"stages={stages} is negative")
    # Bulk copies have warps of their own, which hand registers to those that compute, by groups of four.
    bulk = _bulk_copied(schedule, arch, pass_configs)
    if bulk and threads % 128:
        raise ValueError(f"threads={threads} must be whole groups of 128 beside those that load")
    if _uses_wgmma(schedule, arch):
        # Scores and weights lie alike in registers only so; else "Layout infer conflict" (TileLang 0.1.15).
        if threads > 128 and block_m != threads // 2:
            raise ValueError(f"block_m={block_m} must be 64 for each 128 of {threads} threads that use wgmma")
        # All its results are in registers at once, beside 26 others, 30 with weights (ptxas: "Insufficient
        # registers").
        needed = max(block_n // 2 + 26, head_dim // 2 + 30)
        registers = arch.registers_per_sm // (threads + 128 * bulk) // 8 * 8
        if needed > registers:
            raise ValueError(f"wgmma needs {needed} registers of {registers}: {schedule}")
        # It reads shared memory by the async proxy, and a cp.async pipeline drains without the fence for it.
        if stages > 0 and not bulk:
            raise ValueError(f"stages={stages} must be 0 without bulk copies, as threads={threads} use wgmma")
    if stages >= 2 and case.flags["causal"] and not bulk:
        raise ValueError(
            f"stages={stages} with causal by cp.async: TileLang 0.1.15 cannot pipeline it over a trip count "
            "known only at run time ('Downcast from tirx.Sub to ir.IntImm failed'); use 0 or 1"
        )

    if schedule.blocks < 0 or (schedule.blocks and not schedule.overlap):
        raise ValueError(f"blocks={schedule.blocks} must be 0, or positive with overlap: {schedule}")
    if schedule.overlap:
        _check_overlap(schedule, case, wgmma_and_bulk=bulk and _uses_wgmma(schedule, arch))

    # Barriers are static shared memory, and the dynamic one starts at a multiple of 1 KiB after them.
    shared = shared_memory(schedule, case, arch, pass_configs) + KIB * bulk
    if shared > arch.shared_per_block:
        raise ValueError(
            f"{schedule} takes {shared} bytes of shared memory at head_dim={head_dim}; "
            f"{arch.name} has {arch.shared_per_block}"
        )


def _check_overlap(schedule: Schedule, case: Case, wgmma_and_bulk: bool) -> None:
    """ValueError where `overlapped` cannot compute what `program` can."""
    threads, head_dim = schedule.threads, case.dims["head_dim"]
    if not wgmma_and_bulk:
        raise ValueError(f"overlap takes wgmma, and bulk copies that have warps of their own: {schedule}")
    if threads not in REGISTERS or schedule.block_m != threads // 2:
        raise ValueError(f"overlap takes 64 queries for each 128 of up to 384 threads: {schedule}")
    # Scores, weights and output are in registers at once, beside some 25 others; a little more spills.
    needed = schedule.block_n * 3 // 4 + head_dim // 2 + 25
    if needed > REGISTERS[threads]:
        raise ValueError(f"overlap needs {needed} registers of {REGISTERS[threads]}: {schedule}")
    tiles = math.ceil(case.dims["q_len"] / schedule.block_m) * case.dims["heads"] * case.dims["batch"]
    if tiles > 2**30:
        raise ValueError(f"overlap numbers tiles in 32 bits, and {tiles} are too many: {schedule}")


def shared_memory(schedule: Schedule, case: Case, arch: Arch, pass_configs: Mapping[str, Any]) -> int:
    """Bytes of dynamic shared memory of a block: every stage holds a tile of K and one of V, and the tile of
    Out takes the place of Q's, of which blocks that stay hold two. Without a pipeline, the only tile of V
    takes that of the only one of K.
    """
    row = case.dims["head_dim"] * element(case.dtype).bytes
    queries = schedule.block_m * row * (2 if schedule.blocks else 1)
    keys = max(schedule.stages, 1) * schedule.block_n * row
    if schedule.stages == 0 and case.dims["k_len"] <= schedule.block_n:
        return queries + keys
    values_at = queries + keys
    if _uses_wgmma(schedule, arch) and not _bulk_copied(schedule, arch, pass_configs):
        values_at = math.ceil(values_at / KIB) * KIB  # eight rows of the widest swizzle that wgmma reads
    return values_at + keys


def _bulk_copied(schedule: Schedule, arch: Arch, pass_configs: Mapping[str, Any]) -> bool:
    return arch.bulk_copy and schedule.stages > 0 and not pass_configs.get("tl.disable_warp_specialized")


def _uses_wgmma(schedule: Schedule, arch: Arch) -> bool:
    """Whether `T.gemm` becomes wgmma, by groups of four warps."""
    return arch.capability == (9, 0) and schedule.block_m >= 64 and schedule.threads % 128 == 0


def program(
    batch, heads, kv_heads, q_len, k_len, head_dim, causal, dtype, block_m, block_n, stages, threads, schedule
):
    if schedule.overlap:
        return overlapped(batch, heads, kv_heads, q_len, k_len, head_dim, causal, dtype, schedule)
    import tilelang.language as T

    scale = math.log2(math.e) / math.sqrt(head_dim)  # weights as powers of 2, which is one instruction
    by_rows = T.GemmWarpPolicy.FullRow  # a query's scores, weights and output are all of one warp
    q_tiles = math.ceil(q_len / block_m)

    def visible(query):
        """How many keys a query sees: the first ones."""
        return query + 1 + k_len - q_len if causal else k_len

    @T.prim_func
    def flash_attention(
        Q: T.Tensor((batch, heads, q_len, head_dim), dtype),
        K: T.Tensor((batch, kv_heads, k_len, head_dim), dtype),
        V: T.Tensor((batch, kv_heads, k_len, head_dim), dtype),
        Out: T.Tensor((batch, heads, q_len, head_dim), dtype),
    ):
        with T.Kernel(q_tiles, heads, batch, threads=threads) as (tile, head, b):
            q_shared = T.alloc_shared((block_m, head_dim), dtype)
            k_shared = T.alloc_shared((block_n, head_dim), dtype)
            v_shared = T.alloc_shared((block_n, head_dim), dtype)
            out_shared = T.alloc_shared((block_m, head_dim), dtype)
            scores = T.alloc_fragment((block_m, block_n), "float32")
            weights = T.alloc_fragment((block_m, block_n), dtype)
            out = T.alloc_fragment((block_m, head_dim), "float32")
            top = T.alloc_fragment((block_m,), "float32")  # largest score so far
            old_top = T.alloc_fragment((block_m,), "float32")
            rescale = T.alloc_fragment((block_m,), "float32")
            total = T.alloc_fragment((block_m,), "float32")  # sum of the weights so far
            tile_total = T.alloc_fragment((block_m,), "float32")

            # The last queries see most keys: start with them.
            q0 = (q_tiles - 1 - tile) * block_m
            group = head // (heads // kv_heads)
            T.copy(Q[b, head, q0 : q0 + block_m, :], q_shared)
            T.clear(out)
            T.clear(total)
            T.fill(top, T.min_value("float32"))  # not -inf: exp2 must not get (-inf) - (-inf)

            # One tile at least, even if all of it is hidden: only the loop waits for the copy of Q.
            keys = T.min(T.max(visible(q0 + block_m - 1), 1), k_len)
            for k in T.Pipelined(T.ceildiv(keys, block_n), num_stages=stages):
                k0 = k * block_n
                T.copy(K[b, group, k0 : k0 + block_n, :], k_shared)
                T.gemm(q_shared, k_shared, scores, transpose_B=True, clear_accum=True, policy=by_rows)

                # Hide what lies past the diagonal, and the zeros that a copy puts past the last key.
                if k0 + block_n > visible(q0):
                    for i, j in T.Parallel(block_m, block_n):
                        seen = k0 + j < visible(q0 + i)
                        scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity("float32"))

                # Scores to weights, relative to the largest so far.
                T.copy(top, old_top)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i, j in T.Parallel(block_m, block_n):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.copy(scores, weights)

                # What has been accumulated follows the new maximum.
                T.reduce_sum(scores, tile_total, dim=1)
                for i in T.Parallel(block_m):
                    rescale[i] = T.exp2((old_top[i] - top[i]) * scale)
                    total[i] = total[i] * rescale[i] + tile_total[i]
                for i, j in T.Parallel(block_m, head_dim):
                    out[i, j] *= rescale[i]

                T.copy(V[b, group, k0 : k0 + block_n, :], v_shared)
                T.gemm(weights, v_shared, out, policy=by_rows)

            # Normalise once; a query that saw no key has a total of 0.
            for i in T.Parallel(block_m):
                total[i] = T.if_then_else(total[i] == 0.0, 0.0, 1.0 / total[i])
            for i, j in T.Parallel(block_m, head_dim):
                out[i, j] *= total[i]
            T.copy(out, out_shared)
            T.copy(out_shared, Out[b, head, q0 : q0 + block_m, :])

    return flash_attention


def overlapped(batch, heads, kv_heads, q_len, k_len, head_dim, causal, dtype, schedule):
    """`program`, with the product of one tile of keys beside the softmax of the next.

    There, tensor cores wait for the exponentials, and these for tensor cores. Here the scores of a tile are
    ordered before the product of the last tile's weights with V, and become weights while that runs
    (FlashAttention-3, arXiv:2407.08608). Blocks that stay load the next tile of queries, and its first keys,
    while they finish and store one.

    Measured on an H200, 4 x 16 x 4096 x 128 in fp16: 824 us, `program` 929 us, cuDNN 845 us; causal 442 us,
    533 us and 484 us.
    """
    import tilelang.language as T

    block_m, block_n, threads = schedule.block_m, schedule.block_n, schedule.threads
    scale = math.log2(math.e) / math.sqrt(head_dim)
    by_rows = T.GemmWarpPolicy.FullRow
    start, filled = first_query(q_len, block_m, causal), 8  # TileLang numbers its own barriers from 1

    def visible(query):
        return query + 1 + k_len - q_len if causal else k_len

    # As many rows of queries take turns as have K and V, two bytes each, in L2, so that the longest tiles of
    # all come first. If tiles are alike, one does: blocks that run side by side then share its keys.
    near = KEYS_IN_L2 // (4 * k_len * head_dim) * (heads // kv_heads) if causal else 1
    ends = range(start + block_m - 1, q_len + block_m - 1, block_m)
    steps = [math.ceil(min(max(1, visible(query)), k_len) / block_n) for query in ends]
    walk = walk_over_queries(batch * heads, near, schedule.blocks, steps)

    @T.prim_func
    def flash_attention(
        Q: T.Tensor((batch, heads, q_len, head_dim), dtype),
        K: T.Tensor((batch, kv_heads, k_len, head_dim), dtype),
        V: T.Tensor((batch, kv_heads, k_len, head_dim), dtype),
        Out: T.Tensor((batch, heads, q_len, head_dim), dtype),
    ):
        with T.Kernel(walk.blocks, threads=threads) as block:
            q_shared = T.alloc_shared((block_m, head_dim), dtype)  # and Out's
            k_shared = T.alloc_shared((block_n, head_dim), dtype)
            v_shared = T.alloc_shared((block_n, head_dim), dtype)
            scores = T.alloc_fragment((block_m, block_n), "float32")
            weights = T.alloc_fragment((block_m, block_n), dtype)
            out = T.alloc_fragment((block_m, head_dim), "float32")
            top = T.alloc_fragment((block_m,), "float32")
            old_top = T.alloc_fragment((block_m,), "float32")
            rescale = T.alloc_fragment((block_m,), "float32")
            total = T.alloc_fragment((block_m,), "float32")
            tile_total = T.alloc_fragment((block_m,), "float32")
            T.annotate_ws_schedule(warp_roles(schedule, q_shared, k_shared, v_shared))

            for turn in T.serial(walk.turns(block), annotations={T.WSID: "tiles"}):
                row, tile = walk.tile(block, turn)
                b, head, q0 = row // heads, row % heads, start + tile * block_m
                group = head // (heads // kv_heads)
                with T.ws_op("load Q"):
                    T.copy(Q[b, head, q0 : q0 + block_m, :], q_shared)
                with T.ws_op("clear"):
                    T.clear(out)
                    T.clear(total)
                    T.fill(top, T.min_value("float32"))

                keys = T.min(T.max(visible(q0 + block_m - 1), 1), k_len)
                for k in T.serial(T.ceildiv(keys, block_n), annotations={T.WSID: "keys"}):
                    k0 = k * block_n
                    with T.ws_op("load K"):
                        T.copy(K[b, group, k0 : k0 + block_n, :], k_shared)
                    with T.ws_op("order scores"):
                        T.wgmma_gemm(
                            q_shared, k_shared, scores, transpose_B=True, clear_accum=True, policy=by_rows
                        )
                    # The product of the tile before, which is ordered after them, goes on. A fence keeps nvcc
                    # from reading registers before the wait.
                    with T.ws_op("await scores"):
                        if k == 0:
                            T.wait_wgmma(0)
                        if k > 0:
                            T.wait_wgmma(1)
                        T.warpgroup_fence_operand(scores, num_regs=block_n // 2)

                    # Hidden keys, scores to weights, and what the new maximum asks for, as in `program`.
                    with T.ws_op("softmax"):
                        if k0 + block_n > visible(q0):
                            for i, j in T.Parallel(block_m, block_n):
                                seen = k0 + j < visible(q0 + i)
                                scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity("float32"))
                        T.copy(top, old_top)
                        T.reduce_max(scores, top, dim=1, clear=False)
                        for i, j in T.Parallel(block_m, block_n):
                            scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                        T.reduce_sum(scores, tile_total, dim=1)
                        for i in T.Parallel(block_m):
                            rescale[i] = T.exp2((old_top[i] - top[i]) * scale)
                            total[i] = total[i] * rescale[i] + tile_total[i]

                    # The exponentials come first: ptxas 13 moves a wait ahead of them, unless it is behind a
                    # condition; of a warp's lanes one always differs from k.
                    with T.ws_op("await product"):
                        if T.any_sync(T.get_thread_binding() % 32 != k):
                            T.wait_wgmma(0)
                        T.wait_wgmma(0)
                        T.warpgroup_fence_operand(out, num_regs=head_dim // 2)
                    with T.ws_op("round"):
                        T.copy(scores, weights)

                    with T.ws_op("load V"):
                        T.copy(V[b, group, k0 : k0 + block_n, :], v_shared)
                    with T.ws_op("order product"):
                        for i, j in T.Parallel(block_m, head_dim):
                            out[i, j] *= rescale[i]
                        T.wgmma_gemm(weights, v_shared, out, policy=by_rows)
                        if k + 1 >= T.ceildiv(keys, block_n):  # no step comes that awaits it
                            T.wait_wgmma(0)
                            T.warpgroup_fence_operand(out, num_regs=head_dim // 2)

                with T.ws_op("store"):
                    for i in T.Parallel(block_m):
                        total[i] = T.if_then_else(total[i] == 0.0, 0.0, 1.0 / total[i])
                    for i, j in T.Parallel(block_m, head_dim):
                        out[i, j] *= total[i]
                    if q0 < 0:  # bulk loads give zeros for rows before 0; a bulk store from there is illegal
                        for i, j in T.Parallel(block_m, head_dim):
                            if q0 + i >= 0:
                                Out[b, head, q0 + i, j] = out[i, j]
                    else:
                        T.copy(out, q_shared)
                        # TileLang 0.1.15 would ask a solver how many threads meet, and take what it has
                        # counted when its budget ends: behind a causal mask, 124 of 128 in some orders.
                        T.sync_threads(filled, threads)
                        T.copy(q_shared, Out[b, head, q0 : q0 + block_m, :])

    return flash_attention


def first_query(q_len, block_m, causal):
    """The row at which the first tile of `overlapped` begins: 0, or one before it. Behind a causal mask the
    tile that may not be whole comes first, where it sees the fewest keys: 2048 queries in tiles of 192, by
    128 keys, take 96 steps a head, not 101. A single tile begins at 0: TileLang counts what is surely
    negative from the end.
    """
    tiles = math.ceil(q_len / block_m)
    return q_len - tiles * block_m if causal and tiles > 1 else 0


def warp_roles(schedule, q_shared, k_shared, v_shared):
    """Which warps of `overlapped` do what, in which order, by the names that it gives its statements.

    One warp loads; those that compute take a tile of V a step after the tile of K of the same keys. Who fills
    a tile waits until it is free, who uses it until it is full: the barriers for that are TileLang's.
    """
    import tilelang.language as T

    def filled(tile, load):
        return [T.WSSync.producer_acquire(tile), load, T.WSSync.producer_commit(tile)]

    wait, release, warps = T.WSSync.consumer_wait, T.WSSync.consumer_release, schedule.threads // 32
    step = [
        *(wait("K"), "order scores", wait("V", stage=1), "order product"),
        *("await scores", release("K"), "softmax"),
        *("await product", release("V", stage=1), "round"),
    ]
    tile = ["clear", wait("Q"), "keys", "store", release("Q")]
    return T.WSSchedule(
        num_warps=warps + 4,  # registers go from hand to hand by four warps
        roles=[
            T.WSRole("compute", warps_lo=0, warps_hi=warps, max_nreg=REGISTERS[schedule.threads]),
            T.WSRole("load", warps_lo=warps, warps_hi=warps + 1, max_nreg=COPYING_REGISTERS),
        ],
        pipelines=[
            T.WSPipeline("Q", [q_shared], depth=2 if schedule.blocks else 1),
            T.WSPipeline("K", [k_shared], depth=schedule.stages),
            T.WSPipeline("V", [v_shared], depth=schedule.stages),
        ],
        scopes=[
            T.WSScope("keys", {"load": filled("K", "load K") + filled("V", "load V"), "compute": step}),
            T.WSScope("tiles", {"load": [*filled("Q", "load Q"), "keys"], "compute": tile}),
            T.WSScope(T.WSScope.ROOT, {"load": ["tiles"], "compute": ["tiles"]}),
        ],
    )


class QueryWalk:
    """Which tiles of queries each block takes, of `rows`, the heads of all batches, that have `tiles` each.

    On each turn every block takes one. The last of a row, which see most keys, come first, those of `near`
    rows before those of others, so that keys stay in L2. back: every other turn goes backwards, so that who
    had the longest tile of one has the shortest of the next.
    """

    def __init__(self, rows: int, tiles: int, near: int, blocks: int, back: bool = False) -> None:
        self._rows, self._tiles = rows, tiles
        self._near = max(_divisors(rows, near))
        self.blocks, self._back = blocks, back

    def turns(self, block):
        """How many tiles the block takes."""
        tiles = self._rows * self._tiles
        return (tiles - 1 - self._place(block, tiles // self.blocks)) // self.blocks + 1

    def tile(self, block, turn):
        """The row, and which of its tiles, that the block takes on its `turn`."""
        number = turn * self.blocks + self._place(block, turn)
        together, within = number // (self._near * self._tiles), number % (self._near * self._tiles)
        return together * self._near + within % self._near, self._tiles - 1 - within // self._near

    def _place(self, block, turn):
        """The block's place on a turn, from 0."""
        return block + turn % 2 * (self.blocks - 1 - 2 * block) if self._back else block


def walk_over_queries(rows: int, near: int, most: int, steps: Sequence[int]) -> QueryWalk:
    """The walk of a block for each tile, or, of those of up to `most` blocks that stay, the one whose busiest
    block has the least to do.  near: rows whose keys fit in L2.  steps: over the keys, of each tile of a row.
    """
    tiles, count = len(steps), rows * len(steps)
    if most == 0:
        return QueryWalk(rows, tiles, near, count)
    walks = [
        QueryWalk(rows, tiles, together, blocks, back)
        for blocks in (even_blocks(count, most), min(count, most))
        for together in _divisors(rows, near)[-2:]
        for back in (False, True)
    ]
    if count > 2**20:  # many turns even out
        return walks[-1]
    work = torch.tensor(steps) + 1  # to begin and to end a tile takes as long as a step

    def busiest(walk: QueryWalk) -> int:
        block, turn = torch.arange(walk.blocks)[:, None], torch.arange(math.ceil(count / walk.blocks))
        _, tile = walk.tile(block, turn)
        return int((work[tile.clamp(0)] * (turn < walk.turns(block))).sum(1).max())

    return min(walks, key=busiest)


def _divisors(rows: int, most: int) -> list[int]:
    return [n for n in range(1, min(rows, max(1, most)) + 1) if rows % n == 0]


SMALL_WEIGHT_ERROR = {"float16": 2.0**-25, "bfloat16": 2.0**-126}
"""Rounding of a weight below the format's normal range: half the distance of fp16's subnormals; with bf16
exp2 is what ends the range, which flushes fp32's subnormals to zero."""


def reference(Q, K, V, causal, dtype):
    value, cast, small, moved = (torch.empty_like(Q) for _ in range(4))
    free = torch.zeros_like(Q, dtype=torch.bool)
    (batch, heads, q_len, _), k_len = Q.shape, K.shape[2]
    # Some queries of one head at a time: their scores fit in memory, those of all may not.
    for b, h, first in itertools.product(range(batch), range(heads), range(0, q_len, QUERIES)):
        at = b, h, slice(first, first + QUERIES)
        k, v = (x[b, h // (heads // x.shape[1])] for x in (K, V))
        last = first + k_len - q_len if causal else k_len
        weights, exponent_error, hidden, overflow = _weights(Q[at], k, last)
        free[at] = overflow
        value[at] = weights @ v
        cast[at] = weights @ v.abs()
        small[at] = weights.amax(1, keepdim=True) * ((~hidden).to(v.dtype) @ v.abs())
        weight_error = (weights * torch.expm1(exponent_error)).clamp_(max=1.0)
        moved[at] = weight_error @ v.abs() + weight_error.sum(1, keepdim=True) * cast[at]
        if not v.isfinite().all():
            # 0 * inf is NaN in a tile that is computed and nothing in one that is skipped.
            free[at] |= (weights < 2.0**-24).to(v.dtype) @ (~v.isfinite()).to(v.dtype) > 0
    steps = K.shape[2] / 16 + 4
    terms = (
        Term(f"weights rounded to {dtype}", element(dtype).unit, cast),
        Term("weights below the normal range", SMALL_WEIGHT_ERROR[dtype], small),
        Term("sums over the keys, rescaling and exp2", (2 * steps + 8) * 2.0**-24, cast),
        Term("scores", 1.0, moved),
    )
    return Reference(value, terms, open=free)


QUERIES = 4096
"""How many the reference takes at a time: with 16384 keys, a float64 for each pair is half a gibibyte."""


def _weights(q, k, last):
    """Of queries and keys of one head, for each pair: normalised weight, the error of its exponent, whether
    it is hidden, as keys past number `last` are from the first query, and one more from each after it.

    And for each query: whether a score may pass the largest fp32 number on the way.
    """
    head_dim = q.shape[1]
    scale = head_dim**-0.5
    query = torch.arange(q.shape[0], device=q.device)[:, None]
    key = torch.arange(k.shape[0], device=q.device)
    hidden = key - query > last
    scores = (q @ k.T * scale).masked_fill_(hidden, -math.inf)
    top = scores.amax(1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0)
    weights = torch.exp(scores - top)
    total = weights.sum(1, keepdim=True)
    weights /= total.masked_fill(total == 0, 1.0)
    # head_dim / 16 steps of the tensor core, each rounding (or truncating) twice; then scale and subtraction.
    magnitude = q.abs() @ k.T.abs()
    overflow = magnitude.isfinite() & (magnitude > torch.finfo(torch.float32).max) & ~hidden
    error = magnitude * (scale * (head_dim / 16 + 4) * 2 * 2.0**-24)
    error += (scores.abs() + top.abs()) * 2 * 2.0**-24
    return weights, error.masked_fill_(weights == 0, 0.0), hidden, overflow.any(1, keepdim=True)


def cost(batch, heads, kv_heads, q_len, k_len, head_dim, causal, dtype):
    """Two products over the pairs of query and key that see each other; exponentials do not count."""
    pairs = sum(min(max(i + 1 + k_len - q_len, 0), k_len) if causal else k_len for i in range(q_len))
    elements = 2 * batch * head_dim * (heads * q_len + kv_heads * k_len)
    return Cost(4 * batch * heads * head_dim * pairs, elements * element(dtype).bytes)


def landmarks(
    q_len: int, causal: bool, arch: Arch, schedule: Schedule, pass_configs: Mapping[str, Any]
) -> Iterator[Landmark]:
    """Two products on tensor cores, exp2 in hardware, and tiles that move while others are worked on."""
    yield tensor_cores(arch, schedule.block_m)
    yield present("exponentials", "MUFU.EX2", "exp2 takes many instructions instead of one")
    if not has_block_tensor_cores(arch, schedule.block_m):
        yield present("ldmatrix", "LDSM", "fragments are gathered from shared memory word by word")
    if _bulk_copied(schedule, arch, pass_configs):
        yield present("bulk-loads", "UTMALDG", "threads that should multiply copy the tiles of K and V")
        yield present("mbarriers", "SYNCS", "nobody waits for the tiles of K and V")
        if not pass_configs.get("tl.disable_tma_lower"):
            yield present("bulk-stores", "UTMASTG|UBLKCP", "threads write the tile of Out")
            # A first tile that begins before row 0: two numbers at a time, as a fragment holds them.
            by_threads = schedule.overlap and first_query(q_len, schedule.block_m, causal) < 0
            yield from global_accesses(loads=0, stores=4 if by_threads else 0)
    else:
        yield present("async-copies", "LDGSTS", "tiles of K and V go through registers")
        yield present("copy-groups", "LDGDEPBAR", "nobody waits for the tiles of K and V")
        yield from global_accesses(loads=16, stores=16)  # Q, which nothing overlaps; Out
    if arch.capability >= (9, 0) and not schedule.overlap:  # there Out takes one of the tiles of Q
        yield present("stmatrix", "STSM", "Out goes to shared memory word by word")


def tiling(
    batch, heads, q_len, k_len, head_dim, causal, dtype, arch, block_m, block_n, stages, threads, blocks
):
    """A block reads its queries, and tile by tile the keys that they see: half of a square if causal."""
    size = element(dtype).bytes
    keys = max(1, k_len - q_len / 2) if causal else k_len
    tiles, tile = math.ceil(keys / block_n), 2 * block_n * head_dim
    bulk = arch.bulk_copy and stages > 0
    launched = threads + 128 * bulk
    tiles_of_queries = math.ceil(q_len / block_m) * heads * batch
    blocks = even_blocks(tiles_of_queries, blocks or tiles_of_queries)
    turns = math.ceil(tiles_of_queries / max(1, blocks))
    return Tiling(
        blocks=blocks,
        threads=launched,
        flops=2 * block_m * tile * tiles * turns,
        bytes=(tiles * tile + 2 * block_m * head_dim) * size * turns,
        steps=tiles * turns,
        stages=max(stages, 1),
        registers=min(SPECIALIZED_REGISTERS, arch.registers_per_sm // launched)
        if bulk
        else 2 * block_m * (block_n + head_dim) // threads + 32,
    )


def cudnn(Q, K, V, causal):
    return _sdpa(SDPBackend.CUDNN_ATTENTION, Q, K, V, causal)


def flash_attention_2(Q, K, V, causal):
    return _sdpa(SDPBackend.FLASH_ATTENTION, Q, K, V, causal)


def _sdpa(backend, Q, K, V, causal):
    q_len, k_len = Q.shape[2], K.shape[2]
    top_left = causal and q_len == k_len
    bias = causal_lower_right(q_len, k_len) if causal and not top_left else None
    with sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(
            Q, K, V, attn_mask=bias, is_causal=top_left, enable_gqa=Q.shape[1] != K.shape[1]
        )


def last_key_dominates(Q, K):
    """Scores rise by 3 a key, up to -3: the last key a query sees outweighs all others together, and would
    be outweighed by the next one, which is hidden, or zero and past the end."""
    return _ramp(Q, K, step=3.0)


def rising_scores(Q, K):
    """Scores rise by 0.05 a key: each tile raises the maximum, and the tiles before it still count."""
    return _ramp(Q, K, step=0.05)


def _ramp(Q, K, step):
    distance = torch.arange(K.shape[2], 0, -1)
    Q, K = Q / 8, K.clone()
    Q[..., :2] = -step * math.sqrt(Q.shape[-1])
    K[..., 0], K[..., 1] = distance // 16 * 16, distance % 16  # both exact in bf16, up to 4096 keys
    return {"Q": Q, "K": K}


def attention_sink(Q, K, V, dtype):
    """Weight 1 for the first key, 1/256 of a rounding for the others, V positive: a sum in 16 bits stops
    growing at the first, even if whole tiles are added at once."""
    Q, K = torch.zeros_like(Q), torch.zeros_like(K)
    Q[..., 0] = math.log(256 / element(dtype).unit) * math.sqrt(Q.shape[-1])
    K[..., 0, 0] = 1
    return {"Q": Q, "K": K, "V": V.abs() + 1}


def creeping_scores(Q, K, V):
    """Scores rise by 2^-19 a key, so that 16 bits round every rescaling to 1; values are 1, then -1."""
    V = torch.ones_like(V)
    V[:, :, V.shape[2] // 2 :] = -1
    return {**_ramp(torch.zeros_like(Q), torch.zeros_like(K), step=2.0**-19), "V": V}


def large_scores(Q):
    return {"Q": Q * 32}


def huge_scores(Q, K):
    return {"Q": Q * 100, "K": K * 100}


def low_scores(Q, K):
    """No score is above -4e4: a maximum that starts higher is never reached."""
    return {"Q": Q.abs() + 75, "K": -K.abs() - 75}


def tower(Q, K, V):
    """Scores are 0, and 40 for the last key, whose value is 0: what is left of the others is hardly more."""
    Q, K, V = torch.zeros_like(Q), torch.zeros_like(K), torch.ones_like(V)
    Q[..., 0], K[:, :, -1, 0], V[:, :, -1] = 40, math.sqrt(Q.shape[-1]), 0
    return {"Q": Q, "K": K, "V": V}


def special_values(Q, K, V):
    """A NaN key, an infinite value, an infinite query: each spoils the outputs that it reaches, no other."""
    Q, K, V = Q.clone(), K.clone(), V.clone()
    Q[:, :, Q.shape[2] // 8, 0] = math.inf
    V[:, :, K.shape[2] // 4, 0] = -math.inf
    K[:, :, K.shape[2] // 2] = math.nan
    return {"Q": Q, "K": K, "V": V}


def _dims(q_len, k_len=None, head_dim=64, batch=1, heads=1, kv_heads=None):
    lengths = {"q_len": q_len, "k_len": k_len or q_len, "head_dim": head_dim}
    return {"batch": batch, "heads": heads, "kv_heads": kv_heads or heads, **lengths}


F16, B16, BOTH = ("float16",), ("bfloat16",), ("float16", "bfloat16")
FULL, CAUSAL = {"causal": False}, {"causal": True}
rows = Case.per_dtype

CASES = (
    # Lengths around the tiles of 64 and 128, with either mask.
    *rows(F16, "len-1", _dims(1), "one query, one key", FULL),
    *rows(F16, "len-1-causal", _dims(1), "one query, one key", CAUSAL),
    *rows(F16, "len-17", _dims(17), "prime, less than a tile", FULL),
    *rows(F16, "len-17-causal", _dims(17), "prime, less than a tile", CAUSAL),
    *rows(F16, "len-63", _dims(63), "tile of 64, less 1", FULL),
    *rows(F16, "len-63-causal", _dims(63), "tile of 64, less 1", CAUSAL),
    *rows(F16, "len-64", _dims(64), "one tile of 64", FULL),
    *rows(F16, "len-64-causal", _dims(64), "one tile of 64, on the diagonal", CAUSAL),
    *rows(F16, "len-65", _dims(65), "tile of 64, and 1", FULL),
    *rows(F16, "len-65-causal", _dims(65), "tile of 64, and 1", CAUSAL),
    *rows(F16, "len-127", _dims(127), "tile of 128, less 1; prime", FULL),
    *rows(F16, "len-127-causal", _dims(127), "tile of 128, less 1; prime", CAUSAL),
    *rows(BOTH, "len-128", _dims(128), "one tile: trip count 1 (tilelang #2566)", FULL),
    *rows(BOTH, "len-128-causal", _dims(128), "one tile: trip count 1 (tilelang #2566)", CAUSAL),
    *rows(F16, "len-129", _dims(129), "tile of 128, and 1: the last one has one row", FULL),
    *rows(F16, "len-129-causal", _dims(129), "tile of 128, and 1: the last one has one row", CAUSAL),
    *rows(F16, "len-256", _dims(256), "trip count 2, nothing to mask", FULL),
    *rows(B16, "len-257-causal", _dims(257), "trip count 3; prime", CAUSAL),
    *rows(BOTH, "len-296", _dims(296), "tilelang #1213", FULL),
    *rows(BOTH, "len-296-causal", _dims(296), "tilelang #1213", CAUSAL),
    *rows(B16, "len-400-causal", _dims(400), "trip count 4, most tiles whole", CAUSAL),
    # Lengths that differ.
    *rows(F16, "decode", _dims(1, 257), "one query, a prime number of keys", FULL),
    *rows(B16, "decode-causal", _dims(1, 257), "the one query sees all, if aligned bottom right", CAUSAL),
    *rows(F16, "more-keys", _dims(65, 200), "different tails", FULL),
    *rows(BOTH, "more-keys-causal", _dims(100, 228), "fewer queries, causal (tilelang #864)", CAUSAL),
    *rows(F16, "more-queries", _dims(200, 65), "different tails", FULL),
    *rows(BOTH, "more-queries-causal", _dims(228, 100), "128 queries see no key: zeros", CAUSAL),
    *rows(F16, "blind-tiles-causal", _dims(300, 40), "whole tiles of queries see no key", CAUSAL),
    *rows(F16, "many-keys", _dims(16, 4200), "34 tiles of keys", FULL),
    *rows(F16, "one-key-causal", _dims(129, 1), "only the last query sees a key", CAUSAL),
    # Heads, batches, head dims.
    *rows(F16, "grouped", _dims(70, heads=4, kv_heads=2), "pairs of heads share keys", FULL),
    *rows(B16, "grouped-causal", _dims(70, batch=2, heads=6, kv_heads=2), "the same, batched", CAUSAL),
    *rows(F16, "multi-query-causal", _dims(70, heads=3, kv_heads=1), "all heads share keys", CAUSAL),
    *rows(F16, "heads-8-causal", _dims(64, heads=8), "many heads", CAUSAL),
    *rows(F16, "batch", _dims(130, 67, batch=2, heads=2), "a tail ends before the next head", FULL),
    *rows(F16, "dim-16-causal", _dims(100, head_dim=16), "smallest head dim, one mma deep", CAUSAL),
    *rows(B16, "dim-80", _dims(100, head_dim=80), "head dim with the narrowest swizzle", FULL),
    *rows(BOTH, "dim-96", _dims(150, head_dim=96), "head dim that is no power of two", FULL),
    *rows(F16, "dim-96-causal", _dims(150, head_dim=96), "head dim that is no power of two", CAUSAL),
    *rows(B16, "dim-128", _dims(200, head_dim=128), "the common head dim", FULL),
    *rows(BOTH, "dim-128-causal", _dims(200, head_dim=128), "the common head dim", CAUSAL),
    *rows(F16, "dim-256", _dims(150, head_dim=256), "largest head dim, smaller tiles of keys", FULL),
    *rows(B16, "dim-256-causal", _dims(150, head_dim=256), "largest head dim", CAUSAL),
    # Inputs where a small wrong shows.
    *rows(BOTH, "last-key", _dims(200), "tail dropped, or not masked", FULL, "last-key"),
    *rows(BOTH, "last-key-causal", _dims(200), "diagonal off by one", CAUSAL, "last-key"),
    *rows(F16, "last-key-more-keys", _dims(90, 200), "diagonal off by one", CAUSAL, "last-key"),
    *rows(
        F16, "last-key-alone", _dims(128, 129), "one query sees one key of another tile", CAUSAL, "last-key"
    ),
    *rows(F16, "last-key-hidden", _dims(100, 226), "one query misses one key of a tile", CAUSAL, "last-key"),
    *rows(F16, "rising", _dims(100, 600), "every tile rescales", FULL, "rising"),
    *rows(B16, "rising-causal", _dims(300), "every tile rescales", CAUSAL, "rising"),
    *rows(BOTH, "sink", _dims(16, 4000), "sums in 16 bits", FULL, "sink"),
    *rows(F16, "creeping", _dims(16, 4096), "rescaling in 16 bits", FULL, "creeping"),
    *rows(BOTH, "large-scores", _dims(140), "scores in the tens", FULL, "large-scores"),
    *rows(F16, "huge-scores", _dims(140), "scores in the ten thousands", CAUSAL, "huge-scores"),
    *rows(F16, "huge-scores-full", _dims(140, heads=4), "next to those of other heads", FULL, "huge-scores"),
    *rows(BOTH, "low-scores", _dims(140), "scores far below zero", FULL, "low-scores"),
    *rows(BOTH, "low-scores-causal", _dims(140), "scores far below zero", CAUSAL, "low-scores"),
    *rows(B16, "tower", _dims(16, 4096), "32 tiles that one key outweighs", FULL, "tower"),
    *rows(F16, "one-hot", _dims(130), "queries that pick a column of the keys", FULL, "one-hot"),
    *rows(F16, "cancelling", _dims(130), "products that cancel within a score", FULL, "cancelling"),
    *rows(F16, "integers-causal", _dims(130), "scores that tie", CAUSAL, "integers"),
    *rows(BOTH, "special-causal", _dims(200), "NaN and infinity spread as far as seen", CAUSAL, "special"),
    # Under every schedule of the grid.
    *rows(F16, "grid-tails", _dims(100, 217, 64, 1, 2, 1), "2 to 14 tiles of keys, with tails", CAUSAL),
    *rows(B16, "grid-whole", _dims(96, 192, 96, 2, 3), "1 to 12 whole tiles of keys", FULL),
    # Model shapes.
    *rows(BOTH, "model-4x32x512", _dims(512, None, 128, 4, 32), "model shape, short", FULL),
    *rows(BOTH, "model-2x32x2048-causal", _dims(2048, None, 128, 2, 32), "model shape, prefill", CAUSAL),
    *rows(F16, "model-1x64x2048", _dims(2048, None, 128, 1, 64), "model shape, many heads", FULL),
    *rows(F16, "model-1x64x2048-causal", _dims(2048, None, 128, 1, 64), "model shape, many heads", CAUSAL),
    *rows(B16, "llama8b-8k-causal", _dims(8192, None, 128, 1, 32, 8), "Llama-3-8B, whole context", CAUSAL),
    *rows(F16, "dim-64-2k", _dims(2048, None, 64, 8, 16), "16384 tokens in 8 sequences", FULL),
    *rows(F16, "dim-64-2k-causal", _dims(2048, None, 64, 8, 16), "16384 tokens in 8 sequences", CAUSAL),
    *rows(F16, "dim-64-4k", _dims(4096, None, 64, 4, 16), "16384 tokens in 4 sequences", FULL),
    *rows(F16, "dim-64-4k-causal", _dims(4096, None, 64, 4, 16), "16384 tokens in 4 sequences", CAUSAL),
    *rows(F16, "dim-64-8k", _dims(8192, None, 64, 2, 16), "16384 tokens in 2 sequences", FULL),
    *rows(F16, "dim-64-8k-causal", _dims(8192, None, 64, 2, 16), "16384 tokens in 2 sequences", CAUSAL),
    *rows(F16, "dim-64-16k", _dims(16384, None, 64, 1, 16), "16384 tokens in one sequence", FULL),
    *rows(F16, "dim-64-16k-causal", _dims(16384, None, 64, 1, 16), "16384 tokens in one sequence", CAUSAL),
    *rows(F16, "dim-128-2k", _dims(2048, None, 128, 8, 16), "16384 tokens in 8 sequences", FULL),
    *rows(F16, "dim-128-2k-causal", _dims(2048, None, 128, 8, 16), "16384 tokens in 8 sequences", CAUSAL),
    *rows(F16, "dim-128-4k", _dims(4096, None, 128, 4, 16), "16384 tokens in 4 sequences", FULL),
    *rows(F16, "dim-128-4k-causal", _dims(4096, None, 128, 4, 16), "16384 tokens in 4 sequences", CAUSAL),
    *rows(F16, "dim-128-8k", _dims(8192, None, 128, 2, 16), "16384 tokens in 2 sequences", FULL),
    *rows(F16, "dim-128-8k-causal", _dims(8192, None, 128, 2, 16), "16384 tokens in 2 sequences", CAUSAL),
    *rows(F16, "dim-128-16k", _dims(16384, None, 128, 1, 16), "16384 tokens in one sequence", FULL),
    *rows(F16, "dim-128-16k-causal", _dims(16384, None, 128, 1, 16), "16384 tokens in one sequence", CAUSAL),
)

LATENCY_CASES = (
    *("dim-64-2k-fp16", "dim-64-4k-fp16", "dim-64-8k-fp16", "dim-64-16k-fp16"),
    *("dim-64-2k-causal-fp16", "dim-64-4k-causal-fp16", "dim-64-8k-causal-fp16", "dim-64-16k-causal-fp16"),
    *("dim-128-2k-fp16", "dim-128-4k-fp16", "dim-128-8k-fp16", "dim-128-16k-fp16"),
    *("dim-128-2k-causal-fp16", "dim-128-4k-causal-fp16"),
    *("dim-128-8k-causal-fp16", "dim-128-16k-causal-fp16"),
    *("model-4x32x512-fp16", "model-4x32x512-bf16", "model-2x32x2048-causal-bf16"),
    *("model-1x64x2048-fp16", "model-1x64x2048-causal-fp16", "llama8b-8k-causal-bf16"),
)

DRAWS = {
    "last-key": last_key_dominates,
    "rising": rising_scores,
    "sink": attention_sink,
    "creeping": creeping_scores,
    "large-scores": large_scores,
    "huge-scores": huge_scores,
    "low-scores": low_scores,
    "tower": tower,
    "special": special_values,
}

GRID = {
    "block_m": (32, 64, 96, 128, 192, 256),
    "block_n": (16, 48, 64, 80, 192),
    "stages": (0, 1, 2, 3, 4),
    "threads": (64, 96, 128, 192, 256, 384, 512),
    "overlap": (False, True),
    "blocks": (0, 3),
    "pass_configs": (
        {},
        {"tl.enable_fast_math": False},
        {"tl.disable_tma_lower": True},  # stores only
        {"tl.disable_warp_specialized": True},  # and with the loading warps bulk loads
    ),
}

TUNING = {
    "block_m": (64, 128, 192, 256),
    "block_n": (32, 48, 64, 80, 96, 128, 160, 176, 192, 256),
    "stages": (0, 1, 2, 3, 4),
    "threads": (128, 256, 384, 512),
    "overlap": (False, True),
    "blocks": (0, MULTIPROCESSORS),
}

SPEC = KernelSpec(
    name="flash_attention",
    program=program,
    reference=reference,
    outputs=("Out",),
    cases=CASES,
    default_schedule=default_schedule,
    legal=legal,
    cost=cost,
    draws=DRAWS,
    vendor={"cudnn": cudnn, "flash-attention-2": flash_attention_2},
    pass_configs={"tl.enable_fast_math": True},  # exp2 as one ex2.approx.ftz, whose error the terms count
    grid=GRID,
    grid_cases=("grid-tails-fp16", "grid-whole-bf16"),
    latency_cases=LATENCY_CASES,
    landmarks=landmarks,
    shared_memory=shared_memory,
    code_cases=("model-2x32x2048-causal-fp16", "model-4x32x512-bf16", "decode-fp16", "dim-256-causal-bf16"),
    tuning=TUNING,
    tuning_cases=(
        "model-1x64x2048-fp16",
        "model-1x64x2048-causal-fp16",
        "model-4x32x512-fp16",
        "llama8b-8k-causal-bf16",
    ),
    tiling=tiling,
)
