"""What a run leaves out, with the reason: cases too large for the simulator, hardware that is not there.

Decided from the spec alone, so that no program is built for a case that does not run.
"""

from collections.abc import Generator
from math import prod
from typing import Any, NoReturn

import pytest

from tilecheck.plugin.carried import reason_of_skip
from tilecheck.plugin.lost import lost
from tilecheck.plugin.options import option, spelling
from tilecheck.plugin.rows import row_of
from tilecheck.plugin.selection import Selection, active, selection
from tilecheck.spec import Case, KernelSpec

# What one core simulates in a few seconds, and what the float64 reference of it holds in memory.
SIMULATOR_FLOPS = 2e9
SIMULATOR_BYTES = 64 * 2**20
# For kernels without a cost: the product of the dims, which for a matmul is half its operations.
SIMULATOR_POINTS = 2**27

TOO_LARGE = "tilecheck.too-large"
"""Name of the user property of a skipped test that holds why the simulator does not run its case."""

NEEDS_GPU = "tilecheck.needs-gpu"
"""Name of the user property of a test that is skipped for want of a GPU; it holds why there is none."""


def too_large(spec: KernelSpec, case: Case) -> str | None:
    """Why the simulator does not run `case`, in one line; None: it does."""
    cost = spec.cost_of(case)
    if cost is None:
        points = prod(case.dims.values())
        if points > SIMULATOR_POINTS:
            return f"{_times(case)} = {points:.2g} points, over {SIMULATOR_POINTS:.2g}"
    elif cost.flops > SIMULATOR_FLOPS:
        return f"{cost.flops:.2g} operations, over {SIMULATOR_FLOPS:.2g}"
    elif cost.bytes > SIMULATOR_BYTES:
        return f"{cost.bytes / 2**20:.0f} MiB, over {SIMULATOR_BYTES / 2**20:.0f} MiB"
    return None


def lacking(spec: KernelSpec, chosen: Selection) -> str | None:
    """Why a kernel does not run on the architecture of this run; None: it does."""
    if chosen.arch.name in spec.arches:
        return None
    return f"{spec.name} is for {', '.join(spec.arches)}, and this run is for {chosen.arch.name}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not active(config):
        return
    chosen = selection(config)
    for item in items:
        row = row_of(item)
        if item.get_closest_marker("gpu") and chosen.simulated:
            why = chosen.no_gpu or "this run is on the simulator"
            item.user_properties.append((NEEDS_GPU, why))
            _skip(item, f"needs a GPU: {why}")
        elif row is None:
            continue
        elif lack := lacking(row.spec, chosen):
            _skip(item, lack)
        elif chosen.simulated and (reason := too_large(row.spec, row.case)):
            item.user_properties.append((TOO_LARGE, reason))
            _skip(item, f"{row.id} is too large for the simulator: {reason}")


_Skip: Any = pytest.skip.Exception  # which has no name of its own for mypy


class Lacking(_Skip):  # type: ignore[misc]
    """A skip for want of something that this machine has not: right also where a GPU is required."""


def skip_lacking(what: str) -> NoReturn:
    """Skips the running test as the machine lacks `what`, a tool, memory or a permission."""
    raise Lacking(f"lacking: {what}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report: Any = yield
    lacks = call.excinfo is not None and isinstance(call.excinfo.value, Lacking)
    skipped = report.skipped and not hasattr(report, "wasxfail") and not lacks
    if option(item.config, "require-gpu") and skipped and not lost(item.config):
        row = row_of(item)
        here = (
            item.get_closest_marker("gpu")
            if row is None
            else lacking(row.spec, selection(item.config)) is None
        )
        if here:
            reason = reason_of_skip(report)
            report.outcome = "failed"
            report.longrepr = (
                f"{reason}\n{spelling(item.config, 'require-gpu')}: a skip on the right hardware fails"
            )
    return report


def _skip(item: pytest.Item, reason: str) -> None:
    item.add_marker(pytest.mark.skip(reason=reason))


def _times(case: Case) -> str:
    return " * ".join(f"{name}={size}" for name, size in case.dims.items())
