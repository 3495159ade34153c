"""How the simulator holds the values of a program, and the arithmetic on them.

A value that is the same for every lane is a Python int or bool, or a tensor without dimensions for floats
(Python floats would not round). A value that differs between lanes is a tensor over the lane grid. Element
types that torch cannot calculate with are carried in a wider one: uint16 and uint32 in int64, uint64 in int64
with the same bits, float8 in float32 with values that float8 has.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

Value: TypeAlias = Any  # int | bool | Tensor

TFLOAT32 = "custom[tfloat32]"
"""TVM's name of the type: 19 bits, kept in 32."""

_FLOATS = {
    TFLOAT32: torch.float32,
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3": torch.float8_e4m3fn,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "float8_e5m2": torch.float8_e5m2,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
}
_INTEGERS = {
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
}
_STORAGE = {**_FLOATS, **_INTEGERS, "bool": torch.bool}
_NARROW_UNSIGNED = ("uint16", "uint32")
_CARRIED_WIDER = {"uint16": torch.int64, "uint32": torch.int64, "uint64": torch.int64}


# torch holds the wider unsigned integers, but cannot index or fill them; it can signed ones of the same bits.
_MEMORY = {**_STORAGE, "uint16": torch.int16, "uint32": torch.int32, "uint64": torch.int64}


def memory_dtype(name: str) -> torch.dtype:
    """The torch dtype in which the simulator keeps memory of TileLang dtype `name`, bit by bit as it is."""
    return _MEMORY[name]


def storage_dtype(name: str) -> torch.dtype:
    """The torch dtype that a caller's tensor of TileLang dtype `name` has; KeyError where torch has none."""
    return _STORAGE[name]


def value_dtype(name: str) -> torch.dtype:
    """The torch dtype in which values of TileLang dtype `name` are calculated."""
    if name in _CARRIED_WIDER:
        return _CARRIED_WIDER[name]
    return torch.float32 if is_float8(name) else _STORAGE[name]


def is_known(name: str) -> bool:
    return name in _STORAGE


def is_float(name: str) -> bool:
    return name in _FLOATS


def is_float8(name: str) -> bool:
    return name.startswith("float8")


def is_unsigned(name: str) -> bool:
    return name.startswith("uint")


def bits_of(name: str) -> int:
    return (
        1
        if name == "bool"
        else torch.iinfo(_STORAGE[name]).bits
        if name in _INTEGERS
        else _STORAGE[name].itemsize * 8
    )


def constant(value: float, name: str) -> Value:
    """The constant `value` of dtype `name`, rounded into it."""
    if is_float(name):
        return torch.tensor(value, dtype=torch.float64).to(_STORAGE[name]).to(value_dtype(name))
    return bool(value) if name == "bool" else int(value)


def truth(value: Value) -> Value:
    """A condition as Python bool where it is the same for every lane, else as boolean tensor."""
    if isinstance(value, Tensor):
        if value.dim() == 0:
            return bool(value)
        return value if value.dtype is torch.bool else value != 0
    return bool(value)


def as_tensor(value: Value, name: str) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=value_dtype(name))


def common_shape(*shapes: tuple[int, ...]) -> torch.Size:
    """The shape that tensors of `shapes` broadcast to."""
    return torch.Size(torch.broadcast_shapes(*shapes))


def wrap(value: Value, name: str) -> Value:
    """An integer result brought back into the range of dtype `name`, as two's complement does."""
    if isinstance(value, Tensor):
        if name in _NARROW_UNSIGNED:
            return value & ((1 << bits_of(name)) - 1)
        return value  # torch wraps in the type itself
    bits = bits_of(name)
    if is_unsigned(name) and name != "uint64":
        return value & ((1 << bits) - 1)
    low = -(1 << (bits - 1))
    if low <= value < -low:
        return value
    return ((value - low) & ((1 << bits) - 1)) + low


