"""Expressions: math functions, integer arithmetic of C, casts, bits, against numpy or numbers spelled out."""

import math

import numpy as np
import pytest
import tilelang.language as T
import torch

from tilecheck.simulator import simulate


def _map(expression, a, b, *more):
    """Runs B[i] = expression(A[i], ...) for all i."""
    names = {torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2", torch.bool: "bool"}

    def name(x):
        return names.get(x.dtype, str(x.dtype).removeprefix("torch."))

    n, a_type, b_type = a.numel(), name(a), name(b)

    if not more:

        @T.prim_func
        def unary(A: T.Tensor((n,), a_type), B: T.Tensor((n,), b_type)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = expression(A[i])

        simulate(unary, [a, b])
    elif len(more) == 1:
        c, c_type = more[0], name(more[0])

        @T.prim_func
        def binary(A: T.Tensor((n,), a_type), C: T.Tensor((n,), c_type), B: T.Tensor((n,), b_type)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = expression(A[i], C[i])

        simulate(binary, [a, c, b])
    return b


_WIDE = np.array([-3.5, -2.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 7.0])
_POSITIVE = np.array([0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 10.0, 100.0])
_UNIT = np.array([-1.0, -0.75, -0.5, -0.125, 0.0, 0.125, 0.5, 0.75, 1.0])

_UNARY = {
    "exp": (np.exp, _WIDE),
    "exp2": (np.exp2, _WIDE),
    "exp10": (lambda x: 10.0**x, _WIDE),
    "__exp": (np.exp, _WIDE),
    "__exp10": (lambda x: 10.0**x, _WIDE),
    "log": (np.log, _POSITIVE),
    "log2": (np.log2, _POSITIVE),
    "log10": (np.log10, _POSITIVE),
    "log1p": (np.log1p, _POSITIVE),
    "__log": (np.log, _POSITIVE),
    "__log2": (np.log2, _POSITIVE),
    "__log10": (np.log10, _POSITIVE),
    "sqrt": (np.sqrt, _POSITIVE),
    "rsqrt": (lambda x: 1 / np.sqrt(x), _POSITIVE),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), _WIDE),
    "tanh": (np.tanh, _WIDE),
    "sinh": (np.sinh, _WIDE),
    "cosh": (np.cosh, _WIDE),
    "sin": (np.sin, _WIDE),
    "cos": (np.cos, _WIDE),
    "tan": (np.tan, _WIDE),
    "__sin": (np.sin, _WIDE),
    "__cos": (np.cos, _WIDE),
    "__tan": (np.tan, _WIDE),
    "asin": (np.arcsin, _UNIT),
    "acos": (np.arccos, _UNIT),
    "atan": (np.arctan, _WIDE),
    "asinh": (np.arcsinh, _WIDE),
    "acosh": (np.arccosh, _POSITIVE + 1),
    "atanh": (np.arctanh, _UNIT[1:-1]),
    "erf": (np.vectorize(math.erf), _WIDE),
    "floor": (np.floor, _WIDE),
    "ceil": (np.ceil, _WIDE),
    "trunc": (np.trunc, _WIDE),
    "round": (np.rint, _WIDE),
    "nearbyint": (np.rint, _WIDE),
    "abs": (np.abs, _WIDE),
    "fabs": (np.abs, _WIDE),
    "fast_rcp": (lambda x: 1 / x, _POSITIVE),
    "ieee_frcp": (lambda x: 1 / x, _POSITIVE),
    "ieee_fsqrt": (np.sqrt, _POSITIVE),
    "ieee_frsqrt": (lambda x: 1 / np.sqrt(x), _POSITIVE),
}


@pytest.mark.parametrize("name", list(_UNARY))
def test_math_function_of_one_argument(name):
    function, points = _UNARY[name]
    got = _map(getattr(T, name), torch.tensor(points).float(), torch.full((len(points),), 77.0))
    np.testing.assert_allclose(got.numpy(), function(points), rtol=3e-6, atol=1e-6)


def test_an_intrinsic_of_cuda():
    got = _map(
        lambda x: T.call_pure_extern("float32", "__tanhf", x),
        torch.tensor(_WIDE).float(),
        torch.full((len(_WIDE),), 77.0),
    )
    np.testing.assert_allclose(got.numpy(), np.tanh(_WIDE), rtol=3e-6, atol=1e-6)


_BINARY = {
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "hypot": np.hypot,
    "max": np.fmax,
    "min": np.fmin,
    "fmul": np.multiply,
    "ieee_add": np.add,
    "ieee_sub": np.subtract,
    "ieee_mul": np.multiply,
    "ieee_fdiv": np.divide,
}


@pytest.mark.parametrize("name", list(_BINARY))
def test_math_function_of_two_arguments(name):
    x, y = np.array([0.5, 2.0, 3.25, 7.0, 1.0]), np.array([1.5, -0.75, 2.0, 0.5, -3.0])
    got = _map(getattr(T, name), torch.tensor(x).float(), torch.full((5,), 77.0), torch.tensor(y).float())
    np.testing.assert_allclose(got.numpy(), _BINARY[name](x, y), rtol=3e-6, atol=1e-6)


def test_fused_multiply_add_rounds_once():
    x = torch.tensor([1 + 2.0**-12])
    for function in (T.fma, T.ieee_fmaf):
        got = _map(
            lambda v, w, f=function: f(v, v, w), x, torch.full((1,), 77.0), torch.tensor([-1.0 - 2.0**-11])
        )
        assert got.tolist() == [2.0**-24]


def test_clamp_and_whole_powers():
    x = torch.tensor([-5.0, -1.5, 0.0, 2.0, 9.0, float("nan")])
    got = _map(lambda v: T.clamp(v, -1.0, 3.0), x, torch.full((6,), 77.0))
    assert got[:5].tolist() == [-1.0, -1.0, 0.0, 2.0, 3.0]
    assert got[5].isnan()
    got = _map(lambda v: T.pow(v, 3), x[:5], torch.full((5,), 77.0))
    assert got.tolist() == [-125.0, -3.375, 0.0, 8.0, 729.0]
    got = _map(lambda v: T.clamp(v, -2, 4), torch.arange(-5, 8), torch.full((13,), 77))
    assert got.tolist() == [min(max(v, -2), 4) for v in range(-5, 8)]


def test_rounding_with_ties_away_from_zero():
    x = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, -2.6])
    got = _map(lambda v: T.round(v, "ties-away-from-zero"), x, torch.full((8,), 77.0))
    assert got.tolist() == [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 2.0, -3.0]


