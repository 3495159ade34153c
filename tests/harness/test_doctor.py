"""The doctor: what it says of machines that are well, that have no GPU, and that are broken in one place."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilecheck import environment
from tilecheck.cli import main
from tilecheck.doctor import Examination, Line, hardware, imports, software, trials
from tilecheck.doctor.hardware import GIB, GpuState, driver_line, gpu_lines, installed_gpus
from tilecheck.environment import TESTED_TILELANG, Machine
from tilecheck.isolation import Report

WITHOUT = Machine(torch="2.13.0+cpu", no_driver="NVML: not found")
WITH = Machine(
    torch="2.11.0",
    torch_cuda="13.0",
    driver="580.95",
    driver_cuda="13.0",
    gpu="NVIDIA H200",
    capability=(9, 0),
    compiler=True,
)
H200 = GpuState("NVIDIA H200", (9, 0), 140 * GIB, 139 * GIB, 1980e6, 1980e6, 700.0, 700.0)


# One line each


@pytest.mark.parametrize(
    ("version", "state"), [((3, 9, 18), "bad"), ((3, 10, 0), "ok"), ((3, 13, 7), "ok"), ((3, 14, 0), "bad")]
)
def test_python(version: tuple[int, int, int], state: str) -> None:
    assert software.python_line(version).state == state


def test_packages_that_are_missing_or_too_old_are_named_with_the_command() -> None:
    installed = {"pytest": "9.2.0", "numpy": "1.20"}
    wanted = ["pytest>=9.0", "numpy>=1.26", "filelock>=3.16", "torch>=2.6", "jinja2>=3; extra == 'report'"]
    line = software.packages_line(wanted, installed.get, aside=("torch",))
    assert (line.state, line.found) == ("bad", "numpy 1.20, filelock is missing")
    assert line.mend == "pip install 'numpy>=1.26' 'filelock>=3.16'"
    assert software.packages_line(["pytest>=9.0"], installed.get).state == "ok"
    assert software.packages_line(None, installed.get).state == "note"


@pytest.mark.parametrize(
    ("machine", "state", "words"),
    [
        (WITHOUT, "ok", "a build without CUDA"),
        (replace(WITH, torch_cuda=None), "bad", "a build for CUDA 13.0 or older"),
        (WITH, "ok", "built for CUDA 13.0"),
    ],
)
def test_torch_fits_the_driver(machine: Machine, state: str, words: str) -> None:
    line = software.torch_line(machine.torch, None, machine)
    assert line.state == state
    assert words in f"{line.found} {line.mend}"


@pytest.mark.parametrize(
    ("runtime", "driver", "state"),
    [
        ("13.0", "13.1", "ok"),
        ("12.8", "13.0", "ok"),
        ("13.2", "13.0", "note"),
        ("13.0", "12.9", "bad"),
        ("12.10", "12.9", "note"),
    ],
)
def test_runtime_against_driver(runtime: str, driver: str, state: str) -> None:
    line = software.cuda_line(replace(WITH, torch_cuda=runtime, driver_cuda=driver))
    assert line is not None
    assert line.state == state


@pytest.mark.parametrize(
    ("installed", "fault", "state", "words"),
    [
        (None, None, "bad", f"pip install tilelang=={TESTED_TILELANG}"),
        ("0.1.15", "ImportError: libz3.so", "bad", "TILELANG=nightly"),
        ("0.1.13", None, "bad", "older than 0.1.14"),
        ("0.1.14", None, "note", f"not the tested {TESTED_TILELANG}"),
        ("0.1.15+cuda.gitabc", None, "ok", "the tested one"),
        ("0.1.16.dev3", None, "note", "go back"),
    ],
)
def test_tilelang(installed: str | None, fault: str | None, state: str, words: str) -> None:
    line = software.tilelang_line(installed, fault)
    assert line.state == state
    assert words in f"{line.found} {line.mend}"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("", None),
        ("raise ImportError('libcudart.so.13: cannot open')", "ImportError: libcudart.so.13: cannot open"),
        ("raise RuntimeError('the ABI differs\\nsee the page')", "RuntimeError: the ABI differs"),
        ("def (", "SyntaxError: invalid syntax (lame.py, line 1)"),
        ("raise ImportError", "ImportError: no message"),
        ("import sys; sys.exit()", "SystemExit: no message"),
        ("import sys; sys.stderr.buffer.write(b'\\xff'); 1 / 0", "ZeroDivisionError: division by zero"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "the import ends Python by signal 11"),
        ("import os; os._exit(3)", "the import ends Python, code 3"),
    ],
)
def test_an_import_that_fails_or_dies_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, words: str | None
) -> None:
    (tmp_path / "lame.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    assert imports.import_fault("lame") == words


@pytest.fixture
def lame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that is installed and requires others, of which only `broken-one` is."""
    modules = {"lame": "", "lame_too": "", "lame/inside/vendored": "", "broken": "import missing_name"}
    for name, requires in (("lame", ("broken-one", "other-solver")), ("broken-one", ())):
        files = [f"{module}/__init__.py" for module in modules if module.startswith(name.partition("-")[0])]
        folder = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        lines = [f"Requires-Dist: {each}" for each in requires]
        (folder / "METADATA").write_text("\n".join([f"Name: {name}", "Version: 1.0", *lines, "", ""]))
        (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for module, text in modules.items():
        (tmp_path / module).mkdir(parents=True)
        (tmp_path / module / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "lame" / "__init__.py"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("import other", "other, which lame imports, is missing: pip install other-solver"),
        ("import depth.inner", "depth, which lame imports, is missing: pip install depth"),
        ("import broken", "missing_name, which lame imports, is missing: pip install missing_name"),
        ("from broken import x", "missing_name, which lame imports, is missing: pip install missing_name"),
        ("import broken.part", "missing_name, which lame imports, is missing: pip install missing_name"),
        ("from json import x", "json is part of Python, and this one lacks it: take another build of Python"),
        ("import lame.gone", None),
        ("from lame_too import x", None),
        ("import vendored", None),
        ("raise ImportError('libcudart.so.13: cannot open')", None),
    ],
)
def test_module_for_want_of_which_an_import_fails_is_named(
    lame: Path, module: str, words: str | None
) -> None:
    """To install the package anew would not bring back what it only requires."""
    lame.write_text(module)
    fault = imports.import_fault("lame")
    assert fault is not None
    assert imports.mend_of_another(fault, "lame") == words


