"""index.html: what the runs of a report found, kernel by kernel."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilecheck.codegen.store import facts_from_json
from tilecheck.codegen.table import COLUMNS, cells
from tilecheck.report import plots
from tilecheck.report.model import Code, Report
from tilecheck.report.overview import (
    KernelView,
    failures,
    headline,
    in_words,
    kernels,
    sections,
)
from tilecheck.report.rendering import LATER, Plot, render
from tilecheck.report.roofs import Roof, measured, points_of


@dataclass(frozen=True)
class KernelPage:
    """What the section of a kernel shows."""

    view: KernelView
    anchor: str
    budget: Plot | None
    latency: Plot | None
    roofline: Plot | None
    histories: Mapping[str, Plot]


def page(report: Report) -> str:
    """The text of index.html."""
    views = kernels(report)
    roofs = measured([point for view in views for point in points_of(view.kernel, view.latency)])
    return render(
        "report.html.j2",
        version=report.tilecheck,
        report=report,
        later=LATER,
        headline=headline(report),
        sections=sections(report),
        longest=max((view.seconds for view in sections(report)), default=0.0) or 1.0,
        failures=failures(report),
        quiet=[t for t in report.tests if t.outcome in ("skipped", "xfailed", "xpassed")],
        pages=[_kernel_page(view, roofs) for view in views],
        several=len(report.runs) > 1,
        in_words=in_words,
        columns=COLUMNS,
        cells=_cells,
        finding=_finding,
    )


def _kernel_page(view: KernelView, roofs: Mapping[tuple[float, float], Roof]) -> KernelPage:
    points = points_of(view.kernel, view.latency)
    now = {row.row: row.median for row in view.latency}
    return KernelPage(
        view=view,
        anchor=f"kernel-{view.kernel.name.replace('_', '-')}",
        budget=_plot(
            view.numerics if any(each.budget_used for each in view.numerics) else (),
            plots.budget_plot,
            "The largest error of each case as a share of its bound, by element type. "
            "Past the line a kernel is wrong; 0 is right in every bit.",
        ),
        latency=_plot(view.latency, plots.latency_plot, "Medians with quartiles, the best first."),
        roofline=_plot(
            points,
            lambda points: plots.roofline_plot(points, roofs),
            "What each row reaches under the roofs of its GPU: device memory on the slope, tensor cores at "
            "the top. Dashed: the most that any row of this report, or its vendor, was seen to reach.",
        ),
        histories={
            gpu: Plot(plots.history_plot(rows, now), f"Stored times of {gpu}, file by file.")
            for gpu, rows in view.history.items()
        },
    )


def _plot(found: Sequence[Any], draw: Callable[[Any], str], caption: str) -> Plot | None:
    svg = draw(found) if found else ""
    return Plot(svg, caption) if svg else None


def _cells(code: Code) -> Iterable[str]:
    """The columns of a row of code; empty ones where there are no facts."""
    if code.facts is not None:
        try:
            return cells(facts_from_json(dict(code.facts)))
        except ValueError:  # another version's
            pass
    return ("",) * len(COLUMNS)


def _finding(code: Code) -> tuple[str, str]:
    """What came of a row of code, as a state and in words."""
    if code.error:
        return ("expected" if code.expected else "failed"), code.error
    if code.landmarks == "broken":
        return ("expected" if code.expected else "failed"), code.words
    if code.stored in ("changed", "new"):
        return ("changed" if code.toolchain else "failed"), code.words or code.stored
    if code.stored == "source":
        return "passed", "source changed, same code"
    return "passed", "as stored" if code.stored == "same" else "as promised" if code.landmarks else ""
