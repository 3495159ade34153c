"""Launches that may start before the one before has ended, and what they touch before they wait for it."""

import tilelang.language as T
import torch

from tilecheck.simulator import simulate


def _poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, 77.0).to(dtype)


def test_memory_that_is_touched_after_the_wait():
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((8,), "float32")
            T.fill(tile, 1.0)
            T.pdl_trigger()
            T.pdl_sync()
            T.copy(A[bx, 0:8], tile)
            T.copy(tile, B[bx, 0:8])

    a, b = torch.randn(2, 8), _poisoned(2, 8)
    simulate(main, [a, b])
    assert torch.equal(b, a)


def test_a_read_before_the_wait(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((8,), "float32")
            T.copy(A[bx, 0:8], tile)  # blamed
            T.pdl_sync()
            T.copy(tile, B[bx, 0:8])

    message = blames(
        main, [torch.randn(2, 8), _poisoned(2, 8)], "early access", "touches A before", "T.pdl_sync()"
    )
    assert message.count("block (0)") == 1


def test_a_write_before_the_wait(blames):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = 0.0  # blamed
            T.pdl_sync()
            for i in T.Parallel(8):
                B[i] = A[i]

    blames(main, [torch.randn(8), _poisoned(8)], "early access", "touches B")


def test_a_condition_and_a_bound_that_are_read_before_the_wait(blames):
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            total = T.alloc_var("int32", init=0)
            if A[bx] > 1:  # blamed
                total += 1
            for k in T.serial(A[bx]):  # blamed
                total += k
            T.pdl_sync()
            B[bx] = total

    a = torch.tensor([0, 1, 2, 3], dtype=torch.int32)
    blames(main, [a, _poisoned(4, dtype=torch.int32)], "early access", "touches A")


def test_a_wait_in_some_blocks_only(blames):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            if bx != 2:
                T.pdl_sync()
            B[bx] = A[bx]  # blamed

    message = blames(main, [torch.randn(4), _poisoned(4)], "early access", "block (2)")
    assert "block (3)" not in message


def test_a_kernel_with_clusters_has_to_wait_whether_or_not_it_says_so(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            tile = T.alloc_shared((8,), "float32")
            T.copy(A[bx, 0:8], tile)  # blamed
            T.cluster_sync()
            T.copy(tile, B[bx, 0:8])  # blamed

    blames(main, [torch.randn(2, 8), _poisoned(2, 8)], "early access", "every launch with clusters")


def test_a_kernel_that_only_triggers_starts_as_others_do():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.pdl_trigger()
            for i in T.Parallel(8):
                B[i] = A[i]

    a, b = torch.randn(8), _poisoned(8)
    simulate(main, [a, b])
    assert torch.equal(b, a)


def test_one_kernel_of_a_program_waits_for_the_other(blames):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), W: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                W[i] = 2 * A[i]
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((8,), "float32")
            T.copy(W, tile)  # blamed
            T.pdl_sync()
            T.copy(tile, B)

    blames(main, [torch.randn(8), _poisoned(8), _poisoned(8)], "early access", "touches W")
