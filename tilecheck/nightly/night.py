"""The record of a night: what one line of the history holds. Pure data."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilecheck.report.codec import WrongForm, from_plain, to_plain

SCHEMA = 1
"""Of a line; another number means that fields were renamed or removed. Fields that lines of earlier versions
lack have defaults.
"""

ANSWERED = ("passed", "failed")
"""States of a stage that got through."""

_NO_TEXT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that files, terminals or other programs do not take: control characters but tabs, and halves of
surrogate pairs.
"""

_COMMIT = re.compile(r"([0-9a-f]{7,64})?")


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
    verdict: against the stored times.  old: the stored median.  band: share by which it may differ from it.
    """

    median: float
    method: str
    clock_mhz: float = 0.0
    vendor: str = ""
    ratio: float | None = None
    verdict: str = ""
    kernel: str = ""
    old: float | None = None
    band: float | None = None


@dataclass(frozen=True)
class Checked:
    """What came of a kernel's correctness tests, those under other schedules included.

    other: tests that were skipped or failed as expected.
    budget_used: the largest share of its bound that a case used; infinite where one has no result; None
    where none was compared.  row: that case, with the schedule or the draw.
    """

    passed: int = 0
    failed: int = 0
    other: int = 0
    budget_used: float | None = None
    row: str = ""


@dataclass(frozen=True)
class Upgraded:
    """What the newest TileLang gave beside the pinned one.

    verdict: in one line.  parts: the state of each.
    """

    pinned: str
    version: str
    verdict: str
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Night:
    """date: when it began, UTC, ISO 8601.  gpu: the model.  commit: of the sources; "" if unknown.
    dirty: they were changed since.  toolchain: versions by name.
    stages: the state of each.  seconds: that each took.
    kernels: how right each is, by name; empty where no stage left a report.
    facts: name of the file with what the kernels compiled to; "": none.
    newest: which the newest TileLang is, or why there is none, in words.  upgrade: what it gave.
    arguments: more of them for pytest, as `-k softmax`; with any, not all tests need have run.
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
    seconds: Mapping[str, float] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    times: Mapping[str, Time] = field(default_factory=dict)
    kernels: Mapping[str, Checked] = field(default_factory=dict)
    facts: str = ""
    newest: str = ""
    upgrade: Upgraded | None = None
    arguments: tuple[str, ...] = ()

    def answered(self, stage: str, row: str = "", arguments: tuple[str, ...] = ()) -> bool:
        """Whether a stage got through, so that what it did not report is right.

        row: as `times` names it; with arguments for pytest, only a row that was timed is known to have run.
        arguments: with which the row did run, and so would have with the same.
        """
        ran = self.arguments in ((), arguments) or (stage == "latency" and row in self.times)
        return ran and self.stages.get(stage) in ANSWERED

    def as_json(self) -> dict[str, Any]:
        """What a line holds; characters that none may hold are spelt, as `to_plain` does it."""
        return {"schema": SCHEMA, **_mapped(to_plain(self), _spelt)}


def from_json(content: Any) -> Night:
    """The night that `as_json` made `content` of; fields that this version does not know are passed over.

    Raises ValueError, in one line.
    """
    if not isinstance(content, dict):
        raise ValueError("is no object")
    if content.get("schema") != SCHEMA:
        raise ValueError(f"has schema {content.get('schema')!r}, and this tilecheck reads {SCHEMA}")
    _mapped(content, _require_text)
    try:
        given = _known(Night, content)
        given["failures"] = [_known(Failure, each) for each in given.get("failures", ())]
        for name, kind in (("times", Time), ("kernels", Checked)):
            given[name] = {key: _known(kind, each) for key, each in given.get(name, {}).items()}
        if given.get("upgrade"):
            given["upgrade"] = _known(Upgraded, given["upgrade"])
        night = from_plain(Night, given, "the line")
    except (TypeError, AttributeError, WrongForm) as error:
        raise ValueError(f"is no night: {error}") from error
    if not _COMMIT.fullmatch(night.commit):
        raise ValueError(f"has commit {night.commit[:80]!r}, which is none: it has 7 to 64 digits of 0-9a-f")
    bad = [row for row, time in night.times.items() if not _all_positive(time)]
    if bad:
        raise ValueError(f"has no time of {bad[0]} that is a number > 0")
    return night


def _spelt(text: str) -> str:
    return _NO_TEXT.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _require_text(text: str) -> str:
    if found := _NO_TEXT.search(text):
        raise ValueError(f"has the character {found[0]!a} in {text[:40]!a}, which no night has")
    return text


def _mapped(value: Any, of_text: Callable[[str], str]) -> Any:
    """Plain values with all text in them, names included, through `of_text`."""
    if isinstance(value, str):
        return of_text(value)
    if isinstance(value, list):
        return [_mapped(each, of_text) for each in value]
    if isinstance(value, dict):
        return {of_text(name): _mapped(each, of_text) for name, each in value.items()}
    return value


def _known(kind: type, content: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in dataclasses.fields(kind)}
    return {name: value for name, value in content.items() if name in names}


def _all_positive(time: Time) -> bool:
    given = (time.median, time.ratio, time.old, time.band)
    return all(0 < value < float("inf") for value in given if value is not None)
