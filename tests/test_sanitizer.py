"""Do memory and race checkers find nothing in any kernel?"""

import pytest

from tilecheck.plugin import Checker, KernelCase, skip_lacking
from tilecheck.sanitizer import TOOLS, find_sanitizer

pytestmark = [pytest.mark.sanitizer, pytest.mark.gpu]


@pytest.mark.parametrize("tool", TOOLS)
def test_no_findings(tool: str, small_case: KernelCase, checker: Checker) -> None:
    if find_sanitizer() is None:
        skip_lacking("compute-sanitizer, which comes with the CUDA toolkit")
    checker.sanitized(small_case, tool)
