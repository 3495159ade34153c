"""Ends a process in the middle of a test, with a failure of this test that says why, and of no other.

Under xdist the worker dies while its test is under way: xdist then reports that test and starts another
worker for the rest. What the worker has to say it leaves in a file, and the controller puts it into the
report. Without xdist the run ends here, with a summary of all that was run.
"""

import os
import sys
import threading
from typing import Any, NoReturn

import pytest

from tilecheck.plugin.repeat import repeat_command
from tilecheck.plugin.runfolder import is_worker, run_folder

_PATIENCE = 30.0
"""Seconds for the summary of a run that is ended, before it ends without one."""


def end_process(item: pytest.Item, message: str) -> NoReturn:
    """Fails `item` with `message` and ends this process; from any thread, if the others are stuck."""
    try:
        if is_worker(item.config):
            _leave(item.config, message)
        else:
            _finish(item, message)
    finally:
        os._exit(int(pytest.ExitCode.TESTS_FAILED))


def _leave(config: Any, words: str) -> None:
    folder = run_folder(config)
    if folder is not None:  # else the controller is on another machine, and reports what xdist knows
        (folder / config.workerinput["workerid"]).write_text(words)


def _finish(item: pytest.Item, message: str) -> None:
    config, session = item.config, item.session
    limit = threading.Timer(_PATIENCE, os._exit, (int(pytest.ExitCode.TESTS_FAILED),))
    limit.daemon = True
    limit.start()
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="failed",
        longrepr=message,
        when="call",
    )
    item.ihook.pytest_runtest_logreport(report=report)
    session.shouldfail = f"run ended in {item.nodeid}; -n 1 would run the tests after it in a new process"
    config.hook.pytest_sessionfinish(session=session, exitstatus=pytest.ExitCode.TESTS_FAILED)
    sys.stdout.flush()
    sys.stderr.flush()


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: Any, sched: Any) -> None:
    folder = run_folder(sched.config)
    if folder is None:
        return
    file, _, test = crashitem.partition("::")
    report.location = (file, None, test)  # the heading of the failure; xdist gives the file alone
    words = folder / report.node.gateway.id
    if words.exists():
        report.longrepr = words.read_text()
        words.unlink()
    else:
        # Read in reports and files, too, where nothing that the process said stands above.
        report.longrepr = (
            f"{report.longrepr}: the process died at once, as by an abort, a segmentation fault or for want "
            "of memory; what it said last, if anything, is in the output of the run\n"
            f"repeat: {repeat_command(sched.config, crashitem)}"
        )
