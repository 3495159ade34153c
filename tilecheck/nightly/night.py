"""The record of a night: what one line of the history holds. Pure data."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1
"""Of a line; another number means that fields were renamed or removed."""

ANSWERED = ("passed", "failed")
"""States of a stage that got through."""


@dataclass(frozen=True)
class Failure:
    """One test that failed.  test: pytest's id.  kernel, case: "" for a test about none.
    words: the first line of its message.  repeat: the command that runs it again.
    """

    stage: str
    test: str
    kernel: str = ""
    case: str = ""
    words: str = ""
    repeat: str = ""


@dataclass(frozen=True)
class Time:
    """How long a row took.  median: seconds.  ratio: over the fastest vendor's; None without.
    verdict: against the stored times.
    """

    median: float
    method: str
    clock_mhz: float = 0.0
    vendor: str = ""
    ratio: float | None = None
    verdict: str = ""


@dataclass(frozen=True)
class Night:
    """date: when it began, UTC, ISO 8601.  gpu: the model.  commit: of the sources; "" if unknown.
    dirty: they were changed since.  toolchain: versions by name.
    stages: the state of each.  facts: name of the file with what the kernels compiled to; "": none.
    newest: what the other TileLang gave, in words.
    """

    date: str
    gpu: str
    seed: int
    exit_code: int
    commit: str = ""
    dirty: bool = False
    arch: str = ""
    toolchain: Mapping[str, str] = field(default_factory=dict)
    stages: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    times: Mapping[str, Time] = field(default_factory=dict)
    facts: str = ""
    newest: str = ""

    def answered(self, stage: str) -> bool:
        """Whether a stage got through, so that what it did not report is right."""
        return self.stages.get(stage) in ANSWERED

    def as_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **dataclasses.asdict(self)}


def from_json(content: Any) -> Night:
    """The night that `as_json` made `content` of; fields that this version does not know are passed over.

    Raises ValueError, in one line.
    """
    if not isinstance(content, dict):
        raise ValueError("is no object")
    if content.get("schema") != SCHEMA:
        raise ValueError(f"has schema {content.get('schema')!r}, and this tilecheck reads {SCHEMA}")
    try:
        given = _known(Night, content)
        given["failures"] = tuple(Failure(**_known(Failure, f)) for f in given.get("failures", ()))
        given["times"] = {str(row): Time(**_known(Time, t)) for row, t in given.get("times", {}).items()}
        night = Night(**given)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"is no night: {error}") from error
    bad = [row for row, time in night.times.items() if not _positive(time.median)]
    if bad:
        raise ValueError(f"has no time of {bad[0]} that is a number > 0")
    return night


def _known(kind: type, content: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in dataclasses.fields(kind)}
    return {name: value for name, value in content.items() if name in names}


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
