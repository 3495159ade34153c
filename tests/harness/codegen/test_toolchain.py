import importlib.metadata
import json
import os
from pathlib import Path

import pytest

from tilecheck import environment
from tilecheck.codegen import toolchain
from tilecheck.codegen.toolchain import NoToolchain, find_toolchain


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(0o755)
    return path


def toolkit(folder: Path, release: str = "V12.8.93") -> Path:
    for name in ("nvcc", "ptxas", "nvdisasm"):
        program(folder / "bin" / name, f"Cuda compilation tools, release 12.8, {release}")
    return folder


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without wheels and toolkits, but with a C++ compiler; its path is the folder bin."""

    def no_wheels(package: str) -> list[importlib.metadata.PackagePath]:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "files", no_wheels)
    monkeypatch.setattr(environment, "USUAL_TOOLKIT", str(tmp_path / "usual"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    program(tmp_path / "bin" / "g++", "g++")
    find_toolchain.cache_clear()
    yield tmp_path
    find_toolchain.cache_clear()


def test_wheels_come_before_everything_else(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(toolkit(bare / "home")))
    wheels = toolkit(bare / "wheels", "V13.0.88")

    class File:
        def __init__(self, path: Path) -> None:
            self.path, self.name = path, path.name

        def locate(self) -> Path:
            return self.path

    monkeypatch.setattr(importlib.metadata, "files", lambda _: [File(p) for p in (wheels / "bin").iterdir()])
    found = find_toolchain()
    assert (found.origin, found.nvcc) == ("wheels", wheels / "bin" / "nvcc")
    assert found.fingerprint["nvcc"] == "13.0.88"


def test_then_cuda_home_then_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit(bare)
    assert (find_toolchain().origin, find_toolchain().nvcc) == ("path", bare / "bin" / "nvcc")
    find_toolchain.cache_clear()
    monkeypatch.setenv("CUDA_HOME", str(toolkit(bare / "home")))
    assert (find_toolchain().origin, find_toolchain().nvcc) == ("CUDA_HOME", bare / "home" / "bin" / "nvcc")


def test_a_link_on_the_path_leads_to_its_toolkit(bare: Path) -> None:
    home = toolkit(bare / "home")
    (bare / "bin" / "nvcc").symlink_to(home / "bin" / "nvcc")
    assert find_toolchain().nvdisasm == home / "bin" / "nvdisasm"


def test_a_script_on_the_path_calls_the_toolkit_in_the_usual_place(bare: Path) -> None:
    program(bare / "bin" / "nvcc", "a script")
    home = toolkit(bare / "usual")
    assert (find_toolchain().origin, find_toolchain().nvcc) == ("path", home / "bin" / "nvcc")
    os.remove(bare / "bin" / "nvcc")
    find_toolchain.cache_clear()
    with pytest.raises(NoToolchain, match="no nvcc"):
        find_toolchain()


def test_fingerprint_names_all_that_decides(bare: Path) -> None:
    toolkit(bare)
    assert list(find_toolchain().fingerprint) == [
        "apache-tvm-ffi",
        "cccl",
        "crt",
        "nvcc",
        "nvdisasm",
        "nvvm",
        "ptxas",
        "tilelang",
        "z3-solver",
    ]
    assert find_toolchain().fingerprint["tilelang"] == importlib.metadata.version("tilelang")


def test_parts_of_a_toolkit_have_its_versions(bare: Path) -> None:
    toolkit(bare)
    listed = {"cuda_cccl": "13.0.85", "cuda_crt": "13.0.88", "libnvvm": "13.0.90", "cuda_nvcc": "13.0.88"}

    def parts(content: str) -> list[str]:
        (bare / "version.json").write_text(content)
        find_toolchain.cache_clear()
        return [find_toolchain().fingerprint[name] for name in ("cccl", "crt", "nvvm")]

    assert parts(json.dumps({name: {"name": name, "version": v} for name, v in listed.items()})) == [
        "13.0.85",
        "13.0.88",
        "13.0.90",
    ]
    assert parts('{"cuda_nvcc": {"version": "12.8.93"}}') == ["12.8.93"] * 3
    for broken in ("", "[]", '{"libnvvm": 3}', '{"libnvvm": {}}'):
        assert parts(broken) == ["unknown"] * 3


@pytest.mark.parametrize("package", ["nvidia-nvvm", "nvidia-cuda-cccl", "nvidia-cuda-crt"])
def test_another_wheel_is_another_toolchain(
    bare: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    nvcc = toolkit(bare) / "bin" / "nvcc"
    monkeypatch.setattr(toolchain, "_find_nvcc", lambda: (nvcc, "wheels"))
    versions = {"nvidia-nvvm": "1", "nvidia-cuda-cccl": "1", "nvidia-cuda-crt": "1"}
    monkeypatch.setattr(toolchain, "version", versions.get)
    before = find_toolchain().fingerprint
    versions[package] = "2"
    find_toolchain.cache_clear()
    after = find_toolchain().fingerprint
    assert [(before[name], after[name]) for name in before if before[name] != after[name]] == [("1", "2")]


@pytest.mark.parametrize(
    ("missing", "match"),
    [
        (("nvcc",), r"no nvcc in the wheels, in CUDA_HOME or on the path; pip install -e '\.\[codegen\]'"),
        (("ptxas",), r"nvcc has no ptxas beside it; pip install"),
        (("nvdisasm",), r"no nvdisasm in the wheels, beside .* or on the path; pip install"),
        (("g++",), r"no g\+\+ on the path"),
    ],
)
def test_what_is_missing_is_named(bare: Path, missing: tuple[str, ...], match: str) -> None:
    toolkit(bare)
    for name in missing:
        os.remove(bare / "bin" / name)
    with pytest.raises(NoToolchain, match=match):
        find_toolchain()


@pytest.mark.parametrize("text", ["V", "release nine"])
def test_a_program_without_a_version_is_refused(bare: Path, text: str) -> None:
    toolkit(bare)
    program(bare / "bin" / "ptxas", text)
    with pytest.raises(NoToolchain, match=f"ptxas --version names no version: '{text}'"):
        find_toolchain()
