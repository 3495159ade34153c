"""One side of a comparison: a process that compiles, checks and times the rows it is asked for.

It answers requests, a line of JSON each: {"do": "rows"}, {"do": "prepare", "rows": [...]}, {"do": "check",
"row": ...}, {"do": "time", "row": ..., "method": ...}. What it cannot do it answers with {"error": ...}.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

from tilecheck.gpus import cores
from tilecheck.precompile import Job, precompile
from tilecheck.progress import Progress
from tilecheck.project import Project, find_project
from tilecheck.spec import Case, KernelSpec

BLOCK_SECONDS = 0.25
"""How long the samples of one block take, with all that lies between them."""


class Bench(Protocol):
    """What is asked; rows are `KernelSpec.test_id`s."""

    def rows(self) -> list[str]:
        """All that can be timed."""

    def prepare(self, rows: Sequence[str]) -> dict[str, str]:
        """Compiles; what does not compile, with the reason."""

    def check(self, row: str) -> str | None:
        """What is wrong with the row's output; None: nothing."""

    def time(self, row: str, method: str | None = None) -> dict[str, Any]:
        """The median of a block in seconds, its clock in MHz, and how it was taken: by `method`, where one is
        given.
        """


class GpuBench:
    """The rows of a project, on the current GPU.  seed: of the inputs."""

    def __init__(self, project: Project, seed: int = 0) -> None:
        from tilecheck.latency.monitor import Monitor
        from tilecheck.latency.timing import Stopwatch
        from tilecheck.latency.timing_cuda import CudaDevice
        from tilecheck.launch import Cuda

        self._project, self._seed = project, seed
        specs = project.specs()
        self._rows: dict[str, tuple[KernelSpec, Case]] = {
            spec.test_id(case): (spec, case) for spec in specs for case in spec.cases_of_latency
        }
        self._device = Cuda()
        self._monitor = Monitor(self._device.torch_device.index)
        self._stopwatch = Stopwatch(CudaDevice(self._monitor), budget=BLOCK_SECONDS)
        self._ready: tuple[str, list[Callable[[], object]]] | None = None

    def rows(self) -> list[str]:
        return list(self._rows)

    def prepare(self, rows: Sequence[str]) -> dict[str, str]:
        jobs = {Job(self._rows[row][0].name, self._rows[row][1].id): row for row in rows}
        arch, target = self._device.arch.name, self._device.target
        errors = {}
        with Progress("compiling", len(jobs), "kernel", at_once=cores()) as progress:
            for job, error in precompile(self._project.spec_names, list(jobs), arch, target):
                progress.step(jobs[job])
                if error is not None:
                    errors[jobs[job]] = error
        return errors

    def check(self, row: str) -> str | None:
        from tilecheck.conformance import Mismatch, check
        from tilecheck.device import DeviceError

        spec, case = self._rows[row]
        try:
            check(spec, case, self._device, seed=self._seed)
        except (Mismatch, DeviceError, ValueError) as error:
            return str(error).splitlines()[0]
        return None

    def time(self, row: str, method: str | None = None) -> dict[str, Any]:
        if self._ready is None or self._ready[0] != row:
            self._ready = None  # its tensors first
            self._ready = row, self._launches(row)
        samples = self._stopwatch.time_in_turn({row: self._ready[1]}, method)[row]
        return {"seconds": samples.median, "clock_mhz": samples.clock_mhz, "method": samples.method}

    def _launches(self, row: str) -> list[Callable[[], object]]:
        from tilecheck.latency.contenders import ours, tensor_sets
        from tilecheck.launch import compile_program
        from tilecheck.program import build_program

        spec, case = self._rows[row]
        program = build_program(spec, case, self._device.arch)
        sets = tensor_sets(program, self._seed, self._device.torch_device, self._monitor.facts().l2)
        return ours(program, compile_program(program, self._device.target), sets)


def serve(make: Callable[[], Bench], requests: Iterable[str], answers: TextIO) -> None:
    """Answers requests, one by one, until there are no more; `make` makes the bench for the first."""
    bench: Bench | None = None
    for line in requests:
        request = json.loads(line)
        try:
            bench = bench or make()
            answer = _answer(bench, request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answer(bench: Bench, request: dict[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "rows":
            return {"rows": bench.rows()}
        case "prepare":
            return {"errors": bench.prepare(request["rows"])}
        case "check":
            return {"wrong": bench.check(request["row"])}
        case "time":
            return bench.time(request["row"], request.get("method"))
        case other:
            raise ValueError(f"no request {other!r}")


def main(root: str) -> None:
    """The process: what libraries print must not end up among the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(lambda: GpuBench(find_project(Path(root))), sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1])
