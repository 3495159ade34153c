"""Tile operators: each does on the CPU what TileLang's documentation and lowering say it does on a GPU."""

import pytest
import tilelang.language as T
import torch

from tilecheck.simulator import SimulationError, simulate


def _poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, 77.0).to(dtype)


def test_copy_goes_through_shared_memory_and_fragments_and_casts():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float16")):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((4, 8), "float32")
            fragment = T.alloc_fragment((4, 8), "float16")
            back = T.alloc_shared((4, 8), "float16")
            T.copy(A, shared)
            T.copy(shared, fragment)
            T.copy(fragment, back)
            T.copy(back, B)

    a, b = torch.randn(4, 8), _poisoned(4, 8, dtype=torch.float16)
    simulate(main, [a, b])
    assert torch.equal(b, a.half())


def test_copy_past_the_far_edge_loads_zeros_and_drops_stores():
    @T.prim_func
    def main(
        A: T.Tensor((5, 7), "float32"), B: T.Tensor((5, 7), "float32"), C: T.Tensor((2, 2, 4, 4), "float32")
    ):
        with T.Kernel(2, 2, threads=32) as (bx, by):
            tile = T.alloc_shared((4, 4), "float32")
            T.copy(A[by * 4, bx * 4], tile)
            T.copy(tile, B[by * 4, bx * 4])
            T.copy(tile, C[by, bx, 0, 0])

    a, b, c = torch.randn(5, 7), _poisoned(5, 7), _poisoned(2, 2, 4, 4)
    simulate(main, [a, b, c])
    assert torch.equal(b, a)
    padded = torch.zeros(8, 8)
    padded[:5, :7] = a
    assert torch.equal(c, padded.reshape(2, 4, 2, 4).transpose(1, 2))


def test_copy_from_a_negative_start_loads_zeros_before_the_edge():
    @T.prim_func
    def main(A: T.Tensor((12,), "float32"), B: T.Tensor((2, 8), "float32"), C: T.Tensor((2, 5), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((8,), "float32")
            T.copy(A[bx * 4 - 3 : bx * 4 + 5], tile)
            T.copy(tile, B[bx, 0:8])
            T.copy(tile, C[bx, bx * 4 - 3 : bx * 4 + 5])

    a, b, c = torch.randn(12), _poisoned(2, 8), _poisoned(2, 5)
    c[1, 0] = 0.0
    with pytest.raises(SimulationError, match=r"C\[1, 0\] is never written \(1 of 10 elements\)"):
        simulate(main, [a, b, c])
    assert torch.equal(b, torch.stack([torch.cat([torch.zeros(3), a[:5]]), a[1:9]]))
    assert torch.equal(c, torch.stack([a[:5], torch.cat([torch.zeros(1), a[1:5]])]))


def test_what_is_surely_negative_counts_from_the_end():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A[-1, 0:8], tile)
            for i in T.Parallel(8):
                B[i - 8] = tile[i]
            for i in T.Parallel(8):
                C[i] = A[-2, i] + tile[-3]

    a, b, c = torch.randn(4, 8), _poisoned(8), _poisoned(8)
    simulate(main, [a, b, c])
    assert torch.equal(b, a[3])
    assert torch.equal(c, a[2] + a[3, 5])


def test_copy_pairs_the_axes_that_are_not_one():
    @T.prim_func
    def main(A: T.Tensor((2, 4, 3, 8), "float32"), B: T.Tensor((4, 2, 8, 3), "float32")):
        with T.Kernel(2, 3, threads=32) as (bx, by):
            tile = T.alloc_fragment((4, 8), "float32")
            T.copy(A[bx, :, by, :], tile)
            T.copy(tile, B[0:4, bx, 0:8, by])

    a, b = torch.randn(2, 4, 3, 8), _poisoned(4, 2, 8, 3)
    simulate(main, [a, b])
    assert torch.equal(b, a.permute(1, 0, 3, 2))


def test_copy_of_one_row_and_of_one_element():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((2,), "float16")):
        with T.Kernel(1, threads=32):
            row = T.alloc_shared((1, 8), "float32")
            T.copy(A[2, 0:8], row[0, 0:8])
            T.copy(row[0, :], B)
            T.copy(A[1, 3], C[0])
            T.copy(row[0, 5], C[1])

    a, b, c = torch.randn(4, 8), _poisoned(8), _poisoned(2, dtype=torch.float16)
    simulate(main, [a, b, c])
    assert torch.equal(b, a[2])
    assert torch.equal(c, torch.stack([a[1, 3], a[2, 5]]).half())


