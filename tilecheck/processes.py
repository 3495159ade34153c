"""Pieces of work that take a core for seconds each, done by processes side by side.

A piece that ends its process, as a failed check inside a compiler may, takes those beside it along: each of
them is tried once more in a process of its own, and fails alone.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
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
