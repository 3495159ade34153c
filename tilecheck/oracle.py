"""Judges an output element by element: is it as near to the right value as a right kernel's roundings allow?

    |out - value| <= u*(|value| + moved) + moved + floor,  moved = sum of coefficient*magnitude over the terms

u is the unit roundoff of the output's dtype: the store rounds the value that the terms have moved. No share
of the elements may miss. NaN and infinity must stand where the value has them.

Since the store alone may use up to all of a 16-bit bound, a verdict also says how much of the terms it takes
to come out so: how far, in units of `moved`, the right value is from the reals that round to the output (its
rounding cell: up to the midpoints between it and its neighbours). A correctly rounded right value takes none.

The floor covers what rounds absolutely: half the spacing of the output's subnormals, and 2^-126, below which
approximate fp32 instructions (`ex2.approx.ftz`) flush to zero. It is not the smallest normal of a float16
output: that is 6.1e-5, more than a softmax over 2^15 columns gives, so that a kernel that writes zeros would
pass.

float8 outputs are compared in code steps, since one step is up to a quarter of the value. Integers and
references called `exact` are compared bit for bit (any NaN equals any other; -0.0 and 0.0 differ).
"""

import math
from dataclasses import dataclass

import torch

from tilecheck import regions
from tilecheck.dtypes import DTYPES, DType
from tilecheck.dtypes import dtype as dtype_named
from tilecheck.float8 import FLUSH, Codes
from tilecheck.regions import Region
from tilecheck.spec import Reference, SpecError, Term

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer dtype to view a tensor's bit patterns through, by element size in bytes."""


@dataclass(frozen=True)
class Verdict:
    """How one output compares with its reference.

    dtype: of the output.  elements: how many it has.  misses: those out of bounds.
    budget_used: largest error over its bound, infinite where the bits or the pattern of NaN and infinity are
        wrong; in float8, 1 plus the code steps too many if any element misses.
    terms_used: largest distance from the right value to the output's rounding cell, less what flushes to
        zero, over the sum of the terms there. 0 where the right value rounds to the output; infinite as
        `budget_used` is, and where nothing but the store rounds and rounded otherwise.
    max_abs_error, relative_error: over the elements that are finite on both sides; the latter is the 2-norm
        of the error over that of the value.
    index, got, want, bound: the worst element, None and 0 for an empty output; `want` is not rounded.
    shares: what the bound there is made of: (reason, amount).
    steps: float8 only: (off, lowest, highest allowed), in code steps from the rounded value.
    exact: compared bit for bit.  empirical: the bound is not made of the author's terms, but measured.
    """

    dtype: str
    elements: int
    misses: Region
    budget_used: float = 0.0
    terms_used: float = 0.0
    max_abs_error: float = 0.0
    relative_error: float = 0.0
    index: tuple[int, ...] | None = None
    got: float | int = 0
    want: float | int = 0
    bound: float = 0.0
    shares: tuple[tuple[str, float], ...] = ()
    steps: tuple[int, int, int] | None = None
    exact: bool = False
    empirical: bool = False

    @property
    def ok(self) -> bool:
        return self.misses.count == 0

    def lines(self, name: str) -> list[str]:
        """What to tell a kernel author about output `name`."""
        if self.index is None:
            return [f"{name}: no elements"]
        if self.ok:
            lines = [f"{name}: {regions.elements(self.elements)}, all within the bound"]
        else:
            lines = [f"{name}: {self.misses.count} of {regions.elements(self.elements)} wrong, {self.misses}"]
        lines.append(f"  worst at {list(self.index)}: {self._worst()}")
        if self.shares:
            kind = "empirical bound" if self.empirical else "bound"
            parts = " + ".join(f"{amount:.3g} ({reason})" for reason, amount in self.shares)
            lines.append(f"  {kind} there: {self.bound:.3g} = {parts}")
            where = "" if math.isfinite(self.got - self.want) else ", of the finite elements"
            lines.append(
                f"  largest absolute error {self.max_abs_error:.3g}, "
                f"relative error (norm) {self.relative_error:.3g}{where}"
            )
            if 1 < self.terms_used < math.inf:
                lines.append(f"  it would take {self.terms_used:.3g} times the terms to come out so")
        return lines

    def _worst(self) -> str:
        text = f"got {_number(self.got, self.dtype)}, want {_number(self.want, self.dtype)}"
        if self.exact:
            return f"{text}, to agree in every bit"
        error = abs(self.got - self.want)
        if not math.isfinite(error):
            return text
        text += f", error {error:.3g} is {error / self.bound:.3g} times the bound"
        if self.steps is not None:
            off, low, high = self.steps
            text += f"; {off:+d} code steps, where {low:+d} to {high:+d} are allowed"
        return text


