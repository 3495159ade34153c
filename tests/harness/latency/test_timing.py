"""The stopwatch, on a device whose times are made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tilecheck.latency import timing
from tilecheck.latency.monitor import Reading
from tilecheck.latency.timing import (
    FEWEST,
    FILLER_SHARE,
    GRAPH_LAUNCHES,
    LEAST_FILLER,
    MOST,
    Stopwatch,
    TimingError,
)

FULL = 1.98e9


@dataclass
class FakeDevice:
    """Launches are (name, seconds); the clock of each sample comes from `clocks`, a function of its number.

    late: whether the GPU waits for the CPU, given the filler.
    """

    clocks: Callable[[int], Reading] = lambda number: Reading(FULL)
    late: Callable[[float], bool] = lambda filler: False
    noise: Callable[[int], float] = lambda number: 1.0
    log: list[tuple[str, float]] = field(default_factory=list)

    def once(self, launch: Any, filler: float) -> float | None:
        return self._sample([launch], filler)

    def capture(self, launches: Sequence[Any]) -> list[Any]:
        return list(launches)

    def replay(self, graph: list[Any], filler: float) -> float | None:
        return self._sample(graph, filler)

    def reading(self) -> Reading:
        return self.clocks(len(self.log))

    def _sample(self, launches: Sequence[Any], filler: float) -> float | None:
        if self.late(filler):
            return None
        self.log.append((launches[0][0], filler))
        clock = self.clocks(len(self.log)).clock
        return sum(seconds for _, seconds in launches) * (FULL / clock) * self.noise(len(self.log))


def launches(name: str, seconds: float, sets: int = 1) -> list[Any]:
    return [(name, seconds)] * sets


def test_long_kernels_are_timed_alone_with_filler_by_their_length() -> None:
    device = FakeDevice()
    samples = Stopwatch(device).time_in_turn({"ours": launches("ours", 1e-3)})["ours"]
    assert samples.method == "events"
    assert samples.median == pytest.approx(1e-3)
    assert device.log[-1][1] == pytest.approx(FILLER_SHARE * 1e-3)
    assert samples.clock_mhz == 1980
    assert samples.cycles == pytest.approx(1.98e6)


def test_short_kernels_are_timed_in_a_graph_that_rotates_over_the_tensors() -> None:
    graphs: list[list[Any]] = []

    class Device(FakeDevice):
        def capture(self, launches: Sequence[Any]) -> list[Any]:
            graphs.append(list(launches))
            return graphs[-1]

    sets = [(f"set {i}", 5e-6) for i in range(3)]
    samples = Stopwatch(Device()).time_in_turn({"ours": sets})["ours"]
    assert samples.method == "graph64"
    assert samples.median == pytest.approx(5e-6)
    assert [name for name, _ in graphs[0]] == [f"set {i % 3}" for i in range(GRAPH_LAUNCHES)]


def test_samples_of_a_kernel_that_is_timed_alone_rotate_over_the_tensors() -> None:
    device = FakeDevice()
    Stopwatch(device).time_in_turn({"ours": [(f"set {i}", 1e-3) for i in range(3)]})
    names = [name for name, _ in device.log]
    assert len(names) > 3 and all(name == f"set {n % 3}" for n, name in enumerate(names))


def test_contenders_are_timed_the_same_way() -> None:
    both = {"long": launches("long", 1e-3), "short": launches("short", 5e-6)}
    samples = Stopwatch(FakeDevice()).time_in_turn(both)
    assert {name: s.method for name, s in samples.items()} == {"long": "graph64", "short": "graph64"}
    assert samples["long"].median == pytest.approx(1e-3)


@pytest.mark.parametrize("seconds", [5e-6, 80e-6])
@pytest.mark.parametrize(
    ("asked", "methods"),
    [("events", ["events"] * 2), ("graph64", ["graph64"] * 2), ("graph32", ["graph64", "events"])],
)
def test_a_known_method_is_kept_whatever_a_kernel_takes(
    seconds: float, asked: str, methods: list[str]
) -> None:
    samples = Stopwatch(FakeDevice()).time_in_turn({"ours": launches("ours", seconds)}, asked)["ours"]
    assert samples.method == methods[seconds > timing.GRAPH_BELOW]
    assert samples.median == pytest.approx(seconds)


def test_contenders_take_turns() -> None:
    device = FakeDevice()
    Stopwatch(device).time_in_turn({"a": launches("a", 1e-3), "b": launches("b", 2e-3)})
    names = [name for name, _ in device.log][6:]
    assert names[:6] == ["a", "b"] * 3
    assert names.count("a") == names.count("b")


def scattered(share: float) -> Callable[[int], float]:
    """Samples by whose quartiles the median is off by up to `share` either way."""
    return lambda number: (1.0, 1 - share, 1 + share)[number % 3]


@pytest.mark.parametrize(("seconds", "count"), [(0.1, FEWEST), (80e-6, MOST), (5e-3, 100)])
def test_number_of_samples_follows_the_budget(seconds: float, count: float) -> None:
    device = FakeDevice(noise=scattered(0.01))
    samples = Stopwatch(device, budget=2.0).time_in_turn({"a": launches("a", seconds)})["a"]
    assert len(samples.seconds) == count


@pytest.mark.parametrize(("share", "fewest", "most"), [(0, 30, 30), (0.002, 40, 80), (0.01, MOST, MOST)])
def test_no_more_samples_are_taken_than_make_the_median_certain(share: float, fewest: int, most: int) -> None:
    device = FakeDevice(noise=scattered(share))
    samples = Stopwatch(device).time_in_turn({"a": launches("a", 80e-6)})["a"]
    assert fewest <= len(samples.seconds) <= most
    assert samples.uncertainty <= timing.CERTAIN or len(samples.seconds) == MOST


def test_contenders_go_on_together_until_the_last_is_certain() -> None:
    class Device(FakeDevice):
        def once(self, launch: Any, filler: float) -> float | None:
            seconds = super().once(launch, filler)
            assert seconds is not None
            scatter = scattered(0.01)(len(self.log) // 2) if launch[0] == "loud" else 1.0
            return seconds * scatter

    both = {"quiet": launches("quiet", 80e-6), "loud": launches("loud", 80e-6)}
    samples = Stopwatch(Device()).time_in_turn(both)
    assert {name: len(s.seconds) for name, s in samples.items()} == {"quiet": MOST, "loud": MOST}


def test_samples_off_the_clock_are_taken_again() -> None:
    def clocks(number: int) -> Reading:
        return Reading(1.6e9, ("power cap",)) if number % 10 == 0 else Reading(FULL)

    samples = Stopwatch(FakeDevice(clocks)).time_in_turn({"a": launches("a", 1e-3)})["a"]
    assert samples.retaken >= len(samples.seconds) // 10
    assert max(samples.seconds) == pytest.approx(1e-3)
    assert samples.throttled == ()


def test_a_clock_that_never_settles_ends_the_run_and_shows() -> None:
    rng = np.random.default_rng(0)
    clocks = rng.uniform(1.2e9, FULL, 100_000)
    device = FakeDevice(lambda number: Reading(clocks[number], ("power cap",)))
    samples = Stopwatch(device).time_in_turn({"a": launches("a", 1e-3)})["a"]
    assert samples.throttled == ("power cap",)
    assert samples.q3 / samples.q1 > 1.05


def test_more_filler_where_the_gpu_waits_for_the_cpu() -> None:
    device = FakeDevice(late=lambda filler: filler < 2e-3)
    samples = Stopwatch(device).time_in_turn({"a": launches("a", 50e-6)})["a"]
    assert min(filler for _, filler in device.log) >= 2e-3 > LEAST_FILLER
    assert samples.retaken > 0


def test_a_gpu_that_always_waits_is_an_error() -> None:
    with pytest.raises(TimingError, match=r"^a: the GPU waits for the CPU, even after 50 ms of copying$"):
        Stopwatch(FakeDevice(late=lambda filler: True)).time_in_turn({"a": launches("a", 1e-3)})


def test_nothing_to_launch_is_an_error() -> None:
    with pytest.raises(TimingError, match=r"^a: nothing to launch$"):
        Stopwatch(FakeDevice()).time_in_turn({"a": []})


def test_what_takes_no_time_is_an_error_that_names_it() -> None:
    """A device takes the events' own time off, and what is left is 0 where nothing was launched."""
    both = {"ours": launches("ours", 80e-6), "a view": launches("a view", 0.0)}
    with pytest.raises(TimingError, match=r"^a view: takes no time on the GPU: is nothing launched\?$"):
        Stopwatch(FakeDevice()).time_in_turn(both, "events")


