"""The device that `tilecheck.latency.timing` takes its samples on: one GPU, through torch."""

import functools
from collections.abc import Sequence
from typing import Any

import torch

from tilecheck.latency.monitor import Monitor, Reading
from tilecheck.latency.timing import LEAST_FILLER, Launch, in_time, own_time

_COPIED = 256 << 20  # bytes; some L2s' worth, and about 0.1 ms at 5 TB/s
_AWAKE = 0.1  # seconds of copying after which the clock has risen
_CYCLES, _PAIRS = 20_000, 101  # of the kernel that shows what events measure of their own: about 10 us


class CudaDevice:
    """Runs launches on one GPU, on torch's current stream.

    monitor: reads the clocks of the same GPU.
    Allocates half a gigabyte to copy, and twice the L2 to empty it with.
    """

    def __init__(self, monitor: Monitor) -> None:
        facts = monitor.facts()
        self._monitor = monitor
        self._from = torch.zeros(_COPIED, dtype=torch.uint8, device="cuda")
        self._to = torch.empty_like(self._from)
        self._copy_seconds = 2 * _COPIED / facts.bandwidth
        # Emptied by reading: lines that were written would have to be written back in the kernel's time.
        self._flushed = torch.zeros(2 * facts.l2 // 4, dtype=torch.int32, device="cuda")
        self._most = torch.empty((), dtype=torch.int32, device="cuda")
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        self.own_time = self._measure_own_time()
        """Seconds that two events around a launch measure beside its kernel."""

    def once(self, launch: Launch, filler: float) -> float | None:
        """Seconds of one launch, less `own_time`; None where the GPU had to wait for it."""
        seconds = self._between_events(launch, filler)
        return None if seconds is None else max(0.0, seconds - self.own_time)

    def capture(self, launches: Sequence[Launch]) -> torch.cuda.CUDAGraph:
        """A graph of these launches, one after the other."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # what a first launch allocates must not be allocated in the graph
            for launch in launches:
                launch()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for launch in launches:
                launch()
        return graph

    def replay(self, graph: torch.cuda.CUDAGraph, filler: float) -> float | None:
        """Seconds of one replay; None where the GPU had to wait for it."""
        return self._between_events(graph.replay, filler)

    def reading(self) -> Reading:
        """Clock and reasons now, right after the last sample."""
        return self._monitor.read()

    def _measure_own_time(self) -> float:
        spins = [functools.partial(torch.cuda._sleep, n * _CYCLES) for n in (1, 2)]
        samples = [functools.partial(self._between_events, spin) for spin in spins]
        samples[0](_AWAKE)
        pairs = ([in_time("events", sample, LEAST_FILLER) for sample in samples] for _ in range(_PAIRS))
        once, twice = zip(*pairs, strict=True)
        return own_time(once, twice)

    def _between_events(self, launch: Any, filler: float) -> float | None:
        for _ in range(max(1, round(filler / self._copy_seconds))):
            self._to.copy_(self._from)
        torch.amax(self._flushed, dim=0, out=self._most)
        self._start.record()
        launch()
        self._end.record()
        late = self._start.query()  # reached before all was enqueued
        self._end.synchronize()
        return None if late else self._start.elapsed_time(self._end) / 1e3
