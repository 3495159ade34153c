"""Does a block take as much shared memory as the schedule's `legal` reckons with?"""

from dataclasses import replace
from typing import Any

import pytest

from kernels import flash_attention, matmul, softmax
from tilecheck.arches import arch
from tilecheck.codegen import lower
from tilecheck.codegen.sharedmemory import disagreements
from tilecheck.plugin import CodeChecker, SharedRow
from tilecheck.program import build_program
from tilecheck.spec import Case, KernelSpec

pytestmark = pytest.mark.codegen

TN, NN = {"trans_a": True, "trans_b": False}, {"trans_a": False, "trans_b": False}
SQUARE = Case("square-fp16", {"M": 512, "N": 512, "K": 512}, "float16", NN, "all by bulk copy")
SQUARE_TF32 = Case("square-fp32", {"M": 512, "N": 512, "K": 512}, "float32", NN, "all by bulk copy")
ODD_A = Case("odd-a-fp16", {"M": 512, "N": 512, "K": 510}, "float16", NN, "B by bulk copy, A not")
ODD_B = Case("odd-b-fp16", {"M": 512, "N": 510, "K": 512}, "float16", NN, "A by bulk copy, B not")
TF32 = Case("tn-fp32", {"M": 192, "N": 384, "K": 216}, "float32", TN, "tiles with swizzles of their own")
ONE_TRIP = {"batch": 1, "heads": 1, "kv_heads": 1, "q_len": 100, "k_len": 40, "head_dim": 64}
CAUSAL = Case("one-trip-fp16", ONE_TRIP, "float16", {"causal": True}, "one trip, as the bounds tell")
NARROW = Case("narrow-fp16", {**ONE_TRIP, "head_dim": 16}, "float16", {"causal": False}, "tiles of 512 bytes")
ALIGNED = Case("aligned-fp16", {"M": 8, "N": 1024}, "float16", why="8 halves a load")
SPREAD = Case("spread-fp16", {"M": 8, "N": 1028}, "float16", why="4 halves a load")


def test_shared_memory(shared_row: SharedRow, code_checker: CodeChecker) -> None:
    code_checker.shared_memory(shared_row)


@pytest.mark.parametrize(
    ("spec", "case", "schedule", "name"),
    [
        (matmul.SPEC, SQUARE, matmul.Schedule(128, 256, 64, 4, 256), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(48, 160, 48, 3, 192), "sm_80"),
        (matmul.SPEC, ODD_A, matmul.Schedule(80, 64, 48, 2, 128), "sm_100a"),
        (matmul.SPEC, ODD_B, matmul.Schedule(64, 48, 16, 3, 128), "sm_90a"),
        (matmul.SPEC, TF32, matmul.Schedule(64, 104, 80, 1, 128), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(128, 256, 64, 4, 256, blocks=132), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(64, 128, 16, 1, 128, blocks=7), "sm_90a"),
        (matmul.SPEC, SQUARE_TF32, matmul.Schedule(256, 128, 32, 4, 256, blocks=132), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(128, 64, 128, 4, 128, 0, staged=True), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(64, 128, 32, 4, 128, 0, staged=True), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(64, 64, 64, 1, 128, 0, staged=True), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(256, 128, 128, 1, 256, 0, staged=True), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(128, 96, 64, 7, 256, 0, splits=4), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(64, 64, 64, 5, 128, 0, splits=8), "sm_90a"),
        (matmul.SPEC, SQUARE, matmul.Schedule(64, 64, 128, 2, 128, 0, splits=2), "sm_90a"),
        (flash_attention.SPEC, CAUSAL, flash_attention.Schedule(64, 48, 0, 128), "sm_80"),
        (flash_attention.SPEC, CAUSAL, flash_attention.Schedule(64, 48, 1, 128), "sm_80"),
        (flash_attention.SPEC, NARROW, flash_attention.Schedule(64, 16, 0, 128), "sm_90a"),
        (flash_attention.SPEC, NARROW, flash_attention.Schedule(64, 16, 3, 128), "sm_120a"),
        (flash_attention.SPEC, NARROW, flash_attention.Schedule(128, 16, 3, 256, True), "sm_90a"),
        (flash_attention.SPEC, NARROW, flash_attention.Schedule(192, 48, 3, 384, True, 1), "sm_90a"),
        (softmax.SPEC, ALIGNED, softmax.Schedule(16, 256, 64), "sm_90a"),
        (softmax.SPEC, ALIGNED, softmax.Schedule(1, 1024, 64), "sm_90a"),
        (softmax.SPEC, ALIGNED, softmax.Schedule(2, 1024, 256), "sm_100a"),
        (softmax.SPEC, ALIGNED, softmax.Schedule(8, 1024, 512), "sm_120a"),
        (softmax.SPEC, SPREAD, softmax.Schedule(2, 512, 128, 256), "sm_90a"),
        (softmax.SPEC, SPREAD, softmax.Schedule(1, 2048, 512), "sm_90a"),
        (softmax.SPEC, ALIGNED, softmax.Schedule(1, 256, 32, staged=True), "sm_90a"),
        (softmax.SPEC, SPREAD, softmax.Schedule(2, 512, 128, staged=True), "sm_80"),
        (softmax.SPEC, SPREAD, softmax.Schedule(1, 2048, 512, cluster=4), "sm_90a"),
        (softmax.SPEC, SPREAD, softmax.Schedule(1, 4096, 1024, cluster=16), "sm_100a"),
    ],
    ids=lambda value: getattr(value, "name", None) or getattr(value, "id", None),
)
def test_what_no_grid_has(spec: KernelSpec, case: Case, schedule: Any, name: str) -> None:
    alone = replace(
        spec,
        cases=(case,),
        grid={},
        grid_cases=(),
        code_cases=(),
        latency_cases=(),
        tuning={},
        tuning_cases=(),
    )
    program = build_program(alone, case, arch(name), schedule)
    assert list(disagreements(program, lower(program))) == []
