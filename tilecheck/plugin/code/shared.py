"""Gives tests schedules whose shared memory is looked at: one that asks for `shared_row` runs for each.

They are those of the kernels that predict it (`KernelSpec.shared_memory`), on the cases of their grids: so
many of an architecture, spread over all kernels, or with `--all-schedules` every one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tilecheck.arches import ARCHES, Arch
from tilecheck.codegen.sharedmemory import spread
from tilecheck.plugin.code.rows import PART
from tilecheck.plugin.grids import grid_of
from tilecheck.plugin.marks import all_excluded
from tilecheck.plugin.options import option
from tilecheck.plugin.parametrization import unconfigured
from tilecheck.plugin.specs import specs
from tilecheck.spec import Case, KernelSpec

if TYPE_CHECKING:
    from tilecheck.schedules import Variant

SCHEDULES = 60
"""Of each architecture. One is lowered in about half a second, attention in one to three."""

_ARGUMENT = "shared_row"


@dataclass(frozen=True)
class SharedRow:
    """The shared memory of a kernel on one of its cases, under one schedule, for one architecture."""

    spec: KernelSpec
    case: Case
    arch: Arch
    variant: "Variant"

    @property
    def id(self) -> str:
        return f"{self.spec.test_id(self.case)}-{self.variant.id}-{self.arch.name}"

    def __repr__(self) -> str:  # pytest prints it above every failure
        return f"<{self.spec.name}: {self.case} {self.variant.id} {self.arch.name}>"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _ARGUMENT in metafunc.fixturenames and specs(metafunc.config):
        if all_excluded(metafunc):
            metafunc.parametrize(_ARGUMENT, [None], ids=["every-schedule"])  # `-m` drops it as it would all
            return
        whole = option(metafunc.config, "all-schedules")
        of_arches = [list(_rows(metafunc.config, arch, whole)) for arch in PART]
        rows = [row for each in of_arches for row in (each if whole else spread(each, SCHEDULES))]
        metafunc.parametrize(_ARGUMENT, rows, ids=[row.id for row in rows])


def _rows(config: pytest.Config, arch: str, whole: bool) -> Iterator[SharedRow]:
    for spec in specs(config):
        if spec.grid and spec.shared_memory is not None and arch in spec.arches:
            for case in spec.cases_of_grid:
                grid = grid_of(config, spec, case, ARCHES[arch])
                for variant in grid.full() if whole else grid.pairwise():
                    yield SharedRow(spec, case, ARCHES[arch], variant)


@pytest.fixture
def shared_row() -> SharedRow:
    """A kernel that predicts its shared memory, one of its grid's cases, a schedule and an architecture."""
    unconfigured()
