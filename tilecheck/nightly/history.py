"""The nights before: one append-only folder, with one folder a GPU model in it.

`nvidia-h200/nights.jsonl` has a line of JSON a night, with the number of its schema; `nvidia-h200/facts/`
what the kernels compiled to, one file for each different content, as `tilecheck facts --json` prints it.
Nothing is ever rewritten. A line that cannot be read, as one that was cut off when the disk was full, is told
and passed over: the others are as good as before. Nights are in the order of their lines: a date is what a
clock said, and one that was wrong once must not be the last night for ever.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from tilecheck.codegen.collection import Collection, parse
from tilecheck.files import replace, shown
from tilecheck.latency.baselines import model_folder
from tilecheck.nightly.night import Night, from_json

_NIGHTS = "nights.jsonl"

PATIENCE = 30.0
"""Seconds to wait for whoever else adds a night."""


@dataclass(frozen=True)
class Past:
    """nights: in the order of their lines.  told: what could not be read, and dates that go back, a line
    each.  unread: how many lines could not be read.
    """

    nights: tuple[Night, ...]
    told: tuple[str, ...]
    unread: int = 0


class History:
    """The nights of one GPU model.  folder: of all models."""

    def __init__(self, folder: Path, gpu: str) -> None:
        self.folder = folder / model_folder(gpu)
        self._file = self.folder / _NIGHTS

    def read(self) -> Past:
        """All nights; raises OSError where the file is there and cannot be opened."""
        return _read(self._file)

    def append(self, night: Night) -> None:
        """Adds a line; raises OSError where it cannot be written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps(night.as_json(), sort_keys=True).encode() + b"\n"
        with FileLock(f"{self._file}.lock", timeout=PATIENCE), self._file.open("ab+") as file:
            # A line that was cut off must not swallow this one.
            if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
                line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def keep_facts(self, text: str) -> str:
        """Keeps what the kernels compiled to, once; the name for `facts`."""
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        path = self._facts(name)
        if not path.exists():
            replace(path, text)
        return name

    def facts(self, name: str) -> Collection | None:
        """What `keep_facts` kept; None: it is not there, or no longer whole."""
        if not name:
            return None
        try:
            return parse(self._facts(name).read_text(encoding="utf-8"), name)
        except (OSError, ValueError):
            return None

    def _facts(self, name: str) -> Path:
        return self.folder / "facts" / f"{name}.json"


def all_models(folder: Path) -> dict[str, Past]:
    """The nights of all GPU models in the folder, or in that of one model; who had the last night first.

    Of two folders with nights of one model, as of a copy, that counts which nights are added to.
    What cannot be read is told in the model's place. Raises OSError where the folder itself cannot be read.
    """
    files: dict[str, list[tuple[Path, Past]]] = {}
    for within in sorted([folder, *folder.iterdir()]):
        file = within / _NIGHTS
        if not file.is_file():
            continue
        try:
            past = _read(file)
        except OSError as error:
            past = Past((), (f"{shown(file)} cannot be read: {error.strerror or error}",))
        files.setdefault(past.nights[-1].gpu if past.nights else within.name, []).append((file, past))
    found = {gpu: _of_one(gpu, each) for gpu, each in files.items()}
    return dict(sorted(found.items(), key=lambda item: _last(item[1]), reverse=True))


def _of_one(gpu: str, files: Sequence[tuple[Path, Past]]) -> Past:
    """The nights of a model, where several files have some."""
    (kept, past), *others = sorted(files, key=lambda each: each[0].parent.name != model_folder(gpu))
    told = [
        f"{shown(file)} has nights of {gpu}, too; {shown(kept)} counts, so it is passed over: move it away"
        for file, _ in others
    ]
    return dataclasses.replace(past, told=(*past.told, *told))


def _last(past: Past) -> str:
    return past.nights[-1].date if past.nights else ""


def _read(file: Path) -> Past:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return Past((), ())
    nights: list[Night] = []
    told, unread = [], 0
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        place = f"{shown(file)}, line {number}"
        try:
            night = from_json(json.loads(line))
        except (ValueError, RecursionError) as error:
            told.append(f"{place}: {_what(line, error)}; it is passed over")
            unread += 1
            continue
        if nights and night.date < nights[-1].date:
            told.append(
                f"{place}: is dated {night.date}, before the night above it, {nights[-1].date}: a clock was "
                "wrong; nights stay in the order of the lines"
            )
        nights.append(night)
    return Past(tuple(nights), tuple(told), unread)


def _what(line: bytes, error: Exception) -> str:
    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError, RecursionError)):
        return f"no JSON, {len(line)} bytes, perhaps cut off ({error})"
    return str(error)


def series(nights: Sequence[Night], which: str = "median") -> dict[str, list[float]]:
    """Of each row of the last night, its times on all nights that have it, back to where it was taken
    differently, the oldest first.

    which: "median", or "ratio", over the vendor's; a row without is left out.
    """
    last = nights[-1].times if nights else {}
    found: dict[str, list[float]] = {}
    for row, now in last.items():
        values: list[float] = []
        for night in reversed(nights):
            time = night.times.get(row)
            if time is None:
                continue
            value = getattr(time, which)
            if time.method != now.method or time.vendor != now.vendor or not value:
                break
            values.append(float(value))
        if values:
            found[row] = values[::-1]
    return found


def trends(nights: Sequence[Night]) -> dict[str, object]:
    """The times of all rows by night, for plots: "nights", and by row "median", "ratio" and "verdict" of each
    night, None where it has none.
    """
    rows = list(dict.fromkeys(row for night in nights for row in night.times))
    return {
        "nights": [
            {
                "date": night.date,
                "commit": night.commit,
                "tilelang": night.toolchain.get("tilelang", ""),
                "driver": night.toolchain.get("driver", ""),
                "exit_code": night.exit_code,
            }
            for night in nights
        ],
        "rows": {
            row: {
                which: [getattr(night.times.get(row), which, None) for night in nights]
                for which in ("median", "ratio", "verdict")
            }
            for row in rows
        },
    }
