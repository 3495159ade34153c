"""The shared memory that a block takes, as `legal` reckons it and as TileLang lays it out."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from tilecheck.arches import KIB

if TYPE_CHECKING:
    from tilecheck.codegen import Lowered
    from tilecheck.program import Program

_STATIC = re.compile(r"^\s*__shared__ .*?\buint64_t \w+\[(?P<barriers>\d+)\];", re.MULTILINE)
_DYNAMIC_AT = KIB  # TileLang has the dynamic part start at a multiple of it

T = TypeVar("T")


def disagreements(program: "Program", lowered: "Lowered") -> Iterator[str]:
    """What is wrong with the shared memory that the spec predicts for `program`, in lines.

    Dynamic shared memory has to be as predicted, to the byte; together with the static one, which holds
    barriers, it must not exceed what a block can have.
    """
    arch, measured = program.arch, lowered.dynamic_shared
    predicted = program.spec.shared_memory_of(
        program.case, arch, program.schedule, program.names["pass_configs"]
    )
    if measured != predicted:
        yield f"{measured} bytes of dynamic shared memory, {predicted} predicted ({program.variant})"
    if (total := measured + static_shared(lowered)) > arch.shared_per_block:
        yield f"{total} bytes of shared memory, {arch.name} has {arch.shared_per_block} ({program.variant})"


def static_shared(lowered: "Lowered") -> int:
    """Bytes of static shared memory of a block, with the gap before the dynamic one.

    ptxas reports the same, for a program whose only static arrays are barriers.
    """
    barriers = sum(int(found["barriers"]) for found in _STATIC.finditer(lowered.cuda))
    return -(-8 * barriers // _DYNAMIC_AT) * _DYNAMIC_AT


def spread(rows: Sequence[T], count: int) -> tuple[T, ...]:
    """At most `count` of `rows`, at even distances."""
    return tuple(rows[i * len(rows) // count] for i in range(count)) if len(rows) > count else tuple(rows)
