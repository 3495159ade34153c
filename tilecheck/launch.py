"""Compiles programs for this machine's GPU and launches them; arguments are checked, errors made plain."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch

from tilecheck.activity import doing
from tilecheck.arches import Arch, arch, arch_of_capability, gpu_model
from tilecheck.arguments import Argument, check_arguments
from tilecheck.device import DeviceError
from tilecheck.gist import gist
from tilecheck.unlogged import unlogged

if TYPE_CHECKING:
    from tilecheck.program import Program

IN_MEMORY = ("tilelang.cache.kernel_cache", "Found kernel '%s' in memory cache")
"""TileLang's logger, and advice of it: we take one kernel many times, which is what its cache is for."""


class CompileError(DeviceError):
    """A program that TileLang or nvcc does not compile."""


class LaunchError(DeviceError):
    """A launch that CUDA refused, or that failed while it ran."""


class Cuda:
    """Runs programs on one GPU, on torch's current stream.

    index: torch's number of the GPU; None: the current one.  older: name of an architecture before the GPU's,
    whose code nvcc translates for it: it is `arch` then, and the GPU's `own_arch`.
    Raises ValueError for a GPU of an architecture that is not supported. `run` fails with `CompileError` or
    `LaunchError`. An error that leaves the CUDA context unusable sets `lost`; later runs then fail with its
    text.
    """

    name: Literal["cuda"] = "cuda"

    def __init__(self, index: int | None = None, older: str | None = None) -> None:
        index = torch.cuda.current_device() if index is None else index
        capability = torch.cuda.get_device_capability(index)
        model = torch.cuda.get_device_name(index)
        self.arch: Arch = arch_here(capability, model, older)
        self.own_arch = arch_here(capability, model)
        self.target = compile_target(*capability, older)
        self.torch_device = torch.device("cuda", index)
        self.lost: str | None = None

    def describe(self) -> str:
        return f"{torch.cuda.get_device_name(self.torch_device)} ({self.arch.name})"

    def run(self, program: "Program", arguments: Mapping[str, Argument]) -> None:
        if self.lost:
            raise LaunchError(f"{_called(program)}: not launched: {self.lost}")
        ordered = check_arguments(program.parameters, arguments, self.torch_device)
        if program.writes_nothing:
            return
        kernel = compile_program(program, self.target)
        on = f"{self.torch_device}{'' if program.schedule is None else f' with {program.schedule}'}"
        with torch.cuda.device(self.torch_device), doing(f"running {_called(program)} on {on}"):
            try:
                kernel(*ordered)
                torch.cuda.synchronize(self.torch_device)
            except Exception as error:
                raise self._launch_error(program, error) from error

    def _launch_error(self, program: "Program", error: Exception) -> LaunchError:
        message = f"{_called(program)}: launch failed on {self.torch_device}: {gist(error)}"
        try:
            torch.cuda.synchronize(self.torch_device)
        except Exception:
            self.lost = (
                f"an earlier launch left the CUDA context unusable ({_called(program)}: {gist(error)})"
            )
            message += "; the CUDA context is lost, nothing runs in this process any more"
        return LaunchError(message)


def arch_here(capability: tuple[int, int], gpu: str, older: str | None = None) -> Arch:
    """The architecture of a GPU, by its name; or an `older` one, as far as its limits are the GPU's too."""
    own = replace(arch_of_capability(*capability), gpu=gpu_model(gpu))
    if older is None:
        return own
    limits = ("shared_per_block", "shared_per_sm", "threads_per_sm", "blocks_per_sm")
    named = arch(older)
    least = {limit: min(getattr(named, limit), getattr(own, limit)) for limit in limits}
    return replace(named, gpu=own.gpu, **least)


def compile_target(major: int, minor: int, older: str | None = None) -> dict[str, Any]:
    """TileLang's target for a GPU of this compute capability.

    From Hopper on the `a` variant, without which nvcc rejects the tensor core and bulk copy instructions.
    Always the GPU's own number, not that of the `Arch` whose limits it shares: code for sm_89 does not load
    on an 8.6, and `a` code loads on its own capability only (CUDA C++ Programming Guide 13.0, "Compute
    Capabilities").

    older: TileLang and nvcc's front end write code for it, as portable as PTX of sm_80 and sm_89 is; ptxas
    makes it the GPU's. ValueError for one that is not older, or an `a` variant, which nothing else runs.
    """
    if older is None:
        return {"kind": "cuda", "arch": f"sm_{major}{minor}{'a' if major >= 9 else ''}"}
    if not runs_code_of(older, (major, minor)):
        raise ValueError(f"code for {older} cannot be translated for compute capability {major}.{minor}")
    return {"kind": "cuda", "arch": older, "code": [f"sm_{major}{minor}"]}


def runs_code_of(older: str, capability: tuple[int, int]) -> bool:
    """Whether the code of an architecture can be translated for a later GPU."""
    return older.removeprefix("sm_").isdecimal() and arch(older).capability < capability


def compile_program(program: "Program", target: Mapping[str, Any]) -> Callable[..., Any]:
    """The kernel of `program` for `target`, which takes all tensors and scalars, outputs included.

    It launches on torch's current stream and returns before the kernel ends. TileLang caches it in memory and
    on disk.

    Raises CompileError with the gist of the compiler's message; the whole of it is the cause.
    """
    import tilelang

    try:
        with doing(f"compiling {_called(program)} for {target['arch']}"), unlogged(*IN_MEMORY):
            kernel: Callable[..., Any] = tilelang.compile(
                program.taking_outputs,
                out_idx=None,
                execution_backend="tvm_ffi",
                target=dict(target),
                pass_configs=dict(program.pass_configs) or None,
            )
    except Exception as error:
        raise CompileError(
            f"{_called(program)}: does not compile for {target['arch']}: {gist(error)}"
        ) from error
    return kernel


def _called(program: "Program") -> str:
    return program.spec.test_id(program.case)
