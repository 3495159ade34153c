"""Head and end of a run about latency: against what, how long each row took, and what was not timed."""

from collections.abc import Iterable, Iterator

import pytest

from tilecheck.files import shown
from tilecheck.latency.gate import Verdict, seconds
from tilecheck.plugin.options import spelling
from tilecheck.plugin.selection import active
from tilecheck.plugin.timing.mode import ADVICE, latency_run
from tilecheck.plugin.timing.rows import latency_rows, left_out
from tilecheck.plugin.timing.stopwatch import LatencyRecord, latency_records
from tilecheck.tables import aligned

COARSE = 0.04
"""Share; a row that finds no smaller slowdown than this is told of."""


def pytest_report_header(config: pytest.Config) -> list[str]:
    run = latency_run(config)
    if run.compared and run.untimed is not None:
        instead = "; running the rows of code instead, against stored facts" if run.code_instead else ""
        return [f"tilecheck latency: needs a GPU, nothing is timed ({run.untimed}){instead}"]
    if not run.timed:
        return []
    against = f"against {shown(run.bar.path)}" if run.bar else "compared with nothing"
    return [f"tilecheck latency: {run.gpu}, {against}, {spelling(config, 'gate')}={run.mode}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not active(config):
        return
    run = latency_run(config)
    reports = [report for group in terminalreporter.stats.values() for report in group]
    found = latency_records(reports)
    if found:
        against = f" against {shown(run.bar.path)}" if run.bar else ""
        _section(terminalreporter, f"latency on {run.gpu}{against}", [*table(found), *findings(found)])
    if (run.wanted or run.compared) and run.untimed is not None:
        count = len(latency_rows(config))
        _section(terminalreporter, "latency", [f"{_rows(count)} not timed: {run.untimed}"])
    elif count := left_out(config):
        how = "pytest -m latency times them, pytest --benchmark-compare compares them too"
        _section(terminalreporter, "latency", [f"{_rows(count)} not timed, as nobody asked: {how}"])


def table(found: Iterable[LatencyRecord]) -> list[str]:
    """For each row: its median, that over the fastest vendor's, the share of the roof, and the verdict."""
    rows = [("row", "median", "over vendor", "vendor", "roofline", "verdict")]
    for r in found:
        ratio = "" if r.ratio is None else f"{r.ratio:.3f}"
        share = "" if r.roofline is None else f"{r.roofline * 100:.0f} %"
        verdict = r.verdict if r.change is None else f"{r.verdict} ({r.change * 100:+.1f} %)"
        rows.append((r.row, seconds(r.median), ratio, r.vendor, share, verdict))
    return aligned(rows, right=(1, 2, 4))


def findings(found: Iterable[LatencyRecord]) -> Iterator[str]:
    """What is not as it was, in words, and what to do about it."""
    found = list(found)
    for change in dict.fromkeys(record.toolchain for record in found if record.toolchain):
        yield f"toolchain changed: {change}"
    for verdict in (Verdict.SLOWER, Verdict.INCONCLUSIVE, Verdict.FASTER):
        yield from (f"{r.row}: {r.words}" for r in found if r.verdict == verdict.value)
    for vendor in dict.fromkeys(record.gone for record in found if record.gone):
        rows = _rows(sum(record.gone == vendor for record in found))
        yield f"{rows} without {vendor}, whose ratio the baseline knows: a slowdown has to be larger to show"
    if coarse := [r for r in found if (r.smallest or 0.0) > COARSE]:
        worst = max(coarse, key=lambda r: r.smallest or 0.0)
        yield (
            f"{_rows(len(coarse))} would pass a slowdown of {COARSE * 100:.0f} %, as the noise is large, or "
            f"was never measured; {worst.row} finds it from {(worst.smallest or 0.0) * 100:.1f} % on"
        )
    if stale := [r for r in found if r.verdict == Verdict.FASTER.value]:
        yield f"{_rows(len(stale))} faster than the baseline, which is stale: {ADVICE}"
    if open_ := [r for r in found if r.verdict == Verdict.INCONCLUSIVE.value]:
        yield f"{_rows(len(open_))} inconclusive, which is no pass: run again on an idle GPU"


def _section(terminalreporter: pytest.TerminalReporter, title: str, lines: Iterable[str]) -> None:
    terminalreporter.ensure_newline()
    terminalreporter.section(f"tilecheck: {title}")
    for line in lines:
        terminalreporter.write_line(line)


def _rows(count: int) -> str:
    return f"{count} latency {'row' if count == 1 else 'rows'}"
