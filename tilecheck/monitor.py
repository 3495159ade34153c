"""What NVML says of a GPU: what it is, and how it fares while kernels are timed."""

import importlib
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any

MEGA = 10**6

POWER_CAP = "power cap"

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
        mask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        reasons = {
            said for name, said in _REASONS.items() if mask & getattr(nvml, f"nvmlClocksThrottleReason{name}")
        }
        return Reading(clock, tuple(sorted(reasons)))

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
