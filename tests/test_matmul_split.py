"""Are the products right whose K is shared out by the blocks of a cluster, and is their code as promised?"""

from dataclasses import replace
from itertools import product

import pytest
import torch

from kernels import matmul, matmul_bias_gelu
from kernels.matmul import Schedule
from tilecheck.arches import arch
from tilecheck.conformance import check, run
from tilecheck.device import Device
from tilecheck.plugin import CodeChecker, CodeRow
from tilecheck.spec import Case

SPECS = {spec.name: spec for spec in (matmul.SPEC, matmul_bias_gelu.SPEC)}
FLAGS = {"trans_a": False, "trans_b": False}
HALF = Case("half", {"M": 512, "N": 512, "K": 512}, "float16", FLAGS, "any")
UNALIGNED = Case("odd", {"M": 510, "N": 510, "K": 510}, "float16", FLAGS, "no bulk copies")
WIDE = Case("wide", {"M": 64, "N": 64 * 65536, "K": 512}, "float16", FLAGS, "a column of blocks too many")
SMALL = Schedule(64, 64, 64, 5, 128, 0, splits=2)
LARGE = Schedule(128, 96, 64, 7, 256, 0, splits=4)


@pytest.fixture
def hopper(tilecheck_device: Device) -> Device:
    if tilecheck_device.arch.capability != (9, 0):
        pytest.skip(f"K is shared out on Hopper, not on {tilecheck_device.arch.name}")
    return tilecheck_device


@pytest.mark.correctness
@pytest.mark.parametrize(
    "schedule",
    [SMALL, replace(SMALL, splits=8), LARGE, replace(LARGE, block_k=128, stages=3)],
    ids=["small-2", "small-8", "large-4", "deep-4"],
)
@pytest.mark.parametrize(
    ("kernel", "id"),
    [
        *product(
            ["matmul"],
            [
                *("aligned-tails-fp16", "nt-aligned-fp16", "tn-aligned-bf16", "tt-aligned-bf16"),
                *("vector-bf16", "one-tile-fp16", "trips-9-fp16", "trips-66-fp16", "grid-tails-fp16"),
                *("cancelling-bf16", "overflow-fp16", "wide-range-bf16"),
            ],
        ),
        *product(
            ["matmul_bias_gelu"],
            ["aligned-tails-fp16", "wide-fp16", "trips-9-tanh-bf16", "far-tanh-fp16", "grid-tails-tanh-bf16"],
        ),
    ],
)
def test_output(kernel: str, id: str, schedule: Schedule, hopper: Device) -> None:
    check(SPECS[kernel], SPECS[kernel].case(id), hopper, seed=0, schedule=schedule)


@pytest.mark.correctness
@pytest.mark.parametrize("splits", [1, 2, 4, 8])
def test_sums_of_integers_are_exact_in_any_share(splits: int, hopper: Device) -> None:
    case, rng = matmul.SPEC.case("grid-tails-fp16"), torch.Generator().manual_seed(0)
    A, B = (torch.randint(-3, 4, size, generator=rng) for size in ((200, 200), (200, 328)))
    inputs = {"A": A.half(), "B": B.half()}
    C = run(matmul.SPEC, case, hopper, inputs, schedule=replace(SMALL, splits=splits))["C"]
    assert torch.equal(C.long(), A @ B)


@pytest.mark.correctness
@pytest.mark.parametrize(
    ("schedule", "case", "name", "reason"),
    [
        (replace(SMALL, splits=0), HALF, "sm_90a", "a cluster of splits has 1 to 8 blocks"),
        (replace(SMALL, splits=16), HALF, "sm_90a", "a cluster of splits has 1 to 8 blocks"),
        (replace(SMALL, stages=1), HALF, "sm_80", "splits of K take wgmma"),
        (replace(SMALL, stages=1), HALF, "sm_100a", "splits of K take wgmma"),
        (replace(SMALL, stages=1), UNALIGNED, "sm_90a", "splits of K take wgmma"),
        (replace(SMALL, stages=0), HALF, "sm_90a", "and a pipeline"),
        (replace(SMALL, swizzle=2), HALF, "sm_90a", "take no blocks, staged or swizzle"),
        (replace(SMALL, staged=True), HALF, "sm_90a", "take no blocks, staged or swizzle"),
        (
            replace(LARGE, block_n=128, stages=5, blocks=3),
            HALF,
            "sm_90a",
            "take no blocks, staged or swizzle",
        ),
        (replace(SMALL, splits=3), HALF, "sm_90a", "share the rows of a tile out evenly"),
        (SMALL, WIDE, "sm_90a", "at most 65535 columns of blocks"),
        (replace(SMALL, stages=3), HALF, "sm_90a", "27648 bytes of sums do not fit in 24576"),
        (replace(LARGE, block_m=64, block_n=128), HALF, "sm_90a", "of sums do not fit"),
    ],
)
def test_what_cannot_be_shared_is_refused(schedule: Schedule, case: Case, name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        matmul.SPEC.check_schedule(schedule, case, arch(name))


@pytest.mark.correctness
def test_splits_are_printed_where_there_are_some() -> None:
    assert "splits" not in str(Schedule(64, 64, 64, 2, 128))
    assert str(SMALL).endswith("threads=128, swizzle=0, splits=2)")


@pytest.mark.codegen
@pytest.mark.parametrize("schedule", [LARGE, replace(SMALL, block_k=128)], ids=["large", "small"])
@pytest.mark.parametrize(
    ("kernel", "id"), [("matmul", "dsv3-latents-bf16"), ("matmul_bias_gelu", "dsv3-expert-down-tanh-bf16")]
)
def test_landmarks(kernel: str, id: str, schedule: Schedule, code_checker: CodeChecker) -> None:
    spec = SPECS[kernel]
    others = ("grid_cases", "code_cases", "latency_cases", "tuning_cases")
    alone = replace(
        spec,
        name=f"split_{kernel}",
        cases=(spec.case(id),),
        default_schedule=lambda: schedule,
        arches=("sm_90a",),
        **dict.fromkeys(others, ()),
    )
    code_checker.landmarks(CodeRow(alone, alone.cases[0], arch("sm_90a")))
