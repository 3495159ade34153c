"""Verdicts: whether a kernel takes as long as its baseline says. Pure arithmetic.

A time that moved tells of a slower kernel or of a slower machine. So a verdict wants to see it twice: in the
time, and in the time over the vendor's of the same run, as far as both runs used the same vendor's libraries.
What was taken differently, at another clock or while the driver lowered it, is not compared at all.

The band, within which a row is the same, comes from the row: three times the spread between *runs* of one
kernel, in processes of their own, as the spread within a run does not know of the next machine.

Machines of one model differ: of four H200, two took up to 2 % longer for whatever the tensor cores bound, the
vendor's kernels included, and the ratio to these moved by 0.2 to 1 %. So the ratio is what has to leave its
band, and the time has to move the same way. Where the vendor's time left its own band the machine is not the
baseline's, another driver may move some kernels and not others, and without measured noise nothing is known:
then both have to leave their bands.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from tilecheck.latency.monitor import POWER_CAP

Mode = Literal["normal", "strict", "off"]
MODES: tuple[Mode, ...] = ("normal", "strict", "off")


class Verdict(Enum):
    """What a comparison says."""

    SAME = "same"
    SLOWER = "slower"
    FASTER = "faster"
    INCONCLUSIVE = "inconclusive"

    def fails(self, mode: Mode) -> bool:
        """Whether a row with this verdict fails the run.

        Under "strict" a faster row fails too: its baseline is stale, and up to it the row could become
        slower again unseen.
        """
        if mode == "off":
            return False
        return self is Verdict.SLOWER or (mode == "strict" and self is not Verdict.SAME)


@dataclass(frozen=True)
class Measurement:
    """How long a row took in one run.

    median, q1, q3: of the samples, in seconds.  samples: how many.  method: how they were taken.
    clock_mhz: their median clock; 0: unknown.  throttled: why the driver lowered it.
    vendors: medians of the vendor's implementations in the same run, in seconds, by name.
    theirs: why those of some are not to be trusted, by name.
    libraries: versions of what the vendors' times depend on.  driver: its version.
    """

    median: float
    q1: float
    q3: float
    samples: int
    method: str
    clock_mhz: float = 0.0
    throttled: tuple[str, ...] = ()
    vendors: Mapping[str, float] = field(default_factory=dict)
    theirs: Mapping[str, str] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""

    @property
    def uncertainty(self) -> float:
        """Standard error of the median, as a share of it."""
        return uncertainty(self.median, self.q1, self.q3, self.samples)


@dataclass(frozen=True)
class Bar:
    """What a row is compared with. Fields as of `Measurement`, and:

    vendor: the one that the ratio is to; "": the fastest.
    noise, ratio_noise, vendor_noise: spread between runs (`latency.noise`) of the median, of its
    ratio to the vendor's, and of the vendor's; None: never measured.
    machine_noise: by how much of it a time may differ between machines, as other rows of the baseline show.
    """

    median: float
    method: str
    clock_mhz: float = 0.0
    noise: float | None = None
    ratio_noise: float | None = None
    vendor_noise: float | None = None
    machine_noise: float = 0.0
    vendor: str = ""
    vendors: Mapping[str, float] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""

    @property
    def measured(self) -> str | None:
        """The vendor that the noise of the ratio is of."""
        return self.vendor or fastest(self.vendors, self.vendors)

    @property
    def known(self) -> bool:
        """Whether all of its noise was measured."""
        return None not in (self.noise, self.ratio_noise, self.vendor_noise)


@dataclass(frozen=True)
class Policy:
    """floor: least band.  times_noise: the band in units of the noise.
    assumed_noise: of a row whose noise was never measured.
    clock: share by which clocks may differ.
    miss: standard deviations beyond the band at which a slowdown is found, 2.33 for 99 of 100.
    """

    floor: float = 0.015
    times_noise: float = 3.0
    assumed_noise: float = 0.01
    clock: float = 0.015
    miss: float = 2.33

    def band(self, noise: float | None) -> float:
        """The share by which a row with this noise may differ from its baseline."""
        return max(self.floor, self.times_noise * (self.assumed_noise if noise is None else noise))

    def smallest(self, noise: float | None) -> float:
        """The smallest slowdown that is found in 99 of 100 runs: old and new each have the noise."""
        return self.band(noise) + self._missed(noise)

    def smallest_of(self, bar: Bar) -> float:
        """The same of a row, whose ratio counts if it has one: that has to leave its band, and the time to be
        above zero, or to leave its band as well.
        """
        if not bar.vendors:
            return self.smallest(between_machines(bar.noise, bar))
        in_time = self._missed(bar.noise) if bar.known else self.smallest(between_machines(bar.noise, bar))
        return max(self.smallest(bar.ratio_noise), in_time)

    def _missed(self, noise: float | None) -> float:
        spread = self.assumed_noise if noise is None else noise
        return self.miss * spread * math.sqrt(2)


POLICY = Policy()


@dataclass(frozen=True)
class Ratio:
    """Our time over the vendor's, then and now; the band is of its change.

    moved: the change of the vendor's own time.
    """

    vendor: str
    old: float
    new: float
    band: float
    moved: float

    @property
    def change(self) -> float:
        return self.new / self.old - 1

    def __str__(self) -> str:
        moved = f"{self.old:.3f} -> {self.new:.3f}, {_percent(self.change)}"
        return f"over {self.vendor} {moved}, band {_share(self.band)}"


@dataclass(frozen=True)
class Judgement:
    """A verdict with its reason in words, and the numbers that it is from.

    old, new: medians in seconds.  smallest: the smallest slowdown that this row can find.
    ratio: None where the vendor's times are not to be compared.
    again: measuring again could lead to another verdict.
    """

    verdict: Verdict
    reason: str
    old: float
    new: float
    band: float
    smallest: float
    old_clock: float
    new_clock: float
    ratio: Ratio | None = None
    again: bool = True

    @property
    def change(self) -> float:
        """Of the time, as a share of the old one."""
        return self.new / self.old - 1

    @property
    def numbers(self) -> str:
        """Old and new in one line."""
        clocks = f"{_clock(self.old_clock)} -> {_clock(self.new_clock)}"
        moved = f"{seconds(self.old)} -> {seconds(self.new)}, {_percent(self.change)}"
        ratio = "" if self.ratio is None else f"; {self.ratio}"
        return f"{moved}, band {_share(self.band)}{ratio}; clock {clocks}"

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.reason}: {self.numbers}"


def judge(new: Measurement, bar: Bar, policy: Policy = POLICY) -> Judgement:
    """The verdict on one measurement."""
    if bar.measured not in new.vendors:  # what is known of the ratio to it says nothing of the one to another
        bar = replace(bar, vendor="", ratio_noise=None, vendor_noise=None)
    if new.driver != bar.driver:
        bar = replace(bar, vendor_noise=None)
    ratio = _ratio(new, bar, policy)
    band, change = policy.band(between_machines(bar.noise, bar)), new.median / bar.median - 1
    smallest = policy.smallest_of(bar if ratio else replace(bar, vendors={}))
    verdict, reason, again = _verdict(new, bar, policy, band, change, ratio)
    return Judgement(
        verdict=verdict,
        reason=reason,
        old=bar.median,
        new=new.median,
        band=band,
        smallest=smallest,
        old_clock=bar.clock_mhz,
        new_clock=new.clock_mhz,
        ratio=ratio,
        again=again,
    )


def settle(judgements: Sequence[Judgement]) -> Judgement:
    """The verdict on a row that was measured several times, one after the other: what all of them say.

    One that is the same settles it, as only noise can have moved the others. If they differ otherwise,
    nothing can be said. The numbers are the last one's.
    """
    last, verdicts = judgements[-1], [j.verdict for j in judgements]
    if len(judgements) == 1:
        return last
    times = f"measured {len(judgements)} times"
    if last.verdict is Verdict.SAME:
        before = ", ".join(v.value for v in verdicts[:-1])
        return replace(last, reason=f"{last.reason} ({times}, before: {before})")
    if len(set(verdicts)) == 1:
        return replace(last, reason=f"{last.reason} ({times})")
    told = ", ".join(v.value for v in verdicts)
    return replace(last, verdict=Verdict.INCONCLUSIVE, reason=f"{times}: {told}")


def uncertainty(median: float, q1: float, q3: float, samples: int) -> float:
    """Standard error of the median of some samples, as a share of it: 1.253 sigma / sqrt(n) for normal ones,
    whose quartiles are 1.349 sigma apart.
    """
    return 1.253 / 1.349 * abs(q3 - q1) / math.sqrt(samples) / median


def fastest(vendors: Mapping[str, float], among: Mapping[str, float]) -> str | None:
    """The vendor's implementation with the least time in `vendors`, of those that are in both."""
    both = [name for name in vendors if name in among]
    return min(both, key=vendors.__getitem__, default=None)


