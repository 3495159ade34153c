"""Environments with another version of TileLang, made by a pip that downloads nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilecheck import versions
from tilecheck.versions import Environment, NoEnvironment, environment_with

FAKE_PIP = """
import os, sys, sysconfig
state = os.path.join(os.path.dirname(os.path.dirname(__file__)), "state")
pins = sys.argv[sys.argv.index("--constraint") + 1]
with open(os.path.join(state, "calls"), "a") as calls:
    calls.write(sys.argv[-1] + " with " + open(pins).read().strip() + "\\n")
if os.path.exists(os.path.join(state, "offline")):
    print("WARNING: retrying")
    print("ERROR: Could not find a version (from versions: none)")
    print("ERROR: No matching distribution found for " + sys.argv[-1])
    print("WARNING: there is a new release of pip")
    sys.exit(1)
version = sys.argv[-1].partition("==")[2]
site = sysconfig.get_path("purelib")
os.makedirs(os.path.join(site, "tilelang"))
with open(os.path.join(site, "tilelang", "__init__.py"), "w") as module:
    module.write("__version__ = " + repr(version))
os.makedirs(os.path.join(site, "tilelang-" + version + ".dist-info"))
with open(os.path.join(site, "tilelang-" + version + ".dist-info", "METADATA"), "w") as metadata:
    metadata.write("Metadata-Version: 2.1\\nName: tilelang\\nVersion: " + version + "\\n")
    metadata.write("Requires-Dist: torch\\nRequires-Dist: apache_tvm.ffi<0.2,>=0.1.12\\n")
    metadata.write("Requires-Dist: nowhere; extra == 'all'\\n")
