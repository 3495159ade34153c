"""Exact attention in one pass over the keys (FlashAttention, forward).

    Out[b, h] = softmax(Q[b, h] @ K[b, g].T / sqrt(head_dim)) @ V[b, g]        with g = h // (heads // kv_heads)

Contract
    Q, Out: (batch, heads, q_len, head_dim); K, V: (batch, kv_heads, k_len, head_dim); fp16 or bf16, accumulated in
    fp32. Any lengths; head_dim a multiple of 16; heads a multiple of kv_heads (grouped queries share a key head).
    causal: query i sees key j where j <= i + k_len - q_len. The last query sees every key: the mask is aligned to
    the bottom right, as in FlashAttention 2.1 and later. torch's `is_causal=True` aligns to the top left (j <= i),
    which is the same only where q_len == k_len; torch's `causal_lower_right` bias is this one.
    A query that sees no key (the first q_len - k_len of them, causal), or only scores of -inf, gives zeros.

Tiling
    A block owns `block_m` queries of one head and walks over the keys in tiles of `block_n`. Scores, weights and the
    output's accumulator stay in registers, so no q_len x k_len matrix ever reaches memory. Each query carries the
    maximum and the sum of the weights it has seen; a tile that raises the maximum rescales what is accumulated
    (Milakov and Gimelshein, arXiv:1805.02867; Dao, arXiv:2307.08691).
"""

import itertools
import math
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from tilecheck.arches import Arch
from tilecheck.dtypes import dtype as element
from tilecheck.spec import Case, Cost, KernelSpec, Reference, Term


@dataclass(frozen=True)
class Schedule:
    """block_m, block_n: queries and keys of a tile.  stages: key tiles in flight, 0 loads without a pipeline.
    threads: those that compute; a pipeline on an architecture with bulk copies adds 128 that load."""

    block_m: int
    block_n: int
    stages: int
    threads: int


def default_schedule(q_len: int, head_dim: int, causal: bool, arch: Arch) -> Schedule:
    """Tiles whose accumulators fit in registers without spilling, as deep a pipeline as the compiler can build."""
    if arch.capability == (9, 0):
        block_n = 128 if head_dim <= 128 else 64
        return Schedule(64, block_n, 2, 128) if q_len <= 64 else Schedule(128, block_n, 2, 256)
    block_n = 64 if head_dim <= 64 else 32
    stages = 2 if arch.bulk_copy or not (causal or head_dim > 128) else 1  # why not causal: see `legal`
    return Schedule(64, block_n, stages, 128)


def legal(schedule: Schedule, case: Case, arch: Arch) -> None:
    """ValueError, with the reason, where `schedule` cannot compute `case` on `arch`."""
    block_m, block_n, stages, threads = schedule.block_m, schedule.block_n, schedule.stages, schedule.threads
    heads, kv_heads, head_dim = (case.dims[name] for name in ("heads", "kv_heads", "head_dim"))
    if case.dtype not in ("float16", "bfloat16"):
        raise ValueError(f"dtype {case.dtype} is neither float16 nor bfloat16")
    if heads % kv_heads:
        raise ValueError(f"heads={heads} is no multiple of kv_heads={kv_heads}")
    if not 0 < head_dim <= 256 or head_dim % 16:
        raise ValueError(f"head_dim={head_dim} must be a multiple of 16 (the K of one mma) up to 256")
    if not 0 < block_m <= 256 or not 0 < block_n <= 256 or block_n % 16:
        raise ValueError(f"tile {block_m}x{block_n}: block_n must be a multiple of 16, and no side exceed 256 (a TMA box)")

    # The warp that owns a row rescales its output and feeds its weights back to the tensor core.
    warps = threads // 32
    if threads <= 0 or threads % 32 or block_m % (16 * warps):
        raise ValueError(f"block_m={block_m} must give each of the {threads}/32 warps whole tiles of 16 rows")
    # Groups of four warps issue wgmma (Hopper) and pass registers from loading to computing threads (setmaxnreg).
    if arch.bulk_copy and threads % 128:
        raise ValueError(f"threads={threads} must be a multiple of 128 on {arch.name}, which works by warp groups")
    loaders = 128 if arch.bulk_copy and stages > 0 else 0
    if threads + loaders > arch.max_threads:
        raise ValueError(f"threads={threads} and {loaders} that load exceed the {arch.max_threads} of a block")

    if stages < 0:
        raise ValueError(f"stages={stages} is negative")
    if stages >= 2 and case.flags["causal"] and not arch.bulk_copy:
        raise ValueError(
            f"stages={stages} with causal on {arch.name}: TileLang 0.1.15 cannot build a cp.async pipeline of two or "
            "more stages over a trip count known only at run time ('Downcast from tirx.Sub to ir.IntImm failed')"
        )
    # Out's tile takes the place of Q's, which is dead by then.
    shared = (block_m + max(stages, 1) * 2 * block_n) * head_dim * element(case.dtype).bytes
    if shared > arch.shared_per_block:
        raise ValueError(
            f"{schedule} needs {shared} bytes of shared memory at head_dim={head_dim}; {arch.name} has "
            f"{arch.shared_per_block}"
        )


