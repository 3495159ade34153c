"""What is started in a session of its own ends with whoever started it, even where that is killed.

No signal reaches such a session, and who is killed can end nothing. So a third process waits for the end of a
pipe that only the first holds: it comes whatever became of that, and whatever a process that hangs is at.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tilecheck.activity import descendants

_DONE = "done"

# Without site, so that it starts at once; not by its path: the package's folder would hide modules of Python.
_WATCHER = "import sys; sys.path.insert(0, sys.argv[1]); from tilecheck.watch import watch; watch()"


@contextmanager
def watched() -> Iterator[Callable[[int], None]]:
    """Gives a function to be told the id of a process that was started, as leader of its session.

    Should this process be gone before the block is left, that one is ended, with all that it started.
    """
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WATCHER, str(Path(__file__).parents[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert watcher.stdin is not None

    def tell(line: object) -> None:
        assert watcher.stdin is not None
        with suppress(OSError):  # somebody ended the watcher: what is watched is as good as before
            watcher.stdin.write(f"{line}\n")
            watcher.stdin.flush()

    try:
        yield tell
    finally:
        tell(_DONE)
        with suppress(OSError):
            watcher.stdin.close()
        watcher.wait()


def watch() -> None:
    """The watcher."""
    *pids, last = sys.stdin.read().split() or [_DONE]
    for pid in [] if last == _DONE else [*pids, last]:
        end_family(int(pid))


def end_family(pid: int, more: Sequence[int] = ()) -> None:
    """Ends a process that leads its session, with its group, and what its processes started in sessions of
    their own.  more: processes that it had started before its end.
    """
    for each in (*more, *(child for child, _ in descendants(pid))):
        with suppress(OSError):
            os.kill(each, signal.SIGKILL)
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def asked(
    command: Sequence[str], given: str, folder: Path, variables: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Runs a command that answers, in a session of its own; in the end nothing that it started is left.

    Raises subprocess.TimeoutExpired.
    """
    with watched() as tell:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        tell(child.pid)
        try:
            out, err = child.communicate(given, timeout=seconds)
        finally:
            end_family(child.pid)
            child.wait()
        return subprocess.CompletedProcess(command, child.returncode, out, err)
