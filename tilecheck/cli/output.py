"""What a command writes where: the text that was asked for on standard output, all else on standard error."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilecheck.codegen.batch import Outcome


def show(text: str) -> None:
    """Writes text, with a newline at its end, to standard output; silent once nobody reads it any more."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    except BrokenPipeError:
        _leave_pipe()
    flush()


def flush() -> None:
    """Writes out what is left for standard output; silent, too."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _leave_pipe()


def _leave_pipe() -> None:
    # `| head` has seen enough. The exit code stays that of the answer; and Python, which flushes once more on
    # its way out, must not complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def note(text: str) -> None:
    """Writes one line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def stdout_kept() -> Iterator[None]:
    """Within, what libraries and their compilers write to standard output goes to standard error instead."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # closed
        yield
        return
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


class Progress:
    """Says on standard error which rows are done, of how many, and after how long."""

    def __init__(self, total: int) -> None:
        self._total, self._start = total, time.monotonic()

    def __call__(self, outcome: "Outcome", done: int) -> None:
        failed = "" if outcome.facts is not None else ": does not compile"
        note(f"{done}/{self._total} {outcome.row}{failed}, {time.monotonic() - self._start:.0f} s")