def seconds(value: float) -> str:
    """A time in words, to four digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value / 1e-9:.4g} ns"


def _ratio(new: Measurement, bar: Bar, policy: Policy) -> Ratio | None:
    vendor = bar.vendor or fastest(bar.vendors, new.vendors)
    if vendor is None or dict(new.libraries) != dict(bar.libraries):
        return None
    theirs, theirs_now = bar.vendors[vendor], new.vendors[vendor]
    return Ratio(
        vendor=vendor,
        old=bar.median / theirs,
        new=new.median / theirs_now,
        band=policy.band(bar.ratio_noise),
        moved=theirs_now / theirs - 1,
    )


def _verdict(
    new: Measurement, bar: Bar, policy: Policy, band: float, change: float, ratio: Ratio | None
) -> tuple[Verdict, str, bool]:
    if new.method != bar.method:
        how = f"timed by {new.method}, and the baseline by {bar.method}"
        return Verdict.INCONCLUSIVE, f"taken differently: {how}", False
    ours = obstacle(
        new.throttled, new.clock_mhz, bar.clock_mhz, new.uncertainty, new.samples, bar.noise, policy
    )
    if ours:
        return Verdict.INCONCLUSIVE, ours, True
    if ratio is not None and (theirs := new.theirs.get(ratio.vendor)):
        return Verdict.INCONCLUSIVE, f"{ratio.vendor}: {theirs}", True
    if ratio is None:
        if abs(change) <= band:
            return Verdict.SAME, "within the band", True
        verdict, word = _direction(change)
        return verdict, f"{word} in time; {_no_ratio(new, bar)}", True
    if not bar.known or abs(ratio.moved) > policy.band(between_machines(bar.vendor_noise, bar)):
        return *_shown_by_both(change, band, ratio), True
    return *_shown_by_the_ratio(change, band, ratio), True


def _shown_by_both(change: float, band: float, ratio: Ratio) -> tuple[Verdict, str]:
    if abs(change) <= band:
        return Verdict.SAME, "within the band"
    verdict, word = _direction(change)
    if math.copysign(1, change) * ratio.change > ratio.band:
        return verdict, f"{word} in time, and against {ratio.vendor}"
    return Verdict.INCONCLUSIVE, f"{word} in time, but not against {ratio.vendor}, so it may be the machine"


def _shown_by_the_ratio(change: float, band: float, ratio: Ratio) -> tuple[Verdict, str]:
    if abs(ratio.change) <= ratio.band:
        return _shown_by_both(change, band, ratio)
    verdict, word = _direction(ratio.change)
    if change * ratio.change > 0:
        return verdict, f"{word} in time, and against {ratio.vendor}"
    return Verdict.INCONCLUSIVE, f"{word} against {ratio.vendor}, but not in time, so it may be the vendor"


def between_machines(noise: float | None, bar: Bar) -> float | None:
    """What of a time's noise the next machine may show; None: unknown."""
    return None if noise is None else max(noise, bar.machine_noise)


