"""What a program must not do: each fault is reported once, with its kind, its line and the buffer."""

import pytest
import tilelang.language as T
import torch

from tilecheck.simulator import SimulationError, simulate


def _poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, 77.0).to(dtype)


@pytest.mark.parametrize("place", ["shared", "fragment"])
def test_an_element_read_that_nothing_wrote(blames, place):
    alloc = getattr(T, f"alloc_{place}")

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = alloc((8,), "float32")
            for i in T.Parallel(7):
                tile[i] = A[i]
            for i in T.Parallel(8):
                B[i] = tile[i]  # blamed

    message = blames(main, [torch.randn(8), _poisoned(8)], "unwritten read", "tile[7]")
    assert "1 of 8" in message


def test_a_tile_read_that_is_partly_written(blames):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 8), "float32")
            T.copy(A[0:2, 0:8], tile[0:2, 0:8])
            T.copy(tile, B)  # blamed

    blames(main, [torch.randn(4, 8), _poisoned(4, 8)], "unwritten read", "tile[2, 0]", "16 of 32")


def test_an_accumulator_that_was_never_cleared(blames):
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.gemm(a, a, c)  # blamed
            T.copy(c, C)

    blames(main, [torch.randn(16, 16).half(), _poisoned(16, 16)], "unwritten read", "c[0, 0]")


def test_a_running_maximum_that_starts_nowhere(blames):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 8), "float32")
            largest = T.alloc_fragment((4,), "float32")
            T.copy(A, tile)
            T.reduce_max(tile, largest, dim=1, clear=False)  # blamed
            T.copy(largest, B)

    blames(main, [torch.randn(4, 8), _poisoned(4)], "unwritten read", "largest[0]")


