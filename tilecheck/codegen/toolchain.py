"""The compiler and the disassembler that facts come from, and their versions.

The wheels of the extra `codegen` come first: they are pinned, so that facts compare across machines, whatever
toolkit a machine has beside them.
"""

import functools
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilecheck.environment import of_toolkit, version

INSTALL = "pip install -e '.[codegen]'"
"""The command that installs the wheels, in tilecheck's checkout."""

_PACKAGES = ("apache-tvm-ffi", "tilelang", "z3-solver")  # z3 decides what TileLang's analyser can prove
_PARTS = {
    "nvvm": ("nvidia-nvvm", "libnvvm"),  # cicc, which makes PTX of C++, and libdevice
    "cccl": ("nvidia-cuda-cccl", "cuda_cccl"),
    "crt": ("nvidia-cuda-crt", "cuda_crt"),
}
"""What nvcc works with and has versions of its own: its wheel, and its name in a toolkit's version.json. (The
runtime's headers are torch's need as well, and no toolchain is another for them.)
"""

_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "NVCC_CCBIN")
_RELEASE = re.compile(r"\bV(\d+(\.\d+)+)")


class NoToolchain(RuntimeError):
    """There is no compiler, or no disassembler; the text says what installs them."""


@dataclass(frozen=True)
class Toolchain:
    """nvcc, ptxas, nvdisasm: the programs.
    origin: "wheels", "CUDA_HOME" or "path": where nvcc and ptxas are from.
    versions: of TileLang, of what it decides with, of the three programs, and of what nvcc works with.
    """

    nvcc: Path
    ptxas: Path
    nvdisasm: Path
    origin: str
    versions: Mapping[str, str]

    @property
    def fingerprint(self) -> dict[str, str]:
        """Names and versions, sorted. Facts are compared one by one only where these are equal."""
        return dict(sorted(self.versions.items()))

    @property
    def versions_of_compilers(self) -> dict[str, str]:
        """Without those of TileLang and what it decides with, sorted."""
        return {name: version for name, version in self.fingerprint.items() if name not in _PACKAGES}

    def __str__(self) -> str:
        names = ("tilelang", "nvcc", "nvdisasm")
        return f"{', '.join(f'{name} {self.versions[name]}' for name in names)} ({self.origin})"


@functools.cache
def find_toolchain() -> Toolchain:
    """The toolchain of this machine.

    Raises NoToolchain, in one line, where a part is missing.
    """
    nvcc, origin = _find_nvcc()
    ptxas = nvcc.with_name("ptxas")
    if not ptxas.exists():
        raise NoToolchain(f"{nvcc} has no ptxas beside it; {INSTALL} brings both")
    nvdisasm = _of_wheel("nvidia-cuda-nvdisasm", "nvdisasm") or _beside(nvcc) or _on_path("nvdisasm")
    if nvdisasm is None:
        raise NoToolchain(f"no nvdisasm in the wheels, beside {nvcc} or on the path; {INSTALL} brings one")
    if shutil.which("g++") is None:
        raise NoToolchain("nvcc needs a C++ compiler, and there is no g++ on the path")
    versions = {package: version(package) or "none" for package in _PACKAGES}
    for program in (nvcc, ptxas, nvdisasm):
        versions[program.name] = _version_of(program)
    versions |= _versions_of_parts(nvcc, origin)
    return Toolchain(nvcc, ptxas, nvdisasm, origin, versions)


def variables() -> dict[str, str]:
    """The environment that the programs run in: what they, and the C++ compiler, need to start.

    No other variable gets through, since what decides the code has to be in sight: nvcc takes options from
    NVCC_APPEND_FLAGS and the variables of its profile (PTXAS_FLAGS, INCLUDES, ...), g++ headers from CPATH.
    """
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return kept | {"LC_ALL": "C"}


def _versions_of_parts(nvcc: Path, origin: str) -> dict[str, str]:
    """Versions of `_PARTS`; before CUDA 13, what has none of its own belongs to nvcc."""
    if origin == "wheels":
        return {part: version(package) or "none" for part, (package, _) in _PARTS.items()}
    try:
        content = json.loads((nvcc.parent.parent / "version.json").read_text())
        own = {name: str(each["version"]) for name, each in content.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        own = {}
    return {part: own.get(name) or own.get("cuda_nvcc", "unknown") for part, (_, name) in _PARTS.items()}


def _find_nvcc() -> tuple[Path, str]:
    places = {
        "wheels": _of_wheel("nvidia-cuda-nvcc", "nvcc"),
        "CUDA_HOME": of_toolkit("nvcc", usual=False),
        "path": _on_path("nvcc"),
    }
    for origin, nvcc in places.items():
        if nvcc is not None:
            return nvcc, origin
    raise NoToolchain(f"no nvcc in the wheels, in CUDA_HOME or on the path; {INSTALL} brings one")


def _of_wheel(package: str, name: str) -> Path | None:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in files if file.name == name)
    return next((path for path in found if os.access(path, os.X_OK)), None)


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    if found is None:
        return None
    # A toolkit's programs lie side by side; what is on the path may be a link or a script that calls them.
    real = Path(found).resolve()
    return real if real.with_name("ptxas").exists() else of_toolkit(name) or real


def _beside(nvcc: Path) -> Path | None:
    path = nvcc.with_name("nvdisasm")
    return path if path.exists() else None


def _version_of(program: Path) -> str:
    try:
        told = subprocess.run(
            [program, "--version"], env=variables(), capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NoToolchain(f"{program} does not run: {error}; {INSTALL} brings one") from error
    found = _RELEASE.search(told.stdout)
    if found is None:
        raise NoToolchain(f"{program} --version names no version: {told.stdout.strip()[:80]!r}")
    return found.group(1)
