"""What is long, in few words: the line of a compiler's message that tells, the first of many names, the
versions that differ.
"""

import re
from collections.abc import Mapping, Sequence

_SAYS_NOTHING = re.compile(r"(compilation )?errors?\W*", re.IGNORECASE)
_TELLING = re.compile(r"\berror\b|\bfatal\b|Check failed|Error:", re.IGNORECASE)


def gist(error: BaseException) -> str:
    """Type and telling line of an exception; compilers put sources and stacks around it."""
    return f"{type(error).__name__}: {telling_line(str(error))}"


def telling_line(message: str) -> str:
    """The first line that says what went wrong; the first of all if none does."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line) and not _SAYS_NOTHING.fullmatch(line)]
    return (telling or lines or ["no message"])[0]


_AROUND = ("the case is there for", "schedule: ", "repeat: ")
"""How lines of a Mismatch begin that do not say what is wrong."""


def wrong_line(message: str) -> str:
    """The line of a `conformance.Mismatch` that says what is wrong; its first line names kernel and case."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next((line for line in lines[1:] if not line.startswith(_AROUND)), (lines or ["no message"])[0])


def few(names: Sequence[str], most: int = 3) -> str:
    """Names in a message: the first ones, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def toolchain_changes(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Which versions differ, in one line: "nvcc 13.0.88 -> 13.1.80"; "" if none does."""
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return ", ".join(f"{name} {old.get(name, 'none')} -> {new.get(name, 'none')}" for name in names)
