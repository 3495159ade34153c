"""The row a test runs for: one kernel on one of its cases, perhaps under one schedule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tilecheck.spec import Case, KernelSpec

if TYPE_CHECKING:
    from tilecheck.schedules import Variant

ARGUMENTS = ("kernel_case", "simulated_case", "small_case", "hostile_case", "scheduled_case", "grid_case")
"""Names under which a test asks for rows; `tilecheck.plugin.parametrization` says how they differ."""


@dataclass(frozen=True)
class KernelCase:
    """One kernel on one of its cases; under a schedule of its grid, or under the default one."""

    spec: KernelSpec
    case: Case
    variant: "Variant | None" = None

    @property
    def id(self) -> str:
        test_id = self.spec.test_id(self.case)
        return f"{test_id}-{self.variant.id}" if self.variant else test_id

    @property
    def schedule(self) -> Any:
        """None for the default one."""
        return self.variant.schedule if self.variant else None

    @property
    def pass_configs(self) -> Mapping[str, Any]:
        """Options of TileLang's passes beside those of the spec."""
        return self.variant.pass_configs if self.variant else {}

    def __repr__(self) -> str:  # pytest prints it above every failure
        return f"<{self.spec.name}: {self.case}{f' {self.variant.id}' if self.variant else ''}>"


def row_of(item: pytest.Item) -> KernelCase | None:
    """The row that this test runs for; None for a test without one."""
    values = getattr(getattr(item, "callspec", None), "params", {})
    return next((value for value in values.values() if isinstance(value, KernelCase)), None)


def uses_device(item: pytest.Item) -> bool:
    """Whether a test runs kernels on the device of this run, or needs a GPU for itself."""
    return row_of(item) is not None or item.get_closest_marker("gpu") is not None
