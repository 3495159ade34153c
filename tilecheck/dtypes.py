"""Element types by the names TileLang uses for them: width, rounding unit, range. Imports no tensor library.

`unit` is the unit roundoff u of round-to-nearest, half the spacing of the numbers just above 1
(2^-11 for float16, since its significand has 11 bits); 0 for integers, which do not round.
Ranges are those of IEEE 754, and of the OCP 8-bit floating point specification (revision 1.0) for float8.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class DType:
    """One element type.

    name: as TileLang and torch spell it.  short: as case ids spell it.  bits: storage width.
    unit: unit roundoff, 0 for integers.  largest: largest finite value.  smallest_normal: 0 for integers.
    """

    name: str
    short: str
    bits: int
    unit: float = 0.0
    largest: float = 0.0
    smallest_normal: float = 0.0

    @property
    def floating(self) -> bool:
        return self.unit > 0

    @property
    def bytes(self) -> int:
        return self.bits // 8


def _float(name: str, short: str, bits: int, significand: int, largest: float, min_exponent: int) -> DType:
    return DType(name, short, bits, 2.0**-significand, largest, 2.0**min_exponent)


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        _float("float64", "fp64", 64, 53, 1.7976931348623157e308, -1022),
        _float("float32", "fp32", 32, 24, 3.4028234663852886e38, -126),
        _float("float16", "fp16", 16, 11, 65504.0, -14),
        _float("bfloat16", "bf16", 16, 8, 3.3895313892515355e38, -126),
        _float("float8_e4m3fn", "e4m3", 8, 4, 448.0, -6),
        _float("float8_e5m2", "e5m2", 8, 3, 57344.0, -14),
        DType("int64", "i64", 64, largest=2.0**63 - 1),
        DType("int32", "i32", 32, largest=2.0**31 - 1),
        DType("int16", "i16", 16, largest=2.0**15 - 1),
        DType("int8", "i8", 8, largest=127.0),
        DType("uint8", "u8", 8, largest=255.0),
        DType("bool", "bool", 8, largest=1.0),
    )
}

TF32_UNIT = 2.0**-11
"""Unit roundoff of tf32, the format tensor cores round fp32 operands to: 10 stored significand bits."""


def dtype(name: str) -> DType:
    """The element type called `name`; ValueError with the known names if there is none."""
    try:
        return DTYPES[name]
    except (KeyError, TypeError):
        raise ValueError(f"unknown dtype {name!r}; known: {', '.join(DTYPES)}") from None
