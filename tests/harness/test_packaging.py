"""The package, its pins, and the set-up that `make` and CI run."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tilecheck

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
# A host keeps the torch that fits its driver, and with it the CUDA runtime.
UNPINNED = {"nvidia-cuda-runtime", "tilecheck", "torch"}


# The package


def test_version_is_stated_once() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tilecheck.__version__"}


def test_changelog_has_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == tilecheck.__version__


def test_extras() -> None:
    assert set(PROJECT["project"]["optional-dependencies"]) >= {"test", "codegen", "report", "dev"}


def test_ci_installs_the_browser_where_it_is_missing(machine: "Machine") -> None:
    for name in ("chromium", "chromedriver"):
        (machine.path / name).unlink()
    for name in ("bash", "dirname", "id"):
        (machine.path / name).symlink_to(shutil.which(name) or "")
    for name in ("apt-get", "make"):
        machine.program(name, f'#!/bin/bash\necho "{name} $*" >>"$STATE/asked"\n')
    machine.program("id", "#!/bin/bash\necho 0\n")
    ran = machine.run_alone("bash", ".ci/run")
    asked = (machine.state / "asked").read_text().splitlines()
    assert ran.returncode == 0, ran.stdout
    assert asked[1].startswith("apt-get install -y --no-install-recommends chromium chromium-driver")
    assert asked[2].startswith("make --keep-going")


def test_wheel_holds_the_package_alone(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77.0.3", reason="builds with what is installed")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "tilecheck", tmp_path / "tilecheck", ignore=shutil.ignore_patterns("__pycache__"))
    for other in ("kernels", "tests"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "__init__.py").touch()

    build = "from setuptools import build_meta; print('\\n' + build_meta.build_wheel('.'))"
    built = _run([sys.executable, "-c", build], tmp_path)
    assert built.returncode == 0, built.stdout

    with zipfile.ZipFile(tmp_path / built.stdout.split()[-1]) as wheel:
        files = set(wheel.namelist())
        info = f"tilecheck-{tilecheck.__version__}.dist-info"
        metadata = wheel.read(f"{info}/METADATA").decode()
    assert {name.split("/")[0] for name in files} == {"tilecheck", info}
    expected = {
        p.relative_to(ROOT).as_posix()
        for p in (ROOT / "tilecheck").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert {name for name in files if name.startswith("tilecheck/")} == expected
    assert "tilecheck/py.typed" in files
    assert "License-Expression: Apache-2.0" in metadata


def test_reports_know_nothing_of_nights() -> None:
    """`tilecheck.nightly` builds on `tilecheck.report`, and not the other way round."""
    modules = list((ROOT / "tilecheck" / "report").rglob("*.py"))
    assert modules
    for module in modules:
        found = re.findall(r"^\s*(?:from|import) tilecheck.*\bnightly\b.*", module.read_text(), re.MULTILINE)
        assert not found, module.name


# The pins


def _pins(python: str) -> dict[str, list[str]]:
    pins: dict[str, list[str]] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            if pin.marker is None or pin.marker.evaluate({"python_version": python}):
                pins.setdefault(canonicalize_name(pin.name), []).append(str(pin.specifier))
    return pins


@pytest.mark.parametrize("python", PYTHONS)
def test_each_direct_dependency_has_one_pin_that_it_allows(python: str) -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"].values()
    pins = _pins(python)
    assert {name: found for name, found in pins.items() if len(found) > 1} == {}
    for text in (*project["dependencies"], *(text for extra in extras for text in extra)):
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"python_version": python}):
            continue
        if name in UNPINNED:
            assert name not in pins
            continue
        assert name in pins, f"constraints.txt pins no {name} for Python {python}"
        operator, version = pins[name][0][:2], pins[name][0][2:]
        assert operator == "=="
        assert requirement.specifier.contains(version), f"{name}: {version} is not in {requirement.specifier}"


# pytest's configuration and the plugin


def test_conftest_only_loads_the_plugin() -> None:
    lines = (ROOT / "conftest.py").read_text().splitlines()
    assert len(lines) < 40
    assert "tilecheck.plugin" in "".join(lines)


def test_markers_are_explained() -> None:
    ini = configparser.ConfigParser()
    ini.read(ROOT / "pytest.ini")
    markers = dict(line.split(": ", 1) for line in ini["pytest"]["markers"].split("\n") if line)
    assert set(markers) >= {"correctness", "codegen", "latency", "autotune", "sanitizer", "debugging", "gpu"}
    assert ini["pytest"].getboolean("strict")


WITHOUT_AUTOLOAD = ["-p", "xdist.plugin", "-p", "pytest_benchmark.plugin", "-p", "pytest_timeout"]


@pytest.mark.parametrize("installed", [True, False], ids=["installed", "checkout"])
def test_plugin_is_loaded_once(tmp_path: Path, installed: bool) -> None:
    """By its entry point and by conftest.py, or by conftest.py alone, always under the same name."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_plugins.py").write_text(
        "def test_plugins(pytestconfig):\n"
        "    plugins = pytestconfig.pluginmanager.list_name_plugin()\n"
        "    names = [name for name, p in plugins if getattr(p, '__name__', '') == 'tilecheck.plugin']\n"
        "    assert names == ['tilecheck.plugin']\n"
    )
    environment = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path / 'site'}"}
    options = []
    if installed:
        info = tmp_path / "site" / "tilecheck-0.dist-info"
        info.mkdir(parents=True)
        info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: tilecheck\nVersion: 0\n")
        points = PROJECT["project"]["entry-points"]["pytest11"]
        lines = "".join(f"{name} = {module}\n" for name, module in points.items())
        info.joinpath("entry_points.txt").write_text(f"[pytest11]\n{lines}")
    else:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        options = WITHOUT_AUTOLOAD

    ran = _run([sys.executable, "-m", "pytest", "-q", *options, "test_plugins.py"], tmp_path, environment)

    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout
    assert "warning" not in ran.stdout


