"""Times a row for a test: right first, then timed, then compared with what is stored.

Nothing of a wrong kernel is stored. A verdict that would fail is measured twice more, after a pause, as a
disturbance passes and a slower kernel stays. The samples of the last measurement enter pytest-benchmark.
"""

import json
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tilecheck.files import shown
from tilecheck.gist import toolchain_changes
from tilecheck.latency import bench
from tilecheck.latency.baselines import StoredRow, libraries_of, orphaned
from tilecheck.latency.gate import (
    Judgement,
    Measurement,
    Verdict,
    fastest,
    judge,
    obstacle,
    seconds,
    settle,
)
from tilecheck.plugin.carried import carried_by_call
from tilecheck.plugin.checking import Checker
from tilecheck.plugin.repeat import test_command
from tilecheck.plugin.rows import KernelCase
from tilecheck.plugin.timing.clock import CLOCK
from tilecheck.plugin.timing.mode import ADVICE, latency_run
from tilecheck.plugin.timing.rows import latency_rows

if TYPE_CHECKING:
    from tilecheck.device import Device
    from tilecheck.latency.timing import Samples

AGAIN = 2
"""How often a verdict that would fail is measured again."""

PAUSE = 5.0
"""Seconds before that."""

LATENCY = "tilecheck-latency"
"""Name of the user property of a test's report that holds its `LatencyRecord`, as JSON."""


class OffBaseline(AssertionError):
    """A row fails by its time, or for want of a stored one; the kernel is right."""


@dataclass(frozen=True)
class LatencyRecord:
    """What a row took; travels with the test's report.

    median, q1, q3: seconds.  samples: how many, taken by `method` at `clock_mhz`.
    vendor, ratio: the fastest of the vendors, and our time over its; "" and None without.
    vendors: medians of all, by name.  tflops, gbs: what is reached; None for a kernel without a cost.
    roofline: share of the roof.  peak_flops, peak_bytes: the roof, a second.  None: unknown.
    verdict: a value of `gate.Verdict`, "new" for a row without a stored time, "" without a comparison.
    old: the baseline's median.  change: of the time.  band, smallest: see `gate.Judgement`.
    words: of the verdict.  toolchain: what differs from the baseline's.  gone: the vendor that the noise of
    the baseline's ratio is of, where it was not timed now.
    """

    row: str
    median: float
    vendor: str
    ratio: float | None
    roofline: float | None
    verdict: str = ""
    change: float | None = None
    words: str = ""
    toolchain: str = ""
    gone: str = ""
    q1: float | None = None
    q3: float | None = None
    samples: int = 0
    method: str = ""
    clock_mhz: float = 0.0
    vendors: Mapping[str, float] = field(default_factory=dict)
    tflops: float | None = None
    gbs: float | None = None
    peak_flops: float | None = None
    peak_bytes: float | None = None
    old: float | None = None
    band: float | None = None
    smallest: float | None = None
    schedule: str = ""


