"""Loops of every kind, the ways out of them, and conditions, uniform and by lane."""

import tilelang.language as T
import torch

from tilecheck.simulator import simulate


def _poisoned(*shape, dtype=torch.int32):
    return torch.full(shape, 77).to(dtype)


def test_parallel_loop_with_else_and_elif():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                if A[i] < 0:
                    B[i] = -1
                elif A[i] == 0:
                    B[i] = 0
                elif i % 2 == 0:
                    B[i] = 100 + i
                else:
                    B[i] = 1

    a, b = torch.randint(-2, 3, (16,), dtype=torch.int32), _poisoned(16)
    simulate(main, [a, b])
    assert b.tolist() == [
        -1 if x < 0 else 0 if x == 0 else 100 + i if i % 2 == 0 else 1 for i, x in enumerate(a.tolist())
    ]


def test_nested_parallel_loops_see_each_other():
    @T.prim_func
    def main(B: T.Tensor((4, 8, 2), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                for j, k in T.Parallel(8, 2):
                    B[i, j, k] = i * 100 + j * 10 + k

    b = _poisoned(4, 8, 2)
    simulate(main, [b])
    i, j, k = torch.meshgrid(torch.arange(4), torch.arange(8), torch.arange(2), indexing="ij")
    assert torch.equal(b, (i * 100 + j * 10 + k).int())


def test_serial_loop_inside_a_parallel_one_keeps_a_sum_for_each_lane():
    @T.prim_func
    def main(A: T.Tensor((8, 5), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((8,), "float32")
            T.clear(total)
            for i in T.Parallel(8):
                for k in T.serial(5):
                    total[i] += A[i, k]
            T.copy(total, B)

    a, b = torch.randn(8, 5), torch.full((8,), 77.0)
    simulate(main, [a, b])
    torch.testing.assert_close(b, a.sum(1))


def test_serial_loop_with_a_bound_that_differs_between_lanes():
    @T.prim_func
    def main(B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = 0
                for k in T.serial(i):
                    B[i] += k

    b = _poisoned(8)
    simulate(main, [b])
    assert b.tolist() == [sum(range(i)) for i in range(8)]


def test_parallel_loop_over_what_is_left_of_a_tile():
    @T.prim_func
    def main(A: T.Tensor((19,), "float32"), B: T.Tensor((19,), "float32")):
        with T.Kernel(T.ceildiv(19, 8), threads=32) as bx:
            for i in T.Parallel(8):
                if bx * 8 + i < 19:
                    B[bx * 8 + i] = A[bx * 8 + i] + 1.0

    a, b = torch.randn(19), torch.full((19,), 77.0)
    simulate(main, [a, b])
    assert torch.equal(b, a + 1)


def test_parallel_iterations_may_write_one_element_with_one_value():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            row = T.alloc_fragment((8,), "int32")
            for i, _ in T.Parallel(8, 4):
                row[i] = A[i]
            for i in T.Parallel(8):
                B[i] = row[i]

    a, b = torch.arange(8, dtype=torch.int32), _poisoned(8)
    simulate(main, [a, b])
    assert torch.equal(b, a)


def test_serial_loop_with_start_stop_and_step():
    @T.prim_func
    def main(B: T.Tensor((20,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(20):
                B[i] = 0
            for i in T.serial(3, 17, 4):
                B[i] = i
            for i in range(4, 7):
                B[i] = -i
            for i in T.serial(18, 14, -3):
                B[i] = 100 + i

    b = _poisoned(20)
    simulate(main, [b])
    want = [0] * 20
    want[3], want[7], want[11], want[15] = 3, 7, 11, 15
    want[4:7] = [-4, -5, -6]
    want[18], want[15] = 118, 115
    assert b.tolist() == want


def test_unrolled_vectorised_and_pipelined_loops():
    @T.prim_func
    def main(A: T.Tensor((3, 8), "float32"), B: T.Tensor((3, 8), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.clear(total)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[k, 0:8], tile)
                for i in T.Parallel(8):
                    total[i] += tile[i]
            T.copy(total, C)
            for k in T.unroll(3):
                for j in T.vectorized(8):
                    B[k, j] = A[k, j] * 2.0

    a, b, c = torch.randn(3, 8), torch.full((3, 8), 77.0), torch.full((8,), 77.0)
    simulate(main, [a, b, c])
    torch.testing.assert_close(c, a.sum(0))
    assert torch.equal(b, 2 * a)


def test_pipelined_loop_with_a_start_and_a_bound_known_at_run_time():
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((2, 4), "float32"), ends: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((4,), "float32")
            total = T.alloc_fragment((4,), "float32")
            T.clear(total)
            for k in T.Pipelined(bx + 1, ends[bx], num_stages=2):
                T.copy(A[k, 0:4], tile)
                for i in T.Parallel(4):
                    total[i] += tile[i]
            T.copy(total, B[bx, 0:4])

    a, b = torch.randn(8, 4), torch.full((2, 4), 77.0)
    simulate(main, [a, b, torch.tensor([5, 2], dtype=torch.int32)])
    torch.testing.assert_close(b, torch.stack([a[1:5].sum(0), torch.zeros(4)]))


def test_while_with_a_condition_that_all_threads_share():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            low = T.alloc_var("int32")
            high = T.alloc_var("int32")
            low = 0
            high = 1000
            while low < high:
                middle = (low + high) // 2
                if middle * middle < A[0]:
                    low = middle + 1
                else:
                    high = middle
            B[0] = low

    b = _poisoned(1)
    simulate(main, [torch.tensor([200], dtype=torch.int32), b])
    assert b.tolist() == [15]


def test_while_with_a_condition_for_each_thread():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            value = T.alloc_var("int32")
            steps = T.alloc_var("int32")
            value = A[tx]
            steps = 0
            while value != 1:
                if value % 2 == 0:
                    value = value // 2
                    steps += 1
                else:
                    value = 3 * value + 1
                    steps += 1
            B[tx] = steps

    a, b = torch.arange(1, 9, dtype=torch.int32), _poisoned(8)
    simulate(main, [a, b])
    assert b.tolist() == [0, 1, 7, 2, 5, 8, 16, 3]


def test_break_and_continue_shared_by_all_threads():
    @T.prim_func
    def main(A: T.Tensor((10,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_var("int32")
            total = 0
            for i in T.serial(10):
                if A[i] < 0:
                    T.loop_break()
                if A[i] % 2 == 1:
                    continue
                total += A[i]
            B[0] = total

    b = _poisoned(1)
    simulate(main, [torch.tensor([2, 3, 4, 5, 6, -1, 8, 8, 8, 8], dtype=torch.int32), b])
    assert b.tolist() == [12]


def test_break_and_continue_of_some_threads():
    @T.prim_func
    def main(A: T.Tensor((4, 6), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=4):
            tx = T.get_thread_binding()
            total = T.alloc_var("int32")
            total = 0
            for k in T.serial(6):
                if A[tx, k] < 0:
                    break
                if A[tx, k] == 3:
                    continue
                total += A[tx, k]
            B[tx] = total

    a = torch.tensor([[1, 2, -1, 9, 9, 9], [3, 3, 1, 3, 1, 1], [-1] * 6, [1] * 6], dtype=torch.int32)
    b = _poisoned(4)
    simulate(main, [a, b])
    assert b.tolist() == [3, 3, 0, 6]


def test_a_break_leaves_only_the_inner_loop():
    @T.prim_func
    def main(B: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(3):
                count = T.alloc_var("int32")
                count = 0
                for k in T.serial(10):
                    if k > i:
                        T.loop_break()
                    count += 1
                B[i] = count

    b = _poisoned(3)
    simulate(main, [b])
    assert b.tolist() == [1, 2, 3]


def test_a_block_that_returns_does_nothing_more():
    @T.prim_func
    def main(A: T.Tensor((3,), "int32"), B: T.Tensor((3, 4), "int32")):
        with T.Kernel(3, threads=32) as bx:
            for i in T.Parallel(4):
                B[bx, i] = 0
            if A[bx] == 0:
                T.thread_return()
            for i in T.Parallel(4):
                B[bx, i] = A[bx] + i

    b = _poisoned(3, 4)
    simulate(main, [torch.tensor([1, 0, 5], dtype=torch.int32), b])
    assert b.tolist() == [[1, 2, 3, 4], [0] * 4, [5, 6, 7, 8]]


def test_threads_that_return_leave_the_others_running():
    @T.prim_func
    def main(A: T.Tensor((6,), "int32"), B: T.Tensor((6,), "int32")):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            if tx >= 6:
                T.thread_return()
            B[tx] = A[tx] + 1

    a, b = torch.arange(6, dtype=torch.int32), _poisoned(6)
    simulate(main, [a, b])
    assert torch.equal(b, a + 1)


def test_conditions_of_a_block_choose_tile_operators():
    @T.prim_func
    def main(mask: T.Tensor((3,), "bool"), A: T.Tensor((3, 4), "float32"), B: T.Tensor((3, 4), "float32")):
        with T.Kernel(3, threads=32) as bx:
            tile = T.alloc_fragment((4,), "float32")
            if mask[bx] and bx != 2:
                T.copy(A[bx, 0:4], tile)
            elif bx == 2:
                T.fill(tile, 2.0)
            else:
                T.clear(tile)
            T.copy(tile, B[bx, 0:4])

    a, b = torch.randn(3, 4), torch.full((3, 4), 77.0)
    simulate(main, [torch.tensor([True, False, True]), a, b])
    assert torch.equal(b, torch.stack([a[0], torch.zeros(4), torch.full((4,), 2.0)]))


def test_a_condition_guards_the_load_it_speaks_of():
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A[0:8], tile)
            for i in T.Parallel(8):
                B[i] = T.if_then_else(i >= 3, tile[i - 3], -1.0)
            for i in T.Parallel(8):
                if i >= 5 and tile[i - 5] > -100.0:
                    B[i] = tile[i - 5]

    a, b = torch.randn(16), torch.full((8,), 77.0)
    simulate(main, [a, b])
    assert torch.equal(b, torch.cat([torch.full((3,), -1.0), a[:2], a[:3]]))


def test_if_then_else_and_select_by_block_and_by_lane():
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(8):
                B[bx, i] = T.if_then_else(
                    bx == 0, T.Select(A[bx, i] > 0.0, A[bx, i], 0.0), T.if_then_else(i < 4, 1.0, 2.0)
                )

    a, b = torch.randn(2, 8), torch.full((2, 8), 77.0)
    simulate(main, [a, b])
    assert torch.equal(b, torch.stack([a[0].clamp(min=0), torch.tensor([1.0] * 4 + [2.0] * 4)]))


def test_any_of_and_all_of():
    @T.prim_func
    def main(mask: T.Tensor((4, 4), "bool"), B: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            row = T.alloc_shared((4,), "bool")
            T.copy(mask[bx, 0:4], row)
            B[bx] = 0
            if T.any_of(row):
                B[bx] = 1
            if T.all_of(mask[bx, 0:4]):
                B[bx] = 2

    mask = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0]]).bool()
    b = _poisoned(4)
    simulate(main, [mask, b])
    assert b.tolist() == [0, 1, 2, 1]


def test_a_grid_of_three_dimensions_with_extents_known_at_run_time():
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(B: T.Tensor((M, N, 2), "int32")):
        with T.Kernel(N, M, 2, threads=32) as (bx, by, bz):
            B[by, bx, bz] = by * 100 + bx * 10 + bz

    b = _poisoned(2, 3, 2)
    simulate(main, [b])
    i, j, k = torch.meshgrid(torch.arange(2), torch.arange(3), torch.arange(2), indexing="ij")
    assert torch.equal(b, (i * 100 + j * 10 + k).int())


def test_an_empty_grid_runs_nothing():
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, 4), "int32"), B: T.Tensor((M, 4), "int32")):
        with T.Kernel(M, threads=32) as bx:
            T.copy(A[bx, 0:4], B[bx, 0:4])

    simulate(main, [torch.zeros(0, 4, dtype=torch.int32), torch.zeros(0, 4, dtype=torch.int32)])


def test_kernels_of_one_program_run_in_order():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), S: T.Tensor((2,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_fragment((4,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(A[bx * 4 : bx * 4 + 4], tile)
            T.reduce_sum(tile, total, dim=0)
            S[bx] = total[0]
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i] / (S[0] + S[1])

    a, s, b = torch.rand(8), torch.full((2,), 77.0), torch.full((8,), 77.0)
    simulate(main, [a, s, b])
    torch.testing.assert_close(b, a / a.sum())


def test_swizzle_annotations_change_nothing():
    @T.prim_func
    def main(B: T.Tensor((6, 4), "int32")):
        with T.Kernel(4, 6, threads=32) as (bx, by):
            tile = T.alloc_shared((1,), "int32")
            T.use_swizzle(panel_size=10, enable=True)
            T.annotate_layout({tile: T.Layout((1,), lambda i: i)})
            tile[0] = by * 4 + bx
            B[by, bx] = tile[0]

    b = _poisoned(6, 4)
    simulate(main, [b])
    assert torch.equal(b, torch.arange(24, dtype=torch.int32).reshape(6, 4))


def test_persistent_loops_visit_every_tile_once():
    @T.prim_func
    def main(A: T.Tensor((12, 20), "float32"), B: T.Tensor((12, 20), "float32")):
        with T.Kernel(4, threads=32) as block:
            tile = T.alloc_shared((4, 4), "float32")
            for bx, by in T.Persistent([T.ceildiv(12, 4), T.ceildiv(20, 4)], 4, block):
                T.copy(A[bx * 4, by * 4], tile)
                T.copy(tile, B[bx * 4, by * 4])

    a, b = torch.randn(12, 20), torch.full((12, 20), 77.0)
    simulate(main, [a, b])
    assert torch.equal(a, b)


def test_a_hand_written_persistent_loop():
    @T.prim_func
    def main(A: T.Tensor((10, 4), "float32"), B: T.Tensor((10, 4), "float32")):
        with T.Kernel(3, threads=32) as block:
            tile = T.alloc_shared((4,), "float32")
            for wave in T.serial(T.ceildiv(10, 3)):
                row = wave * 3 + block
                if row < 10:
                    T.copy(A[row, 0:4], tile)
                    T.copy(tile, B[row, 0:4])

    a, b = torch.randn(10, 4), torch.full((10, 4), 77.0)
    simulate(main, [a, b])
    assert torch.equal(a, b)


def test_macros_are_part_of_the_program():
    @T.macro
    def scaled_add(tile, other, factor):
        for i in T.Parallel(8):
            tile[i] += other[i] * factor

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((8,), "float32")
            other = T.alloc_fragment((8,), "float32")
            T.copy(A, tile)
            T.copy(A, other)
            scaled_add(tile, other, 2.0)
            scaled_add(tile, other, -0.5)
            T.copy(tile, B)

    a, b = torch.randn(8), torch.full((8,), 77.0)
    simulate(main, [a, b])
    torch.testing.assert_close(b, a * 2.5)