def test_tests_for_nan_and_infinity():
    x = torch.tensor([1.0, float("nan"), float("inf"), float("-inf")])
    assert _map(T.isnan, x, torch.zeros(4, dtype=torch.bool)).tolist() == [False, True, False, False]
    assert _map(T.isinf, x, torch.zeros(4, dtype=torch.bool)).tolist() == [False, False, True, True]
    assert _map(T.isfinite, x, torch.zeros(4, dtype=torch.bool)).tolist() == [True, False, False, False]


def test_max_and_min_return_the_operand_that_is_no_nan():
    x, y = torch.tensor([1.0, float("nan")]), torch.tensor([float("nan"), 2.0])
    assert _map(T.max, x, torch.full((2,), 77.0), y).tolist() == [1.0, 2.0]
    assert _map(T.min, x, torch.full((2,), 77.0), y).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_after_each_operation(dtype):
    x = torch.linspace(-3, 3, 32).to(dtype)
    got = _map(lambda v: T.exp(v) * v + v, x, torch.zeros(32, dtype=dtype))
    want = (x.float().exp().to(dtype).float() * x.float()).to(dtype).float() + x.float()
    assert torch.equal(got, want.to(dtype))


def test_arithmetic_of_float32_does_not_widen():
    got = _map(lambda v: v + T.float32(2.0**-24) + T.float32(2.0**-24), torch.ones(1), torch.full((1,), 77.0))
    assert got.tolist() == [1.0]
    got = _map(lambda v: v / 3.0, torch.ones(1), torch.full((1,), 77.0))
    assert got.tolist() == [float(np.float32(1) / np.float32(3))]


_PAIRS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5), (1, 5), (-1, 5), (-5, -5)]