def cast(value: Value, source: str, target: str) -> Value:
    """`value` converted as CUDA converts: round to nearest even; float to integer towards zero, saturating
    (at 32 bits for narrower ones), NaN to 0; float8 saturates to its largest finite value.
    """
    if source == target:
        return value
    if is_float(target):
        if isinstance(value, Tensor):
            if source == "uint64":
                value = torch.where(value < 0, value.to(torch.float64) + 2.0**64, value.to(torch.float64))
        elif source == "uint64" and value < 0:
            value += 1 << 64
        if target == TFLOAT32:
            return to_tf32(torch.as_tensor(value, dtype=torch.float32), nearest=True)
        if is_float8(target):
            return _to_float8(torch.as_tensor(value, dtype=torch.float32), target).to(torch.float32)
        if isinstance(value, Tensor):
            return value.to(value_dtype(target))
        return torch.tensor(value, dtype=value_dtype(target))
    if target == "bool":
        return value != 0 if isinstance(value, Tensor) and value.dim() else bool(value)
    if is_float(source):
        return _float_to_integer(value, target)
    if isinstance(value, Tensor):
        return wrap(value.to(value_dtype(target)), target)
    return wrap(int(value), target)


def to_tf32(value: Tensor, *, nearest: bool) -> Tensor:
    """fp32 brought to the 19 bits of tf32: by dropping the other 13, as a tensor core reads an operand, or to
    the nearest, ties away from zero, as the cast does (round_half_ulp_truncate in CUTLASS's tfloat32.h).
    """
    bits = value.contiguous().view(torch.int32)
    if nearest:
        bits = torch.where(value.isfinite(), bits + 0x1000, bits)
    return (bits & -0x2000).view(torch.float32)


def _to_float8(value: Tensor, target: str) -> Tensor:
    limit = torch.finfo(_FLOATS[target]).max
    return value.clamp(-limit, limit).to(_FLOATS[target])


def _float_to_integer(value: Tensor, target: str) -> Value:
    bits = bits_of(target)
    if bits < 32:
        # nvcc converts to 32 bits, saturating, and keeps the low ones: cvt.rzi.s32.f32, then st.u8.
        wide = "uint32" if is_unsigned(target) else "int32"
        return cast(_float_to_integer(value, wide), wide, target)
    low = 0 if is_unsigned(target) else -(1 << (bits - 1))
    high = (1 << bits) - 1 if is_unsigned(target) else -low - 1
    if value.dim() == 0:
        number = float(value)
        if math.isnan(number):
            return 0
        return wrap(int(min(max(number, low), high)), target)
    exact = value.to(torch.float64).nan_to_num(nan=0.0).trunc()
    if target == "uint64":
        # Held as int64 of the same bits: what that cannot hold is converted less 2^63, and the bit put back.
        over = exact >= 2.0**63
        low_part = torch.where(over, exact - 2.0**63, exact).clamp(0, math.nextafter(2.0**63, 0.0))
        whole = low_part.to(torch.int64)
        return torch.where(exact >= 2.0**64, -1, torch.where(over, whole ^ -(1 << 63), whole))
    # The largest int64 has no float64 of its own: compare before converting.
    inside = exact.clamp(low, math.nextafter(float(high), 0.0) if bits == 64 else high).to(torch.int64)
    return torch.where(exact >= high, high, inside).to(value_dtype(target))


def store_form(value: Value, name: str) -> Value:
    """`value` as it is written to memory of dtype `name`."""
    if isinstance(value, Tensor):
        if value.dtype is _MEMORY[name]:
            return value
        return _to_float8(value, name) if is_float8(name) else value.to(_MEMORY[name])
    if name in _NARROW_UNSIGNED and value >> (bits_of(name) - 1):
        return value - (1 << bits_of(name))
    return value


def load_form(value: Tensor, name: str) -> Value:
    """What was read from memory of dtype `name`, as a value: integers without dimensions become Python's."""
    if value.dim() == 0 and not is_float(name):
        number = value.item()
        return int(number) & ((1 << bits_of(name)) - 1) if name in _NARROW_UNSIGNED else number
    return to_values(value, name)


def to_values(memory: Tensor, name: str) -> Tensor:
    """A tensor read from memory of dtype `name`, as a tensor to calculate with."""
    wide = value_dtype(name)
    if memory.dtype is wide:
        return memory
    if name in _NARROW_UNSIGNED:
        return memory.to(wide) & ((1 << bits_of(name)) - 1)
    return memory.to(wide)


