"""Pieces of work in processes of their own, some of which do not survive them."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures.process import BrokenProcessPool

import pytest

from tilecheck.processes import interrupts_wait, side_by_side, termination_interrupts, uninterrupted


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


TERMINATIONS = [signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("how", TERMINATIONS)
def test_a_termination_is_an_interrupt_until_the_end_of_the_block(how: signal.Signals) -> None:
    before = signal.getsignal(how)
    with pytest.raises(KeyboardInterrupt), termination_interrupts():
        signal.raise_signal(how)
    assert signal.getsignal(how) == before


def test_a_hangup_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as by nohup
    try:
        with termination_interrupts():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("how", [signal.SIGINT, *TERMINATIONS])
def test_what_is_uninterrupted_goes_on_to_its_end(how: signal.Signals) -> None:
    before = signal.getsignal(how)
    with termination_interrupts(), uninterrupted():
        signal.raise_signal(how)
    assert signal.getsignal(how) == before


@pytest.mark.parametrize("how", [signal.SIGINT, *TERMINATIONS])
def test_an_interrupt_waits_for_the_end_of_the_block(how: signal.Signals) -> None:
    done: list[str] = []

    def interrupted() -> None:
        with termination_interrupts(), interrupts_wait():
            signal.raise_signal(how)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["all of it"]


def test_what_is_ignored_is_so_for_what_is_started_while_interrupts_wait() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts_wait():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_a_thread_it_is_left_as_it_is() -> None:
    seen: list[object] = []

    def inside() -> None:
        with termination_interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