def test_integer_division_and_remainder_round_down_or_towards_zero():
    a = torch.tensor([p[0] for p in _PAIRS], dtype=torch.int32)
    b = torch.tensor([p[1] for p in _PAIRS], dtype=torch.int32)
    blank = torch.zeros(len(_PAIRS), dtype=torch.int32)
    assert _map(lambda x, y: x // y, a, blank, b).tolist() == [x // y for x, y in _PAIRS]
    assert _map(lambda x, y: x % y, a, blank, b).tolist() == [x % y for x, y in _PAIRS]
    assert _map(T.truncdiv, a, blank, b).tolist() == [int(x / y) for x, y in _PAIRS]
    assert _map(T.truncmod, a, blank, b).tolist() == [int(math.fmod(x, y)) for x, y in _PAIRS]
    assert _map(T.ceildiv, a, blank, b).tolist() == [(x + y - 1) // y for x, y in _PAIRS]


def test_division_of_scalars_of_the_block():
    @T.prim_func
    def main(B: T.Tensor((6, 4), "int32"), C: T.Tensor((1,), "int32"), n: T.int32):
        with T.Kernel(6, threads=32) as bx:
            B[bx, 0] = (bx - 3) // n
            B[bx, 1] = (bx - 3) % n
            B[bx, 2] = T.truncdiv(bx - 3, n)
            B[bx, 3] = T.truncmod(bx - 3, n)
            if bx == 0:
                C[0] = T.ceildiv(7, n) * n

    b, c = torch.full((6, 4), 77, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    simulate(main, [b, c, 2])
    assert b.tolist() == [[x // 2, x % 2, int(x / 2), int(math.fmod(x, 2))] for x in range(-3, 3)]
    assert c.tolist() == [8]


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_wrap_around(name):
    dtype, as_numpy = getattr(torch, name), np.dtype(name)
    high, low = int(np.iinfo(as_numpy).max), int(np.iinfo(as_numpy).min)
    values = np.array([high, low, high // 2 + 1, 3, high - 1], dtype=as_numpy)
    with np.errstate(over="ignore"):
        for expression in (lambda x: x + x, lambda x: x * x, lambda x: x - x * 5):
            want = expression(values)
            got = _map(expression, torch.from_numpy(values), torch.zeros(5, dtype=dtype))
            assert got.numpy().tolist() == want.tolist()


@pytest.mark.parametrize("name", ["int32", "uint8", "uint32", "int64", "uint64"])
def test_bit_operations(name):
    as_numpy = np.dtype(name)
    high = int(np.iinfo(as_numpy).max)
    x = np.array([0, 1, 0b1011, high, high - 6, high // 3], dtype=as_numpy)
    y = np.array([5, 1, 0b0110, high // 5, 3, high], dtype=as_numpy)
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    expressions = {
        "and": (lambda v, w: v & w, x & y),
        "or": (lambda v, w: v | w, x | y),
        "xor": (lambda v, w: v ^ w, x ^ y),
        "not": (lambda v, w: ~v, ~x),
        "left": (lambda v, w: v << 3, x << as_numpy.type(3)),
        "right": (lambda v, w: v >> 3, x >> as_numpy.type(3)),
        "right by 0": (lambda v, w: v >> (w & 0), x),
    }
    for what, (expression, want) in expressions.items():
        got = _map(expression, a, torch.zeros(6, dtype=a.dtype), b)
        assert got.numpy().tolist() == want.tolist(), what


def test_right_shift_of_negative_numbers_keeps_the_sign():
    a = torch.tensor([-1, -8, -9, 8], dtype=torch.int32)
    assert _map(lambda v: v >> 2, a, torch.zeros(4, dtype=torch.int32)).tolist() == [-1, -2, -3, 2]


@pytest.mark.parametrize("name", ["uint32", "uint64"])
def test_unsigned_integers_divide_and_compare_as_unsigned(name):
    as_numpy = np.dtype(name)
    high = int(np.iinfo(as_numpy).max)
    values = [high, high - 1, high // 2 + 1, 10, 3, 0]
    divisors = [3, high, 7, high // 2 + 5, 2, 9]
    a, b = (torch.from_numpy(np.array(v, dtype=as_numpy)) for v in (values, divisors))
    pairs = list(zip(values, divisors, strict=True))
    blank = torch.zeros(6, dtype=a.dtype)
    assert _map(lambda v, w: v // w, a, blank, b).numpy().tolist() == [x // y for x, y in pairs]
    assert _map(lambda v, w: v % w, a, blank, b).numpy().tolist() == [x % y for x, y in pairs]
    assert _map(T.max, a, blank, b).numpy().tolist() == [max(p) for p in pairs]
    assert _map(T.min, a, blank, b).numpy().tolist() == [min(p) for p in pairs]
    flags = torch.zeros(6, dtype=torch.bool)
    assert _map(lambda v, w: v < w, a, flags, b).tolist() == [x < y for x, y in pairs]
    assert _map(lambda v, w: v >= w, a, flags, b).tolist() == [x >= y for x, y in pairs]
    floats = torch.full((6,), 77.0)
    want = np.array(values, dtype=as_numpy).astype(np.float32)
    assert _map(lambda v: T.cast(v, "float32"), a, floats).numpy().tolist() == want.tolist()


def _mixed32(x):
    x = (x ^ (x >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ (x >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ (x >> 16)


def test_a_32_bit_hash():
    def hashed(v):
        x = (v ^ (v >> T.uint32(16))) * T.uint32(0x85EBCA6B)
        x = (x ^ (x >> T.uint32(13))) * T.uint32(0xC2B2AE35)
        return x ^ (x >> T.uint32(16))

    values = [0, 1, 12345, 2**31, 2**32 - 1]
    a = torch.from_numpy(np.array(values, dtype=np.uint32))
    got = _map(hashed, a, torch.zeros(5, dtype=torch.uint32))
    assert got.numpy().tolist() == [_mixed32(v) for v in values]


def test_a_64_bit_hash():
    mask = (1 << 64) - 1

    def hashed(v):
        x = (v ^ (v >> T.uint64(30))) * T.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> T.uint64(27))) * T.uint64(0x94D049BB133111EB)
        return x ^ (x >> T.uint64(31))

    values = [0, 1, 99, 2**63, 2**64 - 1]
    a = torch.from_numpy(np.array(values, dtype=np.uint64))
    got = _map(hashed, a, torch.zeros(5, dtype=torch.uint64))
    want = []
    for v in values:
        x = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
        want.append(x ^ (x >> 31))
    assert got.numpy().tolist() == want


def test_counting_bits():
    values = [0, 1, 0b10110000, 2**31 - 1, -1]
    a = torch.tensor(values, dtype=torch.int32)
    bits = [v & 0xFFFFFFFF for v in values]
    blank = torch.zeros(5, dtype=torch.int32)
    unsigned = a.view(torch.uint32)
    counted = _map(T.popcount, unsigned, torch.zeros(5, dtype=torch.uint32))
    assert counted.tolist() == [b.bit_count() for b in bits]
    assert _map(T.clz, a, blank).tolist() == [32 - b.bit_length() for b in bits]
    assert _map(T.__ffs, a, blank).tolist() == [(b & -b).bit_length() for b in bits]


@pytest.mark.parametrize("target", ["int32", "int64", "uint32"])
def test_floats_become_integers_towards_zero_and_saturate(target):
    info = np.iinfo(target)
    x = torch.tensor([1.9, -1.9, 0.5, 1e30, -1e30, float("nan"), float("inf")])
    got = _map(lambda v: T.cast(v, target), x, torch.zeros(7, dtype=getattr(torch, target)))
    low = int(info.min)
    assert got.numpy().tolist() == [1, max(-1, low), 0, int(info.max), low, 0, int(info.max)]


def test_floats_become_narrow_integers_through_32_bits_as_nvcc_has_it():
    x = torch.tensor([1.9, -1.9, 127.0, 300.0, -200.0, 1e30, -1e30, float("nan")])
    got = _map(lambda v: T.cast(v, "int8"), x, torch.zeros(8, dtype=torch.int8))
    assert got.tolist() == [1, -1, 127, 44, 56, -1, 0, 0]
    got = _map(lambda v: T.cast(v, "uint8"), x, torch.zeros(8, dtype=torch.uint8))
    assert got.tolist() == [1, 0, 127, 44, 0, 255, 0, 0]


def test_integers_become_narrower_by_dropping_bits():
    a = torch.tensor([0, 127, 128, 255, 256, 300, -1, -129], dtype=torch.int32)
    got = _map(lambda v: T.cast(v, "int8"), a, torch.zeros(8, dtype=torch.int8))
    assert got.tolist() == [0, 127, -128, -1, 0, 44, -1, 127]
    got = _map(lambda v: T.cast(v, "uint8"), a, torch.zeros(8, dtype=torch.uint8))
    assert got.tolist() == [0, 127, 128, 255, 0, 44, 255, 127]
    got = _map(lambda v: T.cast(v, "uint32"), a, torch.zeros(8, dtype=torch.uint32))
    assert got.numpy().tolist() == [v & 0xFFFFFFFF for v in a.tolist()]


_ALL = [
    *("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]


@pytest.mark.parametrize("source", _ALL)
def test_small_whole_numbers_survive_every_cast(source):
    a = torch.tensor([0, 1, 2, 3, 4, 8, 16]).to(getattr(torch, source))
    for target in _ALL:
        got = _map(lambda v, target=target: T.cast(v, target), a, torch.zeros(7).to(getattr(torch, target)))
        want = a.to(torch.float32) if target != "bool" else (a.to(torch.float32) != 0)
        assert got.to(torch.float32).tolist() == want.to(torch.float32).tolist(), target


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_casts_to_float8_round_to_even_and_saturate(name):
    dtype = getattr(torch, name)
    largest = torch.finfo(dtype).max
    x = torch.tensor([0.1, 1.0625, 1.1875, -3.3, 1e6, -1e6, largest, 2.0**-12])
    got = _map(lambda v: T.cast(v, name), x, torch.zeros(8).to(dtype)).float()
    assert torch.equal(got[[0, 1, 2, 3, 7]], x[[0, 1, 2, 3, 7]].to(dtype).float())
    assert got[4:7].tolist() == [largest, -largest, largest]


def test_a_cast_on_the_way_into_half_precision_rounds_to_even():
    x = torch.tensor([1 + 2.0**-11, 1 + 3 * 2.0**-11, 65520.0, 1e-8])
    got = _map(lambda v: T.cast(v, "float16"), x, torch.zeros(4).half())
    assert got.float().tolist() == [1.0, 1 + 2.0**-9, float("inf"), 0.0]


def test_reinterpret_keeps_the_bits():
    x = torch.tensor([1.0, -2.5, 0.0, float("inf")])
    got = _map(lambda v: T.reinterpret(v, "uint32"), x, torch.zeros(4, dtype=torch.uint32))
    assert got.numpy().tolist() == [0x3F800000, 0xC0200000, 0, 0x7F800000]
    back = _map(lambda v: T.reinterpret(v, "float32"), got, torch.full((4,), 77.0))
    assert torch.equal(back, x)
    half = torch.tensor([1.0, -2.0]).half()
    assert _map(lambda v: T.reinterpret(v, "int16"), half, torch.zeros(2, dtype=torch.int16)).tolist() == [
        0x3C00,
        -0x4000,
    ]


def test_a_large_exponent_by_bits_as_fast_exponentials_do():
    exponents = torch.tensor([0, 1, -3, 10], dtype=torch.int32)
    got = _map(lambda e: T.reinterpret((e + 127) << 23, "float32"), exponents, torch.full((4,), 77.0))
    assert got.tolist() == [1.0, 2.0, 0.125, 1024.0]


def test_booleans():
    a = torch.tensor([True, True, False, False])
    b = torch.tensor([True, False, True, False])
    blank = torch.zeros(4, dtype=torch.bool)
    assert _map(lambda x, y: T.And(x, y), a, blank, b).tolist() == [True, False, False, False]
    assert _map(lambda x, y: T.Or(x, y), a, blank, b).tolist() == [True, True, True, False]
    assert _map(lambda x: T.Not(x), a, blank).tolist() == [False, False, True, True]
    assert _map(lambda x, y: x == y, a, blank, b).tolist() == [True, False, False, True]


def test_let_and_variables():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), scale: T.float32, shift: T.int32):
        with T.Kernel(1, threads=32):
            count = T.alloc_var("int32", init=3)
            factor: T.float32 = scale * 2.0
            count = count + shift
            for i in T.Parallel(8):
                x = A[i] * factor
                B[i] = x * x + T.cast(count, "float32")

    a, b = torch.randn(8), torch.full((8,), 77.0)
    simulate(main, [a, b, 1.5, 4])
    torch.testing.assert_close(b, (3 * a) ** 2 + 7)


def test_scalar_parameters_of_every_kind():
    @T.prim_func
    def main(
        B: T.Tensor((6,), "float32"),
        f: T.float32,
        h: T.float16,
        i: T.int32,
        w: T.int64,
        u: T.uint8,
        flag: T.bool,
    ):
        with T.Kernel(1, threads=32):
            B[0] = f
            B[1] = T.cast(h, "float32")
            B[2] = T.cast(i, "float32")
            B[3] = T.cast(w, "float32")
            B[4] = T.cast(u, "float32")
            B[5] = T.if_then_else(flag, 1.0, 0.0)

    b = torch.full((6,), 77.0)
    simulate(main, [b, 0.1, 0.1, -3, 1 << 40, 200, True])
    assert b.tolist() == [float(np.float32(0.1)), float(np.float16(0.1)), -3.0, float(1 << 40), 200.0, 1.0]
