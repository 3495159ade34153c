"""What does equality with the reference not say of matmul? What it refuses, and how much memory it takes."""

import re

import pytest

from kernels.matmul import SPEC as MATMUL
from kernels.matmul import Schedule, legal, shared_bytes
from tilecheck.arches import arch
from tilecheck.launch import compile_target
from tilecheck.program import build_program
from tilecheck.spec import Case

HALF = Case("half", {"M": 512, "N": 512, "K": 512}, "float16", {"trans_a": False, "trans_b": False}, "any")
UNALIGNED = Case("odd", {"M": 510, "N": 510, "K": 510}, "float16", dict(HALF.flags), "no bulk copies")
TALL = Case("tall", {"M": 2**23, "N": 64, "K": 64}, "float16", dict(HALF.flags), "too many blocks")


@pytest.mark.parametrize(
    ("schedule", "case", "name", "reason"),
    [
        (Schedule(64, 64, 40, 2, 128), HALF, "sm_80", "block_k must be a positive multiple of 16"),
        (Schedule(16, 104, 64, 2, 384), HALF, "sm_90a", "share the tile out evenly"),
        (Schedule(64, 40, 64, 2, 128), HALF, "sm_90a", "40] columns"),
        (Schedule(128, 48, 64, 2, 256), HALF, "sm_90a", "24, 48] columns"),
        (Schedule(64, 64, 64, 2, 128), UNALIGNED, "sm_90a", "rows of whole 16 bytes"),
        (Schedule(64, 64, 64, 2, 64), HALF, "sm_90a", "multiple of 128"),
        (Schedule(256, 128, 32, 2, 1024), HALF, "sm_90a", "1152 threads exceed 1024"),
        (Schedule(256, 256, 32, 2, 128), HALF, "sm_80", "512 accumulators"),
        (Schedule(128, 128, 64, 4, 128), HALF, "sm_89", "131072 bytes of shared memory exceed 101376"),
        (Schedule(128, 128, 64, -1, 128), HALF, "sm_80", "must not be negative"),
        (Schedule(64, 64, 64, 2, 100), HALF, "sm_80", "multiple of 32"),
        (Schedule(64, 64, 64, 2, 128), TALL, "sm_80", "65535 rows of blocks"),
    ],
)
def test_what_would_not_compile_or_compute_wrong_is_refused(
    schedule: Schedule, case: Case, name: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(reason)}.*{re.escape(str(schedule))}"):
        legal(schedule, case, arch(name))


@pytest.mark.parametrize(
    ("schedule", "name"),
    [
        (Schedule(128, 256, 64, 4, 256), "sm_90a"),
        (Schedule(64, 48, 80, 2, 128), "sm_90a"),
        (Schedule(64, 64, 64, 0, 128), "sm_90a"),
        (Schedule(48, 160, 48, 3, 192), "sm_80"),
        (Schedule(16, 64, 128, 4, 128), "sm_80"),
    ],
)
def test_shared_memory_is_what_the_compiler_allocates(schedule: Schedule, name: str) -> None:
    from tilelang import lower, tvm

    legal(schedule, HALF, arch(name))
    target = tvm.target.Target(compile_target(*arch(name).capability))
    program = build_program(MATMUL, HALF, arch(name), schedule)
    with target:
        lowered = lower(program.prim_func, target=target)
    sizes = []

    def collect(node: object) -> None:
        if isinstance(node, tvm.tirx.AllocBuffer) and node.buffer.scope() == "shared.dyn":
            sizes.append(int(node.buffer.shape[0]))

    for function in lowered.device_mod.functions.values():
        tvm.tirx.stmt_functor.post_order_visit(function.body, collect)
    assert sizes == [shared_bytes(schedule, "float16")]
