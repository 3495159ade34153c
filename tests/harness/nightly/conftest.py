"""What to look at the page of the nights with."""

from tests.harness.report.browsing import browser as browser
