"""The row a test runs for: one kernel on one of its cases."""

from dataclasses import dataclass

import pytest

from tilecheck.spec import Case, KernelSpec

ARGUMENTS = ("kernel_case", "simulated_case")
"""Names under which a test asks for rows; `tilecheck.plugin.parametrization` says how they differ."""


@dataclass(frozen=True)
class KernelCase:
    """One kernel on one of its cases."""

    spec: KernelSpec
    case: Case

    @property
    def id(self) -> str:
        return self.spec.test_id(self.case)

    def __repr__(self) -> str:  # pytest prints it above every failure
        return f"<{self.spec.name}: {self.case}>"


def row_of(item: pytest.Item) -> KernelCase | None:
    """The row that the plugin gave to this test; None for any other test."""
    values = getattr(getattr(item, "callspec", None), "params", {})
    return next((values[name] for name in ARGUMENTS if isinstance(values.get(name), KernelCase)), None)
