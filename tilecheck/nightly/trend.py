"""What the trend page shows of the nights on record: how each went, how times and errors moved, what the
newest TileLang gave. Pure.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tilecheck.counting import many
from tilecheck.nightly.drift import FALSE_ALARMS, FEWEST, Drift, drifts
from tilecheck.nightly.history import Past, series
from tilecheck.nightly.night import Checked, Night, Time, Upgraded
from tilecheck.nightly.plan import LIMITS
from tilecheck.nightly.triage import drift_lines
from tilecheck.nightly.verdict import INTERRUPTED, TENS, in_words
from tilecheck.report import sparks
from tilecheck.report.overview import State

MOST = 400
"""Nights that are shown, the last ones; the folder has them all."""

FIRST = 10
"""Nights at the beginning that a kernel's later times are set against."""

_TOLD = 20
"""Lines on what is not as it should be with the record that are shown."""

_NARROW, _LOW, _HIGH = math.log(1.03), math.log(0.75), math.log(1.35)
"""Of a row's picture, about its stored time: the least half of it, so that noise looks as small as it is, and
the lowest and the highest that is drawn to scale.
"""

_STATES: Mapping[str, State] = {
    "passed": "passed",
    "failed": "failed",
    "broken": "crashed",
    "hung": "crashed",
    "interrupted": "incomplete",
    "refused": "not run",
    "skipped": "not run",
}


def looks(state: str) -> State:
    """How a stage's state looks; one that this version does not know, as unfinished."""
    return _STATES.get(state, "incomplete")


def ran_for(night: Night, stage: str) -> float | None:
    """Seconds that a stage took; None where it was not run, or they are not known."""
    return None if looks(night.stages.get(stage, "skipped")) == "not run" else night.seconds.get(stage)


@dataclass(frozen=True)
class NightView:
    """words: its verdict.  seconds: of all stages; None: not known.
    new: "commit", "tilelang", "driver", as far as they are not those of the night before.
    """

    night: Night
    state: State
    words: str
    seconds: float | None
    new: frozenset[str]

    @property
    def tilelang(self) -> str:
        return self.night.toolchain.get("tilelang", "")

    @property
    def driver(self) -> str:
        return self.night.toolchain.get("driver", "")


@dataclass(frozen=True)
class StageView:
    """A stage over the nights.

    bars: by look, the nights on which it was so, as a path; those on which it passed as a line.
    last: its state in the last night; "": not run.
    bad: nights on which it failed, was broken or hung.  nights: on which it was asked for.
    seconds: in the last night.  usual: the median of those on which it passed.
    """

    name: str
    bars: Mapping[State, str]
    last: str
    bad: int
    nights: int
    last_bad: str
    seconds: float | None
    usual: float | None


@dataclass(frozen=True)
class Picture:
    """Paths.  band: within which a row is the same.  base: the stored time, or the bound.
    line: through the nights.  drift: the part of it that drifts.  marks: nights that stand out, by verdict.
    last: the last point.
    """

    line: str
    last: str = ""
    band: str = ""
    base: str = ""
    drift: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowView:
    """A latency row.  time: the last that it has.  date: of that.  nights: that have it, taken alike.
    change: of the last from the stored time.  low, high: of all nights', from the same, or from their median.
    drift: None: none.  drift_line: that in words, and whether the kernel or the machine drifts.
    """

    row: str
    time: Time
    date: str
    nights: int
    change: float | None
    low: float
    high: float
    picture: Picture
    drift: Drift | None = None
    drift_line: str = ""


@dataclass(frozen=True)
class KernelTrend:
    """How right a kernel was.  now: in the last night that checked it, on `date`.
    worst: the largest share of a bound in all nights, on `worst_date`.
    bad: nights on which a test of it failed, the last on `last_bad`.  nights: on which it was checked.
    """

    name: str
    now: Checked
    date: str
    worst: Checked
    worst_date: str
    bad: int
    last_bad: str
    nights: int
    picture: Picture | None


@dataclass(frozen=True)
class UpgradeView:
    """Nights on end on which the newest TileLang gave the same.

    words: which it was, or why there was none.  result: None: none came out.
    """

    since: str
    until: str
    nights: int
    words: str
    result: Upgraded | None


@dataclass(frozen=True)
class Trend:
    """The nights of a GPU model.

    nights: the newest first.  older: how many are not shown.  levels: the times of each kernel's rows against
    its first nights', in the middle, by night.  timed: how many nights have times, and may show a drift.
    """

    gpu: str
    state: State
    words: str
    nights: tuple[NightView, ...]
    older: int
    stages: tuple[StageView, ...]
    rows: tuple[RowView, ...]
    levels: Mapping[str, tuple[float | None, ...]]
    timed: int
    kernels: tuple[KernelTrend, ...]
    upgrades: tuple[UpgradeView, ...]
    told: tuple[str, ...]

    @property
    def drifting(self) -> list[RowView]:
        """The rows that become slower, the largest change first."""
        found = [(row.drift.total, row) for row in self.rows if row.drift]
        return [row for _, row in sorted(found, key=lambda each: -each[0])]


