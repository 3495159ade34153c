"""Do the simulator and the GPU agree on the same inputs?"""

import pytest

from tilecheck.plugin import Checker, KernelCase

pytestmark = [pytest.mark.correctness, pytest.mark.gpu]


def test_simulator_agrees_with_gpu(simulated_case: KernelCase, checker: Checker) -> None:
    checker.agreement(simulated_case)
