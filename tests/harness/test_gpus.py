"""Which GPU a worker takes, and how many workers there are, told from what NVML says."""

from types import SimpleNamespace
from typing import Any

import pytest

from tilecheck.gpus import Gpu, installed_gpus, show_one, visible_gpus, workers_for

GIB = 2**30
HOST = [Gpu("GPU-aaaa-1", 140 * GIB), Gpu("GPU-abbb-2", 140 * GIB), Gpu("GPU-cccc-3", 20 * GIB)]


class FakeNvml(SimpleNamespace):
    """NVML of a host whose GPUs are given as (UUID, free bytes, parts under MIG or None)."""

    class NVMLError(Exception):
        pass

    def __init__(self, gpus: list[tuple[str, int, list[Any] | None]], driver: bool = True) -> None:
        self.gpus, self.driver, self.open = gpus, driver, 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise self.NVMLError
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, i: int) -> Any:  # noqa: N802
        return self.gpus[i]

    def nvmlDeviceGetMigMode(self, gpu: Any) -> list[int]:  # noqa: N802
        if gpu[2] is None:
            raise self.NVMLError
        return [len(gpu[2]) > 0, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Any) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Any, i: int) -> Any:  # noqa: N802
        if i >= len(gpu[2]):
            raise self.NVMLError
        return gpu[2][i]

    def nvmlDeviceGetUUID(self, gpu: Any) -> str:  # noqa: N802
        return gpu[0]

    def nvmlDeviceGetMemoryInfo(self, gpu: Any) -> Any:  # noqa: N802
        return SimpleNamespace(free=gpu[1])


def test_gpus_and_parts_of_gpus_are_found_by_uuid() -> None:
    nvml = FakeNvml(
        [("GPU-a", 10, None), ("GPU-b", 20, []), ("GPU-c", 30, [("MIG-1", 11, None), ("MIG-2", 12, None)])]
    )
    assert installed_gpus(nvml) == [Gpu("GPU-a", 10), Gpu("GPU-b", 20), Gpu("MIG-1", 11), Gpu("MIG-2", 12)]
    assert nvml.open == 0
    assert installed_gpus(FakeNvml([("GPU-a", 10, None)], driver=False)) == []


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        (None, ["GPU-aaaa-1", "GPU-abbb-2", "GPU-cccc-3"]),
        ("", []),
        ("-1", []),
        ("2,0", ["2", "0"]),
        (" 1 , 2 ", ["1", "2"]),
        ("0,-1,2", ["0"]),
        ("0,3,1", ["0"]),
        ("0,none,1", ["0"]),
        ("1,1", []),
        ("GPU-cccc-3,GPU-aaaa", ["GPU-cccc-3", "GPU-aaaa"]),
        ("GPU-a", []),  # two begin so
        ("GPU-cccc-3,GPU-dddd", ["GPU-cccc-3"]),
        ("NoDevFiles", []),
    ],
)
def test_setting_is_read_as_cuda_does(setting: str | None, names: list[str]) -> None:
    assert [gpu.name for gpu in visible_gpus(setting, HOST)] == names


def test_memory_is_that_of_the_gpu_named() -> None:
    assert [gpu.free for gpu in visible_gpus("2,GPU-a", HOST)] == [20 * GIB]
    assert visible_gpus("GPU-cccc", HOST)[0].free == 20 * GIB


def test_parts_are_visible_by_their_uuid() -> None:
    host = [Gpu("MIG-1111", GIB), Gpu("MIG-2222", GIB)]
    assert [gpu.name for gpu in visible_gpus("MIG-2222,MIG-1111", host)] == ["MIG-2222", "MIG-1111"]


@pytest.mark.parametrize(
    ("gpus", "cores", "workers"),
    [
        (HOST[:1], 16, 16),  # cores decide: 17 times 8 GiB are free
        (HOST[:1], 64, 17),  # memory does
        (HOST[:2], 64, 34),
        (HOST, 64, 6),  # the fullest takes two, and no other takes more than it
        ([Gpu("0", GIB)], 16, 1),
    ],
)
def test_workers_are_as_many_as_memory_and_cores_carry(gpus: list[Gpu], cores: int, workers: int) -> None:
    assert workers_for(gpus, cores, 8 * GIB) == workers


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        (None, ["GPU-aaaa-1", "GPU-abbb-2", "GPU-cccc-3", "GPU-aaaa-1"]),
        ("2,1", ["2", "1", "2", "1"]),
        ("GPU-cccc-3", ["GPU-cccc-3"] * 4),
    ],
)
def test_workers_go_round_the_gpus_that_the_caller_sees(setting: str | None, shown: list[str]) -> None:
    for worker, name in enumerate(shown):
        environment = {} if setting is None else {"CUDA_VISIBLE_DEVICES": setting}
        assert show_one(worker, environment, HOST) == name
        assert environment == {"CUDA_VISIBLE_DEVICES": name}
        assert show_one(worker, environment, HOST) == name  # a process that the worker starts changes nothing


@pytest.mark.parametrize("setting", ["", "-1", "7"])
def test_without_visible_gpu_nothing_is_changed(setting: str) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": setting}
    assert show_one(0, environment, HOST) is None
    assert environment == {"CUDA_VISIBLE_DEVICES": setting}