def judge(out: torch.Tensor, reference: Reference, low: torch.Tensor | None = None) -> Verdict:
    """Compares `out` with `reference` (same shape; on any device) and says how much of the bound it used.

    low: the reference run in the kernel's own precision; wanted where the reference gives no terms. The bound
        is then empirical: twice the largest error of `low`, or of one rounding of the largest value if that
        is more.
    Raises ValueError where the reference is unusable: another shape, a float dtype below float64, terms that
    are negative, NaN or infinite where the value is finite and not open.
    """
    kind = dtype_named(str(out.dtype).removeprefix("torch."))
    value = torch.as_tensor(reference.value)
    if value.shape != out.shape:
        raise SpecError(f"the reference has shape {list(value.shape)}, the output {list(out.shape)}")
    is_open = _open_mask(reference, out)
    if reference.exact or not kind.floating:
        return _judge_exactly(out, _as_stored(value, out.dtype), is_open, kind)
    if value.dtype != torch.float64:
        raise SpecError(
            f"the reference of a {kind.name} output is {value.dtype}; it has to be computed in float64"
        )
    terms = reference.terms
    if terms is None:
        if low is None:
            raise SpecError("the reference gives no error terms, and was not run in the kernel's precision")
        terms = (_empirical_term(low.to(out.dtype), value, is_open, kind),)
    comparison = Codes(kind, out.device) if kind.bits == 8 else _Distance(kind)
    tally = _Tally(out)
    for where in regions.chunks(out.shape):
        chunk_value = value[where].to(out.device)
        skip = None if is_open is None else is_open[where]
        counted = torch.isfinite(chunk_value)
        if skip is not None:
            counted &= ~skip
        moved = _moved(terms, where, out, counted)
        bound = kind.unit * (chunk_value.abs() + moved) + moved + _floor(kind)
        ratio = comparison.ratio(out[where], chunk_value, moved, bound)
        needed = _needed(comparison.cell(out[where]), out[where].double(), chunk_value, moved, _flush(kind))
        needed.masked_fill_(ratio == math.inf, math.inf)
        tally.add(where, ratio, needed, out[where].double(), chunk_value, skip)
    return _verdict(tally, out, value, terms, kind, comparison, empirical=reference.terms is None)


def _flush(kind: DType) -> float:
    return min(FLUSH, kind.smallest_normal)


def _floor(kind: DType) -> float:
    return kind.unit * kind.smallest_normal + _flush(kind)


def _open_mask(reference: Reference, out: torch.Tensor) -> torch.Tensor | None:
    if reference.open is None:
        return None
    mask = torch.as_tensor(reference.open)
    if mask.dtype != torch.bool:
        raise SpecError(f"`open` of the reference is {mask.dtype}, not boolean")
    return mask.to(out.device).broadcast_to(out.shape)


def _magnitude(term: Term, out: torch.Tensor) -> torch.Tensor:
    magnitude = torch.as_tensor(term.magnitude)
    try:
        return magnitude.broadcast_to(out.shape)
    except RuntimeError:
        raise SpecError(
            f"term {term.reason!r}: magnitude of shape {list(magnitude.shape)} does not broadcast "
            f"to {list(out.shape)}"
        ) from None


def _moved(
    terms: tuple[Term, ...], where: tuple[slice, ...], out: torch.Tensor, counted: torch.Tensor
) -> torch.Tensor:
    """Sum of the terms over a chunk; zero where no bound is needed (`counted` is false)."""
    moved = torch.zeros_like(counted, dtype=torch.float64)
    for term in terms:
        amount = term.coefficient * _magnitude(term, out)[where].to(out.device, torch.float64)
        amount = torch.where(counted, amount, 0.0)
        bad = ~((amount >= 0) & (amount < math.inf))
        if bad.any():
            at = regions.index_in(
                int(bad.flatten().to(torch.uint8).argmax()), bad.shape, regions.starts(where, out.ndim)
            )
            raise SpecError(
                f"term {term.reason!r} is {float(amount[bad][0])} at {list(at)}, where the value is finite; "
                "mark the element `open` if the algorithm leaves it open"
            )
        moved += amount
    return moved


