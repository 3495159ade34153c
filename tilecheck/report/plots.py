"""Plots of a report, as SVG that stands in a page: its colours and fonts are the page's, light or dark.

matplotlib draws with colours that stand for those of the page; what it wrote is then edited. Points tell what
they are when they are pointed at.
"""

import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from itertools import count
from typing import TYPE_CHECKING, Any

from tilecheck.latency.gate import seconds as in_seconds
from tilecheck.report.model import Latency, Numerics, Stored
from tilecheck.report.overview import share, short
from tilecheck.report.roofs import Point, Roof

if TYPE_CHECKING:
    from collections.abc import Iterator

# Colours that no plot has for itself, and the page's variables that take their places.
_VARIABLES = (
    "ink",
    "muted",
    "line",
    "wash",
    "good",
    "bad",
    "warn",
    "series-1",
    "series-2",
    "series-3",
    "series-4",
)
_COLOR = {name: f"#0102{i:02x}" for i, name in enumerate(_VARIABLES, 3)}

_MARKERS = ("o", "s", "D", "^")
_SERIES = ("series-1", "series-2", "series-3", "series-4")
_OF_VERDICT = {"slower": "bad", "inconclusive": "warn", "faster": "series-1", "same": "good"}

_WIDTH = 7.2
"""Inches, of 72 pixels each."""

_MOST_ROWS = 60
"""Rows of a plot of latency; more would not be read."""

_numbers = count(1)


def budget_plot(found: Sequence[Numerics]) -> str:
    """How much of its bound each case uses: a strip of points for each element type."""
    groups: dict[str, list[Numerics]] = {}
    for each in sorted(found, key=lambda each: short(each.dtype)):
        groups.setdefault(short(each.dtype), []).append(each)
    height = 0.62 + 0.42 * len(groups)
    with _figure(height) as (figure, done):
        axes = figure.subplots()
        axes.set_xlim(-0.02, 1.22)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.axvspan(1, 1.22, color=_COLOR["wash"], linewidth=0)
        axes.axvline(1, color=_COLOR["bad"], linewidth=1)
        axes.set_yticks(range(len(groups)), list(groups))
        axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1], ["0", "0.2", "0.4", "0.6", "0.8", "the bound"])
        _quiet(axes)
        titles = []
        for level, members in enumerate(groups.values()):
            for wrong in (False, True):
                points = [each for each in members if (each.budget_used > 1) is wrong]
                if points:
                    xs = [min(each.budget_used, 1.12) for each in points]
                    titles.append([f"{each.row}: {share(each.budget_used)}" for each in points])
                    axes.scatter(
                        xs,
                        [level + up for up in _spread(xs)],
                        s=20,
                        marker=">" if wrong else "o",
                        color=_COLOR["bad" if wrong else "series-1"],
                        alpha=1 if wrong else 0.55,
                        linewidth=0,
                        gid=f"tips-{len(titles)}",
                    )
        return done(titles)


def latency_plot(rows: Sequence[Latency]) -> str:
    """The time of each row over the fastest vendor's, and beside it how it moved from its baseline."""
    rows = sorted(rows, key=lambda row: (row.ratio is None, row.ratio or 0.0, row.row))[:_MOST_ROWS]
    with_ratio = any(row.ratio is not None for row in rows)
    with_change = any(row.change is not None for row in rows)
    panels = [panel for panel, there in ((_ratios, with_ratio), (_changes, with_change)) if there] or [_times]
    with _figure(0.75 + 0.24 * len(rows)) as (figure, done):
        all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        all_axes[0].set_yticks(range(len(rows)), [_clipped(row.case) for row in rows])
        all_axes[0].set_ylim(len(rows) - 0.5, -0.5)
        titles: list[list[str]] = []
        for axes, panel in zip(all_axes, panels, strict=True):
            _quiet(axes)
            axes.grid(axis="y", color=_COLOR["line"], linewidth=0.6)
            panel(axes, rows, titles)
        return done(titles)


