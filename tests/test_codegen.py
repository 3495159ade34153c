"""What did the compiler emit, for each architecture: what was promised, and the same as last time?"""

import pytest

from tilecheck.plugin import CodeChecker, CodeRow

pytestmark = pytest.mark.codegen


def test_landmarks(code_row: CodeRow, code_checker: CodeChecker) -> None:
    code_checker.landmarks(code_row)


def test_facts(code_row: CodeRow, code_checker: CodeChecker) -> None:
    code_checker.facts(code_row)


def test_stored_rows(code_arch: str, code_checker: CodeChecker) -> None:
    code_checker.stored_rows(code_arch)
