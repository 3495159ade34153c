"""What this process is at, for the message of one that has to be ended in the middle of it."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_doing: list[tuple[str, float]] = []


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Names the step that the block is: `compiling matmul-tail-m-fp16 for sm_90a`."""
    _doing.append((what, time.monotonic()))
    try:
        yield
    finally:
        _doing.pop()


def current() -> str | None:
    """The innermost step under way, and for how long; None: none is."""
    if not _doing:
        return None
    what, since = _doing[-1]
    return f"{what}, for {time.monotonic() - since:.0f} s"


_COMPILERS = ("nvcc", "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink", "cc1plus")


def end_compilers() -> None:
    """Ends the compilers that this process started and nobody waits for any longer: they would go on, a core
    each. Only where there is /proc.
    """
    for pid, name in descendants(os.getpid()):
        if name in _COMPILERS:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[tuple[int, str]]:
    """(process id, name) of the processes that process `pid` started, and of those that they did."""
    children: dict[int, list[tuple[int, str]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, rest = stat.read_text().rpartition(")")  # the name may hold brackets and spaces
            number, _, name = head.partition(" (")
            children.setdefault(int(rest.split()[1]), []).append((int(number), name))
    found, parents = [], [pid]
    while parents:
        new = children.pop(parents.pop(), [])
        found += new
        parents += [child for child, _ in new]
    return found
