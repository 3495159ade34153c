"""Searches for schedules for a test: a small part of the space, in minutes. And files of schedules that are
spoilt refuse the run: their schedules would be used everywhere.
"""

import re
from typing import TYPE_CHECKING

import pytest

from tilecheck.gpus import cores
from tilecheck.plugin.carried import carried_by_call
from tilecheck.plugin.options import option
from tilecheck.plugin.rows import KernelCase
from tilecheck.plugin.specs import specs
from tilecheck.tuning.lookup import winners_file
from tilecheck.tuning.winners import WinnersError, read_winners

if TYPE_CHECKING:
    from tilecheck.tuning.tune import Tuned

MOST = 24
"""Schedules that a test tries: the default, and the likeliest."""

BUDGET = 120.0
"""Seconds that they have; the confirmation takes about one minute more."""

SEARCHED = "tilecheck-tuned"
"""Name of the user property of a test's report that holds the text of its search."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "autotune: the search for schedules finds valid and faster ones")


def pytest_sessionstart(session: pytest.Session) -> None:
    for path in dict.fromkeys(winners_file(spec) for spec in specs(session.config)):
        if path is not None:
            try:
                read_winners(path)
            except WinnersError as error:
                raise pytest.UsageError(f"tilecheck: {error}") from error


class Tuner:
    """Searches that a test can ask for, on the GPU of this run."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    @property
    def stores(self) -> bool:
        """Whether winners go into the file: where `-m` asks for the marker, not in a run of everything."""
        words: str = self._item.config.option.markexpr
        return re.search(r"(?<!not )\bautotune\b", words) is not None

    def search(self, row: KernelCase, most: int = MOST, budget: float = BUDGET) -> "Tuned":
        """Tries the `most` likeliest schedules for `budget` seconds; stores a winner if `stores`.

        Raises BenchError where nothing can be timed. The test fails where the winner cannot be stored.
        """
        from tilecheck.progress import Progress
        from tilecheck.tuning.machine import bench_for, goal_here, journals_folder
        from tilecheck.tuning.report import text_of
        from tilecheck.tuning.tune import tune

        config, jobs = self._item.config, cores()
        goal = goal_here(row.spec, row.case)
        modules = tuple(config.getini("tilecheck_specs"))
        with bench_for(goal, modules, config.rootpath, jobs, option(config, "seed")) as bench:
            tuned = tune(
                goal,
                bench,
                journals=journals_folder(config.rootpath),
                winners=winners_file(row.spec) if self.stores else None,
                progress=lambda name, total: Progress(name, total, unit="schedule", at_once=jobs),
                budget=budget,
                most=most,
                batch=max(8, jobs),
            )
        self._item.user_properties.append((SEARCHED, text_of(tuned)))
        if tuned.unstored:
            pytest.fail(tuned.unstored, pytrace=False)
        return tuned


@pytest.fixture
def tuner(request: pytest.FixtureRequest) -> Tuner:
    """Searches for schedules, on the GPU of this run."""
    return Tuner(request.node)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The report of each search."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    texts = [text for report in reports for text in carried_by_call(report, SEARCHED)]
    if texts:
        terminalreporter.section("tilecheck: schedules")
        terminalreporter.write_line("\n\n".join(texts))
