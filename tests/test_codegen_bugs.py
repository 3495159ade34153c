"""Does code come of programs of the kind that was reported not to compile, for each architecture?"""

import pytest
from public_bugs import PIPELINED_ATTENTION

from tilecheck.arches import ARCHES
from tilecheck.plugin import CodeChecker, CodeRow

pytestmark = pytest.mark.codegen

ROWS = [
    CodeRow(PIPELINED_ATTENTION, case, target)
    for case in PIPELINED_ATTENTION.cases
    for target in ARCHES.values()
]


@pytest.mark.parametrize("bug", [pytest.param(row, id=row.id) for row in ROWS])
def test_reported_kind(bug: CodeRow, code_checker: CodeChecker) -> None:
    code_checker.landmarks(bug)
