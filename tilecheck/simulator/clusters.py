"""Blocks of a cluster: they run in turns, wait for each other, and write into each other's shared memory.

What two of them do to one element must be ordered, whatever order they have here. Vector clocks say what is:
each block counts its arrivals at the cluster's barrier, and knows of each other block up to which count it is
ordered before what it does now. The shadows of memory hold such counts, as `number`s.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from typing import Any

import torch
from torch import Tensor

from tilecheck.simulator.findings import Location
from tilecheck.simulator.launch_shape import Launch
from tilecheck.simulator.memory import SEVERAL, Array
from tilecheck.simulator.state import State
from tilecheck.simulator.turns import Strand

LARGEST = 16
"""Blocks of a cluster on Hopper and Blackwell, once a kernel may have more than the portable 8, as TileLang
asks for (CUDA's programming guide, thread block clusters)."""


@dataclass
class Barrier:
    """One mbarrier of one block.  count: arrivals that complete a phase.  phase: phases completed."""

    count: int
    arrived: int = 0
    phase: int = 0

    def arrive(self) -> None:
        self.arrived += 1
        if self.arrived == self.count:
            self.arrived = 0
            self.phase += 1


@dataclass
class _Sent:
    """A copy into a block's memory.

    number: under which the shadows know it.  clock: of its source, when it was sent.
    signals: barrier that its end is signalled to, and its phase.  shadow: the entries that it owns.
    """

    source: int
    target: int
    slot: int
    name: str
    location: Location
    number: int = 0
    clock: Sequence[int] = ()
    signals: tuple[Barrier, int] | None = None
    shadow: Tensor | None = None


@dataclass
class _Wait:
    until: Callable[[], bool]
    location: Location
    what: str


class Cluster:
    """The blocks of one cluster, while they run."""

    def __init__(
        self, states: Sequence[State], first: int, exposed: Mapping[int, Sequence[int]], *, begun: bool
    ) -> None:
        """states: of the blocks, by rank.  first: the least number that no block before had.
        exposed: slot of a buffer that blocks write into each other's memory -> slots of those that TileLang
        may lay in its place.  begun: all blocks run before any goes on, by the barrier that TileLang puts
        after the initialisation of mbarriers of a cluster.
        """
        self._states, self._first, self._begun = list(states), first, begun
        self._size, self._exposed = len(self._states), exposed
        # clocks[a][b]: how far what block b does is ordered before what block a does now.
        self._clocks = [[-1] * self._size for _ in self._states]
        self._arrived, self._waited = [0] * self._size, [0] * self._size
        self._phases: list[list[int]] = []  # by phase of the cluster's barrier: joined clocks of those there
        self._barriers: dict[tuple[int, int, int], Barrier] = {}
        self._sent: list[_Sent] = []
        # By target, those that are not yet ordered before what it does.
        self._unseen: list[list[_Sent]] = [[] for _ in self._states]
        self._under_way = 0
        self._strands: list[Strand] = []
        self._waits: list[_Wait | None] = [None] * self._size
        for rank, s in enumerate(self._states):
            s.cluster, s.rank = self, rank
            self._tick(s)

    @property
    def next_number(self) -> int:
        """The least number that no block of this cluster had."""
        return self._first + self._size * (1 + max(clock[r] for r, clock in enumerate(self._clocks)))

    def run(self, body: Callable[[State], None]) -> None:
        """Runs `body` for each block, as far as it gets, until all have ended."""
        self._strands = [Strand(partial(self._run_block, body, s)) for s in self._states]
        try:
            while going := [r for r, strand in enumerate(self._strands) if not strand.ended]:
                ready = [r for r in going if (wait := self._waits[r]) is None or wait.until()]
                if not ready:
                    self._report_deadlock(going)
                for r in ready:
                    self._strands[r].resume()
        finally:
            for strand in self._strands:
                strand.abandon()

    def _run_block(self, body: Callable[[State], None], s: State) -> None:
        body(s)
        self._check_places(s)
        for sent in self._sent:
            # A copy that signals its end reads the memory that it comes from until then.
            concerned = sent.target == s.rank or (sent.source == s.rank and sent.signals is not None)
            if concerned and not self._ordered(s.rank, sent.number):
                self._report_early_end(sent, s.rank)

    def unordered(self, rank: int, entries: Tensor) -> Tensor:
        """Entries of a shadow that name what is not ordered before what block `rank` does now."""
        if entries.numel() == 0:
            return torch.zeros_like(entries, dtype=torch.bool)
        low, high = (int(entry) for entry in entries.aminmax())
        # As in most tensors: nobody has written them, or one step of this cluster all.
        if high <= 0 or (low == high >= self._first and self._ordered(rank, high)):
            return torch.zeros_like(entries, dtype=torch.bool)
        since = entries - self._first
        clock = torch.tensor(self._clocks[rank], dtype=entries.dtype)[since % self._size]
        return (entries > 0) & ((since < 0) | (since // self._size > clock))

    def _ordered(self, rank: int, number: int) -> bool:
        since = number - self._first
        return since // self._size <= self._clocks[rank][since % self._size]

    def _tick(self, s: State) -> None:
        """What a block does from here on, it has not told the others that it did."""
        clock = self._clocks[s.rank]
        clock[s.rank] += 1
        s.block = self._first + self._size * clock[s.rank] + s.rank

    def arrive(self, s: State, location: Location, *, relaxed: bool) -> None:
        """relaxed: it orders nothing that the block did before."""
        phase = self._arrived[s.rank]
        if phase > self._waited[s.rank]:
            s.findings.add("barrier", location, "", f"{s.where} arrives twice without T.cluster_wait()")
            return
        if phase == len(self._phases):
            self._phases.append([-1] * self._size)
        if not relaxed:
            self._phases[phase] = _joined(self._phases[phase], self._clocks[s.rank])
            self._tick(s)
        self._arrived[s.rank] += 1

    def wait(self, s: State, location: Location) -> None:
        phase = self._waited[s.rank]
        if self._arrived[s.rank] == phase:
            s.findings.add("barrier", location, "", f"{s.where} waits without T.cluster_arrive()")
            return

        def complete() -> bool:
            # Threads that have ended are not waited for (PTX, barrier.cluster).
            return all(
                strand.ended or arrived > phase
                for strand, arrived in zip(self._strands, self._arrived, strict=True)
            )

        self._until(s, complete, location, "other blocks of the cluster do not arrive")
        self._check_places(s)
        self._clocks[s.rank] = _joined(self._clocks[s.rank], self._phases[phase])
        self._waited[s.rank] += 1

    def barrier(self, rank: int, slot: int, cell: int, count: int) -> Barrier:
        """The mbarrier of block `rank` at index `cell` of the buffer in `slot`."""
        return self._barriers.setdefault((rank, slot, cell), Barrier(count))

    def wait_for(self, s: State, barrier: Barrier, parity: int, location: Location) -> None:
        """Waits for the phase of this parity; what its copies have brought is ordered from there on."""
        phases = barrier.phase if barrier.phase % 2 != parity else barrier.phase + 1
        copies = "too few copies signal this barrier"
        self._until(s, lambda: barrier.phase >= phases, location, copies)
        self._check_places(s)
        for sent in self._unseen[s.rank]:
            if sent.signals is not None:
                signalled, phase = sent.signals
                if signalled is barrier and phase < phases:
                    self._take(s, sent)

    def _take(self, s: State, sent: _Sent) -> None:
        """From here on the copy is the block's own doing, after all that its source did before it."""
        if sent.shadow is not None:
            sent.shadow[sent.shadow == sent.number] = s.block
        sent.number = s.block
        self._clocks[s.rank] = _joined(self._clocks[s.rank], sent.clock)

    def peer(self, s: State, rank: int, slot: int, name: str, location: Location) -> State | None:
        """The block of this rank, into whose memory `s` may write; None, and a finding, if there is none."""
        if not 0 <= rank < self._size:
            blocks = "1 block" if self._size == 1 else f"{self._size} blocks"
            text = f"block {rank} of a cluster of {blocks}, into whose {name} {s.where} writes"
            s.findings.add("out of range", location, name, text)
            return None
        peer = self._states[rank]
        if rank != s.rank and not self._begun and not self._waited[s.rank]:
            text = (
                f"{s.where} writes into {name} of {peer.where}, which may not have begun: T.cluster_sync() "
                "first, or T.cluster_arrive_relaxed() and T.cluster_wait()"
            )
            s.findings.add("early write", location, name, text)
        if rank != s.rank and self._strands[rank].ended:
            self._report_early_end(_Sent(s.rank, rank, slot, name, location), rank)
            return None
        return peer

    def number_of_copy(self, s: State, barrier: Barrier | None) -> int:
        """Under which number the shadows know what a copy writes: the block's own, or one that orders it for
        nobody until the barrier's phase has been waited for.
        """
        if barrier is None:
            return s.block
        self._under_way += 1
        return SEVERAL + self._under_way

    def sent(
        self,
        s: State,
        target: State,
        number: int,
        barrier: Barrier | None,
        shadow: Tensor | None,
        slot: int,
        name: str,
        location: Location,
    ) -> None:
        """Takes down a copy that is under way, and signals its barrier."""
        clock = tuple(self._clocks[s.rank])
        signals = None if barrier is None else (barrier, barrier.phase)
        sent = _Sent(s.rank, target.rank, slot, name, location, number, clock, signals, shadow)
        self._sent.append(sent)
        self._unseen[target.rank].append(sent)
        if barrier is not None:
            barrier.arrive()
            self._tick(s)

    def _check_places(self, s: State) -> None:
        """What the block did until here, with buffers in whose place those lie that others have written into:
        all of it had to be ordered before that.
        """
        self._unseen[s.rank] = [x for x in self._unseen[s.rank] if not self._ordered(s.rank, x.number)]
        for sent in self._unseen[s.rank]:
            for array in (s.memory[slot] for slot in self._exposed[sent.slot]):
                shadows = (array.storage.owner, array.storage.reader)
                known = sent.clock[s.rank]
                if sent.source != s.rank and any(self._did_after(s.rank, x, known) for x in shadows):
                    source = self._states[sent.source].where
                    text = (
                        f"{source} writes into {sent.name} of {s.where}, which may still use {array.name}; "
                        "TileLang may lay both in one place: T.cluster_sync() before the copy parts them"
                    )
                    s.findings.add("race", sent.location, sent.name, text)

    def _did_after(self, rank: int, shadow: Tensor, known: int) -> bool:
        since = shadow - self._first
        own = (shadow < SEVERAL) & (since >= 0) & (since % self._size == rank)
        return bool((own & (since // self._size > known)).any())

    def _until(self, s: State, until: Callable[[], bool], location: Location, what: str) -> None:
        """Hands over, and goes on once it is the block's turn and `until` holds."""
        self._waits[s.rank] = _Wait(until, location, what)
        self._strands[s.rank].pause()
        self._waits[s.rank] = None

    def _report_deadlock(self, ranks: Sequence[int]) -> None:
        for rank in ranks:
            s, wait = self._states[rank], self._waits[rank]
            assert wait is not None
            s.findings.add("deadlock", wait.location, "", f"{s.where} waits for ever: {wait.what}")
        self._states[0].findings.raise_if_any()

    def _report_early_end(self, sent: _Sent, ended: int) -> None:
        source, target = self._states[sent.source], self._states[sent.target]
        if ended == sent.target:
            text = f"{target.where} may end before {source.where} writes into its {sent.name}"
        else:
            text = f"{source.where} may end while {sent.name} of {target.where} is copied from its memory"
        text += "; T.cluster_sync() as the last step holds it"
        target.findings.add("early end", sent.location, sent.name, text)


def _joined(a: Sequence[int], b: Sequence[int]) -> list[int]:
    return [max(x, y) for x, y in zip(a, b, strict=True)]


def run_clusters(
    s: State,
    launch: Launch,
    grid: Sequence[range],
    exposed: Mapping[int, Sequence[int]],
    begin: Callable[[State], None],
    go_on: Callable[[State], None],
    location: Location,
) -> None:
    """Runs the blocks of a launch, one cluster after the other.

    exposed: see `Cluster`.  begin, go_on: run a block, once all blocks of its cluster have begun.
    """
    assert launch.cluster is not None
    shape = launch.cluster
    size = math.prod(shape)
    counts = [len(places) for places in grid] + [1] * (len(shape) - len(grid))
    if any(n % part for n, part in zip(counts, shape, strict=True)) or size > LARGEST:
        blocks, parts = ("x".join(map(str, extents)) for extents in (counts, shape))
        text = (
            f"CUDA launches no grid of {blocks} blocks in clusters of {parts}: each side of the grid has to "
            f"be a multiple of the cluster's, and a cluster has {LARGEST} blocks at most"
        )
        s.findings.add("launch", location, "", text)
        s.findings.raise_if_any()
    for slot in {*exposed, *chain.from_iterable(exposed.values())}:
        s.memory[slot].storage.expose()
    memories = [s.memory, *(_memory_of_a_peer(s.memory) for _ in range(size - 1))]
    for corner in product(*(range(0, n, part) for n, part in zip(counts, shape, strict=True))):
        states = [s.of_peer(memory) for memory in memories]
        for state, (z, y, x) in zip(states, product(*map(range, reversed(shape))), strict=True):
            inside = zip(grid, corner, (x, y, z), strict=False)
            state.place = tuple(places[first + further] for places, first, further in inside)
            begin(state)
        cluster = Cluster(states, s.block + 1, exposed, begun=bool(launch.cluster_barriers))
        cluster.run(go_on)
        s.block = cluster.next_number - 1


def _memory_of_a_peer(memory: Sequence[Any]) -> list[Any]:
    """The same global memory, and a copy of all that a block has to itself; views of one memory stay so."""
    is_global = [isinstance(m, Array) and m.is_global for m in memory]
    own = deepcopy([None if shared else m for m, shared in zip(memory, is_global, strict=True)])
    return [m if shared else o for m, o, shared in zip(memory, own, is_global, strict=True)]
