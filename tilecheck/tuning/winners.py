"""The file of tuned schedules: an input, shipped beside the kernels. By GPU model, kernel and case.

Each entry carries a digest of itself: a schedule that somebody edits was never measured, and the file is
refused. That guards against slips, not against malice; whatever the file says, a schedule is used only where
the kernel's `legal` accepts it. Imports neither torch nor TileLang.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilecheck.files import replace
from tilecheck.strictjson import each_once, loaded

FILE = "schedules.json"
"""Name of the file, beside the module of a kernel's program."""

_FORM = 1


class WinnersError(ValueError):
    """A file of schedules that is not what was written; the text is one line."""


@dataclass(frozen=True)
class Winner:
    """A tuned schedule, and how it was found.

    gpu: model.  arch: name.  dims, flags, dtype: of the case.
    schedule: its fields, in seconds `median` of device time, taken by `method`.
    default: the schedule that it beat; default_median: in turn with it; None where that had no time.
    noise: how far the default's own time moved, as a share.
    runner_up: fields of the second best, with its time in the search; None for none.
    tried: candidates that were.  source: `source_hash` of the program.  versions: of what compiled and ran
    it.
    """

    gpu: str
    kernel: str
    case: str
    arch: str
    dims: Mapping[str, int]
    flags: Mapping[str, Any]
    dtype: str
    schedule: Mapping[str, Any]
    median: float
    method: str
    default: Mapping[str, Any]
    default_median: float | None
    noise: float
    runner_up: Mapping[str, Any] | None
    runner_up_median: float | None
    tried: int
    source: str
    versions: Mapping[str, str]

    @property
    def place(self) -> str:
        """Where it is in the file."""
        return f"{self.gpu}, {self.kernel}, {self.case}"


_PLACE = ("gpu", "kernel", "case")
_TYPES: dict[str, tuple[type, ...]] = {
    "arch": (str,),
    "dims": (dict,),
    "flags": (dict,),
    "dtype": (str,),
    "schedule": (dict,),
    "median": (float,),
    "method": (str,),
    "default": (dict,),
    "default_median": (float, type(None)),
    "noise": (float,),
    "runner_up": (dict, type(None)),
    "runner_up_median": (float, type(None)),
    "tried": (int,),
    "source": (str,),
    "versions": (dict,),
}
assert {f.name for f in fields(Winner)} == {*_PLACE, *_TYPES}


def read_winners(path: Path) -> tuple[Winner, ...]:
    """All entries, in the file's order; none where there is no file.

    Raises WinnersError for a file that is malformed, or in which something was changed by hand.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise WinnersError(f"{path} cannot be read: {error.strerror}") from None
    return _read(path, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=16)
def _read(path: Path, *_state: int) -> tuple[Winner, ...]:
    try:
        given = loaded(path.read_text(encoding="utf-8"), each_once)
    except (OSError, ValueError) as error:
        raise WinnersError(f"{path} is no file of schedules: {error}") from None
    if not isinstance(given, dict) or given.get("form") != _FORM or set(given) != {"form", "schedules"}:
        raise WinnersError(f"{path} is no file of schedules: it must hold `form` {_FORM} and `schedules`")
    winners = []
    for gpu, kernels in _table(path, "schedules", given["schedules"]).items():
        for kernel, cases in _table(path, gpu, kernels).items():
            for case, entry in _table(path, f"{gpu}, {kernel}", cases).items():
                winners.append(_winner(path, {"gpu": gpu, "kernel": kernel, "case": case}, entry))
    return tuple(winners)


def write_winners(path: Path, winners: "tuple[Winner, ...] | list[Winner]") -> None:
    """Replaces the file, sorted; one that holds the same is left as it is."""
    schedules: dict[str, dict[str, dict[str, Any]]] = {}
    for winner in sorted(winners, key=lambda w: (w.gpu, w.kernel, w.case)):
        entry = _entry(winner)
        entry["digest"] = _digest(winner.place, entry)
        schedules.setdefault(winner.gpu, {}).setdefault(winner.kernel, {})[winner.case] = entry
    text = json.dumps({"form": _FORM, "schedules": schedules}, indent=1, sort_keys=True) + "\n"
    with suppress(OSError):
        if path.read_text(encoding="utf-8") == text:
            return
    replace(path, text)


def with_winner(winners: tuple[Winner, ...], new: Winner) -> tuple[Winner, ...]:
    """`winners` with `new` in the place of the one before."""
    return (*(w for w in winners if w.place != new.place), new)


def _entry(winner: Winner) -> dict[str, Any]:
    return {name: value for name, value in asdict(winner).items() if name not in _PLACE}


def _digest(place: str, entry: Mapping[str, Any]) -> str:
    text = json.dumps([place, {k: v for k, v in entry.items() if k != "digest"}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _winner(path: Path, place: dict[str, Any], entry: Any) -> Winner:
    where = f"{path}: {', '.join(place.values())}"
    entry = _table(path, ", ".join(place.values()), entry)
    if set(entry) != {*_TYPES, "digest"}:
        wrong = sorted(set(entry) ^ {*_TYPES, "digest"})
        raise WinnersError(f"{where}: {', '.join(wrong)} is missing, or does not belong there")
    for name, kinds in _TYPES.items():
        if not isinstance(entry[name], kinds) or isinstance(entry[name], bool):
            raise WinnersError(f"{where}: {name} is {entry[name]!r}, not {_named(kinds)}")
    if entry["digest"] != _digest(", ".join(place.values()), entry):
        raise WinnersError(
            f"{where}: its digest does not fit, so it was changed since it was measured; "
            "restore it, or remove the entry and tune again"
        )
    if not entry["median"] > 0:
        raise WinnersError(f"{where}: median is {entry['median']!r}, not over 0")
    return Winner(**place, **{name: value for name, value in entry.items() if name != "digest"})


def _table(path: Path, where: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise WinnersError(f"{path}: {where} is {given!r}, not a table")
    return given


def _named(kinds: tuple[type, ...]) -> str:
    names = {dict: "a table", str: "a text", float: "a number", int: "an integer", type(None): "null"}
    return " or ".join(names[kind] for kind in kinds)
