"""The text of trend.html: the nights on record, one part a GPU model."""

from collections.abc import Mapping
from dataclasses import dataclass

from tilecheck import __version__
from tilecheck.nightly.history import Past
from tilecheck.nightly.trend import FIRST, Trend, looks, no_drift, ran_for, trend
from tilecheck.report import plots
from tilecheck.report.overview import State
from tilecheck.report.rendering import Plot, render

_WORST: tuple[State, ...] = ("failed", "crashed", "incomplete", "not run", "passed")


@dataclass(frozen=True)
class ModelPart:
    """What the page shows of a GPU model.

    anchor: of all of it.  parts: titles of the sections that there are, by what their anchors end with.
    levels: the plot of all kernels' times; None where there is nothing to plot.
    """

    trend: Trend
    anchor: str
    parts: Mapping[str, str]
    levels: Plot | None


def trend_page(pasts: Mapping[str, Past], project: str = "", beside: bool = False) -> tuple[str, str]:
    """The text of trend.html, and what it says in one line.

    pasts: by GPU model, who had the last night first.  beside: index.html lies beside it.
    """
    trends = [_part(number, trend(gpu, past)) for number, (gpu, past) in enumerate(pasts.items(), 1)]
    worst = min((each.trend for each in trends), key=lambda each: _WORST.index(each.state), default=None)
    words = "No night on record" if worst is None else worst.words
    if worst and len(trends) > 1 and worst.state != "passed":
        words = f"{worst.gpu}: {words[:1].lower()}{words[1:]}"
    text = render(
        "trend.html.j2",
        "tilecheck.nightly",
        version=__version__,
        project=project,
        beside=beside,
        trends=trends,
        words=words,
        state_of_all=worst.state if worst else "not run",
        looks=looks,
        ran_for=ran_for,
        no_drift=no_drift,
    )
    return text, words


def _part(number: int, found: Trend) -> ModelPart:
    sections = {
        "record": ("To know", found.told),
        "stages": ("Stages", found.stages),
        "times": ("Times", found.rows),
        "correctness": ("Correctness", found.kernels),
        "upgrade": ("Newest TileLang", found.upgrades),
        "nights": ("Nights", found.nights),
    }
    return ModelPart(
        trend=found,
        anchor=f"gpu-{number}",
        parts={part: title for part, (title, shown) in sections.items() if shown},
        levels=_levels(found),
    )


def _levels(found: Trend) -> Plot | None:
    if not found.levels or len(found.nights) < 2:
        return None
    days = [view.night.date[:10] for view in reversed(found.nights)]
    caption = (
        f"Times of each kernel, in % of those of its rows' first {FIRST} nights, the row in the middle. "
        "Below 0 is faster."
    )
    return Plot(plots.levels_plot(found.levels, days), caption)
