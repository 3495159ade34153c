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
from typing import Any

from tilecheck.family import descendants

_DONE = "done"

# Without site, so that it starts at once; not by its path: the package's folder would hide modules of Python.
_WATCHER = "import sys; sys.path.insert(0, sys.argv[1]); from tilecheck.watch import watch; watch()"


@contextmanager
def watched() -> Iterator[Callable[..., "subprocess.Popen[Any]"]]:
    """Gives a function that starts a process as `subprocess.Popen` does, but as leader of a session.

    It ends, with all that it started, when the block is left, or when this process is gone before that.
    """
    from tilecheck.processes import interrupts_wait  # here, as the watcher does without it

    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WATCHER, str(Path(__file__).parents[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    started: list[subprocess.Popen[Any]] = []

    def tell(line: object) -> None:
        assert watcher.stdin is not None
        with suppress(OSError):  # somebody ended the watcher: what is watched is as good as before
            watcher.stdin.write(f"{line}\n")
            watcher.stdin.flush()

    def start(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        with interrupts_wait():  # one between the start and the rest would leave a process that nobody knows
            child = subprocess.Popen(command, start_new_session=True, **options)
            started.append(child)
            tell(child.pid)
        return child

    try:
        yield start
    finally:
        for child in started:
            end_family(child.pid)
            child.wait()
        tell(_DONE)  # not before, as an interrupt may keep this from ending them
        assert watcher.stdin is not None
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
    with watched() as start:
        child = start(
            command,
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        out, err = child.communicate(given, timeout=seconds)
        return subprocess.CompletedProcess(command, child.returncode, out, err)
