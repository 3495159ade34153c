"""What this machine has, and in one line what keeps it from running kernels on CUDA."""

import dataclasses
import functools
import importlib.metadata
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from tilecheck.arches import arch_of_capability

TESTED_TILELANG = "0.1.15"

USUAL_TOOLKIT = "/usr/local/cuda"
"""Where a CUDA toolkit is that no variable names."""


NOT_ASKED = "cannot tell: nvidia-ml-py is not installed"
"""Why no driver is found where nothing is there to ask."""


@dataclass(frozen=True)
class Machine:
    """The facts behind `why_no_gpu`.

    torch: its version; None: not installed.  torch_cuda: the CUDA it was built for; None: a build without
    CUDA.
    driver: version of the NVIDIA driver; None: none to be found, for the reason `no_driver`.
    driver_cuda: the CUDA version that the driver supports.
    visible: CUDA_VISIBLE_DEVICES; None: not set.
    gpu, capability: of torch's current GPU; None: torch sees none.  compiler: TileLang finds a CUDA toolkit.
    """

    torch: str | None = None
    torch_cuda: str | None = None
    driver: str | None = None
    no_driver: str = "not looked for"
    driver_cuda: str | None = None
    visible: str | None = None
    gpu: str | None = None
    capability: tuple[int, int] | None = None
    compiler: bool = False


def why_no_gpu(machine: Machine) -> str | None:
    """What is missing first for a run on CUDA, in one line; None: nothing is.

    Runs say it in many places, so it is short; `tilecheck doctor` says all that is missing.
    """
    if machine.torch is None:
        return "torch is not installed"
    if machine.gpu is not None and machine.capability is not None:
        try:
            arch_of_capability(*machine.capability)
        except ValueError as error:
            return f"{machine.gpu}: {error}"
        return (
            None
            if machine.compiler
            else "no CUDA toolkit with nvcc: set CUDA_HOME, or install nvidia-cuda-nvcc"
        )
    if machine.driver is None:
        unknown = " found: nvidia-ml-py is not installed" if machine.no_driver == NOT_ASKED else ""
        return f"no NVIDIA driver{unknown}"
    if machine.torch_cuda is None:
        return f"torch {machine.torch} is a build without CUDA"
    if machine.visible is not None:
        return f"torch sees no GPU, and CUDA_VISIBLE_DEVICES is {machine.visible!r}"
    return (
        f"torch sees no GPU (driver {machine.driver} supports CUDA {machine.driver_cuda}, "
        f"torch {machine.torch} wants CUDA {machine.torch_cuda})"
    )


@functools.cache
def machine() -> Machine:
    """The facts of this machine; imports torch if it is there, and TileLang if there is a GPU."""
    driver = driver_alone()
    if importlib.util.find_spec("torch") is None:
        return driver
    import torch

    seen = dataclasses.replace(driver, torch=str(torch.__version__), torch_cuda=torch.version.cuda)
    if not torch.cuda.is_available():
        return seen
    return dataclasses.replace(
        seen,
        gpu=torch.cuda.get_device_name(),
        capability=torch.cuda.get_device_capability(),
        compiler=_finds_compiler(),
    )


def driver_alone() -> Machine:
    """The facts that need no torch: those of the driver."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        import pynvml
    except ImportError:
        return Machine(visible=visible, no_driver=NOT_ASKED)
    try:
        pynvml.nvmlInit()
        cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()  # 1000 * major + 10 * minor
        return Machine(
            visible=visible,
            driver=str(pynvml.nvmlSystemGetDriverVersion()),
            driver_cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        )
    except pynvml.NVMLError as error:
        return Machine(visible=visible, no_driver=f"NVML: {error}")


def _finds_compiler() -> bool:
    if importlib.util.find_spec("tilelang") is None:
        return False
    from tilelang.contrib import nvcc

    try:
        return os.path.exists(nvcc.get_nvcc_compiler())
    except RuntimeError:
        return False


def of_toolkit(name: str, usual: bool = True) -> Path | None:
    """A program of the CUDA toolkit that CUDA_HOME or CUDA_PATH names, or, if `usual`, of that in the usual
    place; None: there is none.
    """
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), USUAL_TOOLKIT if usual else None]
    programs = (Path(home, "bin", name) for home in homes if home)
    return next((program for program in programs if os.access(program, os.X_OK)), None)


def missing_packages() -> str | None:
    """What is not installed and no check can do without, in one line; None: all is there."""
    missing = [name for name in ("torch", "tilelang") if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    verb = "is" if len(missing) == 1 else "are"
    return f"{' and '.join(missing)} {verb} not installed here; try: pip install {' '.join(missing)}"


def version(package: str) -> str | None:
    """The installed version of a package, without importing it; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
