"""How far long work is: a bar with the time left on a terminal, else a plain line now and then.

    with Progress("compiling", len(jobs), unit="kernel") as progress:
        for job in jobs:
            ...
            progress.step(job.name)

Lines keep a log of CI short and still show that something moves; bars would fill it with control characters.
"""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

EVERY = 10.0
"""Seconds between two plain lines."""

FEWEST = 0.2
"""The share of the steps that has to be done before the time left is told: the first ones pay for starting
processes and imports, and with a cache the others may take none. Told after one of 76, it was 1000 times off.
"""

_NO_TIME_LEFT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


class Progress:
    """One piece of work; a context manager. Threads other than the one that made it must not use it.

    what: the work, as in "compiling".  total: steps of it; None: not known.  unit: what a step is, in the
    singular.  stream: standard error by default.  clock: seconds, monotonic.
    at_once: how many steps are worked on side by side, of which none is done while all of them run.
    """

    def __init__(
        self,
        what: str,
        total: int | None,
        unit: str = "step",
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        at_once: int = 1,
    ) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self._at_once = at_once
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._start = self._next = clock()
        self._told, self._shown = "", -1
        self._bar: Any = self._new_bar() if self._stream.isatty() else None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self, told: str = "", by: int = 1) -> None:
        """`by` more steps are done; told: what is worth knowing now, as the name of the step."""
        self.reach(self.done + by, told)

    def reach(self, done: int, told: str = "", total: int | None = None) -> None:
        """`done` steps are done, of `total` where that is another number by now."""
        self.done, self._told = done, " ".join(told.split())
        self.total = total if total is not None else self.total
        if self._bar is not None:
            self._bar.total = self.total
            self._bar.bar_format = None if self._foreseeable else _NO_TIME_LEFT
            self._bar.set_postfix_str(self._told, refresh=False)
            self._bar.update(done - self._bar.n)
        elif self._clock() >= self._next or done == self.total:
            self._line()

    def say(self, text: str) -> None:
        """Writes a line that stays, as for a failure, above the bar if there is one."""
        if self._bar is not None:
            self._bar.clear()
        self._write(text)
        if self._bar is not None:
            self._bar.refresh()

    def close(self) -> None:
        """The work has ended, here or by an error."""
        if self._bar is not None:
            self._bar.close()
        elif self.done != self._shown:
            self._line()

    @property
    def _foreseeable(self) -> bool:
        """Whether enough is done to say how long the rest takes."""
        return self.total is not None and self.done >= max(self._at_once, FEWEST * self.total)

    def _new_bar(self) -> Any:
        from tqdm import tqdm

        return tqdm(
            total=self.total,
            desc=self.what,
            unit=self.unit,
            file=self._stream,
            dynamic_ncols=True,
            bar_format=_NO_TIME_LEFT,
        )

    def _line(self) -> None:
        now = self._clock()
        self._next, self._shown = now + EVERY, self.done
        count = f"{self.done}" if self.total is None else f"{self.done} of {self.total}"
        words = [f"{self.what}: {count} {self.unit}{'' if (self.total or self.done) == 1 else 's'}"]
        words.append(f"after {duration(now - self._start)}")
        if self.total is not None and self._foreseeable and self.done < self.total:
            left = (now - self._start) / self.done * (self.total - self.done)
            words.append(f"about {duration(left)} left")
        self._write(", ".join([*words, self._told] if self._told else words))

    def _write(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


def duration(seconds: float) -> str:
    """A time span in words, as people say it: "0.4 s", "42 s", "3 min 20 s", "2 h 5 min"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
