"""The guard lets an idle GPU of the right model pass, and closes for everything else."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness.nightly.fake_nvml import MIB, FakeNvml

from tilecheck import environment
from tilecheck.latency.monitor import Condition, conditions
from tilecheck.nightly import guard
from tilecheck.nightly.guard import arch_of, examine, lacking, objections

H200 = "NVIDIA H200"


def of(**values: Any) -> list[str]:
    nvml = FakeNvml(**values)
    found = objections(conditions(None, nvml), H200)
    assert nvml.open == 0
    return found


def process(pid: int) -> SimpleNamespace:
    return SimpleNamespace(pid=pid)


def test_idle_gpu_of_the_right_model() -> None:
    (found,) = conditions(None, FakeNvml())
    assert found == Condition(
        uuid="GPU-1234",
        name=H200,
        driver="580.1",
        capability=(9, 0),
        memory=620 * MIB,
        memory_total=143771 * MIB,
        clock=345e6,
        max_clock=1.98e9,
        temperature=31.0,
        reasons=(),
        strangers=(),
        split=False,
    )
    assert objections([found], H200) == objections([found], "nvidia-h200") == []
    assert arch_of([found]) == "sm_90a"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"DeviceGetName": "NVIDIA H100 80GB HBM3"},
            "is a NVIDIA H100 80GB HBM3, and a NVIDIA H200 is expected",
        ),
        (
            {"DeviceGetComputeRunningProcesses": [process(17), process(4)]},
            "not alone: processes 4, 17 use it",
        ),
        ({"DeviceGetGraphicsRunningProcesses": [process(9)]}, "not alone: processes 9 use it"),
        (
            {"DeviceGetMemoryInfo": SimpleNamespace(used=9000 * MIB, total=1)},
            "9000 MiB of its memory are in use",
        ),
        ({"DeviceGetClockInfo": 0}, "says that its clock is 0 of 1980 MHz"),
        ({"DeviceGetClockInfo": 5000}, "says that its clock is 5000 of 1980 MHz"),
        ({"DeviceGetTemperature": 0}, "is at 0 °C"),
        ({"DeviceGetTemperature": 71}, "is at 71 °C"),
        ({"DeviceGetCurrentClocksThrottleReasons": 0x40}, "its clock is lowered, with nothing to do"),
        ({"DeviceGetMigMode": (1, 1)}, "is split into parts"),
    ],
)
def test_whatever_is_not_as_it_should_be_is_an_objection(values: dict[str, Any], words: str) -> None:
    (found,) = of(**values)
    assert found.startswith("GPU 0: ") and words in found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("DeviceGetName", "name"),
        ("SystemGetDriverVersion", "driver"),
        ("DeviceGetClockInfo", "clock"),
        ("DeviceGetMaxClockInfo", "max clock"),
        ("DeviceGetTemperature", "temperature"),
        ("DeviceGetMemoryInfo", "memory"),
        ("DeviceGetComputeRunningProcesses", "strangers"),
        ("DeviceGetCurrentClocksThrottleReasons", "reasons"),
    ],
)
def test_what_cannot_be_read_is_an_objection(name: str, words: str) -> None:
    assert of(**{name: FakeNvml.NVMLError("Unknown Error")}) == [f"GPU 0: cannot be read: {words}"]


def test_no_gpu_is_an_objection() -> None:
    assert objections(conditions("", FakeNvml()), H200) == [
        "no GPU is visible: is CUDA_VISIBLE_DEVICES right?"
    ]


@pytest.mark.parametrize(
    ("visible", "seen"), [(None, ["GPU-a", "GPU-b"]), ("1", ["GPU-b"]), ("GPU-a", ["GPU-a"])]
)
def test_only_visible_gpus_are_asked(visible: str | None, seen: list[str]) -> None:
    assert [each.uuid for each in conditions(visible, FakeNvml(("GPU-a", "GPU-b")))] == seen


def test_broken_nvml_is_one_line() -> None:
    with pytest.raises(RuntimeError, match=r"^NVML cannot be used: Driver Not Loaded$"):
        conditions(None, FakeNvml(Init=FakeNvml.NVMLError("Driver Not Loaded")))


def test_toolchain_has_to_be_known() -> None:
    whole = {"tilelang": "0.1.15", "torch": "2.13", "cuda": "13.0", "driver": "580.1"}
    assert lacking(whole) == []
    assert lacking({**whole, "cuda": ""}) == ["toolchain: no version of cuda could be read"]


@pytest.fixture
def sane(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine on which all but the GPU is as it should be."""
    versions = {"tilelang": "0.1.15", "torch": "2.13", "cuda": "13.0", "driver": "580.1"}
    monkeypatch.setattr(guard, "toolchain", lambda: versions)
    monkeypatch.setattr(environment, "why_no_gpu", lambda machine: None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


def test_process_writes_what_it_found(
    sane: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sane.setattr(guard, "conditions", lambda visible, nvml: conditions(visible, FakeNvml()))
    assert guard.main(H200, tmp_path / "new" / "guard.json") == 0
    found = json.loads((tmp_path / "new" / "guard.json").read_text())
    assert found["arch"] == "sm_90a" and found["toolchain"]["driver"] == "580.1"
    assert found["gpus"] == [
        {
            **dataclasses.asdict(conditions(None, FakeNvml())[0]),
            "capability": [9, 0],
            "reasons": [],
            "strangers": [],
        }
    ]
    assert guard.main("NVIDIA B200", tmp_path / "guard.json") == 1
    assert "guard: GPU 0: is a NVIDIA H200, and a NVIDIA B200 is expected\n" in capsys.readouterr().out


def test_machine_without_a_gpu_is_one_objection_with_a_mend(
    sane: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    no_driver = FakeNvml(Init=FakeNvml.NVMLError("Driver Not Loaded"))
    sane.setattr(guard, "toolchain", lambda: {"tilelang": "0.1.15", "torch": "2.13"})
    sane.setattr(environment, "machine", lambda: environment.Machine(torch="2.13"))
    sane.setattr(environment, "why_no_gpu", lambda machine: "no NVIDIA driver (NVML: Driver Not Loaded)")
    assert examine(H200, no_driver)["objections"] == [
        "no kernel can run on a GPU here: no NVIDIA driver (NVML: Driver Not Loaded); "
        "--simulate goes on without one"
    ]
    sane.setattr(environment, "machine", environment.Machine)  # without torch, which cannot tell of the GPU
    sane.setattr(environment, "why_no_gpu", lambda machine: "torch is not installed")
    assert examine(H200, no_driver)["objections"][:2] == [
        "NVML cannot be used: Driver Not Loaded",
        "no kernel can run on it: torch is not installed",
    ]


def test_broken_installation_closes_it(sane: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, str]:
        raise ImportError("libtvm.so: cannot open")

    sane.setattr(guard, "toolchain", broken)
    assert examine(H200, FakeNvml())["objections"] == [
        "toolchain cannot be read: ImportError: libtvm.so: cannot open"
    ]


def test_gpu_that_no_kernel_can_run_on_closes_it(sane: pytest.MonkeyPatch) -> None:
    sane.setattr(environment, "why_no_gpu", lambda machine: "no CUDA toolkit with nvcc")
    assert examine(H200, FakeNvml())["objections"] == ["no kernel can run on it: no CUDA toolkit with nvcc"]
