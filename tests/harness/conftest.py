"""Tests of the harness: thousands, which take seconds to collect, and most runs ask for none of them."""

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