class RowStopwatch:
    """What a test times its row with."""

    def __init__(self, item: pytest.Item, checker: Checker, bench: bench.Bench) -> None:
        self._item, self._checker, self._bench = item, checker, bench
        self._run = latency_run(item.config)
        self._toolchain = _toolchain(item.config)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._run.gpu}>"

    def measure(self, row: KernelCase, benchmark: Any) -> None:
        """Checks the row's kernel, times it and its vendors in turn, and hands the samples to `benchmark`.

        Raises OffBaseline where its time fails the run, AssertionError where it is wrong or was not timed.
        """
        __tracebackhide__ = True
        self._checker.conformance(row)
        stored = self._run.bar.rows.get(row.id) if self._run.bar else None
        timed = self._timed(row, stored)
        judgement = None
        if stored is not None:
            timed, judgement = self._judged(row, stored, timed)
        record = self._record(row, timed, stored, judgement)
        benchmark.extra_info.update(self._extra_info(row, timed, stored, record))
        benchmark.pedantic(CLOCK.player(timed.ours.seconds), rounds=len(timed.ours.seconds), iterations=1)
        _replace(self._item.user_properties, LATENCY, json.dumps(asdict(record)))
        if self._run.gates and stored is None:
            raise OffBaseline(self._new(row, record))
        if judgement is not None and judgement.verdict.fails(self._run.mode):
            raise OffBaseline("\n".join(self._off(row, judgement, record)))
        if stored is not None and (over := self._over_limits(stored, benchmark)):
            raise OffBaseline(f"{row.id} fails by --benchmark-compare-fail: {over}\n{self._repeat()}")

    def _timed(self, row: KernelCase, stored: StoredRow | None) -> bench.Timed:
        __tracebackhide__ = True
        from tilecheck.latency.timing import TimingError

        try:
            method = stored.method if stored else None
            return self._bench.time(row.spec, row.case, self._checker.seed, method)
        except TimingError as error:
            raise AssertionError(f"{row.id} was not timed: {error}\n{self._repeat()}") from None

    def _judged(
        self, row: KernelCase, stored: StoredRow, timed: bench.Timed
    ) -> tuple[bench.Timed, Judgement]:
        judgements = [judge(measurement(timed, self._toolchain), stored.bar)]
        while (
            len(judgements) <= AGAIN and judgements[-1].again and judgements[-1].verdict.fails(self._run.mode)
        ):
            time.sleep(PAUSE)
            timed = self._timed(row, stored)
            judgements.append(judge(measurement(timed, self._toolchain), stored.bar))
        return timed, settle(judgements)

    def _over_limits(self, stored: StoredRow, benchmark: Any) -> str:
        found = (limit.fails(benchmark.stats, stored.raw["stats"]) for limit in self._run.limits)
        return "; ".join(filter(None, found))

    def _record(
        self, row: KernelCase, timed: bench.Timed, stored: StoredRow | None, judgement: Judgement | None
    ) -> LatencyRecord:
        medians = {name: samples.median for name, samples in timed.vendors.items()}
        vendor = fastest(medians, medians)
        roof = timed.rates.roof if timed.rates else None
        measured = stored.bar.measured if stored else None
        return LatencyRecord(
            row=row.id,
            median=timed.ours.median,
            vendor=vendor or "",
            ratio=timed.ours.median / medians[vendor] if vendor else None,
            roofline=timed.rates.roofline if timed.rates else None,
            verdict=judgement.verdict.value if judgement else "new" if self._run.bar else "",
            change=judgement.change if judgement else None,
            words=str(judgement) if judgement else "",
            toolchain=toolchain_changes(stored.toolchain, self._toolchain) if stored else "",
            gone=measured if measured and measured not in timed.vendors else "",
            q1=timed.ours.q1,
            q3=timed.ours.q3,
            samples=len(timed.ours.seconds),
            method=timed.ours.method,
            clock_mhz=timed.ours.clock_mhz,
            vendors=medians,
            tflops=timed.rates.tflops if timed.rates else None,
            gbs=timed.rates.gbs if timed.rates else None,
            peak_flops=roof.flops if roof else None,
            peak_bytes=roof.bytes if roof else None,
            old=judgement.old if judgement else None,
            band=judgement.band if judgement else None,
            smallest=judgement.smallest if judgement else None,
            schedule=timed.schedule,
        )

    def _extra_info(
        self, row: KernelCase, timed: bench.Timed, stored: StoredRow | None, record: LatencyRecord
    ) -> dict[str, Any]:
        ours, rates = timed.ours, timed.rates
        return {
            "kernel": row.spec.name,
            "case": row.case.id,
            "method": ours.method,
            "q1": ours.q1,
            "q3": ours.q3,
            "vendors": {name: samples.median for name, samples in timed.vendors.items()},
            "vendor": record.vendor,
            "vendor_ratio": record.ratio,
            "tflops": rates.tflops if rates else None,
            "gbs": rates.gbs if rates else None,
            "roofline": record.roofline,
            "clock_mhz": ours.clock_mhz,
            "cycles": ours.cycles,
            "retaken": ours.retaken,
            "throttled": list(ours.throttled),
            "schedule": timed.schedule,
            "source_hash": timed.source_hash,
            "toolchain": self._toolchain,
            **_known_noise(timed, stored),
            "verdict": record.verdict,
        }

    def _off(self, row: KernelCase, judgement: Judgement, record: LatencyRecord) -> Iterator[str]:
        bar = self._run.bar
        assert bar is not None
        yield f"{row.id} on {self._run.gpu} is {judgement.verdict.value}: {judgement.reason}"
        yield f"  {judgement.numbers}"
        yield f"  smallest slowdown that this row can find: {judgement.smallest * 100:.1f} %"
        changed = f"; toolchain changed: {record.toolchain}" if record.toolchain else ""
        yield f"  baseline: {shown(bar.path)}{changed}"
        if judgement.verdict is Verdict.FASTER:
            yield f"  its baseline is stale: up to it, a slowdown would pass unseen; {ADVICE}"
        yield self._repeat()

    def _new(self, row: KernelCase, record: LatencyRecord) -> str:
        bar = self._run.bar
        assert bar is not None
        lost = orphaned([r.id for r in latency_rows(self._item.config)], bar.rows)
        renamed = f", or renamed from one of {', '.join(lost[:5])}" if lost else ""
        return (
            f"{row.id} has no time in {shown(bar.path)}: the row is new{renamed}; it takes "
            f"{seconds(record.median)}. {ADVICE}\n{self._repeat()}"
        )

    def _repeat(self) -> str:
        bar = self._run.bar
        how = f"--benchmark-compare={bar.path.name[:4]}" if bar else "-m latency"
        return f"repeat: {test_command(self._item.config, self._item.nodeid)} {how}"


