"""What both pages show of a report: states, counts, findings. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tilecheck.dtypes import DTYPES
from tilecheck.progress import duration
from tilecheck.report.model import (
    BAD,
    DIED,
    OUTCOMES,
    SECTIONS,
    Code,
    Kernel,
    Latency,
    Numerics,
    Report,
    Run,
    Search,
    Stored,
    Test,
)

State = Literal["passed", "failed", "crashed", "incomplete", "skipped", "not run"]


@dataclass(frozen=True)
class SectionView:
    """A section, over all runs.  counts: tests by outcome.  words: these, in a line."""

    name: str
    state: State
    seconds: float
    counts: Mapping[str, int]
    words: str


@dataclass(frozen=True)
class KernelView:
    """All that a report has of one kernel.

    numerics: of its cases, the largest share of the bound first.  schedules: the same under schedules of its
    grid.  history: its stored times, by GPU and row.
    """

    kernel: Kernel
    tests: tuple[Test, ...]
    numerics: tuple[Numerics, ...]
    schedules: tuple[Numerics, ...]
    code: tuple[Code, ...]
    latency: tuple[Latency, ...]
    searches: tuple[Search, ...]
    history: Mapping[str, Mapping[str, tuple[Stored, ...]]]

    @property
    def counts(self) -> Mapping[str, int]:
        return counts(self.tests)

    @property
    def failures(self) -> tuple[Test, ...]:
        return tuple(test for test in self.tests if test.outcome in BAD)

    @property
    def state(self) -> State:
        return _state(self.tests)

    @property
    def worst(self) -> Numerics | None:
        """The check that used most of its bound."""
        found = (*self.numerics, *self.schedules)
        return max(found, key=lambda each: each.budget_used, default=None)


@dataclass(frozen=True)
class Headline:
    """What a report says in one line, and in which state that leaves the run."""

    state: State
    words: str


def counts(tests: Iterable[Test]) -> dict[str, int]:
    """How many tests have each outcome, in the order of `OUTCOMES`; none that no test has."""
    found = Counter(test.outcome for test in tests)
    return {name: found[name] for name in OUTCOMES if found[name]}


def in_words(found: Mapping[str, int]) -> str:
    """Counts in a line, what is bad first."""
    names = {"xfailed": "failed as expected", "xpassed": "passed unexpectedly", "error": "errors"}
    ordered = sorted(found, key=lambda name: (name not in BAD, OUTCOMES.index(name)))
    return ", ".join(f"{found[name]:,} {names.get(name, name)}" for name in ordered)


def failures(report: Report) -> list[Test]:
    """The tests that make the run fail, section by section."""
    bad = [test for test in report.tests if test.outcome in BAD]
    return sorted(bad, key=lambda test: (SECTIONS.index(test.section), test.kernel))


def headline(report: Report) -> Headline:
    """The whole report in one line."""
    found = counts(report.tests)
    total = sum(found.values())
    bad = sum(found.get(name, 0) for name in BAD)
    if broken := [run.ended for run in report.runs if run.ended != "complete"]:
        return _ended_early(broken[0], total, bad)
    if bad:
        return Headline("failed", f"{bad:,} of {total:,} tests failed")
    if not total:
        return Headline("not run", "nothing was run")
    if any(run.exit not in (0, None) for run in report.runs):
        codes = ", ".join(str(run.exit) for run in report.runs if run.exit)
        return Headline("failed", f"no test failed, and pytest ended with exit code {codes}")
    if found.get("skipped") == total:
        return Headline("skipped", f"all {total:,} tests were skipped")
    others = {name: n for name, n in found.items() if name in ("xfailed", "xpassed")}
    passed = found.get("passed", 0)
    told = f"{passed:,} {'test' if passed == 1 else 'tests'} passed"
    words = ", ".join(filter(None, (told, in_words(others))))
    simulated = "" if any(run.device == "cuda" for run in report.runs) else ", on the simulator"
    return Headline("passed", f"{words}{simulated}")


def _ended_early(ended: str, total: int, bad: int) -> Headline:
    if ended.startswith("refused"):
        return Headline("failed", ended)
    crashed = ended == DIED or ended.startswith("internal error")
    state: State = "crashed" if crashed else "failed" if bad else "incomplete"
    after = f" after {total:,} tests, {bad:,} of which failed" if total else ""
    return Headline(state, f"ended early{after}: {ended}")


def sections(report: Report) -> list[SectionView]:
    """Each section of the runs, in their order; "other" only where there is anything in it."""
    views = []
    for name in SECTIONS:
        of_runs = [section for run in report.runs for section in run.sections if section.name == name]
        tests = [test for test in report.tests if test.section == name]
        seconds = sum(section.seconds for section in of_runs)
        if name == "environment":
            views.append(_environment(report, seconds))
            continue
        planned = [section.planned for section in of_runs]
        known = None if None in planned else sum(each or 0 for each in planned)
        if name == "other" and not tests and not known:
            continue
        found = counts(tests)
        state = _state(tests, known)
        words = in_words(found) or ("" if state == "not run" else f"0 of {known} run")
        if tests and known and known > len(tests):
            words += f"; {known - len(tests):,} not run"
        views.append(SectionView(name, state, seconds, found, words))
    return views


def kernels(report: Report) -> list[KernelView]:
    """The kernels of which the report has anything but stored times, in the specs' order."""
    views = []
    for kernel in report.kernels:
        name, prefix = kernel.name, f"{kernel.name.replace('_', '-')}-"
        numerics = [each for each in report.numerics if each.kernel == name]
        history = {
            history.gpu: _by_row(row for row in history.rows if row.row.startswith(prefix))
            for history in report.history
        }
        view = KernelView(
            kernel=kernel,
            tests=tuple(test for test in report.tests if test.kernel == name),
            numerics=tuple(_worst_first(each for each in numerics if not _scheduled(each))),
            schedules=tuple(_worst_first(filter(_scheduled, numerics))),
            code=tuple(each for each in report.code if each.kernel == name),
            latency=tuple(each for each in report.latency if each.kernel == name),
            searches=tuple(each for each in report.searches if each.kernel == name),
            history={gpu: rows for gpu, rows in history.items() if rows},
        )
        if view.tests or view.numerics or view.schedules or view.code or view.latency:
            views.append(view)
    return views


