"""Pieces of work in processes of their own, some of which do not survive them."""

import multiprocessing
import os
from concurrent.futures.process import BrokenProcessPool

from tilecheck.processes import side_by_side


def square(n: int) -> int:
    if n < 0:
        os._exit(3)
    if n == 0:
        raise ValueError("nothing to square")
    return n * n


def test_those_that_end_their_process_fail_alone_and_no_process_is_left() -> None:
    done = dict(side_by_side(square, [1, -1, 2, 0, -2, 3, 4], 2))
    errors = {n: type(future.exception()) for n, future in done.items() if future.exception()}
    assert errors == {-1: BrokenProcessPool, 0: ValueError, -2: BrokenProcessPool}
    assert {n: future.result() for n, future in done.items() if n not in errors} == {1: 1, 2: 4, 3: 9, 4: 16}
    assert multiprocessing.active_children() == []
