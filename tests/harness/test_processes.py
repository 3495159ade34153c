"""Pieces of work in processes of their own, some of which do not survive them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from tilecheck.processes import running, side_by_side, termination_interrupts, uninterrupted


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


ASKS = """
import os, subprocess, sys, time

TRIES = '''
import subprocess, sys, time
from tilecheck.processes import ends_with

ends_with(int(sys.argv[1]))
print(subprocess.Popen(["sleep", "100"]).pid, flush=True)
time.sleep(100)
'''
command = [sys.executable, "-c", TRIES, str(os.getpid())]
child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
print(child.pid, int(child.stdout.readline()), flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_is_tried_ends_with_whoever_asked_and_so_does_what_it_started(how: signal.Signals) -> None:
    asks = subprocess.Popen([sys.executable, "-c", ASKS], stdout=subprocess.PIPE, text=True)
    try:
        assert asks.stdout is not None
        pids = [int(pid) for pid in asks.stdout.readline().split()]
        assert len(pids) == 2 and all(running(pid) for pid in pids)
        asks.send_signal(how)
        deadline = time.monotonic() + 20
        while any(running(pid) for pid in pids):  # before anybody has asked how `asks` ended
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        asks.kill()
        asks.communicate()


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


def test_in_a_thread_it_is_left_as_it_is() -> None:
    seen: list[object] = []

    def inside() -> None:
        with termination_interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
