"""The processes that a process started, found in /proc."""

import os
import signal
from contextlib import suppress
from pathlib import Path

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
