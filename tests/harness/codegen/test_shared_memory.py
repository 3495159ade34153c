"""Predicted shared memory is compared with what TileLang lays out, to the byte, and with what there is."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tilecheck.arches import arch
from tilecheck.codegen import Lowered
from tilecheck.codegen.sharedmemory import disagreements, spread, static_shared
from tilecheck.spec import Case, KernelSpec

CASE = Case("any", {"n": 4}, "float16", why="any")
BARRIERS = "  __shared__ __align__(16) uint64_t mbarrier_mem[{}];\n"
PLAIN = Lowered(
    tir="",
    cuda="  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];\n",
    kernels=("main",),
    threads=128,
    dynamic_shared=4096,
)


def program(predicted: int, name: str = "sm_90a") -> Any:
    spec = KernelSpec("any", lambda: 0, lambda: 0, (CASE,), shared_memory=lambda n: predicted // 4 * n)
    return SimpleNamespace(
        spec=spec,
        case=CASE,
        arch=arch(name),
        schedule=None,
        variant="tiles of 64",
        names={"pass_configs": {}},
    )


@pytest.mark.parametrize(("barriers", "size"), [(0, 0), (1, 1024), (9, 1024), (128, 1024), (129, 2048)])
def test_barriers_are_static_and_padded(barriers: int, size: int) -> None:
    cuda = PLAIN.cuda + (BARRIERS.format(barriers) if barriers else "")
    assert static_shared(replace(PLAIN, cuda=cuda)) == size


def test_agreement_is_to_the_byte() -> None:
    assert list(disagreements(program(4096), PLAIN)) == []
    told = "4096 bytes of dynamic shared memory, {} predicted (tiles of 64)"
    for predicted in (4092, 4100, 0):
        assert list(disagreements(program(predicted), PLAIN)) == [told.format(predicted)]


def test_static_shared_memory_counts_against_the_limit() -> None:
    limit = arch("sm_120a").shared_per_block
    full = replace(PLAIN, dynamic_shared=limit)
    assert list(disagreements(program(limit, "sm_120a"), full)) == []
    waiting = replace(full, cuda=full.cuda + BARRIERS.format(6))
    assert list(disagreements(program(limit, "sm_120a"), waiting)) == [
        f"{limit + 1024} bytes of shared memory, sm_120a has {limit} (tiles of 64)"
    ]


def test_rows_are_spread_evenly() -> None:
    assert spread(range(100), 4) == (0, 25, 50, 75)
    assert spread(range(7), 3) == (0, 2, 4)
    assert spread(range(3), 60) == (0, 1, 2)
    assert spread([], 60) == ()
