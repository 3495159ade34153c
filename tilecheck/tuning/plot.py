"""How each knob moves latency, as a picture: a panel for each knob, and a row of panels for each case."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from tilecheck.tuning.explore import Effect

PANEL = (2.2, 2.4)
"""Inches, of 72 pixels each."""


def svg(found: Mapping[str, Sequence[Effect]]) -> str:
    """The effects of each case, by its name, as a file of SVG; ValueError where nothing was timed.

    Times are shares of the fastest of the case: filled, with this knob changed and all else as it is; hollow,
    the best of all schedules that have the value.
    """
    import matplotlib
    from matplotlib.figure import Figure

    rows = {name: _by_knob(effects) for name, effects in found.items() if effects}
    if not rows:
        raise ValueError("no schedule has a time, so that no knob can be compared")
    columns = max(len(knobs) for knobs in rows.values())
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "tilecheck", "text.parse_math": False}
    ):
        figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * len(rows)), layout="constrained")
        grid = figure.subplots(len(rows), columns, squeeze=False, sharey="row")
        for line, (name, knobs) in zip(grid, rows.items(), strict=True):
            _row(line, name, knobs)
        grid[0][0].legend(frameon=False, fontsize=8)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def _row(line: Sequence[Any], name: str, knobs: Mapping[str, Sequence[Effect]]) -> None:
    fastest = min(e.best for effects in knobs.values() for e in effects if e.best is not None)
    line[0].set_ylabel(f"{name}\ntime over the fastest's")
    for axes, (knob, effects) in zip(line, knobs.items(), strict=False):
        _panel(axes, knob, effects, fastest)
    for axes in line[len(knobs) :]:
        axes.set_visible(False)


def _by_knob(effects: Sequence[Effect]) -> dict[str, list[Effect]]:
    """Those of knobs that were turned; one value alone shows nothing."""
    knobs: dict[str, list[Effect]] = {}
    for effect in effects:
        knobs.setdefault(effect.knob, []).append(effect)
    turned = {knob: each for knob, each in knobs.items() if sum(e.timed > 0 for e in each) > 1}
    return turned or knobs


def _panel(axes: Any, knob: str, effects: Sequence[Effect], fastest: float) -> None:
    for label, color, face, times in (
        ("alone", "C0", "C0", [e.alone for e in effects]),
        ("best with it", "0.5", "none", [e.best for e in effects]),
    ):
        there = [(place, seconds / fastest) for place, seconds in enumerate(times) if seconds is not None]
        axes.plot(
            [place for place, _ in there],
            [share for _, share in there],
            marker="o",
            linewidth=0.8,
            color=color,
            markerfacecolor=face,
            label=label,
        )
    axes.set_title(knob, fontsize=10)
    axes.set_xticks(range(len(effects)), [str(e.value) for e in effects], rotation=45)
    axes.set_xlim(-0.5, len(effects) - 0.5)
    axes.axhline(1, color="0.8", linewidth=0.8, zorder=0)
