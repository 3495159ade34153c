"""Programs of the kinds that were reported to TileLang as miscompiled, one kernel a report.

The number in a kernel's name is that of the report: github.com/tile-ai/tilelang/issues/NUMBER, or of
tile-ai/TileOPs for `tileops_NUMBER`. The programs
are our own, and right by what TileLang documents: what they should give is what a reader expects of them.
Some of the reports are mended in the version we pin, others not; the ledger `known_issues.toml` says which.
Where inputs allow it they are small integers, so that sums are exact and one element lost or taken twice
shows.
"""

from collections.abc import Callable
from typing import Any

import torch

from kernels import flash_attention
from tilecheck.spec import Case, KernelSpec, Reference

IN_FP32 = {"C": "float32"}
NO_WARP_SPECIALIZATION = {"tl.disable_warp_specialized": True}


def case(id: str, why: str, dtype: str = "float16", draw: str = "integers", **dims: int) -> Case:
    return Case(id, dims, dtype, why=why, draw=draw)


def bug(
    number: int, program: Callable[..., Any], reference: Callable[..., Any], *cases: Case, **more: Any
) -> KernelSpec:
    return KernelSpec(f"bug_{number}", program, reference, cases, **more)


def exact(value: torch.Tensor, dtype: torch.dtype = torch.float32) -> Reference:
    return Reference(value.to(dtype), exact=True)


# Products


def gemm(M, N, K, block_m, block_n, block_k, stages, threads, dtype):
    import tilelang.language as T

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=threads) as (bx, by):
            a = T.alloc_shared((block_m, block_k), dtype)
            b = T.alloc_shared((block_k, block_n), dtype)
            c = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_k), num_stages=stages):
                T.copy(A[by * block_m, k * block_k], a)
                T.copy(B[k * block_k, bx * block_n], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block_m, bx * block_n])

    return gemm


def product(A, B):
    return exact(A @ B)


def gemm_case(id, why, M=64, N=64, K=64, block_k=0, stages=0, threads=128):
    tiles = {"block_m": M, "block_n": N, "block_k": block_k or K, "stages": stages, "threads": threads}
    return Case(id, {"M": M, "N": N, "K": K}, "float16", tiles, why=why, draw="integers")


