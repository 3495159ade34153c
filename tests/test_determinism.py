"""Does every kernel give the same bits again, whatever else goes on?"""

import pytest
from split_k import ATOMIC, FIXED

from tilecheck.determinism import Nondeterministic
from tilecheck.plugin import Checker, KernelCase

pytestmark = pytest.mark.correctness


@pytest.mark.gpu
def test_same_bits(small_case: KernelCase, checker: Checker) -> None:
    checker.determinism(small_case)


@pytest.mark.parametrize("spec", [FIXED, ATOMIC], ids=lambda spec: spec.name)
def test_sums_cut_along_k_are_right(spec, checker: Checker) -> None:
    checker.conformance(KernelCase(spec, spec.cases[0]), modules=["split_k"], recorded=False)


@pytest.mark.gpu
def test_shares_added_in_a_fixed_order_give_the_same_bits(checker: Checker) -> None:
    checker.determinism(KernelCase(FIXED, FIXED.cases[0]))


@pytest.mark.gpu
def test_shares_added_as_they_come_do_not(checker: Checker) -> None:
    with pytest.raises(Nondeterministic, match="C differs in"):
        checker.determinism(KernelCase(ATOMIC, ATOMIC.cases[0]))
