"""Are sums that are cut along K right, and the same bits each time where they are added in a fixed order?"""

import pytest
from split_sums import ATOMIC, FIXED

from tilecheck.determinism import Nondeterministic
from tilecheck.plugin import Checker, KernelCase
from tilecheck.spec import KernelSpec

pytestmark = pytest.mark.correctness


@pytest.mark.parametrize("spec", [FIXED, ATOMIC], ids=lambda spec: spec.name)
def test_output(spec: KernelSpec, checker: Checker) -> None:
    checker.conformance(KernelCase(spec, spec.cases[0]), modules=["split_sums"])


@pytest.mark.gpu
def test_fixed_order_gives_the_same_bits(checker: Checker) -> None:
    checker.determinism(KernelCase(FIXED, FIXED.cases[0]))


@pytest.mark.gpu
def test_order_of_arrival_does_not(checker: Checker) -> None:
    with pytest.raises(Nondeterministic, match="C differs in"):
        checker.determinism(KernelCase(ATOMIC, ATOMIC.cases[0]))