def test_suite_collects_without_the_extras() -> None:
    """`pip install -e . && pytest -m correctness` is enough on a host that has its own torch."""
    extras = [Requirement(text).name for text in PROJECT["project"]["optional-dependencies"]["test"]]
    arguments = [*WITHOUT_AUTOLOAD, "--collect-only", "-q", "tests/harness"]
    collect = (
        f"import sys; sys.modules.update(dict.fromkeys({extras}))\n"
        f"import pytest; sys.exit(pytest.main({arguments}))"
    )
    ran = _run([sys.executable, "-c", collect], ROOT, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert ran.returncode == 0, ran.stdout[-2000:]


# `make` and CI, with a Python that records what it is asked for and installs nothing


FAKE_PYTHON = r"""#!/bin/sh
state="$STATE"
echo "$0 $*" >>"$state/calls"
case "$*" in
  "-c import sys"*) cat "$state/python" ;;
  "-c import torch; print(torch.__version__"*) cat "$state/host-torch" 2>/dev/null || exit 1 ;;
  "-m venv"*)
    for last; do :; done
    mkdir -p "$last/bin" && cp "$0" "$last/bin/python"
    case "$*" in *--system-site-packages*) cp "$state/host-torch" "$state/torch" ;; esac ;;
  "- torch") cat "$state/torch" 2>/dev/null || true ;;
  *" install "*--find-links*) [ -e "$state/nightly" ] || exit 1 ;;
  *" install "*"codegen"*)
    [ ! -e "$state/offline" ] && [ ! -e "$state/other-cuda" ] && cp .venv/constraints.txt "$state/pins" ;;
  *" install "*" -e "*) [ ! -e "$state/offline" ] && cp .venv/constraints.txt "$state/pins" ;;
  *" install "*) echo 2.13.0+cpu >"$state/torch" ;;
esac
"""


def _run(
    command: list[str], folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command without the settings of the make and pytest that this test runs under."""
    settings = re.findall(r"^(\w+) \?=", (ROOT / "Makefile").read_text(), re.MULTILINE)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in settings and not name.startswith(("MAKE", "MFLAGS", "PYTEST_"))
    }
    return subprocess.run(
        command,
        cwd=folder,
        env=inherited | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


class Machine:
    """A checkout on a machine with a fake Python: what it has, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.state, self.path = folder / "checkout", folder / "state", folder / "bin"
        for each in (self.checkout / ".ci", self.state, self.path):
            each.mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", "constraints.txt", ".ci/setup", ".ci/run"):
            shutil.copy(ROOT / name, self.checkout / name)
            os.utime(self.checkout / name, (0, 0))
        self.program("python3", FAKE_PYTHON)
        for browser in ("chromium", "chromedriver"):  # so that CI need not install them
            self.program(browser, "#!/bin/sh\n")
        self.has("python", "3.11")

    def program(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)
        (self.path / name).chmod(0o755)

    def has(self, what: str, value: str = "") -> None:
        (self.state / what).write_text(value)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """What the command did; `calls` then holds what was asked of Python."""
        (self.state / "calls").write_text("")
        path = f"{self.path}{os.pathsep}{os.environ['PATH']}"
        return _run(list(command), self.checkout, {"PATH": path, "STATE": str(self.state)})

    def run_alone(self, *command: str) -> subprocess.CompletedProcess[str]:
        """The same with no other program than those of this machine."""
        return _run(list(command), self.checkout, {"PATH": str(self.path), "STATE": str(self.state)})

    def make(self, *arguments: str) -> str:
        made = self.run("make", *arguments)
        assert made.returncode == 0, made.stdout
        return made.stdout

    @property
    def calls(self) -> list[str]:
        lines = (self.state / "calls").read_text().splitlines()
        return [line.split(" ", 1)[1] for line in lines]

    @property
    def installs(self) -> list[str]:
        """The requirements and files each call of pip was given."""
        return [call.split(" install ", 1)[1] for call in self.calls if " install " in call]

    @property
    def pins(self) -> list[str]:
        return (self.state / "pins").read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for program in ("make", "bash"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} here")
    return Machine(tmp_path)


@pytest.mark.parametrize(("target", "selection"), [("correctness", " -m correctness"), ("test", "")])
def test_fresh_machine_installs_and_runs(machine: Machine, target: str, selection: str) -> None:
    machine.make(target, "DRIVER=no")
    torch, suite = machine.installs
    assert torch.endswith("torch==2.13.0")
    assert "-e .[dev,codegen] tilelang==" in suite
    assert machine.calls[-1].strip() == f"-m pytest{selection}"


def test_second_run_starts_at_once(machine: Machine) -> None:
    machine.make("test", "DRIVER=no")
    machine.make("test", "DRIVER=no")
    assert [call.strip() for call in machine.calls] == ["-m pytest"]


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_are_installed(machine: Machine, changed: str) -> None:
    machine.make("test", "DRIVER=no")
    os.utime(machine.checkout / changed)
    machine.make("test", "DRIVER=no")
    (suite,) = machine.installs
    assert "-e .[dev,codegen]" in suite


def test_torch_that_was_put_in_first_is_kept(machine: Machine) -> None:
    machine.make("venv", "DRIVER=no")
    assert machine.installs == []
    machine.has("torch", "2.12.1+cpu")
    machine.make("correctness", "DRIVER=no")
    (suite,) = machine.installs
    assert "-e .[dev,codegen]" in suite
    assert machine.pins[0] == "torch==2.12.1+cpu"


def test_torch_requirement_can_be_chosen(machine: Machine) -> None:
    machine.make("install", "DRIVER=no", "TORCH=torch==2.12.1 --no-index")
    assert machine.installs[0].endswith("torch==2.12.1 --no-index")


def test_gpu_host_keeps_its_torch(machine: Machine) -> None:
    machine.program("nvidia-smi", "#!/bin/sh\necho 'GPU 0: made up'\n")
    machine.has("host-torch", "2.11.0+cu130")
    machine.make("install")
    assert any(call.startswith("-m venv --system-site-packages") for call in machine.calls)
    (suite,) = machine.installs
    assert "-e .[dev,codegen]" in suite
    assert machine.pins[0] == "torch==2.11.0+cu130"


def test_gpu_host_whose_torch_is_for_another_cuda_does_without_the_compiler(machine: Machine) -> None:
    machine.program("nvidia-smi", "#!/bin/sh\necho 'GPU 0: made up'\n")
    machine.has("host-torch", "2.14.0+cu131")
    machine.has("other-cuda")
    assert "without the compiler for codegen, which does not go with torch" in machine.make("install")
    with_compiler, without = machine.installs
    assert "-e .[dev,codegen]" in with_compiler
    assert "-e .[dev] tilelang==" in without


def test_gpu_host_without_torch_gets_the_default(machine: Machine) -> None:
    machine.program("nvidia-smi", "#!/bin/sh\necho 'GPU 0: made up'\n")
    assert "no NVIDIA driver" not in machine.make("install")
    assert machine.installs[0].endswith("torch==2.13.0")


def test_host_torch_is_left_alone_without_a_driver(machine: Machine) -> None:
    machine.has("host-torch", "2.11.0+cu130")
    assert "no NVIDIA driver" in machine.make("install", "DRIVER=no")
    assert "-m venv .venv" in machine.calls


def test_venv_of_a_virtual_environment_sees_its_torch(tmp_path: Path, machine: Machine) -> None:
    """GPU hosts often have torch in an environment that is active, which a second one does not inherit."""
    made = _run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "outer")], tmp_path)
    assert made.returncode == 0, made.stdout
    (site,) = (tmp_path / "outer").glob("lib/python3*/site-packages")
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("__version__ = '7.7+cu99'\nclass version:\n    cuda = '99'\n")
    (site / "torch-7.7.dist-info").mkdir()
    (site / "torch-7.7.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 7.7+cu99\n"
    )

    output = machine.make("venv", "DRIVER=yes", f"PYTHON={tmp_path / 'outer/bin/python'}")

    assert "torch 7.7+cu99" in output
    seen = _run([".venv/bin/python", "-c", "import torch; print(torch.__version__)"], machine.checkout)
    assert seen.stdout.strip() == "7.7+cu99"


