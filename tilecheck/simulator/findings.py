"""What the simulator has to say about a program: findings, each with the line of the kernel's source."""

import os
from dataclasses import dataclass
from typing import Any

_SHOWN = 8
"""Findings quoted in one message; the rest are counted."""


class SimulationError(Exception):
    """The program ran, and does something that it must not. `findings` says what and where."""

    def __init__(self, findings: "list[Finding]") -> None:
        self.findings = findings
        lines = [str(f) for f in findings[:_SHOWN]]
        if len(findings) > _SHOWN:
            lines.append(f"... and {len(findings) - _SHOWN} more")
        super().__init__("\n".join(lines))


class Unsupported(Exception):
    """The simulator does not know this construct, and says so rather than guess. The message names it and its
    line.
    """


@dataclass(frozen=True)
class Location:
    """A line of the kernel's source; `file` is empty where TileLang recorded none."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        if not self.file:
            return "<unknown line>"
        path = os.path.relpath(self.file)
        return f"{self.file if path.startswith('..') else path}:{self.line}"


@dataclass(frozen=True)
class Finding:
    """kind: "unwritten read", "out of range", "conflicting writes", "unwritten output", "race", "assertion",
    "early access", "early end", "deadlock" ...
    """

    kind: str
    location: Location
    text: str

    def __str__(self) -> str:
        return f"{self.location}: {self.kind}: {self.text}"


class Findings:
    """Collects findings, the first of each kind at each line and buffer: a wrong line is wrong in every
    block.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], Finding] = {}

    def add(self, kind: str, location: Location, subject: str, text: str) -> None:
        self._seen.setdefault((kind, location, subject), Finding(kind, location, text))

    def known(self, kind: str, location: Location, subject: str) -> bool:
        return (kind, location, subject) in self._seen

    def raise_if_any(self) -> None:
        if self._seen:
            raise SimulationError(list(self._seen.values()))


def location_of(statement: Any) -> Location | None:
    """Where TileLang says that `statement` stands in the source; None where it says nothing."""
    from tilelang.ir import get_stmt_span

    return location_of_span(get_stmt_span(statement))


def location_of_span(span: Any) -> Location | None:
    from tilelang.ir import span_to_location

    place = span_to_location(span)
    return None if place is None else Location(*place)
