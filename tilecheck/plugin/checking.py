"""Runs a check for a test, and records what came out."""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tilecheck.ledger import DANGEROUS
from tilecheck.plugin.carried import carried_by_call
from tilecheck.plugin.expected import known_of
from tilecheck.plugin.grids import grid_of
from tilecheck.plugin.options import option
from tilecheck.plugin.repeat import command_of
from tilecheck.plugin.rows import KernelCase

if TYPE_CHECKING:
    from tilecheck.conformance import Outcome
    from tilecheck.device import Device
    from tilecheck.spec import Case, KernelSpec

RECORD = "tilecheck"
"""Name of the user property of a test's report that holds its `Record`, as JSON."""

IMPOSSIBLE = "tilecheck-impossible"
"""Name of the user property that lists the pairs of a grid's values that no legal schedule has."""


@dataclass(frozen=True)
class Record:
    """What a check found; travels with the test's report, also from xdist workers and into JUnit files.

    budget_used: largest error in units of the bound, over all elements and outputs.
    terms_used: the same for the error terms alone, without the rounding into the output's dtype.
    """

    kernel: str
    case: str
    dtype: str
    device: str
    arch: str
    budget_used: float
    terms_used: float
    max_abs_error: float
    relative_error: float
    empirical: bool


class Checker:
    """The checks that a test can ask for, on the device of this run. One that fails raises AssertionError."""

    def __init__(self, item: pytest.Item, device: "Device") -> None:
        self._item = item
        self.device = device
        self.seed: int = option(item.config, "seed")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.device.describe()}>"

    def conformance(self, row: KernelCase, *, modules: Sequence[str] = ()) -> None:
        """The kernel's outputs are those of its reference, within the bound, and it touches nothing else.

        A kernel that is known to hang or die (`tilecheck.ledger`) runs in a process of its own on a GPU.
        modules: that hold the row's spec, if it is none of the ini option `tilecheck_specs`; it does not
        count in the run's summary then.
        """
        __tracebackhide__ = True
        from tilecheck.conformance import Mismatch, check

        known = known_of(self._item)
        if known and known.symptom in DANGEROUS and self.device.name != "simulator":
            self._isolated(row, tuple(modules or self._item.config.getini("tilecheck_specs")))
            return
        outcome: Outcome | None = None
        try:
            outcome = self._called(check, row, schedule=row.schedule, pass_configs=row.pass_configs)
        except Mismatch as mismatch:
            outcome = mismatch.outcome
            raise
        finally:
            if outcome is not None and not modules:
                self._record(row, outcome)

    def _isolated(self, row: KernelCase, modules: tuple[str, ...]) -> None:
        __tracebackhide__ = True
        from tilecheck.isolation import check_isolated

        def in_child(spec: "KernelSpec", case: "Case", device: "Device", **given: Any) -> None:
            del given["repeat"]
            check_isolated(modules, spec.test_id(case), device=device.name, **given)

        self._called(in_child, row, schedule=row.schedule, pass_configs=row.pass_configs)

    def alone(self) -> AbstractContextManager[None]:
        """While held, the other workers on this run's GPU hold still."""
        from tilecheck.plugin.memory import alone

        return alone(self._item)

    def agreement(self, row: KernelCase) -> None:
        """The simulator and this run's device give the same outputs for the same inputs, within the bound."""
        __tracebackhide__ = True
        from tilecheck.differential import agree

        self._called(agree, row)

    def determinism(self, row: KernelCase) -> None:
        """On a GPU, launches on the same inputs give the same bits, whatever else goes on."""
        __tracebackhide__ = True
        from tilecheck.determinism import check_determinism

        self._called(check_determinism, row, schedule=row.schedule, pass_configs=row.pass_configs)

    def vendors(self, row: KernelCase) -> None:
        """What the kernel is timed against computes the same."""
        __tracebackhide__ = True
        from tilecheck.latency.vendors import VendorMismatch, check_vendors

        try:
            check_vendors(row.spec, row.case, self.device, seed=self.seed)
        except VendorMismatch as error:
            repeat = command_of(self._item)
            raise AssertionError(f"{error}\nrepeat: {repeat}") from None

    def sanitized(self, row: KernelCase, tool: str) -> None:
        """compute-sanitizer finds nothing in a launch of the kernel, with one of `sanitizer.TOOLS`."""
        __tracebackhide__ = True
        from tilecheck.program import build_program
        from tilecheck.sanitizer import sanitize

        program = build_program(row.spec, row.case, self.device.arch, row.schedule, row.pass_configs)
        findings = sanitize(self._item.config.getini("tilecheck_specs"), program, tool, seed=self.seed)
        repeat = command_of(self._item)
        assert not findings, "\n".join(
            [f"{tool} on {row.spec.name}, {row.case}, {self.device.arch.name}:"]
            + [f"  {finding}" for finding in findings[:20]]
            + [f"repeat: {repeat}"]
        )

    def legality(self, row: KernelCase) -> None:
        """What `legal` rejects of the kernel's grid, it rejects by ValueError that names a value.

        Pairs of values that no legal schedule has are recorded as a property of the test.
        """
        __tracebackhide__ = True
        grid = grid_of(self._item.config, row.spec, row.case, self.device.arch)
        pairs = (f"{a}={x} with {b}={y}" for (a, x), (b, y) in grid.impossible())
        self._item.user_properties.append((IMPOSSIBLE, "; ".join(pairs)))
        lines = grid.unexplained()
        assert not lines, "\n".join(["rejected without a value of the schedule:", *lines[:10]])

    def _called(self, check: Callable[..., Any], row: KernelCase, **variant: Any) -> Any:
        __tracebackhide__ = True
        from tilecheck.conformance import Mismatch
        from tilecheck.determinism import Nondeterministic
        from tilecheck.device import DeviceError
        from tilecheck.differential import Disagreement
        from tilecheck.isolation import Wrong
        from tilecheck.simulator import Unsupported

        repeat = command_of(self._item)
        try:
            return check(row.spec, row.case, self.device, seed=self.seed, repeat=repeat, **variant)
        except (Mismatch, Disagreement, Nondeterministic) as error:
            # The message says it all; where in the checks it was raised tells a kernel's author nothing.
            raise error.with_traceback(None) from None
        except Unsupported as error:
            raise AssertionError(f"{row.id} cannot be simulated: {error}\nrepeat: {repeat}") from None
        except (Wrong, DeviceError) as error:
            # Of the same class, by which an expected failure tells what it is.
            raise type(error)(f"{error}\nrepeat: {repeat}") from error

    def _record(self, row: KernelCase, outcome: "Outcome") -> None:
        record = Record(
            kernel=row.spec.name,
            case=row.id,
            dtype=row.case.dtype,
            device=self.device.name,
            arch=self.device.arch.name,
            budget_used=outcome.budget_used,
            terms_used=outcome.terms_used,
            max_abs_error=outcome.max_abs_error,
            relative_error=outcome.relative_error,
            empirical=outcome.empirical,
        )
        self._item.user_properties.append((RECORD, json.dumps(asdict(record))))


@pytest.fixture
def checker(request: pytest.FixtureRequest, tilecheck_device: "Device") -> Checker:
    """The checks, on the device of this run."""
    return Checker(request.node, tilecheck_device)


def records(reports: Iterable[Any]) -> list[Record]:
    """The records that these reports of tests carry."""
    return [Record(**json.loads(text)) for report in reports for text in carried_by_call(report, RECORD)]
