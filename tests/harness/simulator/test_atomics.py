"""Atomics on elements and on tiles."""

import pytest
import tilelang.language as T
import torch

from tilecheck.simulator import SimulationError, simulate


def test_a_histogram_by_atomic_add_in_a_parallel_loop():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32"), counts: T.Tensor((10,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            for i in T.Parallel(64):
                T.atomic_add(counts[A[bx, i]], 1)

    a, counts = torch.randint(0, 10, (4, 64), dtype=torch.int32), torch.zeros(10, dtype=torch.int32)
    simulate(main, [a, counts])
    assert torch.equal(counts, torch.bincount(a.flatten(), minlength=10).int())


def test_atomic_add_after_a_condition_and_with_an_order():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), total: T.Tensor((1,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                if A[bx * 32 + i] > 0:
                    T.atomic_add(total[0], A[bx * 32 + i], memory_order="relaxed")

    a, total = torch.randn(64), torch.zeros(1)
    simulate(main, [a, total])
    torch.testing.assert_close(total[0], a.clamp(min=0).sum())


def test_atomics_outside_of_parallel_loops_are_done_by_every_thread():
    @T.prim_func
    def main(count: T.Tensor((2,), "int32")):
        with T.Kernel(3, threads=64):
            T.atomic_add(count[0], 1)
            if T.get_thread_binding() == 0:
                T.atomic_add(count[1], 1)

    count = torch.zeros(2, dtype=torch.int32)
    simulate(main, [count])
    assert count.tolist() == [192, 3]


def test_an_atomic_of_every_thread_in_a_program_that_names_no_thread():
    @T.prim_func
    def main(count: T.Tensor((1,), "int32")):
        with T.Kernel(3, threads=64) as bx:
            if bx > 0:
                T.atomic_add(count[0], bx)

    count = torch.zeros(1, dtype=torch.int32)
    simulate(main, [count])
    assert count.tolist() == [64 * 3]


@pytest.mark.parametrize("kind", ["max", "min"])
def test_atomic_max_and_min(kind):
    atomic = getattr(T, f"atomic_{kind}")

    @T.prim_func
    def main(A: T.Tensor((8, 16), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(8, threads=32) as bx:
            for i in T.Parallel(16):
                atomic(B[i], A[bx, i])

    a, b = torch.randint(-99, 99, (8, 16), dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    simulate(main, [a, b])
    assert torch.equal(b, a.amax(0).clamp(min=0) if kind == "max" else a.amin(0).clamp(max=0))


def test_atomic_or():
    @T.prim_func
    def main(A: T.Tensor((20,), "int32"), bits: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(20):
                T.atomic_or(bits[0], T.int32(1) << A[i])

    bits = torch.tensor([0b100], dtype=torch.int32)
    simulate(main, [torch.tensor([0, 3, 5, 3] * 5, dtype=torch.int32), bits])
    assert bits.tolist() == [0b101101]


def test_an_atomic_that_returns_gives_every_lane_a_place_of_its_own():
    @T.prim_func
    def main(A: T.Tensor((3, 16), "int32"), count: T.Tensor((1,), "int32"), B: T.Tensor((24,), "int32")):
        with T.Kernel(3, threads=16) as bx:
            tx = T.get_thread_binding()
            if A[bx, tx] % 2 == 1:
                place = T.atomic_add(count[0], 1, return_prev=True)
                B[place] = A[bx, tx]

    a = torch.arange(48, dtype=torch.int32).reshape(3, 16)
    count, b = torch.zeros(1, dtype=torch.int32), torch.full((24,), -1, dtype=torch.int32)
    simulate(main, [a, count, b])
    assert count.tolist() == [24]
    assert sorted(b.tolist()) == list(range(1, 48, 2))


def test_atomics_on_shared_memory():
    @T.prim_func
    def main(A: T.Tensor((4, 32), "int32"), B: T.Tensor((4, 5), "int32")):
        with T.Kernel(4, threads=32) as bx:
            counts = T.alloc_shared((5,), "int32")
            T.clear(counts)
            for i in T.Parallel(32):
                T.atomic_add(counts[A[bx, i]], 1)
            T.copy(counts, B[bx, 0:5])

    a, b = torch.randint(0, 5, (4, 32), dtype=torch.int32), torch.zeros(4, 5, dtype=torch.int32)
    simulate(main, [a, b])
    assert torch.equal(b, torch.stack([torch.bincount(row, minlength=5) for row in a]).int())


@pytest.mark.parametrize("width", [2, 4])
def test_vector_atomics(width):
    atomic = getattr(T, f"atomic_addx{width}")

    @T.prim_func
    def main(A: T.Tensor((3, 16), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(3, threads=32) as bx:
            for i in T.Parallel(16 // width):
                atomic(B[i * width], A[bx, i * width])

    a, b = torch.randn(3, 16), torch.zeros(16)
    simulate(main, [a, b])
    torch.testing.assert_close(b, a.sum(0))


def test_a_vector_atomic_that_returns():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(1):
                T.atomic_addx4(B[i * 4], A[i * 4])

    a, b = torch.randn(4), torch.ones(4)
    simulate(main, [a, b])
    torch.testing.assert_close(b, a + 1)


def test_atomic_load_and_store():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                T.atomic_store(B[i], T.atomic_load(A[i], memory_order="acquire") + 1, memory_order="release")

    a, b = torch.arange(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    simulate(main, [a, b])
    assert torch.equal(b, a + 1)


@pytest.mark.parametrize("place", ["fragment", "shared"])
def test_tile_atomics_from_fragments_and_shared_memory(place):
    alloc = getattr(T, f"alloc_{place}")

    @T.prim_func
    def main(
        A: T.Tensor((3, 4, 8), "float32"),
        B: T.Tensor((4, 6), "float32"),
        C: T.Tensor((4, 8), "float32"),
        D: T.Tensor((4, 8), "float32"),
    ):
        with T.Kernel(3, threads=32) as bx:
            tile = alloc((4, 8), "float32")
            T.copy(A[bx, 0, 0], tile)
            T.atomic_add(B[0:4, 0:8], tile)
            T.atomic_max(C, tile)
            T.atomic_min(D[0, 0], tile)

    a = torch.randn(3, 4, 8)
    b, c, d = torch.ones(4, 6), torch.zeros(4, 8), torch.zeros(4, 8)
    simulate(main, [a, b, c, d])
    torch.testing.assert_close(b, 1 + a.sum(0)[:, :6])
    assert torch.equal(c, a.amax(0).clamp(min=0))
    assert torch.equal(d, a.amin(0).clamp(max=0))


def test_a_tile_atomic_casts_and_adds_scalars():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float16"), C: T.Tensor((8,), "float32")):
        with T.Kernel(2, threads=32):
            tile = T.alloc_fragment((8,), "float32")
            T.copy(A, tile)
            T.atomic_add(B, tile)
            T.atomic_add(C[0:8], 2.5)

    a, b, c = torch.randn(8), torch.zeros(8).half(), torch.zeros(8)
    simulate(main, [a, b, c])
    half = a.half().float()
    assert torch.equal(b, (half + half).half())
    assert (c == 5).all()


def test_split_k_adds_its_parts_up():
    M, N, K, splits = 32, 32, 64, 4

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(2, 2, splits, threads=32) as (bx, by, bz):
            a = T.alloc_shared((16, 16), "float16")
            b = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A[by * 16, bz * 16], a)
            T.copy(B[bz * 16, bx * 16], b)
            T.gemm(a, b, c, clear_accum=True)
            for i, j in T.Parallel(16, 16):
                T.atomic_add(C[by * 16 + i, bx * 16 + j], c[i, j])

    a, b, c = torch.randn(M, K).half(), torch.randn(K, N).half(), torch.zeros(M, N)
    simulate(main, [a, b, c])
    torch.testing.assert_close(c, (a.double() @ b.double()).float(), rtol=1e-4, atol=1e-4)


def test_the_last_block_to_finish_combines():
    @T.prim_func
    def main(
        A: T.Tensor((4, 8), "float32"),
        parts: T.Tensor((4,), "float32"),
        done: T.Tensor((1,), "int32"),
        B: T.Tensor((1,), "float32"),
    ):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding()
            row = T.alloc_fragment((8,), "float32")
            total = T.alloc_fragment((1,), "float32")
            last = T.alloc_shared((1,), "int32")
            T.copy(A[bx, 0:8], row)
            T.reduce_sum(row, total, dim=0)
            if tx == 0:
                parts[bx] = total[0]
                last[0] = T.atomic_add(done[0], 1, return_prev=True)
            T.sync_threads()
            if last[0] == 3 and tx == 0:
                B[0] = parts[0] + parts[1] + parts[2] + parts[3]

    a, parts, done, b = (
        torch.randn(4, 8),
        torch.zeros(4),
        torch.zeros(1, dtype=torch.int32),
        torch.full((1,), 77.0),
    )
    simulate(main, [a, parts, done, b])
    torch.testing.assert_close(b[0], a.sum())


@pytest.mark.parametrize("counted", ["global", "shared"])
def test_an_atomic_elsewhere_does_not_order_what_blocks_read(blames, counted):
    @T.prim_func
    def main(
        A: T.Tensor((4,), "float32"),
        count: T.Tensor((1,), "int32"),
        B: T.Tensor((4,), "float32"),
        C: T.Tensor((4,), "float32"),
    ):
        with T.Kernel(4, threads=32) as bx:
            own = T.alloc_shared((1,), "int32")
            T.clear(own)
            for i in T.Parallel(1):
                B[bx] = A[bx]
                if counted == "global":
                    T.atomic_add(count[i], 1)
                else:
                    T.atomic_add(own[i], 1)
            for i in T.Parallel(1):
                C[bx] = B[T.max(bx - 1, i)]  # blamed

    tensors = [torch.randn(4), torch.zeros(1, dtype=torch.int32), torch.zeros(4), torch.zeros(4)]
    blames(main, tensors, "race", "reads elements of B that another block")


def test_an_atomic_elsewhere_does_not_allow_a_double_write(blames):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), total: T.Tensor((1,), "float32"), B: T.Tensor((3,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(1):
                T.atomic_add(total[i], A[bx])
                B[T.min(bx, i + 2)] = A[bx]  # blamed

    blames(main, [torch.randn(4), torch.zeros(1), torch.zeros(3)], "conflicting writes", "another block")


@pytest.mark.parametrize("form", ["element", "tile"])
def test_one_block_clears_what_all_add_to(blames, form):
    @T.prim_func
    def element(A: T.Tensor((4, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(8):
                if bx == 0:
                    B[i] = 0
                T.atomic_add(B[i], A[bx, i])  # blamed

    @T.prim_func
    def tile(A: T.Tensor((4, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            row = T.alloc_fragment((8,), "float32")
            T.copy(A[bx, 0:8], row)
            for i in T.Parallel(8):
                if bx == 0:
                    B[i] = 0
            T.atomic_add(B, row)

    if form == "element":
        blames(
            element, [torch.randn(4, 8), torch.zeros(8)], "race", "another block of the same launch writes"
        )
    else:
        with pytest.raises(SimulationError, match=r"race: .* B that another block of the same launch writes"):
            simulate(tile, [torch.randn(4, 8), torch.zeros(8)])


def test_a_block_may_clear_what_it_alone_adds_to():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            for _ in T.Parallel(1):
                B[bx] = 0
            for i in T.Parallel(8):
                T.atomic_add(B[bx], A[bx, i])

    a, b = torch.randn(4, 8), torch.full((4,), float("nan"))
    simulate(main, [a, b])
    torch.testing.assert_close(b, a.sum(1))


def test_a_counter_that_is_read_may_order_blocks():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), done: T.Tensor((1,), "int32"), B: T.Tensor((5,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding()
            if tx == 0:
                B[bx] = A[bx]
                T.atomic_add(done[0], 1)
                if bx == 3 and done[0] == 4:
                    B[4] = B[0] + B[1] + B[2] + B[3]

    a, done, b = torch.randn(4), torch.zeros(1, dtype=torch.int32), torch.zeros(5)
    simulate(main, [a, done, b])
    torch.testing.assert_close(b[4], a.sum())
