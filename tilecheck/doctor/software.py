"""What is installed: Python, packages, torch, TileLang, compiler and disassembler."""

import importlib.metadata
from collections.abc import Callable, Iterable

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from tilecheck.doctor.imports import cache_at_fault, mend_of_another
from tilecheck.doctor.lines import Line
from tilecheck.environment import TESTED_TILELANG, Machine
from tilecheck.versions import OLDEST

OLDEST_PYTHON, NEWEST_PYTHON = (3, 10), (3, 13)
NIGHTLY = "make install TILELANG=nightly"
"""The command that installs TileLang's nightly build, in tilecheck's checkout."""


def python_line(version: tuple[int, int, int]) -> Line:
    """Whether this Python is one that tilecheck runs on."""
    found = ".".join(map(str, version))
    if OLDEST_PYTHON <= version[:2] <= NEWEST_PYTHON:
        return Line("Python", "ok", found)
    return Line("Python", "bad", found, "take Python 3.10 to 3.13: make venv PYTHON=python3.12")


def packages_line(
    requirements: Iterable[str] | None, version: Callable[[str], str | None], aside: Iterable[str] = ()
) -> Line:
    """Whether what tilecheck requires is installed, at versions that it takes.

    requirements: as its metadata has them; None: tilecheck is not installed.  aside: names that have lines of
    their own.
    """
    if requirements is None:
        mend = "pip install -e . in tilecheck's checkout, so that pytest finds the plugin by itself"
        return Line("packages", "note", "tilecheck is imported from a checkout, and not installed", mend)
    wanted = [Requirement(text) for text in requirements]
    faults = [
        f"{each.name} {version(each.name) or 'is missing'}"
        for each in wanted
        if each.name not in aside
        and (each.marker is None or each.marker.evaluate({"extra": ""}))
        and not _fits(each, version(each.name))
    ]
    if not faults:
        return Line("packages", "ok", "all that tilecheck requires")
    return Line("packages", "bad", ", ".join(faults), f"pip install {_quoted(wanted, faults)}")


def _fits(wanted: Requirement, installed: str | None) -> bool:
    return installed is not None and wanted.specifier.contains(installed, prereleases=True)


def _quoted(wanted: Iterable[Requirement], faults: Iterable[str]) -> str:
    names = {fault.split()[0] for fault in faults}
    return " ".join(f"'{each.name}{each.specifier}'" for each in wanted if each.name in names)


def requirements() -> list[str] | None:
    """What tilecheck requires; None where it is not installed."""
    try:
        return importlib.metadata.requires("tilecheck") or []
    except importlib.metadata.PackageNotFoundError:
        return None


def torch_line(installed: str | None, fault: str | None, machine: Machine) -> Line:
    """torch, and whether its build fits the driver.

    installed: its version.  fault: why it cannot be imported.
    """
    if installed is None:
        mend = "make install, or the command of torch's installation page for this machine's CUDA"
        return Line("torch", "bad", "not installed", mend)
    if fault:
        fitting = "" if machine.driver is None else f", a build for CUDA {machine.driver_cuda} or older"
        anew = f"install it anew{fitting}: pip install --force-reinstall torch"
        mend = mend_of_another(fault, "torch") or anew
        return Line("torch", "bad", f"{installed} cannot be imported: {fault}", mend)
    if machine.torch_cuda is None:
        found = f"{installed}, a build without CUDA"
        if machine.driver is None:
            return Line("torch", "ok", found)
        return Line("torch", "bad", found, f"install a build for CUDA {machine.driver_cuda} or older")
    return Line("torch", "ok", f"{installed}, built for CUDA {machine.torch_cuda}")


def cuda_line(machine: Machine) -> Line | None:
    """Whether the driver carries the CUDA runtime that torch brings; None where one of them is missing."""
    if machine.torch_cuda is None or machine.driver is None or machine.driver_cuda is None:
        return None
    found = f"runtime {machine.torch_cuda} (torch's), the driver supports up to {machine.driver_cuda}"
    runtime, supported = (
        tuple(map(int, text.split("."))) for text in (machine.torch_cuda, machine.driver_cuda)
    )
    if runtime <= supported:
        return Line("CUDA", "ok", found)
    if runtime[0] == supported[0]:  # CUDA Compatibility guide, "Minor Version Compatibility"
        mend = "it works unless something asks for a newer feature; a newer driver ends the doubt"
        return Line("CUDA", "note", found, mend)
    mend = f"install a torch that was built for CUDA {machine.driver_cuda} or older, or a newer driver"
    return Line("CUDA", "bad", found, mend)


def tilelang_line(installed: str | None, fault: str | None, of_torch: bool = False) -> Line:
    """TileLang: there, importable, and of a version that is supported.

    installed: its version.  fault: why it cannot be imported.  of_torch: for which torch cannot be, either.
    """
    if installed is None:
        return Line("TileLang", "bad", "not installed", f"pip install tilelang=={TESTED_TILELANG}")
    if fault:
        found = f"{installed} cannot be imported: {fault}"
        if of_torch:
            return Line(
                "TileLang", "bad", f"{installed} cannot be imported without torch", "mend torch first"
            )
        if folder := cache_at_fault(fault):
            mend = f"{folder} has to be a folder that can be written to; TILELANG_CACHE_DIR names another"
            return Line("TileLang", "bad", found, mend)
        anew = f"pip install --force-reinstall tilelang=={TESTED_TILELANG}, or its nightly build: {NIGHTLY}"
        return Line("TileLang", "bad", found, mend_of_another(fault, "tilelang") or anew)
    try:
        version = Version(installed)
    except InvalidVersion:
        return Line("TileLang", "note", f"{installed}, which is no version", _back())
    if version < Version(OLDEST):
        mend = f"pip install tilelang=={TESTED_TILELANG}: from {OLDEST} on programs can be traced"
        return Line("TileLang", "bad", f"{installed}, older than {OLDEST}", mend)
    if version.public != TESTED_TILELANG:
        return Line("TileLang", "note", f"{installed}, not the tested {TESTED_TILELANG}", _back())
    return Line("TileLang", "ok", f"{installed}, the tested one")


def _back() -> str:
    return f"where a failure may be its own, go back: pip install tilelang=={TESTED_TILELANG}"


def toolchain_lines() -> list[Line]:
    """nvcc, the C++ compiler that it calls, and the disassembler: what rows of code are made with."""
    from tilecheck.codegen.toolchain import NoToolchain, find_toolchain

    try:
        toolchain = find_toolchain()
    except NoToolchain as error:
        what, _, mend = str(error).partition("; ")
        mend = mend.replace(" brings", ", which brings") or "apt-get install g++"
        return [Line("nvcc", "note", what, mend)]
    versions = toolchain.versions
    return [
        Line("nvcc", "ok", f"{versions['nvcc']} ({toolchain.origin})"),
        Line("nvdisasm", "ok", versions["nvdisasm"]),
    ]


def cache_line() -> Line | None:
    """That what is compiled cannot be kept, so that each run compiles it again; None: it can."""
    from tilecheck.codegen import cache_trouble

    trouble = cache_trouble()
    mend = "set XDG_CACHE_HOME to a folder that can be written to"
    return Line("cache", "note", trouble, mend) if trouble else None
