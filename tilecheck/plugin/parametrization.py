"""Gives tests the kernels and cases: one that asks for `kernel_case` runs for each of them.

`kernel_case` goes over all cases; `simulated_case` over those that the simulator can run, whatever the
device. Ids are `KernelSpec.test_id`, which is API: `test_output[matmul-tail-m-fp16]`.
"""

from typing import NoReturn

import pytest

from tilecheck.plugin.limits import too_large
from tilecheck.plugin.rows import ARGUMENTS, KernelCase
from tilecheck.plugin.selection import selection
from tilecheck.plugin.specs import specs


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in ARGUMENTS:
        if name in metafunc.fixturenames and specs(metafunc.config):
            rows = [KernelCase(spec, case) for spec in specs(metafunc.config) for case in spec.cases]
            if name == "simulated_case":
                rows = [row for row in rows if too_large(row.spec, row.case) is None]
            if _needs_absent_gpu(metafunc):
                metafunc.parametrize(name, [None], ids=["every-case"])  # one skip says as much as hundreds
            else:
                metafunc.parametrize(name, rows, ids=[row.id for row in rows])


def _needs_absent_gpu(metafunc: pytest.Metafunc) -> bool:
    return metafunc.definition.get_closest_marker("gpu") is not None and selection(metafunc.config).simulated


@pytest.fixture
def kernel_case() -> KernelCase:
    """A kernel and one of its cases."""
    _unconfigured()


@pytest.fixture
def simulated_case() -> KernelCase:
    """A kernel and one of those of its cases that are small enough for the simulator."""
    _unconfigured()


def _unconfigured() -> NoReturn:
    pytest.fail("no kernels to check: the ini option tilecheck_specs names no specs", pytrace=False)
