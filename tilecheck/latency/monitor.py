"""What NVML says of a GPU: what it is, and how it fares while kernels are timed."""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from tilecheck.gpus import Gpu, visible_gpus

MEGA = 10**6

POWER_CAP = "power cap"

Value = TypeVar("Value")

# Reasons for which the driver lowers the clock; being idle, or an application's own setting, is none of them.
_REASONS = {
    "SwPowerCap": POWER_CAP,
    "HwSlowdown": "hardware slowdown",
    "SwThermalSlowdown": "temperature",
    "HwThermalSlowdown": "temperature (hardware)",
    "HwPowerBrakeSlowdown": "power brake",
}


@dataclass(frozen=True)
class GpuFacts:
    """name: the product's, as in "NVIDIA H200".  multiprocessors: how many.
    max_clock: of these, in Hz.  bandwidth: of device memory, bytes a second.  l2: bytes of the L2 cache.
    driver: its version.
    """

    name: str
    multiprocessors: int
    max_clock: float
    bandwidth: float
    l2: int
    driver: str


@dataclass(frozen=True)
class Reading:
    """clock: of the multiprocessors, in Hz.  reasons: why it is lowered, if it is; sorted."""

    clock: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Condition:
    """What a GPU is, and how it fares while nothing of ours runs. None: it cannot be read.

    name: the product's.  capability: (major, minor).  memory, memory_total: bytes, in use and in all.
    clock, max_clock: of the multiprocessors, in Hz.  temperature: of the chip, in degrees Celsius.
    reasons: why the clock is lowered.  strangers: ids of processes that use the GPU.
    split: whether it is split into parts (MIG).
    """

    uuid: str
    name: str | None = None
    driver: str | None = None
    capability: tuple[int, int] | None = None
    memory: int | None = None
    memory_total: int | None = None
    clock: float | None = None
    max_clock: float | None = None
    temperature: float | None = None
    reasons: tuple[str, ...] | None = None
    strangers: tuple[int, ...] | None = None
    split: bool | None = None


def conditions(visible: str | None = None, nvml: Any = None) -> list[Condition]:
    """The condition of each GPU that CUDA would show a process; no CUDA context comes into being.

    visible: CUDA_VISIBLE_DEVICES; None: not set.  nvml: the module pynvml, or what stands for it.
    Raises RuntimeError, in one line, where NVML cannot be used.
    """
    try:
        nvml = nvml or importlib.import_module("pynvml")
    except ImportError as error:
        raise RuntimeError(f"GPUs cannot be read: nvidia-ml-py is not installed ({error})") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise RuntimeError(f"NVML cannot be used: {error}") from error
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        by_uuid = {_text(nvml.nvmlDeviceGetUUID(handle)): handle for handle in handles}
        installed = [Gpu(uuid, 0) for uuid in by_uuid]
        names = [gpu.name for gpu in visible_gpus(visible, installed)]
        chosen = [installed[int(name)].name if name.isdecimal() else _whole(name, by_uuid) for name in names]
        return [_condition(nvml, uuid, by_uuid[uuid]) for uuid in chosen]
    except nvml.NVMLError as error:
        raise RuntimeError(f"NVML cannot list the GPUs: {error}") from error
    finally:
        nvml.nvmlShutdown()


def _whole(name: str, uuids: "dict[str, Any]") -> str:
    return next(uuid for uuid in uuids if uuid.startswith(name))


def _condition(nvml: Any, uuid: str, handle: Any) -> Condition:
    def read(get: Callable[[], Value]) -> Value | None:
        try:
            return get()
        except (
            nvml.NVMLError,
            AttributeError,
            TypeError,
            ValueError,
        ):  # an old driver, or an old nvidia-ml-py
            return None

    memory = read(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    return Condition(
        uuid=uuid,
        name=read(lambda: _text(nvml.nvmlDeviceGetName(handle))),
        driver=read(lambda: _text(nvml.nvmlSystemGetDriverVersion())),
        capability=read(lambda: _pair(nvml.nvmlDeviceGetCudaComputeCapability(handle))),
        memory=None if memory is None else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        clock=read(lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * MEGA)),
        max_clock=read(lambda: float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) * MEGA)),
        temperature=read(lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
        reasons=read(lambda: _lowered(nvml, handle)),
        strangers=read(lambda: _users(nvml, handle)),
        split=_split(nvml, handle),
    )


def _pair(value: Any) -> tuple[int, int]:
    major, minor = value
    return int(major), int(minor)


def _lowered(nvml: Any, handle: Any) -> tuple[str, ...]:
    """Why the driver lowers the clock, if it does; sorted."""
    mask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    reasons = {
        said for name, said in _REASONS.items() if mask & getattr(nvml, f"nvmlClocksThrottleReason{name}")
    }
    return tuple(sorted(reasons))


def _users(nvml: Any, handle: Any) -> tuple[int, ...]:
    """Processes that compute or draw on the GPU."""
    found = [
        *nvml.nvmlDeviceGetComputeRunningProcesses(handle),
        *nvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
    ]
    return tuple(sorted({int(process.pid) for process in found}))


def _split(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:
        return False  # not supported, as on all but the large GPUs


class Monitor:
    """Reads one GPU through NVML; a context manager, as NVML has to be shut down.

    index: torch's number of the GPU.  nvml: the module pynvml, or what stands for it.
    Raises RuntimeError, in one line, where NVML cannot be used: times without clocks are not trusted.
    """

    def __init__(self, index: int = 0, nvml: Any = None, properties: Any = None) -> None:
        self._nvml = nvml or importlib.import_module("pynvml")
        if properties is None:
            import torch

            properties = torch.cuda.get_device_properties(index)
        self._properties = properties
        try:
            self._nvml.nvmlInit()
            self._handle = self._nvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}")
        except self._nvml.NVMLError as error:
            raise RuntimeError(f"NVML cannot read the clocks of {properties.name}: {error}") from error

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._nvml.nvmlShutdown()

    def facts(self) -> GpuFacts:
        """What does not change."""
        nvml, handle = self._nvml, self._handle
        # Memory moves two words a clock and line; width in bits.
        width = nvml.nvmlDeviceGetMemoryBusWidth(handle)
        memory_clock = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM) * MEGA
        return GpuFacts(
            name=_text(nvml.nvmlDeviceGetName(handle)),
            multiprocessors=self._properties.multi_processor_count,
            max_clock=nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) * MEGA,
            bandwidth=2 * memory_clock * width / 8,
            l2=self._properties.L2_cache_size,
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
        )

    def read(self) -> Reading:
        """The clock now, and why it is lowered."""
        nvml, handle = self._nvml, self._handle
        clock = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * MEGA
        return Reading(clock, _lowered(nvml, handle))

    def strangers(self) -> list[int]:
        """Process ids of others that compute on the GPU, this process using it too.

        In a container this process may show under a number that it does not know: one that is not known is
        then taken for it.
        """
        running = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        pids = sorted(process.pid for process in running)
        own = os.getpid()
        return [pid for pid in pids if pid != own] if own in pids else pids[1:]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
