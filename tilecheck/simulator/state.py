"""What changes while a program runs: variables, the active lanes, the block at hand, and what was found."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from tilecheck.simulator.findings import Findings
from tilecheck.simulator.memory import Array, Registers
from tilecheck.simulator.values import Value


class Break(Exception):
    """Every lane leaves the innermost loop."""


class Continue(Exception):
    """Every lane goes on to the next iteration of the innermost loop."""


class Return(Exception):
    """Every thread of the block is done."""


LEAVING = (Break, Continue, Return)


class State:
    """One run of a translated program.

    vars: values of the variables, by slot.  memory: buffers, by slot.
    mask: lanes in which the current statement runs; None: all of them.
    broken, continued, returned: lanes that left the loop, the iteration, the block; None: none did.
    block: number of the block, from 1.  place: its coordinates (x, y, z).
    """

    __slots__ = (
        "block",
        "broken",
        "continued",
        "findings",
        "mask",
        "memory",
        "place",
        "returned",
        "tell",
        "vars",
    )

    def __init__(
        self, variables: int, memory: list[Array | Registers | None], tell: Callable[[str], Any]
    ) -> None:
        self.vars: list[Value] = [None] * variables
        self.memory: list[Any] = memory
        self.findings = Findings()
        self.tell = tell
        self.mask: Tensor | None = None
        self.broken: Tensor | None = None
        self.continued: Tensor | None = None
        self.returned: Tensor | None = None
        self.block = 0
        self.place: tuple[int, ...] = ()

    def narrow(self, mask: Tensor | None) -> Tensor | None:
        """`mask` without the lanes that left by a break, a continue or a return."""
        for gone in (self.broken, self.continued, self.returned):
            if gone is not None:
                mask = ~gone if mask is None else mask & ~gone
        return mask

    @property
    def where(self) -> str:
        return f"block ({', '.join(map(str, self.place))})" if self.place else "the program"


def both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b


def either(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a | b
