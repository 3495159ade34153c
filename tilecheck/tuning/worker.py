"""The process that compiles, checks and times candidates: `python -m tilecheck.tuning.serve FD TASK`.

It answers requests (`tilecheck.tuning.child`): "open" comes first; "compile" and "facts" need no GPU,
"measure", "check" and "in turn" do.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol

from tilecheck import launch
from tilecheck.arches import Arch, arch
from tilecheck.conformance import Mismatch, check
from tilecheck.gist import gist
from tilecheck.latency.timing import Samples, TimingError
from tilecheck.loading import load_specs
from tilecheck.program import Program, build_program
from tilecheck.tuning.outcomes import Failure, Timing
from tilecheck.tuning.space import schedule_of

if TYPE_CHECKING:
    from tilecheck.codegen import Facts
    from tilecheck.device import Device


@dataclass(frozen=True)
class Task:
    """What this process is about.

    modules: that hold the specs, as the ini option `tilecheck_specs` names them.
    kernel, case: the spec's name and the case's id.  arch, gpu: names.  target: TileLang's.
    nvcc: the version that TileLang compiles with: facts of another one are not heeded.
    """

    modules: tuple[str, ...]
    kernel: str
    case: str
    arch: str
    gpu: str
    target: dict[str, Any]
    nvcc: str
    seed: int

    def as_text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of_text(cls, text: str) -> "Task":
        given = json.loads(text)
        return cls(**{**given, "modules": tuple(given["modules"])})


class Stand(Protocol):
    """What checks and times: a GPU, or what stands for one in tests."""

    @property
    def device(self) -> "Device": ...

    def samples(self, programs: Mapping[str, Program], seed: int, budget: float) -> dict[str, Samples]:
        """The times of the programs in turn, for `budget` seconds together."""

    def impossible(self, program: Program, seconds: float) -> str | None:
        """Why the hardware cannot be as fast, in one line."""


class Gpu:
    """The GPU of this process, with its clocks.  target: TileLang's, of the task."""

    def __init__(self, target: Mapping[str, Any]) -> None:
        from tilecheck.latency.monitor import Monitor
        from tilecheck.latency.timing_cuda import CudaDevice

        older = target["arch"] if "code" in target else None
        self.device = launch.Cuda(older=older)
        self._own = self.device.own_arch
        self._monitor = Monitor(self.device.torch_device.index)
        self._facts = self._monitor.facts()
        self._timed = CudaDevice(self._monitor)
        self._sets: list[dict[str, Any]] | None = None  # one case a process

    def samples(self, programs: Mapping[str, Program], seed: int, budget: float) -> dict[str, Samples]:
        from tilecheck.latency.contenders import ours, tensor_sets
        from tilecheck.latency.timing import Stopwatch

        if self._sets is None:
            first = next(iter(programs.values()))
            self._sets = tensor_sets(first, seed, self.device.torch_device, self._facts.l2)
        contenders = {
            name: ours(program, launch.compile_program(program, self.device.target), self._sets)
            for name, program in programs.items()
        }
        return Stopwatch(self._timed, budget).time_in_turn(contenders)

    def impossible(self, program: Program, seconds: float) -> str | None:
        from tilecheck.latency.roofline import roof

        cost = program.spec.cost_of(program.case)
        if cost is None:
            return None
        return roof(self._facts, self._own, program.case.dtype).impossible(cost, seconds)


def open_stand(target: Mapping[str, Any]) -> Stand:
    """The GPU of this process; raises where there is none."""
    return Gpu(target)