def test_copy_runs_over_the_nearer_side_where_extents_differ():
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A[0:N], tile)
            T.copy(tile, B)

    b = _poisoned(8)
    a = torch.randn(5)
    simulate(main, [a, b])
    assert torch.equal(b, torch.cat([a, torch.zeros(3)]))


@pytest.mark.parametrize("n", [1, 3, 8])
def test_copy_whose_extent_is_known_at_run_time(n):
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((2, N), "float32"), B: T.Tensor((2, N), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((1, 8), "float32")
            T.copy(A[bx, 0:N], tile[0, 0:8])
            T.copy(tile[0, 0:8], B[bx, 0:N])

    a, b = torch.randn(2, n), _poisoned(2, n)
    simulate(main, [a, b])
    assert torch.equal(b, a)


def test_copies_between_global_tensors_and_within_one_scope():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32"), C: T.Tensor((8, 4), "int32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)
            first = T.alloc_fragment((8, 4), "float32")
            second = T.alloc_fragment((8, 4), "int32")
            T.fill(first, -2.75)
            T.copy(first, second)
            T.copy(second, C)

    a, b, c = torch.randn(4, 8), _poisoned(4, 8), _poisoned(8, 4, dtype=torch.int32)
    simulate(main, [a, b, c])
    assert torch.equal(b, a)
    assert (c == -2).all()


def test_copy_pads_with_the_annotated_safe_value():
    @T.prim_func
    def main(A: T.Tensor((5,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.annotate_safe_value({A: -T.infinity("float32")})
            T.copy(A[0:8], tile)
            T.copy(tile, B)

    a, b = torch.randn(5), _poisoned(8)
    simulate(main, [a, b])
    assert torch.equal(b, torch.cat([a, torch.full((3,), float("-inf"))]))


def test_async_copy_is_a_copy():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float16"), B: T.Tensor((4, 8), "float16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 8), "float16")
            T.async_copy(A, tile)
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(tile, B)

    a, b = torch.randn(4, 8).half(), _poisoned(4, 8, dtype=torch.float16)
    simulate(main, [a, b])
    assert torch.equal(b, a)


def test_fill_and_clear_of_a_whole_buffer_and_of_a_region():
    @T.prim_func
    def main(B: T.Tensor((4, 8), "float32"), value: T.float32):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 8), "float32")
            T.fill(tile, -T.infinity("float32"))
            T.clear(tile[1, 2:4])
            T.fill(tile[2:4, 0:3], value)
            T.copy(tile, B)

    b = _poisoned(4, 8)
    simulate(main, [b, 1.5])
    want = torch.full((4, 8), float("-inf"))
    want[1, 2:4] = 0
    want[2:4, 0:3] = 1.5
    assert torch.equal(b, want)


def test_fill_of_a_global_tensor():
    @T.prim_func
    def main(B: T.Tensor((5, 3), "int32")):
        with T.Kernel(2, threads=32) as bx:
            T.fill(B[bx * 3 : bx * 3 + 3, :], bx + 4)

    b = _poisoned(5, 3, dtype=torch.int32)
    simulate(main, [b])
    assert b.tolist() == [[4] * 3] * 3 + [[5] * 3] * 2