def test_another_release_of_tilelang_brings_its_own_needs(machine: Machine) -> None:
    output = machine.make("install", "DRIVER=no", "TILELANG=0.1.14")
    assert "not the release that is tested" in output
    assert machine.installs[-1].endswith("-e .[dev,codegen] tilelang==0.1.14")
    names = {re.split("[=;]", pin)[0] for pin in machine.pins}
    assert "pytest" in names
    assert not names & {"tilelang", "apache-tvm-ffi", "z3-solver"}

    machine.make("install", "DRIVER=no")
    assert not machine.installs[-1].endswith("0.1.14"), "the release that is tested comes back"


def test_unsupported_tilelang_is_refused(machine: Machine) -> None:
    made = machine.run("make", "test", "DRIVER=no", "TILELANG=0.1.9")
    assert made.returncode != 0
    assert "TileLang 0.1.9 is not supported" in made.stdout
    assert not any("pytest" in call for call in machine.calls)


def test_nightly_tilelang(machine: Machine) -> None:
    machine.has("nightly")
    machine.make("install", "DRIVER=no", "TILELANG=nightly", "TILELANG_NIGHTLY_INDEX=somewhere")
    _, nightly, suite = machine.installs
    assert "--find-links somewhere tilelang" in nightly
    assert suite.endswith("-e .[dev,codegen] tilelang")
    machine.make("install", "DRIVER=no", "TILELANG=nightly", "TILELANG_NIGHTLY_INDEX=somewhere")
    assert machine.calls == []