def _needed(
    cell: tuple[torch.Tensor, torch.Tensor],
    got: torch.Tensor,
    value: torch.Tensor,
    moved: torch.Tensor,
    flush: float,
) -> torch.Tensor:
    """Share of the terms that brings `value` into the rounding cell of `got`; 0 for NaN."""
    inner, outer = cell
    along = value * torch.copysign(torch.ones_like(got), got)
    apart = torch.maximum(inner - along, along - outer).sub_(flush).clamp_(min=0.0)
    return apart.div_(moved).nan_to_num_(0.0, posinf=math.inf).masked_fill_(torch.isnan(got), 0.0)


def _empirical_term(
    low: torch.Tensor, value: torch.Tensor, is_open: torch.Tensor | None, kind: DType
) -> Term:
    if low.shape != value.shape:
        raise SpecError(
            f"in the kernel's precision the reference has shape {list(low.shape)}, in float64 "
            f"{list(value.shape)}"
        )
    largest = 0.0
    for where in regions.chunks(value.shape):
        right, rounded = value[where], low[where].to(value.device, torch.float64)
        counted = torch.isfinite(right) & torch.isfinite(rounded)
        if is_open is not None:
            counted &= ~is_open[where].to(value.device)
        # One element may come out right by luck; no kernel can be asked for less than one rounding.
        error = torch.maximum((rounded - right).abs(), kind.unit * right.abs())
        largest = max(largest, float(torch.where(counted, error, 0.0).max()))
    return Term(
        "twice the largest error of the reference in the kernel's precision",
        2.0,
        torch.tensor(largest, dtype=torch.float64),
    )