def roofline_plot(points: Sequence[Point], measured: Mapping[tuple[float, float], Roof]) -> str:
    """Where rows lie under the roofs of their GPU.  measured: by what it is rated for."""
    roofs: dict[tuple[float, float], list[Point]] = {}
    for point in sorted(points, key=lambda point: point.rated, reverse=True):
        roofs.setdefault(point.rated, []).append(point)
    reached = [p.intensity for p in points] + [flops / rate for flops, rate in roofs]
    low, high = (
        10 ** math.floor(math.log10(min(reached)) - 0.2),
        10 ** math.ceil(math.log10(max(reached)) + 0.2),
    )
    with _figure(3.6) as (figure, done):
        axes = figure.subplots()
        titles: list[list[str]] = []
        for i, ((flops, rate), members) in enumerate(roofs.items()):
            seen = measured.get((flops, rate), Roof(None, None))
            top = _roof(axes, Roof(flops, rate), seen, low, high)
            kinds = ", ".join(sorted({short(point.dtype) for point in members}))
            words = f"{kinds}: {_rated(flops, seen.flops, ',.0f', 'TFLOP/s')}"
            # The first above its line; the others, which lie lower, below what was seen of them.
            at, by = (flops / 1e12, 4) if i == 0 else (top, -12)
            _label(axes, words, high, at, (-2, by), _SERIES[i % len(_SERIES)], ha="right")
            if i == 0:
                words = _rated(rate, seen.bytes, ".3g", "TB/s")
                _label(axes, words, low, low * rate / 1e12, (52, 10), "muted")
            titles.append([f"{point.row.row}: {_reached(point.row)}" for point in members])
            axes.scatter(
                [point.intensity for point in members],
                [point.flops / point.row.median / 1e12 for point in members],
                s=26,
                marker=_MARKERS[i % len(_MARKERS)],
                color=_COLOR[_SERIES[i % len(_SERIES)]],
                alpha=0.8,
                linewidth=0,
                gid=f"tips-{len(titles)}",
                zorder=3,
            )
        for scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
            scale("log")
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.minorticks_off()
        axes.set_xlim(low, high)
        axes.set_xlabel("operations a byte")
        axes.set_ylabel("TFLOP/s")
        _quiet(axes)
        axes.grid(color=_COLOR["line"], linewidth=0.6)
        return done(titles)


def _roof(axes: Any, rated: Roof, seen: Roof, low: float, high: float) -> float:
    """A roof, and dashed below it what was seen of it, as far as it is known; the lower top, in TFLOP/s."""
    assert rated.flops and rated.bytes
    axes.plot(*_line(rated.flops, rated.bytes, low, high), color=_COLOR["muted"], linewidth=1.2)
    dashed = {"color": _COLOR["muted"], "linewidth": 1, "linestyle": (0, (4, 3))}
    xs, ys = _line(seen.flops or rated.flops, seen.bytes or rated.bytes, low, high)
    if seen.bytes:
        axes.plot(xs[:2], ys[:2], **dashed)
    if seen.flops:
        axes.plot(xs[1:], ys[1:], **dashed)
    return ys[-1]


def _rated(rated: float, seen: float | None, form: str, unit: str) -> str:
    told = f"{format(rated / 1e12, form)} {unit}"
    return told if seen is None else f"{told}, seen: {format(seen / 1e12, form)}"


def _line(flops: float, rate: float, low: float, high: float) -> tuple[list[float], list[float]]:
    """Operations a byte, and TFLOP/s there: from the slope over the ridge to the top."""
    return [low, flops / rate, high], [each / 1e12 for each in (low * rate, flops, flops)]


def _label(
    axes: Any, text: str, x: float, y: float, by: tuple[int, int], color: str, ha: str = "left"
) -> None:
    axes.annotate(text, (x, y), xytext=by, textcoords="offset points", ha=ha, color=_COLOR[color])


def history_plot(stored: Mapping[str, Sequence[Stored]], now: Mapping[str, float]) -> str:
    """How the time of each row moved over the stored files, as a share of its first; `now`: of this run."""
    files = sorted({each.file for rows in stored.values() for each in rows})
    place = {file: i for i, file in enumerate(files)}
    with _figure(2.6) as (figure, done):
        axes = figure.subplots()
        titles: list[list[str]] = []
        for name, rows in stored.items():
            first = rows[0].median
            xs: list[float] = [place[each.file] for each in rows]
            ys = [(each.median / first - 1) * 100 for each in rows]
            tips = [f"{name}, {each.file}: {in_seconds(each.median)}" for each in rows]
            if name in now:
                xs.append(len(files))
                ys.append((now[name] / first - 1) * 100)
                tips.append(f"{name}, this run: {in_seconds(now[name])}")
            axes.plot(xs, ys, color=_COLOR["series-1"], linewidth=1, alpha=0.5)
            titles.append(tips)
            axes.scatter(
                xs, ys, s=14, color=_COLOR["series-1"], linewidth=0, gid=f"tips-{len(titles)}", zorder=3
            )
        labels = [file.partition("_")[0] for file in files] + (["this run"] if now else [])
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlim(-0.3, len(labels) - 0.7)
        axes.set_ylabel("% from the first")
        axes.axhline(0, color=_COLOR["muted"], linewidth=0.8)
        _quiet(axes)
        axes.grid(axis="y", color=_COLOR["line"], linewidth=0.6)
        return done(titles)


