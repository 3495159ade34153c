"""Compares float8 outputs in code steps; one is up to a quarter of the value, too coarse to bound errors."""

import math

import torch

from tilecheck.dtypes import DTYPES, DType

FLUSH = DTYPES["float32"].smallest_normal
"""fp32 results below this (2^-126) may come out as zero."""


class Codes:
    """Compares by position in the ordered row of a float8 format's values.

    Position 0 is zero, +-n the largest finite values, +-(n + 1) overflow: infinity, NaN in e4m3fn, which has
    no infinity, or, in a conversion that saturates as CUDA's do, the largest finite value.
    """

    def __init__(self, kind: DType, device: torch.device) -> None:
        torch_dtype = getattr(torch, kind.name)
        values = torch.arange(128, dtype=torch.uint8).view(torch_dtype).double()
        values = values[torch.isfinite(values)]
        self._largest = len(values) - 1
        self._has_infinity = kind.name == "float8_e5m2"
        middles = (values[1:] + values[:-1]) / 2
        overflow = values[-1] + (values[-1] - values[-2]) / 2
        self._middles = torch.cat((middles, overflow[None])).to(device)

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        """Position that `x` (float64, no NaN) rounds to, ties to even."""
        below = torch.searchsorted(self._middles, x.abs())
        reached = torch.searchsorted(self._middles, x.abs(), right=True)
        return torch.where(below % 2 == 0, below, reached) * torch.sign(x).long()

    def position(self, out: torch.Tensor) -> torch.Tensor:
        """Position of float8 values; NaN, too, is at or past n + 1."""
        code = out.contiguous().view(torch.uint8).long()
        return (code & 0x7F) * (1 - 2 * (code >> 7))

    def allowed(self, value: torch.Tensor, moved: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Lowest and highest position of the value moved by the terms, and rounded to fp32 on the way."""
        reach = moved + FLUSH + 2.0**-24 * value.abs()
        return self.rounded(value - reach), self.rounded(value + reach)

    def steps(self, out: torch.Tensor, value: torch.Tensor, moved: float) -> tuple[int, int, int]:
        """Of one element: code steps from the rounded value, and the lowest and highest allowed."""
        low, high = self.allowed(value, torch.tensor(moved, dtype=torch.float64, device=value.device))
        center = self.rounded(value).clamp(-self._largest, self._largest)
        return tuple(int(p - center) for p in (self.position(out), low, high))  # type: ignore[return-value]

    def cell(self, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Magnitudes between which numbers of the sign of `out`, rounded to fp32 first, round to it.

        The first is negative for zero; the second infinite from the largest finite value on, as conversions
        may saturate.
        """
        at = self.position(out).abs().clamp_(max=self._largest + 1)
        inner = torch.cat((-self._middles[:1], self._middles))[at]
        outer = torch.where(at < self._largest, self._middles[at.clamp(max=self._largest)], math.inf)
        return inner - 2.0**-24 * inner.abs(), outer * (1 + 2.0**-24)

    def ratio(
        self, out: torch.Tensor, value: torch.Tensor, moved: torch.Tensor, bound: torch.Tensor
    ) -> torch.Tensor:
        """Error over bound where the code is allowed, else 1 plus the steps too many.

        Infinite where the pattern of NaN and infinity is wrong.
        """
        got, wild = out.double(), self._largest + 1
        low, high = self.allowed(torch.nan_to_num(value, nan=0.0, posinf=math.inf, neginf=-math.inf), moved)
        position = self.position(out)
        excess = torch.maximum(
            low.clamp(max=self._largest) - position, position - high.clamp(min=-self._largest)
        )
        distance = torch.where(torch.isfinite(value), (got - value).abs() / bound, 0.0).clamp(max=1.0)
        ratio = torch.where(torch.isnan(value), math.inf, torch.where(excess > 0, 1.0 + excess, distance))
        # The NaN that stands for overflow may have either sign.
        as_nan = torch.isnan(value) | (((high == wild) | (low == -wild)) & (not self._has_infinity))
        as_infinity = torch.where(position > 0, high, -low) == wild
        pattern = torch.where(torch.isnan(got), as_nan, as_infinity)
        return torch.where(torch.isfinite(got), ratio, torch.where(pattern, 0.0, math.inf))
