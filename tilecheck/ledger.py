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
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet

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
        where = f"known issue {self.issue!r} of {self.test!r}"
        if self.issue is None and not self.shows.strip():
            raise ValueError(f"{where}: without an issue `shows` must say what there is to report")
        if self.issue is not None and (not isinstance(self.issue, int) or self.issue <= 0):
            raise ValueError(f"{where}: the issue is no number")
        if self.symptom not in get_args(Symptom):
            raise ValueError(f"{where}: symptom {self.symptom!r} is none of {', '.join(get_args(Symptom))}")
        if self.race and self.symptom in _OF_CODE:
            raise ValueError(f"{where}: a {self.symptom} is no race")
        object.__setattr__(self, "devices", tuple(self.devices))
        object.__setattr__(self, "arches", tuple(self.arches))
        if unknown := set(self.devices) - {"cuda", "simulator", CODEGEN}:
            raise ValueError(f"{where}: no device is called {', '.join(sorted(unknown))}")
        if CODEGEN in self.devices and (len(self.devices) > 1 or self.symptom not in _OF_CODE):
            raise ValueError(
                f"{where}: an entry of {CODEGEN} is for no other device, and its symptom is one of "
                f"{', '.join(_OF_CODE)}; got {', '.join(self.devices)} and {self.symptom!r}"
            )
        if (self.symptom == "landmark") != bool(self.landmark) or (
            self.landmark and self.devices != (CODEGEN,)
        ):
            raise ValueError(
                f"{where}: symptom 'landmark' goes with `landmark`, the id of one, and devices ['{CODEGEN}']"
            )
        try:
            object.__setattr__(self, "versions", SpecifierSet(self.tilelang))
        except InvalidSpecifier as error:
            raise ValueError(f"{where}: versions of TileLang {self.tilelang!r}: {error}") from None

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
        return (
            fnmatchcase(row, self.test)
            and device in self.devices
            and (not self.arches or arch in self.arches)
            and self.versions.contains(tilelang.partition("+")[0], prereleases=True)
        )


def read_ledger(path: Path) -> tuple[Known, ...]:
    """The entries of a ledger; ValueError, in one line, where it is malformed or has two of one test."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    entries = [_entry(path, table) for table in content.get("known", [])]
    seen: set[tuple[Any, ...]] = set()
    for entry in entries:
        key = (entry.test, entry.tilelang, entry.devices, entry.arches, entry.landmark)
        if key in seen:
            raise ValueError(f"{path}: {entry.test!r} occurs twice")
        seen.add(key)
    return tuple(entries)


def _entry(path: Path, table: Mapping[str, Any]) -> Known:
    try:
        return Known(**{"issue": None, **table})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