def levels_plot(levels: Mapping[str, Sequence[float | None]], days: Sequence[str]) -> str:
    """How the times of each kernel moved over the nights, as shares of what they were at first.

    levels: by kernel, one a night; None where it was not timed.  days: of the nights.
    """
    columns = min(len(levels), 2)
    rows = math.ceil(len(levels) / columns)
    known = [level * 100 for each in levels.values() for level in each if level is not None]
    with _figure(0.5 + 1.0 * rows) as (figure, done):
        figure.get_layout_engine().set(wspace=0.06)
        all_axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
        for axes in all_axes[len(levels) :]:
            axes.set_visible(False)
        for axes, (kernel, found) in zip(all_axes, levels.items(), strict=False):
            ys = [math.nan if level is None else level * 100 for level in found]
            axes.axhline(0, color=_COLOR["muted"], linewidth=0.8)
            axes.plot(range(len(ys)), ys, color=_COLOR["series-1"], linewidth=1.1, solid_joinstyle="round")
            ends = [(x, y) for x, y in enumerate(ys) if not math.isnan(y)]
            if ends:
                axes.plot(*ends[-1], "o", color=_COLOR["series-1"], markersize=3.5)
                axes.set_title(
                    f"{round(ends[-1][1], 1) + 0.0:+.1f} %", loc="right", fontsize=9.5, color=_COLOR["muted"]
                )
            axes.set_title(_clipped(kernel), loc="left", fontsize=9.5)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g} %" if value else "0")
            axes.locator_params(axis="y", nbins=4)
            _quiet(axes)
            axes.tick_params(axis="y", labelcolor=_COLOR["muted"])
            axes.grid(axis="y", color=_COLOR["line"], linewidth=0.6)
        axes = all_axes[0]
        axes.set_ylim(min([-2.0, *known]) * 1.15, max([2.0, *known]) * 1.15)
        axes.set_xlim(0, len(days) - 1 + 0.02 * len(days))
        axes.set_xticks([0, len(days) - 1], [_clipped(days[0]), _clipped(days[-1])])
        for axes in all_axes:
            for label, side in zip(axes.get_xticklabels(), ("left", "right"), strict=False):
                label.set_horizontalalignment(side)
        return done([])


# Panels of latency


def _ratios(axes: Any, rows: Sequence[Latency], titles: list[list[str]]) -> None:
    axes.axvline(1, color=_COLOR["muted"], linewidth=1)
    timed = [(level, row, row.ratio) for level, row in enumerate(rows) if row.ratio]
    for level, row, ratio in timed:
        if row.q1 and row.q3:
            ends = [row.q1 / row.median * ratio, row.q3 / row.median * ratio]
            axes.plot(ends, [level, level], color=_COLOR["ink"], linewidth=1)
    titles.append([f"{row.row}: {ratio:.3f} of {row.vendor}" for _, row, ratio in timed])
    _dots(axes, [ratio for *_, ratio in timed], [level for level, *_ in timed], "series-1", titles)
    axes.set_xlabel("time over the vendor's; left of 1 is faster")


def _changes(axes: Any, rows: Sequence[Latency], titles: list[list[str]]) -> None:
    axes.axvline(0, color=_COLOR["muted"], linewidth=1)
    for color in dict.fromkeys(_OF_VERDICT.get(row.verdict, "muted") for row in rows):
        moved = [
            (level, row, row.change * 100)
            for level, row in enumerate(rows)
            if row.change is not None and _OF_VERDICT.get(row.verdict, "muted") == color
        ]
        for level, row, _ in moved:
            if row.band:
                axes.plot(
                    [-row.band * 100, row.band * 100],
                    [level, level],
                    color=_COLOR["line"],
                    linewidth=7,
                    solid_capstyle="butt",
                )
        titles.append([f"{row.row}: {change:+.1f} %, {row.verdict}" for _, row, change in moved])
        _dots(axes, [change for *_, change in moved], [level for level, *_ in moved], color, titles)
    axes.set_xlabel("% from the baseline; the bar is the band")


