"""Counts the instructions of a disassembly (SASS), by the families that tell how a kernel works.

Families: an opcode without its modifiers ("HGMMA", "BAR"); loads and stores of global and shared memory, and
asynchronous copies, with their width in bits a thread ("LDG.128", "LDGSTS.32"); special functions with theirs
("MUFU.EX2"); all of Blackwell's tensor core instructions as "UTCMMA"; "total" for the whole code.
Opcodes: CUDA Binary Utilities 13.0, "Instruction Set Reference".
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator

_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?P<text>[^;]*);", re.MULTILINE)
_OPCODE = re.compile(r"^(?:\{\s*)?(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z0-9_]+)(?P<modifiers>(?:\.\w+)*)")

_COUNTED = frozenset(
    (
        # Tensor cores: Hopper's by warpgroup, the others' by warp.
        *("HGMMA", "IGMMA", "QGMMA", "HMMA", "IMMA", "DMMA", "QMMA", "OMMA"),
        # Bulk copies and reductions; tensor memory of Blackwell.
        *("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED", "LDTM", "STTM"),
        # Tiles between shared memory and registers.
        *("LDSM", "STSM", "MOVM"),
        # Local memory, generic addresses, atomics.
        *("LDL", "STL", "LD", "ST", "ATOM", "ATOMG", "ATOMS", "RED"),
        # Waiting for each other and for copies.
        *("BAR", "SYNCS", "DEPBAR", "LDGDEPBAR", "MEMBAR", "WARPGROUP", "WARPSYNC"),
        # Arithmetic beside the tensor cores, shuffles, jumps, calls.
        *("FADD", "FFMA", "FMUL", "HADD2", "HFMA2", "HMUL2", "F2FP", "SHFL", "BRA", "CALL"),
    )
)
_WITH_WIDTH = frozenset(("LDG", "STG", "LDS", "STS", "LDGSTS"))
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}


def instructions(disassembly: str) -> Iterator[str]:
    """The instructions of `nvdisasm -c`'s output, without addresses: "@!P0 LDG.E.128 R4, [R2.64]"."""
    return (found["text"].strip() for found in _INSTRUCTION.finditer(disassembly))


def counts(code: Iterable[str]) -> dict[str, int]:
    """How often each family occurs in `code`, sorted by name; families that do not are left out."""
    counted: Counter[str] = Counter()
    for instruction in code:
        counted["total"] += 1
        if name := family(instruction):
            counted[name] += 1
    return dict(sorted(counted.items()))


def family(instruction: str) -> str | None:
    """The family that an instruction is counted in; None: only in the total."""
    found = _OPCODE.match(instruction)
    if found is None:
        return None
    opcode, modifiers = found["opcode"], found["modifiers"].split(".")[1:]
    if opcode in _WITH_WIDTH:
        return f"{opcode}.{next((_WIDTHS[m] for m in modifiers if m in _WIDTHS), 32)}"
    if opcode == "MUFU":
        return f"MUFU.{modifiers[0]}"
    if opcode.startswith("UTC") and opcode.endswith("MMA"):
        return "UTCMMA"
    return opcode if opcode in _COUNTED else None


def digest(code: Iterable[str]) -> str:
    """A hash of the instructions, 16 hex digits."""
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:16]
