"""Other shapes and element types over one memory, symbolic sizes and strides."""

import pytest
import tilelang.language as T
import torch

from tilecheck.simulator import simulate


def _poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, 77.0).to(dtype)


def test_reshape_of_a_fragment_and_of_shared_memory():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((2, 16), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((4, 8), "float32")
            tile = T.alloc_fragment((4, 8), "float32")
            sums = T.alloc_fragment((8,), "float32")
            T.copy(A, shared)
            T.copy(shared, tile)
            flat = T.reshape(tile, (4, 2, 4))
            other = T.reshape(shared, (2, 16))
            sums_view = T.reshape(sums, (4, 2))
            T.reduce_sum(flat, sums_view, dim=2)
            T.copy(other, B)
            T.copy(sums, C)

    a, b, c = torch.randn(4, 8), _poisoned(2, 16), _poisoned(8)
    simulate(main, [a, b, c])
    assert torch.equal(b, a.reshape(2, 16))
    torch.testing.assert_close(c, a.reshape(8, 4).sum(1))


def test_view_as_integers_of_the_same_size():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((8,), "float32")
            T.copy(A, shared)
            bits = T.view(shared, (8,), dtype="int32")
            for i in T.Parallel(8):
                B[i] = bits[i] & 0x7FFFFFFF

    a, b = torch.randn(8), _poisoned(8, dtype=torch.int32)
    simulate(main, [a, b])
    assert torch.equal(b.view(torch.float32), a.abs())


def test_view_as_elements_of_another_size():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((32,), "uint8")):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((8,), "int32")
            T.copy(A, shared)
            parts = T.view(shared, (32,), dtype="uint8")
            T.copy(parts, B)

    a = torch.randint(-(2**31), 2**31, (8,), dtype=torch.int32)
    b = torch.zeros(32, dtype=torch.uint8)
    simulate(main, [a, b])
    assert torch.equal(b.view(torch.int32), a)


