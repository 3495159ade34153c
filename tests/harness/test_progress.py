"""What long work shows: a bar on a terminal, and in a log a line now and then."""

import io
import re

import pytest

from tilecheck.progress import EVERY, Progress, duration


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_log_has_a_line_at_the_first_the_last_and_every_few_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress("compiling", 100, "kernel", stream, clock) as progress:
        for i in range(100):
            clock.now += 1.0
            progress.step(f"kernel-{i}")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "compiling: 1 of 100 kernels, after 1.0 s, kernel-0"
    assert lines[-2] == "compiling: 91 of 100 kernels, after 1 min 31 s, about 9.0 s left, kernel-90"
    assert lines[-1] == "compiling: 100 of 100 kernels, after 1 min 40 s, kernel-99"
    assert len(lines) == pytest.approx(100 / EVERY, abs=2)
    assert "\r" not in stream.getvalue() and "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(("at_once", "first"), [(1, 20), (16, 20), (30, 30), (200, None)])
@pytest.mark.parametrize("terminal", [False, True])
def test_time_left_is_told_once_a_fifth_and_all_that_began_together_is_done(
    at_once: int, first: int | None, terminal: bool
) -> None:
    stream, clock = Terminal() if terminal else io.StringIO(), Clock()
    seen = []
    with Progress("compiling", 100, "kernel", stream, clock, at_once) as progress:
        for done in range(1, 100):
            clock.now += 2 * EVERY
            begin = stream.tell()
            progress.step()
            if terminal:
                progress.say("")  # which redraws the bar
            if " left" in (shown := stream.getvalue()[begin:]) or re.search(r"\d<", shown):
                seen.append(done)
    assert seen[:1] == ([] if first is None else [first])
    assert len(seen) == (0 if first is None else 100 - first)


def test_work_that_breaks_off_says_how_far_it_came() -> None:
    stream, clock = io.StringIO(), Clock()

    def work() -> None:
        with Progress("tuning", None, "schedule", stream, clock) as progress:
            for _ in range(3):
                progress.step()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert stream.getvalue().splitlines()[-1] == "tuning: 3 schedules, after 0.0 s"


def test_terminal_has_a_bar_with_the_time_left_and_lines_above_it() -> None:
    pytest.importorskip("tqdm")
    stream = Terminal()
    with Progress("calibrating", 4, "run", stream) as progress:
        progress.step("first")
        progress.say("run 2 was disturbed")
        progress.reach(4, "last", total=4)
    shown = stream.getvalue()
    assert "calibrating" in shown and "4/4" in shown and "last" in shown
    assert "\r" in shown
    assert "run 2 was disturbed\n" in shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.9, "9.9 s"),
        (9.97, "10 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
