"""After an error that costs the CUDA context nothing runs on the GPU in this process: one culprit fails, and
only it.

An xdist worker ends (`ending`), and another one takes its place. Without xdist the tests that need the GPU
are left out from there on, and the summary says how many and why.
"""

import sys
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from tilecheck.counting import many
from tilecheck.plugin.carried import carried
from tilecheck.plugin.ending import end_process
from tilecheck.plugin.repeat import repeat_command
from tilecheck.plugin.rows import uses_device
from tilecheck.plugin.runfolder import is_worker
from tilecheck.plugin.selection import active, device_in_use, selection

NOT_RUN = "tilecheck.not-run"
"""User property of the tests that were left out."""


@dataclass(frozen=True)
class Loss:
    """culprit: node id of the test after which nothing runs on the GPU in this process.  reason: why."""

    culprit: str
    reason: str

    def __str__(self) -> str:
        return f"{self.culprit} left the CUDA context unusable ({self.reason})"


_key = pytest.StashKey[Loss]()


def lost(config: pytest.Config) -> Loss | None:
    """How this process lost its CUDA context; None: it did not."""
    return config.stash.get(_key, None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    config = item.config
    failed = report.failed or hasattr(report, "wasxfail")
    if not failed or not active(config) or selection(config).simulated or lost(config):
        return report
    reason = _context_lost(config)
    if reason is None:
        return report
    if is_worker(config):
        sections = [f"{'-' * 20} {title} {'-' * 20}\n{text}" for title, text in report.sections]
        end_process(item, "\n".join([report.longreprtext, *sections]))
    config.stash[_key] = Loss(item.nodeid, reason)
    return report


def _context_lost(config: pytest.Config) -> str | None:
    device = device_in_use(config)
    if device is not None and device.lost:
        return device.lost
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    try:
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    loss = lost(item.config)
    if loss and uses_device(item):
        item.user_properties.append((NOT_RUN, loss.culprit))
        pytest.skip(f"not run: {loss}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    loss = lost(config)
    if loss is None:
        return
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(bool(carried(report, NOT_RUN)) for report in skipped)
    terminalreporter.section("tilecheck: not run", red=True)
    terminalreporter.write_line(str(loss))
    terminalreporter.write_line(
        f"{many(count, 'test')} after it did not run; -n 1 would run them in a new process"
    )
    terminalreporter.write_line(f"repeat: {repeat_command(config, loss.culprit)}")
