"""Times a row on this machine's GPU: our kernel and the vendor's in turn, on the same inputs."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilecheck import environment
from tilecheck.latency.timing import Samples, TimingError

if TYPE_CHECKING:
    from tilecheck.latency.monitor import GpuFacts, Monitor
    from tilecheck.latency.roofline import Roof
    from tilecheck.latency.timing import Timer
    from tilecheck.launch import Cuda
    from tilecheck.program import Program
    from tilecheck.spec import Case, KernelSpec

_OURS = "tilecheck"


@dataclass(frozen=True)
class Rates:
    """What a kernel reaches: operations and bytes of its cost a second, and the share of its roof, which is
    `roof`; None where it is unknown.
    """

    tflops: float
    gbs: float
    roofline: float | None
    roof: "Roof | None" = None


@dataclass(frozen=True)
class Timed:
    """One row, timed.  vendors: by name.  schedule: as text, "" without.  source_hash: of the CUDA source.
    rates: None for a kernel without a cost.
    """

    ours: Samples
    vendors: Mapping[str, Samples] = field(default_factory=dict)
    schedule: str = ""
    source_hash: str = ""
    rates: Rates | None = None


class Bench:
    """Times rows on one GPU.

    timer: takes the samples.  facts: of the GPU.  strangers: process ids of others that compute on it.
    """

    def __init__(
        self, device: "Cuda", timer: "Timer", facts: "GpuFacts", strangers: Callable[[], list[int]]
    ) -> None:
        self._device, self._timer, self._facts = device, timer, facts
        self._strangers = strangers

    def time(self, spec: "KernelSpec", case: "Case", seed: int, method: str | None = None) -> Timed:
        """Samples of the row's kernel under its default schedule, and of its vendors.

        seed: of the run, as for `conformance.check`.  method: how it was timed the last time.
        Raises TimingError, in one line, where there is no time to be trusted; DeviceError as a launch does.
        """
        import torch

        from tilecheck.latency import contenders
        from tilecheck.launch import compile_program
        from tilecheck.program import build_program

        # Tensors in memory that earlier rows left behind lie elsewhere in a run of other rows.
        torch.cuda.empty_cache()
        program = build_program(spec, case, self._device.arch)
        kernel = compile_program(program, self._device.target)
        sets = contenders.tensor_sets(program, seed, self._device.torch_device, self._facts.l2)
        launches = {_OURS: contenders.ours(program, kernel, sets), **contenders.vendors(program, sets)}
        samples = self._timer.time_in_turn(launches, method)
        ours = samples.pop(_OURS)
        return Timed(ours, samples, program.variant, _source_hash(kernel), self._rates(program, ours.median))

    def strangers(self) -> int:
        """How many other processes compute on the GPU."""
        return len(self._strangers())

    def _rates(self, program: "Program", seconds: float) -> Rates | None:
        from tilecheck.latency.roofline import roof

        cost = program.spec.cost_of(program.case)
        if cost is None:
            return None
        share, above = None, None
        try:
            above = roof(self._facts, program.arch, program.case.dtype)
        except ValueError:
            pass  # a dtype without a roof
        else:
            if reason := above.impossible(cost, seconds):
                raise TimingError(f"an impossible time of {seconds * 1e6:.4g} us: {reason}")
            share = above.share(cost, seconds)
        return Rates(cost.flops / seconds / 1e12, cost.bytes / seconds / 1e9, share, above)


def open_bench(device: "Cuda") -> tuple[Bench, "Monitor"]:
    """The bench of a GPU, and the monitor to be closed after it.

    Raises RuntimeError, in one line, where NVML cannot read the clocks.
    """
    from tilecheck.latency.monitor import Monitor
    from tilecheck.latency.timing import Stopwatch
    from tilecheck.latency.timing_cuda import CudaDevice

    monitor = Monitor(device.torch_device.index or 0)
    timer = Stopwatch(CudaDevice(monitor))
    return Bench(device, timer, monitor.facts(), monitor.strangers), monitor


def gpu_name() -> str:
    """The model of this machine's GPU, as in "NVIDIA H200"; "" without one."""
    return environment.machine().gpu or ""


def toolchain() -> dict[str, str]:
    """Versions of all that a time depends on, by name."""
    machine = environment.machine()
    found = {
        "tilelang": environment.version("tilelang"),
        "torch": machine.torch,
        "cuda": machine.torch_cuda,
        "cudnn": _cudnn(),
        "driver": machine.driver,
    }
    return {name: version for name, version in found.items() if version}


def _cudnn() -> str | None:
    import torch

    version = torch.backends.cudnn.version() if torch.cuda.is_available() else None
    return None if version is None else str(version)


def _source_hash(kernel: Any) -> str:
    # TileLang may write #line with the path of the kernel's file, which differs between machines.
    lines = str(kernel.get_kernel_source()).splitlines()
    source = "\n".join(line for line in lines if not line.lstrip().startswith("#line"))
    return hashlib.sha256(source.encode()).hexdigest()[:16]
