"""The row a test runs for: one kernel on one of its cases, perhaps under one schedule; or the code it has."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tilecheck.arches import Arch
from tilecheck.spec import Case, KernelSpec

if TYPE_CHECKING:
    from tilecheck.schedules import Variant

ARGUMENTS = (
    "kernel_case",
    "simulated_case",
    "small_case",
    "hostile_case",
    "scheduled_case",
    "grid_case",
    "latency_case",
    "tuned_case",
)
"""Names under which a test asks for rows; `tilecheck.plugin.parametrization` says how they differ."""

CODE_ROW, CODE_ARCH = "code_row", "code_arch"
"""Names under which a test asks for rows of code, and for the architectures that facts are stored of."""


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


@dataclass(frozen=True)
class CodeRow:
    """The code of one kernel on one of its cases, under the default schedule of an architecture: compiled,
    and never launched, so that the device of the run is none of its business.
    """

    spec: KernelSpec
    case: Case
    arch: Arch

    @property
    def id(self) -> str:
        return f"{self.spec.test_id(self.case)}-{self.arch.name}"

    def __repr__(self) -> str:  # pytest prints it above every failure
        return f"<{self.spec.name}: {self.case} {self.arch.name}>"


def row_of(item: pytest.Item) -> KernelCase | None:
    """The row that this test runs for; None for a test without one."""
    return next((value for value in _parameters(item).values() if isinstance(value, KernelCase)), None)


def code_row_of(item: pytest.Item) -> CodeRow | None:
    """The row of code that this test looks at; None for a test without one."""
    return next((value for value in _parameters(item).values() if isinstance(value, CodeRow)), None)


def code_arch_of(item: pytest.Item) -> str | None:
    """The architecture of which this test looks at what is stored; None for one that does not."""
    return _parameters(item).get(CODE_ARCH)


def looks_at_code(item: pytest.Item) -> bool:
    """Whether a test looks at a row of code, or at what is stored of an architecture's."""
    return code_row_of(item) is not None or code_arch_of(item) is not None


def compares_code(item: pytest.Item) -> bool:
    """Whether a test asks for the rows of code that kernels have and facts are stored of, or for all stored
    of an architecture; another test that compiles is none.
    """
    return not _parameters(item).keys().isdisjoint((CODE_ROW, CODE_ARCH))


def uses_device(item: pytest.Item) -> bool:
    """Whether a test runs kernels on the device of this run, or needs a GPU for itself."""
    return row_of(item) is not None or item.get_closest_marker("gpu") is not None


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters
