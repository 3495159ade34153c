"""Ends a test that pytest-timeout cannot end: a kernel that hangs, a compiler pass that never returns.

At the limit pytest-timeout raises an exception in the main thread, which is enough for a compiler in a
process of its own: that test fails and the run goes on. It does not reach code that waits in C, as for a hung
kernel. So a thread waits ten seconds longer, then ends the process (`ending`). It gets its turn, as torch and
tvm-ffi 0.1 give up the interpreter's lock while they wait; for code that keeps it, pytest's own
`faulthandler_timeout` is left.
"""

import sys
import threading
import time
import traceback
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from tilecheck import activity
from tilecheck.family import end_compilers
from tilecheck.plugin.ending import end_process
from tilecheck.plugin.repeat import command_of
from tilecheck.plugin.selection import active

GRACE = 10.0
"""Seconds between the exception in the main thread and the end of the process."""

_FRAMES = 6  # of the stack in the message: the innermost, which are the harness's way into the kernel


@dataclass
class _Limit:
    settings: Any
    since: float
    timer: threading.Timer


_key = pytest.StashKey[_Limit]()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    if not active(item.config):
        return None
    # pytest-timeout's own thread would end the process without a word on the kernel.
    alone = settings.method == "thread"
    timer = threading.Timer(settings.timeout + (0 if alone else GRACE), _expired, (item, settings))
    timer.daemon = True
    item.stash[_key] = _Limit(settings, time.monotonic(), timer)
    timer.start()
    return True if alone else None


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    if limit := item.stash.get(_key, None):
        limit.timer.cancel()


def restart(item: pytest.Item) -> None:
    """Gives a test its whole time again."""
    if limit := item.stash.get(_key, None):
        item.config.hook.pytest_timeout_cancel_timer(item=item)
        item.config.hook.pytest_timeout_set_timer(item=item, settings=limit.settings)


def pause(item: pytest.Item) -> None:
    """Stops a test's clock until `restart`."""
    if item.stash.get(_key, None):
        item.config.hook.pytest_timeout_cancel_timer(item=item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    limit = item.stash.get(_key, None)
    if report.failed and limit and time.monotonic() - limit.since >= limit.settings.timeout:
        end_compilers()
    return report


def _expired(item: pytest.Item, settings: Any) -> None:
    import pytest_timeout

    if not settings.disable_debugger_detection and pytest_timeout.is_debugging():
        return
    main = threading.main_thread().ident
    stack = traceback.format_stack(sys._current_frames()[main])[-_FRAMES:] if main is not None else []
    step = activity.current()
    lines = [
        f"{item.nodeid} did not end within {settings.timeout:g} s"
        + (f"; it was {step}" if step else "")
        + ". Its process is ended.",
        *"".join(stack).splitlines(),
        f"repeat: {command_of(item)}",
    ]
    end_compilers()
    end_process(item, "\n".join(lines))
