"""One launch of a kernel in a process of its own, for tools that watch a process: checkers and profilers.

`run_under` starts `TOOL ... python -m tilecheck.single TASK`, which draws inputs, launches once and says so.
"""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tilecheck.spec import Case

LAUNCHED = "tilecheck: launched"
"""What the process says when the kernel is through: without it a tool has watched nothing."""


class ToolError(RuntimeError):
    """A tool that is missing, did not run to its end, or watched nothing."""


@dataclass(frozen=True)
class Single:
    """What is launched.

    modules: that hold the spec, as the ini option `tilecheck_specs` names them.  kernel: the spec's name.
    case: need not be one of the spec's.  schedule, pass_configs: as for `build_program`.
    drawn_on_gpu: inputs are drawn where they are used, which for gigabytes is quicker by minutes.
    """

    modules: tuple[str, ...]
    kernel: str
    case: Case
    schedule: Any = None
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    drawn_on_gpu: bool = False


def find_tool(name: str) -> str | None:
    """The path of a tool of the CUDA toolkit: from the path, else from the toolkit. None: there is none."""
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folders = [str(Path(toolkit) / "bin") for toolkit in toolkits if toolkit]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


def run_under(
    tool: Sequence[str], single: Single, seconds: float, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Exit code and output of `tool`, a command with its options, over the launch.

    environment: what is set besides. Raises ToolError where it takes longer than it may.
    """
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        **(environment or {}),
    }
    with tempfile.NamedTemporaryFile(suffix=".pickle") as task, tempfile.TemporaryFile() as output:
        pickle.dump(single, task)
        task.flush()
        child = subprocess.Popen(
            [*tool, sys.executable, "-m", "tilecheck.single", task.name],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,
        )
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ToolError(f"{Path(tool[0]).name} took longer than {seconds:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # the launch is the tool's child
            child.wait()
        output.seek(0)
        return code, output.read().decode(errors="replace")


def main(source: IO[bytes]) -> None:
    """The process under the tool."""
    import torch

    from tilecheck.inputs import draw_inputs, scalars, seed_of, torch_dtype
    from tilecheck.launch import Cuda, compile_program
    from tilecheck.loading import load_specs
    from tilecheck.program import build_program

    single: Single = pickle.load(source)
    spec = next(s for s in load_specs(single.modules) if s.name == single.kernel)
    device = Cuda()
    program = build_program(spec, single.case, device.arch, single.schedule, single.pass_configs)
    place = device.torch_device if single.drawn_on_gpu else torch.device("cpu")
    drawn = draw_inputs(program, seed_of(spec.test_id(single.case), single.seed), place)
    arguments: dict[str, Any] = dict(scalars(program))
    for p in program.parameters:
        if p.shape is not None and p.name in drawn:
            arguments[p.name] = drawn[p.name].to(device.torch_device)
        elif p.shape is not None:
            arguments[p.name] = torch.zeros(p.shape, dtype=torch_dtype(p.dtype), device=device.torch_device)
    compile_program(program, device.target)
    device.run(program, arguments)
    sys.stdout.write(f"{LAUNCHED} {spec.test_id(single.case)}\n")


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as task_file:
        main(task_file)
