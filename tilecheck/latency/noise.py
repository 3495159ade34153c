"""How much a row differs between runs of one kernel: in its time, and in its time over a vendor's."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """Standard deviations between runs, as shares.

    time: of the time.  vendor: the one whose time the row's follows best, "" without vendors.
    ratio: of the time over that vendor's; vendors_time: of that vendor's time; None without.
    """

    time: float
    vendor: str = ""
    ratio: float | None = None
    vendors_time: float | None = None


def noise_of(medians: Sequence[float], vendors: Sequence[Mapping[str, float]]) -> Noise:
    """The noise of a row, of its median and the vendors' medians in each run, in seconds.

    Raises ValueError for fewer than two runs.
    """
    time = noise_between(medians)
    common = [name for name in vendors[0] if all(name in run for run in vendors)]
    if not common:
        return Noise(time)
    theirs = {name: [run[name] for run in vendors] for name in common}
    ratios = {
        name: noise_between([ours / its for ours, its in zip(medians, theirs[name], strict=True)])
        for name in common
    }
    steadiest = min(common, key=ratios.__getitem__)
    return Noise(time, steadiest, ratios[steadiest], noise_between(theirs[steadiest]))


def machine_noise(noises: Sequence[Noise]) -> float:
    """By how much a time may differ between machines of one model: what nine of ten rows stay below.

    A row's own noise, of a few runs, may be far below what the next machine shows.
    """
    times = sorted(noise.time for noise in noises)
    return times[math.ceil(len(times) * 9 / 10) - 1]


def noise_between(values: Sequence[float]) -> float:
    """The spread of one number between runs: its standard deviation as a share of the mean.

    Unbiased for few runs: the root of the sample variance of n normal values is c4(n) sigma on average.
    Raises ValueError for fewer than two values.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"the noise between runs needs two of them, and there is {n}")
    c4 = math.sqrt(2 / (n - 1)) * math.gamma(n / 2) / math.gamma((n - 1) / 2)
    return statistics.stdev(values) / c4 / statistics.fmean(values)
