"""Where a search stands: a bar on a terminal, else a line now and then."""

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

EVERY = 10.0
"""Seconds between two lines."""


class Progress(Protocol):
    """Told of each candidate that is done."""

    def __call__(self, done: int, total: int, best: str) -> None: ...

    def close(self) -> None: ...


class Bar:
    """tqdm's, with the best so far behind it."""

    def __init__(self, name: str, total: int, stream: TextIO) -> None:
        from tqdm import tqdm

        self._bar: Any = tqdm(total=total, desc=name, unit="schedule", file=stream, dynamic_ncols=True)

    def __call__(self, done: int, total: int, best: str) -> None:
        self._bar.total = total
        self._bar.set_postfix_str(best, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class Lines:
    """One line at the first, one at the last, and one every few seconds."""

    def __init__(self, name: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._stream, self._clock = name, stream, clock
        self._next, self._last, self._said = clock(), "", ""

    def __call__(self, done: int, total: int, best: str) -> None:
        self._last = f"{self._name}: {done} of {total} schedules, {best or 'none timed so far'}"
        if self._clock() >= self._next or done >= total:
            self._say()

    def close(self) -> None:
        if self._last != self._said:
            self._say()

    def _say(self) -> None:
        self._next, self._said = self._clock() + EVERY, self._last
        self._stream.write(f"{self._last}\n")
        self._stream.flush()


def progress_on(name: str, total: int, stream: TextIO | None = None) -> Progress:
    """A bar where `stream` (standard error) is a terminal, else lines."""
    stream = stream or sys.stderr
    return Bar(name, total, stream) if stream.isatty() else Lines(name, stream)