def gemm_of_fragments(M, N, K, shared_a, dtype):
    import tilelang.language as T

    @T.prim_func
    def gemm_of_fragments(
        A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K), dtype) if shared_a else T.alloc_fragment((M, K), dtype)
            b = T.alloc_fragment((N, K), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.fill(c, 7)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    return gemm_of_fragments


def product_with_transposed(A, B):
    return exact(A @ B.T)


def two_pipelines(M, N, K, first, second, dtype):
    import tilelang.language as T

    @T.prim_func
    def two_pipelines(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, 32), dtype)
            b = T.alloc_shared((32, N), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            for k in T.Pipelined(K // 64, num_stages=first):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            for k in T.Pipelined(K // 64, num_stages=second):
                T.copy(A[0, K // 2 + k * 32], a)
                T.copy(B[K // 2 + k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return two_pipelines


def cleared_before_pipeline(M, N, K, stages, dtype):
    import tilelang.language as T

    @T.prim_func
    def cleared_before_pipeline(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, 32), dtype)
            b = T.alloc_shared((32, N), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.clear(a)
            T.clear(b)
            T.clear(c)
            for k in T.Pipelined(K // 32, num_stages=stages):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return cleared_before_pipeline


def cleared_scratch(M, N, K, stages, dtype):
    import tilelang.language as T

    @T.prim_func
    def cleared_scratch(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, 32), dtype)
            b = T.alloc_shared((32, N), dtype)
            scratch = T.alloc_shared((M, N), "float32")
            c = T.alloc_fragment((M, N), "float32")
            T.clear(scratch)
            T.clear(c)
            for k in T.Pipelined(K // 32, num_stages=stages):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(M, N):
                scratch[i, j] = c[i, j]
            T.copy(scratch, C)

    return cleared_scratch


def used_after_pipeline(M, N, K, stages, dtype):
    import tilelang.language as T

    @T.prim_func
    def used_after_pipeline(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, 32), "float32")
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, 32), dtype)
            b = T.alloc_shared((32, N), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            for k in T.Pipelined(K // 32, num_stages=stages):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            # What the last trip loaded.
            for i, j in T.Parallel(M, 32):
                C[i, j] = a[i, j] * 2

    return used_after_pipeline


# Pipelines


def single_trip(M, N, trips, stages, dtype):
    import tilelang.language as T

    @T.prim_func
    def single_trip(A: T.Tensor((trips * M, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, N), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            for k in T.Pipelined(trips, num_stages=stages):
                T.copy(A[k * M, 0], a)
                for i, j in T.Parallel(M, N):
                    c[i, j] += a[i, j]
            T.copy(c, C)

    return single_trip


def sum_of_tiles(A, M, trips):
    return exact(A.view(trips, M, -1).sum(0))


def read_then_overwritten(M, N, trips, stages, dtype):
    import tilelang.language as T

    @T.prim_func
    def read_then_overwritten(A: T.Tensor(((trips + 1) * M, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, N), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            T.copy(A[0, 0], a)
            for k in T.Pipelined(trips, num_stages=stages):
                for i, j in T.Parallel(M, N):
                    c[i, j] += a[i, j]
                T.copy(A[(k + 1) * M, 0], a)
            T.copy(c, C)

    return read_then_overwritten


def sum_of_all_but_the_last(A, M, trips):
    return exact(A.view(trips + 1, M, -1)[:-1].sum(0))


# Copies


def through_shared(N, dtype, threads):
    import tilelang.language as T

    @T.prim_func
    def through_shared(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((N,), dtype)
            T.copy(A, a)
            T.copy(a, C)

    return through_shared


def identity(A, dtype):
    return exact(A, getattr(torch, dtype))


def partial_tiles(N, block, dtype):
    import tilelang.language as T

    @T.prim_func
    def partial_tiles(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            a = T.alloc_shared((block,), dtype)
            T.copy(A[bx * block], a)
            T.copy(a, C[bx * block])

    return partial_tiles


def padded_tile(M, N, pitch, dtype):
    import tilelang.language as T

    @T.prim_func
    def padded_tile(A: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, pitch), dtype)
            T.copy(A, a[:, :N])
            # Element by element: only the copy into the padded tile is under test.
            for i, j in T.Parallel(M, N):
                C[i, j] = a[i, j]

    return padded_tile


def safe_value(N, block, dtype):
    import tilelang.language as T

    @T.prim_func
    def safe_value(A: T.Tensor((N, N), dtype), C: T.Tensor((block, block), dtype)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((block, block), dtype)
            T.annotate_safe_value({A: -99})
            T.copy(A[0:block, 0:block], a)
            T.copy(a, C)

    return safe_value


def padded_with_safe_value(A, N, block):
    return exact(torch.nn.functional.pad(A, (0, block - N, 0, block - N), value=-99), torch.int32)


def filled_in_part(N, dtype):
    import tilelang.language as T

    @T.prim_func
    def filled_in_part(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((N,), dtype)
            T.copy(A, a)
            T.fill(a[10:30], 7)
            T.copy(a, C)

    return filled_in_part


def with_sevens(A, dtype):
    filled = A.clone()
    filled[10:30] = 7
    return exact(filled, getattr(torch, dtype))


# Loops


def shorter_loop_between(N, short, dtype):
    import tilelang.language as T

    @T.prim_func
    def shorter_loop_between(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((N,), dtype)
            for i in T.Parallel(N):
                f[i] = A[i]
            for i in T.Parallel(short):
                f[i] += 1
            for i in T.Parallel(N):
                C[i] = f[i]

    return shorter_loop_between


def first_ones_raised(A, short):
    raised = A.clone()
    raised[:short] += 1
    return exact(raised)


def table_by_remainder(M, N, period, dtype):
    import tilelang.language as T

    @T.prim_func
    def table_by_remainder(A: T.Tensor((period,), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(M, N):
                C[i, j] = A[j % period]

    return table_by_remainder


def repeated_table(A, M, N, period):
    return exact(A[torch.arange(N, device=A.device) % period].expand(M, N))


def fragment_row_by_row(M, N, dtype):
    import tilelang.language as T

    @T.prim_func
    def fragment_row_by_row(A: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((M, N), dtype)
            T.copy(A, f)
            # Parallel within: serial loops alone are no way to read a fragment, whose elements lie in
            # different threads (TileLang's #2393 and #2462).
            for i in T.serial(M):
                for j in T.Parallel(N):
                    C[i, j] = f[i, j]

    return fragment_row_by_row


def vectorized_from(N, start, dtype):
    import tilelang.language as T

    @T.prim_func
    def vectorized_from(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=1):
            for i in T.serial(start):
                C[i] = A[i]
            for i in T.vectorized(start, N):
                C[i] = A[i]

    return vectorized_from


def persistent(rows, columns, blocks, dtype):
    import tilelang.language as T

    @T.prim_func
    def persistent(
        A: T.Tensor((rows * 16, columns * 16), dtype), C: T.Tensor((rows * 16, columns * 16), dtype)
    ):
        with T.Kernel(blocks, threads=128) as block:
            for by, bx in T.Persistent([rows, columns], blocks, block):
                for i, j in T.Parallel(16, 16):
                    C[by * 16 + i, bx * 16 + j] = A[by * 16 + i, bx * 16 + j]

    return persistent


# Reductions


def row_sums(M, N, threads, dtype):
    import tilelang.language as T

    @T.prim_func
    def row_sums(A: T.Tensor((M, N), dtype), C: T.Tensor((M,), dtype)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment((M, N), dtype)
            c = T.alloc_fragment((M,), dtype)
            T.copy(A, a)
            T.reduce_sum(a, c, dim=1)
            T.copy(c, C)

    return row_sums


def sums_of_rows(A):
    return exact(A.sum(1))


def column_maxima(M, N, threads, dtype):
    import tilelang.language as T

    @T.prim_func
    def column_maxima(A: T.Tensor((M * M, N), dtype), C: T.Tensor((M * N,), dtype)):
        with T.Kernel(M, threads=threads) as bx:
            a = T.alloc_fragment((M, N), dtype)
            c = T.alloc_fragment((N,), dtype)
            T.copy(A[bx * M, 0], a)
            T.reduce_max(a, c, dim=0)
            T.copy(c, C[bx * N])

    return column_maxima


def maxima_of_columns(A, M, N):
    return exact(A.view(M, M, N).amax(1).flatten())


def peak_in_each_row(M, N):
    """A tile for each place where the largest may be, so that each element lost shows."""
    return {"A": torch.diag(1.0 + torch.arange(M)).view(M * M, 1) + torch.arange(N)}


def batched_sums(M, N, threads, batch, dtype):
    import tilelang.language as T

    @T.prim_func
    def batched_sums(A: T.Tensor((M, N), dtype), C: T.Tensor((M,), dtype)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment((M, N), dtype)
            c = T.alloc_fragment((M,), dtype)
            T.copy(A, a)
            T.reduce_sum(a, c, dim=1, batch=batch)
            T.copy(c, C)

    return batched_sums


def largest_magnitude(N, block, threads, dtype):
    import tilelang.language as T

    @T.prim_func
    def largest_magnitude(A: T.Tensor((N, N), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(N, threads=threads) as bx:
            a = T.alloc_fragment((1, block), dtype)
            c = T.alloc_fragment((1,), dtype)
            for i, j in T.Parallel(1, block):
                a[i, j] = T.if_then_else(j < N, A[bx, j], T.cast(0, dtype))
            T.reduce_absmax(a, c, dim=1)
            T.copy(c, C[bx])

    return largest_magnitude


def magnitudes(A):
    return exact(A.abs().amax(1))


def peak_in_each_column(N):
    """A row for each place where the largest may be, so that each element lost shows."""
    return {"A": torch.diag(-1.0 - torch.arange(N))}


def reducer(M, N, block_n, threads, dtype):
    import tilelang.language as T

    @T.prim_func
    def reducer(A: T.Tensor((M, N), dtype), C: T.Tensor((M,), dtype)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, block_n), dtype)
            c = T.alloc_fragment((M,), dtype)
            acc = T.alloc_reducer((M,), dtype, op="sum")
            T.reducer_init(acc)
            for k in T.serial(N // block_n):
                T.copy(A[0, k * block_n], a)
                for i, j in T.Parallel(M, block_n):
                    T.reducer_update(acc[i], a[i, j])
            T.finalize_reducer(acc, c)
            T.copy(c, C)

    return reducer


def running_sums(M, N, width, threads, dtype):
    import tilelang.language as T

    @T.prim_func
    def running_sums(A: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, N), dtype)
            T.copy(A, a)
            T.cumsum(src=a[0:M, 0:width], dst=a[0:M, 0:width], dim=1)
            T.copy(a, C)

    return running_sums


def sums_up_to_width(A, width):
    return exact(torch.cat([A[:, :width].cumsum(1), A[:, width:]], 1))


# Barriers


def reversed_in_part(active, threads, dtype):
    import tilelang.language as T

    @T.prim_func
    def reversed_in_part(A: T.Tensor((active,), dtype), C: T.Tensor((active,), dtype)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((threads,), dtype)
            tx = T.get_thread_binding()
            if tx < active:
                a[tx] = A[tx]
                C[tx] = a[active - 1 - tx]

    return reversed_in_part


def backwards(A):
    return exact(A.flip(0))


def swapped_by_even_threads(N, dtype):
    import tilelang.language as T

    @T.prim_func
    def swapped_by_even_threads(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=N):
            a = T.alloc_shared((N,), dtype)
            tx = T.get_thread_binding()
            a[tx] = A[tx]
            # Ours, since TileLang puts none between two writes of one element: the reported one is that
            # which it put under the condition.
            T.sync_threads()
            if tx % 2 == 0:
                a[tx + 1] = a[tx]
            C[tx] = a[tx]

    return swapped_by_even_threads


def evens_twice(A):
    return exact(A[::2].repeat_interleave(2))


def sums_with_thread_bounds(N, dtype):
    import tilelang.language as T

    @T.prim_func
    def sums_with_thread_bounds(A: T.Tensor((N,), dtype), C: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64,), dtype)
            tx = T.get_thread_binding()
            a[tx] = 0
            for i in T.serial((N // 2 - tx - 1) // 64 + 1):
                for j in T.vectorized(2):
                    a[tx] += A[(i * 64 + tx) * 2 + j]
            C[tx] = a[tx]

    return sums_with_thread_bounds


def sums_of_pairs(A, N):
    pairs = A.view(-1, 2).sum(1)
    return exact(torch.nn.functional.pad(pairs, (0, -len(pairs) % 64)).view(-1, 64).sum(0))


def summed_by_every_fourth(N, trips, dtype):
    import tilelang.language as T

    @T.prim_func
    def summed_by_every_fourth(A: T.Tensor((N,), dtype), C: T.Tensor((N // 4,), dtype)):
        with T.Kernel(1, threads=N):
            a = T.alloc_shared((N,), dtype)
            c = T.alloc_local((1,), dtype)
            tx = T.get_thread_binding()
            c[0] = 0
            if tx % 4 == 0:
                for k in T.serial(trips):
                    a[tx] = A[tx] + k
                    c[0] += a[(tx + 4) % N]
                C[tx // 4] = c[0]

    return summed_by_every_fourth


def summed_in_two_steps(N, trips, dtype):
    import tilelang.language as T

    @T.prim_func
    def summed_in_two_steps(A: T.Tensor((N,), dtype), C: T.Tensor((N // 4,), dtype)):
        with T.Kernel(1, threads=N):
            a = T.alloc_shared((N,), dtype)
            c = T.alloc_local((1,), dtype)
            tx = T.get_thread_binding()
            c[0] = 0
            # All threads run the loop, so that barriers may stand in it, between the conditions.
            for k in T.serial(trips):
                if tx % 4 == 0:
                    a[tx] = A[tx] + k
                if tx % 4 == 0:
                    c[0] += a[(tx + 4) % N]
            if tx % 4 == 0:
                C[tx // 4] = c[0]

    return summed_in_two_steps


def summed_by_some(N, trips, steps, dtype):
    return (summed_in_two_steps if steps == 2 else summed_by_every_fourth)(N, trips, dtype)


def sums_of_neighbours(A, trips):
    return exact(A.roll(-4)[::4] * trips + trips * (trips - 1) / 2)


# Special values


def special(N, dtype):
    """Infinities, NaN, zeros of both signs, the largest finite value, and ordinary numbers between them."""
    values = [float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1.5, -2.0, 3e38, 65504.0, 1e6]
    return {"A": torch.tensor(values).repeat(-(-N // len(values)))[:N]}


def folded(N, minus_itself, dtype):
    import tilelang.language as T

    @T.prim_func
    def folded(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                C[i] = A[i] - A[i] if minus_itself else A[i] * 0.0

    return folded


def clamped(N, dtype):
    import tilelang.language as T

    @T.prim_func
    def clamped(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                C[i] = T.clamp(A[i], -1.0, 2.0)

    return clamped


def to_float8(N, dtype):
    import tilelang.language as T

    @T.prim_func
    def to_float8(A: T.Tensor((N,), dtype), C: T.Tensor((N,), "float8_e5m2")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                C[i] = T.cast(A[i], "float8_e5m2")

    return to_float8


def maximum_with_nan(M, N, dtype):
    import tilelang.language as T

    @T.prim_func
    def maximum_with_nan(A: T.Tensor((M, N), dtype), C: T.Tensor((M,), dtype)):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((M, N), dtype)
            c = T.alloc_fragment((M,), dtype)
            T.copy(A, a)
            T.fill(c, 200)
            T.reduce_max(a, c, dim=1, clear=False, nan_propagate=True)
            T.copy(c, C)

    return maximum_with_nan


def some_nan(M, N):
    values = torch.arange(M * N).view(M, N).half()
    values[::2, N // 2] = float("nan")
    return {"A": values}


def maxima_with_nan(A):
    return exact(A.amax(1).clamp(min=200), torch.float16)


# Author's mistakes that go unnoticed until there is a second block.


def never_cleared(M, N, K, dtype):
    import tilelang.language as T

    @T.prim_func
    def never_cleared(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(N // 64, M // 64, threads=128) as (bx, by):
            a = T.alloc_shared((64, K), dtype)
            b = T.alloc_shared((K, 64), dtype)
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A[by * 64, 0], a)
            T.copy(B[0, bx * 64], b)
            T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return never_cleared


NEVER_CLEARED = bug(
    2936,
    never_cleared,
    product,
    case("two-blocks", "no first value", M=64, N=128, K=64),
    dtypes=IN_FP32,
)


def attention_case(id: str, why: str, causal: bool, **dims: int) -> Case:
    return Case(id, {"batch": 1, "heads": 2, "kv_heads": 2, **dims}, "float16", {"causal": causal}, why=why)


def attention(number: int, *cases: Case) -> KernelSpec:
    ours = flash_attention.SPEC
    return KernelSpec(
        f"bug_{number}",
        ours.program,
        ours.reference,
        cases,
        default_schedule=ours.default_schedule,
        legal=ours.legal,
        cost=ours.cost,
    )


PIPELINED_ATTENTION = KernelSpec(
    "tileops_1852",
    flash_attention.program,
    flash_attention.reference,
    (
        attention_case(
            "causal",
            "a pipeline whose trip count depends on the block",
            True,
            q_len=296,
            k_len=296,
            head_dim=64,
        ),
        attention_case(
            "full",
            "the same pipeline, of as many trips in each block",
            False,
            q_len=296,
            k_len=296,
            head_dim=64,
        ),
    ),
    default_schedule=lambda: flash_attention.Schedule(block_m=64, block_n=64, stages=2, threads=128),
    cost=flash_attention.cost,
)
"""Two stages on every architecture, which `legal` of ours refuses where they do not compile."""

F32 = "float32"

SPECS = (
    bug(
        666,
        cleared_before_pipeline,
        product,
        case("stages-1", "one stage", M=64, N=64, K=128, stages=1),
        case("stages-3", "tiles cleared before a pipeline fills them", M=64, N=64, K=128, stages=3),
        dtypes=IN_FP32,
    ),
    attention(
        864,
        attention_case("short-q", "fewer queries than keys, causal", True, q_len=40, k_len=200, head_dim=64),
        attention_case("one-q", "one query of many keys, causal", True, q_len=1, k_len=129, head_dim=64),
    ),
    bug(
        1026,
        swapped_by_even_threads,
        evens_twice,
        case("even", "shared memory read and written under a condition on the thread", F32, N=64),
    ),
    bug(
        1106,
        sums_with_thread_bounds,
        sums_of_pairs,
        case("uneven", "a trip count that depends on the thread", F32, N=300),
    ),
    attention(
        1213,
        attention_case("296", "a tail of 40 keys", False, q_len=296, k_len=296, head_dim=96),
        attention_case("296-causal", "a tail of 40 keys, causal", True, q_len=296, k_len=296, head_dim=96),
    ),
    bug(
        2305,
        largest_magnitude,
        magnitudes,
        case(
            "576",
            "six elements a thread, of which the tail leaves four or five",
            F32,
            draw="peaks",
            N=576,
            block=768,
            threads=128,
        ),
        draws={"peaks": peak_in_each_column},
    ),
    bug(
        2309,
        two_pipelines,
        product,
        case("2-4", "tiles shared by pipelines of 2 and 4 stages", M=64, N=64, K=256, first=2, second=4),
        case("3-1", "tiles shared by pipelines of 3 stages and 1", M=64, N=64, K=256, first=3, second=1),
        case("3-3", "tiles shared by pipelines of as many stages", M=64, N=64, K=256, first=3, second=3),
        dtypes=IN_FP32,
    ),
    bug(
        2381,
        gemm,
        product,
        gemm_case("k24", "block_k is 8 past a multiple of 16", K=24),
        gemm_case("k40", "block_k is 8 past a multiple of 16", K=40),
        gemm_case("k56", "block_k is 8 past a multiple of 16", K=56),
        gemm_case("k24-mma", "the same on mma.sync: too few rows for wgmma", M=32, K=24),
        dtypes=IN_FP32,
    ),
    bug(
        2396,
        fragment_row_by_row,
        lambda A: exact(A),
        case("rows", "a fragment whose rows are read one by one", F32, M=16, N=16),
    ),
    bug(
        2399,
        row_sums,
        sums_of_rows,
        case("n96", "rows of 96 among 128 threads", F32, M=1, N=96, threads=128),
        case("n100", "rows of 100 among 128 threads", F32, M=1, N=100, threads=128),
        case("n127", "rows of a prime among 128 threads", F32, M=1, N=127, threads=128),
    ),
    bug(
        2408,
        reducer,
        sums_of_rows,
        case("n48", "tiles of 48 columns among 128 threads", F32, M=4, N=96, block_n=48, threads=128),
        case("n32", "tiles of 32 columns among 128 threads", F32, M=4, N=96, block_n=32, threads=128),
    ),
    bug(
        2433,
        persistent,
        lambda A: exact(A),
        case("12", "12 columns of tiles, in groups of 8", F32, rows=3, columns=12, blocks=4),
        case("5", "5 columns of tiles, in groups of 8", F32, rows=7, columns=5, blocks=3),
    ),
    bug(
        2523,
        running_sums,
        sums_up_to_width,
        case("part", "a part of each row", F32, M=8, N=64, width=32, threads=128),
    ),
    bug(
        2524,
        batched_sums,
        sums_of_rows,
        case("2-of-16", "two sums a call", F32, M=32, N=64, threads=128, batch=2),
        case("4-of-16", "rows of fewer threads than the block", F32, M=64, N=64, threads=128, batch=4),
    ),
    bug(
        2525,
        through_shared,
        identity,
        case("63", "252 bytes, no multiple of 16", F32, N=63, threads=128),
        case("1001", "a prime number of words", F32, N=1001, threads=128),
        case("half", "2002 bytes", "float16", N=1001, threads=128),
    ),
    bug(
        2529,
        partial_tiles,
        identity,
        case("1000", "the last of tiles of 256 holds 232", "float16", N=1000, block=256),
        case("1001", "and 233", "float16", N=1001, block=256),
    ),
    bug(
        2537,
        gemm,
        product,
        gemm_case("n104", "12 warps along 13 columns of tiles", M=16, N=104, threads=384),
        dtypes=IN_FP32,
    ),
    bug(2542, row_sums, sums_of_rows, case("48", "48 threads to a row", F32, M=1, N=48, threads=48)),
    bug(
        2543,
        safe_value,
        padded_with_safe_value,
        case("60", "a border of -99", "int32", draw="normal", N=60, block=64),
    ),
    bug(
        2555,
        gemm,
        product,
        gemm_case("k48", "rows of tiles of 96 bytes", K=96, block_k=48, stages=2),
        gemm_case("k80", "rows of tiles of 160 bytes", K=160, block_k=80, stages=2),
        dtypes=IN_FP32,
    ),
    bug(
        2556,
        reversed_in_part,
        backwards,
        case("48-of-64", "a barrier among 48 of 64 threads", F32, active=48, threads=64),
        case("70-of-128", "a barrier among 70 of 128 threads", F32, active=70, threads=128),
    ),
    bug(2562, through_shared, identity, case("16", "half a warp stores a tile", F32, N=256, threads=16)),
    bug(
        2566,
        single_trip,
        sum_of_tiles,
        case("1-2", "one trip, two stages", M=64, N=64, trips=1, stages=2),
        case("1-3", "one trip, three stages", M=64, N=64, trips=1, stages=3),
        case("2-2", "two trips, two stages", M=64, N=64, trips=2, stages=2),
        case("3-4", "fewer trips than stages", M=64, N=64, trips=3, stages=4),
        dtypes=IN_FP32,
    ),
    bug(2581, padded_tile, identity, case("pitch-72", "rows of 64 in a tile of 72", M=32, N=64, pitch=72)),
    bug(
        2593,
        gemm,
        product,
        gemm_case("n24", "block_n is 8 past a multiple of 16", N=24),
        gemm_case("n40", "block_n is 8 past a multiple of 16", N=40),
        gemm_case("n56", "block_n is 8 past a multiple of 16", N=56),
        pass_configs=NO_WARP_SPECIALIZATION,
        dtypes=IN_FP32,
    ),
    bug(
        2576,
        running_sums,
        sums_up_to_width,
        case("96", "96 threads, no power of two", F32, M=8, N=64, width=64, threads=96),
    ),
    bug(
        2612,
        summed_by_some,
        sums_of_neighbours,
        case("every-4th", "a loop of every fourth thread wants barriers", F32, N=128, trips=4, steps=1),
        case("two-steps", "a loop of all threads, barriers between conditions", F32, N=128, trips=4, steps=2),
    ),
    bug(
        2617,
        gemm_of_fragments,
        product_with_transposed,
        case("both", "both operands in registers", M=64, N=64, K=64, shared_a=0),
        dtypes=IN_FP32,
    ),
    bug(
        2627,
        gemm_of_fragments,
        product_with_transposed,
        case("b", "the second operand in registers", M=64, N=64, K=64, shared_a=1),
        dtypes=IN_FP32,
    ),
    bug(
        2638,
        folded,
        lambda A, minus_itself: exact(A - A if minus_itself else A * 0.0),
        case("times-zero", "infinity times zero is NaN", F32, draw="special", N=64, minus_itself=0),
        case("minus-itself", "infinity minus infinity is NaN", F32, draw="special", N=64, minus_itself=1),
        draws={"special": special},
    ),
    bug(
        2643,
        cleared_scratch,
        product,
        case(
            "stages-2", "scratch cleared by all, written by those that compute", M=64, N=64, K=128, stages=2
        ),
        dtypes=IN_FP32,
    ),
    bug(
        2668,
        read_then_overwritten,
        sum_of_all_but_the_last,
        case("stages-0", "no pipeline", M=64, N=64, trips=4, stages=0),
        case("stages-2", "read, then overwritten, in two stages", M=64, N=64, trips=4, stages=2),
        case("stages-3", "read, then overwritten, in three stages", M=64, N=64, trips=5, stages=3),
        dtypes=IN_FP32,
    ),
    bug(2669, vectorized_from, identity, case("4-8", "a vector that starts at 4", F32, N=8, start=4)),
    bug(
        2697,
        maximum_with_nan,
        maxima_with_nan,
        case("kept", "NaN joins what was there before", draw="some-nan", M=8, N=64),
        draws={"some-nan": some_nan},
    ),
    bug(2698, filled_in_part, with_sevens, case("10-30", "a part filled right after a copy", F32, N=64)),
    bug(
        2944,
        to_float8,
        lambda A: Reference(A.float().to(torch.float8_e5m2), exact=True),
        case("e5m2", "the type has infinities", F32, draw="special", N=64),
        draws={"special": special},
        dtypes={"C": "float8_e5m2"},
    ),
    bug(
        2955,
        table_by_remainder,
        repeated_table,
        case("12", "12 does not divide 32", F32, M=32, N=32, period=12),
    ),
    bug(2957, shorter_loop_between, first_ones_raised, case("100-256", "100 of 256", F32, N=256, short=100)),
    bug(
        3024,
        clamped,
        lambda A: exact(A.clamp(-1.0, 2.0)),
        case("nan", "NaN stays", F32, draw="special", N=64),
        draws={"special": special},
    ),
    bug(
        3039,
        used_after_pipeline,
        lambda A, K: exact(A[:, -32:] * 2),
        case("stages-3", "the last tile is used after the loop", M=64, N=64, K=128, stages=3),
        case("stages-1", "one stage", M=64, N=64, K=128, stages=1),
        dtypes=IN_FP32,
    ),
    bug(
        3266,
        column_maxima,
        maxima_of_columns,
        case("32x3", "three columns", F32, draw="peaks", M=32, N=3, threads=256),
        draws={"peaks": peak_in_each_row},
    ),
    PIPELINED_ATTENTION,
)
