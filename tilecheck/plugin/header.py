"""The head of a run: on what it runs, with which versions."""

import pytest

from tilecheck import __version__, environment
from tilecheck.plugin.options import option
from tilecheck.plugin.selection import Selection, active, selection


def pytest_report_header(config: pytest.Config) -> list[str]:
    if not active(config):
        return []
    chosen = selection(config)
    lines = [
        f"tilecheck {__version__}: {_device(chosen)}, seed {option(config, 'seed')}",
        f"tilecheck versions: {', '.join(_versions(chosen))}",
    ]
    if warning := untested(environment.version("tilelang")):
        lines.append(f"tilecheck warning: {warning}")
    return lines


def untested(tilelang: str | None) -> str | None:
    """What to know about this version of TileLang, in one line; None: it is the tested one."""
    if tilelang is None or tilelang.partition("+")[0] == environment.TESTED_TILELANG:
        return None
    return (
        f"TileLang {tilelang} is not the tested {environment.TESTED_TILELANG}: "
        "a failure may be a change of TileLang's, and the simulator may meet operators it does not know"
    )


def _device(chosen: Selection) -> str:
    if not chosen.simulated:
        return f"device cuda, {environment.machine().gpu}, {chosen.arch.name}"
    why = f" ({chosen.no_gpu})" if chosen.no_gpu else ""
    return f"device simulator on the CPU, as {chosen.arch.name}{why}"


def _versions(chosen: Selection) -> list[str]:
    versions = [f"{name} {environment.version(package) or 'missing'}" for name, package in _PACKAGES]
    if not chosen.simulated:
        machine = environment.machine()
        versions += [f"CUDA {machine.torch_cuda} (torch)", f"driver {machine.driver or machine.no_driver}"]
    return versions


_PACKAGES = (("TileLang", "tilelang"), ("torch", "torch"))