def program(batch, heads, kv_heads, q_len, k_len, head_dim, causal, dtype, block_m, block_n, stages, threads):
    import tilelang.language as T

    scale = math.log2(math.e) / math.sqrt(head_dim)  # weights are powers of two: exp2 is one instruction, exp is two
    q_tiles = math.ceil(q_len / block_m)

    def visible(query):
        """The number of keys that `query` sees; they are the first ones."""
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
            acc = T.alloc_fragment((block_m, head_dim), "float32")
            top = T.alloc_fragment((block_m,), "float32")  # the largest score so far
            old_top = T.alloc_fragment((block_m,), "float32")
            rescale = T.alloc_fragment((block_m,), "float32")
            total = T.alloc_fragment((block_m,), "float32")  # the sum of the weights so far
            tile_total = T.alloc_fragment((block_m,), "float32")

            q0 = (q_tiles - 1 - tile) * block_m  # the last queries see most keys: start with them
            group = head // (heads // kv_heads)
            T.copy(Q[b, head, q0 : q0 + block_m, :], q_shared)
            T.clear(acc)
            T.clear(total)
            # Not -inf: of a query that has seen no key, exp2 would get (-inf) - (-inf).
            T.fill(top, T.min_value("float32"))

            # At least one tile, if only to be masked: the loop is what waits for the copy of Q.
            last = T.min(T.max(visible(q0 + block_m - 1), 1), k_len)
            for k in T.Pipelined(T.ceildiv(last, block_n), num_stages=stages):
                T.copy(K[b, group, k * block_n : (k + 1) * block_n, :], k_shared)
                T.gemm(q_shared, k_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)

                # Hide keys beyond the diagonal, and the zeros that a copy puts past the end.
                if (k + 1) * block_n > visible(q0):
                    for i, j in T.Parallel(block_m, block_n):
                        seen = k * block_n + j < visible(q0 + i)
                        scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity("float32"))

                # Weights relative to the new maximum; what is accumulated follows it.
                T.copy(top, old_top)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_m):
                    rescale[i] = T.exp2((old_top[i] - top[i]) * scale)
                for i, j in T.Parallel(block_m, block_n):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, tile_total, dim=1)
                for i in T.Parallel(block_m):
                    total[i] = total[i] * rescale[i] + tile_total[i]
                for i, j in T.Parallel(block_m, head_dim):
                    acc[i, j] *= rescale[i]

                T.copy(scores, weights)
                T.copy(V[b, group, k * block_n : (k + 1) * block_n, :], v_shared)
                T.gemm(weights, v_shared, acc, policy=T.GemmWarpPolicy.FullRow)

            # Normalise once, at the end; a query that saw no key has total 0.
            for i in T.Parallel(block_m):
                total[i] = T.if_then_else(total[i] == 0.0, 0.0, 1.0 / total[i])
            for i, j in T.Parallel(block_m, head_dim):
                acc[i, j] *= total[i]
            T.copy(acc, out_shared)
            T.copy(out_shared, Out[b, head, q0 : q0 + block_m, :])

    return flash_attention



_LOST_WEIGHT = {"float16": 2.0**-25, "bfloat16": 2.0**-126}
"""How far a weight too small for the format may be off: fp16 has subnormals 2^-24 apart, exp2 flushes below 2^-126."""


