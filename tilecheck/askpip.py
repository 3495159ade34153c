"""pip, asked what it finds."""

import subprocess
import sys
from collections.abc import Callable, Sequence

SECONDS = 300.0
"""For pip to answer."""

Pip = Callable[[Sequence[str]], tuple[int, str]]
"""Runs pip with these arguments; its exit code and standard output."""


def run_pip(arguments: Sequence[str]) -> tuple[int, str]:
    """pip of this Python; whoever asks says what it means that it finds nothing."""
    command = [sys.executable, "-m", "pip", *arguments]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout
