"""Softmax over the rows of a matrix.

    Y[i, j] = exp(X[i, j] - max_j X[i, j]) / sum_j exp(X[i, j] - max_j X[i, j])

Contract
    X, Y: (M, N), N at least 1, fp32, fp16 or bf16, computed in fp32. As in torch, a row that holds NaN or
    +inf, or only -inf, is NaN throughout; any other -inf gives 0. The maximum is subtracted before anything
    is scaled, so that values of 1e4 cost no accuracy.

Tiling
    A block owns `rows` rows. Rows of up to `chunk` columns are read once and stay in registers: one pass.
    Longer ones are read twice, `chunk` columns at a time: first for maximum and sum, the sum being rescaled
    where the maximum rises (online; Milakov and Gimelshein, arXiv:1805.02867), then to be written.
"""

import functools
import math
from dataclasses import dataclass

import torch

from tilecheck.arches import Arch
from tilecheck.dtypes import dtype as element
from tilecheck.landmarks import Landmark, absent, global_accesses, present
from tilecheck.spec import Case, Cost, KernelSpec, Reference, Term
from tilecheck.tiling import Tiling

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
    # One block a multiprocessor: what all of them have read once stays in L2 until they read it again.
    return Schedule(1, 16384, 1024)


def legal(schedule: Schedule, case: Case, arch: Arch) -> None:
    """ValueError, with the reason, where `schedule` cannot compute `case` on `arch`."""
    rows, chunk, threads = schedule.rows, schedule.chunk, schedule.threads
    if case.dtype not in ("float32", "float16", "bfloat16"):
        raise ValueError(f"dtype {case.dtype} is none of float32, float16, bfloat16")
    # Reductions over threads go by halves; other counts than powers of two lose lanes (tilelang #2542).
    if threads not in (32, 64, 128, 256, 512, 1024):
        raise ValueError(f"threads={threads} must be a power of two from 32 to 1024")
    if rows <= 0 or rows & (rows - 1):
        raise ValueError(f"rows={rows} must be a power of two")
    whole = rows == 1 and chunk % threads == 0  # each row takes all threads, the same number of times
    if chunk < 32 or (chunk & (chunk - 1) and not whole):
        raise ValueError(
            f"chunk={chunk} must be a power of two from 32 up, or with one row a multiple of the threads; "
            f"rows={rows}, threads={threads}"
        )
    values, uneven = divmod(rows * chunk, threads)
    if uneven:
        raise ValueError(f"rows={rows} x chunk={chunk} must be a multiple of threads={threads}")
    # Half of the registers for the values; the rest holds what has just been loaded, and addresses.
    most = min(64, arch.registers_per_sm // threads // 2)
    if values > most:
        raise ValueError(f"rows={rows} x chunk={chunk} is {values} values for each of {threads}, over {most}")


def shared_memory(N: int, dtype: str, schedule: Schedule, arch: Arch) -> int:
    """Where several warps share a row, each thread leaves a value there for maximum and one for sum.

    In one pass the sums lie where the maxima lay.
    """
    if not _shares_rows(N, dtype, schedule, arch):
        return 0
    return 4 * schedule.threads * (1 if schedule.chunk >= N else 2)


def _shares_rows(N: int, dtype: str, schedule: Schedule, arch: Arch) -> bool:
    """Whether a row is spread over more than a warp: a thread holds runs of it as long as a load, of up to 16
    bytes, on Blackwell 32.
    """
    widest = 32 if arch.capability >= (10, 0) else 16
    values = schedule.rows * schedule.chunk // schedule.threads
    size = element(dtype).bytes
    run = math.gcd(values, max(4, math.gcd(widest, N * size) // size))
    return schedule.chunk > 32 * run and schedule.threads > 32


def program(M, N, dtype, rows, chunk, threads):
    form = one_pass if chunk >= N else online
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
                value = T.cast(loaded[i, j], "float32")
                tile[i, j] = T.if_then_else(j < N, value, -T.infinity("float32"))

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
                    value = T.cast(loaded[i, j], "float32")
                    tile[i, j] = T.if_then_else(c * chunk + j < N, value, -T.infinity("float32"))
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
    size = value.nan_to_num(0.0)
    # An exponent is rounded three times: the difference, log2(e), their product.
    exponent_error = (X.amax(dim=1, keepdim=True) - X) * 3 * 2.0**-24
    moved = torch.where(size > 0, size * exponent_error, 0.0)
    terms = (
        Term("exponents", 1.0, moved + size * moved.sum(dim=1, keepdim=True)),
        Term("exp2, twice, and the quotient: 2 ulp each at most", 10 * 2.0**-24, size),
        Term(
            "sum: a tree within a chunk, one by one over chunks", (math.log2(N) + N / 2048) * 2.0**-24, size
        ),
    )
    return Reference(value, terms)


def cost(M, N, dtype):
    """A value is compared, subtracted, scaled, raised, added and divided."""
    return Cost(6 * M * N, 2 * M * N * element(dtype).bytes)


def landmarks(N: int, dtype: str, schedule: Schedule, arch: Arch) -> tuple[Landmark, ...]:
    """Accesses as wide as rows allow, exp2 in hardware, and barriers only where warps share a row."""
    unit = math.gcd(16, N * element(dtype).bytes)
    several_warps = _shares_rows(N, dtype, schedule, arch)
    return (
        *global_accesses(loads=unit, stores=unit),
        present("exponentials", "MUFU.EX2", "exp2 takes many instructions instead of one"),
        present("shuffles", "SHFL", "lanes of a warp exchange values through memory"),
        present("barriers", "BAR", "warps read what others have not written yet")
        if several_warps
        else absent("no-barriers", "BAR", "warps wait for each other that share no row"),
    )


def tiling(M, N, dtype, rows, chunk, threads):
    """One pass reads once, the online form twice, chunk by chunk; chunks lie in registers, also as fp32."""
    size, chunks = element(dtype).bytes, math.ceil(N / chunk)
    reads, values = 1 if chunks == 1 else 2, rows * chunk
    return Tiling(
        blocks=math.ceil(M / rows),
        threads=threads,
        flops=6 * values * chunks,
        bytes=(reads + 1) * values * chunks * size,
        steps=reads * chunks,
        registers=values // threads * (4 + size) // 4 + 24,
    )


def eager(X):
    return torch.softmax(X, dim=1)


def compiled(X):
    return _compiled(X.shape, X.dtype)(X)


@functools.lru_cache(maxsize=1)
def _compiled(_shape, _dtype):
    torch.compiler.reset()  # else it falls back to eager after eight shapes
    return torch.compile(eager, dynamic=False)


def last_dominates(X):
    """So far below zero that fp32 holds no exp(x), the last column 8 above the rest: it must not get lost,
    nor be outweighed by the zeros that a copy puts past the end."""
    X = X - 120
    X[:, -1] += 8
    return {"X": X}


def rising(X, N):
    """Rises by 40 along a row: each chunk raises the maximum, and the last ones count."""
    return {"X": X + torch.linspace(-40, 0, N).to(X.dtype)}


def late_values(X, N):
    """The first two thirds of each row are -inf."""
    X = X.clone()
    X[:, : 2 * N // 3] = -math.inf
    return {"X": X}


def near_ten_thousand(X):
    return {"X": X * 16 + 1e4}


def far_below(X, M):
    """Rows of which nothing is near zero: a maximum that starts too high is never reached."""
    largest = torch.finfo(X.dtype).max
    shift = torch.tensor([largest, 1e30, 1e5, 6e4], dtype=torch.float64)[torch.arange(M) % 4, None]
    return {"X": (X.double() - shift).clamp(min=-largest).to(X.dtype)}


def tower(X):
    """The last column is 30 above the rest, whose sum hardly counts any more: it is scaled by exp(-30)."""
    X = X / 8
    X[:, -1] = 30
    return {"X": X}


def special_rows(X, M, N):
    """Every other row is of a special kind."""
    X = X.clone()
    largest = torch.finfo(X.dtype).max
    kinds = (
        lambda row: row.fill_(-math.inf),
        lambda row: row[::2].fill_(-math.inf),
        lambda row: row[N // 2 :].fill_(math.inf),
        lambda row: row[N // 3].fill_(math.nan),
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
rows = Case.per_dtype

CASES = (
    # One pass. Chunks are powers of two up to 1024, then multiples of what the threads load at once.
    *rows(ALL, "n-1", {"M": 5, "N": 1}, "one column: all ones"),
    *rows(F16, "one-element", {"M": 1, "N": 1}, "the smallest matrix"),
    *rows(F32, "n-2", {"M": 3, "N": 2}, "a row shorter than a load"),
    *rows(F16, "n-31", {"M": 33, "N": 31}, "smallest chunk, less 1; a block of 32 rows, and 1"),
    *rows(B16, "n-32", {"M": 31, "N": 32}, "smallest chunk; a block of 32 rows, less 1"),
    *rows(F32, "n-33", {"M": 17, "N": 33}, "smallest chunk, and 1"),
    *rows(ALL, "n-127", {"M": 9, "N": 127}, "prime; rows that start off 16-byte boundaries"),
    *rows(F32, "n-128", {"M": 8, "N": 128}, "rows that share a block, without tails"),
    *rows(F16, "n-129", {"M": 5, "N": 129}, "power of two, and 1"),
    *rows(F16, "n-1000", {"M": 7, "N": 1000}, "tail of whole 16-byte loads"),
    *rows(B16, "n-1023", {"M": 3, "N": 1023}, "largest power of two, less 1"),
    *rows(ALL, "n-1024", {"M": 4, "N": 1024}, "largest power of two"),
    *rows(F32, "n-1025", {"M": 2, "N": 1025}, "chunk that is no power of two"),
    *rows(F16, "n-5000", {"M": 3, "N": 5000}, "chunk that is no power of two"),
    *rows(F32, "n-8191", {"M": 2, "N": 8191}, "prime; 32 values a thread"),
    *rows(F16, "n-32768", {"M": 2, "N": 32768}, "longest row that stays in registers"),
    # Online.
    *rows(ALL, "n-32769", {"M": 2, "N": 32769}, "shortest online row; its last chunk has one column"),
    *rows(F16, "n-49152", {"M": 2, "N": 49152}, "whole chunks"),
    *rows(F32, "n-50021", {"M": 1, "N": 50021}, "prime"),
    *rows(B16, "n-65535", {"M": 2, "N": 65535}, "whole chunks, less 1"),
    *rows(F32, "n-262144", {"M": 1, "N": 262144}, "longest row, most summands"),
    # Inputs where a small wrong shows.
    *rows(ALL, "last", {"M": 4, "N": 100}, "last column lost, or padding that weighs", draw="last"),
    *rows(F32, "last-online", {"M": 2, "N": 33001}, "the same, online", draw="last"),
    *rows(F32, "rising", {"M": 3, "N": 3000}, "weights of many magnitudes", draw="rising"),
    *rows(ALL, "rising-online", {"M": 2, "N": 40000}, "every chunk rescales", draw="rising"),
    *rows(F16, "late-values", {"M": 3, "N": 300}, "-inf weighs nothing", draw="late"),
    *rows(F32, "late-values-online", {"M": 2, "N": 50000}, "chunks of -inf come first", draw="late"),
    *rows(ALL, "ten-thousand", {"M": 4, "N": 500}, "values of 1e4: subtract, then scale", draw="1e4"),
    *rows(F32, "ten-thousand-online", {"M": 1, "N": 33333}, "the same, online", draw="1e4"),
    *rows(ALL, "special", {"M": 16, "N": 200}, "NaN, infinities, largest values: as torch", draw="special"),
    *rows(ALL, "special-online", {"M": 16, "N": 33000}, "the same, online", draw="special"),
    *rows(ALL, "far-below", {"M": 12, "N": 200}, "values from -6e4 down to the last", draw="far-below"),
    *rows(ALL, "far-below-online", {"M": 4, "N": 33000}, "the same, online", draw="far-below"),
    *rows(F32, "tower-online", {"M": 2, "N": 49153}, "a column that outweighs three chunks", draw="tower"),
    *rows(F32, "one-hot", {"M": 20, "N": 160}, "all weight in one place", draw="one-hot"),
    *rows(F16, "integers", {"M": 4, "N": 400}, "several maxima", draw="integers"),
    *rows(F32, "cancelling", {"M": 4, "N": 400}, "weights within a factor of 20", draw="cancelling"),
    # Under every schedule of the grid: one pass, or online, by the chunk.
    *rows(F16, "grid-tails", {"M": 149, "N": 297}, "blocks with a row or column too few; many blocks"),
    *rows(F32, "grid-whole", {"M": 64, "N": 384}, "1 to 12 whole chunks"),
    # Model shapes.
    *rows(HALVES, "vocabulary", {"M": 4, "N": 102400}, "logits of a vocabulary of 102400, for 4 tokens"),
    *rows(ALL, "attention-32k", {"M": 8192, "N": 32768}, "attention weights over 32k keys"),
    *rows(B16, "attention-8k", {"M": 8192, "N": 8192}, "attention weights over 8k keys"),
    *rows(F16, "quarter-gib-1024", {"M": 2**17, "N": 1024}, "256 MiB in short rows"),
    *rows(HALVES, "quarter-gib-4096", {"M": 2**15, "N": 4096}, "256 MiB in rows of 8 KiB"),
    *rows(F16, "quarter-gib-16384", {"M": 2**13, "N": 2**14}, "256 MiB in rows of 32 KiB"),
    *rows(F32, "quarter-gib-8192", {"M": 2**13, "N": 2**13}, "256 MiB in fp32"),
    *rows(B16, "quarter-gib-65536", {"M": 2**11, "N": 2**16}, "256 MiB in online rows"),
)

LATENCY_CASES = (
    *("quarter-gib-1024-fp16", "quarter-gib-4096-fp16", "quarter-gib-4096-bf16", "quarter-gib-16384-fp16"),
    *("quarter-gib-8192-fp32", "quarter-gib-65536-bf16", "attention-8k-bf16"),
    *("attention-32k-fp32", "attention-32k-fp16", "attention-32k-bf16"),
    *("vocabulary-fp16", "vocabulary-bf16"),
)

DRAWS = {
    "last": last_dominates,
    "rising": rising,
    "late": late_values,
    "1e4": near_ten_thousand,
    "far-below": far_below,
    "tower": tower,
    "special": special_rows,
}

GRID = {
    "rows": (1, 2, 4, 16, 64),
    "chunk": (32, 64, 128, 256, 384, 512, 768),
    "threads": (64, 96, 128, 256, 384, 512),
    "pass_configs": ({}, {"tl.enable_fast_math": True}),
}

TUNING = {
    "rows": (1, 2, 4, 8, 16),
    "chunk": (128, 256, 512, 1024, 2048, 3072, 4096, 5120, 6144, 8192, 10240, 12288, 16384, 32768),
    "threads": (64, 128, 256, 512, 1024),
}

SPEC = KernelSpec(
    name="softmax",
    program=program,
    reference=reference,
    outputs=("Y",),
    cases=CASES,
    default_schedule=default_schedule,
    legal=legal,
    cost=cost,
    draws=DRAWS,
    vendor={"torch": eager, "torch.compile": compiled},
    grid=GRID,
    grid_cases=("grid-tails-fp16", "grid-whole-fp32"),
    latency_cases=LATENCY_CASES,
    landmarks=landmarks,
    shared_memory=shared_memory,
    code_cases=("attention-8k-bf16", "vocabulary-fp16", "n-8191-fp32", "n-128-fp32"),
    tuning=TUNING,
    tuning_cases=("attention-8k-bf16", "attention-32k-bf16", "attention-32k-fp32", "vocabulary-bf16"),
    tiling=tiling,
)
