"""One stage of the night: commands one after the other, a time limit, and how it ended.

A stage that hangs is interrupted first, so that pytest writes down what it has, and killed if that does not
help: with its process group, and with what its processes started in sessions of their own. So it is where the
night itself is killed.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tilecheck.family import descendants
from tilecheck.watch import end_family, watched

State = Literal["passed", "failed", "broken", "hung", "interrupted", "refused", "skipped"]
"""passed, failed: what it asks was answered, with yes or no.  broken: it was not, as by a usage error.
hung: it took longer than it may.  interrupted: it was under way when the night was.  refused: the guard did
not let it run.  skipped: there was nothing to do.
"""

GRACE = 20.0
"""Seconds for an interrupted stage to write down what it has."""

LAST_WORDS = 160
"""Characters of a line that says why a stage did not pass."""

NOTHING_SELECTED = 5
"""pytest's exit code where no test was left to run."""

_OF_PYTEST = {
    2: "interrupted, or wrong usage",
    3: "pytest failed inside",
    4: "pytest refused to run",
    NOTHING_SELECTED: "no tests were selected",
}
"""Exit codes of pytest that are no answer."""

_OF_COMMANDS = {2: "wrong usage or unusable input"}
"""The same of our commands."""

# What the plugin says in each run, right or wrong, is no reason.
_SAYS_WHY = re.compile(
    r"^(ERROR: |error: |tilecheck( (?!versions|warning|report|latency)\w+)?: |guard: |E  |\w*pytest: error: "
    r"|__main__\.py: error: |(INTERNALERROR> )?[\w.]*Error\b)"
)

_PROGRESS = re.compile(r"^[^:]+: \d+ of \d+ \w+, after ")  # as `tilecheck.progress` writes it

_CRASHED = re.compile(r"^Traceback \(most recent call last\):|: No module named ", re.MULTILINE)
"""Python ends so with exit code 1, which is no answer of the command."""


@dataclass(frozen=True)
class Step:
    """A command.  out: a file for its standard output, which else goes to the stage's log.
    answers: exit codes that say no, besides 1.  fine: those that are as good as 0.
    after_failure: whether it runs where the step before it failed.
    """

    command: tuple[str, ...]
    out: Path | None = None
    answers: tuple[int, ...] = ()
    fine: tuple[int, ...] = ()
    after_failure: bool = True


@dataclass(frozen=True)
class Stage:
    """name: of one word.  seconds: its limit, all steps together.  gates: it can turn the night red."""

    name: str
    steps: tuple[Step, ...]
    seconds: float
    gates: bool = True


@dataclass(frozen=True)
class Ended:
    """How a stage ended.  words: why it did not pass, in one line; "" if it did.  log: its output.
    codes: exit codes of its steps.
    """

    name: str
    state: State
    seconds: float
    words: str = ""
    log: str = ""
    gates: bool = True
    codes: tuple[int, ...] = field(default=())

    @property
    def green(self) -> bool:
        return self.state in ("passed", "skipped")


def run_stage(
    stage: Stage, logs: Path, root: Path, variables: Mapping[str, str], grace: float = GRACE
) -> Ended:
    """Runs the steps of a stage in the folder `root`, with `variables` as their environment.

    logs: a folder; the stage's output goes into `NAME.log` there. Where that cannot be written, as on a full
    disk, the stage is broken, and the next one has its turn.
    """
    begun = time.monotonic()
    try:
        return _run_steps(stage, logs, root, variables, grace)
    except OSError as error:
        words = f"it could not be run: {error.strerror or error}"
        return Ended(stage.name, "broken", time.monotonic() - begun, words, gates=stage.gates)


def _run_steps(stage: Stage, logs: Path, root: Path, variables: Mapping[str, str], grace: float) -> Ended:
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{stage.name}.log"
    begun = time.monotonic()
    state: State = "passed"
    words, codes = "", []
    with log.open("ab") as output:
        for step in stage.steps:
            if state != "passed" and not step.after_failure:
                continue
            output.write(f"$ {' '.join(step.command)}\n".encode())
            output.flush()
            start = output.tell()
            rest = stage.seconds - (time.monotonic() - begun)
            code = _run(step, output.fileno(), root, variables, rest, grace)
            if code is None:
                state = "hung"
                words = f"took longer than {stage.seconds:g} s, at: {_short(step.command)}"
                break
            codes.append(code)
            found, said = _judge(step, code, log, start)
            if found != "passed" and state in ("passed", "failed"):
                state, words = (found, said) if state == "passed" or found == "broken" else (state, words)
    return Ended(stage.name, state, time.monotonic() - begun, words, str(log), stage.gates, tuple(codes))


def _judge(step: Step, code: int, log: Path, start: int) -> tuple[State, str]:
    text = _tail(log, start)
    if code == 1 and "pytest" not in step.command and _CRASHED.search(text):
        return "broken", f"crashed: {shortened(text.strip().splitlines()[-1])}"
    if code == 0 or code in step.fine:
        return "passed", ""
    last = last_words(text)
    if code == 1 or code in step.answers:
        return "failed", last
    if code < 0:
        with suppress(ValueError):
            return "broken", f"{_short(step.command)} died of {signal.Signals(-code).name}"
    known = (_OF_PYTEST if "pytest" in step.command else _OF_COMMANDS).get(code, f"exit code {code}")
    return "broken", f"{known}: {last}" if last else known


def last_words(text: str) -> str:
    """The line of a stage's output that says why it ended so: the last that looks like it, else the last that
    is not about progress.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _PROGRESS.match(line)]
    # pytest's last line of all: "2 failed, 97 passed in 3.21s".
    counted = [
        line.strip("= ") for line in lines if re.search(r"\b\d+ (failed|errors?)\b.* in [\d.:]+", line)
    ]
    why = [line for line in lines if _SAYS_WHY.match(line)]
    return shortened((counted or why or lines or [""])[-1])


def shortened(words: str) -> str:
    """At most `LAST_WORDS` of a line."""
    return words if len(words) <= LAST_WORDS else f"{words[: LAST_WORDS - 3]}..."


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - 2**16))
        return file.read().decode(errors="replace")


def _run(
    step: Step, output: int, root: Path, variables: Mapping[str, str], seconds: float, grace: float
) -> int | None:
    """The exit code; None: it took too long, and all that it started is gone."""
    made = None
    if step.out is not None:
        step.out.parent.mkdir(parents=True, exist_ok=True)
        made = step.out.open("wb")
    with watched() as start:
        try:
            with _heeding_interrupts():
                child = start(
                    step.command,
                    cwd=root,
                    env=dict(variables),
                    stdin=subprocess.DEVNULL,
                    stdout=made if made is not None else output,
                    stderr=output,
                )
        except OSError as error:
            os.write(output, f"error: {step.command[0]} does not run: {error.strerror}\n".encode())
            return 127
        finally:
            if made is not None:
                made.close()
        try:
            return child.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            family = [pid for pid, _ in descendants(child.pid)]  # while they can be told by their parents
            try:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    child.wait(grace)
            finally:
                end_family(child.pid, family)
            return None


@contextmanager
def _heeding_interrupts() -> Iterator[None]:
    """What is started in here heeds SIGINT, also where this process was started to ignore it, as a shell does
    with what it puts into the background: a child would inherit that, and write down nothing when it hangs.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _short(command: Sequence[str]) -> str:
    """The command without the interpreter's path."""
    words = [Path(command[0]).name, *command[1:]]
    text = " ".join(words[2:] if words[1:2] == ["-m"] else words)
    return text if len(text) <= 60 else f"{text[:57]}..."
