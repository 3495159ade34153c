"""Tries candidates batch by batch, likely ones and neighbours of the best first, as long as the budget lasts.

What is found goes into the journal at once. What the journal has already is not tried again.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

from tilecheck.tuning.autotuner import Bench, run_batch
from tilecheck.tuning.journal import Journal
from tilecheck.tuning.outcomes import BenchError, Failure, Outcome, Timing, seconds_of
from tilecheck.tuning.ranking import neighbours
from tilecheck.tuning.space import Candidate
from tilecheck.tuning.units import microseconds

Ended = Literal["all tried", "out of time", "interrupted"]


@dataclass(frozen=True)
class Found:
    """outcomes: of every candidate that was tried, now or before, in the order of `candidates`.
    ended: why no more were.  tried: how many now.  seconds: that it took.
    """

    outcomes: tuple[Outcome, ...]
    ended: Ended
    tried: int
    seconds: float

    @property
    def timed(self) -> tuple[Outcome, ...]:
        """Those that are right and have a time, fastest first."""
        return tuple(sorted((o for o in self.outcomes if o.timing), key=seconds_of))


class Shown(Protocol):
    """Where a search stands, as `tilecheck.progress.Progress` shows it; one thread at a time uses it."""

    def reach(self, done: int, told: str = "", total: int | None = None) -> None: ...

    def close(self) -> None: ...


@dataclass
class Search:
    """candidates: likely ones first.  target: TileLang's.  budget: seconds; None: until all are tried.
    batch: how many are compiled side by side before they are timed.
    """

    candidates: Sequence[Candidate]
    bench: Bench
    journal: Journal
    target: Mapping[str, str]
    progress: Shown
    batch: int = 32
    budget: float | None = None
    clock: Callable[[], float] = time.monotonic

    def run(self) -> Found:
        """What was found; raises what the bench raises. An interrupted search can go on later."""
        self._tried = 0
        self._telling = threading.Lock()
        start = self.clock()
        deadline = None if self.budget is None else start + self.budget
        with self._ending(deadline) as ended:
            why = self._run(deadline, ended)
        self.progress.close()
        known = self.journal.outcomes
        # What is the default now may have had another name before.
        outcomes = tuple(replace(known[c.key], id=c.id) for c in self.candidates if c.key in known)
        return Found(outcomes, why, self._tried, self.clock() - start)

    def _run(self, deadline: float | None, ended: "_Ended") -> Ended:
        while left := [c for c in self.candidates if c.key not in self.journal.outcomes]:
            if ended.interrupted.is_set():
                return "interrupted"
            if ended.late.is_set() or (deadline is not None and self.clock() >= deadline):
                return "out of time"
            before = self._tried
            batch = self._next(left)
            rest = [c for c in left if c not in batch]
            # While these are timed, compilers have nothing to do.
            run_batch(batch, self.bench, self.target, self._take, partial(self._look_ahead, rest))
            if self._tried == before and not ended:
                raise BenchError("nothing came of a whole batch of schedules")
        return "all tried"

    def _look_ahead(self, rest: list[Candidate]) -> None:
        self.bench.compile_ahead(self._next(rest))

    def _next(self, left: list[Candidate]) -> list[Candidate]:
        """Up to half of a batch are neighbours of the best so far; the rest is as ranked."""
        known = self.journal.outcomes
        timed = [c for c in self.candidates if c.key in known and known[c.key].timing]
        near: list[Candidate] = []
        if timed:
            best = min(timed, key=lambda c: seconds_of(known[c.key]))
            near = neighbours(best, left)[: self.batch // 2]
        chosen = {c.key for c in near}
        return (near + [c for c in left if c.key not in chosen])[: self.batch]

    def _take(self, candidate: Candidate, found: Timing | Failure) -> None:
        if isinstance(found, Timing):
            outcome = Outcome(candidate.id, candidate.values, "timed", timing=found)
        else:
            outcome = Outcome(candidate.id, candidate.values, found.kind, found.reason)
        self.journal.add(outcome)
        with self._telling:
            self._tried += 1
            known = self.journal.outcomes
            done = [known[c.key] for c in self.candidates if c.key in known]
            timed = [o for o in done if o.timing]
            best = min(timed, key=seconds_of, default=None)
            self.progress.reach(len(done), told_best(best))

    @contextmanager
    def _ending(self, deadline: float | None) -> "Iterator[_Ended]":
        """Stops the bench at an interrupt and at the deadline: AutoTuner would wait for all that it began."""
        ended = _Ended(threading.Event(), threading.Event())

        def end(event: threading.Event) -> None:
            event.set()
            self.bench.stop()

        timer = None
        if deadline is not None:
            timer = threading.Timer(max(0.0, deadline - self.clock()), end, (ended.late,))
            timer.daemon = True
            timer.start()
        before = {}
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if callable(signal.getsignal(signum)):  # see `processes.termination_interrupts`
                    before[signum] = signal.signal(signum, lambda *_: end(ended.interrupted))
        try:
            yield ended
        finally:
            if timer is not None:
                timer.cancel()
            for signum, old in before.items():
                signal.signal(signum, old)


@dataclass(frozen=True)
class _Ended:
    """Set when the search is to end."""

    interrupted: threading.Event
    late: threading.Event

    def __bool__(self) -> bool:
        return self.interrupted.is_set() or self.late.is_set()


def told_best(best: Outcome | None) -> str:
    """The best so far, for a line; "" for none."""
    return "" if best is None else f"best {microseconds(seconds_of(best))} by {best.id}"