"""


class Machine:
    """What is installed, and what pip is asked for."""

    def __init__(self, folder: Path) -> None:
        self.shared, self.state = folder / "shared", folder / "state"
        self.told: list[str] = []
        self.state.mkdir()
        (self.shared / "pip").mkdir(parents=True)
        (self.shared / "state").symlink_to(self.state)
        (self.shared / "pip" / "__main__.py").write_text(FAKE_PIP)
        (self.shared / "in_place.pth").write_text(f"{folder / 'elsewhere'}\n")
        (folder / "elsewhere").mkdir()
        (folder / "elsewhere" / "installed_in_place.py").write_text("")
        for name, version in (("torch", "2.13.0+cpu"), ("apache_tvm_ffi", "0.1.13"), ("tilelang", "0.1.15")):
            self.installs(name, version)

    def installs(self, name: str, version: str) -> None:
        for info in self.shared.glob(f"{name}-*"):
            (info / "METADATA").unlink()
            info.rmdir()
        info = self.shared / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (self.shared / f"{name}.py").write_text(f"__version__ = {version!r}\n")

    @property
    def calls(self) -> list[str]:
        path = self.state / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def environment(self, version: str) -> Environment:
        return environment_with(version, self.told.append)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(versions, "_shared_folders", lambda: [str(made.shared)])
    monkeypatch.setattr(versions, "_kept", lambda: [("torch", "2.13.0+cpu")])
    return made


def seen(environment: Environment, code: str) -> str:
    return environment.run(["-c", code], "").stdout.strip()


def test_version_comes_in_front_of_what_is_shared(machine: Machine, tmp_path: Path) -> None:
    made = machine.environment("0.1.14")
    assert made.folder.parent == tmp_path / "cache" / "tilecheck" / "environments"
    assert seen(made, "import tilelang; print(tilelang.__version__)") == "0.1.14"
    assert seen(made, "import torch; print(torch.__file__)") == str(machine.shared / "torch.py")
    assert seen(made, "import installed_in_place; print('there')") == "there"
    assert machine.calls == ["tilelang==0.1.14 with torch==2.13.0+cpu"]
    (line,) = machine.told
    assert "TileLang 0.1.14" in line and str(made.folder) in line


def test_version_comes_in_front_of_what_is_on_the_path(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "one_more.py").write_text("")
    entries = [str(machine.shared), "", str(tmp_path / "more"), *os.environ.get("PYTHONPATH", "").split(":")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(entries))
    made = machine.environment("0.1.14")
    assert seen(made, "import tilelang; print(tilelang.__version__)") == "0.1.14"
    assert seen(made, "import torch; print(torch.__file__)") == str(machine.shared / "torch.py")
    assert seen(made, "import one_more; print('there')") == "there"
    # The Python that runs here has those packages from nowhere else.
    own = versions.variables_of()["PYTHONPATH"].split(os.pathsep)
    assert set(filter(None, entries)) <= set(own)


def test_child_has_this_tilecheck(machine: Machine) -> None:
    import tilecheck

    code = "import tilecheck; print(tilecheck.__file__)"
    assert seen(machine.environment("0.1.14"), code) == tilecheck.__file__


def test_it_is_made_once(machine: Machine) -> None:
    first = machine.environment("0.1.14")
    assert machine.environment("0.1.14") == first
    assert machine.environment("0.1.16") != first
    assert [call.split()[0] for call in machine.calls] == ["tilelang==0.1.14", "tilelang==0.1.16"]
    assert len(machine.told) == 2


@pytest.mark.parametrize("change", ["package", "python", "version"])
def test_it_is_made_again_where_it_is_not_whole(machine: Machine, change: str) -> None:
    made = machine.environment("0.1.14")
    if change == "package":
        machine.installs("apache_tvm_ffi", "0.2.0")  # which this TileLang does not take
        machine.environment("0.1.14")
        machine.installs("apache_tvm_ffi", "0.1.14")
    elif change == "python":
        made.python.unlink()
    else:
        (info,) = made.folder.rglob("tilelang-0.1.14.dist-info")
        info.rename(info.with_name("tilelang-0.1.13.dist-info"))
        metadata = info.with_name("tilelang-0.1.13.dist-info") / "METADATA"
        metadata.write_text(metadata.read_text().replace("0.1.14", "0.1.13"))
    machine.environment("0.1.14")
    assert len(machine.calls) == 2
    assert seen(made, "import tilelang; print(tilelang.__version__)") == "0.1.14"


def test_failure_is_one_line_and_leaves_nothing(machine: Machine) -> None:
    (machine.state / "offline").touch()
    with pytest.raises(
        NoEnvironment, match=r"pip failed \(exit code 1\): No matching .* tilelang==0\.1\.17$"
    ):
        machine.environment("0.1.17")
    assert [path for path in versions.cache_folder().iterdir() if path.is_dir()] == []
    (machine.state / "offline").unlink()
    assert machine.environment("0.1.17").python.exists()


@pytest.mark.parametrize(
    ("version", "message"),
    [("0.1.9", "older than 0.1.14"), ("new", "'new' is no version of TileLang")],
)
def test_version_that_makes_no_sense(machine: Machine, version: str, message: str) -> None:
    with pytest.raises(NoEnvironment, match=message):
        machine.environment(version)
    assert machine.calls == [] and machine.told == []


def test_cache_folder_that_cannot_be_made(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(NoEnvironment, match="cannot be made"):
        machine.environment("0.1.14")


def test_shared_folders_are_those_with_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site" / "x-1.dist-info").mkdir(parents=True)
    (tmp_path / "checkout").mkdir()
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "checkout"), str(tmp_path / "site")])
    assert versions._shared_folders() == [str((tmp_path / "site").resolve())]


def test_standard_error_of_the_child_is_passed_on(
    machine: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    ran = machine.environment("0.1.14").run(
        ["-c", "import sys; sys.stderr.write('1/2 row'); print(sys.stdin.read())"], "task"
    )
    assert isinstance(ran, subprocess.CompletedProcess)
    assert ran.stdout == "task\n"
    assert capfd.readouterr() == ("", "1/2 row")
