"""The rows of latency: which are timed, and those that a run has to fail for although no test is about them.

A run that does not ask for them leaves them out, as timing wants the GPU for itself: `-m latency` times them,
`--benchmark-compare` compares them too.
"""

import os
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tilecheck.files import shown
from tilecheck.latency.baselines import orphaned
from tilecheck.plugin.carried import reason_of_skip
from tilecheck.plugin.limits import lacking
from tilecheck.plugin.lost import lost
from tilecheck.plugin.parametrization import latency_cases
from tilecheck.plugin.rows import KernelCase, compares_code, row_of
from tilecheck.plugin.runfolder import is_worker
from tilecheck.plugin.selection import active, selection
from tilecheck.plugin.timing.clock import CLOCK
from tilecheck.plugin.timing.mode import ADVICE, LatencyRun, latency_run

_LEFT_OUT = "tilecheck_left_out"  # what a worker hands the controller

_left_out_key = pytest.StashKey[int]()


def latency_rows(config: pytest.Config) -> list[KernelCase]:
    """All rows of latency, whichever are selected."""
    return list(latency_cases(config))


def left_out(config: pytest.Config) -> int:
    """How many rows this run left out, as nobody asked for them."""
    return config.stash.get(_left_out_key, 0)


def of_latency(item: pytest.Item) -> bool:
    """Whether a test times a row."""
    return item.get_closest_marker("latency") is not None


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    if not active(config):
        return
    run = latency_run(config)
    if run.code_instead:
        _leave_only(config, items, compares_code)
    if not run.wanted:
        _leave_out(config, items)
        return
    for item in filter(of_latency, items):
        if run.untimed is not None:
            item.add_marker(pytest.mark.skip(reason=f"latency needs a GPU: {run.untimed}"))
        elif row := row_of(item):
            item.add_marker(pytest.mark.benchmark(timer=CLOCK, group=row.spec.name))
            # A wrong kernel fails before it is timed, which is no mistake of the test.
            item.add_marker(pytest.mark.filterwarnings("ignore:Benchmark fixture was not used"))
    if run.gates and not config.option.collectonly:
        items += _orphans(session, run, [row.id for row in latency_rows(config)])


def _leave_only(
    config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]
) -> None:
    if unwanted := [item for item in items if not wanted(item)]:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if wanted(item)]


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    # One without a row stands for all of them, as there is no GPU.
    counts = [1 if row_of(item) else len(latency_rows(config)) for item in items if of_latency(item)]
    config.stash[_left_out_key] = sum(counts)
    _leave_only(config, items, lambda item: not of_latency(item))


def pytest_sessionfinish(session: pytest.Session) -> None:
    config: Any = session.config
    if is_worker(config):
        config.workeroutput[_LEFT_OUT] = left_out(config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    # Each worker collects, and leaves out, all of them.
    count = getattr(node, "workeroutput", {}).get(_LEFT_OUT, 0)
    node.config.stash[_left_out_key] = max(count, left_out(node.config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report: Any = yield
    run, row = latency_run(item.config), row_of(item)
    if not report.skipped or hasattr(report, "wasxfail") or row is None or not of_latency(item):
        return report
    if run.bar is None or not run.gates or lost(item.config):
        return report
    if row.id in run.bar.rows or lacking(row.spec, selection(item.config)) is None:
        reason = reason_of_skip(report)
        report.outcome = "failed"
        report.longrepr = f"{row.id} was not timed: {reason}\na row that is skipped has no verdict"
    return report


class Orphan(pytest.Item):
    """The failure of a stored row that no kernel has any more: no test would fail for it."""

    words = ""

    def runtest(self) -> None:
        raise AssertionError(self.words)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:  # noqa: ARG002
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Any, None, str]:
        return self.path, None, f"stored row {self.name}"


def _orphans(session: pytest.Session, run: LatencyRun, expected: list[str]) -> list[pytest.Item]:
    if run.bar is None:
        return []
    file, node = shown(run.bar.path), os.path.relpath(run.bar.path, session.config.rootpath)
    made: list[pytest.Item] = []
    for id in orphaned(expected, run.bar.rows):
        item = Orphan.from_parent(session, name=id, nodeid=f"{node}::{id}")
        item.words = (
            f"{file} has row {id}, and no kernel has it any more: it was removed or renamed. {ADVICE}\n"
            f"repeat: pytest --benchmark-compare={run.bar.path.name[:4]}"
        )
        made.append(item)
    return made