def reference(Q, K, V, causal, dtype):
    value, cast, lost, moved = (torch.empty_like(Q) for _ in range(4))
    free = torch.zeros_like(Q, dtype=torch.bool)
    group = Q.shape[1] // K.shape[1]
    for b, h in itertools.product(range(Q.shape[0]), range(Q.shape[1])):  # one head's scores fit, all heads' do not
        q, k, v = Q[b, h], K[b, h // group], V[b, h // group]
        weights, score_error, hidden = _weights(q, k, causal)
        value[b, h] = weights @ v
        cast[b, h] = weights @ v.abs()
        lost[b, h] = weights.amax(1, keepdim=True) * ((~hidden).to(v.dtype) @ v.abs())
        shifted = weights * torch.expm1(score_error)
        moved[b, h] = shifted @ v.abs() + shifted.sum(1, keepdim=True) * cast[b, h]
        if not v.isfinite().all():  # weight 0 times infinity is NaN, but only in a tile that is not skipped
            free[b, h] = (weights < 2.0**-24).to(v.dtype) @ (~v.isfinite()).to(v.dtype) > 0
    steps = K.shape[2] / 16 + 4
    terms = (
        Term(f"weights rounded to {dtype}", element(dtype).unit, cast),
        Term("weights too small for the format", _LOST_WEIGHT[dtype], lost),
        Term("sums over the keys, rescaling and exp2 in fp32", (2 * steps + 8) * 2.0**-24, cast),
        Term("scores in fp32", 1.0, moved),
    )
    return Reference(value, terms, open=free)


def _weights(q, k, causal):
    """Of one head, each (q_len, k_len): the normalised weights, the error of their exponents, and which are hidden."""
    (q_len, head_dim), k_len = q.shape, k.shape[0]
    scale = head_dim**-0.5
    query = torch.arange(q_len, device=q.device)[:, None]
    key = torch.arange(k_len, device=q.device)
    hidden = key - query > (k_len - q_len if causal else k_len)
    scores = (q @ k.T * scale).masked_fill_(hidden, -math.inf)
    top = scores.amax(1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0)
    weights = torch.exp(scores - top)
    total = weights.sum(1, keepdim=True)
    weights /= total.masked_fill(total == 0, 1.0)
    error = (q.abs() @ k.T.abs()) * (scale * (head_dim / 16 + 4) * 2 * 2.0**-24)
    error += (scores.abs() + top.abs()) * 2 * 2.0**-24
    return weights, error.masked_fill_(weights == 0, 0.0), hidden


def cost(batch, heads, kv_heads, q_len, k_len, head_dim, causal, dtype):
    """Two products over the visible pairs of query and key; exponentials are not counted."""
    seen = (min(max(query + 1 + k_len - q_len, 0), k_len) if causal else k_len for query in range(q_len))
    elements = 2 * batch * head_dim * (heads * q_len + kv_heads * k_len)
    return Cost(4 * batch * heads * head_dim * sum(seen), elements * element(dtype).bytes)


def cudnn(Q, K, V, causal):
    return _sdpa(SDPBackend.CUDNN_ATTENTION, Q, K, V, causal)


def flash_attention_2(Q, K, V, causal):
    return _sdpa(SDPBackend.FLASH_ATTENTION, Q, K, V, causal)


def _sdpa(backend, Q, K, V, causal):
    aligned = Q.shape[2] == K.shape[2]
    bias = causal_lower_right(Q.shape[2], K.shape[2]) if causal and not aligned else None
    with sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(
            Q, K, V, attn_mask=bias, is_causal=causal and aligned, enable_gqa=Q.shape[1] != K.shape[1]
        )


def last_key_dominates(Q, K):
    """Scores rise by 3 from key to key, up to -3: each query's last visible key outweighs the others together. The
    next one, hidden or a zero past the end, would outweigh it; and each tile raises the maximum by hundreds."""
    return _ramp(Q, K, step=3.0)


def rising_scores(Q, K):
    """Scores rise by 0.05 from key to key: each tile raises the maximum, and what went before still counts."""
    return _ramp(Q, K, step=0.05)


def _ramp(Q, K, step):
    distance = torch.arange(K.shape[2], 0, -1)
    Q, K = Q / 8, K.clone()
    Q[..., :2] = -step * math.sqrt(Q.shape[-1])
    K[..., 0], K[..., 1] = distance // 16 * 16, distance % 16  # both exact in bf16, up to 4096 keys
    return {"Q": Q, "K": K}


def attention_sink(Q, K, V):
    """The first key has weight 1, every other e^-11, and V is positive: a 16-bit accumulator drops all but the first."""
    Q, K = torch.zeros_like(Q), torch.zeros_like(K)
    Q[..., 0] = 11 * math.sqrt(Q.shape[-1])
    K[..., 0, 0] = 1
    return {"Q": Q, "K": K, "V": V.abs() + 1}


def large_scores(Q):
    return {"Q": Q * 32}


def huge_scores(Q, K):
    return {"Q": Q * 100, "K": K * 100}


def nan_key(K):
    """One key is NaN: queries that see it are NaN, and no other."""
    K = K.clone()
    K[:, :, K.shape[2] // 2] = math.nan
    return {"K": K}


F16, B16, BOTH = ("float16",), ("bfloat16",), ("float16", "bfloat16")
FULL, CAUSAL = {"causal": False}, {"causal": True}


def _dims(q_len, k_len=None, head_dim=64, batch=1, heads=1, kv_heads=None):
    return dict(
        batch=batch, heads=heads, kv_heads=kv_heads or heads, q_len=q_len, k_len=k_len or q_len, head_dim=head_dim
    )


CASES = (
    # Lengths around the tiles of 64 and 128, and primes; both masks.
    *Case.per_dtype(F16, "len-1", _dims(1), "one query, one key", FULL),
    *Case.per_dtype(F16, "len-1-causal", _dims(1), "one query, one key", CAUSAL),
    *Case.per_dtype(F16, "len-17", _dims(17), "less than one tile", FULL),
    *Case.per_dtype(F16, "len-17-causal", _dims(17), "less than one tile", CAUSAL),
    *Case.per_dtype(F16, "len-63", _dims(63), "tile of 64, minus 1", FULL),
    *Case.per_dtype(F16, "len-63-causal", _dims(63), "tile of 64, minus 1", CAUSAL),
    *Case.per_dtype(F16, "len-64", _dims(64), "one whole tile of 64", FULL),
    *Case.per_dtype(F16, "len-64-causal", _dims(64), "one whole tile of 64, all of it diagonal", CAUSAL),
    *Case.per_dtype(F16, "len-65", _dims(65), "tile of 64, plus 1", FULL),
    *Case.per_dtype(F16, "len-65-causal", _dims(65), "tile of 64, plus 1", CAUSAL),
    *Case.per_dtype(F16, "len-127", _dims(127), "tile of 128, minus 1", FULL),
    *Case.per_dtype(F16, "len-127-causal", _dims(127), "tile of 128, minus 1", CAUSAL),
    *Case.per_dtype(BOTH, "len-128", _dims(128), "one whole tile of 128: pipeline trip count 1 (tilelang #2566)", FULL),
    *Case.per_dtype(BOTH, "len-128-causal", _dims(128), "one whole tile of 128: trip count 1 (tilelang #2566)", CAUSAL),
    *Case.per_dtype(F16, "len-129", _dims(129), "tile of 128, plus 1: last tile has one query and one key", FULL),
    *Case.per_dtype(F16, "len-129-causal", _dims(129), "tile of 128, plus 1, on the diagonal", CAUSAL),
    *Case.per_dtype(F16, "len-256", _dims(256), "trip count 2: no tile needs a mask", FULL),
    *Case.per_dtype(B16, "len-257-causal", _dims(257), "prime; trip count 3", CAUSAL),
    *Case.per_dtype(BOTH, "len-296", _dims(296), "length of tilelang #1213", FULL),
    *Case.per_dtype(BOTH, "len-296-causal", _dims(296), "length of tilelang #1213", CAUSAL),
    # Query and key lengths that differ.
    *Case.per_dtype(F16, "decode", _dims(1, 257), "one query, prime number of keys", FULL),
    *Case.per_dtype(B16, "decode-causal", _dims(1, 257), "one query sees all keys only if aligned bottom right", CAUSAL),
    *Case.per_dtype(F16, "more-keys", _dims(65, 200), "tails of queries and of keys differ", FULL),
    *Case.per_dtype(BOTH, "more-keys-causal", _dims(100, 228), "causal with few queries (tilelang #864)", CAUSAL),
    *Case.per_dtype(F16, "more-queries", _dims(200, 65), "tails of queries and of keys differ", FULL),
    *Case.per_dtype(BOTH, "more-queries-causal", _dims(228, 100), "the first 128 queries see no key: zeros", CAUSAL),
    *Case.per_dtype(F16, "blind-tiles-causal", _dims(300, 40), "whole tiles of queries see no key: zeros", CAUSAL),
    *Case.per_dtype(F16, "one-key-causal", _dims(129, 1), "only the last query sees a key", CAUSAL),
    # Heads, batches, head dims.
    *Case.per_dtype(F16, "grouped", _dims(70, heads=4, kv_heads=2), "two query heads share a key head", FULL),
    *Case.per_dtype(B16, "grouped-causal", _dims(70, heads=6, kv_heads=2, batch=2), "grouped and batched", CAUSAL),
    *Case.per_dtype(F16, "multi-query-causal", _dims(70, heads=3, kv_heads=1), "all heads share one key head", CAUSAL),
    *Case.per_dtype(F16, "batch", _dims(130, 67, batch=2, heads=2), "a tail must not read the next head's rows", FULL),
    *Case.per_dtype(F16, "dim-16-causal", _dims(100, head_dim=16), "smallest head dim: one mma deep", CAUSAL),
    *Case.per_dtype(B16, "dim-80", _dims(100, head_dim=80), "head dim with the narrowest shared-memory swizzle", FULL),
    *Case.per_dtype(BOTH, "dim-96", _dims(150, head_dim=96), "head dim that is no power of two", FULL),
    *Case.per_dtype(F16, "dim-96-causal", _dims(150, head_dim=96), "head dim that is no power of two", CAUSAL),
    *Case.per_dtype(B16, "dim-128", _dims(200, head_dim=128), "the common head dim", FULL),
    *Case.per_dtype(BOTH, "dim-128-causal", _dims(200, head_dim=128), "the common head dim", CAUSAL),
    *Case.per_dtype(F16, "dim-256", _dims(150, head_dim=256), "the largest head dim, with narrower key tiles", FULL),
    *Case.per_dtype(B16, "dim-256-causal", _dims(150, head_dim=256), "the largest head dim", CAUSAL),
    # Inputs where a small wrong shows.
    *Case.per_dtype(BOTH, "last-key", _dims(200), "a tail that is dropped, or not masked", FULL, "last-key"),
    *Case.per_dtype(BOTH, "last-key-causal", _dims(200), "a diagonal off by one", CAUSAL, "last-key"),
    *Case.per_dtype(F16, "last-key-more-keys", _dims(90, 200), "a diagonal off by one", CAUSAL, "last-key"),
    *Case.per_dtype(F16, "rising", _dims(100, 600), "rescaling in every tile", FULL, "rising"),
    *Case.per_dtype(B16, "rising-causal", _dims(300), "rescaling in every tile", CAUSAL, "rising"),
    *Case.per_dtype(BOTH, "sink", _dims(64, 1000), "accumulation in 16 bits", FULL, "sink"),
    *Case.per_dtype(BOTH, "large-scores", _dims(140), "scores of standard deviation 32", FULL, "large-scores"),
    *Case.per_dtype(F16, "huge-scores", _dims(140), "scores of standard deviation 10^4", CAUSAL, "huge-scores"),
    *Case.per_dtype(F16, "one-hot", _dims(130), "single elements select rows and columns", FULL, "one-hot"),
    *Case.per_dtype(F16, "cancelling", _dims(130), "products that cancel in a score", FULL, "cancelling"),
    *Case.per_dtype(F16, "integers-causal", _dims(130), "many scores tie", CAUSAL, "integers"),
    *Case.per_dtype(F16, "nan-key-causal", _dims(200), "NaN reaches those that see it, only", CAUSAL, "nan-key"),
    # Model shapes.
    *Case.per_dtype(BOTH, "model-4x32x512", _dims(512, head_dim=128, batch=4, heads=32), "model shape", FULL),
    *Case.per_dtype(BOTH, "model-2x32x2048-causal", _dims(2048, head_dim=128, batch=2, heads=32), "model shape", CAUSAL),
    *Case.per_dtype(F16, "model-1x64x2048", _dims(2048, head_dim=128, heads=64), "model shape", FULL),
    *Case.per_dtype(F16, "model-1x64x2048-causal", _dims(2048, head_dim=128, heads=64), "model shape", CAUSAL),
    *Case.per_dtype(B16, "llama8b-8k-causal", _dims(8192, head_dim=128, heads=32, kv_heads=8), "Llama-3-8B", CAUSAL),
)

SPEC = KernelSpec(
    name="flash_attention",
    program=program,
    reference=reference,
    cases=CASES,
    default_schedule=default_schedule,
    legal=legal,
    cost=cost,
    draws={
        "last-key": last_key_dominates,
        "rising": rising_scores,
        "sink": attention_sink,
        "large-scores": large_scores,
        "huge-scores": huge_scores,
        "nan-key": nan_key,
    },
    vendor={"cudnn": cudnn, "flash-attention-2": flash_attention_2},
    pass_configs={"tl.enable_fast_math": True},
)
