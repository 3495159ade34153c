"""Does every kernel compute the right thing, in every case?"""

import pytest

from tilecheck.plugin import Checker, KernelCase

pytestmark = pytest.mark.correctness


def test_output(kernel_case: KernelCase, checker: Checker) -> None:
    checker.conformance(kernel_case)