def test_nightly_tilelang_out_of_reach(machine: Machine) -> None:
    wanted = ("test", "DRIVER=no", "TILELANG=nightly", "TILELANG_NIGHTLY_INDEX=somewhere")
    output = machine.make(*wanted)
    assert "falling back to the release" in output
    assert re.search(r"tilelang==\d", machine.installs[-1])
    assert machine.calls[-1].strip() == "-m pytest"

    output = machine.make(*wanted)
    assert "falling back to the release" in output
    assert len(machine.installs) == 1, "looks for the build again, and installs nothing"


def test_nightly_tilelang_from_nowhere(machine: Machine) -> None:
    output = machine.make("install", "DRIVER=no", "TILELANG=nightly")
    assert "TILELANG_NIGHTLY_INDEX names no page of nightly builds: falling back to the release" in output
    assert not any("--find-links" in call for call in machine.installs)
    assert re.search(r"tilelang==\d", machine.installs[-1])


def test_unsupported_python_is_refused(machine: Machine) -> None:
    machine.has("python", "3.9")
    made = machine.run("make", "test", "DRIVER=no")
    assert made.returncode != 0
    assert "is Python 3.9; 3.10 to 3.13 are supported" in made.stdout
    assert not (machine.checkout / ".venv").exists()


def test_failed_install_is_tried_again(machine: Machine) -> None:
    machine.has("offline")
    made = machine.run("make", "test", "DRIVER=no")
    assert made.returncode != 0
    assert "pip could not install the suite" in made.stdout
    assert not any("pytest" in call for call in machine.calls)

    (machine.state / "offline").unlink()
    machine.make("test", "DRIVER=no")
    (suite,) = machine.installs
    assert "-e .[dev,codegen]" in suite


@pytest.mark.parametrize("code", [0, 2])
def test_ci_runs_all_and_passes_on_the_exit_code(machine: Machine, code: int) -> None:
    machine.program("make", f'#!/bin/sh\necho "$*"; cat; exit {code}\n')
    ran = machine.run("bash", ".ci/run")
    assert ran.returncode == code
    assert ran.stdout.split()[-6:] == ["lint", "types", "workflows", "test", "ARGS=-n", "2"]


def test_ci_runs_the_suite_though_lint_fails(machine: Machine) -> None:
    machine.make("install", "DRIVER=no")
    (machine.checkout / ".venv" / "bin" / "ruff").symlink_to(shutil.which("false") or "")
    (machine.checkout / ".venv" / "bin" / "mypy").symlink_to(shutil.which("true") or "")
    ran = machine.run("bash", ".ci/run")
    assert ran.returncode != 0
    assert machine.calls[-1].strip() == "-m pytest -n 2"
