"""Launches of kernels in a process of its own, for tools that watch a process: checkers and profilers.

`run_under` starts `TOOL ... python -m tilecheck.single TASK`, which compiles, draws inputs, waits until it is
told to go on, launches each kernel once and says so.
"""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tilecheck.environment import of_toolkit
from tilecheck.spec import Case
from tilecheck.watch import watched

if TYPE_CHECKING:
    from tilecheck.launch import Cuda

LAUNCHED = "tilecheck: launched"
"""What the process says when the kernel is through: without it a tool has watched nothing."""


class ToolError(RuntimeError):
    """A tool that is missing, did not run to its end, or watched nothing."""


@dataclass(frozen=True)
class Single:
    """One launch.

    modules: that hold the spec, as the ini option `tilecheck_specs` names them.  kernel: the spec's name.
    case: need not be one of the spec's.  schedule, pass_configs: as for `build_program`.
    drawn_on_gpu: inputs are drawn where they are used, which for gigabytes is quicker by minutes.
    symbol: the name of the program, by which a tool tells its kernels from another's; "": its own.
    """

    modules: tuple[str, ...]
    kernel: str
    case: Case
    schedule: Any = None
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    drawn_on_gpu: bool = False
    symbol: str = ""


@dataclass(frozen=True)
class Task:
    """What the process does.  folder: where it says that all is ready, and is told to go on."""

    singles: tuple[Single, ...]
    folder: Path


def find_tool(name: str) -> str | None:
    """The path of a tool of the CUDA toolkit: from the path, else from the toolkit. None: there is none."""
    found = shutil.which(name) or of_toolkit(name)
    return None if found is None else str(found)


def run_under(
    tool: Sequence[str],
    singles: Sequence[Single],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    alone: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> tuple[int, str]:
    """Exit code and output of `tool`, a command with its options, over the launches.

    seconds: that it may take; to wait for `alone` is none of them.  environment: what is set besides.
    alone: what to hold while the kernels run, and no longer than that: to compile them takes far more time.
    Raises ToolError where it takes longer than it may.
    """
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        **(environment or {}),
    }
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryFile() as output:
        folder = Path(made)
        task = folder / "task.pickle"
        task.write_bytes(pickle.dumps(Task(tuple(singles), folder)))
        with watched() as start:  # which ends the launch, too: it is the tool's child
            child = start(
                [*tool, sys.executable, "-m", "tilecheck.single", str(task)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
            )
            try:
                ready = folder / _READY
                left = _wait_until(lambda: ready.exists() or child.poll() is not None, seconds)
                with alone():
                    (folder / _GO).touch()
                    code = child.wait(left)
            except (subprocess.TimeoutExpired, TimeoutError):
                raise ToolError(f"{Path(tool[0]).name} took longer than {seconds:g} s") from None
        output.seek(0)
        return code, output.read().decode(errors="replace")


_READY, _GO = "ready", "go"


def _wait_until(done: Callable[[], bool], seconds: float) -> float:
    """The seconds that are left then; raises TimeoutError where there are none."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)
    return end - time.monotonic()


def main(source: IO[bytes]) -> None:
    """The process under the tool."""
    from tilecheck.launch import Cuda

    task: Task = pickle.load(source)
    device = Cuda()
    launches = [_prepared(single, device) for single in task.singles]
    (task.folder / _READY).touch()
    while not (task.folder / _GO).exists():  # however long others are alone on the GPU
        time.sleep(0.02)
    for launch in launches:
        sys.stdout.write(f"{LAUNCHED} {launch()}\n")


def _prepared(single: Single, device: "Cuda") -> Callable[[], str]:
    """A launch, of which all but the launch is done; it returns the row's id."""
    import torch

    from tilecheck.inputs import draw_inputs, scalars, seed_of, torch_dtype
    from tilecheck.launch import compile_program
    from tilecheck.loading import load_specs
    from tilecheck.program import build_program

    spec = next(s for s in load_specs(single.modules) if s.name == single.kernel)
    program = build_program(spec, single.case, device.arch, single.schedule, single.pass_configs)
    if single.symbol:
        renamed = program.prim_func.with_attr("global_symbol", single.symbol)
        program = replace(program, prim_func=renamed)
    place = device.torch_device if single.drawn_on_gpu else torch.device("cpu")
    drawn = draw_inputs(program, seed_of(spec.test_id(single.case), single.seed), place)
    arguments: dict[str, Any] = dict(scalars(program))
    for p in program.parameters:
        if p.shape is not None and p.name in drawn:
            arguments[p.name] = drawn[p.name].to(device.torch_device)
        elif p.shape is not None:
            arguments[p.name] = torch.zeros(p.shape, dtype=torch_dtype(p.dtype), device=device.torch_device)
    compile_program(program, device.target)

    def launch() -> str:
        device.run(program, arguments)
        return spec.test_id(single.case)

    return launch


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as task_file:
        main(task_file)
