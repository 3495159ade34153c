"""A kernel with a small space, and a bench with times of its own making."""

import importlib.util
import sys
import textwrap
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.harness.facts import HOPPER
from tilecheck.arches import ARCHES
from tilecheck.codegen import Facts, NoToolchain
from tilecheck.latency.chips import CHIPS
from tilecheck.spec import KernelSpec
from tilecheck.tuning.autotuner import Stopped
from tilecheck.tuning.outcomes import Failure, Timing
from tilecheck.tuning.space import Candidate
from tilecheck.tuning.tune import Goal

SOURCE = """
    from dataclasses import dataclass

    from tilecheck.spec import Case, Cost, KernelSpec
    from tilecheck.tiling import Tiling


    @dataclass(frozen=True)
    class Schedule:
        tile: int
        stages: int
        threads: int = 128


    def default_schedule(N):
        return Schedule(64, 2)


    def legal(schedule, N):
        if schedule.tile * schedule.stages > 512:
            raise ValueError(f"tile={schedule.tile} times stages={schedule.stages} is over 512")
        if schedule.tile > N:
            raise ValueError(f"tile={schedule.tile} is over {N=}")


    def program(N, dtype, tile, stages, threads):
        import tilelang.language as T

        last = N // tile * tile if stages == 3 else N  # three stages lose the tail

        @T.prim_func
        def copy(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
            with T.Kernel(T.ceildiv(N, tile), threads=threads) as b:
                for i in T.Parallel(tile):
                    if b * tile + i < last:
                        Y[b * tile + i] = X[b * tile + i]

        return copy


    def reference(X):
        return X


    def tiling(N, tile, stages, threads):
        return Tiling(-(-N // tile), threads, tile, 8 * tile, stages=stages)


    SPEC = KernelSpec(
        "copy",
        program,
        reference,
        [
            Case("long", {"N": 1000}, "float32", why="a tail"),
            Case("longer", {"N": 1500}, "float32", why="near the first"),
            Case("far", {"N": 100000}, "float32", why="far from it"),
            Case("half", {"N": 1000}, "float16", why="another type"),
            Case("short", {"N": 100}, "float32", why="few tiles are legal"),
        ],
        default_schedule=default_schedule,
        legal=legal,
        cost=lambda N: Cost(N, 8 * N),
        tiling=tiling,
        shared_memory=lambda tile, stages: tile * stages * 400,
        tuning={"tile": (32, 64, 128, 256), "stages": (1, 2, 3, 4)},
        tuning_cases=("long",),
    )
"""
"""16 combinations: 14 are legal for long cases; of these 12 fit in shared memory on sm_80, 14 on sm_90a."""


OTHER_TYPES = (
    SOURCE.replace("from dataclasses import dataclass", "from dataclasses import dataclass, field")
    .replace(
        "threads: int = 128",
        """threads: int = 128
        warps: tuple = (2, 2)
        chunk: object = None
        share: float = 1
        elements: int = field(init=False, default=0)

        def __post_init__(self):
            object.__setattr__(self, "elements", self.tile * self.stages)""",
    )
    .replace("tile, stages, threads):\n        import", "tile, stages, threads, schedule):\n        import")
    .replace("(1, 2, 3, 4)}", '(1, 2), "warps": ((2, 2), (1, 4)), "chunk": (None, 4), "share": (0.5, 1)}')
)
"""A tuple, None or a number, whole numbers and others, and a field that is made of others."""


def module_in(folder: Path, source: str = SOURCE, name: str = "copy_to_tune") -> ModuleType:
    """The module of `source` in a file of `folder`, imported anew."""
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(source))
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def goal(spec: KernelSpec, case: str = "long", **versions: str) -> Goal:
    """A search on an H200 that is not there."""
    arch = replace(ARCHES["sm_90a"], gpu="nvidia-h200")
    target = {"kind": "cuda", "arch": "sm_90a"}
    return Goal(spec, spec.case(case), arch, CHIPS["sm_90a"], target, {"tilelang": "0.1.15", **versions})


def timing(seconds: float, method: str = "events") -> Timing:
    return Timing(seconds, seconds, seconds, 30, method)


class FakeBench:
    """time: seconds of a schedule's values, or why it has none; "does not compile" fails at the compile.
    turns: seconds by id for each turn; None: those of `time`.  unlucky: failures under other seeds, by id.
    """

    def __init__(self, time: Callable[..., "float | Failure"]) -> None:
        self.time = time
        self.turns: list[Mapping[str, float]] | None = None
        self.unlucky: dict[str, Failure] = {}
        self.made: Callable[[Candidate], Facts | Failure] | None = None
        self.compiled: list[str] = []
        self.ahead: list[list[str]] = []
        self.measured: list[str] = []
        self.on_measure: Callable[[Candidate], None] = lambda _: None
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def compile(self, candidate: Candidate) -> Failure | None:
        self._check()
        with self._lock:
            self.compiled.append(candidate.id)
        found = self.time(**candidate.values)
        return found if isinstance(found, Failure) and found.kind == "does not compile" else None

    def compile_ahead(self, candidates: Sequence[Candidate]) -> None:
        self.ahead.append([candidate.id for candidate in candidates])

    def measure(self, candidate: Candidate) -> Timing | Failure:
        self.on_measure(candidate)
        self._check()
        self.measured.append(candidate.id)
        found = self.time(**candidate.values)
        return found if isinstance(found, Failure) else timing(found)

    def facts(self, candidate: Candidate) -> Facts | Failure:
        if self.made is None:
            raise NoToolchain("no nvcc")
        return self.made(candidate)

    def in_turn(
        self, candidates: Sequence[Candidate], repeats: int, budget: float, seeds: Sequence[int]
    ) -> tuple[list[dict[str, Timing]], dict[str, Failure]]:
        self._check()
        failed = {c.id: self.unlucky[c.id] for c in candidates if c.id in self.unlucky}
        last = [c for c in candidates if c.id not in failed]
        if self.turns is not None:
            return [{c.id: timing(turn[c.id]) for c in last} for turn in self.turns], failed
        times = {c.id: self.time(**c.values) for c in last}
        turn = {id: timing(seconds) for id, seconds in times.items() if not isinstance(seconds, Failure)}
        return [turn] * repeats, failed

    def stop(self) -> None:
        self._stopped.set()

    def prepare(self) -> None:
        pass

    def reopen(self) -> None:
        self._stopped.clear()

    def _check(self) -> None:
        if self._stopped.is_set():
            raise Stopped


class Seen:
    """Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self.closed = False

    def reach(self, done: int, told: str = "", total: int | None = None) -> None:
        self.lines.append((done, told))

    def close(self) -> None:
        self.closed = True


def facts(**changed: Any) -> Facts:
    """Of a kernel that keeps all promises, and whose instructions nobody looks at."""
    return replace(HOPPER, **{"static_shared": 0, "instructions": {}, **changed})
