"""What a command writes where: the text that was asked for on standard output, all else on standard error."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from tilecheck import progress
from tilecheck.cli.failing import BadInput

if TYPE_CHECKING:
    from tilecheck.codegen.batch import Outcome


def show(text: str) -> None:
    """Writes text, with a newline at its end, to standard output; silent once nobody reads it any more.

    Raises BadInput where it cannot be written.
    """
    if sys.stdout is None:
        return
    with _writing():
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    flush()


def flush() -> None:
    """Writes out what is left for standard output; as `show` otherwise."""
    with _writing():
        if sys.stdout is not None:
            sys.stdout.flush()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # `| head` has seen enough; the exit code stays that of the answer
        _leave_output()
    except OSError as error:  # a full disk
        _leave_output()
        raise BadInput(f"standard output cannot be written: {error.strerror or error}") from error


def _leave_output() -> None:
    # Python, which flushes once more on its way out, must not complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def note(text: str) -> None:
    """Writes one line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def note_trouble_of_cache() -> None:
    """Says, if so, that what is compiled cannot be kept."""
    from tilecheck.codegen import cache_trouble

    if trouble := cache_trouble():
        note(f"tilecheck: {trouble}")


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
    """Shows on standard error how many rows are compiled, and names those that do not compile.

    jobs: how many at a time.
    """

    def __init__(self, total: int, jobs: int) -> None:
        self._progress = progress.Progress("compiling", total, "row", at_once=jobs)

    def __call__(self, outcome: "Outcome", done: int) -> None:
        if outcome.facts is None:
            self._progress.say(f"{outcome.row}: does not compile")
        self._progress.reach(done, str(outcome.row))
        if done == self._progress.total:
            self._progress.close()
