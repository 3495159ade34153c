"""Inputs that kernels meet in the field and tests forget: what a normal draw is turned into, by name.

Each hits few places, so that the rest of an output shows whether it stays where it is: a NaN that reaches a
row which did not read it is a fault like any other. The reference says what is right; where the algorithm
leaves an element open, it says so too (`Reference.open`).

infinite       the first input has +inf in its first row, -inf in its second, both in its third
infinite-last  +inf is the very last element of the last input
nan            NaN is in the middle of the first input's second row
nan-last       NaN is the very last element of the last input
denormal       the first input's values are below the smallest normal number of their type
largest        the first input has the largest finite number in its first row, its negative in its second
negative-zero  the first input is -0 throughout
equal          every input is 0.75 throughout
alternating    the first input is 1.25 with signs that alternate along its last axis, the others are 0.75
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

Change = Callable[[torch.Tensor], object]


@dataclass(frozen=True)
class _Draw:
    """Changes in place, of the first, the last and all other inputs; a lone input is first and last."""

    first: Change | None = None
    last: Change | None = None
    others: Change | None = None


def hostile(draw: str, normal: torch.Tensor, first: bool, last: bool) -> torch.Tensor:
    """A floating tensor of this draw, made of a normal one.

    first, last: whether it is the first, or the last, of the kernel's floating inputs.
    """
    # torch does not compute in every type; there and back, no value changes.
    tensor = normal.to(torch.float64, copy=True)
    wanted = _draws(torch.finfo(normal.dtype))[draw]
    for change, meant in ((wanted.first, first), (wanted.last, last), (wanted.others, not first)):
        if change is not None and meant and tensor.numel():
            change(tensor)
    return tensor.to(normal.dtype)


def _draws(kind: torch.finfo) -> dict[str, _Draw]:
    return {
        "infinite": _Draw(
            first=_put((0, 0.25, math.inf), (1, 0.5, -math.inf), (2, 0.25, math.inf), (2, 0.5, -math.inf))
        ),
        "infinite-last": _Draw(last=lambda tensor: tensor.view(-1)[-1].fill_(math.inf)),
        "nan": _Draw(first=_put((1, 0.5, math.nan))),
        "nan-last": _Draw(last=lambda tensor: tensor.view(-1)[-1].fill_(math.nan)),
        "denormal": _Draw(first=lambda tensor: tensor.tanh_().mul_(kind.smallest_normal)),
        "largest": _Draw(first=_put((0, 0.25, kind.max), (1, 0.5, -kind.max))),
        "negative-zero": _Draw(first=lambda tensor: tensor.fill_(-0.0)),
        "equal": _Draw(first=lambda tensor: tensor.fill_(0.75), others=lambda tensor: tensor.fill_(0.75)),
        "alternating": _Draw(first=_alternate, others=lambda tensor: tensor.fill_(0.75)),
    }


def _alternate(tensor: torch.Tensor) -> None:
    tensor.fill_(1.25)
    _rows(tensor)[:, 1::2].neg_()


def _put(*places: tuple[int, float, float]) -> Change:
    """places: row, share of the row's length, value; rows that the tensor has not are left out."""

    def change(tensor: torch.Tensor) -> None:
        rows = _rows(tensor)
        for row, share, value in places:
            if row < len(rows):
                rows[row, int(share * rows.shape[1])] = value

    return change


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(-1, tensor.shape[-1] if tensor.ndim else 1)
