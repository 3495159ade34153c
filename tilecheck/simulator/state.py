"""What changes while a program runs: variables, the active lanes, the block at hand, and what was found."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tilecheck.simulator.findings import Findings
from tilecheck.simulator.memory import Array, Registers
from tilecheck.simulator.values import Value

if TYPE_CHECKING:
    from tilecheck.simulator.clusters import Cluster


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
    block: number of the block, from 1; in a cluster, it has several.  place: its coordinates (x, y, z).
    early: the launch before may still run.  cluster: of the block; None outside of clusters.  rank: in it.
    """

    __slots__ = (
        "block",
        "broken",
        "cluster",
        "continued",
        "early",
        "findings",
        "mask",
        "memory",
        "place",
        "rank",
        "returned",
        "tell",
        "vars",
    )

    def __init__(
        self,
        variables: int,
        memory: list[Array | Registers | None],
        tell: Callable[[str], Any],
        findings: Findings | None = None,
    ) -> None:
        self.vars: list[Value] = [None] * variables
        self.memory: list[Any] = memory
        self.findings = Findings() if findings is None else findings
        self.tell = tell
        self.mask: Tensor | None = None
        self.broken: Tensor | None = None
        self.continued: Tensor | None = None
        self.returned: Tensor | None = None
        self.block = 0
        self.place: tuple[int, ...] = ()
        self.early = False
        self.cluster: Cluster | None = None
        self.rank = 0

    def of_peer(self, memory: list[Any]) -> "State":
        """The state of a block that runs at the same time, with memory of its own."""
        peer = State(0, memory, self.tell, self.findings)
        peer.vars = list(self.vars)
        return peer

    def narrow(self, mask: Tensor | None) -> Tensor | None:
        """`mask` without the lanes that left by a break, a continue or a return."""
        for gone in (self.broken, self.continued, self.returned):
            if gone is not None:
                mask = ~gone if mask is None else mask & ~gone
        return mask

    def foreign(self, entries: Tensor) -> Tensor:
        """Entries of an owner or reader shadow that name what another block did, and what nothing orders
        before what this one does now; or several blocks.
        """
        if self.cluster is not None:
            return self.cluster.unordered(self.rank, entries)
        return (entries > 0) & (entries != self.block)

    @property
    def where(self) -> str:
        return f"block ({', '.join(map(str, self.place))})" if self.place else "the program"


def both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b


def either(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a | b
