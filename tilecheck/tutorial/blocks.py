"""Runs the blocks of one section; as a program, of one section of a page, for `course`."""

import linecache
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilecheck.tutorial.page import Page, Section, read_page


class BlockFailed(Exception):
    """A block did not get through; the text says where, and what happened."""


def run_section(page: Page, section: Section, gpu: bool) -> int:
    """Runs the blocks of a section, its Python in one namespace; how many were left out for want of a GPU.

    Raises BlockFailed at the first that fails.
    """
    names: dict[str, Any] = {"__name__": "tutorial"}
    left_out = 0
    for block in section.blocks:
        if block.gpu and not gpu:
            left_out += 1
        elif block.language == "python":
            _run_python(page.path, block.line, block.text, names)
        else:
            for words in block.commands():
                _run_command(page.path, block.line, words)
    return left_out


def _run_python(path: Path, line: int, text: str, names: dict[str, Any]) -> None:
    # As if the page were a module with this block alone: tracebacks name its lines, and TileLang, which reads
    # the source of what it traces, finds it.
    lines = ["\n"] * (line - 1) + text.splitlines(keepends=True)
    linecache.cache[str(path)] = (sum(map(len, lines)), None, lines, str(path))
    try:
        exec(compile("".join(lines), str(path), "exec"), names)
    except (Exception, SystemExit) as error:  # one that exits, with 0 too, leaves out what comes after it
        raise BlockFailed(_told(path, error)) from error


def _told(path: Path, error: BaseException) -> str:
    """The error, and the line of the page that it came from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    told = "".join(traceback.format_exception_only(type(error), error)).strip()
    if isinstance(error, SyntaxError):  # of which Python tells the place first, and what it is last
        told = f"{type(error).__name__}: {error.msg}"
    return f"{path}:{line}: {told}"


def _run_command(path: Path, line: int, words: list[str]) -> None:
    sys.stdout.write(f"$ {' '.join(words)}\n")
    sys.stdout.flush()
    done = subprocess.run([sys.executable, "-m", *words], stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise BlockFailed(f"{path}:{line}: {' '.join(words)}: exit code {done.returncode}")


def main(arguments: Mapping[str, str]) -> int:
    """The child of `course`.  arguments: file, section and gpu."""
    page = read_page(Path(arguments["file"]))
    try:
        run_section(page, page.sections[int(arguments["section"]) - 1], arguments["gpu"] == "yes")
    except BlockFailed as error:
        sys.stdout.flush()
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    # Not as `exit` does it: what CUDA is in after a failure is none of the section's business.
    sys.exit(main(dict(argument.split("=", 1) for argument in sys.argv[1:])))
