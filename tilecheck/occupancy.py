"""How many blocks a multiprocessor holds at a time. Pure arithmetic.

Source: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability" and "Hardware
Multithreading": registers are given to warps in units of 256, and each block takes 1 KiB of shared memory
beside its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tilecheck.arches import KIB, Arch

WARP = 32
RESERVED_SHARED = KIB
REGISTERS, SHARED, THREADS, BLOCKS = "registers", "shared memory", "threads", "blocks"


@dataclass(frozen=True)
class Occupancy:
    """limits: how many blocks each resource allows; one that is not known is not among them.
    warps: of a block.  most_warps: that a multiprocessor holds.
    """

    limits: Mapping[str, int]
    warps: int
    most_warps: int

    @property
    def blocks(self) -> int:
        """How many blocks are there at a time."""
        return min(self.limits.values())

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that allow no more."""
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)

    @property
    def share(self) -> float:
        """The part of the multiprocessor's warps that the blocks fill."""
        return self.blocks * self.warps / self.most_warps


def occupancy(arch: Arch, threads: int, registers: int | None, shared: int | None) -> Occupancy:
    """threads: of a block.  registers: of a thread.  shared: bytes of a block, static and dynamic.
    None: not known.
    """
    warps = -(-threads // WARP)
    limits = {}
    if registers is not None:
        of_block = warps * -(-max(registers, 1) * WARP // 256) * 256
        limits[REGISTERS] = arch.registers_per_sm // of_block
    if shared is not None:
        limits[SHARED] = arch.shared_per_sm // (shared + RESERVED_SHARED)
    most_warps = arch.threads_per_sm // WARP
    limits[THREADS] = most_warps // warps
    limits[BLOCKS] = arch.blocks_per_sm
    return Occupancy(limits, warps, most_warps)


def waves(blocks: int, multiprocessors: int, resident: int) -> tuple[int, float]:
    """(waves, how full the last one is): a wave is what all multiprocessors hold at a time."""
    if blocks == 0 or resident == 0:
        return 0, 0.0
    size = multiprocessors * resident
    count = -(-blocks // size)
    return count, (blocks - (count - 1) * size) / size