def _direction(change: float) -> tuple[Verdict, str]:
    return (Verdict.SLOWER, "slower") if change > 0 else (Verdict.FASTER, "faster")


def spoiling(throttled: Sequence[str], clock_mhz: float) -> list[str]:
    """Those of the reasons for which the driver lowered the clock that spoil a time.

    The power cap is none where the clock is known: near it the driver names it at the full clock too, and
    whether it lowers the clock shows in the clock.
    """
    return [reason for reason in throttled if reason != POWER_CAP or not clock_mhz]


def obstacle(
    throttled: Sequence[str],
    clock: float,
    usual_clock: float,
    uncertain: float,
    samples: int,
    noise: float | None,
    policy: Policy = POLICY,
) -> str | None:
    """Why a median is not to be compared, in words; None: it is.

    throttled: why the driver lowered the clock.  clock, usual_clock: now, and as it has to be; 0: unknown.
    uncertain: standard error of the median of so many samples, as a share.  noise: that the band is of.
    """
    if reasons := spoiling(throttled, clock):
        return f"the driver lowered the clock ({', '.join(reasons)})"
    if clock and usual_clock and abs(clock / usual_clock - 1) > policy.clock:
        return "at another clock"
    if policy.miss * uncertain > policy.band(noise):
        spread = _share(policy.miss * uncertain)
        return f"the samples scatter: the median of {samples} is uncertain by {spread}"
    return None


def _no_ratio(new: Measurement, bar: Bar) -> str:
    if not new.vendors or not bar.vendors:
        return "there is no vendor's time to compare with"
    if dict(new.libraries) != dict(bar.libraries):
        return "the vendor's libraries are others"
    return f"the baseline has {', '.join(bar.vendors)}, and this run {', '.join(new.vendors)}"


def _percent(change: float) -> str:
    return f"{change * 100:+.1f} %"


def _share(share: float) -> str:
    return f"{share * 100:.1f} %"


def _clock(mhz: float) -> str:
    return f"{mhz:.0f} MHz" if mhz else "unknown"
