"""Does every kernel give the same bits again, whatever else goes on?"""

import pytest

from tilecheck.plugin import Checker, KernelCase

pytestmark = [pytest.mark.correctness, pytest.mark.gpu]


def test_same_bits(small_case: KernelCase, checker: Checker) -> None:
    checker.determinism(small_case)
