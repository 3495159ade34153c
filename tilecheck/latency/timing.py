"""Takes samples of the time that kernels take on a GPU, so that two runs agree.

What disturbs a sample, and what is done about it (measured on an H200, spread of the median between runs):

- The power cap lowers the clock under compute-bound kernels, by up to a third (7..30 %). Between two samples
  the GPU copies memory, for three times as long as the kernel runs: power recovers, and the GPU stays awake
  (0.3 %).
- A kernel that finds its inputs in L2 is faster than any caller will see it. L2 is emptied before each
  sample.
- Where tensors lie decides which slices of L2 and which channels of memory serve them. Samples rotate over
  several sets of tensors, where they are small enough for that to show.
- A launch takes the CPU longer than a short kernel takes the GPU. All is enqueued while the GPU still copies;
  a sample for which it was not is taken again, with more to copy.
- Two events around one launch measure 4 us more than the kernel takes, which `own_time` finds and the device
  takes off. Kernels under `GRAPH_BELOW` run 64 times in a CUDA graph, over inputs that rotate: that is their
  throughput with cold inputs, and no latency of a lone launch. Samples say how they were taken; those taken
  differently are not compared.

Nothing here touches CUDA: `tilecheck.latency.timing_cuda` has the device, tests have one of their own.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tilecheck.latency.gate import uncertainty
from tilecheck.latency.monitor import MEGA, Reading

GRAPH_BELOW = 50e-6
"""Seconds; kernels that take less are timed in a graph. Alone, their medians differed by up to 2.4 % between
runs (20..50 us on an H200), in a graph by 0.2 %.
"""

GRAPH_LAUNCHES = 64
_GRAPH = f"graph{GRAPH_LAUNCHES}"
FILLER_SHARE = 3
LEAST_FILLER = 300e-6
"""Seconds of copying before each sample: time enough for the CPU to enqueue the rest."""

MOST_FILLER = 50e-3
OFF_CLOCK = 0.01
"""Samples whose clock is further from the median of all are taken again."""

FEWEST, MOST = 30, 200
"""Samples of one contender."""

CERTAIN = 0.0005
"""Standard error of a median, as a share of it, below which more samples tell nothing: runs of one kernel, in
processes of their own, differ by 0.1 % (H200).
"""

_LOOK = 10  # rounds after which that is looked at

Launch = Callable[[], object]


class TimingError(RuntimeError):
    """No time that could be trusted; the text is one line."""


def own_time(once: Sequence[float], twice: Sequence[float]) -> float:
    """What two events around a launch measure beside its kernel, in seconds.

    once, twice: samples of a kernel that spins for some number of cycles, and for twice as many, in turn. A
    sample is own + cycles/clock, so own = 2*once - twice, whatever the clock.
    """
    return max(0.0, statistics.median(2 * a - b for a, b in zip(once, twice, strict=True)))


def in_time(what: str, sample: Callable[[float], float | None], filler: float) -> float:
    """The seconds of a sample that was enqueued while the GPU still copied.

    sample: takes one after so many seconds of copying; None where the GPU had to wait for the CPU: then it is
    taken again, with twice the copying. Raises TimingError, of `what`, where `MOST_FILLER` is not enough.
    """
    while (seconds := sample(filler)) is None:
        if filler >= MOST_FILLER:
            copied = f"{filler * 1e3:.0f} ms of copying"
            raise TimingError(f"{what}: the GPU waits for the CPU, even after {copied}")
        filler = min(2 * filler, MOST_FILLER)
    return seconds


class Device(Protocol):
    """What runs the launches. `once` and `replay` copy memory for `filler` seconds and empty L2 first; they
    return seconds of device time, or None where the GPU had to wait for the CPU.
    """

    def once(self, launch: Launch, filler: float) -> float | None:
        """One launch, between two events, less what they measure of their own."""

    def capture(self, launches: Sequence[Launch]) -> Any:
        """A graph of these launches."""

    def replay(self, graph: Any, filler: float) -> float | None:
        """One replay of a graph, between two events."""

    def reading(self) -> Reading:
        """The clock that the last sample ran at."""


@dataclass(frozen=True)
class Samples:
    """How long one kernel took, time and again.

    seconds: of device time, one for each sample.  method: "events", or "graph64".
    clock_mhz: median clock of the multiprocessors.  retaken: samples taken again.
    throttled: reasons for which the driver lowered the clock in a sample that counts.
    """

    seconds: tuple[float, ...]
    method: str
    clock_mhz: float
    retaken: int = 0
    throttled: tuple[str, ...] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def q1(self) -> float:
        return self._quartiles[0]

    @property
    def q3(self) -> float:
        return self._quartiles[2]

    @property
    def uncertainty(self) -> float:
        """Standard error of the median, as a share of it."""
        return uncertainty(self.median, self.q1, self.q3, len(self.seconds))

    @property
    def cycles(self) -> float:
        """The median, in clocks of the multiprocessors."""
        return self.median * self.clock_mhz * MEGA

    @property
    def _quartiles(self) -> list[float]:
        if len(self.seconds) < 2:
            return [self.seconds[0]] * 3
        return statistics.quantiles(self.seconds, n=4, method="inclusive")


class Timer(Protocol):
    """What times kernels: a `Stopwatch`, or what stands for it in tests."""

    def time_in_turn(
        self, contenders: Mapping[str, Sequence[Launch]], method: str | None = None
    ) -> dict[str, Samples]: ...


@dataclass
class Stopwatch:
    """Times contenders in turn on one device.

    budget: seconds for all of them together, fillers included. It is not used up where all medians are
    `CERTAIN` before.
    """

    device: Device
    budget: float = 2.0

    def time_in_turn(
        self, contenders: Mapping[str, Sequence[Launch]], method: str | None = None
    ) -> dict[str, Samples]:
        """Samples of each contender, A B A B, so that a drift of the machine meets all of them.

        contenders: for each name its launches, all the same but for the tensors they use; samples rotate
        over them, and within a graph no launch finds its inputs in L2 for it.
        method: how all of them are timed, as it was the last time: a kernel that has become slower than
        `GRAPH_BELOW` is still compared. None, or one that is not known: in a graph if any of them is short.
        Raises TimingError where no sample could be taken.
        """
        takers = [_Taker(self.device, name, launches) for name, launches in contenders.items()]
        known = method in ("events", _GRAPH)
        if method == _GRAPH or (not known and any(taker.short for taker in takers)):
            for taker in takers:
                taker.use_graph()
        each = sum(taker.wall for taker in takers)
        rounds = max(FEWEST, min(MOST, int(self.budget / each)))
        for done in range(rounds):
            if done >= FEWEST and done % _LOOK == 0 and all(taker.certain for taker in takers):
                break
            for taker in takers:
                taker.take()
        for _ in range(rounds):  # at most as many again
            off = [taker for taker in takers if taker.drop_off_clock()]
            if not off:
                break
            for taker in off:
                taker.take()
        return {taker.name: taker.samples() for taker in takers}


@dataclass
class _Taker:
    """Takes the samples of one contender."""

    device: Device
    name: str
    launches: Sequence[Launch]
    taken: list[tuple[float, Reading]] = field(default_factory=list)
    dropped: int = 0

    def __post_init__(self) -> None:
        if not self.launches:
            raise TimingError(f"{self.name}: nothing to launch")
        self.filler = LEAST_FILLER
        self.graph: Any = None
        self._turns = itertools.cycle(self.launches)
        for _ in range(3):  # the first loads the code
            rough = self._sample()
        self.short = rough < GRAPH_BELOW
        self._settle(rough)

    def use_graph(self) -> None:
        """Times it in a graph from here on."""
        turns = [self.launches[i % len(self.launches)] for i in range(GRAPH_LAUNCHES)]
        self.graph = self.device.capture(turns)
        self._settle(self._sample() * GRAPH_LAUNCHES)

    def _settle(self, seconds: float) -> None:
        self.filler = max(self.filler, min(FILLER_SHARE * seconds, MOST_FILLER))
        self.wall = self.filler + seconds

    @property
    def method(self) -> str:
        return "events" if self.graph is None else _GRAPH

    @property
    def certain(self) -> bool:
        return self.samples().uncertainty <= CERTAIN

    def take(self) -> None:
        seconds = self._sample()
        self.taken.append((seconds, self.device.reading()))

    def _sample(self) -> float:
        """Seconds of one launch; the filler that it took is that of the next ones."""
        seconds = in_time(self.name, self._try, self.filler)
        return seconds / (1 if self.graph is None else GRAPH_LAUNCHES)

    def _try(self, filler: float) -> float | None:
        self.filler = filler
        if self.graph is None:
            seconds = self.device.once(next(self._turns), filler)
        else:
            seconds = self.device.replay(self.graph, filler)
        self.dropped += seconds is None
        return seconds

    def drop_off_clock(self) -> bool:
        """Drops one sample that ran off the clock, if there is one."""
        usual = statistics.median(reading.clock for _, reading in self.taken)
        for i, (_, reading) in enumerate(self.taken):
            if usual and abs(reading.clock / usual - 1) > OFF_CLOCK:
                del self.taken[i]
                self.dropped += 1
                return True
        return False

    def samples(self) -> Samples:
        """Raises TimingError for what takes no time beside that of the events, as it launches nothing."""
        readings = [reading for _, reading in self.taken]
        if not statistics.median(seconds for seconds, _ in self.taken) > 0:
            raise TimingError(f"{self.name}: takes no time on the GPU: is nothing launched?")
        return Samples(
            seconds=tuple(seconds for seconds, _ in self.taken),
            method=self.method,
            clock_mhz=statistics.median(reading.clock for reading in readings) / MEGA,
            retaken=self.dropped,
            throttled=tuple(sorted({reason for reading in readings for reason in reading.reasons})),
        )
