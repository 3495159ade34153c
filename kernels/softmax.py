"""Softmax over the rows of a matrix.

    Y[i, j] = exp(X[i, j] - max_j X[i, j]) / sum_j exp(X[i, j] - max_j X[i, j])

Contract
    X, Y: (M, N), N at least 1, fp32, fp16 or bf16, computed in fp32. As in torch, a row that holds NaN or
    +inf, or only -inf, is NaN throughout; any other -inf gives 0. The maximum is subtracted before anything
    is scaled, so that values of 1e4 cost no accuracy.

Tiling
    A block owns `rows` rows, and takes them in chunks that fit its registers. The last one stays there until
    it is written. Those before it wait in shared memory (`staged`), or are read again.
    Threads weigh their values by maxima of their own. Those of a row exchange maximum and sum once, and their
    weights then count by exp(own maximum - the row's): online normalization (Milakov and Gimelshein,
    arXiv:1805.02867), over threads as over chunks. Weights of equal values may differ by its roundings.

Few long rows
    One block to a row would leave most multiprocessors idle. On Hopper a `cluster` of blocks holds a row, one
    chunk each, and their warps exchange maxima and sums through each other's shared memory: 4 rows of 102400
    in bf16 take an H200 4 us. Without clusters each block reads all of the row, for its sum, and writes a
    `share` of it: 8 us.

Early launch
    From Hopper on, blocks of the next launch may start while those of this one end, and wait with their
    accesses until it has ended (programmatic dependent launch).
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass

import torch

from tilecheck.arches import Arch
from tilecheck.dtypes import dtype as element
from tilecheck.fields import short_repr
from tilecheck.landmarks import Landmark, global_accesses, present
from tilecheck.spec import Case, Cost, KernelSpec, Reference, Term
from tilecheck.tiling import Tiling

LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class Schedule:
    """rows: of a block.  chunk: columns of each that it holds in registers at a time.  threads: of a block.
    share: columns that a block writes of a row longer than a chunk; 0: all.
    staged: chunks wait in shared memory to be written.  cluster: blocks that hold a row, one chunk each.
    """

    rows: int
    chunk: int
    threads: int
    share: int = 0
    staged: bool = False
    cluster: int = 1

    def __repr__(self) -> str:
        return short_repr(self, "share", "staged", "cluster")


def default_schedule(M: int, N: int, dtype: str, arch: Arch) -> Schedule:
    """Up to 40 values a thread, in loads of 16 bytes; on Hopper 32 bytes of a row of one chunk, as far as
    1024 threads go.
    """
    vector, hopper = _vector(N, dtype), arch.capability == (9, 0)

    def whole_loads(columns: float, threads: int) -> int:
        return math.ceil(columns / (threads * vector)) * threads * vector

    few = M <= 32
    # Of 32768 values of two bytes, half wait in shared memory: 274 -> 257 us on H200.
    longest = 16384 if hopper and not few and element(dtype).bytes == 2 else 32768
    if longest >= N:
        values = 32 // element(dtype).bytes if hopper and N >= 1024 else 32
        team = min(1024, 1 << (math.ceil(max(N / values, min(32, N / vector))) - 1).bit_length())
        threads = max(128, team)
        return Schedule(threads // team, whole_loads(N, team), threads)
    if hopper and few and N <= 16 * 512 * 40:
        return Schedule(1, whole_loads(N / 16, 512), 512, cluster=16)
    if hopper and not few:
        # Two blocks to a multiprocessor, or one, each with a row: 64 registers and 224 bytes for a thread.
        for threads in (512, 1024):
            chunk = whole_loads(N / math.ceil(N / (threads * 32)), threads)
            if (math.ceil(N / chunk) - 1) * chunk * element(dtype).bytes <= 224 * threads:
                return Schedule(1, chunk, threads, staged=True)
    chunk = whole_loads(N / math.ceil(N / (512 * 40)), 512)
    # Few rows have 64 blocks: more would crowd L2.
    return Schedule(1, chunk, 512, min(whole_loads(M * N / 64, 512), chunk) if few else 0)


def _vector(N: int, dtype: str) -> int:
    """Values of a load: 16 bytes, or what rows are aligned to."""
    size = element(dtype).bytes
    return math.gcd(16, N * size) // size


def legal(N: int, dtype: str, schedule: Schedule, arch: Arch) -> None:
    """ValueError, with the reason, where `schedule` cannot compute rows of N values of `dtype` on `arch`."""
    rows, chunk, threads, share, staged, cluster = astuple(schedule)
    if dtype not in ("float32", "float16", "bfloat16"):
        raise ValueError(f"dtype {dtype} is none of float32, float16, bfloat16")
    # Reductions over threads go by halves; other counts than powers of two lose lanes (tilelang #2542).
    if threads not in (32, 64, 128, 256, 512, 1024):
        raise ValueError(f"threads={threads} must be a power of two from 32 to 1024")
    if not 1 <= rows <= threads or rows & (rows - 1):
        raise ValueError(f"rows={rows} must be a power of two, up to threads={threads}")
    width = threads // rows * _vector(N, dtype)
    if chunk < 1 or chunk % width:
        raise ValueError(f"chunk={chunk} must be a multiple of {width}, what threads={threads} load at once")
    # Half of the registers for the values; the rest holds what has just been loaded, and addresses.
    values, most = rows * chunk // threads, 32 if staged else min(64, arch.registers_per_sm // threads // 2)
    if values > most:
        raise ValueError(f"rows={rows} x chunk={chunk} is {values} values for each of {threads}, over {most}")
    if share % width or not 0 <= share <= (chunk if chunk < N else 0):
        raise ValueError(f"share={share} must be 0, or with chunk={chunk} under {N} up to that, by {width}")
    if staged and (chunk >= N or share):
        raise ValueError(f"{staged=} is for blocks that write all of rows of {N}: {chunk=}, {share=}")
    largest = _largest_cluster(arch)
    if not 1 <= cluster <= largest or cluster & (cluster - 1):
        raise ValueError(f"cluster={cluster} must be a power of two up to {largest} on {arch.name}")
    if cluster > 1 and (rows > 1 or staged or share or chunk * cluster < N):
        raise ValueError(f"{cluster=} holds one row of {N} in chunks: {rows=}, {chunk=}, {share=}, {staged=}")
    # Where less than a warp sends maxima and sums, TileLang 0.1.15 warns of barriers that it cannot place.
    if cluster > 1 and threads < 512:
        raise ValueError(f"{cluster=} takes 512 or 1024 threads, not {threads}")
    shared = shared_memory(N, dtype, rows, chunk, threads, staged, cluster)
    if shared > arch.shared_per_block:
        raise ValueError(f"chunk={chunk} staged of {N} takes {shared} bytes, over {arch.shared_per_block}")


def _largest_cluster(arch: Arch) -> int:
    """8 is portable; data centre GPUs take 16 (CUDA C++ Programming Guide 13.0, thread block clusters)."""
    return 1 if arch.capability < (9, 0) else 16 if arch.capability < (12, 0) else 8


def shared_memory(N: int, dtype: str, rows: int, chunk: int, threads: int, staged: bool, cluster: int) -> int:
    """A maximum and a sum of each warp, where several share a row, and of each of the cluster; what waits."""
    notes = threads // 4 * (1 + (cluster if cluster > 1 else 0)) if threads // rows > 32 else 0
    waiting = (math.ceil(N / chunk) - 1) * rows * chunk * element(dtype).bytes if staged else 0
    return notes + waiting


def program(M, N, dtype, rows, chunk, threads, share, staged, cluster, arch):
    import tilelang.language as T

    team, vector = threads // rows, _vector(N, dtype)  # threads of a row; values of a load
    lanes, warps, width = min(32, team), max(1, team // 32), team * vector  # of a warp, of a row, of a load
    # Blocks of a row; chunks that each reads, of how many; pieces that it looks at again, to write them.
    parts = math.ceil(N / share) if share else cluster
    chunks = cluster if cluster > 1 else math.ceil(N / chunk)
    looks = 1 if cluster > 1 else chunks
    pieces, piece = (1, share) if share else (looks - 1, chunk)

    def column(i, w, t, v):
        return ((i * warps + w % warps) * lanes + t) * vector + v

    def start_of(c, part):
        # Round from behind its share: the blocks of a row do not all wait for the same chunk.
        return ((part * share // chunk + 1 if share else part) + c) % chunks * chunk

    @T.prim_func
    def softmax(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        clusters = (cluster, 1, 1) if cluster > 1 else None
        with T.Kernel(T.ceildiv(M, rows) * parts, threads=threads, cluster_dims=clusters) as block:
            tile = T.alloc_fragment((chunk // width, rows * warps, lanes, vector), "float32")
            folded = T.alloc_fragment((rows * warps, lanes, vector), "float32")
            top = T.alloc_fragment((rows * warps, lanes), "float32")  # of a thread, so far
            old_top = T.alloc_fragment((rows * warps, lanes), "float32")
            total = T.alloc_fragment((rows * warps, lanes), "float32")  # so far, relative to `top`
            warp_top = T.alloc_fragment((rows * warps,), "float32")
            warp_total = T.alloc_fragment((rows * warps,), "float32")
            first, part = block // parts * rows, block % parts
            if arch.capability >= (9, 0):
                T.pdl_trigger()  # the next launch may start
                T.pdl_sync()  # the one before has ended, and what it wrote is there
            if cluster > 1:
                T.cluster_arrive_relaxed()  # this block has begun
            if staged:
                T.annotate_min_blocks_per_sm(max(1, 1024 // threads))  # 64 registers a thread
                waiting = T.alloc_shared((chunks - 1, *tile.shape), dtype)
            T.clear(total)
            # Not -inf: a thread that begins with a chunk of -inf would get (-inf) - (-inf) and never recover.
            T.fill(top, T.min_value("float32"))

            for c in T.serial(looks):
                start = start_of(c, part)
                # Columns past the end weigh nothing: -inf, where a load out of bounds gives zero.
                for i, w, t, v in T.Parallel(*tile.shape):
                    value = T.cast(X[first + w // warps, start + column(i, w, t, v)], "float32")
                    inside = start + column(i, w, t, v) < N
                    tile[i, w, t, v] = T.if_then_else(inside, value, -T.infinity("float32"))
                if staged and c < chunks - 1:
                    for i, w, t, v in T.Parallel(*tile.shape):
                        waiting[c, i, w, t, v] = T.cast(tile[i, w, t, v], dtype)
                # The maximum may pass over a NaN; the sum brings it back to the whole row.
                T.copy(top, old_top)
                T.reduce_max(tile, folded, dim=0)
                T.reduce_max(folded, top, dim=2, clear=False)
                for i, w, t, v in T.Parallel(*tile.shape):
                    tile[i, w, t, v] = T.exp2((tile[i, w, t, v] - top[w, t]) * LOG2E)
                for w, t in T.Parallel(rows * warps, lanes):
                    total[w, t] *= T.exp2((old_top[w, t] - top[w, t]) * LOG2E)
                T.reduce_sum(tile, folded, dim=0)
                T.reduce_sum(folded, total, dim=2, clear=False)

            # Threads of a warp exchange maximum and sum by shuffles,
            T.reduce_max(top, warp_top, dim=1)
            for w, t in T.Parallel(rows * warps, lanes):
                total[w, t] *= T.exp2((top[w, t] - warp_top[w]) * LOG2E)
            T.reduce_sum(total, warp_total, dim=1)
            row_top, row_total = warp_top, warp_total
            # and warps of a row through shared memory: their block's, and that of the others of a cluster.
            if warps > 1:
                notes = T.alloc_shared((1, 2, rows * warps), "float32")
                tops = T.alloc_fragment((rows, warps), "float32")
                totals = T.alloc_fragment((rows, warps), "float32")
                row_top = T.alloc_fragment((rows,), "float32")
                row_total = T.alloc_fragment((rows,), "float32")
                T.copy(warp_top, notes[0, 0, :])
                T.copy(warp_total, notes[0, 1, :])
                if cluster > 1:
                    own_notes = notes
                    notes = T.alloc_shared((cluster, 2, rows * warps), "float32")
                    T.sync_threads()
                    T.cluster_wait()  # all blocks have begun
                    for p in T.unroll(cluster):
                        T.copy_cluster(own_notes, notes[part, 0, 0], dst_block=p)
                    T.cluster_sync()
                # Read in one loop, and none filled first: else TileLang 0.1.15 shares several rows out so
                # badly that registers spill, and a launch takes 88 times as long.
                for r, w in T.Parallel(rows, warps):
                    tops[r, w] = notes[0, 0, r * warps + w]
                    totals[r, w] = notes[0, 1, r * warps + w]
                for p in T.unroll(1, cluster):
                    for r, w in T.Parallel(rows, warps):
                        tops[r, w] = T.max(tops[r, w], notes[p, 0, r * warps + w])
                T.reduce_max(tops, row_top, dim=1)
                for r, w in T.Parallel(rows, warps):
                    totals[r, w] *= T.exp2((notes[0, 0, r * warps + w] - row_top[r]) * LOG2E)
                for p in T.unroll(1, cluster):
                    for r, w in T.Parallel(rows, warps):
                        weight = T.exp2((notes[p, 0, r * warps + w] - row_top[r]) * LOG2E)
                        totals[r, w] += notes[p, 1, r * warps + w] * weight
                T.reduce_sum(totals, row_total, dim=1)

            # The last chunk is still in registers.
            last = start_of(looks - 1, part)
            if not share:
                # From a thread's maximum to that of its row, and to its share of the sum: one factor.
                for w, t in T.Parallel(rows * warps, lanes):
                    total[w, t] = T.exp2((top[w, t] - row_top[w // warps]) * LOG2E) / row_total[w // warps]
                for i, w, t, v in T.Parallel(*tile.shape):
                    Y[first + w // warps, last + column(i, w, t, v)] = tile[i, w, t, v] * total[w, t]
            # Those before it, backwards: what was read last is still in L1, or in L2.
            for p in T.serial(pieces):
                start = part * piece if share else last - (p + 1) * piece
                for i, w, t, v in T.Parallel(piece // width, rows * warps, lanes, vector):
                    if staged:
                        value = T.cast(waiting[pieces - 1 - p, i, w, t, v], "float32")
                    else:
                        value = T.cast(X[first + w // warps, start + column(i, w, t, v)], "float32")
                    weight = T.exp2((value - row_top[w // warps]) * LOG2E)
                    Y[first + w // warps, start + column(i, w, t, v)] = weight / row_total[w // warps]

    return softmax


def reference(X, N):
    value = torch.softmax(X, dim=1)
    size = value.nan_to_num(0.0)
    # An exponent is rounded three times: the difference, log2(e), their product; those of factors add to it.
    exponent_error = (X.amax(dim=1, keepdim=True) - X) * 3 * 2.0**-24
    moved = torch.where(size > 0, size * exponent_error, 0.0)
    terms = (
        Term("exponents", 1.0, moved + size * moved.sum(dim=1, keepdim=True)),
        # Above the line a weight and a factor; below it a weight, and the factors of its thread and its warp.
        Term("ex2.approx, five times: 2 ulp each at most", 5 * 4 * 2.0**-24, size),
        Term("three products, and a quotient: 2 ulp where it is approximate", 7 * 2.0**-24, size),
        # A thread adds 64 values at most one by one, up as often as down: what is left is less than a tree's.
        Term("sum, and rescaling from chunk to chunk", (math.log2(N) + N / 2048) * 2.0**-24, size),
    )
    return Reference(value, terms)


def cost(M, N, dtype):
    """A value is compared, subtracted, scaled, raised, added and divided."""
    return Cost(6 * M * N, 2 * M * N * element(dtype).bytes)


def landmarks(N: int, dtype: str, rows: int, threads: int, cluster: int) -> Iterator[Landmark]:
    """Accesses as wide as rows allow, exp2 in hardware, one exchange in a warp, and one between warps."""
    unit, barriers = math.gcd(16, N * element(dtype).bytes), int(threads // rows > 32)
    yield from global_accesses(loads=unit, stores=unit)
    yield present("exponentials", "MUFU.EX2", "exp2 takes many instructions instead of one")
    yield Landmark("shuffles", "SHFL", int(threads > rows), why="lanes exchange values through memory")
    if cluster > 1:
        yield Landmark("cluster", "ST", cluster, why="blocks do not write into each other's shared memory")
    else:
        why = "warps of a row wait for each other once, others never"
        yield Landmark("barriers", "BAR", barriers, barriers, why)


def tiling(M, N, dtype, rows, chunk, threads, share, staged, cluster):
    """A block looks at some of what it has read again, to write it."""
    size, values = element(dtype).bytes, rows * chunk
    looks = 1 if cluster > 1 else math.ceil(N / chunk)
    again = rows * share if share else values * (looks - 1)
    read_again = 0 if staged else again
    return Tiling(
        blocks=math.ceil(M / rows) * (math.ceil(N / share) if share else cluster),
        threads=threads,
        flops=6 * values * looks + 4 * again,
        bytes=(values * looks + read_again + (again if share else values * looks)) * size,
        steps=looks + math.ceil(read_again / values),
        registers=values // threads * (4 + size) // 4 + 24,
        shared=2 * again * size if staged else 0,
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
    """Where fp32 holds no exp(x), the last column 8 above the rest, not to be outweighed by zeros past it."""
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
    # One pass. Up to 32 lanes hold a row in loads of up to 16 bytes, then more loads, then more warps.
    *rows(ALL, "n-1", {"M": 5, "N": 1}, "one column: all ones"),
    *rows(F16, "one-element", {"M": 1, "N": 1}, "the smallest matrix"),
    *rows(F32, "n-2", {"M": 3, "N": 2}, "rows that start off 16-byte boundaries: loads of 8 bytes"),
    *rows(F16, "n-31", {"M": 33, "N": 31}, "an idle lane; rows for many blocks, and 1"),
    *rows(B16, "n-32", {"M": 31, "N": 32}, "4 lanes a row; a block of 32 rows, less 1"),
    *rows(F32, "n-33", {"M": 17, "N": 33}, "a second load for one column"),
    *rows(ALL, "n-127", {"M": 9, "N": 127}, "prime; loads of a value"),
    *rows(F32, "n-128", {"M": 8, "N": 128}, "a load a lane, without tails"),
    *rows(F16, "n-129", {"M": 5, "N": 129}, "power of two, and 1"),
    *rows(F16, "n-1000", {"M": 7, "N": 1000}, "tail of whole 16-byte loads"),
    *rows(B16, "n-1023", {"M": 3, "N": 1023}, "most loads of a warp, less 1"),
    *rows(ALL, "n-1024", {"M": 4, "N": 1024}, "longest row of a warp: no barrier; on Hopper of more"),
    *rows(
        F32,
        "n-1025",
        {"M": 2, "N": 1025},
        "shortest row of two warps, on Hopper of eight",
    ),
    *rows(F16, "n-5000", {"M": 3, "N": 5000}, "tail of whole loads, over warps"),
    *rows(F32, "n-8191", {"M": 2, "N": 8191}, "prime; 32 values a thread, on Hopper 8"),
    *rows(F16, "n-32768", {"M": 2, "N": 32768}, "longest row that stays in registers"),
    # Chunk by chunk: up to 32 rows in shares, or on Hopper by clusters; more rows in a block each.
    *rows(ALL, "n-32769", {"M": 2, "N": 32769}, "shortest row of several blocks; tails of chunk and share"),
    *rows(F16, "n-49152", {"M": 2, "N": 49152}, "whole chunks, whole shares"),
    *rows(F32, "n-50021", {"M": 1, "N": 50021}, "prime"),
    *rows(B16, "n-65535", {"M": 2, "N": 65535}, "whole chunks, less 1"),
    *rows(B16, "n-32780", {"M": 33, "N": 32780}, "a block for each row; on Hopper its chunks wait"),
    *rows(
        F16,
        "n-71681",
        {"M": 33, "N": 71681},
        "on Hopper, shortest odd row that takes a multiprocessor",
    ),
    *rows(F32, "n-86017", {"M": 33, "N": 86017}, "shortest that it cannot hold: chunks are read again"),
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
    *rows(F32, "rising-chunks", {"M": 33, "N": 40000}, "every chunk rescales, in one block", draw="rising"),
    *rows(F32, "late-values-chunks", {"M": 33, "N": 50000}, "chunks of -inf wait", draw="late"),
    *rows(B16, "special-chunks", {"M": 33, "N": 33000}, "in one block: as torch", draw="special"),
    *rows(F32, "tower-online", {"M": 2, "N": 49153}, "a column that outweighs three chunks", draw="tower"),
    *rows(F32, "one-hot", {"M": 20, "N": 160}, "all weight in one place", draw="one-hot"),
    *rows(F16, "integers", {"M": 4, "N": 400}, "several maxima", draw="integers"),
    *rows(F32, "cancelling", {"M": 4, "N": 400}, "weights within a factor of 20", draw="cancelling"),
    # Under every schedule of the grid: one pass, or several chunks, by block or in shares.
    *rows(F16, "grid-tails", {"M": 149, "N": 297}, "blocks with a row or column too few; many blocks"),
    *rows(F32, "grid-whole", {"M": 64, "N": 384}, "1 to 6 whole chunks"),
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
    *("attention-32k-fp32", "attention-32k-fp16", "attention-32k-bf16", "vocabulary-fp16", "vocabulary-bf16"),
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
    "chunk": (32, 64, 128, 256, 384, 512, 768, 1024),
    "threads": (32, 64, 96, 128, 256, 512),
    "share": (0, 32, 128, 256),
    "staged": (False, True),
    "cluster": (1, 2, 8),
    "pass_configs": ({}, {"tl.enable_fast_math": False}),
}

TUNING = {
    "rows": (1, 2, 4, 8),
    "chunk": (512, 1024, 2048, 4096, 8192, 10240, 12288, 16384, 20480, 32768),
    "threads": (64, 128, 256, 512, 1024),
    "share": (0, 2048, 4096, 8192, 12288, 16384, 20480),
    "staged": (False, True),
    "cluster": (1, 8, 16),
}

SPEC = KernelSpec(
    name="softmax",
    program=program,
    reference=reference,
    outputs=("Y",),
    cases=CASES,
    default_schedule=default_schedule,
    pass_configs={"tl.enable_fast_math": True},  # exp2 as one ex2.approx.ftz, which the terms count
    legal=legal,
    cost=cost,
    draws=DRAWS,
    vendor={"torch": eager, "torch.compile": compiled},
    grid=GRID,
    grid_cases=("grid-tails-fp16", "grid-whole-fp32"),
    latency_cases=LATENCY_CASES,
    landmarks=landmarks,
    shared_memory=shared_memory,
    code_cases=(
        *("quarter-gib-1024-fp16", "attention-8k-bf16", "n-32780-bf16"),
        *("vocabulary-fp16", "n-8191-fp32", "n-128-fp32"),
    ),
    tuning=TUNING,
    tuning_cases=("attention-8k-bf16", "attention-32k-bf16", "attention-32k-fp32", "vocabulary-bf16"),
    tiling=tiling,
)
