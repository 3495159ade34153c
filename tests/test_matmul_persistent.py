"""Are the products right whose blocks stay and take tile after tile, and is their code as promised?

Schedules of the grid have such blocks too; here are the cases that show what else can go wrong with them.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from kernels import matmul, matmul_bias_gelu
from kernels.matmul import Schedule, TileWalk
from tilecheck.arches import arch
from tilecheck.conformance import check, references_of, run
from tilecheck.device import Device
from tilecheck.inputs import draw_inputs
from tilecheck.plugin import CodeChecker, CodeRow
from tilecheck.program import build_program
from tilecheck.spec import Case, KernelSpec

SPECS = {spec.name: spec for spec in (matmul.SPEC, matmul_bias_gelu.SPEC)}
LARGE = Schedule(128, 256, 64, 4, 256, 16, blocks=132)
LARGE_TF32 = Schedule(256, 128, 32, 4, 256, 8, blocks=132)


def small(case: Case, blocks: int, swizzle: int = 2) -> Schedule:
    """Tiles of which even small cases have several."""
    if case.dtype == "float32":
        return Schedule(64, 64, 32, 3, 128, swizzle, blocks)
    return Schedule(64, 128, 64, 3, 128, swizzle, blocks)


def only(spec: KernelSpec, case: Case, **changes: Any) -> KernelSpec:
    """`spec` with one case, and without what asks for others."""
    others = ("grid_cases", "code_cases", "latency_cases", "tuning_cases")
    return replace(spec, cases=(case,), **{**dict.fromkeys(others, ()), **changes})


@pytest.fixture
def hopper(tilecheck_device: Device) -> Device:
    if tilecheck_device.arch.capability != (9, 0):
        pytest.skip(f"blocks stay on Hopper, not on {tilecheck_device.arch.name}")
    return tilecheck_device


@pytest.mark.correctness
@pytest.mark.parametrize("blocks", [1, 2, 132])
@pytest.mark.parametrize(
    ("kernel", "id"),
    [
        *product(
            ["matmul"],
            [
                *("aligned-tails-fp16", "aligned-tails-bf16", "aligned-tails-fp32"),
                *("nt-aligned-fp16", "tn-aligned-bf16", "tt-aligned-fp16", "tt-aligned-bf16"),
                *("vector-bf16", "skinny-fp16", "trips-9-fp16", "trips-66-fp16"),
                *("counting-fp32", "cancelling-bf16", "cancelling-fp32", "overflow-fp16", "eleven-bits-fp32"),
                *("wide-range-bf16", "wide-range-fp32"),
            ],
        ),
        *product(
            ["matmul_bias_gelu"],
            [
                *("aligned-tails-fp16", "aligned-tails-bf16", "aligned-tails-fp32", "one-tile-tanh-fp32"),
                *("vector-tanh-fp16", "wide-fp16", "trips-9-tanh-bf16", "far-tanh-fp16", "cancelling-fp16"),
                *("dip-fp16", "dip-fp32", "dip-tanh-fp16", "dip-tanh-bf16", "dip-tanh-fp32"),
            ],
        ),
    ],
)
def test_output(kernel: str, id: str, blocks: int, hopper: Device) -> None:
    spec = SPECS[kernel]
    case = spec.case(id)
    check(spec, case, hopper, seed=0, schedule=small(case, blocks))


@pytest.mark.correctness
@pytest.mark.parametrize("swizzle", [0, 1, 3, 10])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_order_of_tiles_changes_no_bit(dtype: str, swizzle: int, hopper: Device) -> None:
    flags = {"trans_a": False, "trans_b": False}
    case = Case("panels", {"M": 260, "N": 328, "K": 72}, dtype, flags, "the last panel is not full")
    spec = only(matmul.SPEC, case)
    alone = run(spec, case, hopper, schedule=small(case, blocks=1000))["C"]
    ordered = run(spec, case, hopper, schedule=small(case, 4, swizzle))["C"]
    assert torch.equal(ordered, alone)


@pytest.mark.correctness
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 7), (7, 1), (12, 5), (5, 12)])
@pytest.mark.parametrize("swizzle", [0, 1, 3, 4, 16])
@pytest.mark.parametrize("blocks", [1, 5, 7, 132])
def test_each_tile_is_taken_once(rows: int, columns: int, swizzle: int, blocks: int) -> None:
    walk = TileWalk(rows * 64, columns * 32, 64, 32, swizzle, blocks)
    taken = [
        tuple(int(first) for first in walk.corner(block, turn))
        for block in range(walk.blocks)
        for turn in range(walk.turns(block))
    ]
    assert sorted(taken) == list(product(range(0, rows * 64, 64), range(0, columns * 32, 32)))


FAST = {"tanh.approx": "__tanhf", "the tail of P by an exponential": "exp2"}
"""Of forms of GELU: the term of the bound, and what the program calls."""


@pytest.mark.correctness
@pytest.mark.parametrize(
    ("id", "blocks", "term"),
    [
        ("one-tile-tanh-bf16", 2, "tanh.approx"),
        ("one-tile-tanh-fp32", 2, "tanh.approx"),
        ("one-tile-tanh-bf16", 0, None),
        ("one-tile-bf16", 2, "the tail of P by an exponential"),
        ("one-tile-fp32", 2, "the tail of P by an exponential"),
        ("one-tile-fp32", 0, None),
    ],
)
def test_bound_knows_which_form_of_gelu_it_is(id: str, blocks: int, term: str | None) -> None:
    spec = matmul_bias_gelu.SPEC
    case = spec.case(id)
    program = build_program(spec, case, arch("sm_90a"), small(case, blocks))
    terms = references_of(program, draw_inputs(program, seed=0))["C"].terms
    assert terms is not None
    expected = [] if term is None else [term]
    assert [each.reason for each in terms if each.reason in FAST] == expected
    assert [reason for reason, call in FAST.items() if call in str(program.prim_func)] == expected


@pytest.mark.correctness
def test_blocks_are_printed_where_they_stay() -> None:
    plain = "Schedule(block_m=64, block_n=64, block_k=64, stages=2, threads=128, swizzle=10"
    assert str(Schedule(64, 64, 64, 2, 128)) == f"{plain})"
    assert str(Schedule(64, 64, 64, 2, 128, blocks=132)) == f"{plain}, blocks=132)"


@pytest.mark.codegen
@pytest.mark.parametrize(
    ("kernel", "id", "schedule"),
    [
        ("matmul", "square-4096-bf16", LARGE),
        ("matmul", "llama8b-up-nt-bf16", LARGE),
        ("matmul", "grid-tails-fp16", Schedule(64, 128, 64, 3, 128, 3, blocks=5)),
        ("matmul", "square-4096-fp32", LARGE_TF32),
        ("matmul_bias_gelu", "square-4096-tanh-bf16", LARGE),
        ("matmul_bias_gelu", "llama8b-up-bf16", LARGE),
        ("matmul_bias_gelu", "square-4096-tanh-fp32", LARGE_TF32),
    ],
    ids=lambda value: "" if isinstance(value, Schedule) else value,
)
def test_landmarks(kernel: str, id: str, schedule: Schedule, code_checker: CodeChecker) -> None:
    changes = {"name": f"staying_{kernel}", "default_schedule": lambda: schedule, "arches": ("sm_90a",)}
    spec = only(SPECS[kernel], SPECS[kernel].case(id), **changes)
    code_checker.landmarks(CodeRow(spec, spec.cases[0], arch("sm_90a")))
