# ruff: noqa: N802, N815 -- the names are those of NVML
"""An NVML that is made: one GPU, idle, of which each reading can be changed or made to fail."""

from types import SimpleNamespace
from typing import Any

MIB = 2**20


class FakeNvml:
    """values: what NVML's functions return; an exception is raised.  Names and units are those of NVML."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    nvmlClocksThrottleReasonSwPowerCap = 0x4
    nvmlClocksThrottleReasonHwSlowdown = 0x8
    nvmlClocksThrottleReasonSwThermalSlowdown = 0x20
    nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
    nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80

    def __init__(self, uuids: tuple[str, ...] = ("GPU-1234",), **values: Any) -> None:
        self.uuids, self.open = uuids, 0
        self.values = {
            "SystemGetDriverVersion": b"580.1",
            "DeviceGetName": b"NVIDIA H200",
            "DeviceGetCudaComputeCapability": (9, 0),
            "DeviceGetMemoryInfo": SimpleNamespace(used=620 * MIB, total=143771 * MIB),
            "DeviceGetClockInfo": 345,
            "DeviceGetMaxClockInfo": 1980,
            "DeviceGetTemperature": 31,
            "DeviceGetCurrentClocksThrottleReasons": 0x1,  # idle
            "DeviceGetComputeRunningProcesses": [],
            "DeviceGetGraphicsRunningProcesses": [],
            "DeviceGetMigMode": (0, 0),
            **values,
        }

    def error(self, text: str = "Not Supported") -> Exception:
        return self.NVMLError(text)

    def nvmlInit(self) -> None:
        if isinstance(failing := self.values.get("Init"), Exception):
            raise failing
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.uuids[index]

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("values", {})
        if name.removeprefix("nvml") not in values:
            raise AttributeError(name)
        value = values[name.removeprefix("nvml")]

        def get(*_: Any) -> Any:
            if isinstance(value, Exception):
                raise value
            return value

        return get
