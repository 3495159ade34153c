"""Programs written for single threads: registers, exchange through shared memory, shuffles, votes, sums."""

import pytest
import tilelang.language as T
import torch

from tilecheck.simulator import simulate


def _poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, 77.0).to(dtype)


def test_threads_have_registers_of_their_own():
    @T.prim_func
    def main(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            values = T.alloc_local((4,), "float32")
            total = T.alloc_local((1,), "float32")
            for i in T.vectorized(4):
                values[i] = A[tx, i]
            total[0] = 0.0
            for i in T.serial(4):
                total[0] += values[i] * values[3 - i]
            B[tx] = total[0]

    a, b = torch.randn(64, 4), _poisoned(64)
    simulate(main, [a, b])
    torch.testing.assert_close(b, (a * a.flip(1)).sum(1))


def test_registers_indexed_by_what_a_thread_calculates():
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32, 4), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            counts = T.alloc_local((4,), "int32")
            T.clear(counts)
            for k in T.serial(8):
                counts[(A[tx] + k * tx) % 4] += 1
            for i in T.serial(4):
                B[tx, i] = counts[i]

    a, b = torch.randint(0, 9, (32,), dtype=torch.int32), _poisoned(32, 4, dtype=torch.int32)
    simulate(main, [a, b])
    want = torch.zeros(32, 4, dtype=torch.int32)
    for thread in range(32):
        for k in range(8):
            want[thread, (int(a[thread]) + k * thread) % 4] += 1
    assert torch.equal(b, want)


def test_copies_and_reductions_of_registers():
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float16"), B: T.Tensor((32, 8), "float32"), C: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            narrow = T.alloc_local((8,), "float16")
            wide = T.alloc_local((8,), "float32")
            largest = T.alloc_local((1,), "float32")
            T.copy(A[tx, 0:8], narrow)
            T.copy(narrow, wide)
            T.reduce_max(wide, largest, dim=0)
            C[tx] = largest[0]
            T.copy(wide, B[tx, 0:8])

    a, b, c = torch.randn(32, 8).half(), _poisoned(32, 8), _poisoned(32)
    simulate(main, [a, b, c])
    assert torch.equal(b, a.float())
    assert torch.equal(c, a.float().amax(1))


def test_threads_exchange_through_shared_memory():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
        with T.Kernel(4, threads=64) as bx:
            tx = T.get_thread_binding()
            row = T.alloc_shared((64,), "float32")
            row[tx] = A[bx, tx]
            T.sync_threads()
            B[bx, tx] = row[63 - tx] + row[(tx + 1) % 64]

    a, b = torch.randn(4, 64), _poisoned(4, 64)
    simulate(main, [a, b])
    assert torch.equal(b, a.flip(1) + a.roll(-1, 1))


def test_a_warpgroup_waits_for_another_at_a_named_barrier():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            row = T.alloc_shared((128,), "float32")
            if T.get_warp_group_idx() == 0:
                row[tx] = A[tx]
                T.named_barrier_arrive(8, 256)
            else:
                T.sync_threads(8, 256)
                B[tx - 128] = row[255 - tx]

    a, b = torch.randn(128), _poisoned(128)
    simulate(main, [a, b])
    assert torch.equal(b, a.flip(0))


