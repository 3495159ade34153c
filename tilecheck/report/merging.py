"""One report of several runs: of correctness on all GPUs, of latency on one, of the code without any."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tilecheck.report.model import History, Kernel, Report, Stored


def merge(reports: Sequence[Report]) -> Report:
    """All runs of `reports`, in their order; what is stored of a row in several of them once.

    Raises ValueError where there is none, and where one run is in two of them.
    """
    if not reports:
        raise ValueError("no report to merge")
    runs = [run for report in reports for run in report.runs]
    for i, run in enumerate(runs):
        if run in runs[:i]:
            raise ValueError(f"the run of {run.started} ({run.label}) is there twice")
    newest = max(reports, key=lambda report: report.runs[-1].started if report.runs else "")
    return Report(
        schema=newest.schema,
        tilecheck=newest.tilecheck,
        project=newest.project,
        runs=tuple(runs),
        kernels=tuple(_kernels(newest, reports)),
        tests=_all(reports, "tests"),
        numerics=_all(reports, "numerics"),
        code=_all(reports, "code"),
        latency=_all(reports, "latency"),
        searches=_all(reports, "searches"),
        history=tuple(_history(reports)),
    )


def _all(reports: Iterable[Report], name: str) -> tuple[Any, ...]:
    """The records called `name`, each with the number that its run has now."""
    found: list[Any] = []
    before = 0
    for report in reports:
        found += [replace(each, run=each.run + before) for each in getattr(report, name)]
        before += len(report.runs)
    return tuple(found)


def _kernels(newest: Report, reports: Iterable[Report]) -> Iterable[Kernel]:
    kernels = {kernel.name: kernel for report in reports for kernel in report.kernels}
    kernels |= {kernel.name: kernel for kernel in newest.kernels}
    first = [kernel.name for kernel in newest.kernels]
    return (kernels[name] for name in (*first, *(name for name in kernels if name not in first)))


def _history(reports: Iterable[Report]) -> Iterable[History]:
    rows: dict[str, dict[tuple[str, str], Stored]] = {}
    for report in reports:
        for history in report.history:
            rows.setdefault(history.gpu, {}).update({(each.file, each.row): each for each in history.rows})
    for gpu, found in rows.items():
        yield History(gpu, tuple(found[key] for key in sorted(found)))