def test_memory_of_the_block_before_does_not_count(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((8,), "float32")
            if bx == 0:
                T.copy(A[bx, 0:8], tile)
            T.copy(tile, B[bx, 0:8])  # blamed

    blames(main, [torch.randn(2, 8), _poisoned(2, 8)], "unwritten read", "tile", "block (1)")


def test_a_variable_that_only_some_threads_set(blames):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            value = T.alloc_local((2,), "float32")
            if tx < 16:
                value[0] = A[tx]
            B[tx] = value[0]  # blamed

    blames(main, [torch.randn(32), _poisoned(32)], "unwritten read", "value")


def test_a_register_that_no_thread_set(blames):
    @T.prim_func
    def main(B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            value = T.alloc_local((2,), "float32")
            value[0] = 1.0
            B[tx] = value[1]  # blamed

    blames(main, [_poisoned(32)], "unwritten read", "value[1]")


def test_bytes_of_a_word_that_nothing_wrote(blames):
    @T.prim_func
    def main(A: T.Tensor((8,), "uint8"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            words = T.alloc_shared((2,), "int32")
            parts = T.view(words, (8,), dtype="uint8")
            for i in T.Parallel(7):
                parts[i] = A[i]
            T.copy(words, B)  # blamed

    blames(
        main,
        [torch.zeros(8, dtype=torch.uint8), _poisoned(2, dtype=torch.int32)],
        "unwritten read",
        "words[1]",
    )


def test_lanes_that_a_condition_excludes_may_read_anything():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            for i in T.Parallel(4):
                tile[i] = A[i]
            for i in T.Parallel(8):
                B[i] = T.if_then_else(i < 4, tile[i], 0.0)

    a, b = torch.randn(8), _poisoned(8)
    simulate(main, [a, b])
    assert torch.equal(b, torch.cat([a[:4], torch.zeros(4)]))


@pytest.mark.parametrize("place", ["shared", "fragment"])
def test_an_index_past_the_end_of_a_tile(blames, place):
    alloc = getattr(T, f"alloc_{place}")

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = alloc((8,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(8):
                B[i] = tile[i + 1]  # blamed

    blames(main, [torch.randn(8), _poisoned(8)], "out of range", "tile[8]", "tile is 8")


def test_a_store_before_the_start_of_a_tile(blames):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.fill(tile, 0.0)
            for k in T.serial(3):
                for i in T.Parallel(8):
                    tile[i - k] = A[i]  # blamed
            T.copy(tile, B)

    blames(main, [torch.zeros(8), _poisoned(8)], "out of range", "tile[-1]")


def test_a_constant_index_past_the_end_of_a_global_tensor(blames):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            B[0] = A[8]  # blamed

    blames(main, [torch.randn(8), _poisoned(1)], "out of range", "A[8]")


def test_a_row_past_the_end_of_a_global_tensor(blames):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A[4, 0:8], B)  # blamed

    blames(main, [torch.randn(4, 8), _poisoned(8)], "out of range", "A[4")


def test_a_region_past_the_end_of_a_tile(blames):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "float32")
            T.copy(A, tile)
            for k in T.serial(3):
                T.copy(tile[k * 4 : k * 4 + 4, 0:8], B[0:4, 0:8])  # blamed
            T.copy(tile[4:8, 0:8], B[4:8, 0:8])

    blames(main, [torch.randn(8, 8), _poisoned(8, 8)], "out of range", "tile[8:12, 0:8]")


def test_a_register_index_past_the_end(blames):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            value = T.alloc_local((2,), "float32")
            for k in T.serial(3):
                value[k] = A[tx]  # blamed
            B[tx] = value[0]

    blames(main, [torch.randn(32), _poisoned(32)], "out of range", "value[2]")


def test_elements_past_the_edge_of_a_global_tensor_follow_the_guards_of_tilelang():
    @T.prim_func
    def main(A: T.Tensor((5,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((5,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i - 1]
            for i in T.Parallel(8):
                C[i] = B[i]

    a, b, c = torch.randn(5), _poisoned(8), _poisoned(5)
    simulate(main, [a, b, c])
    assert torch.equal(b, torch.cat([torch.zeros(1), a, torch.zeros(2)]))
    assert torch.equal(c, b[:5])


def test_without_the_guards_the_edge_is_out_of_range(blames):
    @T.prim_func
    def main(A: T.Tensor((5,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i]  # blamed

    options = {"tl.disable_safe_memory_legalize": True}
    blames(main, [torch.randn(5), _poisoned(8)], "out of range", "A[5]", pass_configs=options)


def test_iterations_of_a_parallel_loop_that_write_one_element(blames):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i // 2] = A[i]  # blamed

    blames(main, [torch.randn(8), _poisoned(4)], "conflicting writes", "B[")


def test_an_accumulation_across_a_parallel_loop(blames):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((4,), "float32")
            T.clear(total)
            for i, j in T.Parallel(4, 8):
                total[i] += A[i, j]  # blamed
            T.copy(total, B)

    blames(main, [torch.randn(4, 8), _poisoned(4)], "conflicting writes", "total[")


def test_threads_that_write_one_element(blames):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            B[0] = A[tx]  # blamed

    blames(main, [torch.randn(32), _poisoned(1)], "conflicting writes", "B[0]")


def test_blocks_that_write_one_tile(blames):
    @T.prim_func
    def main(A: T.Tensor((3, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(3, threads=32) as bx:
            T.copy(A[bx, 0:8], B)  # blamed

    blames(main, [torch.randn(3, 8), _poisoned(8)], "conflicting writes", "B", "block (1)")


def test_blocks_whose_tiles_overlap(blames):
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(3, threads=32) as bx:
            for i in T.Parallel(8):
                B[bx * 4 + i] = A[bx * 4 + i]  # blamed

    blames(main, [torch.randn(16), _poisoned(16)], "conflicting writes", "B", "block (1)")


@pytest.mark.parametrize("place", ["shared", "fragment"])
def test_an_iteration_that_reads_what_another_writes(blames, place):
    alloc = getattr(T, f"alloc_{place}")

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = alloc((9,), "float32")
            T.fill(tile, 0.0)
            for i in T.Parallel(8):
                tile[i] = tile[i + 1] + A[i]  # blamed
            T.copy(tile[0:8], B)

    blames(main, [torch.randn(8), _poisoned(8)], "race", "tile", "another reads")


def test_an_iteration_that_reads_what_another_has_written(blames):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            for i in T.Parallel(8):
                tile[i] = A[i]
                B[i] = tile[7 - i]  # blamed

    blames(main, [torch.randn(8), _poisoned(8)], "race", "tile", "another writes")


def test_an_iteration_may_touch_several_elements_of_its_own():
    half = 4

    @T.prim_func
    def main(A: T.Tensor((3, 2 * half), "float32"), B: T.Tensor((3, 2 * half), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((3, 2 * half), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(3, half):
                low = T.alloc_var("float32")
                low = tile[i, j]
                tile[i, j] = low * 2.0 - tile[i, j + half]
                tile[i, j + half] = tile[i, j + half] + low
            T.copy(tile, B)

    a, b = torch.randn(3, 2 * half), _poisoned(3, 2 * half)
    simulate(main, [a, b])
    torch.testing.assert_close(b, torch.cat([2 * a[:, :half] - a[:, half:], a[:, half:] + a[:, :half]], 1))


def test_one_block_may_write_an_element_twice():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.clear(B)
            for i in T.Parallel(8):
                B[i] = B[i] + A[i]

    a, b = torch.randn(8), _poisoned(8)
    simulate(main, [a, b])
    assert torch.equal(b, a)


def test_an_output_with_a_hole(blames):
    @T.prim_func
    def main(A: T.Tensor((10,), "float32"), B: T.Tensor((10,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(4):
                B[bx * 4 + i] = A[bx * 4 + i]  # blamed

    blames(main, [torch.randn(10), _poisoned(10)], "unwritten output", "B[8]", "2 of 10")


def test_an_output_that_tiles_do_not_cover(blames):
    @T.prim_func
    def main(A: T.Tensor((9, 6), "float32"), B: T.Tensor((9, 6), "float32")):
        with T.Kernel(2, 2, threads=32) as (bx, by):
            tile = T.alloc_shared((4, 4), "float32")
            T.copy(A[by * 4, bx * 4], tile)
            T.copy(tile, B[by * 4, bx * 4])  # blamed

    blames(main, [torch.randn(9, 6), _poisoned(9, 6)], "unwritten output", "B[8, 0]", "6 of 54")


def test_a_block_that_reads_what_another_writes(blames):
    @T.prim_func
    def main(B: T.Tensor((4,), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            B[bx] = 1.0
            if bx > 0:
                C[bx] = B[bx - 1]  # blamed
            else:
                C[bx] = 0.0

    blames(main, [_poisoned(4), _poisoned(4)], "race", "B", "block (1)")


def test_a_block_that_writes_what_an_earlier_one_read(blames):
    @T.prim_func
    def main(B: T.Tensor((5,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(1):
                B[bx + i] = B[bx + i + 1] * 2.0  # blamed

    blames(main, [_poisoned(5)], "race", "B", "block (1)")


def test_a_tile_that_is_written_after_an_earlier_block_read_it(blames):
    @T.prim_func
    def main(B: T.Tensor((12, 4), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((8, 4), "float32")
            T.copy(B[bx * 4 : bx * 4 + 8, 0:4], tile)
            T.copy(tile[4:8, 0:4], B[bx * 4 : bx * 4 + 4, 0:4])  # blamed

    blames(main, [torch.randn(12, 4)], "race", "B", "block (1)")


def test_blocks_may_update_in_place_what_is_theirs():
    @T.prim_func
    def main(B: T.Tensor((3, 8), "float32")):
        with T.Kernel(3, threads=32) as bx:
            tile = T.alloc_fragment((8,), "float32")
            T.copy(B[bx, 0:8], tile)
            for i in T.Parallel(8):
                tile[i] = tile[i] + B[bx, 7 - i]
            T.copy(tile, B[bx, 0:8])

    b = torch.randn(3, 8)
    want = b + b.flip(1)
    simulate(main, [b])
    assert torch.equal(b, want)


def test_a_block_that_copies_what_another_writes(blames):
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32"), C: T.Tensor((2, 4), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_fragment((8, 4), "float32")
            sums = T.alloc_fragment((4,), "float32")
            T.copy(A[bx * 4 : bx * 4 + 4, 0:4], B[bx * 4 : bx * 4 + 4, 0:4])
            if bx == 1:
                T.copy(B, tile)  # blamed
            else:
                T.clear(tile)
            T.reduce_sum(tile, sums, dim=0)
            T.copy(sums, C[bx, 0:4])

    blames(main, [torch.randn(8, 4), _poisoned(8, 4), _poisoned(2, 4)], "race", "B")


def test_a_failed_assertion(blames):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            T.device_assert(A[bx] >= 0.0, msg="A must not be negative")  # blamed
            B[bx] = T.sqrt(A[bx])

    blames(
        main,
        [torch.tensor([1.0, 2.0, -1.0, 3.0]), _poisoned(4)],
        "assertion",
        "A must not be negative",
        "block (2)",
    )


def test_an_assertion_of_some_lanes(blames):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                if i < 6:
                    T.device_assert(A[i] < 6)
                if i >= 6:
                    T.device_assert(A[i] < 6)  # blamed
                B[i] = A[i]

    blames(main, [torch.arange(8, dtype=torch.int32), _poisoned(8, dtype=torch.int32)], "assertion")


def test_integer_division_by_zero(blames):
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = T.if_then_else(B[i] != 0, A[i] // B[i], 0)
            for i in T.Parallel(4):
                C[i] = A[i] % B[i]  # blamed

    a, b = torch.arange(4, dtype=torch.int32), torch.tensor([1, 0, 2, 3], dtype=torch.int32)
    blames(main, [a, b, _poisoned(4, dtype=torch.int32)], "division by zero")


def test_each_fault_is_told_once_and_all_of_them_are():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tile = T.alloc_shared((4,), "float32")
            other = T.alloc_shared((4,), "float32")
            T.copy(A[0:4], tile)
            for i in T.Parallel(2):
                B[bx * 2 + i] = tile[i + 3] + other[i]

    with pytest.raises(SimulationError) as caught:
        simulate(main, [torch.randn(8), _poisoned(16)])
    kinds = sorted((f.kind, f.text.partition("[")[0]) for f in caught.value.findings)
    assert kinds == [("out of range", "tile"), ("unwritten output", "B"), ("unwritten read", "other")]


def test_faults_inside_a_macro_are_blamed_on_the_macro(blames):
    @T.macro
    def double(tile, out):
        for i in T.Parallel(8):
            out[i] = tile[i + 1] * 2.0  # blamed

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A, tile)
            double(tile, B)

    blames(main, [torch.randn(8), _poisoned(8)], "out of range", "tile[8]")


def test_what_a_program_prints_is_told():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((4,), "float32")
            T.copy(A, tile)
            T.print(bx * 3, msg="triple")
            if bx == 1:
                T.print(tile, msg="tile")
                T.copy(tile, B)

    told: list[str] = []
    b = _poisoned(4)
    simulate(main, [torch.tensor([1.0, 2.0, 4.0, 8.0]), b], tell=told.append)
    assert b.tolist() == [1.0, 2.0, 4.0, 8.0]
    assert [line for line in told if "triple" in line] == [
        "msg='triple' block (0): 0",
        "msg='triple' block (1): 3",
    ]
    values = [line for line in told if "tile" in line]
    assert [line.rpartition(" ")[2] for line in values] == ["1.0", "2.0", "4.0", "8.0"]
    assert "block (1)" in values[0]