class Worker:
    """Answers requests on one case."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._spec = next(spec for spec in load_specs(task.modules) if spec.name == task.kernel)
        self._case = self._spec.case(task.case)
        self._arch = dataclasses.replace(arch(task.arch), gpu=task.gpu)
        self._opened: Stand | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """{"failure": ...} is of the candidate, {"broken": ...} of all that could be asked for."""
        asked = {
            "open": self._open,
            "compile": self._compile,
            "facts": self._facts,
            "measure": self._measure,
            "check": self._check,
            "in turn": self._in_turn,
        }[request["do"]]
        try:
            return asked(request)
        except _Broken as error:
            return {"broken": str(error)}

    def _open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """stand: whether there will be something to time."""
        if request["stand"]:
            self._stand()
        else:
            os.nice(10)  # what is timed meanwhile goes first
        return {}

    def _compile(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            program = self._program(request["values"])
            facts = self._known_facts(program)
            if facts is not None and (reason := does_not_fit(facts, self._arch)):
                return _failed("does not fit", reason)
            launch.compile_program(program, self._task.target)
        except (launch.CompileError, ValueError) as error:
            return _failed("does not compile", str(error))
        return {}

    def _facts(self, request: Mapping[str, Any]) -> dict[str, Any]:
        from tilecheck.codegen import CodegenError, NoToolchain, facts_of

        try:
            return {"facts": facts_of(self._program(request["values"])).as_json()}
        except NoToolchain as error:
            return {"none": str(error)}
        except (CodegenError, ValueError) as error:
            return _failed("does not compile", str(error))

    def _measure(self, request: Mapping[str, Any]) -> dict[str, Any]:
        stand = self._stand()
        program = self._program(request["values"])
        if failure := self._judged(program, stand, self._task.seed):
            return failure
        try:
            samples = stand.samples({"it": program}, self._task.seed, request["budget"])["it"]
        except TimingError as error:
            return _failed("not timed", str(error))
        if reason := stand.impossible(program, samples.median):
            return _failed("wrong", f"faster than the hardware: {reason}")
        return {"timing": _timing(samples)}

    def _check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        program = self._program(request["values"])
        return self._judged(program, self._stand(), request["seed"]) or {}

    def _in_turn(self, request: Mapping[str, Any]) -> dict[str, Any]:
        stand = self._stand()
        programs = {name: self._program(values) for name, values in request["values"].items()}
        try:
            turns = [
                stand.samples(programs, self._task.seed, request["budget"]) for _ in range(request["repeats"])
            ]
        except TimingError as error:
            return {"broken": f"{self._spec.test_id(self._case)}: {error}"}
        return {"turns": [{name: _timing(s) for name, s in samples.items()} for samples in turns]}

    def _judged(self, program: Program, stand: Stand, seed: int) -> dict[str, Any] | None:
        """The failure of a program that is wrong, or does not run."""
        try:
            check(self._spec, self._case, stand.device, seed=seed, schedule=program.schedule)
        except Mismatch as error:
            return _failed("wrong", str(error))
        except launch.CompileError as error:
            return _failed("does not compile", str(error))
        except launch.LaunchError as error:
            return _failed("launch error", str(error))
        except RuntimeError as error:
            if type(error).__name__ == "OutOfMemoryError":
                raise _Broken(f"{self._spec.test_id(self._case)}: {gist(error)}") from error
            raise
        return None

    def _program(self, values: Mapping[str, Any]) -> Program:
        usual = self._spec.schedule_for(self._case, self._arch)
        schedule = schedule_of(values, usual, self._spec.tuning)
        try:
            return build_program(self._spec, self._case, self._arch, schedule)
        except ValueError:
            raise
        except (Exception, SystemExit) as error:  # of this candidate, and no reason for a new process
            raise ValueError(f"the program cannot be traced: {gist(error)}") from error

    def _known_facts(self, program: Program) -> "Facts | None":
        from tilecheck.codegen import NoToolchain, find_toolchain, kept_facts

        try:
            toolchain = find_toolchain()
        except NoToolchain:
            return None
        return kept_facts(program, toolchain) if toolchain.versions["nvcc"] == self._task.nvcc else None

    def _stand(self) -> Stand:
        if self._opened is None:
            try:
                self._opened = open_stand(self._task.target)
            except Exception as error:
                raise _Broken(f"no candidate can be timed: {gist(error)}") from error
        return self._opened


class _Broken(Exception):
    """Nothing can be done here, for whichever candidate."""


def does_not_fit(facts: "Facts", target: Arch) -> str | None:
    """Which limit of an architecture the code is over, with its number; None: it fits."""
    if facts.registers_of_block > target.registers_per_sm:
        return f"a block takes {facts.registers_of_block} registers of {target.registers_per_sm}"
    shared = facts.static_shared + facts.dynamic_shared
    if shared > target.shared_per_block:
        return f"a block takes {shared} bytes of shared memory of {target.shared_per_block}"
    return None


def main(arguments: Sequence[str], requests: IO[str]) -> None:
    """Answers until `requests` end.  arguments: file descriptor for the answers, and the task."""
    try:
        worker = Worker(Task.of_text(arguments[1]))
    except ValueError as error:  # the kernels' file cannot be imported; one line says why
        raise SystemExit(str(error)) from error
    with os.fdopen(int(arguments[0]), "w", buffering=1) as answers:
        for line in requests:
            answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
    # Whatever the CUDA context is in, its end is nobody's business.
    os._exit(0)


def _failed(kind: Any, reason: str) -> dict[str, Any]:
    return {"failure": dataclasses.asdict(Failure(kind, reason))}


def _timing(samples: Samples) -> dict[str, Any]:
    return dataclasses.asdict(
        Timing(
            median=samples.median,
            q1=samples.q1,
            q3=samples.q3,
            samples=len(samples.seconds),
            method=samples.method,
            clock_mhz=samples.clock_mhz,
        )
    )