def arithmetic(op: str, name: str) -> Callable[[Value, Value], Value]:
    """The function of a binary node of the IR ("Add", "FloorDiv", "Max", "LT", ...) on values of dtype
    `name`.
    """
    if op in _COMPARISONS:
        return _unsigned64(_COMPARISONS[op]) if name == "uint64" else _COMPARISONS[op]
    if is_float(name):
        function = _FLOAT_ARITHMETIC[op]
        return (lambda a, b: cast(function(a, b), "float32", name)) if is_float8(name) else function
    if name == "uint64" and op in ("Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"):
        return _big(op)
    function = _INTEGER_ARITHMETIC[op]
    if op in ("Add", "Sub", "Mul"):
        return lambda a, b: wrap(function(a, b), name)
    return function


def _unsigned64(compare: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    flip = -(1 << 63)  # flipping the sign bit turns unsigned order into signed order

    def compared(a: Value, b: Value) -> Value:
        return compare(a ^ flip, b ^ flip)

    return compared


def _big(op: str) -> Callable[[Value, Value], Value]:
    """Operations on uint64 that the same bits in an int64 would get wrong; numpy has the type."""
    mask = (1 << 64) - 1
    of_arrays = {"Min": np.minimum, "Max": np.maximum, "Mod": np.remainder, "FloorMod": np.remainder}.get(
        op, np.floor_divide
    )

    def calculate(a: Value, b: Value) -> Value:
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            return wrap(_INTEGER_ARITHMETIC[op](a & mask, b & mask), "uint64")
        if op not in ("Min", "Max"):
            b = _without_zero(b)
        result = of_arrays(_as_uint64(a), _as_uint64(b))
        return torch.from_numpy(np.asarray(result).view(np.int64))

    return calculate


def _as_uint64(value: Value) -> Any:
    return torch.as_tensor(value, dtype=torch.int64).numpy().view(np.uint64)


def _truncated_division(a: Value, b: Value) -> Value:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return torch.div(a, _without_zero(b), rounding_mode="trunc")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _truncated_remainder(a: Value, b: Value) -> Value:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return torch.fmod(torch.as_tensor(a), _without_zero(b))
    return a - b * _truncated_division(a, b)


def _floor_division(a: Value, b: Value) -> Value:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return torch.div(a, _without_zero(b), rounding_mode="floor")
    return a // b


def _floor_remainder(a: Value, b: Value) -> Value:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return torch.remainder(a, _without_zero(b))
    return a % b


def _without_zero(b: Value) -> Value:
    # Lanes switched off by a condition may hold a zero divisor; torch would raise for them all.
    return torch.where(b == 0, 1, b) if isinstance(b, Tensor) else b


def _either_tensor(
    of_tensors: Callable[..., Value], of_numbers: Callable[..., Value]
) -> Callable[..., Value]:
    def calculate(a: Value, b: Value) -> Value:
        if isinstance(a, Tensor):
            return of_tensors(a, b if isinstance(b, Tensor) else torch.tensor(b, dtype=a.dtype))
        if isinstance(b, Tensor):
            return of_tensors(torch.tensor(a, dtype=b.dtype), b)
        return of_numbers(a, b)

    return calculate


_COMPARISONS: dict[str, Callable[[Value, Value], Value]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}
_INTEGER_ARITHMETIC: dict[str, Callable[[Value, Value], Value]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _truncated_division,
    "Mod": _truncated_remainder,
    "FloorDiv": _floor_division,
    "FloorMod": _floor_remainder,
    "Min": _either_tensor(torch.minimum, min),
    "Max": _either_tensor(torch.maximum, max),
}
_FLOAT_ARITHMETIC: dict[str, Callable[[Value, Value], Value]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "Mod": torch.fmod,
    "FloorDiv": lambda a, b: torch.floor(a / b),
    "FloorMod": torch.remainder,
    # CUDA's fmaxf and __hmax return the operand that is not NaN; torch.maximum would return NaN.
    "Min": torch.fmin,
    "Max": torch.fmax,
}
