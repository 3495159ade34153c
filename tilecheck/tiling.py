"""How a schedule cuts a case up: what the search for schedules reckons times with.

Imports neither torch nor TileLang: kernel files state it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tiling:
    """One launch under one schedule.

    blocks: of threads.  threads: of each, those that only copy included.
    flops: operations a block does, padding included.
    bytes: that a block reads and writes, each time it does; most come out of L2.
    in_flight: bytes that a block has under way at a time.
    registers: of a thread, as far as the schedule decides; 0: not known.
    Raises ValueError where one of them makes no sense.
    """

    blocks: int
    threads: int
    flops: float
    bytes: float
    in_flight: float
    registers: int = 0

    def __post_init__(self) -> None:
        sizes = (self.flops, self.bytes, self.in_flight, self.registers)
        if self.blocks < 0 or self.threads < 1 or any(size < 0 for size in sizes):
            raise ValueError(f"blocks and sizes must not be negative, threads positive: {self}")
