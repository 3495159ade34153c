"""Each way in which a kernel may be indeterminate is found, and named."""

from collections.abc import Callable

import pytest
import torch

from tilecheck.determinism import LAUNCHES, Outputs, differences

Launch = Callable[[int], Outputs]


class Machine:
    """What launches leave behind, for fake kernels to depend on."""

    def __init__(self) -> None:
        self.launches, self.dirty, self.last, self.stream = 0, False, 0, 0

    def taint(self) -> None:
        self.dirty = True

    def run(self, kernel: Callable[["Machine", int], float]) -> list[str]:
        def launch(which: int) -> Outputs:
            out = torch.arange(6.0).view(2, 3) + 10 * which
            out[1, 2] += kernel(self, which)
            self.launches, self.dirty, self.last = self.launches + 1, False, which
            return {"C": out}

        return differences(launch, [_On(self, 1), _On(self, 2)], self.taint)


class _On:
    """A stream's context, which can be entered again, as torch's can."""

    def __init__(self, machine: Machine, stream: int) -> None:
        self.machine, self.stream = machine, stream

    def __enter__(self) -> None:
        self.machine.stream = self.stream

    def __exit__(self, *_: object) -> None:
        self.machine.stream = 0


def test_kernel_that_depends_on_its_inputs_alone_passes() -> None:
    assert Machine().run(lambda machine, which: 0.0) == []
    assert Machine().run(lambda machine, which: torch.nan) == []  # the same NaN each time


@pytest.mark.parametrize(
    ("kernel", "circumstance"),
    [
        (lambda machine, which: machine.launches == 30, "again, launch 29 of 50: C differs in 1 element"),
        (lambda machine, which: machine.stream == 2, "on two streams at once, launch 2 of 100"),
        (
            lambda machine, which: (machine.last, which, machine.stream) == (1, 1, 0),
            "in another order, launch 1 of 6",
        ),
        (lambda machine, which: machine.dirty, "after another kernel has left NaN everywhere, launch 1 of 3"),
    ],
)
def test_circumstance_that_changes_a_bit_is_named(
    kernel: Callable[[Machine, int], float], circumstance: str
) -> None:
    found = Machine().run(lambda machine, which: float(kernel(machine, which)))
    assert any(circumstance in line for line in found), found
    assert "[1, 2]" in found[0]


def test_both_sets_of_inputs_are_launched_on_both_streams() -> None:
    seen = set()
    Machine().run(lambda machine, which: seen.add((machine.stream, which)) or 0.0)
    assert {(1, 0), (1, 1), (2, 0), (2, 1)} <= seen
    assert LAUNCHES == 50
