"""A device that computes something else than the simulator is told from one that only rounds otherwise."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import tilelang.language as T
import torch

from tilecheck.arches import ARCHES
from tilecheck.device import Simulator
from tilecheck.differential import Disagreement, agree
from tilecheck.program import Program
from tilecheck.spec import Case, KernelSpec, Reference, Term

FP16 = 2.0**-11


def double(n: int, dtype: str) -> Any:
    @T.prim_func
    def program(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < n:
                    Y[bx * 32 + i] = X[bx * 32 + i] * 2 + 1

    return program


def spec(reference: Callable[..., Any], n: int = 70) -> KernelSpec:
    return KernelSpec("double", double, reference, (Case("tail", {"n": n}, "float16", why="a tail"),))


class Otherwise(Simulator):
    """Computes like the simulator, then does something to the output."""

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__(ARCHES["sm_90a"])
        self.change = change

    def run(self, program: Program, arguments: Mapping[str, Any]) -> None:
        super().run(program, arguments)
        arguments["Y"].copy_(self.change(arguments["Y"]))


def next_up(y: torch.Tensor) -> torch.Tensor:
    """The neighbour of each element that is further from zero."""
    return (y.view(torch.int16) + 1).view(torch.float16)


def with_terms(X: torch.Tensor) -> Reference:
    return Reference(X * 2 + 1, (Term("product", FP16, (X * 2).abs()),))


@pytest.mark.parametrize("reference", [with_terms, lambda X: X * 2 + 1], ids=["terms", "empirical"])
def test_one_rounding_apart_agrees(reference: Callable[..., Any]) -> None:
    kernel = spec(reference)
    for change in (lambda y: y, next_up):
        verdicts = agree(kernel, kernel.cases[0], Otherwise(change), seed=0)
        assert verdicts["Y"].ok


def halved(n: int, dtype: str) -> Any:
    @T.prim_func
    def program(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                Y[i] = X[i] * 0.5

    return program


@pytest.mark.parametrize(("steps", "agrees"), [(1, True), (2, False)])
def test_subnormals_may_be_rounded_apart_by_one_step(steps: int, agrees: bool) -> None:
    # Half way between two subnormal numbers, one may have rounded up and the other down.
    small = {"X": torch.full((32,), 201 * 2.0**-24, dtype=torch.float16)}
    case = Case("small", {"n": 32}, "float16", why="subnormal results", draw="small")
    kernel = KernelSpec(
        "halved", halved, lambda X: Reference(X / 2, terms=()), (case,), draws={"small": lambda: small}
    )
    device = Otherwise(lambda y: (y.view(torch.int16) + steps).view(torch.float16))
    if agrees:
        assert agree(kernel, case, device, seed=0)["Y"].ok
    else:
        with pytest.raises(Disagreement, match="worst at"):
            agree(kernel, case, device, seed=0)


@pytest.mark.parametrize("reference", [with_terms, lambda X: X * 2 + 1], ids=["terms", "empirical"])
def test_more_than_the_bound_apart_is_told_with_a_command(reference: Callable[..., Any]) -> None:
    kernel = spec(reference)

    def shift(y: torch.Tensor) -> torch.Tensor:
        return torch.cat((y[:-1], y[-1:] + 0.1))

    with pytest.raises(Disagreement) as raised:
        agree(kernel, kernel.cases[0], Otherwise(shift), seed=0, repeat="pytest this")
    message = str(raised.value)
    assert "double: CPU simulator as sm_90a and the simulator" in message
    assert "worst at [69]" in message
    assert "repeat: pytest this" in message


def test_exact_outputs_agree_in_every_bit() -> None:
    kernel = spec(lambda X: Reference((X * 2 + 1).half(), exact=True))
    agree(kernel, kernel.cases[0], Otherwise(lambda y: y), seed=0)
    with pytest.raises(Disagreement):
        agree(kernel, kernel.cases[0], Otherwise(next_up), seed=0)


def test_empty_outputs_are_not_launched() -> None:
    kernel = spec(lambda X: X, n=0)
    assert agree(kernel, kernel.cases[0], Otherwise(lambda y: 1 / 0), seed=0) == {}
