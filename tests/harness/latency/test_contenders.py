"""What is timed, on the CPU: that it gets the right tensors, and enough of them."""

from typing import Any

import pytest
import tilelang.language as T
import torch

from tilecheck.arches import arch
from tilecheck.latency.contenders import ours, tensor_sets, vendors
from tilecheck.program import Program, build_program
from tilecheck.spec import Case, KernelSpec

CPU = torch.device("cpu")


def axpy(n: int, dtype: str) -> Any:
    @T.prim_func
    def main(X: T.Tensor((n,), dtype), a: T.float32, Y: T.Tensor((n,), dtype), Z: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as block:
            for i in T.Parallel(256):
                Z[block * 256 + i] = X[block * 256 + i] * a + Y[block * 256 + i]

    return main


def program_of(**changes: Any) -> Program:
    case = Case("one", {"n": 1024}, "float32", flags={"a": 2.0}, why="no tail")
    fields = {"vendor": {"torch": lambda X, Y, a: X * a + Y}} | changes
    spec = KernelSpec("axpy", axpy, lambda X, Y, a: X * a + Y, (case,), **fields)
    return build_program(spec, case, arch("sm_90a"))


@pytest.mark.parametrize(
    ("l2", "count"),
    [
        (1, 1),
        (4096 * 3, 3),  # three tensors of 4096 bytes
        (4096 * 3 * 2, 6),
        (1 << 30, 64),  # as many as a graph has launches
    ],
)
def test_sets_are_as_many_as_empty_l2(l2: int, count: int) -> None:
    sets = tensor_sets(program_of(), 0, CPU, l2)
    assert len(sets) == count
    assert len({tensors["X"].data_ptr() for tensors in sets}) == count
    assert all(torch.equal(tensors["X"], sets[0]["X"]) for tensors in sets)


def test_ours_gets_everything_in_the_order_of_the_program() -> None:
    sets = tensor_sets(program_of(), 0, CPU, 4096 * 3)
    called: list[Any] = []
    for launch in ours(program_of(), lambda *arguments: called.append(arguments), sets):
        launch()
    assert [[x.data_ptr(), a, y.data_ptr(), z.data_ptr()] for x, a, y, z in called] == [
        [s["X"].data_ptr(), 2.0, s["Y"].data_ptr(), s["Z"].data_ptr()] for s in sets
    ]


def test_a_vendor_gets_inputs_and_flags_by_name() -> None:
    sets = tensor_sets(program_of(), 0, CPU, 4096 * 3)
    for launch, tensors in zip(vendors(program_of(), sets)["torch"], sets, strict=True):
        assert torch.equal(launch(), tensors["X"] * 2.0 + tensors["Y"])  # type: ignore[arg-type]


def test_a_kernel_without_a_vendor() -> None:
    program = program_of(vendor={})
    assert vendors(program, tensor_sets(program, 0, CPU, 1)) == {}
