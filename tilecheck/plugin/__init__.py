"""The pytest plugin, one concern per module. Importing it imports neither torch nor TileLang.

Installed, it is found by its entry point; from a checkout, by `pytest_plugins` in the root's conftest.py.
Both know it as `tilecheck.plugin`, as pytest refuses one module under two names. It stays silent in projects
whose configuration names no specs (`tilecheck_specs`).

What a run is      options, specs, selection (of the device), header, importable, unread
Which tests        parametrization by rows and grids, marks, limits, expected
What they do       checking; code and timing are packages, for rows of code and of latency; tuning
What goes wrong    mistakes, repeat; timelimit, lost, ending and memory, for what takes a process along
Over GPUs          workers, runfolder
What it says       summary; reporting, reportplaces and runwords, for the report; carried, by tests
"""

import pytest

pytest_plugins = (
    "tilecheck.plugin.workers",  # before anything that could use CUDA
    "tilecheck.plugin.options",
    "tilecheck.plugin.importable",
    "tilecheck.plugin.specs",
    "tilecheck.plugin.selection",  # its hooks come before those of specs: first what is missing
    "tilecheck.plugin.header",
    "tilecheck.plugin.parametrization",
    "tilecheck.plugin.limits",
    "tilecheck.plugin.expected",
    "tilecheck.plugin.timelimit",
    "tilecheck.plugin.memory",
    "tilecheck.plugin.lost",
    "tilecheck.plugin.ending",
    "tilecheck.plugin.runfolder",
    "tilecheck.plugin.mistakes",  # its hook comes before that of repeat
    "tilecheck.plugin.repeat",
    "tilecheck.plugin.checking",
    "tilecheck.plugin.summary",
    "tilecheck.plugin.code.rows",
    "tilecheck.plugin.code.shared",
    "tilecheck.plugin.code.checking",
    "tilecheck.plugin.code.update",
    "tilecheck.plugin.code.summary",
    "tilecheck.plugin.timing.mode",
    "tilecheck.plugin.timing.rows",
    "tilecheck.plugin.timing.compiling",
    "tilecheck.plugin.timing.stopwatch",
    "tilecheck.plugin.timing.files",
    "tilecheck.plugin.timing.summary",
    "tilecheck.plugin.reportplaces",
    "tilecheck.plugin.reporting",
    "tilecheck.plugin.tuning",
    "tilecheck.plugin.unread",  # its hook comes before all of these
)

# The imports below come before pytest loads these as plugins, and it would warn that it cannot rewrite them.
pytest.register_assert_rewrite(*pytest_plugins)

from tilecheck.plugin.checking import Checker  # noqa: E402
from tilecheck.plugin.code.checking import CodeChecker  # noqa: E402
from tilecheck.plugin.code.shared import SharedRow  # noqa: E402
from tilecheck.plugin.limits import skip_lacking  # noqa: E402
from tilecheck.plugin.rows import CodeRow, KernelCase  # noqa: E402
from tilecheck.plugin.timing.stopwatch import RowStopwatch  # noqa: E402
from tilecheck.plugin.tuning import Tuner  # noqa: E402

__all__ = [
    "Checker",
    "CodeChecker",
    "CodeRow",
    "KernelCase",
    "RowStopwatch",
    "SharedRow",
    "Tuner",
    "skip_lacking",
]