def test_transpose():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float16"), B: T.Tensor((8, 4), "float16")):
        with T.Kernel(1, threads=32):
            source = T.alloc_shared((4, 8), "float16")
            target = T.alloc_shared((8, 4), "float16")
            T.copy(A, source)
            T.transpose(source, target)
            T.copy(target, B)

    a, b = torch.randn(4, 8).half(), _poisoned(8, 4, dtype=torch.float16)
    simulate(main, [a, b])
    assert torch.equal(b, a.T)


def _gemm(transpose_a, transpose_b, dtype, accumulator, M=16, N=24, K=32):
    a_shape = (K, M) if transpose_a else (M, K)
    b_shape = (N, K) if transpose_b else (K, N)

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), accumulator)):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared(a_shape, dtype)
            b = T.alloc_shared(b_shape, dtype)
            c = T.alloc_fragment((M, N), accumulator)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_A=transpose_a, transpose_B=transpose_b)
            T.gemm(a, b, c, transpose_A=transpose_a, transpose_B=transpose_b)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_gemm_accumulates_with_both_transposes(transpose_a, transpose_b):
    a, b, c = torch.randn(16, 32).half(), torch.randn(32, 24).half(), _poisoned(16, 24)
    given_a = a.T.contiguous() if transpose_a else a
    given_b = b.T.contiguous() if transpose_b else b
    simulate(_gemm(transpose_a, transpose_b, "float16", "float32"), [given_a, given_b, c])
    torch.testing.assert_close(c, (2 * a.double() @ b.double()).float(), rtol=1e-5, atol=1e-4)


def test_gemm_of_bytes_is_exact_in_int32():
    a = torch.randint(-128, 128, (16, 32), dtype=torch.int8)
    b = torch.randint(-128, 128, (32, 24), dtype=torch.int8)
    c = _poisoned(16, 24, dtype=torch.int32)
    simulate(_gemm(False, False, "int8", "int32"), [a, b, c])
    assert torch.equal(c, (2 * a.int() @ b.int()).int())


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_gemm_of_float8(name):
    dtype = getattr(torch, name)
    a, b, c = torch.randn(16, 32).to(dtype), torch.randn(24, 32).to(dtype), _poisoned(16, 24)
    simulate(_gemm(False, True, name, "float32"), [a, b, c])
    torch.testing.assert_close(c, (2 * a.double() @ b.double().T).float(), rtol=1e-5, atol=1e-4)


def test_gemm_of_float32_reads_19_bits_of_each_operand():
    a, b, c = torch.full((16, 32), 1 + 2.0**-11), torch.ones(32, 24), _poisoned(16, 24)
    a[0] = 1 + 2.0**-10
    simulate(_gemm(False, False, "float32", "float32"), [a, b, c])
    assert (c[1:] == 64).all()
    assert (c[0] == 64 * (1 + 2.0**-10)).all()


def test_a_copy_into_tf32_rounds_to_the_nearest():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4,), T.tfloat32)
            T.copy(A, tile)
            T.copy(tile, B)

    a, b = torch.tensor([1 + 2.0**-11, 1 + 2.0**-12, -1 - 2.0**-11, 3.0]), _poisoned(4)
    simulate(main, [a, b])
    assert b.tolist() == [1 + 2.0**-10, 1.0, -1 - 2.0**-10, 3.0]


def test_gemm_with_a_float16_accumulator_rounds_on_the_way():
    a, b = torch.ones(16, 4096).half(), torch.ones(4096, 24).half()
    a[:, 0] = 2048
    a[:, 1:] = 0.0625
    c = _poisoned(16, 24, dtype=torch.float16)
    simulate(_gemm(False, False, "float16", "float16", K=4096), [a, b, c])
    exact = 2 * (2048 + 4095 / 16)
    # 256 steps of 1 are lost at a spacing of 2, or all are gained.
    assert ((c.float() - exact).abs() >= 1).all()


