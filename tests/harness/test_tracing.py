"""Tracing: TileLang rewrites a function's source once, and every trace still sees the values around it."""

import pytest
import tilelang.language as T
import torch
from tilelang import tvm

import kernels
from tilecheck.arches import ARCHES
from tilecheck.plugin.limits import too_large
from tilecheck.program import build_program
from tilecheck.simulator import simulate
from tilecheck.spec import KernelSpec, call_by_name
from tilecheck.tracing import tracing


def _scaled(size, factor, dtype):
    @T.macro
    def scale(tile):
        for i in T.Parallel(size):
            tile[i] = tile[i] * factor

    @T.prim_func
    def main(A: T.Tensor((size,), dtype), B: T.Tensor((size,), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((size,), dtype)
            T.copy(A, tile)
            scale(tile)
            T.copy(tile, B)

    return main


def test_programs_traced_from_one_source_differ_by_what_is_around_it():
    for size, factor, dtype in (
        (4, 2.0, "float32"),
        (8, 3.0, "float32"),
        (8, 0.5, "float16"),
        (4, 2.0, "float32"),
    ):
        with tracing():
            program = _scaled(size, factor, dtype)
        a = torch.randn(size).to(getattr(torch, dtype))
        b = torch.zeros_like(a)
        simulate(program, [a, b])
        assert torch.equal(b, a * factor)


def test_a_program_traced_again_is_the_one_that_tilelang_makes():
    plain = _scaled(4, 2.0, "float32")
    with tracing():
        first, again = _scaled(4, 2.0, "float32"), _scaled(4, 2.0, "float32")
    for traced in (first, again):
        assert tvm.ir.structural_equal(traced, plain, map_free_vars=True)


@pytest.mark.parametrize("spec", kernels.SPECS, ids=lambda spec: spec.name)
def test_every_kernel_is_traced_as_tilelang_does(spec: KernelSpec):
    small = [case for case in spec.cases if too_large(spec, case) is None][::7]
    for case in small:
        traced = build_program(spec, case, ARCHES["sm_90a"]).prim_func
        names = spec.names(case, ARCHES["sm_90a"], spec.schedule_for(case, ARCHES["sm_90a"]))
        plain = call_by_name(spec.program, names)
        assert tvm.ir.structural_equal(traced, plain, map_free_vars=True), case
