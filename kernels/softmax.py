"""Softmax over the rows of a matrix.

    Y[i, j] = exp(X[i, j] - max_j X[i, j]) / sum_j exp(X[i, j] - max_j X[i, j])

Contract
    X, Y: (M, N), fp32, fp16 or bf16, computed in fp32. Special values as in torch: a row that holds NaN or +inf, or
    nothing but -inf, is NaN throughout; elsewhere -inf gives 0. The maximum is subtracted before anything is scaled,
    so rows near 1e4 lose nothing.

Tiling
    A block owns `rows` rows. Rows up to `chunk` long are read once and stay in registers (one pass). Longer ones are
    read twice, `chunk` columns at a time (online): the first time for maximum and sum, the sum being rescaled
    whenever the maximum rises (Milakov and Gimelshein, arXiv:1805.02867), the second time to write.
"""

import functools
import math
from dataclasses import dataclass

import torch

from tilecheck.arches import Arch
from tilecheck.dtypes import dtype as element
from tilecheck.spec import Case, Cost, KernelSpec, Reference, Term

LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class Schedule:
    """rows, chunk: rows and columns a block holds in registers at a time.  threads: of a block."""

    rows: int
    chunk: int
    threads: int


def default_schedule(N: int, dtype: str) -> Schedule:
    """At most 32 values a thread, in loads of 16 bytes; short rows share a block."""
    vector = 16 // element(dtype).bytes
    if N <= 1024:
        chunk = max(32, 1 << (N - 1).bit_length())
        return Schedule(max(1, 128 * vector // chunk), chunk, 128)
    if N <= 32768:
        threads = max(128, 1 << (math.ceil(N / 32) - 1).bit_length())
        return Schedule(1, math.ceil(N / (threads * vector)) * threads * vector, threads)
    return Schedule(1, 8192, 512)


def legal(schedule: Schedule, case: Case, arch: Arch) -> None:
    """ValueError, with the reason, where `schedule` cannot compute `case` on `arch`."""
    rows, chunk, threads = schedule.rows, schedule.chunk, schedule.threads
    if case.dtype not in ("float32", "float16", "bfloat16"):
        raise ValueError(f"dtype {case.dtype} is none of float32, float16, bfloat16")
    # A reduction over threads halves them again and again; counts that are no power of two lose lanes (tilelang #2542).
    if threads not in (32, 64, 128, 256, 512, 1024):
        raise ValueError(f"threads={threads} must be a power of two from 32 to 1024")
    if rows <= 0 or rows & (rows - 1):
        raise ValueError(f"rows={rows} must be a power of two")
    if chunk < 32 or (chunk & (chunk - 1) and (rows > 1 or chunk % threads)):
        raise ValueError(f"chunk={chunk} must be a power of two from 32 up or, for rows=1, a multiple of {threads} threads")
    if rows * chunk % threads:
        raise ValueError(f"rows={rows} x chunk={chunk} must be a multiple of threads={threads}")
    values = rows * chunk // threads
    if values > (most := min(64, arch.registers_per_sm // threads // 2)):
        raise ValueError(f"rows={rows} x chunk={chunk} over {threads} threads is {values} values a thread, over {most}")


def program(M, N, dtype, rows, chunk, threads):
    form = one_pass if N <= chunk else online
    return form(M, N, dtype, rows, chunk, threads)


def one_pass(M, N, dtype, rows, chunk, threads):
    import tilelang.language as T

    @T.prim_func
    def softmax(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as block:
            loaded = T.alloc_fragment((rows, chunk), dtype)
            tile = T.alloc_fragment((rows, chunk), "float32")
            top = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")

            # Columns past the end weigh nothing: -inf, where the copy put zeros.
            T.copy(X[block * rows, 0], loaded)
            for i, j in T.Parallel(rows, chunk):
                tile[i, j] = T.if_then_else(j < N, T.cast(loaded[i, j], "float32"), -T.infinity("float32"))

            # The maximum may pass over a NaN; the sum brings it back to the whole row.
            T.reduce_max(tile, top, dim=1)
            for i, j in T.Parallel(rows, chunk):
                tile[i, j] = T.exp2((tile[i, j] - top[i]) * LOG2E)
            T.reduce_sum(tile, total, dim=1)

            for i, j in T.Parallel(rows, chunk):
                tile[i, j] /= total[i]
            T.copy(tile, Y[block * rows, 0])

    return softmax


def online(M, N, dtype, rows, chunk, threads):
    import tilelang.language as T

    chunks = math.ceil(N / chunk)

    @T.prim_func
    def softmax(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as block:
            loaded = T.alloc_fragment((rows, chunk), dtype)
            tile = T.alloc_fragment((rows, chunk), "float32")
            top = T.alloc_fragment((rows,), "float32")  # the maximum so far
            old_top = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")  # the sum so far, relative to `top`
            chunk_total = T.alloc_fragment((rows,), "float32")
            T.clear(total)
            # Not -inf: a row that begins with a chunk of -inf would get (-inf) - (-inf) and never recover.
            T.fill(top, T.min_value("float32"))

            for c in T.serial(chunks):
                T.copy(X[block * rows, c * chunk], loaded)
                for i, j in T.Parallel(rows, chunk):
                    inside = c * chunk + j < N
                    tile[i, j] = T.if_then_else(inside, T.cast(loaded[i, j], "float32"), -T.infinity("float32"))
                T.copy(top, old_top)
                T.reduce_max(tile, top, dim=1, clear=False)
                for i, j in T.Parallel(rows, chunk):
                    tile[i, j] = T.exp2((tile[i, j] - top[i]) * LOG2E)
                T.reduce_sum(tile, chunk_total, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * T.exp2((old_top[i] - top[i]) * LOG2E) + chunk_total[i]

            # Backwards: what was read last is still in L2.
            for c in T.serial(chunks):
                column = (chunks - 1 - c) * chunk
                T.copy(X[block * rows, column], loaded)
                for i, j in T.Parallel(rows, chunk):
                    tile[i, j] = T.exp2((T.cast(loaded[i, j], "float32") - top[i]) * LOG2E) / total[i]
                T.copy(tile, Y[block * rows, column])

    return softmax


def reference(X, N):
    value = torch.softmax(X, dim=1)
    below = X.amax(dim=1, keepdim=True) - X
    # Three roundings of the exponent: the difference, log2(e), and their product. None where the weight is 0 or NaN.
    moved = torch.where(value > 0, value * (below * 3 * 2.0**-24), 0.0)
    finite = value.nan_to_num(0.0)
    terms = (
        Term("exponents in fp32", 1.0, moved + finite * moved.sum(dim=1, keepdim=True)),
        Term("exp2, in the sum and above it, 2 ulp each, and the quotient", 9 * 2.0**-24, finite),
        Term("sum in fp32", (16 + N / 1024) * 2.0**-24, finite),
    )
    return Reference(value, terms)


def cost(M, N, dtype):
    """A value is compared, subtracted, scaled, raised, added and divided, once each."""
    return Cost(6 * M * N, 2 * M * N * element(dtype).bytes)


def eager(X):
    return torch.softmax(X, dim=1)


def compiled(X):
    return _compiled(X.shape, X.dtype)(X)


@functools.lru_cache(maxsize=1)
def _compiled(shape, dtype):
    torch.compiler.reset()  # dynamo falls back to eager after 8 shapes of one function
    return torch.compile(eager, dynamic=False)


def last_dominates(X):
    """Far below zero, and the last column 8 above the rest: it must not be lost, nor outweighed by the zeros that a
    copy puts past the end."""
    X = X - 60
    X[:, -1] += 8
    return {"X": X}


def rising(X, N):
    """Rises by 40 along a row: every chunk raises the maximum, and the last ones count."""
    return {"X": X + torch.linspace(-40, 0, N).to(X.dtype)}


def late_values(X, N):
    """The first two thirds of each row are -inf."""
    X = X.clone()
    X[:, : 2 * N // 3] = -math.inf
    return {"X": X}


def near_ten_thousand(X):
    return {"X": X * 16 + 1e4}


def special_rows(X, M, N):
    """One kind of special row after the other, ordinary ones between them."""
    X = X.clone()
    largest = torch.finfo(X.dtype).max
    kinds = (
        lambda row: row.fill_(-math.inf),
        lambda row: row[::2].fill_(-math.inf),
        lambda row: row[N // 2 :].fill_(math.inf),
        lambda row: row[N // 3 : N // 3 + 1].fill_(math.nan),
        lambda row: row.fill_(math.nan),
        lambda row: row.fill_(largest),
        lambda row: row[1:].fill_(-largest),
        lambda row: row.fill_(-0.0),
    )
    for index in range(0, M, 2):
        kinds[index // 2 % len(kinds)](X[index])
    return {"X": X}


F32, F16, B16 = ("float32",), ("float16",), ("bfloat16",)
HALVES, ALL = ("float16", "bfloat16"), ("float32", "float16", "bfloat16")

CASES = (
    # One pass. Lengths around the chunks, which are powers of two up to 1024, then multiples of the loads.
    *Case.per_dtype(ALL, "n-1", {"M": 5, "N": 1}, "one column: all ones"),
    *Case.per_dtype(F16, "one-element", {"M": 1, "N": 1}, "the smallest matrix"),
    *Case.per_dtype(F32, "n-2", {"M": 3, "N": 2}, "two columns, less than a load"),
    *Case.per_dtype(F16, "n-31", {"M": 33, "N": 31}, "smallest chunk, minus 1; one row more than a block has"),
    *Case.per_dtype(B16, "n-32", {"M": 31, "N": 32}, "smallest chunk, whole; one row less than a block has"),
    *Case.per_dtype(F32, "n-33", {"M": 17, "N": 33}, "smallest chunk, plus 1"),
    *Case.per_dtype(ALL, "n-127", {"M": 9, "N": 127}, "prime; row stride that is no multiple of 16 bytes"),
    *Case.per_dtype(F32, "n-128", {"M": 8, "N": 128}, "rows that share a block, no tail in either direction"),
    *Case.per_dtype(F16, "n-129", {"M": 5, "N": 129}, "one column more than a power of two"),
    *Case.per_dtype(F16, "n-1000", {"M": 7, "N": 1000}, "tail of a chunk, rows of whole 16-byte loads"),
    *Case.per_dtype(B16, "n-1023", {"M": 3, "N": 1023}, "largest power of two, minus 1"),
    *Case.per_dtype(ALL, "n-1024", {"M": 4, "N": 1024}, "largest power of two"),
    *Case.per_dtype(F32, "n-1025", {"M": 2, "N": 1025}, "chunk that is no power of two"),
    *Case.per_dtype(F16, "n-5000", {"M": 3, "N": 5000}, "chunk that is no power of two"),
    *Case.per_dtype(F32, "n-8191", {"M": 2, "N": 8191}, "prime; 32 values a thread"),
    *Case.per_dtype(F16, "n-32768", {"M": 2, "N": 32768}, "the longest row that stays in registers"),
    # Online: rows that do not fit.
    *Case.per_dtype(ALL, "n-32769", {"M": 2, "N": 32769}, "shortest online row; the last chunk has one column"),
    *Case.per_dtype(F16, "n-40960", {"M": 2, "N": 40960}, "whole chunks"),
    *Case.per_dtype(F32, "n-50021", {"M": 1, "N": 50021}, "prime"),
    *Case.per_dtype(B16, "n-65535", {"M": 2, "N": 65535}, "one column less than whole chunks"),
    *Case.per_dtype(F32, "n-262144", {"M": 1, "N": 262144}, "the longest row: most summands"),
    # Inputs where a small wrong shows.
    *Case.per_dtype(ALL, "last", {"M": 4, "N": 100}, "last column lost, or padding that weighs", draw="last"),
    *Case.per_dtype(F32, "last-online", {"M": 2, "N": 33001}, "the same, online", draw="last"),
    *Case.per_dtype(F32, "rising", {"M": 3, "N": 3000}, "weights over many powers of ten", draw="rising"),
    *Case.per_dtype(ALL, "rising-online", {"M": 2, "N": 40000}, "rescaling in every chunk", draw="rising"),
    *Case.per_dtype(F16, "late-values", {"M": 3, "N": 300}, "-inf weighs nothing", draw="late"),
    *Case.per_dtype(F32, "late-values-online", {"M": 2, "N": 50000}, "whole chunks of -inf come first", draw="late"),
    *Case.per_dtype(ALL, "ten-thousand", {"M": 4, "N": 500}, "values of 1e4: subtract before scaling", draw="1e4"),
    *Case.per_dtype(F32, "ten-thousand-online", {"M": 1, "N": 33333}, "the same, online", draw="1e4"),
    *Case.per_dtype(ALL, "special", {"M": 16, "N": 200}, "NaN, infinities, largest values: as torch", draw="special"),
    *Case.per_dtype(ALL, "special-online", {"M": 16, "N": 33000}, "the same, online", draw="special"),
    *Case.per_dtype(F32, "one-hot", {"M": 20, "N": 160}, "the weight is all in one place", draw="one-hot"),
    *Case.per_dtype(F16, "integers", {"M": 4, "N": 400}, "ties for the maximum", draw="integers"),
    *Case.per_dtype(F32, "cancelling", {"M": 4, "N": 400}, "nearly equal weights", draw="cancelling"),
    # Model shapes.
    *Case.per_dtype(HALVES, "vocabulary", {"M": 4, "N": 102400}, "logits of DeepSeek-V3's vocabulary for 4 tokens"),
    *Case.per_dtype(ALL, "attention-32k", {"M": 8192, "N": 32768}, "attention weights over 32k keys"),
    *Case.per_dtype(B16, "attention-8k", {"M": 8192, "N": 8192}, "attention weights over 8k keys"),
)

SPEC = KernelSpec(
    name="softmax",
    program=program,
    reference=reference,
    cases=CASES,
    default_schedule=default_schedule,
    legal=legal,
    cost=cost,
    draws={
        "last": last_dominates,
        "rising": rising,
        "late": late_values,
        "1e4": near_ten_thousand,
        "special": special_rows,
    },
    vendor={"torch": eager, "torch.compile": compiled},
)