def test_memory_written_through_a_narrow_view_is_read_through_a_wide_one():
    @T.prim_func
    def main(A: T.Tensor((32,), "uint8"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((8,), "int32")
            parts = T.view(shared, (32,), dtype="uint8")
            for i in T.Parallel(32):
                parts[i] = A[i]
            T.copy(shared, B)

    a, b = torch.randint(0, 256, (32,), dtype=torch.uint8), _poisoned(8, dtype=torch.int32)
    simulate(main, [a, b])
    assert torch.equal(a.view(torch.int32), b)


@pytest.mark.parametrize(("inner", "dtype"), [("int32", torch.float16), ("uint8", torch.float16)])
def test_an_output_written_through_a_view_of_another_element_size(inner, dtype):
    count = 8 * 2 // getattr(torch, inner).itemsize

    @T.prim_func
    def main(A: T.Tensor((2, 8), "float16"), B: T.Tensor((2, 8), "float16")):
        with T.Kernel(2, threads=32) as bx:
            source = T.view(A, (2, count), dtype=inner)
            target = T.view(B, (2, count), dtype=inner)
            for i in T.Parallel(count):
                target[bx, i] = source[bx, i]

    a, b = torch.randn(2, 8).half(), _poisoned(2, 8, dtype=torch.float16)
    simulate(main, [a, b])
    assert torch.equal(a, b)


def test_reshape_of_a_parameter():
    @T.prim_func
    def main(A: T.Tensor((2, 3, 4), "float32"), B: T.Tensor((24,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            rows = T.reshape(A, (6, 4))
            out = T.reshape(B, (6, 4))
            for i, j in T.Parallel(3, 4):
                out[bx * 3 + i, j] = rows[bx * 3 + i, j] * 2.0

    a, b = torch.randn(2, 3, 4), _poisoned(24)
    simulate(main, [a, b])
    assert torch.equal(b, 2 * a.flatten())


def test_registers_viewed_as_another_type():
    @T.prim_func
    def main(A: T.Tensor((32, 2), "int32"), B: T.Tensor((32, 8), "int8")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            words = T.alloc_local((2,), "int32")
            parts = T.view(words, (8,), dtype="int8")
            for i in T.serial(2):
                words[i] = A[tx, i]
            for i in T.serial(8):
                B[tx, i] = parts[i]

    a = torch.randint(-(2**31), 2**31, (32, 2), dtype=torch.int32)
    b = torch.zeros(32, 8, dtype=torch.int8)
    simulate(main, [a, b])
    assert torch.equal(b.view(torch.int32), a)


def test_symbolic_sizes():
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((N, M + 1), "float32"), C: T.Tensor((N,), "int32")):
        with T.Kernel(T.ceildiv(N, 4), threads=32) as bx:
            for i in T.Parallel(4):
                if bx * 4 + i < N:
                    C[bx * 4 + i] = M * 10 + N
            for k in T.serial(M + 1):
                for i in T.Parallel(4):
                    if bx * 4 + i < N:
                        B[bx * 4 + i, k] = T.if_then_else(k < M, A[k, bx * 4 + i], -1.0)

    for m, n in ((3, 7), (1, 4), (5, 1)):
        a, b, c = torch.randn(m, n), _poisoned(n, m + 1), _poisoned(n, dtype=torch.int32)
        simulate(main, [a, b, c])
        assert torch.equal(b, torch.cat([a.T, torch.full((n, 1), -1.0)], 1))
        assert c.tolist() == [m * 10 + n] * n


def test_symbolic_strides():
    M, N = T.dynamic("M, N")
    row, column = T.dynamic("row, column")

    @T.prim_func
    def main(A: T.StridedTensor((M, N), (row, column), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 4), threads=32) as bx:
            tile = T.alloc_shared((4, 8), "float32")
            T.copy(A[bx * 4, 0], tile)
            for i, j in T.Parallel(4, 8):
                B[bx * 4 + i, j] = tile[i, j]

    base = torch.randn(12, 20)
    for a in (base[:10, 3:11], base[1:11:3, ::4], base.T[5:11, :7]):
        b = _poisoned(*a.shape)
        simulate(main, [a, b])
        assert torch.equal(b, a)


def test_strided_outputs_keep_what_lies_between_their_rows():
    row = T.dynamic("row")

    @T.prim_func
    def main(A: T.Tensor((4, 3), "float32"), B: T.StridedTensor((4, 3), (row, 1), "float32")):
        with T.Kernel(2, threads=32) as bx:
            T.copy(A[bx * 2, 0], B[bx * 2 : bx * 2 + 2, 0:3])

    a, whole = torch.randn(4, 3), _poisoned(4, 8)
    simulate(main, [a, whole[:, 2:5]])
    assert torch.equal(whole[:, 2:5], a)
    assert (whole[:, :2] == 77).all()
    assert (whole[:, 5:] == 77).all()


def test_a_gather_and_a_scatter():
    @T.prim_func
    def main(
        index: T.Tensor((6,), "int32"),
        A: T.Tensor((10, 4), "float32"),
        B: T.Tensor((6, 4), "float32"),
        C: T.Tensor((6, 4), "float32"),
    ):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(6, 4):
                B[i, j] = A[index[i], j]
            for i, j in T.Parallel(6, 4):
                C[index[i] % 6, 3 - j] = A[i, j]

    index = torch.tensor([8, 3, 5, 6, 4, 7], dtype=torch.int32)
    a, b, c = torch.randn(10, 4), _poisoned(6, 4), _poisoned(6, 4)
    simulate(main, [index, a, b, c])
    assert torch.equal(b, a[index])
    want = torch.empty(6, 4)
    want[index.long() % 6] = a[:6].flip(1)
    assert torch.equal(c, want)


def test_a_workspace_in_global_memory():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        workspace = T.alloc_global((8,), "float32")
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(4):
                workspace[bx * 4 + i] = A[bx * 4 + i] * 2.0
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(4):
                B[bx * 4 + i] = workspace[7 - (bx * 4 + i)]

    a, b = torch.randn(8), _poisoned(8)
    simulate(main, [a, b])
    assert torch.equal(b, 2 * a.flip(0))


def test_a_paged_cache():
    pages, page, dim = 5, 4, 8

    @T.prim_func
    def main(
        cache: T.Tensor((pages, page, dim), "float16"),
        table: T.Tensor((3,), "int32"),
        B: T.Tensor((3 * page, dim), "float16"),
    ):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((page, dim), "float16")
            for k in T.Pipelined(3, num_stages=2):
                T.copy(cache[table[k], 0:page, 0:dim], tile)
                T.copy(tile, B[k * page, 0])

    cache = torch.randn(pages, page, dim).half()
    table = torch.tensor([4, 0, 2], dtype=torch.int32)
    b = _poisoned(3 * page, dim, dtype=torch.float16)
    simulate(main, [cache, table, b])
    assert torch.equal(b, cache[table].reshape(-1, dim))


def test_wrong_arguments_are_value_errors():
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N, 4), "float32"), B: T.Tensor((N, 4), "float32")):
        with T.Kernel(N, threads=32) as bx:
            T.copy(A[bx, 0:4], B[bx, 0:4])

    a = torch.zeros(3, 4)
    for arguments, words in (
        ([a], "2 parameters"),
        ([a, torch.zeros(2, 4)], "N is 3 elsewhere"),
        ([a, torch.zeros(3, 5)], "shape"),
        ([a, torch.zeros(12)], "2 dimensions"),
        ([a, a.half()], "float32"),
        ([a, 3.0], "tensor"),
    ):
        with pytest.raises(ValueError, match=words):
            simulate(main, arguments)
