"""What the simulator does not model is refused by the name of the construct and its line."""

import pytest
import tilelang.language as T
import torch

from tilecheck.simulator import Unsupported, simulate


def _blank(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


def test_inline_c(refuses):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.import_source("__device__ void twice(float* x) { *x *= 2; }")
            T.call_extern("handle", "twice", T.access_ptr(A[0], "rw"))  # blamed

    refuses(main, [_blank(8)], "twice")


def test_dp4a(refuses):
    @T.prim_func
    def main(A: T.Tensor((4,), "int8"), B: T.Tensor((4,), "int8"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_local((4,), "int8")
            b = T.alloc_local((4,), "int8")
            c = T.alloc_local((1,), "int32")
            for i in T.vectorized(4):
                a[i] = A[i]
                b[i] = B[i]
            c[0] = 0
            T.dp4a(a, b, c)  # blamed
            C[0] = c[0]

    refuses(
        main, [_blank(4, dtype=torch.int8), _blank(4, dtype=torch.int8), _blank(1, dtype=torch.int32)], "DP4A"
    )


def test_an_unknown_external_function(refuses):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                A[i] = T.call_extern("float32", "my_activation", A[i])  # blamed

    refuses(main, [_blank(8)], "my_activation")


def test_a_raw_matrix_instruction(refuses):
    @T.prim_func
    def main(C: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            a = T.alloc_local((8,), "float16")
            b = T.alloc_local((4,), "float16")
            c = T.alloc_local((4,), "float32")
            T.clear(a)
            T.clear(b)
            T.clear(c)
            pointers = (a.data, 0, b.data, 0, c.data, 0)
            T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", *pointers, False)  # blamed
            C[tx, 0] = c[0]

    refuses(main, [_blank(32, 8)], "ptx_mma")


def test_loading_fragments_by_hand(refuses):
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), B: T.Tensor((32, 8), "float16")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((16, 16), "float16")
            own = T.alloc_local((8,), "float16")
            T.copy(A, tile)
            row = tx % 16
            T.ptx_ldmatrix(False, 4, T.access_ptr(tile[row, 0], "r"), T.access_ptr(own[0], "w"))  # blamed
            B[tx, 0] = own[0]

    refuses(main, [_blank(16, 16, dtype=torch.float16), _blank(32, 8, dtype=torch.float16)], "ptx_ldmatrix")


def test_barriers(refuses):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((8,), "float32")
            ready = T.alloc_barrier(128)
            T.copy(A, tile)
            T.barrier_arrive(ready)  # blamed
            T.barrier_wait(ready, 0)
            T.copy(tile, B)

    refuses(main, [_blank(8), _blank(8)], "barrier", "on a GPU", "T.Pipelined")


def test_a_bulk_copy_that_signals_a_barrier(refuses):
    @T.prim_func
    def main(A: T.Tensor((8, 64), "float16"), B: T.Tensor((8, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((8, 64), "float16")
            ready = T.alloc_barrier(1)
            T.tma_copy(A, tile, barrier=ready)  # blamed
            T.copy(tile, B)

    refuses(
        main, [_blank(8, 64, dtype=torch.float16), _blank(8, 64, dtype=torch.float16)], "tma_copy", "barrier"
    )


def test_warp_specialisation(refuses):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((8,), "float32")
            with T.ws(0):  # blamed
                T.copy(A, tile)
            with T.ws(1):
                T.copy(tile, B)

    refuses(main, [_blank(8), _blank(8)], "T.ws", "on a GPU", "T.Pipelined")


def test_tensor_memory(refuses):
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            c = T.alloc_tmem((128, 128), "float32")
            done = T.alloc_barrier(1)
            out = T.alloc_fragment((128, 128), "float32")
            T.copy(A, a)
            T.tcgen05_gemm(a, a, c, transpose_B=True, mbar=done, clear_accum=True)  # blamed
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, out)
            T.copy(out, C)

    refuses(main, [_blank(128, 64, dtype=torch.float16), _blank(128, 128)], "tcgen05_gemm")


def test_a_copy_into_several_blocks_of_a_cluster(refuses):
    @T.prim_func
    def main(A: T.Tensor((8, 64), "float16"), B: T.Tensor((2, 8, 64), "float16")):
        with T.Kernel(2, threads=128, cluster_dims=2) as bx:
            tile = T.alloc_shared((8, 64), "float16")
            T.pdl_sync()
            T.copy_cluster(A, tile, cluster_mask=3)  # blamed
            T.copy(tile, B[bx, 0:8, 0:64])

    arguments = [_blank(8, 64, dtype=torch.float16), _blank(2, 8, 64, dtype=torch.float16)]
    refuses(main, arguments, "cluster_mask", "on a GPU")


def test_a_copy_to_another_block_that_signals_a_barrier_of_no_cluster(refuses):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            tile = T.alloc_shared((8,), "float32")
            ready = T.alloc_barrier(1)
            T.pdl_sync()
            T.copy(A[bx, 0:8], tile)
            T.copy_cluster(tile, tile, dst_block=1 - bx, remote_barrier=ready[0])  # blamed
            T.copy(tile, B[bx, 0:8])

    refuses(main, [_blank(2, 8), _blank(2, 8)], "the barrier ready", "T.alloc_cluster_barrier")


def test_an_arrival_at_the_barrier_of_another_block(refuses):
    @T.prim_func
    def main(B: T.Tensor((2,), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            ready = T.alloc_cluster_barrier([1])
            T.pdl_sync()
            T.mbarrier_arrive(ready[0], 1 - bx)  # blamed
            T.mbarrier_wait_parity(ready[0], 0)
            B[bx] = 0.0

    refuses(main, [_blank(2)], "ptx_arrive_cluster_barrier", "T.cluster_sync")


def test_a_wait_for_a_barrier_of_threads(refuses):
    @T.prim_func
    def main(B: T.Tensor((2,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            ready = T.alloc_barrier(32)
            T.mbarrier_wait_parity(ready, 1)  # blamed
            B[bx] = 0.0

    refuses(main, [_blank(2)], "the barrier ready", "on a GPU", "T.Pipelined")


def test_a_barrier_of_the_whole_grid(refuses):
    @T.prim_func
    def main(A: T.Tensor((2,), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            A[bx] = 1.0
            T.sync_grid()  # blamed
            B[bx] = A[1 - bx]

    refuses(main, [_blank(2), _blank(2)], "sync_grid")


def test_random_numbers(refuses):
    @T.prim_func
    def main(B: T.Tensor((32,), "uint32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            T.rng_init(42, tx)  # blamed
            B[tx] = T.rng_rand()

    refuses(main, [_blank(32, dtype=torch.uint32)], "rng_init")


def test_element_types_that_torch_cannot_hold(refuses):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float4_e2m1fn")  # blamed
            T.copy(A, tile)
            T.copy(tile, B)

    refuses(main, [_blank(8), _blank(8)], "float4_e2m1fn")


def test_a_parameter_of_a_type_that_torch_cannot_hold():
    @T.prim_func
    def main(A: T.Tensor((8,), "float4_e2m1fn"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = T.cast(A[i], "float32")

    with pytest.raises(Unsupported, match="parameter A of dtype float4_e2m1fn"):
        simulate(main, [_blank(4, dtype=torch.uint8), _blank(8)])


def test_a_cast_that_rounds_at_random(refuses):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), bits: T.Tensor((8,), "uint32"), B: T.Tensor((8,), "bfloat16")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = T.cast(A[i], "bfloat16", round="rs", rbits=bits[i])  # blamed

    refuses(
        main,
        [_blank(8), _blank(8, dtype=torch.uint32), _blank(8, dtype=torch.bfloat16)],
        "cast",
        "round",
        "rs",
    )


def test_what_the_simulator_fails_at_is_told_with_its_line(refuses, monkeypatch):
    def broken(*_):
        raise RuntimeError("no such luck")

    monkeypatch.setattr("tilecheck.simulator.operators.multiply", broken)

    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)  # blamed
            T.copy(c, C)

    refuses(
        main, [_blank(16, 16, dtype=torch.float16), _blank(16, 16)], "cannot carry this out", "no such luck"
    )


def test_a_copy_that_does_not_fit_its_target(refuses):
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A[0:16], tile[0:8])  # blamed
            T.copy(tile, B)

    refuses(main, [_blank(16), _blank(8)], "a copy from a larger part of A to a smaller one of tile")


def test_a_block_that_waits_for_a_later_one(refuses, monkeypatch):
    monkeypatch.setattr("tilecheck.simulator.statements._LONGEST_WHILE", 50)

    @T.prim_func
    def main(flags: T.Tensor((2,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=32) as bx:
            if bx == 0:
                while T.atomic_load(flags[1]) == 0:  # blamed
                    T.sync_threads()
            else:
                T.atomic_store(flags[1], 1)
            B[bx] = bx

    refuses(main, [_blank(2, dtype=torch.int32), _blank(2, dtype=torch.int32)], "while loop of more than 50")


def test_a_sparse_matrix_product(refuses):
    @T.prim_func
    def main(
        A: T.Tensor((64, 32), "float16"), E: T.Tensor((64, 8), "uint8"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            e = T.alloc_shared((64, 8), "uint8")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(E, e)
            T.fill(b, 1.0)
            T.clear(c)
            T.gemm_sp(a, e, b, c)  # blamed
            T.copy(c, C)

    arguments = [_blank(64, 32, dtype=torch.float16), _blank(64, 8, dtype=torch.uint8), _blank(64, 64)]
    refuses(main, arguments, "gemm_sp")


def test_a_rounding_mode_other_than_to_nearest(refuses):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = T.ieee_add(A[i], 1.0, "rz")  # blamed

    refuses(main, [_blank(8), _blank(8)], "ieee_add", "rz")


def test_packed_values(refuses):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            B[0:8] = A[0:8]  # blamed

    refuses(main, [_blank(8), _blank(8)], "float32x8")


def test_loads_of_whole_vectors(refuses):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            T.stg128(B[tx * 4], T.ldg128(A[tx * 4]))  # blamed

    refuses(main, [_blank(128), _blank(128)], "128")


def test_a_tile_operator_that_only_some_threads_reach(refuses):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((8,), "float32")
            if tx < 32:
                T.copy(A, tile)  # blamed
            T.copy(tile, B)

    refuses(main, [_blank(8), _blank(8)], "copy", "condition that differs between threads")


def test_a_shuffle_inside_a_parallel_loop(refuses):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = T.shfl_xor(A[i], 1)  # blamed

    refuses(main, [_blank(32), _blank(32)], "shfl", "parallel loop")


def test_an_unknown_operator_is_named():
    @T.prim_func
    def main(B: T.Tensor((1,), "uint32")):
        with T.Kernel(1, threads=32):
            B[0] = T.call_intrin("uint32", "tirx.q_multiply_shift", B[0], B[0], 1, 2)

    with pytest.raises(
        Unsupported, match=r"test_refusals.py:\d+: the simulator does not model .*q_multiply_shift"
    ):
        simulate(main, [_blank(1, dtype=torch.uint32)])
