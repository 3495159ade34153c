"""How a schedule cuts a case up: what the search for schedules reckons times with.

Imports neither torch nor TileLang: kernel files state it.
"""

from dataclasses import dataclass

SPECIALIZED_REGISTERS = 240
"""Registers of a thread, at most, where warps that copy hand theirs to those that compute: TileLang 0.1.15
gives a block all that the multiprocessor has."""

COPYING_REGISTERS = 24
"""What those that copy keep: the least that `setmaxnreg` takes (PTX ISA 9.0)."""


def even_blocks(tiles: int, most: int) -> int:
    """How many blocks share `tiles` out, at most `most`: as few as take no more turns than those would.

    With 512 tiles, each of 132 blocks takes up to four, and 128 do as well: they leave power and L2 to each
    other (on H200, 4096 x 4096 x 4096 in bf16: 172.0 -> 169.9 us).
    """
    turns = -(-tiles // max(1, most))
    return -(-tiles // max(1, turns))


@dataclass(frozen=True)
class Tiling:
    """One launch under one schedule.

    blocks: of threads.  threads: of each, those that only copy included.
    flops: operations a block does, padding included.
    bytes: that a block reads and writes, each time it does; most come out of L2.
    steps: how often it waits for what it reads.  stages: reads under way at a time.
    registers: of a thread, about; 0: not known.
    shared: bytes that a block reads from its shared memory, and writes there.
    Raises ValueError where one of them makes no sense.
    """

    blocks: int
    threads: int
    flops: float
    bytes: float
    steps: int = 1
    stages: int = 1
    registers: int = 0
    shared: float = 0.0

    def __post_init__(self) -> None:
        sizes = (self.blocks, self.flops, self.bytes, self.registers, self.shared)
        if min(sizes) < 0 or min(self.threads, self.steps, self.stages) < 1:
            raise ValueError(f"threads, steps and stages must be positive, nothing negative: {self}")
