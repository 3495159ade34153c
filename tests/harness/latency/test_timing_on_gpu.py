"""The stopwatch on a real GPU: against a kernel of known cycles, and against what CUPTI says."""

import functools
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tilecheck.latency.monitor import Monitor
from tilecheck.latency.timing import Samples, Stopwatch

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


@pytest.fixture(scope="module")
def monitor() -> Iterator[Monitor]:
    with Monitor() as monitor:
        yield monitor


@pytest.fixture(scope="module")
def stopwatch(monitor: Monitor) -> Stopwatch:
    from tilecheck.latency.timing_cuda import CudaDevice

    return Stopwatch(CudaDevice(monitor), budget=0.5)


def timed(stopwatch: Stopwatch, launch: Callable[[], Any]) -> Samples:
    return stopwatch.time_in_turn({"it": [launch]})["it"]


@pytest.mark.parametrize("cycles", [200_000, 2_000_000])
def test_a_kernel_of_known_cycles(stopwatch: Stopwatch, cycles: int) -> None:
    samples = timed(stopwatch, functools.partial(torch.cuda._sleep, cycles))
    assert samples.method == "events"
    assert samples.cycles == pytest.approx(cycles, rel=0.01, abs=600)  # 0.3 us


def test_a_short_kernel_of_known_cycles(stopwatch: Stopwatch) -> None:
    samples = timed(stopwatch, functools.partial(torch.cuda._sleep, 10_000))
    assert samples.method == "graph64"
    # From one kernel of a graph to the next it is a microsecond, less where they do not fill the GPU.
    assert 0 <= samples.median - 10_000 / (samples.clock_mhz * 1e6) < 1.2e-6


def traced(samples: Callable[[], Any]) -> list[Any]:
    """What ran on the GPU in 30 samples, in its order, as CUPTI has it."""
    samples()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(30):
            samples()
    found = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return sorted(found, key=lambda event: event.time_range.start)


def cupti(stopwatch: Stopwatch, launch: Callable[[], Any], filler: float) -> float:
    """The median time from the start of what `launch` launches to its end, as CUPTI has it, with cold L2."""
    kernels = traced(lambda: stopwatch.device.once(launch, filler))
    durations, ours = [], []
    for event in reversed(kernels):  # each sample: copies, the reduction that empties L2, the launch
        if "reduce_kernel" in event.name:
            durations.append(ours[0].time_range.end - ours[-1].time_range.start)
        ours = [] if event.name.startswith("Memcpy") or "reduce_kernel" in event.name else [*ours, event]
    assert len(durations) >= 25, {event.name for event in kernels}
    return statistics.median(durations) / 1e6


@pytest.mark.parametrize("size", [16, 20, 22])
def test_short_kernels_agree_with_cupti(stopwatch: Stopwatch, size: int) -> None:
    a, b = torch.zeros(2**size, device="cuda"), torch.zeros(2**size, device="cuda")
    rotated = [functools.partial(torch.add, a.clone(), 1.0, out=b.clone()) for _ in range(64)]
    samples = stopwatch.time_in_turn({"it": rotated})["it"]
    assert samples.method == "graph64"
    # In the same graph: there a kernel also waits for memory that the ones before it have written.
    graph = stopwatch.device.capture(rotated)
    kernels = [e for e in traced(lambda: stopwatch.device.replay(graph, 1e-3)) if "add" in e.name.lower()]
    assert len(kernels) >= 25 * 64
    durations = [event.time_range.elapsed_us() / 1e6 for event in kernels]
    assert samples.median == pytest.approx(statistics.median(durations), abs=0.7e-6)


@pytest.mark.parametrize("size", [24, 26, 28])
def test_long_kernels_agree_with_cupti(stopwatch: Stopwatch, size: int) -> None:
    a, b = torch.zeros(2**size, device="cuda"), torch.zeros(2**size, device="cuda")
    launch = functools.partial(torch.add, a, 1.0, out=b)
    samples = timed(stopwatch, launch)
    assert samples.method == "events"
    assert samples.median == pytest.approx(cupti(stopwatch, launch, 1e-3), rel=0.03)


@pytest.mark.parametrize("size", [2048, 4096])
def test_products_agree_with_cupti(stopwatch: Stopwatch, size: int) -> None:
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(a)
    launch = functools.partial(torch.mm, a, a, out=out)
    samples = timed(stopwatch, launch)
    assert samples.median == pytest.approx(cupti(stopwatch, launch, 3 * samples.median), rel=0.03, abs=0.7e-6)


def test_the_clock_is_the_gpus(monitor: Monitor, stopwatch: Stopwatch) -> None:
    samples = timed(stopwatch, functools.partial(torch.cuda._sleep, 1_000_000))
    assert samples.clock_mhz * 1e6 <= monitor.facts().max_clock * 1.001
    assert samples.clock_mhz > 0


def test_facts_are_plausible(monitor: Monitor) -> None:
    facts = monitor.facts()
    assert facts.name == torch.cuda.get_device_name()
    assert 1e11 < facts.bandwidth < 2e13
    assert 1 << 20 < facts.l2 < 1 << 30