class _Distance:
    """Compares by absolute error."""

    def __init__(self, kind: DType) -> None:
        self._kind = kind
        # Halfway from the largest finite value to the next power of two; from there on it rounds to infinity.
        self._overflow = kind.largest / (1 - kind.unit) * (1 - kind.unit / 2)

    def ratio(
        self, out: torch.Tensor, value: torch.Tensor, moved: torch.Tensor, bound: torch.Tensor
    ) -> torch.Tensor:
        """Error over bound; infinite where the pattern of NaN and infinity is wrong, 0 where it is right."""
        got = out.double()
        # Infinity is also right where a value within reach of the terms rounds to it.
        overflows = torch.isinf(got) & (value * torch.sign(got) + moved + FLUSH >= self._overflow)
        pattern = (got == value) | (torch.isnan(got) & torch.isnan(value)) | overflows
        both = torch.isfinite(got) & torch.isfinite(value)
        error = (got - value).abs_().div_(bound)
        return torch.where(both, error, torch.where(pattern, 0.0, math.inf))

    def cell(self, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Magnitudes between which numbers of the sign of `out` round to it; the first negative for zero."""
        size, kind = out.double().abs(), self._kind
        # Half a spacing around it: `unit` times the power of two below, and half of that from such a power
        # towards zero. Below the smallest normal spacings stay the same.
        normal = size.clamp(min=kind.smallest_normal)
        power = normal / (2 * torch.frexp(normal).mantissa)
        inwards = torch.where((power == normal) & (size > kind.smallest_normal), 0.5, 1.0)
        inner = torch.where(torch.isinf(size), self._overflow, size - kind.unit * power * inwards)
        return inner, torch.where(torch.isinf(size), math.inf, size + kind.unit * power)


def _as_stored(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`value` in the output's dtype, which has to hold it exactly."""
    if value.dtype == dtype:
        return value
    stored = value.to(dtype)
    same = (stored.double() == value.double()) | (torch.isnan(stored.double()) & torch.isnan(value.double()))
    if not same.all():
        first = (~same).nonzero()[0].tolist()
        raise SpecError(
            f"the reference is to be met exactly, but its value {value[tuple(first)].item()} at {first} "
            f"does not exist in {str(dtype).removeprefix('torch.')}"
        )
    return stored


def _judge_exactly(
    out: torch.Tensor, value: torch.Tensor, is_open: torch.Tensor | None, kind: DType
) -> Verdict:
    bits = BITS[out.element_size()]
    tally = _Tally(out)
    for where in regions.chunks(out.shape):
        got, want = out[where], value[where].to(out.device)
        same = got.view(bits) == want.view(bits)
        if kind.floating:
            same |= torch.isnan(got.double()) & torch.isnan(want.double())
        skip = None if is_open is None else is_open[where]
        ratio = torch.where(same, 0.0, math.inf)
        tally.add(where, ratio, ratio, got.double(), want.double(), skip)
    return _verdict(tally, out, value, (), kind, None, exact=True)


class _Tally:
    """Gathers the chunks' ratios and errors."""

    def __init__(self, out: torch.Tensor) -> None:
        self.misses = Region(tuple(out.shape))
        self.worst = -1.0
        self.needed = 0.0
        self.index: tuple[int, ...] | None = None
        self.max_abs_error = 0.0
        self._error_squared = 0.0
        self._value_squared = 0.0

    def add(
        self,
        where: tuple[slice, ...],
        ratio: torch.Tensor,
        needed: torch.Tensor,
        got: torch.Tensor,
        value: torch.Tensor,
        skip: torch.Tensor | None,
    ) -> None:
        counted = torch.isfinite(got) & torch.isfinite(value)
        if skip is not None:
            ratio, needed = ratio.masked_fill(skip, 0.0), needed.masked_fill(skip, 0.0)
            counted &= ~skip
        offset = regions.starts(where, ratio.ndim)
        self.misses = self.misses.plus(ratio > 1, offset)
        at = int(ratio.flatten().argmax())
        worst = float(ratio.flatten()[at])
        if worst > self.worst:
            self.worst, self.index = worst, regions.index_in(at, ratio.shape, offset)
        self.needed = max(self.needed, float(needed.max()))
        error = torch.where(counted, (got - value).abs(), 0.0)
        self.max_abs_error = max(self.max_abs_error, float(error.max()))
        self._error_squared += float(error.square_().sum())
        self._value_squared += float(torch.where(counted, value, 0.0).square_().sum())

    @property
    def relative_error(self) -> float:
        if self._error_squared == 0:
            return 0.0
        return math.sqrt(self._error_squared / self._value_squared) if self._value_squared else math.inf


def _verdict(
    tally: _Tally,
    out: torch.Tensor,
    value: torch.Tensor,
    terms: tuple[Term, ...],
    kind: DType,
    comparison: "_Distance | Codes | None",
    *,
    exact: bool = False,
    empirical: bool = False,
) -> Verdict:
    """The verdict with the worst element spelled out."""
    at = tally.index
    if at is None:
        return Verdict(kind.name, 0, tally.misses, exact=exact, empirical=empirical)
    got, want = _scalar(out[at]), _scalar(value[at])
    shares: tuple[tuple[str, float], ...] = ()
    steps = None
    if not exact and math.isfinite(want):
        parts = [(t.reason, t.coefficient * float(_magnitude(t, out)[at])) for t in terms]
        moved = sum(amount for _, amount in parts)
        rounding = kind.unit * (abs(want) + moved)
        shares = ((f"rounding to {kind.name}", rounding), *parts, ("subnormals", _floor(kind)))
        if isinstance(comparison, Codes) and math.isfinite(got):
            steps = comparison.steps(out[at], value[at].to(out.device), moved)
    return Verdict(
        dtype=kind.name,
        elements=out.numel(),
        misses=tally.misses,
        budget_used=tally.worst,
        terms_used=tally.needed,
        max_abs_error=tally.max_abs_error,
        relative_error=tally.relative_error,
        index=at,
        got=got,
        want=want,
        bound=sum(amount for _, amount in shares),
        shares=shares,
        steps=steps,
        exact=exact,
        empirical=empirical,
    )


def _scalar(element: torch.Tensor) -> float | int:
    if element.is_floating_point():
        return float(element.double())
    # A bool's byte may be neither 0 nor 1 where a kernel went wrong; torch would hide that.
    return int(element.view(torch.uint8) if element.dtype == torch.bool else element)


def _number(x: float | int, dtype: str) -> str:
    """`x` with digits enough to tell the dtype's values apart, and one to spare."""
    kind = DTYPES[dtype]
    if isinstance(x, int) or not kind.floating:
        return str(int(x))
    digits = math.ceil(-math.log2(kind.unit) * math.log10(2)) + 2
    return format(x, f".{min(digits, 17)}g")
