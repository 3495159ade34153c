"""Do memory and race checkers find nothing in any kernel?"""

import pytest

from tilecheck.plugin import Checker, KernelCase
from tilecheck.sanitizer import TOOLS, find_sanitizer

pytestmark = [
    pytest.mark.sanitizer,
    pytest.mark.gpu,
    pytest.mark.skipif(
        find_sanitizer() is None, reason="no compute-sanitizer: it comes with the CUDA toolkit"
    ),
]


@pytest.mark.parametrize("tool", TOOLS)
def test_no_findings(tool: str, small_case: KernelCase, checker: Checker) -> None:
    checker.sanitized(small_case, tool)
