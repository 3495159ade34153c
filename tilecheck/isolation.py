"""Checks a kernel in a process of its own, which may hang or die without harm to the one that asks.

The child (`python -m tilecheck.isolation`) says over a pipe where it is, and at last what came out. A launch
has less time than a compile: a kernel of a small case ends within milliseconds or never.
"""

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import IO, Any

from tilecheck.device import DeviceError
from tilecheck.ledger import Symptom
from tilecheck.watch import watched

COMPILE_SECONDS = 180.0
LAUNCH_SECONDS = 20.0


class Wrong(AssertionError):
    """The kernel's outputs are not those of its reference."""


class Hang(DeviceError):
    """The kernel, or its compiler, did not end in time."""


class Abort(DeviceError):
    """The process died, of a signal or without a word."""


@dataclass(frozen=True)
class Report:
    """What a child found.  symptom: None if the kernel is right."""

    symptom: Symptom | None
    message: str = ""


@dataclass(frozen=True)
class _Task:
    modules: tuple[str, ...]
    test_id: str
    seed: int
    device: str
    schedule: Any
    pass_configs: dict[str, Any]


def errors_of(symptom: Symptom) -> tuple[type[BaseException], ...]:
    """The exceptions that a check ends with for this symptom, in this process and in one of its own."""
    from tilecheck.conformance import Mismatch
    from tilecheck.launch import CompileError, LaunchError

    return {
        "wrong": (Mismatch, Wrong),
        "compile error": (CompileError,),
        "launch error": (LaunchError,),
        "hang": (Hang,),
        "abort": (Abort,),
    }[symptom]


def check_isolated(modules: Sequence[str], test_id: str, **given: Any) -> None:
    """Runs one check in a process of its own; the arguments are `run_isolated`'s.

    Raises what `errors_of` gives for the symptom.
    """
    report = run_isolated(modules, test_id, **given)
    if report.symptom is not None:
        raise errors_of(report.symptom)[-1](report.message)


def run_isolated(
    modules: Sequence[str],
    test_id: str,
    *,
    seed: int = 0,
    device: str = "cuda",
    schedule: Any = None,
    pass_configs: Mapping[str, Any] = MappingProxyType({}),
    compile_seconds: float = COMPILE_SECONDS,
    launch_seconds: float = LAUNCH_SECONDS,
) -> Report:
    """What came out of one check in a process of its own; it is ended when it takes longer than it may.

    modules: that hold the specs, as the ini option `tilecheck_specs` names them.
    test_id: `KernelSpec.test_id` of the case.  The others are as for `conformance.check`.
    """
    read, write = os.pipe()
    task = _Task(tuple(modules), test_id, seed, device, schedule, dict(pass_configs))
    command = [sys.executable, "-m", "tilecheck.isolation", str(write)]
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as source,
        os.fdopen(read, "rb", buffering=0) as pipe,
        watched() as start,
    ):
        pickle.dump(task, source)
        source.seek(0)
        child = start(
            command,
            pass_fds=[write],
            stdin=source,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        os.close(write)
        return _follow(child, pipe, output, test_id, {"compile": compile_seconds, "launch": launch_seconds})


def _follow(
    child: "subprocess.Popen[bytes]",
    pipe: IO[bytes],
    output: IO[bytes],
    test_id: str,
    limits: dict[str, float],
) -> Report:
    phase, received = "compile", b""
    deadline = time.monotonic() + limits[phase]
    while True:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return Report("hang", f"{test_id}: no end of the {phase} within {limits[phase]:g} s")
        chunk = pipe.read(65536)
        if not chunk:
            return Report("abort", f"{test_id}: {_ending(child)} in the {phase}; it said:\n{_tail(output)}")
        *lines, received = (received + chunk).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if "phase" not in event:
                return Report(**event)
            phase = event["phase"]
            deadline = time.monotonic() + limits[phase]


def _ending(child: "subprocess.Popen[bytes]") -> str:
    code = child.wait()
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _tail(output: IO[bytes], size: int = 2000) -> str:
    output.seek(max(0, output.seek(0, os.SEEK_END) - size))
    return output.read().decode(errors="replace").strip()


def main(pipe: int, source: IO[bytes]) -> None:
    """The child.  pipe: where events go.  source: gives its task."""
    # The task's class is this module's, which runs under another name.
    sys.modules["tilecheck.isolation"] = sys.modules[__name__]
    task: _Task = pickle.load(source)
    with os.fdopen(pipe, "w", buffering=1) as out:

        def say(**event: Any) -> None:
            out.write(json.dumps(event) + "\n")

        say(**asdict(_check(task, say)))
    # Whatever the CUDA context is in, its end is none of the check's business.
    os._exit(0)


def _check(task: _Task, say: Callable[..., None]) -> Report:
    from tilecheck.conformance import check
    from tilecheck.loading import load_specs

    rows = ((spec, case) for spec in load_specs(task.modules) for case in spec.cases)
    spec, case = next((spec, case) for spec, case in rows if spec.test_id(case) == task.test_id)
    device = _device(task.device, say)
    try:
        check(spec, case, device, seed=task.seed, schedule=task.schedule, pass_configs=task.pass_configs)
    except Exception as error:
        symptoms: tuple[Symptom, ...] = ("wrong", "compile error", "launch error")
        for symptom in symptoms:
            if isinstance(error, errors_of(symptom)):
                return Report(symptom, str(error))
        raise
    return Report(None)


def _device(name: str, say: Callable[..., None]) -> Any:
    if name == "simulator":
        from tilecheck.arches import ARCHES, DEFAULT_ARCH
        from tilecheck.device import Simulator

        return Simulator(ARCHES[DEFAULT_ARCH])
    from tilecheck.launch import Cuda, compile_program

    class Telling(Cuda):
        def run(self, program: Any, arguments: Any) -> None:
            compile_program(program, self.target)  # TileLang keeps it for the run
            say(phase="launch")
            super().run(program, arguments)
            say(phase="compile")  # judging has as much time as a compile

    return Telling()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.stdin.buffer)
