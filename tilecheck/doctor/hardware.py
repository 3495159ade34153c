"""Driver and GPUs, as NVML tells: no CUDA context comes into being."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilecheck.arches import arch_of_capability
from tilecheck.doctor.lines import Line
from tilecheck.environment import Machine

MEGA, GIB = 10**6, 2**30


@dataclass(frozen=True)
class GpuState:
    """One GPU of the machine.

    capability: (major, minor).  memory, free: in bytes.  clock, max_clock: of the multiprocessors, in Hz.
    power_limit, usual_limit: in watts, set and by default; None: the GPU does not tell.
    mig: it is split into parts.  strangers: processes that compute on it.
    """

    name: str
    capability: tuple[int, int]
    memory: int
    free: int
    clock: float
    max_clock: float
    power_limit: float | None = None
    usual_limit: float | None = None
    mig: bool = False
    strangers: int = 0


def installed_gpus(nvml: Any = None) -> list[GpuState]:
    """The GPUs that NVML finds, hidden ones included; none where there is no driver, or it does not answer.

    nvml: the module pynvml, or what stands for it.
    """
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except ImportError:
        return []
    except nvml.NVMLError:
        return []
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        return [_state(nvml, handle) for handle in handles]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _state(nvml: Any, handle: Any) -> GpuState:
    def told(call: Any, *arguments: Any) -> Any:
        """What NVML answers; None where this GPU has no such thing."""
        try:
            return call(handle, *arguments)
        except nvml.NVMLError:
            return None

    name = nvml.nvmlDeviceGetName(handle)
    memory = told(nvml.nvmlDeviceGetMemoryInfo)
    limit = told(nvml.nvmlDeviceGetEnforcedPowerLimit)  # in milliwatts
    usual = told(nvml.nvmlDeviceGetPowerManagementDefaultLimit)
    mig = told(nvml.nvmlDeviceGetMigMode)
    return GpuState(
        name=name.decode() if isinstance(name, bytes) else name,
        capability=tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
        memory=memory.total if memory else 0,
        free=memory.free if memory else 0,
        clock=(told(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM) or 0) * MEGA,
        max_clock=(told(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM) or 0) * MEGA,
        power_limit=None if limit is None else limit / 1000,
        usual_limit=None if usual is None else usual / 1000,
        mig=bool(mig and mig[0]),
        strangers=len(told(nvml.nvmlDeviceGetComputeRunningProcesses) or ()),
    )


def driver_line(machine: Machine) -> Line:
    """The NVIDIA driver."""
    if machine.driver is None:
        mend = "nothing, unless there is a GPU: then install NVIDIA's driver (in a container: --gpus all)"
        return Line("driver", "note", f"none ({machine.no_driver})", mend)
    return Line("driver", "ok", f"{machine.driver}, supports CUDA up to {machine.driver_cuda}")


def gpu_lines(gpus: Sequence[GpuState], machine: Machine) -> list[Line]:
    """A line for each GPU; one where there is a driver and none is found, or none is seen."""
    lines = [_gpu_line(i, gpu) for i, gpu in enumerate(gpus)]
    if machine.driver is None:
        return lines
    if not gpus:
        mend = "nvidia-smi says whether the driver sees it; in a container: --gpus all"
        lines.append(Line("GPU", "bad", "none, although there is a driver", mend))
    elif machine.gpu is None and machine.torch_cuda is not None:
        if machine.visible is not None:
            found = f"torch sees none of {len(gpus)}: CUDA_VISIBLE_DEVICES is {machine.visible!r}"
            lines.append(Line("GPU", "bad", found, "unset CUDA_VISIBLE_DEVICES, or name one of them"))
        else:
            mend = "see CUDA above; after an update of the driver, restart the machine"
            lines.append(Line("GPU", "bad", f"torch sees none of {len(gpus)}", mend))
    return lines


def _gpu_line(number: int, gpu: GpuState) -> Line:
    name, capability = f"GPU {number}", "{}.{}".format(*gpu.capability)
    try:
        arch = arch_of_capability(*gpu.capability).name
    except ValueError as error:
        mend = "run on another GPU, or here on the simulator: pytest --tilecheck-device=simulator"
        return Line(name, "bad", f"{gpu.name}: {error}", mend)
    words = [f"{gpu.name}, {capability} ({arch}), {gpu.free / GIB:.0f} of {gpu.memory / GIB:.0f} GiB free"]
    if gpu.max_clock:
        words.append(f"clock {gpu.clock / MEGA:.0f} of {gpu.max_clock / MEGA:.0f} MHz")
    if gpu.power_limit is not None:
        usual = "" if gpu.usual_limit is None else f" of {gpu.usual_limit:.0f}"
        words.append(f"power limit {gpu.power_limit:.0f}{usual} W")
    found = ", ".join(words)
    if mends := _mends(number, gpu):
        return Line(name, "note", found, "; ".join(mends))
    return Line(name, "ok", found)


def _mends(number: int, gpu: GpuState) -> list[str]:
    mends = []
    if gpu.mig:
        mends.append("it is split (MIG): times are of a part, and no baseline fits")
    if gpu.strangers:
        processes = "1 process computes" if gpu.strangers == 1 else f"{gpu.strangers} processes compute"
        mends.append(f"{processes} on it: wait for their end before anything is timed")
    if gpu.power_limit and gpu.usual_limit and gpu.power_limit < gpu.usual_limit:
        mends.append(
            f"its power limit is lowered, and times are with it: nvidia-smi -i {number} "
            f"-pl {gpu.usual_limit:.0f} restores it"
        )
    if gpu.memory and gpu.free < GIB:
        mends.append("less than 1 GiB of its memory is free: cases run out of it")
    return mends
