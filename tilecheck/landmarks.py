"""Promises that a kernel makes about the code it compiles to, whatever the toolchain.

Imports neither torch nor TileLang: kernel files state their landmarks with it.
"""

import re
from collections.abc import Iterator
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


_OF_BLOCKS = {(9, 0): "HGMMA", (10, 0): "UTCMMA"}


def has_block_tensor_cores(arch: Arch, rows: int) -> bool:
    """Whether `arch` multiplies tiles of `rows` rows straight out of shared memory, for several warps at a
    time: by wgmma on Hopper, by tcgen05 on Blackwell's larger chips, both from 64 rows on.
    """
    return arch.capability in _OF_BLOCKS and rows >= 64


def tensor_cores(arch: Arch, rows: int) -> Landmark:
    """Products of tiles of `rows` rows go through the fastest tensor core instruction that `arch` has."""
    fact = _OF_BLOCKS[arch.capability] if has_block_tensor_cores(arch, rows) else "HMMA"
    return present("tensor-cores", fact, f"{arch.name} multiplies tiles of {rows} rows at a part of its rate")


def global_accesses(loads: int, stores: int) -> tuple[Landmark, ...]:
    """A thread loads and stores at least so many bytes of global memory at once; 0: it does not, at all."""
    return (*_accesses("LDG", "loads", loads), *_accesses("STG", "stores", stores))


_WIDTHS = (8, 16, 32, 64, 128, 256)


def _accesses(opcode: str, name: str, least: int) -> Iterator[Landmark]:
    if least == 0:
        yield absent(f"no-global-{name}", opcode, f"{name} go through registers, one thread at a time")
        return
    narrow, wide = (
        "|".join(f"{opcode}.{bits}" for bits in _WIDTHS if (bits >= 8 * least) is enough)
        for enough in (False, True)
    )
    yield present(f"wide-{name}", wide, f"no {name} of {least} bytes and more a thread")
    if narrow:
        yield absent(f"no-narrow-{name}", narrow, f"{name} of less than {least} bytes a thread take longer")
