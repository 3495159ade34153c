"""The grids of a run's kernels, each judged once: `legal` takes a second or two over a large one."""

from typing import TYPE_CHECKING

import pytest

from tilecheck.arches import Arch
from tilecheck.spec import Case, KernelSpec

if TYPE_CHECKING:
    from tilecheck.schedules import Grid

_key = pytest.StashKey[dict[tuple[int, str, str], "Grid"]]()


def grid_of(config: pytest.Config, spec: KernelSpec, case: Case, arch: Arch) -> "Grid":
    """The grid of `spec` for one of its cases; raises what `Grid` does."""
    from tilecheck.schedules import Grid

    grids = config.stash.setdefault(_key, {})
    at = id(spec), case.id, arch.name  # which no other spec has while its grid is kept
    if at not in grids:
        grids[at] = Grid(spec, case, arch)
    return grids[at]
