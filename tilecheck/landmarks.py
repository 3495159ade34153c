"""Promises that a kernel makes about the code it compiles to, whatever the toolchain.

Imports neither torch nor TileLang: kernel files state their landmarks with it.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilecheck.arches import Arch

if TYPE_CHECKING:
    from tilecheck.codegen.facts import Facts

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Landmark:
    """One promise: a fact of the compiled code lies within bounds.

    id: lower-kebab, as in "tensor-cores"; the ledger of known issues refers to it.
    fact: a number of `tilecheck.codegen.Facts` ("registers", "spill_stores"), or a family of instructions
        ("HGMMA", "LDG.128"); several, joined by "|", count together ("LDSM|HGMMA").
    least, most: the bounds, both included; one of them at least.
    why: what is lost where it does not hold.
    Raises ValueError where one of them is malformed.
    """

    id: str
    fact: str
    least: int | None = None
    most: int | None = None
    why: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"landmark id {self.id!r} is not lower-kebab (like 'tensor-cores')")
        if self.least is None and self.most is None:
            raise ValueError(f"landmark {self.id!r}: neither `least` nor `most` bounds {self.fact}")
        if not self.why.strip():
            raise ValueError(f"landmark {self.id!r}: `why` is empty; say what is lost where it does not hold")

    def breach(self, facts: "Facts") -> str | None:
        """How `facts` break the promise, in one line; None: they keep it."""
        value = sum(facts.value(name) for name in self.fact.split("|"))
        if self.least is not None and value < self.least:
            return f"{self.id}: {self.fact} is {value}, at least {self.least} promised: {self.why}"
        if self.most is not None and value > self.most:
            return f"{self.id}: {self.fact} is {value}, at most {self.most} promised: {self.why}"
        return None


def present(id: str, fact: str, why: str) -> Landmark:
    """The code has at least one of these instructions."""
    return Landmark(id, fact, least=1, why=why)


def absent(id: str, fact: str, why: str) -> Landmark:
    """The code has none of these instructions."""
    return Landmark(id, fact, most=0, why=why)


def common(arch: Arch) -> tuple[Landmark, ...]:
    """What every kernel promises on `arch`, unless its spec says otherwise."""
    return (
        absent("no-spills", "spill_stores|spill_loads", "registers go through memory"),
        absent("no-local-memory", "LDL|STL", "an array indexed at run time lies in memory"),
        Landmark(
            "shared-memory",
            "static_shared|dynamic_shared",
            most=arch.shared_per_block,
            why=f"{arch.name} launches no such block",
        ),
        Landmark(
            "registers",
            "registers_of_block",
            most=arch.registers_per_sm,
            why=f"{arch.name} launches no such block",
        ),
    )
