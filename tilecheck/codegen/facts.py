"""What the compiler made of a program, as numbers that can be compared."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Facts:
    """The code of one program, for one architecture. Of several device functions: counts are sums, sizes the
    largest.

    schedule: as text, "" without.  kernels: device functions.  threads: of a block.
    registers: a thread's.  spill_stores, spill_loads, stack: bytes a thread.
    static_shared, dynamic_shared: bytes a block.  barriers: named barriers of the hardware that it uses.
    cubin_bytes: size of the file.  source_hash: of the CUDA source.  sass_hash: of the disassembled
    instructions, without addresses.
    instructions: how often each family (see `tilecheck.codegen.sass`) occurs in the code.
    """

    schedule: str
    kernels: int
    threads: int
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    static_shared: int
    dynamic_shared: int
    barriers: int
    cubin_bytes: int
    source_hash: str
    sass_hash: str
    instructions: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "instructions", MappingProxyType(dict(self.instructions)))

    @property
    def registers_of_block(self) -> int:
        """Registers of all threads of a block; they are given to warps in units of 256."""
        warps = -(-self.threads // 32)
        return warps * -(-self.registers * 32 // 256) * 256

    def value(self, name: str) -> int:
        """The number called `name`: a size or count of this class, or how often a family of instructions
        occurs, in all widths where none is named ("LDG" for LDG.32, LDG.128, ...); 0 for one that does not.
        """
        if name in NUMBERS:
            return int(getattr(self, name))
        return sum(
            n for family, n in self.instructions.items() if family == name or family.startswith(f"{name}.")
        )

    def as_json(self) -> dict[str, Any]:
        """Only plain values; `Facts(**...)` makes it whole again."""
        return {
            f.name: dict(self.instructions) if f.name == "instructions" else getattr(self, f.name)
            for f in dataclasses.fields(self)
        }

    def __reduce__(self) -> tuple[Any, ...]:  # mapping proxies do not pickle
        return type(self), tuple(self.as_json().values())


NUMBERS = (*(f.name for f in dataclasses.fields(Facts) if f.type is int), "registers_of_block")
"""The facts that are numbers, instructions aside."""
