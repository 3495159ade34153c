"""Gives tests the kernels and cases: one that asks for `kernel_case` runs for each of them.

kernel_case     all cases
simulated_case  those that the simulator can run, whatever the device
small_case      a few of each kernel: those of its grid, if it has one
hostile_case    these (on the simulator the first of each kernel), with each kind of hostile input
grid_case       those that a kernel tries its grid on
scheduled_case  these, under each schedule
latency_case    those that a kernel is timed on
tuned_case      the first case that a kernel's schedules are searched for, if they are

Ids are `KernelSpec.test_id`, which is API: `test_output[matmul-tail-m-fp16]`, with the draw's or the
schedule's after it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

import pytest

from tilecheck.plugin.grids import grid_of
from tilecheck.plugin.limits import too_large
from tilecheck.plugin.marks import all_excluded
from tilecheck.plugin.options import option
from tilecheck.plugin.rows import ARGUMENTS, KernelCase
from tilecheck.plugin.selection import selection
from tilecheck.plugin.specs import specs
from tilecheck.spec import HOSTILE_DRAWS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in ARGUMENTS:
        if name in metafunc.fixturenames and specs(metafunc.config):
            if _needs_absent_gpu(metafunc):
                metafunc.parametrize(name, [None], ids=["every-case"])  # one skip says as much as hundreds
            elif name == "scheduled_case" and all_excluded(metafunc):
                metafunc.parametrize(name, [None], ids=["every-schedule"])  # `-m` drops it as it would all
            else:
                rows = list(_ROWS[name](metafunc.config))
                metafunc.parametrize(name, rows, ids=[row.id for row in rows])


def _kernel_cases(config: pytest.Config) -> Iterator[KernelCase]:
    return (KernelCase(spec, case) for spec in specs(config) for case in spec.cases)


def _simulated_cases(config: pytest.Config) -> Iterator[KernelCase]:
    return (row for row in _kernel_cases(config) if too_large(row.spec, row.case) is None)


def _small_cases(config: pytest.Config) -> Iterator[KernelCase]:
    for spec in specs(config):
        small = [case.id for case in spec.cases if too_large(spec, case) is None]
        yield from (KernelCase(spec, spec.case(id)) for id in spec.grid_cases or small[:2])


def _hostile_cases(config: pytest.Config) -> Iterator[KernelCase]:
    rows = list(_small_cases(config))
    if selection(config).simulated:
        rows = list({row.spec.name: row for row in reversed(rows)}.values())[::-1]  # the first of each kernel
    for row in rows:
        for draw in HOSTILE_DRAWS:
            yield KernelCase(row.spec, replace(row.case, id=f"{row.case.id}-{draw}", draw=draw))


def _grid_cases(config: pytest.Config) -> Iterator[KernelCase]:
    for spec in specs(config):
        if spec.grid and selection(config).arch.name in spec.arches:
            yield from (KernelCase(spec, case) for case in spec.cases_of_grid)


def _scheduled_cases(config: pytest.Config) -> Iterator[KernelCase]:
    chosen = selection(config)
    for row in _grid_cases(config):
        try:
            grid = grid_of(config, row.spec, row.case, chosen.arch)
            variants = grid.full() if option(config, "all-schedules") else grid.pairwise()
        except ValueError as error:
            raise pytest.Collector.CollectError(f"tilecheck: {error}") from error
        if chosen.simulated:
            # Options of compiler passes make no difference to the simulator: one program is simulated once.
            variants = tuple({repr(v.schedule): v for v in reversed(variants)}.values())[::-1]
        yield from (KernelCase(row.spec, row.case, variant) for variant in variants)


def latency_cases(config: pytest.Config) -> Iterator[KernelCase]:
    """All rows that are timed."""
    return (KernelCase(spec, case) for spec in specs(config) for case in spec.cases_of_latency)


def _tuned_cases(config: pytest.Config) -> Iterator[KernelCase]:
    for spec in specs(config):
        if spec.tuning and selection(config).arch.name in spec.arches:
            yield KernelCase(spec, spec.cases_of_tuning[0])


_ROWS = {
    "kernel_case": _kernel_cases,
    "simulated_case": _simulated_cases,
    "small_case": _small_cases,
    "hostile_case": _hostile_cases,
    "grid_case": _grid_cases,
    "scheduled_case": _scheduled_cases,
    "latency_case": latency_cases,
    "tuned_case": _tuned_cases,
}


def _needs_absent_gpu(metafunc: pytest.Metafunc) -> bool:
    marked = any(metafunc.definition.get_closest_marker(name) for name in ("gpu", "latency"))
    return marked and selection(metafunc.config).simulated


@pytest.fixture
def kernel_case() -> KernelCase:
    """A kernel and one of its cases."""
    unconfigured()


@pytest.fixture
def simulated_case() -> KernelCase:
    """A kernel and one of those of its cases that are small enough for the simulator."""
    unconfigured()


@pytest.fixture
def small_case() -> KernelCase:
    """A kernel and one of a few small cases of it, for what takes long."""
    unconfigured()


@pytest.fixture
def hostile_case() -> KernelCase:
    """A kernel and one of a few small cases of it, with inputs of `tilecheck.hostile`."""
    unconfigured()


@pytest.fixture
def grid_case() -> KernelCase:
    """A kernel that has a grid, and one of the cases it is tried on."""
    unconfigured()


@pytest.fixture
def scheduled_case() -> KernelCase:
    """A kernel, one of its grid's cases, and one of the schedules to try."""
    unconfigured()


@pytest.fixture
def latency_case() -> KernelCase:
    """A kernel and one of the cases that it is timed on."""
    unconfigured()


def unconfigured() -> NoReturn:
    """Fails the test that asks for kernels where there are none."""
    pytest.fail("no kernels to check: the ini option tilecheck_specs names no specs", pytrace=False)


@pytest.fixture
def tuned_case() -> KernelCase:
    """A kernel that has a space of schedules, and the first case that it is searched for."""
    unconfigured()