def took(seconds: float) -> str:
    """A time span for a table; "" for none."""
    return duration(seconds) if seconds >= 0.05 else "" if seconds == 0 else "< 0.1 s"


def under_way(run: Run, most: int = 3) -> str:
    """The tests that were under way the longest when the run was ended, at most so many; "" for none."""
    told = [f"{test.rpartition('/')[2]} for {duration(took)}" for test, took in run.under_way.items()]
    more = [f"{len(told) - most} more"] if len(told) > most else []
    return ", ".join([*told[:most], *more])


def moment(iso: str) -> str:
    """A time of day as people read it: "2026-01-31 14:05 UTC"; anything else as it is."""
    day, _, time = iso.partition("T")
    return f"{day} {time[:5]} UTC" if time.endswith("+00:00") else iso


def share(used: float) -> str:
    """A share of a bound, as the summary of a run has it: "inf" for any error where no bit may differ."""
    return f"{used:.2f}" if used < 100 else f"{used:.3g}"


def short(dtype: str) -> str:
    """The short name of an element type, if it is one."""
    return DTYPES[dtype].short if dtype in DTYPES else dtype


def _scheduled(numerics: Numerics) -> bool:
    return numerics.section == "schedules"


def _worst_first(found: Iterable[Numerics]) -> list[Numerics]:
    return sorted(found, key=lambda each: -each.budget_used)


def _by_row(rows: Iterable[Stored]) -> dict[str, tuple[Stored, ...]]:
    found: dict[str, list[Stored]] = {}
    for row in rows:
        found.setdefault(row.row, []).append(row)
    return {name: tuple(each) for name, each in found.items()}


def _state(tests: Iterable[Test], planned: int | None = None) -> State:
    found = counts(tests)
    total = sum(found.values())
    if found.get("crashed"):
        return "crashed"
    if any(found.get(name) for name in BAD):
        return "failed"
    if planned and total < planned:
        return "incomplete"
    if not total:
        return "not run"
    return "skipped" if found.get("skipped") == total else "passed"


def _environment(report: Report, seconds: float) -> SectionView:
    early = [run for run in report.runs if run.ended != "complete" and run.sections and not _planned(run)]
    if not early:
        words = ", ".join(dict.fromkeys(run.label for run in report.runs))
        return SectionView("environment", "passed", seconds, {}, words)
    refused = early[0].ended.startswith("refused")
    return SectionView("environment", "failed" if refused else "crashed", seconds, {}, early[0].ended)


def _planned(run: Run) -> bool:
    """Whether a run got as far as having its tests together."""
    return any(section.planned is not None for section in run.sections)
