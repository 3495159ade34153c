"""A vendor that computes something else is found, on the CPU."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import tilelang.language as T
import torch

from kernels import SPECS
from tilecheck.arches import arch
from tilecheck.device import Simulator
from tilecheck.latency.contenders import tensor_sets, vendors
from tilecheck.latency.vendors import VendorMismatch, check_vendors
from tilecheck.program import build_program
from tilecheck.spec import Case, KernelSpec


def scaled(m: int, n: int, dtype: str) -> Any:
    @T.prim_func
    def main(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=128) as row:
            for j in T.Parallel(n):
                Y[row, j] = X[row, j] * 2

    return main


def check(**vendors: Callable[..., Any]) -> dict[str, float]:
    case = Case("one-fp16", {"m": 8, "n": 16}, "float16", why="x")
    spec = KernelSpec("scaled", scaled, lambda X: 2 * X, (case,), vendor=vendors)
    return check_vendors(spec, case, Simulator(arch("sm_90a")), seed=0)


def test_right_vendors_pass_within_their_own_rounding() -> None:
    errors = check(torch=lambda X: 2 * X, coarse=lambda X: (2 * X).bfloat16())
    assert errors["torch"] == 0
    assert 0 < errors["coarse"] < 0.005


@pytest.mark.parametrize(
    ("vendor", "said"),
    [
        (lambda X: 3 * X, r"^scaled-one-fp16: vendor torch: off by 0\.5 of the norm$"),
        (lambda X: X.new_full(X.shape, float("nan")), r"vendor torch: off by nan of the norm"),
        (lambda X: 2 * X.T, r"vendor torch: ValueError: its output is \[16, 8\], and not \[8, 16\]"),
        (lambda X: X @ X, r"vendor torch: RuntimeError: "),
    ],
    ids=["factor", "nan", "transposed", "fails"],
)
def test_wrong_vendors_are_told(vendor: Callable[..., Any], said: str) -> None:
    with pytest.raises(VendorMismatch, match=said):
        check(torch=vendor)


def test_no_vendor_is_no_fault() -> None:
    assert check() == {}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_what_torch_compiles_for_a_row_is_for_its_shapes_alone(
    spec: KernelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it depends on the rows before: code for any shape is slower, and after eight there is none."""
    taken: list[list[Any]] = []
    real: Any = torch.compile

    def compiled(function: Any, **options: Any) -> Any:
        def as_it_is(graph: Any, inputs: list[Any]) -> Any:
            taken.append(inputs)
            return graph.forward

        return real(function, backend=as_it_is, **options)

    monkeypatch.setattr(torch, "compile", compiled)
    cases = sorted(spec.cases, key=lambda case: math.prod(case.dims.values()))
    small = list({tuple(case.dims.values()): case for case in reversed(cases[:40])}.values())[:10]
    counts = []
    for case in [*small, small[0]]:
        program = build_program(spec, case, arch("sm_90a"))
        sets = tensor_sets(program, 0, torch.device("cpu"), l2=0)
        before = len(taken)
        called = vendors(program, sets)
        counts.append((len(taken) - before) / max(1, sum("compile" in name for name in called)))
    assert all(isinstance(given, torch.Tensor) for inputs in taken for given in inputs)
    assert set(counts) == {1 if any("compile" in name for name in spec.vendor) else 0}
