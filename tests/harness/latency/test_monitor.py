# ruff: noqa: N802, N815 -- the names are those of NVML
"""The monitor, on an NVML that is made."""

import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tilecheck.latency.monitor import GpuFacts, Monitor, Reading


class FakeNvml:
    """Names and units are those of NVML: MHz, bits, bit masks."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    nvmlClocksThrottleReasonSwPowerCap = 0x4
    nvmlClocksThrottleReasonHwSlowdown = 0x8
    nvmlClocksThrottleReasonSwThermalSlowdown = 0x20
    nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
    nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80

    def __init__(self, uuid: str = "GPU-1234", mask: int = 0, pids: Sequence[int] = ()) -> None:
        self.uuid, self.mask, self.open, self.pids = uuid, mask, 0, pids

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def __getattr__(self, name: str) -> Any:
        values = {
            "nvmlDeviceGetName": b"NVIDIA H200",
            "nvmlSystemGetDriverVersion": "580.1",
            "nvmlDeviceGetMemoryBusWidth": 6144,
            "nvmlDeviceGetCurrentClocksThrottleReasons": self.mask,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=pid) for pid in self.pids],
        }
        if name in values:
            return lambda *_: values[name]
        raise AttributeError(name)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != self.uuid:
            raise self.NVMLError("Not Found")
        return "handle"

    def nvmlDeviceGetMaxClockInfo(self, handle: str, kind: int) -> int:
        return {self.NVML_CLOCK_SM: 1980, self.NVML_CLOCK_MEM: 3201}[kind]

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        return 1755


PROPERTIES = SimpleNamespace(
    name="NVIDIA H200", uuid="1234", multi_processor_count=132, L2_cache_size=60 << 20
)


def test_facts() -> None:
    with Monitor(nvml=FakeNvml(), properties=PROPERTIES) as monitor:
        # 3201 MHz * 2 * 6144 bits / 8: 4.9 TB/s.
        assert monitor.facts() == GpuFacts("NVIDIA H200", 132, 1.98e9, 3201e6 * 2 * 768, 60 << 20, "580.1")


@pytest.mark.parametrize(
    ("mask", "reasons"),
    [
        (0, ()),
        (0x1, ()),  # idle
        (0x4, ("power cap",)),
        (0x20 | 0x4, ("power cap", "temperature")),
    ],
)
def test_reading(mask: int, reasons: tuple[str, ...]) -> None:
    with Monitor(nvml=FakeNvml(mask=mask), properties=PROPERTIES) as monitor:
        assert monitor.read() == Reading(1.755e9, reasons)


@pytest.mark.parametrize(
    ("pids", "others"),
    [
        ([17, os.getpid()], [17]),
        ([os.getpid()], []),
        ([17], []),  # this process, by its number outside of the container
        ([17, 18], [18]),
        ([], []),
    ],
)
def test_others_on_the_gpu(pids: list[int], others: list[int]) -> None:
    with Monitor(nvml=FakeNvml(pids=pids), properties=PROPERTIES) as monitor:
        assert monitor.strangers() == others


def test_it_is_shut_down() -> None:
    nvml = FakeNvml()
    with Monitor(nvml=nvml, properties=PROPERTIES):
        assert nvml.open == 1
    assert nvml.open == 0


def test_a_gpu_that_nvml_does_not_know_is_one_clear_line() -> None:
    with pytest.raises(RuntimeError, match=r"^NVML cannot read the clocks of NVIDIA H200: Not Found$"):
        Monitor(nvml=FakeNvml(uuid="GPU-other"), properties=PROPERTIES)
