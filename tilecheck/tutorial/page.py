"""Reads a page: its sections, and in each the blocks that run.

A section begins with a line `## Title`. A block is fenced, and its info string says what it is: `python`, or
`sh` for lines that call tilecheck and pytest; with `gpu` behind it, it runs only where there is a GPU. Other
fenced text, such as output, does not run.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("tilecheck", "pytest")
"""What a line of a `sh` block may call."""

_FENCE = re.compile(r"^```(?P<info>[^`]*)$")


@dataclass(frozen=True)
class Block:
    """line: of the page, where its text begins, from 1.  gpu: it runs only where there is one."""

    language: str
    text: str
    line: int
    gpu: bool = False

    def commands(self) -> list[list[str]]:
        """The commands of a `sh` block, each with its arguments."""
        lines = [shlex.split(line, comments=True) for line in self.text.splitlines()]
        return [words for words in lines if words]


@dataclass(frozen=True)
class Section:
    """number: from 1."""

    number: int
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """path: of its file."""

    path: Path
    sections: tuple[Section, ...]


def read_page(path: Path) -> Page:
    """The page in a file.

    Raises ValueError, in one line, for a file that cannot be read, has no sections, leaves a block open, or
    calls what a page may not.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    titles: list[str] = []
    blocks: list[list[Block]] = []
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence:
            end = next((i for i in range(at + 1, len(lines)) if lines[i] == "```"), None)
            if end is None:
                raise ValueError(f"{path}:{at + 1}: a block that does not end")
            if block := _block(path, fence["info"].split(), lines[at + 1 : end], at + 2):
                if not blocks:
                    raise ValueError(f"{path}:{at + 1}: code before the first section")
                blocks[-1].append(block)
            at = end
        elif lines[at].startswith("## "):
            titles.append(lines[at][3:].strip())
            blocks.append([])
        at += 1
    if not titles:
        raise ValueError(f"{path}: no sections (lines that begin with `## `)")
    sections = (
        Section(i, title, tuple(own)) for i, (title, own) in enumerate(zip(titles, blocks, strict=True), 1)
    )
    return Page(path, tuple(sections))


def _block(path: Path, info: list[str], lines: list[str], line: int) -> Block | None:
    if not info or info[0] not in ("python", "sh"):
        return None
    if info[1:] not in ([], ["gpu"]):
        raise ValueError(
            f"{path}:{line - 1}: a block is `{' '.join(info)}`; after the language only gpu may follow"
        )
    block = Block(info[0], "".join(f"{each}\n" for each in lines), line, gpu=len(info) > 1)
    if block.language == "sh":
        for words in block.commands():
            if words[0] not in PROGRAMS:
                raise ValueError(
                    f"{path}:{line}: {words[0]!r} is not one of {', '.join(PROGRAMS)}, which a page may call"
                )
    return block
