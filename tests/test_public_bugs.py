"""Do kernels of the kinds that were reported as miscompiled come out right?"""

import pytest
from public_bugs import NEVER_CLEARED, SPECS

from tilecheck.arches import ARCHES
from tilecheck.conformance import Mismatch, check
from tilecheck.device import Simulator
from tilecheck.plugin import Checker, KernelCase

pytestmark = pytest.mark.correctness

ROWS = [KernelCase(spec, case) for spec in SPECS for case in spec.cases]
ON_GPU_ONLY = ("bug_2543",)
"""What the simulator does not know: values that stand for what lies past a tensor's end."""


def _marks(row: KernelCase) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.gpu,) if row.spec.name in ON_GPU_ONLY else ()


@pytest.mark.parametrize("bug", [pytest.param(row, id=row.id, marks=_marks(row)) for row in ROWS])
def test_reported_kind(bug: KernelCase, checker: Checker) -> None:
    checker.conformance(bug, modules=["public_bugs"])


def test_accumulator_never_cleared_is_found_on_the_cpu() -> None:
    # Whatever a GPU's registers hold by chance, the kernel is wrong.
    with pytest.raises(Mismatch, match=r"public_bugs\.py:\d+: unwritten read"):
        check(NEVER_CLEARED, NEVER_CLEARED.cases[0], Simulator(ARCHES["sm_90a"]), seed=0)
