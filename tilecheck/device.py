"""Where a program runs: the interface that checks use, and the simulator behind it.

The other implementation is `launch.Cuda`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

import torch

from tilecheck.arches import Arch
from tilecheck.arguments import Argument, check_arguments

if TYPE_CHECKING:
    from tilecheck.program import Program


class DeviceError(RuntimeError):
    """A device did not run a program, for a reason that lies in the program or in the device."""


class Device(Protocol):
    """Runs programs.

    name: what kind of device this is.
    arch: the architecture whose schedules it runs.
    torch_device: where the tensors handed to `run` have to be.
    lost: why nothing can run here any more; None as long as something can.
    """

    @property
    def name(self) -> Literal["simulator", "cuda"]: ...

    @property
    def arch(self) -> Arch: ...

    @property
    def torch_device(self) -> torch.device: ...

    @property
    def lost(self) -> str | None: ...

    def run(self, program: "Program", arguments: Mapping[str, Argument]) -> None:
        """Runs `program` once, to its end; its outputs are written in place.

        arguments: by parameter name, a tensor or a scalar for each. Raises ValueError or TypeError where one
        of them is not what the program expects, and what the class names where the run fails.
        """

    def describe(self) -> str:
        """The device in a few words, for messages."""


@contextmanager
def one_thread() -> Iterator[None]:
    """torch computes on one thread meanwhile.

    Most of what a simulated test computes takes microseconds, less than threads need to meet: on two busy
    cores a run takes six times as much of them with a thread on each.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Simulator:
    """Runs programs on the CPU, tile by tile, as if for `arch`.

    `run` fails with `simulator.SimulationError`, or with `simulator.Unsupported` for an unknown construct.
    """

    name: Literal["simulator"] = "simulator"
    lost: str | None = None

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.torch_device = torch.device("cpu")

    def run(self, program: "Program", arguments: Mapping[str, Argument]) -> None:
        from tilecheck.simulator import simulate

        ordered = check_arguments(program.parameters, arguments, self.torch_device)
        with one_thread():
            simulate(program.prim_func, ordered, pass_configs=program.pass_configs)

    def describe(self) -> str:
        return f"CPU simulator as {self.arch.name}"


def device_at_hand() -> Device:
    """The GPU of this machine if kernels can run on it, else the simulator, as `DEFAULT_ARCH`."""
    from tilecheck import environment
    from tilecheck.arches import DEFAULT_ARCH, arch

    if environment.why_no_gpu(environment.machine()) is None:
        from tilecheck.launch import Cuda

        return Cuda()
    return Simulator(arch(DEFAULT_ARCH))