def test_gemm_clears_the_accumulator_when_told_by_constant_or_expression():
    @T.prim_func
    def main(
        A: T.Tensor((3, 16, 16), "float16"),
        C: T.Tensor((16, 16), "float32"),
        D: T.Tensor((16, 16), "float32"),
    ):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            d = T.alloc_fragment((16, 16), "float32")
            for k in T.serial(3):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, a, c, clear_accum=k == 0)
                T.gemm(a, a, d, clear_accum=True)
            T.copy(c, C)
            T.copy(d, D)

    a, c, d = torch.randn(3, 16, 16).half(), _poisoned(16, 16), _poisoned(16, 16)
    simulate(main, [a, c, d])
    torch.testing.assert_close(c, (a.double() @ a.double()).sum(0).float(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(d, (a[2].double() @ a[2].double()).float(), rtol=1e-5, atol=1e-4)


def test_gemm_on_parts_of_buffers_and_with_an_operand_in_registers():
    @T.prim_func
    def main(A: T.Tensor((2, 16, 32), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((2, 16, 32), "float16")
            left = T.alloc_fragment((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.copy(a[0, 0:16, 16:32], left)
            T.clear(c)
            T.gemm(left, a[1, 0:16, 0:16], c, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(c, C)

    a, c = torch.randn(2, 16, 32).half(), _poisoned(16, 16)
    simulate(main, [a, c])
    torch.testing.assert_close(
        c, (a[0, :, 16:].double() @ a[1, :, :16].double().T).float(), rtol=1e-5, atol=1e-4
    )


_FLOAT_REDUCTIONS = {
    "reduce_sum": lambda x, d: x.sum(d),
    "reduce_abssum": lambda x, d: x.abs().sum(d),
    "reduce_max": lambda x, d: x.amax(d),
    "reduce_min": lambda x, d: x.amin(d),
    "reduce_absmax": lambda x, d: x.abs().amax(d),
}


@pytest.mark.parametrize("place", ["fragment", "shared"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", list(_FLOAT_REDUCTIONS))
def test_reduction_of_floats(name, axis, place):
    reduce, alloc = getattr(T, name), getattr(T, f"alloc_{place}")
    kept = (4, 8, 4)
    result = kept[:axis] + kept[axis + 1 :] if axis >= 0 else kept[:-1]

    @T.prim_func
    def main(A: T.Tensor(kept, "float32"), B: T.Tensor(result, "float32")):
        with T.Kernel(1, threads=32):
            tile = alloc(kept, "float32")
            out = alloc(result, "float32")
            T.copy(A, tile)
            reduce(tile, out, dim=axis)
            T.copy(out, B)

    a, b = torch.randn(*kept), _poisoned(*result)
    simulate(main, [a, b])
    torch.testing.assert_close(b, _FLOAT_REDUCTIONS[name](a, axis))


@pytest.mark.parametrize(
    ("name", "together"),
    [
        ("reduce_sum", torch.add),
        ("reduce_max", torch.maximum),
        ("reduce_min", torch.minimum),
        ("reduce_absmax", torch.maximum),
    ],
)
def test_reduction_without_clear_goes_on_from_what_is_there(name, together):
    reduce = getattr(T, name)

    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 8), "float32")
            out = T.alloc_fragment((4,), "float32")
            T.copy(A, tile)
            T.fill(out, 1.0)
            reduce(tile, out, dim=1, clear=False)
            T.copy(out, B)

    a, b = torch.randn(4, 8), _poisoned(4)
    simulate(main, [a, b])
    torch.testing.assert_close(b, together(_FLOAT_REDUCTIONS[name](a, 1), torch.ones(4)))


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("kind", ["and", "or", "xor"])
def test_bitwise_reductions(kind, clear):
    reduce = getattr(T, f"reduce_bit{kind}")

    @T.prim_func
    def main(A: T.Tensor((4, 8), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 8), "int32")
            out = T.alloc_fragment((4,), "int32")
            T.copy(A, tile)
            T.fill(out, 0b1010)
            reduce(tile, out, dim=1, clear=clear)
            T.copy(out, B)

    a, b = torch.randint(-(2**31), 2**31, (4, 8), dtype=torch.int32), _poisoned(4, dtype=torch.int32)
    a |= 0b110
    simulate(main, [a, b])
    apply = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}[kind]
    for row, got in zip(a.tolist(), b.tolist(), strict=True):
        want = row[0]
        for value in row[1:] + ([] if clear else [0b1010]):
            want = apply(want, value)
        assert got == want


def test_max_and_min_drop_nan_as_fmaxf_does():
    @T.prim_func
    def main(A: T.Tensor((2, 4), "float32"), B: T.Tensor((3, 2), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((2, 4), "float32")
            out = T.alloc_fragment((2,), "float32")
            T.copy(A, tile)
            T.reduce_max(tile, out, dim=1)
            T.copy(out, B[0, 0:2])
            T.reduce_min(tile, out, dim=1)
            T.copy(out, B[1, 0:2])
            T.reduce_sum(tile, out, dim=1)
            T.copy(out, B[2, 0:2])

    nan = float("nan")
    a, b = torch.tensor([[1.0, nan, -2.0, 0.5], [nan] * 4]), _poisoned(3, 2)
    simulate(main, [a, b])
    assert b[0].tolist() == [1.0, float("-inf")]
    assert b[1].tolist() == [-2.0, float("inf")]
    assert b[2].isnan().all()


def test_reduction_of_half_precision_sums_in_float32():
    @T.prim_func
    def main(A: T.Tensor((2, 4096), "float16"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((2, 4096), "float16")
            out = T.alloc_fragment((2,), "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, out, dim=1)
            T.copy(out, B)

    a, b = torch.ones(2, 4096).half(), _poisoned(2)
    simulate(main, [a, b])
    assert b.tolist() == [4096.0, 4096.0]


def test_reduction_into_half_precision_rounds_at_each_step():
    @T.prim_func
    def main(A: T.Tensor((64, 4096), "float16"), B: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 4096), "float16")
            out = T.alloc_fragment((64,), "float16")
            T.copy(A, tile)
            T.reduce_sum(tile, out, dim=1)
            T.copy(out, B)

    a, b = torch.rand(64, 4096).half(), _poisoned(64, dtype=torch.float16)
    simulate(main, [a, b])
    exact = a.double().sum(1)
    assert (b.double() - exact).abs().max() < 0.01 * exact.max()
    assert not torch.equal(b, exact.half())


def test_reduction_of_a_slice_into_a_slice_keeps_the_rest():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 8), "float32")
            out = T.alloc_fragment((8,), "float32")
            T.copy(A, tile)
            T.fill(out, 5.0)
            T.reduce_max(tile[0:4, 2:6], out[4:8], dim=1)
            T.copy(out, B)

    a, b = torch.randn(4, 8), _poisoned(8)
    simulate(main, [a, b])
    assert torch.equal(b, torch.cat([torch.full((4,), 5.0), a[:, 2:6].amax(1)]))


@pytest.mark.parametrize("place", ["fragment", "shared"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans(axis, reverse, place):
    alloc = getattr(T, f"alloc_{place}")

    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32"), C: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = alloc((4, 8), "float32")
            out = alloc((4, 8), "float32")
            T.copy(A, tile)
            T.cumsum(tile, out, dim=axis, reverse=reverse)
            T.copy(out, B)
            T.cummax(tile, dim=axis, reverse=reverse)
            T.copy(tile, C)

    a, b, c = torch.randn(4, 8), _poisoned(4, 8), _poisoned(4, 8)
    simulate(main, [a, b, c])
    turned = a.flip(axis) if reverse else a
    sums, maxima = turned.cumsum(axis), turned.cummax(axis).values
    torch.testing.assert_close(b, sums.flip(axis) if reverse else sums)
    assert torch.equal(c, maxima.flip(axis) if reverse else maxima)


@pytest.mark.parametrize(("stride", "dilation", "pad"), [(1, 1, 1), (2, 1, 0), (1, 2, 2)])
def test_im2col_gives_a_convolution_by_gemm(stride, dilation, pad):
    N, H, W, C, F, K = 2, 7, 6, 16, 16, 3
    OH = (H + 2 * pad - dilation * (K - 1) - 1) // stride + 1
    OW = (W + 2 * pad - dilation * (K - 1) - 1) // stride + 1
    rows, depth = 16, 16

    @T.prim_func
    def main(
        image: T.Tensor((N, H, W, C), "float16"),
        weight: T.Tensor((K, K, C, F), "float16"),
        out: T.Tensor((N, OH, OW, F), "float32"),
    ):
        with T.Kernel(T.ceildiv(F, 16), T.ceildiv(N * OH * OW, rows), threads=32) as (bx, by):
            columns = T.alloc_shared((rows, depth), "float16")
            kernel = T.alloc_shared((depth, 16), "float16")
            acc = T.alloc_fragment((rows, 16), "float32")
            weight_flat = T.Tensor((K * K * C, F), "float16", weight.data)
            out_flat = T.Tensor((N * OH * OW, F), "float32", out.data)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K * K * C, depth), num_stages=2):
                T.im2col(image, columns, by, k, K, stride, dilation, pad)
                T.copy(weight_flat[k * depth, bx * 16], kernel)
                T.gemm(columns, kernel, acc)
            T.copy(acc, out_flat[by * rows, bx * 16])

    image, weight = torch.randn(N, H, W, C).half(), torch.randn(K, K, C, F).half()
    out = _poisoned(N, OH, OW, F)
    simulate(main, [image, weight, out])
    want = torch.nn.functional.conv2d(
        image.double().permute(0, 3, 1, 2), weight.double().permute(3, 2, 0, 1), None, stride, pad, dilation
    )
    torch.testing.assert_close(out, want.permute(0, 2, 3, 1).float(), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:alloc_reducer")
def test_reducer_in_a_fragment():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 8), "float32")
            total = T.alloc_reducer((4,), "float32", op="sum", replication="all")
            T.clear(total)
            T.copy(A, tile)
            for i, j in T.Parallel(4, 8):
                total[i] += tile[i, j]
            T.finalize_reducer(total)
            T.copy(total, B)

    a, b = torch.randn(4, 8), _poisoned(4)
    simulate(main, [a, b])
    torch.testing.assert_close(b, a.sum(1))


@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reducer_with_explicit_updates(op):
    @T.prim_func
    def main(A: T.Tensor((3, 4, 8), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 8), "float32")
            total = T.alloc_reducer((4,), "float32", op=op)
            out = T.alloc_fragment((4,), "float32")
            T.reducer_init(total, 0.5)
            for k in T.serial(3):
                T.copy(A[k, 0, 0], tile)
                for i, j in T.Parallel(4, 8):
                    T.reducer_update(total[i], tile[i, j] * 2.0)
            T.finalize_reducer(total, out)
            T.copy(out, B)

    a, b = torch.randn(3, 4, 8), _poisoned(4)
    simulate(main, [a, b])
    flat = 2 * a.permute(1, 0, 2).reshape(4, 24)
    half = torch.full((4,), 0.5)
    want = {"sum": flat.sum(1) + half, "max": flat.amax(1).maximum(half), "min": flat.amin(1).minimum(half)}[
        op
    ]
    torch.testing.assert_close(b, want)


@pytest.mark.parametrize("op", ["bitand", "bitor", "bitxor", "sum"])
def test_reducer_of_integers(op):
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_reducer((1,), "int32", op=op)
            out = T.alloc_fragment((1,), "int32")
            T.reducer_init(total)
            for i in T.Parallel(32):
                T.reducer_update(total[0], A[i])
            T.finalize_reducer(total, out)
            T.copy(out, B)

    a = torch.randint(-1000, 1000, (32,), dtype=torch.int32) | 4
    b = _poisoned(1, dtype=torch.int32)
    simulate(main, [a, b])
    want = a.tolist()[0]
    for value in a.tolist()[1:]:
        want = {"bitand": want & value, "bitor": want | value, "bitxor": want ^ value, "sum": want + value}[
            op
        ]
    assert b.tolist() == [want]
