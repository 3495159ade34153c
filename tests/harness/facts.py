"""Facts of compiled kernels that were made up: no number in them was measured."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilecheck.codegen.facts import Facts

HOPPER = Facts(
    schedule="Schedule(block_m=128, stages=4, threads=128)",
    kernels=1,
    threads=256,
    registers=168,
    spill_stores=0,
    spill_loads=0,
    stack=0,
    static_shared=1024,
    dynamic_shared=65536,
    barriers=1,
    cubin_bytes=7392,
    source_hash="6f88b29da5840c5a",
    sass_hash="5cb5104ec0cf1f30",
    instructions={
        "HGMMA": 8,
        "LDG.128": 4,
        "LDG.32": 1,
        "STG.128": 16,
        "STSM": 16,
        "UTMALDG": 12,
        "UTMASTG": 1,
        "total": 800,
    },
)
AMPERE = replace(
    HOPPER,
    threads=128,
    instructions={
        "HMMA": 32,
        "LDG.128": 4,
        "LDG.32": 2,
        "LDGSTS.128": 8,
        "LDSM": 16,
        "STG.128": 4,
        "total": 176,
    },
)


def changed(facts: Facts, counts: Mapping[str, int] | None = None, **values: Any) -> Facts:
    """Facts of other code: with other counts of instructions, and other values."""
    counted = {**facts.instructions, **(counts or {})}
    kept = {name: count for name, count in counted.items() if count}
    return replace(facts, sass_hash="c" * 16, instructions=kept, **values)
