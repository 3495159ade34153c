"""A report to look at, and what to look at it with."""

import pytest

from tests.harness.report.browsing import browser as browser
from tests.harness.report.examples import whole_report
from tilecheck.report.model import Report


@pytest.fixture
def report() -> Report:
    return whole_report()
