"""Math functions: operator name -> (result dtype, argument dtypes) -> function on values.

Functions marked fast (`__exp`, `fast_rcp`, `__tanhf`) are calculated exactly: the simulator does not model
fast math.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tilecheck.simulator.values import Value, as_tensor, bits_of, cast, is_float, is_float8, value_dtype, wrap

Function = Callable[..., Value]
Maker = Callable[[str, Sequence[str]], Function]
"""From the result's dtype and those of the arguments to the function on values."""


def _of_floats(function: Callable[..., Tensor]) -> Maker:
    """A function of floats, each in its own dtype; torch calculates half and bfloat16 in float32 and rounds
    once.
    """

    def make(dtype: str, arguments: Sequence[str]) -> Function:
        def calculate(*values: Value) -> Value:
            tensors = [as_tensor(v, d) for v, d in zip(values, arguments, strict=False)]
            result = function(*tensors)
            if is_float8(dtype):
                return cast(result, "float32", dtype)
            return result.to(value_dtype(dtype)) if isinstance(result, Tensor) and is_float(dtype) else result

        return calculate

    return make


def _round_away(x: Tensor) -> Tensor:
    return torch.where(x >= 0, torch.floor(x + 0.5), torch.ceil(x - 0.5))


def _fma(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (x.double() * y.double() + z.double()).to(x.dtype)


_FLOATS: dict[str, Callable[..., Any]] = {
    "tirx.exp": torch.exp,
    "tirx.exp2": torch.exp2,
    "tirx.exp10": lambda x: torch.pow(10.0, x),
    "tirx.log": torch.log,
    "tirx.log2": torch.log2,
    "tirx.log10": torch.log10,
    "tirx.log1p": torch.log1p,
    "tirx.sqrt": torch.sqrt,
    "tirx.rsqrt": torch.rsqrt,
    "tirx.sigmoid": lambda x: 1 / (1 + torch.exp(-x)),  # TileLang writes it out; each step rounds
    "tirx.tanh": torch.tanh,
    "tirx.sinh": torch.sinh,
    "tirx.cosh": torch.cosh,
    "tirx.sin": torch.sin,
    "tirx.cos": torch.cos,
    "tirx.tan": torch.tan,
    "tirx.asin": torch.asin,
    "tirx.acos": torch.acos,
    "tirx.atan": torch.atan,
    "tirx.asinh": torch.asinh,
    "tirx.acosh": torch.acosh,
    "tirx.atanh": torch.atanh,
    "tirx.atan2": torch.atan2,
    "tirx.erf": torch.erf,
    "tirx.floor": torch.floor,
    "tirx.ceil": torch.ceil,
    "tirx.trunc": torch.trunc,
    "tirx.round": torch.round,  # nearbyintf: ties to even
    "tirx.nearbyint": torch.round,
    "tirx.fabs": torch.abs,
    "tirx.fmod": torch.fmod,
    "tirx.copysign": torch.copysign,
    "tirx.hypot": torch.hypot,
    "tirx.nextafter": torch.nextafter,
    "tirx.pow": torch.pow,
    "tirx.fma": _fma,
    "tirx.isnan": torch.isnan,
    "tirx.isinf": torch.isinf,
    "tirx.isfinite": torch.isfinite,
    "tl.__exp": torch.exp,
    "tl.__exp10": lambda x: torch.pow(10.0, x),
    "tl.__log": torch.log,
    "tl.__log2": torch.log2,
    "tl.__log10": torch.log10,
    "tl.__sin": torch.sin,
    "tl.__cos": torch.cos,
    "tl.__tan": torch.tan,
    "tl.fast_rcp": torch.reciprocal,
    "tl.fmul": torch.mul,
    "tl.fma": _fma,
    "tl.round_ties_away_from_zero": _round_away,
    "tl.ieee_frsqrt": torch.rsqrt,
    "__tanhf": torch.tanh,  # CUDA's own, as an external function
}

# The last argument of these is the rounding mode; whoever translates a call refuses all but round-to-nearest.
_IEEE: dict[str, Callable[..., Any]] = {
    "tl.ieee_add": torch.add,
    "tl.ieee_sub": torch.sub,
    "tl.ieee_mul": torch.mul,
    "tl.ieee_fdiv": torch.div,
    "tl.ieee_frcp": torch.reciprocal,
    "tl.ieee_fsqrt": torch.sqrt,
    "tl.ieee_fmaf": _fma,
}


def _ieee(function: Callable[..., Any]) -> Maker:
    def make(dtype: str, arguments: Sequence[str]) -> Function:
        return lambda *values: function(*(as_tensor(v, dtype) for v in values[:-1]))

    return make


def _plain(function: Callable[..., Value]) -> Maker:
    return lambda dtype, arguments: function


def _bitwise_not(dtype: str, arguments: Sequence[str]) -> Function:
    if dtype == "bool":
        return lambda a: ~a if isinstance(a, Tensor) else not a
    return lambda a: wrap(~a, dtype)


def _shift_left(dtype: str, arguments: Sequence[str]) -> Function:
    return lambda a, b: wrap(a << b, dtype)


def _shift_right(dtype: str, arguments: Sequence[str]) -> Function:
    if dtype != "uint64":
        return lambda a, b: a >> b

    # The bits of a uint64 are held in an int64: clear what the arithmetic shift copied from the sign.
    def shift(a: Value, b: Value) -> Value:
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            return wrap((a & ((1 << 64) - 1)) >> b, dtype)
        keep = ~(torch.tensor(-1, dtype=torch.int64) << (64 - torch.as_tensor(b)))
        return torch.where(torch.as_tensor(b) == 0, a, (a >> b) & keep)

    return shift


def _bits(count: Callable[[int, int], int]) -> Maker:
    """A function of the bits of an integer, calculated number by number."""

    def make(dtype: str, arguments: Sequence[str]) -> Function:
        width = bits_of(arguments[0])

        def calculate(value: Value) -> Value:
            if not isinstance(value, Tensor):
                return count(value & ((1 << width) - 1), width)
            flat = [count(int(v) & ((1 << width) - 1), width) for v in value.flatten()]
            return torch.tensor(flat, dtype=value_dtype(dtype)).reshape(value.shape)

        return calculate

    return make


def _clamp(dtype: str, arguments: Sequence[str]) -> Function:
    def calculate(value: Value, low: Value, high: Value) -> Value:
        return torch.clamp(*(as_tensor(v, dtype) for v in (value, low, high)))

    return calculate


def _pow_of_int(dtype: str, arguments: Sequence[str]) -> Function:
    def calculate(base: Value, exponent: Value) -> Value:
        result = base
        for _ in range(int(exponent) - 1):
            result = result * base
        return wrap(result, dtype) if not is_float(dtype) else result

    return calculate


def _ldexp(dtype: str, arguments: Sequence[str]) -> Function:
    return lambda x, e: torch.ldexp(as_tensor(x, dtype), torch.as_tensor(e))


INTRINSICS: dict[str, Maker] = {
    **{name: _of_floats(function) for name, function in _FLOATS.items()},
    **{name: _ieee(function) for name, function in _IEEE.items()},
    "tirx.bitwise_and": _plain(lambda a, b: a & b),
    "tirx.bitwise_or": _plain(lambda a, b: a | b),
    "tirx.bitwise_xor": _plain(lambda a, b: a ^ b),
    "tirx.bitwise_not": _bitwise_not,
    "tirx.shift_left": _shift_left,
    "tirx.shift_right": _shift_right,
    "tirx.abs": _plain(abs),
    "tirx.popcount": _bits(lambda v, width: v.bit_count()),
    "tirx.clz": _bits(lambda v, width: width - v.bit_length()),
    "tl.__ffs": _bits(lambda v, width: (v & -v).bit_length()),
    "tl.clamp": _clamp,
    "tl.pow_of_int": _pow_of_int,
    "tirx.ldexp": _ldexp,
}
