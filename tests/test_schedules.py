"""Is every kernel right under every legal schedule, and are the others rejected with a reason?"""

import pytest

from tilecheck.plugin import Checker, KernelCase

pytestmark = pytest.mark.correctness


def test_output(scheduled_case: KernelCase, checker: Checker) -> None:
    checker.conformance(scheduled_case)


def test_rejected_schedule_is_told_why(grid_case: KernelCase, checker: Checker) -> None:
    checker.legality(grid_case)