def test_module_that_is_there_and_broken_is_named_with_what_it_came_with(lame: Path) -> None:
    (lame.parents[1] / "broken" / "__init__.py").write_text("")
    lame.write_text("from broken import x")
    fault = imports.import_fault("lame")
    told = "broken, which lame imports, is broken: pip install --force-reinstall broken-one"
    assert fault is not None and imports.mend_of_another(fault, "lame") == told


@pytest.mark.parametrize(("package", "name"), [("torch", "torch"), ("tilelang", "TileLang")])
def test_examination_names_the_module_that_is_missing(well: dict[str, Any], package: str, name: str) -> None:
    well["faults"] = {package: "ModuleNotFoundError: No module named 'not_there'"}
    (line,) = [line for line in examined()[0].lines if line.name == name]
    assert line.state == "bad"
    assert line.mend == f"not_there, which {package} imports, is missing: pip install not_there"


def test_what_lies_in_the_current_folder_alone_is_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise ImportError")
    monkeypatch.chdir(tmp_path)
    assert imports.import_fault("json") is None


@pytest.mark.parametrize("place", ["packaging.py", "packaging/__init__.py"])
def test_a_module_before_an_installed_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    assert imports.hidden_by("packaging") is None
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).touch()
    monkeypatch.delitem(sys.modules, "packaging", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert imports.hidden_by("packaging") == tmp_path / place.partition("/")[0]
    assert imports.hidden_by("nothing-of-the-kind") is None


@pytest.mark.parametrize("given", ["", "kept"], ids=["home", "named"])
def test_a_cache_that_cannot_be_made_is_not_mended_by_another_tilelang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TILELANG_CACHE_DIR", given and str(tmp_path / "file" / given))
    folder = str(tmp_path / "file" / (given or ".tilelang/cache"))
    with pytest.raises(OSError, match="Errno") as caught:
        Path(folder).mkdir(parents=True)
    line = software.tilelang_line(TESTED_TILELANG, f"{type(caught.value).__name__}: {caught.value}")
    assert (
        line.mend == f"{folder} has to be a folder that can be written to; TILELANG_CACHE_DIR names another"
    )
    other = software.tilelang_line(TESTED_TILELANG, "FileNotFoundError: [Errno 2] None: '/lib/tvm.so'")
    assert "--force-reinstall" in other.mend


# The GPUs


def test_driver() -> None:
    assert driver_line(WITH).found == "580.95, supports CUDA up to 13.0"
    assert driver_line(WITHOUT).state == "note"


def test_a_gpu_that_is_well() -> None:
    (line,) = gpu_lines([H200], WITH)
    assert line.state == "ok"
    assert line.found == (
        "NVIDIA H200, 9.0 (sm_90a), 139 of 140 GiB free, clock 1980 of 1980 MHz, power limit 700 of 700 W"
    )


@pytest.mark.parametrize(
    ("gpu", "machine", "state", "words"),
    [
        (replace(H200, power_limit=500.0), WITH, "note", "nvidia-smi -i 0 -pl 700"),
        (replace(H200, strangers=2), WITH, "note", "2 processes compute on it"),
        (replace(H200, mig=True), WITH, "note", "split (MIG)"),
        (replace(H200, free=GIB // 2), WITH, "note", "less than 1 GiB"),
        (replace(H200, capability=(7, 5)), WITH, "bad", "compute capability 7.5 is not supported"),
        (None, replace(WITH, gpu=None), "bad", "--gpus all"),
        (H200, replace(WITH, gpu=None, visible=""), "bad", "CUDA_VISIBLE_DEVICES is ''"),
        (H200, replace(WITH, gpu=None), "bad", "torch sees none of 1"),
    ],
)
def test_a_gpu_that_is_not(gpu: GpuState | None, machine: Machine, state: str, words: str) -> None:
    line = gpu_lines([gpu] if gpu else [], machine)[-1]
    assert line.state == state
    assert words in f"{line.found} {line.mend}"


class FakeNvml:
    """Two GPUs; the second answers little."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM = 1

    def __getattr__(self, name: str) -> Callable[..., Any]:
        import pynvml

        assert hasattr(pynvml, name), f"pynvml has no {name}"
        answers = {
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=140 * GIB, free=139 * GIB),
            "nvmlDeviceGetClockInfo": 345,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
            "nvmlDeviceGetMigMode": (0, 0),
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=1)],
        }

        def call(*arguments: Any) -> Any:
            if name == "nvmlDeviceGetHandleByIndex":
                return arguments[0]
            if arguments[:1] == (1,) and name not in (
                "nvmlDeviceGetName",
                "nvmlDeviceGetCudaComputeCapability",
            ):
                raise self.NVMLError("not supported")
            return answers.get(name)

        return call


def test_what_a_gpu_does_not_tell_is_left_out() -> None:
    first, second = installed_gpus(FakeNvml())
    assert first == replace(H200, clock=345e6, strangers=1)
    assert (second.power_limit, second.mig, second.strangers) == (None, False, 0)
    assert "power" not in gpu_lines([second], WITH)[0].found


def test_no_driver_means_no_gpus() -> None:
    class Missing(FakeNvml):
        def nvmlInit(self) -> None:  # noqa: N802
            raise self.NVMLError("no library")

    assert installed_gpus(Missing()) == []


# The whole examination


@pytest.fixture
def well(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A machine with a GPU where all is well; what a test sets in it is otherwise."""
    world: dict[str, Any] = {
        "machine": WITH,
        "gpus": [H200],
        "symptom": {},
        "faults": {},
        "versions": {},
        "hidden": {},
    }
    world["message"] = "told\nmore"
    usual = {"torch": "2.11.0", "tilelang": TESTED_TILELANG}

    def isolated(modules: Any, test_id: str, *, device: str) -> Report:
        return Report(world["symptom"].get(device), world["message"])

    monkeypatch.setattr(environment, "machine", lambda: world["machine"])
    monkeypatch.setattr(environment, "driver_alone", lambda: world["machine"])
    monkeypatch.setattr(environment, "version", lambda name: {**usual, **world["versions"]}.get(name))
    monkeypatch.setattr(software, "requirements", list)
    monkeypatch.setattr(imports, "import_fault", lambda name: world["faults"].get(name))
    monkeypatch.setattr(imports, "hidden_by", lambda name: world["hidden"].get(name))
    monkeypatch.setattr(software, "cache_line", lambda: None)
    monkeypatch.setattr(software, "toolchain_lines", lambda: [Line("nvcc", "ok", "13.0.88 (path)")])
    monkeypatch.setattr(hardware, "installed_gpus", lambda: world["gpus"])
    monkeypatch.setattr(trials, "compile_line", lambda: Line("compiler", "ok", "compiles"))
    monkeypatch.setattr("tilecheck.isolation.run_isolated", isolated)
    return world


def examined() -> tuple[Examination, dict[str, str]]:
    """The examination, and what it keeps from running, by ability."""
    examination = Examination()
    assert list(examination.run()) == examination.lines
    return examination, {each.name: each.lacking for each in examination.abilities()}


def test_all_is_well(well: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    examination, lacking = examined()
    assert {line.state for line in examination.lines} == {"ok"}
    assert set(lacking.values()) == {""}
    assert main(["doctor", "--require-gpu"]) == 0
    assert "yes  GPU         pytest -m correctness --require-gpu" in capfd.readouterr().out


def test_without_a_gpu_nothing_is_broken(well: dict[str, Any]) -> None:
    well.update(machine=WITHOUT, gpus=[])
    examination, lacking = examined()
    assert not examination.broken
    assert (lacking["simulator"], lacking["codegen"]) == ("", "")
    assert lacking["GPU"] == "driver: none (NVML: not found)"
    assert main(["doctor"]) == 0
    assert main(["doctor", "--require-gpu"]) == 1


@pytest.mark.parametrize("symptom", ["wrong", "hang", "abort", "compile error", "launch error"])
def test_a_launch_that_goes_wrong(well: dict[str, Any], symptom: str) -> None:
    well["symptom"] = {"cuda": symptom}
    examination, lacking = examined()
    assert examination.broken
    assert lacking["simulator"] == ""
    assert lacking["GPU"] == f"launch: vector add: {symptom}: told"
    assert main(["doctor"]) == 1


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("probe: ended with exit code 1; it said:\nTraceback\nImportError: x\n", "it said: ImportError: x"),
        ("probe: ended by SIGSEGV; it said:\n", "it said: nothing"),
        ("", "it says nothing"),
    ],
)
def test_a_trial_that_dies_is_told_with_its_last_word(well: dict[str, Any], message: str, told: str) -> None:
    well.update(symptom={"simulator": "abort"}, message=message)
    _, lacking = examined()
    assert lacking["simulator"].endswith(told)


def test_a_gpu_that_is_to_be_left_alone(well: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    well["symptom"] = {"cuda": "hang"}
    assert main(["doctor", "--no-launch"]) == 0
    assert "launch: not tried, as nothing is to be launched" in capfd.readouterr().out
    assert main(["doctor", "--no-launch", "--require-gpu"]) == 1


def test_without_tilelang_nothing_is_tried(well: dict[str, Any]) -> None:
    well["versions"] = {"tilelang": None}
    examination, lacking = examined()
    assert not {"simulator", "compiler", "launch"} & {line.name for line in examination.lines}
    assert all("TileLang: not installed" in reason for reason in lacking.values())


def test_where_torch_is_broken_it_comes_first(well: dict[str, Any]) -> None:
    fault = "ImportError: libcudart.so.13: cannot open"
    well["faults"] = {"torch": fault, "tilelang": fault}
    examination, lacking = examined()
    (torch,) = (line for line in examination.lines if line.name == "torch")
    (tilelang,) = (line for line in examination.lines if line.name == "TileLang")
    assert fault in torch.found and tilelang.mend == "mend torch first"
    assert lacking["simulator"] == lacking["codegen"] == f"torch: {torch.found}"


@pytest.mark.parametrize("package", ["torch", "tilelang"])
@pytest.mark.parametrize(("fault", "state"), [(None, "note"), ("ImportError: x", "bad")])
def test_where_another_package_is_found_the_mend_is_of_the_path(
    well: dict[str, Any], package: str, fault: str | None, state: str
) -> None:
    well["hidden"], well["faults"] = {package: Path("/src/tl") / package}, {package: fault}
    examination, lacking = examined()
    (line,) = (line for line in examination.lines if line.name.lower() == package)
    assert line.state == state and f"is installed, but /src/tl/{package} comes before it" in line.found
    assert line.mend == "take /src/tl off PYTHONPATH, or give the command in another folder"
    assert bool(lacking["simulator"]) is (fault is not None)


def test_a_gpu_that_cannot_be_compiled_for(well: dict[str, Any]) -> None:
    well["machine"] = replace(WITH, compiler=False)
    _, lacking = examined()
    assert "set CUDA_HOME" in lacking["GPU"]


def test_a_cache_that_cannot_be_written_to_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert software.cache_line() is None
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    line = software.cache_line()
    assert line is not None and line.state == "note"
    assert line.found.startswith(f"what is compiled is not kept: {tmp_path}")
    assert line.mend == "set XDG_CACHE_HOME to a folder that can be written to"


def test_every_line_that_is_not_ok_has_a_mend() -> None:
    with pytest.raises(ValueError, match="its mend is ''"):
        Line("GPU", "bad", "none")


def test_on_this_machine(capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    found = json.loads(capfd.readouterr().out)
    states = {line["name"]: line["state"] for line in found["lines"]}
    assert (code, found["exit_code"]) == (0, 0), found
    assert states["simulator"] == "ok"
    assert [each["can"] for each in found["can"] if each["name"] == "simulator"] == [True]
    gpu = environment.why_no_gpu(environment.machine()) is None
    assert [each["can"] for each in found["can"] if each["name"] == "GPU"] == [gpu]
