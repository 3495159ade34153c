"""The search on a real GPU: real compiles and times, and kernels that hang, are wrong, or are slow."""

import os
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.tuning.fakes import Seen, module_in
from tilecheck.spec import KernelSpec
from tilecheck.tuning import bench as bench_module
from tilecheck.tuning.bench import ProcessBench
from tilecheck.tuning.machine import bench_for, goal_here
from tilecheck.tuning.outcomes import Failure, Timing
from tilecheck.tuning.space import Candidate, space_of
from tilecheck.tuning.tune import Goal, tune
from tilecheck.tuning.winners import read_winners

pytestmark = [pytest.mark.gpu, pytest.mark.alone, pytest.mark.timeout(600)]

SOURCE = """
    from dataclasses import dataclass

    from tilecheck.spec import Case, Cost, KernelSpec


    @dataclass(frozen=True)
    class Schedule:
        does: str
        tile: int


    def program(N, dtype, does, tile):
        import tilelang.language as T

        @T.prim_func
        def fine(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
            with T.Kernel(T.ceildiv(N, tile), threads=128) as b:
                for i in T.Parallel(tile):
                    if b * tile + i < N:
                        Y[b * tile + i] = X[b * tile + i]

        @T.prim_func
        def slow(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
            with T.Kernel(1, threads=128):
                for step in T.serial(T.ceildiv(N, tile)):
                    for i in T.Parallel(tile):
                        if step * tile + i < N:
                            Y[step * tile + i] = X[step * tile + i]

        @T.prim_func
        def skips(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
            with T.Kernel(1, threads=128):
                for i in T.Parallel(tile):
                    Y[i] = X[i]

        @T.prim_func
        def hangs(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
            with T.Kernel(1, threads=32):
                while X[0] < 1e30:
                    T.atomic_add(Y[0], 1.0)

        return {"fine": fine, "slow": slow, "skips": skips, "hangs": hangs}[does]


    SPEC = KernelSpec(
        "copy",
        program,
        lambda X: X,
        [Case("long", {"N": 1 << 25}, "float32", why="larger than a block")],
        outputs=("Y",),
        default_schedule=lambda: Schedule("slow", 1024),
        cost=lambda N: Cost(N, 8 * N),
        tuning={"does": ("fine", "slow", "skips", "hangs"), "tile": (1024,)},
    )
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelSpec:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found: KernelSpec = module_in(tmp_path, textwrap.dedent(SOURCE)).SPEC
    return found


@pytest.fixture
def goal(spec: KernelSpec) -> Goal:
    return goal_here(spec, spec.case("long"))


@pytest.fixture
def bench(goal: Goal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessBench]:
    monkeypatch.setattr(bench_module, "MEASURE_SECONDS", 20.0)
    with bench_for(goal, ("copy_to_tune",), tmp_path / "project", jobs=2) as made:
        yield made


def does(goal: Goal) -> dict[str, Candidate]:
    return {c.schedule.does: c for c in space_of(goal.spec, goal.case, goal.arch).candidates}


def test_a_schedule_that_hangs_or_is_wrong_is_refused_and_the_next_is_timed(
    goal: Goal, bench: ProcessBench
) -> None:
    candidates = does(goal)
    found: dict[str, Any] = {}
    for name in ("fine", "hangs", "skips", "slow"):
        assert bench.compile(candidates[name]) is None, name
        start = time.monotonic()
        found[name] = bench.measure(candidates[name])
        assert time.monotonic() - start < 150, name
    assert found["hangs"] == Failure("timeout", "no end of the launch within 20 s")
    assert isinstance(found["skips"], Failure) and found["skips"].kind == "wrong"
    assert isinstance(found["fine"], Timing) and isinstance(found["slow"], Timing)
    assert found["fine"].median * 5 < found["slow"].median


def test_a_search_stores_the_fast_schedule(goal: Goal, bench: ProcessBench, tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    found = tune(
        goal,
        bench,
        journals=journals,
        winners=tmp_path / "schedules.json",
        progress=lambda name, total: Seen(),
        batch=4,
    )
    kinds = {o.values["does"]: o.kind for o in found.found.outcomes}
    assert kinds == {"fine": "timed", "slow": "timed", "skips": "wrong", "hangs": "timeout"}
    (entry,) = read_winners(tmp_path / "schedules.json")
    assert entry.schedule == {"does": "fine", "tile": 1024} and entry.gpu == goal.arch.gpu
    assert entry.default_median is not None and entry.median < entry.default_median
    assert goal.spec.schedule_for(goal.case, goal.arch).does == "fine"
    left = [p.name for p in Path.cwd().iterdir() if p.name == "autotuner.log"]
    assert left == [] and os.path.exists(tmp_path / "cache" / "tilecheck" / "tuning" / "kernels")