def test_a_sample_of_no_time_among_others_is_one_sample() -> None:
    device = FakeDevice(noise=lambda number: float(number % 7 > 0))
    samples = Stopwatch(device).time_in_turn({"a": launches("a", 80e-6)})["a"]
    assert samples.median == pytest.approx(80e-6)


def test_quartiles_are_those_of_the_samples() -> None:
    samples = timing.Samples((4.0, 1.0, 3.0, 2.0, 5.0), "events", 1980.0)
    assert (samples.q1, samples.median, samples.q3) == (2.0, 3.0, 4.0)
    one = timing.Samples((4.0,), "events", 1980.0)
    assert (one.q1, one.median, one.q3) == (4.0, 4.0, 4.0)


def test_the_median_withstands_outliers() -> None:
    """One sample in ten meets another process and takes twice as long."""
    rng = np.random.default_rng(1)
    factors = np.where(rng.random(10_000) < 0.1, 2.0, rng.normal(1.0, 0.002, 10_000))
    device = FakeDevice(noise=lambda number: float(factors[number]))
    samples = Stopwatch(device).time_in_turn({"a": launches("a", 1e-3)})["a"]
    assert samples.median == pytest.approx(1e-3, rel=2e-3)


def test_own_time_is_what_a_window_measures_beside_its_kernel() -> None:
    rng = np.random.default_rng(0)
    clocks = FULL * rng.uniform(0.99, 1.0, 101)  # the same for both of a pair
    once, twice = (4.3e-6 + n * 20_000 / clocks for n in (1, 2))
    assert timing.own_time(list(once), list(twice)) == pytest.approx(4.3e-6)
    assert timing.own_time([1e-6], [3e-6]) == 0


def test_a_sample_is_taken_again_with_more_copying_until_it_is_in_time() -> None:
    tried: list[float] = []

    def sample(filler: float) -> float | None:
        tried.append(filler)
        return 1e-6 if filler >= 1e-3 else None

    assert timing.in_time("it", sample, LEAST_FILLER) == 1e-6
    assert tried == pytest.approx([3e-4, 6e-4, 1.2e-3])
    with pytest.raises(TimingError, match="it: the GPU waits for the CPU, even after 50 ms of copying"):
        timing.in_time("it", lambda filler: None, LEAST_FILLER)