def test_a_tree_in_shared_memory_sums_a_block():
    @T.prim_func
    def main(A: T.Tensor((2, 128), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding()
            part = T.alloc_shared((128,), "float32")
            part[tx] = A[bx, tx]
            T.sync_threads()
            for level in T.serial(7):
                distance = 64 >> level
                if tx < distance:
                    part[tx] += part[tx + distance]
                T.sync_threads()
            if tx == 0:
                B[bx] = part[0]

    a, b = torch.randn(2, 128), _poisoned(2)
    simulate(main, [a, b])
    torch.testing.assert_close(b, a.sum(1))


def test_threads_in_two_dimensions():
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=(16, 8)):
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            B[tx, ty] = A[ty, tx]

    a, b = torch.randn(8, 16), _poisoned(16, 8)
    simulate(main, [a, b])
    assert torch.equal(b, a.T)


def test_shuffles():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            B[0, tx] = T.shfl_xor(A[tx], 5)
            B[1, tx] = T.shfl_down(A[tx], 3)
            B[2, tx] = T.shfl_up(A[tx], 3)
            B[3, tx] = T.shfl_sync(A[tx], 7)

    a, b = torch.randint(0, 99, (64,), dtype=torch.int32), _poisoned(4, 64, dtype=torch.int32)
    simulate(main, [a, b])
    lane = torch.arange(64)
    place, base = lane % 32, lane - lane % 32
    assert torch.equal(b[0], a[base + (place ^ 5)])
    assert torch.equal(b[1], a[torch.where(place + 3 < 32, lane + 3, lane)])
    assert torch.equal(b[2], a[torch.where(place >= 3, lane - 3, lane)])
    assert torch.equal(b[3], a[base + 7])


def test_shuffles_of_narrower_groups():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            total = T.alloc_var("float32")
            total = A[tx]
            total += T.shfl_xor(total, 1, width=8)
            total += T.shfl_xor(total, 2, width=8)
            total += T.shfl_xor(total, 4, width=8)
            B[tx] = total

    a, b = torch.randn(32), _poisoned(32)
    simulate(main, [a, b])
    torch.testing.assert_close(b, a.reshape(4, 8).sum(1).repeat_interleave(8))


@pytest.mark.parametrize("kind", ["sum", "max", "min", "bitand", "bitor"])
def test_warp_reductions(kind):
    reduce = getattr(T, f"warp_reduce_{kind}")

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            value = T.alloc_var("int32")
            value = A[tx]
            B[tx] = reduce(value)

    a, b = torch.randint(0, 2**30, (64,), dtype=torch.int32), _poisoned(64, dtype=torch.int32)
    a = a // 64 | 16
    simulate(main, [a, b])
    for warp, got in zip(a.reshape(2, 32).tolist(), b.reshape(2, 32).tolist(), strict=True):
        want = warp[0]
        for v in warp[1:]:
            want = {
                "sum": want + v,
                "max": max(want, v),
                "min": min(want, v),
                "bitand": want & v,
                "bitor": want | v,
            }[kind]
        assert got == [want] * 32


def test_votes():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((5, 64), "int32"), C: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            B[0, tx] = T.any_sync(A[tx] > 40)
            B[1, tx] = T.all_sync(A[tx] >= 0)
            B[2, tx] = T.syncthreads_count(A[tx] > 40)
            B[3, tx] = T.syncthreads_and(A[tx] >= 0)
            B[4, tx] = T.syncthreads_or(A[tx] > 1000)
            C[tx] = T.ballot_sync(A[tx] > 40)

    a = torch.arange(64, dtype=torch.int32)
    b, c = _poisoned(5, 64, dtype=torch.int32), torch.zeros(64, dtype=torch.uint32)
    simulate(main, [a, b, c])
    assert (b[0] != 0).tolist() == [False] * 32 + [True] * 32
    assert (b[1] != 0).all()
    assert b[2].tolist() == [23] * 64
    assert (b[3] != 0).all()
    assert (b[4] == 0).all()
    assert c.tolist() == [0] * 32 + [0xFFFFFE00] * 32


def test_numbers_of_lanes_and_warps():
    @T.prim_func
    def main(B: T.Tensor((3, 256), "int32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            B[0, tx] = T.get_lane_idx()
            B[1, tx] = T.get_warp_idx()
            B[2, tx] = T.get_warp_group_idx()

    b = _poisoned(3, 256, dtype=torch.int32)
    simulate(main, [b])
    thread = torch.arange(256, dtype=torch.int32)
    assert torch.equal(b, torch.stack([thread % 32, thread // 32, thread // 128]))


def test_matrix_times_vector_with_an_all_reduce():
    N, K, threads, rows, width = 24, 256, 32, 4, 8

    @T.prim_func
    def main(A: T.Tensor((K,), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((N,), "float16")):
        with T.Kernel(T.ceildiv(N, rows), threads=(threads, rows)) as bn:
            lane = T.get_thread_binding(0)
            row = T.get_thread_binding(1)
            a = T.alloc_local((width,), "float16")
            b = T.alloc_local((width,), "float16")
            part = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            T.clear(part)
            for k in T.serial(T.ceildiv(K, threads * width)):
                for v in T.vectorized(width):
                    a[v] = A[(k * threads + lane) * width + v]
                    b[v] = B[bn * rows + row, (k * threads + lane) * width + v]
                for v in T.serial(width):
                    part[0] += a[v].astype("float32") * b[v].astype("float32")
            with T.attr(
                T.comm_reducer(lambda x, y: x + y, [T.Cast("float32", 0)]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(T.tvm_thread_allreduce(T.uint32(1), part[0], True, total[0], lane, dtype="handle"))
            C[bn * rows + row] = total[0]

    a, b, c = torch.randn(K).half(), torch.randn(N, K).half(), _poisoned(N, dtype=torch.float16)
    simulate(main, [a, b, c])
    torch.testing.assert_close(c, (b.double() @ a.double()).half(), rtol=2e-3, atol=2e-3)


def test_threads_beside_tile_operators():
    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((64, 8), "float32")
            sums = T.alloc_fragment((64,), "float32")
            shared_sums = T.alloc_shared((64,), "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, sums, dim=1)
            T.copy(sums, shared_sums)
            T.sync_threads()
            B[tx] = shared_sums[tx] + tile[tx, 0]

    a, b = torch.randn(64, 8), _poisoned(64)
    simulate(main, [a, b])
    torch.testing.assert_close(b, a.sum(1) + a[:, 0])


def test_split_k_over_threads_through_shared_atomics():
    N, K, columns, rows = 24, 64, 8, 16

    @T.prim_func
    def main(A: T.Tensor((K,), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, columns), threads=(columns, rows)) as bn:
            tn = T.get_thread_binding(0)
            tk = T.get_thread_binding(1)
            sums = T.alloc_shared((columns,), "float32")
            part = T.alloc_local((1,), "float32")
            if tk == 0:
                sums[tn] = 0
            T.clear(part)
            for k in T.serial(T.ceildiv(K, rows)):
                left = A[k * rows + tk].astype("float32")
                part[0] += left * B[bn * columns + tn, k * rows + tk].astype("float32")
            T.atomic_add(sums[tn], part[0])
            C[bn * columns + tn] = sums[tn]

    a, b, c = torch.randn(K).half(), torch.randn(N, K).half(), _poisoned(N)
    simulate(main, [a, b, c])
    torch.testing.assert_close(c, (b.double() @ a.double()).float(), rtol=1e-4, atol=1e-4)


def test_kernels_of_one_program_with_different_blocks():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((3, 32), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            value = T.alloc_var("float32")
            value = A[tx]
            B[tx] = T.warp_reduce_sum(value)
        with T.Kernel(3, threads=32) as bx:
            tx = T.get_thread_binding()
            own = T.alloc_local((2,), "float32")
            for i in T.serial(2):
                own[i] = B[tx + 32 * i]
            C[bx, tx] = own[bx % 2] + T.shfl_xor(A[tx], 1)

    a, b, c = torch.randn(64), _poisoned(64), _poisoned(3, 32)
    simulate(main, [a, b, c])
    sums = a.reshape(2, 32).sum(1)
    swapped = a[:32].reshape(16, 2).flip(1).flatten()
    torch.testing.assert_close(c, sums[[0, 1, 0]][:, None] + swapped)


def test_grid_stride_loop():
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            for step in T.serial(T.ceildiv(N, 64)):
                i = step * 64 + bx * 32 + tx
                if i < N:
                    B[i] = A[i] * 2.0

    a, b = torch.randn(150), _poisoned(150)
    simulate(main, [a, b])
    assert torch.equal(b, 2 * a)


def test_a_ragged_loop_for_each_thread():
    @T.prim_func
    def main(
        starts: T.Tensor((33,), "int32"), values: T.Tensor((500,), "float32"), B: T.Tensor((32,), "float32")
    ):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            total = T.alloc_var("float32")
            total = 0.0
            for i in T.serial(starts[tx], starts[tx + 1]):
                total += values[i]
            B[tx] = total

    lengths = torch.randint(0, 15, (32,))
    starts = torch.cat([torch.zeros(1), lengths.cumsum(0)]).int()
    values, b = torch.randn(500), _poisoned(32)
    simulate(main, [starts, values, b])
    want = torch.stack([values[starts[i] : starts[i + 1]].sum() for i in range(32)])
    torch.testing.assert_close(b, want)


def test_registers_inside_a_parallel_loop():
    @T.prim_func
    def main(A: T.Tensor((16, 4), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                best = T.alloc_var("float32")
                best = -T.infinity("float32")
                for j in T.serial(4):
                    best = T.max(best, A[i, j])
                B[i] = best

    a, b = torch.randn(16, 4), _poisoned(16)
    simulate(main, [a, b])
    assert torch.equal(b, a.amax(1))
