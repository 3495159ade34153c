"""Runs sections one by one, each in a process of its own: one that fails, hangs or dies costs no other."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilecheck.tutorial.page import Page, Section
from tilecheck.watch import watched

SECONDS = 900.0
"""The longest that a section may take."""

State = Literal["ok", "failed", "hung", "died"]


@dataclass(frozen=True)
class Result:
    """What became of a section.

    seconds: that it took.  left_out: blocks that want a GPU, where there is none.  why: it is not ok.
    """

    section: Section
    state: State
    seconds: float
    left_out: int = 0
    why: str = ""


def play(
    page: Page,
    sections: Sequence[Section],
    root: Path,
    gpu: bool,
    *,
    begin: Callable[[Section], None],
    limit: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Result]:
    """The results of `sections` of `page`, in turn.

    root: the folder that they run in.  gpu: blocks that want one run.
    begin: called before each.  limit: seconds for each.
    """
    for section in sections:
        begin(section)
        started = clock()
        code, why = _run(page, section, root, gpu, limit)
        left_out = 0 if gpu else sum(block.gpu for block in section.blocks)
        yield Result(section, _state(code), clock() - started, left_out, why)


def _state(code: int | None) -> State:
    if code is None:
        return "hung"
    return "ok" if code == 0 else "failed" if code == 1 else "died"


def _run(page: Page, section: Section, root: Path, gpu: bool, limit: float) -> tuple[int | None, str]:
    """The exit code of a section's process, None where it had to be ended; and why it is not 0."""
    command = [sys.executable, "-m", "tilecheck.tutorial.blocks", f"file={page.path.resolve()}"]
    command += [f"section={section.number}", f"gpu={'yes' if gpu else 'no'}"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(root), *sys.path])),
        "PYTHONUNBUFFERED": "1",
    }
    if not gpu:
        environment["OMP_NUM_THREADS"] = (
            "1"  # as `device.one_thread`: what is simulated is too small for more
        )
    with watched() as start:
        child = start(command, cwd=root, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            _, told = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return None, f"no end within {limit:g} s"
    sys.stderr.write(told)
    lines = [line for line in told.splitlines() if line.strip()]
    if child.returncode < 0:
        return child.returncode, f"ended by {signal.Signals(-child.returncode).name}"
    if child.returncode == 0:
        return 0, ""
    own = [line for line in lines if line.startswith(str(page.path.resolve()))]
    return child.returncode, (own or lines or [f"exit code {child.returncode}"])[0]
