"""Tests of the harness: thousands, which take seconds to collect, and most runs ask for none of them."""

import signal
from pathlib import Path

import pytest

from tilecheck.plugin.marks import excluded

MARKS = frozenset({"codegen"})
"""Those of the suite's markers that tests in this folder have."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Passes over a module without importing it, where `-m` leaves all tests of this folder out."""
    expression = config.option.markexpr
    left_out = expression and excluded(expression, ()) and excluded(expression, MARKS)
    return True if left_out and collection_path.suffix == ".py" else None


@pytest.fixture(autouse=True)
def loaded_once(request: pytest.FixtureRequest) -> None:
    """pytester drops the modules that only its runs import, and TileLang, which these import where they have
    rows, does not load twice.
    """
    if "pytester" in request.fixturenames:
        import tilelang  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def heeded_signals() -> None:
    """Ctrl-C and the end of a terminal mean what they do in front, also where the run was started to ignore
    them, as by nohup or by a shell that put it into the background: what tests start would inherit that.
    """
    for each, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(each) is signal.SIG_IGN:
            signal.signal(each, usual)
