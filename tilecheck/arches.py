"""Facts per GPU architecture that schedules must respect. Pure data; imports no tensor library.

Source of the limits: CUDA C++ Programming Guide 13.0, table "Technical Specifications per Compute
Capability". Of the rates: NVIDIA's architecture papers, dense peak over multiprocessors and boost clock
(A100: 312 TFLOP/s / (108 * 1.41 GHz) = 2048; H100 SXM: 989.4 TFLOP/s / (132 * 1.83 GHz) = 4096).
"""

import re
from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True)
class Arch:
    """One architecture.

    name: as nvcc spells it.  capability: (major, minor).
    shared_per_block: bytes of dynamic shared memory one block can opt in to.
    shared_per_sm: bytes of shared memory a multiprocessor has for all its blocks.
    tensor_rate: floating point operations a clock that a multiprocessor's tensor cores do on 16-bit
        operands, summed in fp32; half as many on tf32, twice as many on 8 bits. Consumer cards of sm_89 and
        sm_120a have half of it.
    bulk_copy: it has the bulk tensor copy engine (TMA).
    threads_per_sm, blocks_per_sm: that a multiprocessor holds at a time.
    gpu: model of the GPU at hand, as `gpu_model` spells it; "" for the architecture alone.
    """

    name: str
    capability: tuple[int, int]
    shared_per_block: int
    shared_per_sm: int
    tensor_rate: int
    bulk_copy: bool = False
    max_threads: int = 1024
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    threads_per_sm: int = 2048
    blocks_per_sm: int = 32
    gpu: str = ""


ARCHES: dict[str, Arch] = {
    a.name: a
    for a in (
        Arch("sm_80", (8, 0), 163 * KIB, 164 * KIB, 2048),
        Arch("sm_89", (8, 9), 99 * KIB, 100 * KIB, 1024, threads_per_sm=1536, blocks_per_sm=24),
        Arch("sm_90a", (9, 0), 227 * KIB, 228 * KIB, 4096, bulk_copy=True),
        Arch("sm_100a", (10, 0), 227 * KIB, 228 * KIB, 8192, bulk_copy=True),
        Arch(
            "sm_120a",
            (12, 0),
            99 * KIB,
            100 * KIB,
            1024,
            bulk_copy=True,
            threads_per_sm=1536,
            blocks_per_sm=24,
        ),
    )
}

# Capabilities with no row of their own run the code of the row they are compatible with.
_SAME_AS = {(8, 6): "sm_89", (8, 7): "sm_80", (10, 3): "sm_100a", (12, 1): "sm_120a"}

DEFAULT_ARCH = "sm_90a"
"""Where neither a GPU nor anybody says which: that of the H200, the GPU whose times are stored."""


def arch(name: str) -> Arch:
    """The architecture called `name`; ValueError with the known names if there is none."""
    try:
        return ARCHES[name]
    except KeyError:
        raise ValueError(f"unknown architecture {name!r}; known: {', '.join(ARCHES)}") from None


def gpu_model(name: str) -> str:
    """A GPU's product name as files and folders spell it: "NVIDIA H200" is nvidia-h200."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


def arch_of_capability(major: int, minor: int) -> Arch:
    """The architecture whose limits hold for a GPU of this compute capability; ValueError below 8.0 or
    unknown.
    """
    for candidate in ARCHES.values():
        if candidate.capability == (major, minor):
            return candidate
    if (major, minor) in _SAME_AS:
        return ARCHES[_SAME_AS[major, minor]]
    raise ValueError(
        f"compute capability {major}.{minor} is not supported; supported: "
        + ", ".join(f"{a.capability[0]}.{a.capability[1]} ({a.name})" for a in ARCHES.values())
    )
