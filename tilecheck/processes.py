"""Work in processes side by side, and what interrupts it.

Of pieces that are done side by side, one that ends its process, as a failed check inside a compiler may,
takes those beside it along: each of them is tried once more in a process of its own, and fails alone.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R], pieces: Sequence[T], processes: int
) -> Iterator[tuple[T, Future[R]]]:
    """Each piece as it is done, with what `work`, a function that can be pickled, came to.

    The future of one that ended its process raises BrokenProcessPool.
    processes: at most so many at a time; once all is done, none of them runs any more.
    """
    rest = list(pieces)
    while rest:
        for piece, future in _in_pool(work, rest, processes):
            if not isinstance(future.exception(), BrokenProcessPool):
                rest.remove(piece)
                yield piece, future
        # If the pool broke, by one of the pieces that were worked on, these are the first that are not done.
        for piece in rest[:processes]:
            rest.remove(piece)
            yield from _in_pool(work, [piece], 1)


def _in_pool(work: Callable[[T], R], pieces: Sequence[T], processes: int) -> Iterator[tuple[T, Future[R]]]:
    # Not forked: a child would share the parent's CUDA context, and TVM and torch have threads by now.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(processes, len(pieces)), context, _start)
    try:
        running: dict[Future[R], T] = {}
        with suppress(BrokenProcessPool):  # by the first of them, before the last is submitted
            for piece in pieces:
                running[pool.submit(work, piece)] = piece
        for future in as_completed(running):
            yield running[future], future
        pool.shutdown()  # waits for the processes
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # where nobody asks for the rest


def _start() -> None:
    # The parent says that it was interrupted, and once is enough.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """SIGTERM, which a cancelled CI job and `timeout` send, and SIGHUP, which the end of a terminal does, end
    what is going on as Ctrl-C does: what is known is written, and processes that were started are ended.

    SIGHUP that is ignored, as `nohup` starts its command, stays so.
    """

    def interrupt(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    with _handled(interrupt, [signal.SIGTERM, *hangup]):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Neither Ctrl-C nor a termination ends what is written in here.

    By a handler, as a signal that is ignored would be so by all that is started in here, too.
    """
    with _handled(lambda _signum, _frame: None, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
        yield


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Ctrl-C and a termination come when the block is left, and not in the middle of it."""
    came: list[int] = []
    signums = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Not what is ignored: for what is started in here it would be so no longer.
    heard = [signum for signum in signums if callable(signal.getsignal(signum))]
    try:
        with _handled(lambda signum, _frame: came.append(signum), heard):
            yield
    finally:
        for signum in came:
            signal.raise_signal(signum)


@contextmanager
def _handled(
    handler: Callable[[int, FrameType | None], None], signums: Sequence[signal.Signals]
) -> Iterator[None]:
    before = {}
    try:
        with suppress(ValueError):  # not in the main thread
            for signum in signums:
                before[signum] = signal.signal(signum, handler)
        yield
    finally:
        for signum, old in before.items():
            signal.signal(signum, old)
