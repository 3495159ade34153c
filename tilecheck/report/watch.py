"""Makes the report of a run whose process died: by a signal, an abort in a compiler, want of memory.

A run starts it as a process of its own, and keeps the other end of its standard input. When that closes
without a word the run is dead, and the report is made of what it wrote down.
"""

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_DONE = b"done"
_EVERY = 2.0  # seconds between looks at the parent, should a fork of it keep the other end open


class Watcher:
    """The process that watches this one for the sake of the report in `folder`."""

    def __init__(self, folder: Path) -> None:
        package = Path(__file__).parents[2]
        path = os.pathsep.join(filter(None, (str(package), os.environ.get("PYTHONPATH", ""))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # an interrupt from the keyboard is for the run
        )

    def dismiss(self) -> None:
        """The report is written."""
        with suppress(OSError, subprocess.TimeoutExpired):
            self._process.communicate(_DONE, timeout=10)


def main(folder: Path, parent: int) -> None:
    start = time.monotonic()
    if _outlives(parent):
        took = time.monotonic() - start

        from tilecheck.report.folder import read_journal, write

        write(read_journal(folder, took), folder)


def _outlives(parent: int) -> bool:
    """Whether the parent goes away without having dismissed this process; waits for either."""
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], _EVERY)
        if ready:
            return os.read(sys.stdin.fileno(), len(_DONE)) != _DONE
        if os.getppid() != parent:
            return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