def trend(gpu: str, past: Past) -> Trend:
    """The nights of one GPU model, as the page shows them."""
    kept = past.nights[-MOST:]
    rows, timed = _rows(kept)
    drifting = sum(row.drift is not None for row in rows)
    state, words = _headline(kept, drifting) if kept else _without_nights(past.unread)
    told = past.told[:_TOLD]
    if len(past.told) > _TOLD:
        told = (*told, f"and {many(len(past.told) - _TOLD, 'more line')}")
    return Trend(
        gpu=gpu,
        state=state,
        words=words,
        nights=tuple(_nights(kept))[::-1],
        older=len(past.nights) - len(kept),
        stages=tuple(_stages(kept)),
        rows=tuple(rows),
        levels=_levels(kept),
        timed=timed,
        kernels=tuple(_kernels(kept)),
        upgrades=tuple(_upgrades(kept)),
        told=told,
    )


def _without_nights(unread: int) -> tuple[State, str]:
    if not unread:
        return "not run", "No night on record"
    if unread == 1:
        return "incomplete", "The only line on record cannot be read"
    return "incomplete", f"None of {unread} lines on record can be read"


def _headline(nights: Sequence[Night], drifting: int) -> tuple[State, str]:
    last = nights[-1].exit_code
    on_end = 0
    for night in reversed(nights):
        if _state_of(night.exit_code) != _state_of(last):
            break
        on_end += 1
    words = "Green" if last == 0 else "Interrupted" if last == INTERRUPTED else "Red"
    if on_end > 1:
        words += f" for {on_end} nights"
    if last not in (0, INTERRUPTED):
        words += f": {in_words(last)}"
    if drifting:
        words += f", {drifting} {'row drifts' if drifting == 1 else 'rows drift'}"
    # A night that is green while rows drift is not all well, nor did anything fail.
    return "incomplete" if last == 0 and drifting else _state_of(last), words


def _state_of(code: int) -> State:
    return "passed" if code == 0 else "incomplete" if code == INTERRUPTED else "failed"


# Nights and stages


def _nights(nights: Sequence[Night]) -> Iterator[NightView]:
    before: dict[str, str] = {}
    for night in nights:
        now = {
            "commit": night.commit,
            "tilelang": night.toolchain.get("tilelang", ""),
            "driver": night.toolchain.get("driver", ""),
        }
        yield NightView(
            night=night,
            state=_state_of(night.exit_code),
            words=in_words(night.exit_code),
            seconds=sum(night.seconds.values()) if night.seconds else None,
            new=frozenset(name for name, old in before.items() if now[name] != old),
        )
        before = now


def _stages(nights: Sequence[Night]) -> Iterator[StageView]:
    there = {name for night in nights for name in night.stages}
    for name in (*(each for each in LIMITS if each in there), *sorted(there - LIMITS.keys())):
        states = [night.stages.get(name, "") for night in nights]
        places: dict[State, list[int]] = {}
        for place, state in enumerate(states):
            if state:
                places.setdefault(looks(state), []).append(place)
        bad = [place for place, state in enumerate(states) if state in TENS]
        times = [
            night.seconds[name]
            for night, state in zip(nights, states, strict=True)
            if state == "passed" and name in night.seconds
        ]
        yield StageView(
            name=name,
            bars={look: sparks.strip(found, len(nights), look == "passed") for look, found in places.items()},
            last=states[-1],
            bad=len(bad),
            nights=sum(map(bool, states)),
            last_bad=nights[bad[-1]].date if bad else "",
            seconds=ran_for(nights[-1], name),
            usual=statistics.median(times) if times else None,
        )


# Latency


def _rows(nights: Sequence[Night]) -> tuple[list[RowView], int]:
    """What drifts, what is not as it was, all else; and how many nights have times at all."""
    timed = [night for night in nights if night.times]
    if not timed:
        return [], 0
    found, ratios = drifts(series(timed)), series(timed, "ratio")
    lines = drift_lines(found, drifts(ratios), ratios)
    drifting = {drift.row: (drift, line) for drift, line in zip(found, lines, strict=True)}
    names = sorted({row for night in timed for row in night.times})
    views = [_row(name, nights, *drifting.get(name, (None, ""))) for name in names]
    return sorted(views, key=lambda view: (view.drift is None, view.time.verdict in ("same", ""))), len(timed)


def _row(name: str, nights: Sequence[Night], drift: Drift | None, drift_line: str) -> RowView:
    times = _alike([night.times.get(name) for night in nights])
    there = [(night, time) for night, time in zip(nights, times, strict=True) if time]
    last_night, last = there[-1]
    medians = [time.median for _, time in there]
    about = last.old or statistics.median(medians)
    return RowView(
        row=name,
        time=last,
        date=last_night.date,
        nights=len(there),
        change=last.median / last.old - 1 if last.old else None,
        low=min(medians) / about - 1,
        high=max(medians) / about - 1,
        picture=_picture_of_row(times, about, drift.nights if drift else 0),
        drift=drift,
        drift_line=drift_line,
    )


