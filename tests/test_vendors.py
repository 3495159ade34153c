"""Does what every kernel is timed against compute the same?"""

import pytest

from tilecheck.plugin import Checker, KernelCase

pytestmark = [pytest.mark.correctness, pytest.mark.gpu]


def test_same_function(small_case: KernelCase, checker: Checker) -> None:
    checker.vendors(small_case)