def measurement(timed: bench.Timed, toolchain: dict[str, str]) -> Measurement:
    """What a verdict is made of, of a row that was timed with these versions."""
    ours = timed.ours
    return Measurement(
        median=ours.median,
        q1=ours.q1,
        q3=ours.q3,
        samples=len(ours.seconds),
        method=ours.method,
        clock_mhz=ours.clock_mhz,
        throttled=ours.throttled,
        vendors={name: samples.median for name, samples in timed.vendors.items()},
        theirs={name: why for name, its in timed.vendors.items() if (why := _untrusted(its))},
        libraries=libraries_of(toolchain),
        driver=toolchain.get("driver", ""),
    )


def _untrusted(its: "Samples") -> str | None:
    """Why a vendor's time says nothing of ours. At which clock it runs is no reason: it may always draw more
    power than ours does.
    """
    return obstacle(its.throttled, its.clock_mhz, 0.0, its.uncertainty, len(its.seconds), noise=0.0)


def _known_noise(timed: bench.Timed, stored: StoredRow | None) -> dict[str, Any]:
    """What is known of a row's noise goes on, should this run be stored by --benchmark-save, as far as it is
    of what was timed now: the same method, and the same vendor.
    """
    time = stored if stored and stored.method == timed.ours.method else None
    ratio = time if time and time.bar.measured in timed.vendors else None
    return {
        "noise": time.noise if time else None,
        "machine_noise": time.machine_noise if time else 0.0,
        "ratio_noise": ratio.ratio_noise if ratio else None,
        "vendor_noise": ratio.vendor_noise if ratio else None,
        "steadiest": ratio.steadiest if ratio else "",
    }


def _replace(properties: list[tuple[str, Any]], name: str, value: str) -> None:
    """The property of a test that may have run before, if failed ones are run again."""
    properties[:] = [(n, v) for n, v in properties if n != name] + [(name, value)]


_toolchain_key = pytest.StashKey[dict[str, str]]()


def _toolchain(config: pytest.Config) -> dict[str, str]:
    if _toolchain_key not in config.stash:
        config.stash[_toolchain_key] = bench.toolchain()
    return config.stash[_toolchain_key]


_bench_key = pytest.StashKey[bench.Bench]()


def bench_in_use(config: pytest.Config) -> bench.Bench | None:
    """The bench of this run; None as long as no test has asked for it."""
    return config.stash.get(_bench_key, None)


@pytest.fixture(scope="session")
def tilecheck_bench(request: pytest.FixtureRequest, tilecheck_device: "Device") -> Iterator[bench.Bench]:
    """What times rows on this run's GPU."""
    try:
        opened, monitor = bench.open_bench(tilecheck_device)  # type: ignore[arg-type]  # there is a GPU
    except RuntimeError as error:
        pytest.fail(str(error), pytrace=False)
    with monitor:
        request.config.stash[_bench_key] = opened
        yield opened


@pytest.fixture
def stopwatch(request: pytest.FixtureRequest, checker: Checker, tilecheck_bench: bench.Bench) -> RowStopwatch:
    """Times the row of a test, and compares it with what is stored."""
    return RowStopwatch(request.node, checker, tilecheck_bench)


def latency_records(reports: Iterable[Any]) -> list[LatencyRecord]:
    """The records that these reports of tests carry."""
    return [
        LatencyRecord(**json.loads(text))
        for report in reports
        for text in carried_by_call(report, LATENCY)
        if report.outcome != "rerun"
    ]


_failed_key = pytest.StashKey[list[str]]()


def failed_tests(config: pytest.Config) -> list[str]:
    """Ids of the tests of this run that failed, but for those that failed by their time alone."""
    return config.stash.setdefault(_failed_key, [])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report: Any = yield
    by_time = call.excinfo is not None and isinstance(call.excinfo.value, OffBaseline)
    if report.failed and not by_time and item.nodeid not in failed_tests(item.config):
        failed_tests(item.config).append(item.nodeid)
    return report
