"""The ledger of known issues: what is expected to fail with a version of TileLang, and how.

A TOML file of tables `[[known]]`:

test        the row: `KernelSpec.test_id`, with the schedule's id where it has one; `*` stands for anything
issue       its number at github.com/tile-ai/tilelang/issues; left out where there is no report: `shows` then
            says what there is to report
symptom     wrong, compile error, launch error, hang, abort or landmark
landmark    id of the landmark that the code breaks, for this symptom alone
tilelang    the versions it fails with, as pip writes them; open at the end until one is known to be right
devices     cuda, simulator or both (default: cuda); or codegen: `test` is then a row of code, which has its
            architecture as its end, and the symptom is "compile error" or "landmark"
arches      architectures it fails on (default: all)
seen        what came out, and on what; empty where it was not run
shows       what the generated code, or the compiler's message, shows of the cause
race        what decides whether it comes out wrong, where that is luck: the test may pass then, too
"""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from tilecheck.arches import ARCHES
from tilecheck.near import did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Symptom = Literal["wrong", "compile error", "launch error", "hang", "abort", "landmark"]

DANGEROUS: tuple[Symptom, ...] = ("hang", "abort")
"""Symptoms that an expected failure survives only in a process of its own."""

CODEGEN = "codegen"
"""What stands for a device in entries about the code that a row compiles to."""

_OF_CODE = ("compile error", "landmark")


@dataclass(frozen=True)
class Known:
    """One entry; the module says what the fields are. Raises ValueError where one is malformed."""

    test: str
    issue: int | None
    symptom: Symptom
    tilelang: str
    devices: tuple[str, ...] = ("cuda",)
    arches: tuple[str, ...] = ()
    seen: str = ""
    shows: str = ""
    race: str = ""
    landmark: str = ""
    versions: SpecifierSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.issue is None and not self.shows.strip():
            raise ValueError("without an issue `shows` must say what there is to report")
        if self.race and self.symptom in _OF_CODE:
            raise ValueError(f"a {self.symptom} is no race")
        object.__setattr__(self, "devices", tuple(self.devices))
        object.__setattr__(self, "arches", tuple(self.arches))
        if CODEGEN in self.devices and (len(self.devices) > 1 or self.symptom not in _OF_CODE):
            raise ValueError(
                f"an entry of {CODEGEN} is for no other device, and its symptom is one of "
                f"{', '.join(_OF_CODE)}; got {', '.join(self.devices)} and {self.symptom!r}"
            )
        if (self.symptom == "landmark") != bool(self.landmark) or (
            self.landmark and self.devices != (CODEGEN,)
        ):
            raise ValueError(
                f"symptom 'landmark' goes with `landmark`, the id of one, and devices ['{CODEGEN}']"
            )
        try:
            object.__setattr__(self, "versions", SpecifierSet(self.tilelang))
        except InvalidSpecifier:
            raise ValueError(_malformed("tilelang", self.tilelang, _VERSIONS)) from None

    @property
    def strict(self) -> bool:
        """Whether the test must fail: a race may come out right."""
        return not self.race

    @property
    def source(self) -> str:
        """Where more is said of it: the issue, or nowhere but in the ledger."""
        return f"tile-ai/tilelang#{self.issue}" if self.issue else "not reported to tile-ai/tilelang"

    def fits(self, row: str, device: str, arch: str, tilelang: str) -> bool:
        """Whether the row is expected to fail on a device and architecture, with a version of TileLang."""
        return fnmatchcase(row, self.test) and self.in_force(device, arch, tilelang)

    def in_force(self, device: str, arch: str, tilelang: str) -> bool:
        """Whether it says anything of rows there."""
        there = device in self.devices and (not self.arches or arch in self.arches)
        return there and self.fails_with(tilelang)

    def fails_with(self, tilelang: str) -> bool:
        """Whether it is about a version of TileLang."""
        return self.versions.contains(tilelang.partition("+")[0], prereleases=True)


def read_ledger(path: Path) -> tuple[Known, ...]:
    """The entries of a ledger, in their order; ValueError, in one line, where it is malformed or has two of
    one test.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is no UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: no TOML: {error}") from error
    if unknown := [name for name in content if name != "known"]:
        raise ValueError(f"{path}: {unknown[0]!r} is unknown: start each entry with [[known]]")
    tables = content.get("known", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        what = f"`known` is {_kind(tables)}, no list of tables"
        raise ValueError(f"{path}: {what}: start each entry with [[known]]")
    entries = []
    seen: dict[tuple[Any, ...], int] = {}
    for number, table in enumerate(tables, 1):
        try:
            entry = _entry(table)
            key = (entry.test, entry.tilelang, entry.devices, entry.arches, entry.landmark)
            if (first := seen.setdefault(key, number)) != number:
                raise ValueError(f"{entry.test!r} occurs twice, first in entry {first}: remove one of them")
        except ValueError as error:
            raise ValueError(f"{path}: {place_of(number, table.get('test'))}: {error}") from error
        entries.append(entry)
    return tuple(entries)


def place_of(number: int, test: Any) -> str:
    """How an entry is called in a message.  number: counted from 1.  test: its test, as far as it has one."""
    return f"entry {number} ({test!r})" if isinstance(test, str) else f"entry {number}"


_VERSIONS = 'versions as pip writes them, as in ">=0.1.15" or ">=0.1.15,<0.1.17"'
_DEVICES = ("cuda", "simulator", CODEGEN)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _some_of(known: Collection[str]) -> Callable[[Any], bool]:
    def is_one(value: Any) -> bool:
        return isinstance(value, list) and bool(value) and all(_text(v) and v in known for v in value)

    return is_one


_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "test": (lambda v: _text(v) and bool(v.strip()), 'the id of a row, or a pattern, as in "matmul-tail-*"'),
    "issue": (lambda v: type(v) is int and v > 0, "the number of the issue, as in 2309, or leave it out"),
    "symptom": (lambda v: _text(v) and v in get_args(Symptom), f"one of {', '.join(get_args(Symptom))}"),
    "tilelang": (_text, _VERSIONS),
    "devices": (_some_of(_DEVICES), f"a list of some of {', '.join(_DEVICES)}"),
    "arches": (_some_of(ARCHES), f"a list of some of {', '.join(ARCHES)}"),
    "seen": (_text, "text"),
    "shows": (_text, "text"),
    "race": (_text, "text"),
    "landmark": (_text, 'the id of a landmark, as in "tensor-cores"'),
}
"""Each field with what its value has to be, also in words."""

_NEEDED = ("test", "symptom", "tilelang")


def _entry(table: Mapping[str, Any]) -> Known:
    if unknown := [name for name in table if name not in _FIELDS]:
        raise ValueError(f"{unknown[0]!r} is unknown{did_you_mean(unknown[0], _FIELDS)}")
    for name, value in table.items():
        right, words = _FIELDS[name]
        if not right(value):
            raise ValueError(_malformed(name, value, words))
    if missing := [name for name in _NEEDED if name not in table]:
        raise ValueError("; ".join(f"`{name}` is missing: write {_FIELDS[name][1]}" for name in missing))
    return Known(**{"issue": None, **table})


def _malformed(name: str, value: Any, words: str) -> str:
    return f"`{name}` is {_kind(value)}: write {words}"


def _kind(value: Any) -> str:
    """A value, as far as it is short."""
    if isinstance(value, Mapping):
        return "a table"
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
