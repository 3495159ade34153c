"""The end of a run: how much of the bounds was used, what was only simulated, what was left out."""

from collections.abc import Iterable
from typing import Any

import pytest

from tilecheck.plugin.carried import carried
from tilecheck.plugin.checking import Record, records
from tilecheck.plugin.limits import NEEDS_GPU, SIMULATOR_BYTES, SIMULATOR_FLOPS, TOO_LARGE
from tilecheck.plugin.options import spelling
from tilecheck.plugin.selection import active, selection
from tilecheck.tables import aligned


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not active(config):
        return
    reports = [report for group in terminalreporter.stats.values() for report in group]
    found = records(reports)
    left_out = len(_skipped_for(TOO_LARGE, reports))
    without_gpu = _skipped_for(NEEDS_GPU, reports)
    if not found and not left_out and not without_gpu:
        return
    chosen = selection(config)
    terminalreporter.section(
        f"tilecheck: {'simulated' if chosen.simulated else 'on the GPU'}, {chosen.arch.name}"
    )
    for line in table(found):
        terminalreporter.write_line(line)
    if config.get_verbosity() > 0:
        for line in details(found):
            terminalreporter.write_line(line)
    if chosen.simulated and found:
        terminalreporter.write_line(_simulated_line())
    if left_out:
        terminalreporter.write_line(_left_out_line(left_out, spelling(config, "device")))
    if without_gpu:
        tests = "1 test wants" if len(without_gpu) == 1 else f"{len(without_gpu)} tests want"
        terminalreporter.write_line(f"{tests} a GPU: {without_gpu[0]}")


def _simulated_line() -> str:
    from tilecheck.simulator import NOT_MODELLED  # here: it imports torch, which the checks have done by now

    return f"simulated on the CPU, so no GPU conformance; not modelled: {NOT_MODELLED}"


def table(found: Iterable[Record]) -> list[str]:
    """For each kernel and dtype: how many cases, the least and the most that one of them used of the error
    terms alone, the most that one used of its bound, and which.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in found:
        groups.setdefault((record.kernel, record.dtype), []).append(record)
    if not groups:
        return []
    rows = [("kernel", "dtype", "cases", "terms used", "budget used", "by")]
    for (kernel, dtype), members in groups.items():
        terms = sorted(record.terms_used for record in members)
        worst = max(members, key=lambda record: record.budget_used)
        by = worst.case if worst.budget_used > 0 else ""
        span = f"{_share(terms[0])}..{_share(terms[-1])}"
        rows.append((kernel, dtype, str(len(members)), span, _budget(worst), by))
    return aligned(rows, right=(2, 3, 4))


def details(found: Iterable[Record]) -> list[str]:
    """For each case: shares of terms and bound, the largest absolute and the norm-wise relative error."""
    rows = [("case", "terms used", "budget used", "absolute error", "relative error")]
    rows += [
        (r.case, _share(r.terms_used), _budget(r), f"{r.max_abs_error:.3g}", f"{r.relative_error:.3g}")
        for r in found
    ]
    return aligned(rows, right=(1, 2, 3, 4)) if len(rows) > 1 else []


def _budget(record: Record) -> str:
    # Marked, since twice a measured error says less than a sum of known roundings.
    return f"{'~' if record.empirical else ''}{_share(record.budget_used)}"


def _share(used: float) -> str:
    return f"{used:.2f}" if used < 100 else f"{used:.3g}"


def _skipped_for(cause: str, reports: Iterable[Any]) -> list[str]:
    """What the tests that were skipped for a cause, which is the name of a user property, say of it."""
    skipped = (report for report in reports if getattr(report, "skipped", False))
    return [said for report in skipped for said in carried(report, cause)]


def _left_out_line(count: int, device: str) -> str:
    cases, them = ("case", "it") if count == 1 else ("cases", "them")
    return (
        f"{count} {cases} left out as too large for the simulator (over {SIMULATOR_FLOPS:.2g} operations or "
        f"{SIMULATOR_BYTES // 2**20} MiB): -rs names {them}, {device}=cuda runs {them}"
    )
