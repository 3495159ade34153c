"""Shows the mistakes of a kernel's author in a few lines, as a wrong kernel is shown.

A spec that does not fit its program (`SpecError`), and whatever is raised in a program, a reference or
another function of the author's, become one message: what happened, the author's own lines that led there,
and the command that repeats the test. Between those lines is the way through this harness, TileLang and
torch, which tells an author nothing; `--tb=long`, `--tb=native` and `--full-trace` show it. The exception
stays what it is, so that expected failures are told from others as ever.
"""

import linecache
import os
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import tilecheck
from tilecheck.plugin.code.shared import SharedRow
from tilecheck.plugin.repeat import command_of
from tilecheck.plugin.rows import CodeRow, KernelCase, code_row_of, row_of
from tilecheck.plugin.selection import active, selection
from tilecheck.spec import SpecError

_HARNESS = os.path.dirname(tilecheck.__file__) + os.sep
_INSTALLED = f"{os.sep}site-packages{os.sep}"  # an environment is often below the root

_LINES = 12
"""Of an exception's message: TileLang's end with stacks of C++."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report: Any = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if report.failed and call.when == "call" and isinstance(error, Exception) and not _asked_for_all(item):
        row = row_of(item) or code_row_of(item) or _shared_row_of(item)
        places = list(_own_places(item, error.__traceback__))
        if row is not None and (places or isinstance(error, SpecError)):
            words = _words(error)
            lines = [*_head(item, row), *places, *words, f"repeat: {command_of(item)}"]
            report.longrepr = _shown("\n".join(lines), words[0])
    return report


def _asked_for_all(item: pytest.Item) -> bool:
    chosen = item.config.option
    return bool(chosen.fulltrace or chosen.tbstyle in ("long", "native") or not active(item.config))


def _shared_row_of(item: pytest.Item) -> SharedRow | None:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return next((value for value in parameters.values() if isinstance(value, SharedRow)), None)


def _head(item: pytest.Item, row: KernelCase | CodeRow | SharedRow) -> Iterator[str]:
    if isinstance(row, KernelCase):
        chosen = selection(item.config)
        yield f"{row.spec.name} cannot be checked for {row.case} on {chosen.device}, {chosen.arch.name}"
        if row.schedule is not None:
            yield f"schedule: {row.schedule}"
    else:
        yield f"the code of {row.spec.name} for {row.case}, {row.arch.name}, cannot be made"


def _words(error: Exception) -> list[str]:
    """What happened; of a SpecError its message, which says it all."""
    named = traceback.format_exception_only(type(error), error)
    text = str(error) if isinstance(error, SpecError) else "".join(named)
    return text.strip().splitlines()[:_LINES] or [type(error).__name__]


def _own_places(item: pytest.Item, stack: TracebackType | None) -> Iterator[str]:
    """The author's lines, outermost first: those that the harness led to, called by the test."""
    test = getattr(getattr(item, "function", None), "__code__", None)
    in_test = in_harness = False
    while stack is not None:
        code = stack.tb_frame.f_code
        file = code.co_filename
        if not in_test:
            in_test = code is test
        elif file.startswith(_HARNESS):
            in_harness = True
        elif in_harness and _is_own(item.config.rootpath, file):
            where = os.path.relpath(file, item.config.rootpath)
            yield f"{where}:{stack.tb_lineno}: in {code.co_name}"
            if source := linecache.getline(file, stack.tb_lineno).strip():
                yield f"    {source}"
        stack = stack.tb_next


def _is_own(root: Path, file: str) -> bool:
    return os.path.isabs(file) and Path(file).is_relative_to(root) and _INSTALLED not in file


class _Mistake(Exception):
    """Carries a message to pytest."""


def _shown(message: str, summary: str) -> Any:
    """The message as pytest shows a failure, alone, with a line for its short summary; it travels from xdist
    workers.
    """
    try:
        raise _Mistake(message)
    except _Mistake as error:
        shown: Any = pytest.ExceptionInfo.from_exception(error).getrepr(style="value")
    shown.reprcrash.message = summary
    return shown
