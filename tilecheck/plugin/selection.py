"""Which device a run is for: settled once, from the options and from what the machine has."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tilecheck import environment
from tilecheck.arches import DEFAULT_ARCH, Arch, arch, arch_of_capability
from tilecheck.broken import broken_import
from tilecheck.plugin.options import option, spelling

if TYPE_CHECKING:
    from tilecheck.device import Device


@dataclass(frozen=True)
class Selection:
    """The device of a run.

    arch: of the GPU, or the one that the simulator stands for.
    no_gpu: why kernels cannot run on CUDA here; None: they can, or nobody had to know.
    """

    device: Literal["simulator", "cuda"]
    arch: Arch
    no_gpu: str | None = None

    @property
    def simulated(self) -> bool:
        return self.device == "simulator"


_key = pytest.StashKey[Selection]()
_device_key = pytest.StashKey["Device"]()


def active(config: pytest.Config) -> bool:
    """Whether this run is any of the plugin's business: specs are configured, or a device is asked for."""
    asked = option(config, "device") != "auto" or option(config, "require-gpu")
    return bool(asked or config.getini("tilecheck_specs"))


def selection(config: pytest.Config) -> Selection:
    """The device of this run; UsageError, in one line, where the options ask for what is not there."""
    if _key not in config.stash:
        config.stash[_key] = _select(config)
    return config.stash[_key]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    # An error here ends the run with exit code 4 and its one line, before anything is collected.
    config = session.config
    if not active(config):
        return
    if not config.option.collectonly and (missing := environment.missing_packages()):
        raise pytest.UsageError(f"tilecheck: {missing}")
    try:
        selection(config)
    except Exception as error:
        if (told := broken_import(error)) is None:
            raise
        raise pytest.UsageError(f"tilecheck: {told}") from error


@pytest.fixture(scope="session")
def tilecheck_device(request: pytest.FixtureRequest) -> "Device":
    """The device of this run."""
    chosen = selection(request.config)
    device: Device
    if chosen.simulated:
        from tilecheck.device import Simulator

        device = Simulator(chosen.arch)
    else:
        from tilecheck.launch import Cuda

        device = Cuda()
    request.config.stash[_device_key] = device
    return device


def device_in_use(config: pytest.Config) -> "Device | None":
    """The device of this run; None as long as no test has asked for it."""
    return config.stash.get(_device_key, None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    if "tilecheck_device" not in getattr(item, "fixturenames", ()) or not selection(item.config).simulated:
        return (yield)
    from tilecheck.device import one_thread

    with one_thread():
        return (yield)


def _select(config: pytest.Config) -> Selection:
    asked, wanted, required = option(config, "device"), option(config, "arch"), option(config, "require-gpu")
    device, gpu = spelling(config, "device"), spelling(config, "require-gpu")
    if asked == "simulator":
        if required:
            raise pytest.UsageError(
                f"{gpu} refuses {device}=simulator: a simulated pass is no GPU conformance"
            )
        return Selection("simulator", arch(wanted or DEFAULT_ARCH))
    machine = environment.machine()
    no_gpu = environment.why_no_gpu(machine)
    if no_gpu is None and machine.capability is not None:
        found = arch_of_capability(*machine.capability)
        if wanted not in (None, found.name):
            raise pytest.UsageError(
                f"{spelling(config, 'arch')}={wanted}, but this GPU is {found.name}; only "
                f"the simulator stands for another one: {device}=simulator"
            )
        return Selection("cuda", found)
    if asked == "cuda":
        raise pytest.UsageError(f"{device}=cuda: {no_gpu}")
    if required:
        raise pytest.UsageError(f"{gpu}: {no_gpu}")
    return Selection("simulator", arch(wanted or DEFAULT_ARCH), no_gpu)