def _times(axes: Any, rows: Sequence[Latency], titles: list[list[str]]) -> None:
    titles.append([f"{row.row}: {in_seconds(row.median)}" for row in rows])
    _dots(axes, [row.median * 1e6 for row in rows], range(len(rows)), "series-1", titles)
    axes.set_xscale("log")
    axes.set_xlabel("time in microseconds")


def _dots(axes: Any, xs: Sequence[float], ys: Iterable[float], color: str, titles: list[list[str]]) -> None:
    axes.scatter(xs, list(ys), s=22, color=_COLOR[color], linewidth=0, gid=f"tips-{len(titles)}", zorder=3)


def _reached(row: Latency) -> str:
    parts = [in_seconds(row.median)]
    if row.tflops is not None:
        parts.append(f"{row.tflops:,.1f} TFLOP/s")
    if row.gbs is not None:
        parts.append(f"{row.gbs:,.0f} GB/s")
    if row.roofline is not None:
        parts.append(f"{row.roofline * 100:.0f} % of the roof")
    return ", ".join(parts)


def _clipped(text: str) -> str:
    return text if len(text) <= 34 else f"{text[:33]}…"


def _spread(xs: Sequence[float]) -> list[float]:
    """Offsets by which points that would hide each other stand above and below their line."""
    width = 0.012
    taken: Counter[int] = Counter()
    offsets = []
    for x in xs:
        place = round(x / width)
        n = taken[place]
        taken[place] += 1
        offsets.append(min((n + 1) // 2, 5) * 0.07 * (1 if n % 2 else -1))
    return offsets


# Figures


@contextmanager
def _figure(height: float) -> "Iterator[tuple[Any, Callable[[list[list[str]]], str]]]":
    """A figure of the page's width, and what makes the SVG of it, given the titles of its points."""
    import matplotlib
    from matplotlib.figure import Figure

    number = next(_numbers)
    settings = {
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "tilecheck",
        "text.parse_math": False,  # names are no formulas
        "font.size": 9.5,
        "axes.edgecolor": _COLOR["line"],
        "axes.labelcolor": _COLOR["muted"],
        "text.color": _COLOR["ink"],
        "xtick.color": _COLOR["line"],
        "ytick.color": _COLOR["line"],
        "xtick.labelcolor": _COLOR["muted"],
        "ytick.labelcolor": _COLOR["ink"],
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about glyphs that the font for measuring lacks
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")

        def done(titles: list[list[str]]) -> str:
            file = io.StringIO()
            metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure.savefig(file, format="svg", transparent=True, metadata=metadata)
            return _inline(file.getvalue(), number, titles)

        yield figure, done


def _quiet(axes: Any) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=3)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)


def _inline(svg: str, number: int, titles: Sequence[Sequence[str]]) -> str:
    """The SVG element for a page with others in it: ids, colours and fonts of the page, titles of points."""
    svg = svg[svg.index("<svg") :]
    for unwanted in (r"<!--.*?-->", r"<metadata>.*?</metadata>", r"<style.*?</style>"):
        svg = re.sub(unwanted, "", svg, flags=re.DOTALL)
    for i, tips in enumerate(titles, 1):
        svg = _titled(svg, f"tips-{i}", tips)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="plot{number}-\1"', svg)
    svg = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\1plot{number}-", svg)
    for name, color in _COLOR.items():
        svg = svg.replace(color, f"var(--{name})")
    svg = re.sub(r"font-family: [^;\"]*; ", "", svg)
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'role="img" stroke-linejoin="round"', svg, count=1)
    return re.sub(r"\s*\n\s*", "\n", svg).strip()


def _titled(svg: str, id: str, tips: Sequence[str]) -> str:
    """Gives the points of a group their titles, in the order in which they were drawn."""
    start = svg.index(f'id="{id}"')
    left = iter(tips)

    def with_title(match: "re.Match[str]") -> str:
        return f"<use{match[1]}><title>{escape(next(left))}</title></use>"

    return svg[:start] + re.sub(r"<use([^>]*?)/>", with_title, svg[start:], count=len(tips))