def _alike(times: Sequence[Time | None]) -> list[Time | None]:
    """The times that were taken as the last one was; None in the places of others."""
    last = next(time for time in reversed(times) if time)
    return [time if time and time.method == last.method else None for time in times]


def _picture_of_row(times: Sequence[Time | None], about: float, drifting: int) -> Picture:
    values = [math.log(time.median / about) if time else None for time in times]
    stored = [math.log(time.old / about) if time and time.old else None for time in times]
    lower, upper = ([_edge(time, about, side) for time in times] for side in (-1, 1))
    reached = [value for value in (*values, *lower, *upper) if value is not None]
    high = min(max(*reached, _NARROW) * 1.1, _HIGH)
    low = max(min(*reached, -_NARROW) * 1.1, _LOW)
    xs, ys = sparks.across(len(times)), sparks.heights(values, low, high)
    points = [(x, y, time) for x, y, time in zip(xs, ys, times, strict=True) if y is not None and time]
    window = points[-drifting:] if drifting else []
    return Picture(
        line=sparks.line(xs, ys),
        last=sparks.dots([points[-1][:2]]),
        band=sparks.area(xs, sparks.heights(lower, low, high), sparks.heights(upper, low, high)),
        base=sparks.line(xs, sparks.heights(stored, low, high)),
        drift=sparks.line([x for x, *_ in window], [y for _, y, _ in window]),
        marks={
            verdict: sparks.dots((x, y) for x, y, time in points if time.verdict == verdict)
            for verdict in ("inconclusive", "faster", "slower")
            if any(time.verdict == verdict for *_, time in points)
        },
    )


def _edge(time: Time | None, about: float, side: int) -> float | None:
    """Of the band about the stored time, the lower one if `side` is -1."""
    return math.log(time.old / about) + side * time.band if time and time.old and time.band else None


def _levels(nights: Sequence[Night]) -> dict[str, tuple[float | None, ...]]:
    changes: dict[str, list[list[float]]] = {}
    seen: dict[tuple[str, str], list[float]] = {}
    for night in nights:
        for row, time in night.times.items():
            if len(first := seen.setdefault((row, time.method), [])) < FIRST:
                first.append(time.median)
    firsts = {key: statistics.median(values) for key, values in seen.items()}
    for place, night in enumerate(nights):
        for row, time in night.times.items():
            if time.kernel:
                by_night = changes.setdefault(time.kernel, [[] for _ in nights])
                by_night[place].append(time.median / firsts[row, time.method] - 1)
    return {
        kernel: tuple(statistics.median(each) if each else None for each in by_night)
        for kernel, by_night in sorted(changes.items())
    }


# Correctness


def _kernels(nights: Sequence[Night]) -> Iterator[KernelTrend]:
    for name in dict.fromkeys(name for night in reversed(nights) for name in night.kernels):
        found = [(night, night.kernels[name]) for night in nights if name in night.kernels]
        bad = [night for night, checked in found if checked.failed]
        worst_night, worst = max(found, key=lambda each: each[1].budget_used or 0.0)
        yield KernelTrend(
            name=name,
            now=found[-1][1],
            date=found[-1][0].date,
            worst=worst,
            worst_date=worst_night.date,
            bad=len(bad),
            last_bad=bad[-1].date if bad else "",
            nights=len(found),
            picture=_picture_of_budget([night.kernels.get(name) for night in nights])
            if worst.budget_used
            else None,
        )


def _picture_of_budget(found: Sequence[Checked | None]) -> Picture:
    values = [checked.budget_used if checked else None for checked in found]
    xs, ys = sparks.across(len(found)), sparks.heights(values, 0.0, 1.25)
    (bound,) = sparks.heights([1.0], 0.0, 1.25)
    points = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
    bad = [
        (x, y)
        for x, y, checked in zip(xs, ys, found, strict=True)
        if y is not None and checked and checked.failed
    ]
    return Picture(
        line=sparks.line(xs, ys),
        last=sparks.dots(points[-1:]),
        base=f"M0 {bound}H{sparks.WIDTH}",
        marks={"slower": sparks.dots(bad)} if bad else {},
    )


# The newest TileLang


def _upgrades(nights: Sequence[Night]) -> list[UpgradeView]:
    """The newest first; equal nights on end are one."""
    told = [night for night in nights if night.newest or night.upgrade]
    runs = [list(run) for _, run in groupby(told, key=lambda night: (night.newest, night.upgrade))]
    return [
        UpgradeView(run[0].date, run[-1].date, len(run), run[-1].newest, run[-1].upgrade)
        for run in reversed(runs)
    ]


def no_drift(found: Trend) -> str:
    """Where no row drifts: what that is worth."""
    if found.timed < FEWEST:
        there = f"{found.timed} {'is' if found.timed == 1 else 'are'} on record"
        return f"Slow drift is looked for from {FEWEST} nights on; {there}."
    return f"No slow drift in {found.timed} nights (a false alarm once in {1 / FALSE_ALARMS:g} nights)."
