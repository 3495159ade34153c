"""Whether TileLang can be imported, known before the first test: else each of them would fail of it."""

from typing import Any

import pytest

from tilecheck.broken import broken_package
from tilecheck.gist import gist
from tilecheck.plugin.rows import looks_at_code, row_of
from tilecheck.plugin.runfolder import is_worker
from tilecheck.plugin.selection import active


def pytest_sessionstart(session: pytest.Session) -> None:
    # Under xdist the workers collect, and can refuse nothing.
    if session.config.pluginmanager.has_plugin("dsession"):
        _require(session.config)


def pytest_exception_interact(node: Any, call: pytest.CallInfo[Any]) -> None:
    # A module of tests that imports it by itself: pytest would report each such module.
    if isinstance(node, pytest.Collector) and _asks(node.config) and call.excinfo is not None:
        error = call.excinfo.value
        if told := broken_package(error.__cause__ or error):
            raise pytest.UsageError(f"tilecheck: {told}")


def pytest_collection_finish(session: pytest.Session) -> None:
    # Only now, as it takes most of a second, and other tests do without it.
    if any(row_of(item) or looks_at_code(item) for item in session.items):
        _require(session.config)


def _asks(config: pytest.Config) -> bool:
    return not config.option.collectonly and not is_worker(config) and active(config)


def _require(config: pytest.Config) -> None:
    """UsageError, in one line, where it cannot be imported."""
    if not _asks(config):
        return
    try:
        import tilelang.language  # noqa: F401  what only bears the name has none
    except Exception as error:  # whatever a broken installation raises
        told = broken_package(error) or (
            f"TileLang cannot be imported: {gist(error)}; tilecheck doctor says what mends it"
        )
        raise pytest.UsageError(f"tilecheck: {told}") from error
