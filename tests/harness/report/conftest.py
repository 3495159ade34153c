"""A report to look at."""

import pytest

from tests.harness.report.examples import whole_report
from tilecheck.report.model import Report


@pytest.fixture
def report() -> Report:
    return whole_report()
