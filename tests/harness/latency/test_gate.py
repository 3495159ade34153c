"""Verdicts, and how often they are wrong: false alarms and misses are counted with simulated times."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tilecheck.latency.gate import (
    POLICY,
    Bar,
    Judgement,
    Measurement,
    Verdict,
    judge,
    seconds,
    settle,
)
from tilecheck.latency.noise import noise_of
from tilecheck.latency.promotion import GUARDS

LIBRARIES = {"torch": "2.11.0", "cuda": "12.8"}
NEW = Measurement(
    median=100e-6,
    q1=99.9e-6,
    q3=100.1e-6,
    samples=100,
    method="events",
    clock_mhz=1980,
    vendors={"cublas": 90e-6, "eager": 200e-6},
    libraries=LIBRARIES,
)
BAR = Bar(
    median=100e-6,
    method="events",
    clock_mhz=1980,
    noise=0.002,
    ratio_noise=0.003,
    vendor_noise=0.002,
    vendors={"eager": 200e-6, "cublas": 90e-6},
    libraries=LIBRARIES,
)


def took(factor: float, vendor: float = 1.0) -> Measurement:
    """A measurement that differs from the baseline by these factors."""
    return replace(
        NEW,
        median=NEW.median * factor,
        q1=NEW.q1 * factor,
        q3=NEW.q3 * factor,
        vendors={name: time * vendor for name, time in NEW.vendors.items()},
    )


class TestBand:
    @pytest.mark.parametrize(
        ("noise", "band", "smallest"),
        [
            (0.0, 0.015, 0.015),
            (0.002, 0.015, 0.015 + 2.33 * 0.002 * 2**0.5),
            (0.01, 0.03, 0.03 + 2.33 * 0.01 * 2**0.5),
            (None, 0.03, 0.03 + 2.33 * 0.01 * 2**0.5),
        ],
    )
    def test_follows_the_rows_noise(self, noise: float | None, band: float, smallest: float) -> None:
        assert POLICY.band(noise) == pytest.approx(band)
        assert POLICY.smallest(noise) == pytest.approx(smallest)

    @pytest.mark.parametrize(
        ("noises", "smallest"),
        [
            ((0.002, 0.003, 0.002), POLICY.smallest(0.003)),
            ((0.009, 0.001, 0.009), 2.33 * 0.009 * 2**0.5),  # the time has to be above zero
            ((0.001, 0.02, 0.02), POLICY.smallest(0.02)),
            ((0.02, 0.002, None), POLICY.smallest(0.02)),
            ((None, 0.001, 0.001), POLICY.smallest(None)),
        ],
    )
    @pytest.mark.parametrize("machine", [0.0, 0.0005])
    def test_what_can_be_found_follows_the_ratio(
        self, noises: tuple[float | None, ...], smallest: float, machine: float
    ) -> None:
        noise, ratio, vendor = noises
        bar = replace(BAR, noise=noise, ratio_noise=ratio, vendor_noise=vendor, machine_noise=machine)
        assert judge(NEW, bar).smallest == pytest.approx(smallest)

    def test_a_time_that_has_to_leave_its_band_has_to_leave_that_between_machines(self) -> None:
        bar = replace(BAR, vendor_noise=None, machine_noise=0.02)
        found = judge(took(1.05), bar)
        assert (found.band, found.verdict) == (pytest.approx(0.06), Verdict.SAME)
        assert found.smallest == POLICY.smallest(0.02)

    def test_without_a_ratio_the_time_says_what_can_be_found(self) -> None:
        alone = replace(NEW, vendors={})
        assert judge(alone, replace(BAR, ratio_noise=0.02)).smallest == POLICY.smallest(0.002)
        assert judge(alone, replace(BAR, machine_noise=0.01)).smallest == POLICY.smallest(0.01)


class TestVerdict:
    @pytest.mark.parametrize(
        ("factor", "verdict"),
        [
            (1.0, Verdict.SAME),
            (1.0149, Verdict.SAME),
            (1.016, Verdict.SLOWER),
            (2.0, Verdict.SLOWER),
            (0.986, Verdict.SAME),
            (0.984, Verdict.FASTER),
        ],
    )
    def test_time_decides_where_the_vendor_stood_still(self, factor: float, verdict: Verdict) -> None:
        assert judge(took(factor), BAR).verdict is verdict

    @pytest.mark.parametrize("factor", [1.05, 0.95])
    def test_what_the_vendor_shares_is_the_machine(self, factor: float) -> None:
        found = judge(took(factor, vendor=factor), BAR)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "not against cublas, so it may be the machine" in found.reason

    @pytest.mark.parametrize(
        ("time", "vendor", "verdict", "words"),
        [
            (1.020, 1.000, Verdict.SLOWER, "slower in time, and against cublas"),
            (1.007, 0.987, Verdict.SLOWER, "slower in time, and against cublas"),  # on a faster machine
            (0.999, 0.980, Verdict.INCONCLUSIVE, "slower against cublas, but not in time"),
            (0.980, 1.000, Verdict.FASTER, "faster in time, and against cublas"),
            (1.020, 1.020, Verdict.SAME, "within the band"),  # a slower machine, as some are
            (1.030, 1.030, Verdict.INCONCLUSIVE, "but not against cublas, so it may be the machine"),
            (1.030, 0.900, Verdict.SLOWER, "slower in time, and against cublas"),
            (1.050, 1.120, Verdict.INCONCLUSIVE, "but not against cublas, so it may be the machine"),
            (1.020, 0.950, Verdict.SAME, "within the band"),  # the vendor is not where it was
        ],
    )
    def test_the_ratio_decides_as_machines_differ(
        self, time: float, vendor: float, verdict: Verdict, words: str
    ) -> None:
        for noise in (0.001, 0.009):  # its own, which may be small by chance
            bar = replace(BAR, noise=noise, ratio_noise=0.001, vendor_noise=noise, machine_noise=0.009)
            found = judge(took(time, vendor), bar)
            assert found.verdict is verdict
            assert words in found.reason

    @pytest.mark.parametrize("factor", [1.0, 1.05])
    def test_a_ratio_to_a_time_that_is_not_to_be_trusted_says_nothing(self, factor: float) -> None:
        found = judge(replace(took(factor), theirs={"cublas": "the samples scatter"}), BAR)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.reason == "cublas: the samples scatter"
        other = judge(replace(took(factor), theirs={"eager": "the samples scatter"}), BAR)
        assert other.verdict is (Verdict.SAME if factor == 1 else Verdict.SLOWER)

    def test_under_another_driver_both_have_to_leave_their_bands(self) -> None:
        known = replace(BAR, noise=0.002, ratio_noise=0.001, vendor_noise=0.006, driver="580.65")
        faster_vendor = replace(took(1.0005, vendor=0.984), driver="580.65")
        assert judge(faster_vendor, known).verdict is Verdict.SLOWER  # which under one driver no vendor is
        assert judge(replace(faster_vendor, driver="590.10"), known).verdict is Verdict.SAME
        assert judge(replace(took(1.05), driver="590.10"), known).verdict is Verdict.SLOWER

    @pytest.mark.parametrize("unknown", ["noise", "ratio_noise", "vendor_noise"])
    def test_where_noise_was_never_measured_both_have_to_leave_their_bands(self, unknown: str) -> None:
        known = replace(BAR, noise=0.009, ratio_noise=0.001, vendor_noise=0.009)
        assert judge(took(1.02), known).verdict is Verdict.SLOWER
        bar = replace(known, **{unknown: None})  # type: ignore[arg-type]
        assert judge(took(1.02), bar).verdict is Verdict.SAME
        assert judge(took(1.035), bar).verdict is Verdict.SLOWER

    def test_the_ratio_is_to_the_vendor_that_was_the_steadiest(self) -> None:
        vendors = {"eager": 200e-6, "cublas": 80e-6}
        found = judge(replace(took(1.05), vendors=vendors), replace(BAR, vendor="eager"))
        assert found.ratio is not None and found.ratio.vendor == "eager"

    def test_where_the_steadiest_vendor_is_gone_the_noise_of_the_fastest_is_unknown(self) -> None:
        bar = replace(BAR, vendor="cudnn", vendors={**BAR.vendors, "cudnn": 1e-4})
        found = judge(took(1.035), bar)
        assert found.ratio is not None and found.ratio.vendor == "cublas"
        assert found.ratio.band == POLICY.band(None)
        assert found.verdict is Verdict.SLOWER
        assert judge(took(1.025), bar).verdict is Verdict.INCONCLUSIVE  # by the steadiest it would be slower

    def test_so_where_the_fastest_is_gone_that_an_older_baseline_meant(self) -> None:
        measured = replace(took(1.025), vendors={"eager": 200e-6})
        found = judge(measured, BAR)
        assert found.ratio is not None and found.ratio.vendor == "eager"
        assert found.ratio.band == POLICY.band(None)
        assert found.verdict is Verdict.INCONCLUSIVE

    def test_the_fastest_vendor_of_the_baseline_counts(self) -> None:
        vendors = {"eager": 100e-6, "cublas": 90e-6}  # the slower one became twice as fast
        found = judge(replace(took(1.05), vendors=vendors), BAR)
        assert found.verdict is Verdict.SLOWER
        assert found.ratio is not None and found.ratio.vendor == "cublas"

    @pytest.mark.parametrize(
        ("new", "bar", "reason"),
        [
            ({"libraries": {"torch": "2.12.0"}}, {}, "the vendor's libraries are others"),
            ({"vendors": {}}, {}, "no vendor's time"),
            ({}, {"vendors": {}}, "no vendor's time"),
            ({"vendors": {"cudnn": 1e-4}}, {}, "the baseline has eager, cublas, and this run cudnn"),
        ],
        ids=["libraries", "none-now", "none-then", "another"],
    )
    def test_without_a_ratio_the_time_decides_and_says_so(
        self, new: dict[str, object], bar: dict[str, object], reason: str
    ) -> None:
        measured = replace(took(1.05, vendor=1.05), **new)  # type: ignore[arg-type]
        found = judge(measured, replace(BAR, **bar))  # type: ignore[arg-type]
        assert found.verdict is Verdict.SLOWER
        assert found.ratio is None
        assert reason in found.reason

    @pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
    @pytest.mark.parametrize(
        ("new", "reason", "again"),
        [
            ({"method": "graph64"}, "timed by graph64, and the baseline by events", False),
            ({"clock_mhz": 1900}, "at another clock", True),
            ({"throttled": ("power cap", "temperature")}, "lowered the clock (temperature)", True),
            ({"throttled": ("power cap",), "clock_mhz": 0}, "lowered the clock (power cap)", True),
            ({"q1": 50e-6, "q3": 150e-6}, "the samples scatter: the median of 100 is uncertain by", True),
        ],
        ids=["method", "clock", "throttled", "power-cap-at-unknown-clock", "scatter"],
    )
    def test_what_was_taken_otherwise_is_inconclusive(
        self, factor: float, new: dict[str, object], reason: str, again: bool
    ) -> None:
        found = judge(replace(took(factor), **new), BAR)  # type: ignore[arg-type]
        assert found.verdict is Verdict.INCONCLUSIVE
        assert reason in found.reason
        assert found.again is again

    @pytest.mark.parametrize(("apart", "verdict"), [(0.066, Verdict.SAME), (0.072, Verdict.INCONCLUSIVE)])
    def test_samples_scatter_too_far_where_their_median_is_less_certain_than_the_band(
        self, apart: float, verdict: Verdict
    ) -> None:
        """2.33 * 1.253 / 1.349 / sqrt(100) of that: 1.43 and 1.56 %."""
        scattered = replace(NEW, q1=NEW.median * (1 - apart / 2), q3=NEW.median * (1 + apart / 2))
        assert judge(scattered, BAR).verdict is verdict

    def test_the_power_cap_spoils_no_time_at_the_same_clock(self) -> None:
        assert judge(replace(took(1.0), throttled=("power cap",)), BAR).verdict is Verdict.SAME

    def test_an_unknown_clock_is_named_and_compared_with_none(self) -> None:
        found = judge(replace(took(1.05), clock_mhz=0.0), BAR)
        assert found.verdict is Verdict.SLOWER
        assert "clock 1980 MHz -> unknown" in str(found)
        assert "clock unknown -> 1980 MHz" in str(judge(NEW, replace(BAR, clock_mhz=0.0)))

    def test_words_carry_all_numbers(self) -> None:
        assert str(judge(took(1.05), BAR)) == (
            "slower: slower in time, and against cublas: 100 us -> 105 us, +5.0 %, band 1.5 %; "
            "over cublas 1.111 -> 1.167, +5.0 %, band 1.5 %; clock 1980 MHz -> 1980 MHz"
        )

    @pytest.mark.parametrize(
        ("value", "text"), [(1.5, "1.5 s"), (2e-3, "2 ms"), (187.04e-6, "187 us"), (5e-9, "5 ns")]
    )
    def test_times_have_units(self, value: float, text: str) -> None:
        assert seconds(value) == text


class TestModes:
    @pytest.mark.parametrize(
        ("mode", "failing"),
        [
            ("normal", {Verdict.SLOWER}),
            ("strict", {Verdict.SLOWER, Verdict.FASTER, Verdict.INCONCLUSIVE}),
            ("off", set()),
        ],
    )
    def test_what_fails(self, mode: str, failing: set[Verdict]) -> None:
        assert {verdict for verdict in Verdict if verdict.fails(mode)} == failing  # type: ignore[arg-type]


class TestMeasuredAgain:
    SAME, SLOWER, FASTER = (judge(took(factor), BAR) for factor in (1.0, 1.05, 0.95))
    MACHINE = judge(took(1.05, vendor=1.05), BAR)

    @pytest.mark.parametrize(
        ("seen", "verdict"),
        [
            ([SLOWER], Verdict.SLOWER),
            ([SLOWER, SLOWER, SLOWER], Verdict.SLOWER),
            ([SLOWER, SAME], Verdict.SAME),
            ([SLOWER, MACHINE, SLOWER], Verdict.INCONCLUSIVE),
            ([MACHINE, MACHINE, MACHINE], Verdict.INCONCLUSIVE),
            ([FASTER, FASTER, FASTER], Verdict.FASTER),
            ([FASTER, FASTER, SLOWER], Verdict.INCONCLUSIVE),
        ],
    )
    def test_only_what_all_say_counts(self, seen: list[Judgement], verdict: Verdict) -> None:
        assert settle(seen).verdict is verdict

    def test_the_reason_says_how_often(self) -> None:
        assert "(measured 2 times, before: slower)" in settle([self.SLOWER, self.SAME]).reason
        assert "(measured 3 times)" in settle([self.SLOWER] * 3).reason
        assert settle([self.SLOWER, self.MACHINE]).reason == "measured 2 times: slower, inconclusive"


class _Machine:
    """Runs of one row, on machines that differ: each run's times have an error of their own, which its
    samples and repeats share; the vendor's time has some of it too. Seeded.

    noise: standard deviation between runs.  shared: of what the vendor's time has as well.
    within: between repeats in one run.
    """

    def __init__(self, seed: int, noise: float, shared: float = 0.0, within: float = 0.0005) -> None:
        self._rng = np.random.default_rng(seed)
        self._noise, self._shared, self._within = noise, shared, within

    def run(self, slowdown: float = 0.0, repeats: int = 3) -> list[Measurement]:
        machine = 1 + self._rng.normal(0, self._shared)
        ours, theirs = (machine * (1 + self._rng.normal(0, self._noise)) for _ in range(2))
        return [
            took(
                (1 + slowdown) * ours * (1 + self._rng.normal(0, self._within)),
                theirs * (1 + self._rng.normal(0, self._within)),
            )
            for _ in range(repeats)
        ]

    def bar(self, runs: int) -> Bar:
        taken = [self.run(repeats=1)[0] for _ in range(runs)]
        medians = [m.median for m in taken]
        vendor = [m.vendors["cublas"] for m in taken]
        noise = noise_of(medians, [{"cublas": time} for time in vendor])
        return replace(
            BAR,
            median=float(np.median(medians)),
            vendors={"cublas": float(np.median(vendor))},
            noise=noise.time,
            ratio_noise=noise.ratio,
            vendor_noise=noise.vendors_time,
            machine_noise=self._shared,
        )


def verdicts(
    noise: float, slowdown: float, shared: float = 0.0, runs: int = 5, rows: int = 1000
) -> Counter[Verdict]:
    """Verdicts on `rows` rows of this noise, each with a baseline of `runs` runs of its own."""
    machine = _Machine(round(noise * 1e6) + round(slowdown * 1e3), noise, shared)
    found: Counter[Verdict] = Counter()
    for _ in range(rows):
        bar = machine.bar(runs)
        seen: list[Judgement] = []
        for measured in machine.run(slowdown):
            seen.append(judge(measured, bar))
            if seen[-1].verdict is Verdict.SAME:
                break
        found[settle(seen).verdict] += 1
    return found


class TestErrors:
    """The noise of rows that were measured on an H200 is 0.1 to 0.4 % between runs."""

    @pytest.mark.parametrize("noise", [0.001, 0.002, 0.003, 0.004])
    def test_no_false_alarm_without_a_change(self, noise: float) -> None:
        found = verdicts(noise, 0.0)
        assert found[Verdict.SLOWER] + found[Verdict.FASTER] <= (0 if noise < 0.004 else 5)
        assert found[Verdict.INCONCLUSIVE] <= 20

    @pytest.mark.parametrize(("noise", "alarms"), [(0.001, 0), (0.002, 0), (0.003, 3), (0.004, 20)])
    def test_so_with_a_baseline_of_no_more_runs_than_promotion_wants(self, noise: float, alarms: int) -> None:
        found = verdicts(noise, 0.0, runs=GUARDS.runs)
        assert found[Verdict.SLOWER] + found[Verdict.FASTER] <= alarms

    def test_a_noisy_row_alarms_seldom(self) -> None:
        # The noise of a row is itself uncertain: of five runs it comes out at half one time in twenty, and
        # the lesser of two still more often.
        found = verdicts(0.01, 0.0, rows=2000)
        assert found[Verdict.SLOWER] + found[Verdict.FASTER] <= 100
        assert found[Verdict.SLOWER] <= 60

    @pytest.mark.parametrize("noise", [0.001, 0.002])
    def test_one_percent_is_left_alone(self, noise: float) -> None:
        assert verdicts(noise, 0.01)[Verdict.SLOWER] <= (5 if noise < 0.002 else 70)

    @pytest.mark.parametrize(
        ("noise", "slowdown", "share"),
        [
            (0.001, 0.02, 0.98),
            (0.001, 0.03, 0.999),
            (0.002, 0.03, 0.999),
            (0.002, 0.05, 0.999),
            (0.004, 0.03, 0.88),  # and most of the rest is inconclusive
            (0.004, 0.05, 0.99),
            (0.01, 0.10, 0.95),
        ],
    )
    def test_slowdowns_are_found(self, noise: float, slowdown: float, share: float) -> None:
        found = verdicts(noise, slowdown)
        assert found[Verdict.SLOWER] >= share * found.total()

    @pytest.mark.parametrize("noise", [0.001, 0.002])
    def test_machines_that_differ_hide_nothing_and_alarm_nobody(self, noise: float) -> None:
        unchanged = verdicts(noise, 0.0, shared=0.008)
        assert unchanged[Verdict.SLOWER] + unchanged[Verdict.FASTER] <= 5
        assert unchanged[Verdict.INCONCLUSIVE] <= 60  # beyond what five machines showed
        found = verdicts(noise, 0.03, shared=0.008)
        assert found[Verdict.SLOWER] >= 0.93 * found.total()
        assert found[Verdict.SAME] <= 0.03 * found.total()

    def test_what_a_row_says_it_can_find_it_finds(self) -> None:
        for noise, shared in ((0.001, 0.0), (0.003, 0.0), (0.006, 0.0), (0.001, 0.008)):
            machine = _Machine(11, noise, shared)
            time, ratio = (noise**2 + shared**2) ** 0.5, noise * 2**0.5
            bar = replace(BAR, vendors={"cublas": 90e-6}, noise=time, ratio_noise=ratio, vendor_noise=time)
            found = 0
            for _ in range(1000):
                # The baseline is one run: old and new each have the noise.
                old = machine.run(repeats=1)[0]
                judged = replace(bar, median=old.median, vendors={"cublas": old.vendors["cublas"]})
                slowdown = judge(NEW, judged).smallest
                found += judge(machine.run(slowdown, repeats=1)[0], judged).verdict is Verdict.SLOWER
            assert found >= 970, (noise, shared)

    def test_a_slower_machine_is_no_slower_kernel(self) -> None:
        machine = _Machine(3, 0.002)
        bar = machine.bar(5)
        alarms = 0
        for _ in range(1000):
            measured = machine.run(repeats=1)[0]
            vendors = {name: 1.05 * time for name, time in measured.vendors.items()}
            slower = replace(measured, median=1.05 * measured.median, vendors=vendors)
            alarms += judge(slower, bar).verdict is Verdict.SLOWER
        assert alarms == 0
