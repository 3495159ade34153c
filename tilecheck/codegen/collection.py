"""Facts of many rows: as one text, which `tilecheck facts --json` prints, and as files that are compared."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilecheck.codegen.batch import Outcome
from tilecheck.codegen.facts import Facts
from tilecheck.codegen.store import DEFAULT, StoreError, facts_from_json, read

Key = tuple[str, str, str, str]
"""Kernel, case id, variant and architecture."""

_NAMES = ("kernel", "case", "variant", "arch")


@dataclass(frozen=True)
class Collection:
    """Facts of rows, or in one line why a row does not compile.

    toolchains: by architecture, versions of what they were made with, by name.
    """

    toolchains: Mapping[str, Mapping[str, str]]
    rows: Mapping[Key, Facts | str]


def collected(outcomes: Sequence[Outcome], toolchain: Mapping[str, str]) -> Collection:
    """What compiling with one toolchain gave."""
    rows: dict[Key, Facts | str] = {}
    for outcome in outcomes:
        row = outcome.row
        key = (row.kernel, row.case, row.schedule or DEFAULT, row.arch)
        rows[key] = outcome.error if outcome.facts is None else outcome.facts
    return Collection({outcome.row.arch: toolchain for outcome in outcomes}, rows)


def as_json(outcomes: Sequence[Outcome], toolchain: Mapping[str, str]) -> str:
    """One object: the toolchain, and a list of rows, each with its `facts` or its `error`."""
    rows = [
        dict(zip(_NAMES, key, strict=True))
        | ({"error": value} if isinstance(value, str) else {"facts": value.as_json()})
        for key, value in collected(outcomes, toolchain).rows.items()
    ]
    return json.dumps({"toolchain": dict(toolchain), "rows": rows}, indent=1)


def parse(text: str, place: str) -> Collection:
    """What `as_json` made `text` of; ValueError, in one line that starts with `place`, for any other text."""
    try:
        content = json.loads(text)
        toolchain = {str(name): str(version) for name, version in content["toolchain"].items()}
        rows = {_key(row): _value(row, place) for row in content["rows"]}
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}: line {error.lineno}: no JSON: {error.msg}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{place} is not what `tilecheck facts --json` prints ({error!r})") from error
    return Collection({arch: toolchain for *_, arch in rows}, rows)


def stored(path: Path) -> Collection:
    """The facts of a file, of either form, or of all files of a folder; ValueError, in one line."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path}: there is no file of facts, as sm_90a.json, in this folder")
    toolchains: dict[str, Mapping[str, str]] = {}
    rows: dict[Key, Facts | str] = {}
    for file in files:
        part = _file(file)
        toolchains |= part.toolchains
        rows |= part.rows
    return Collection(toolchains, rows)


def _file(path: Path) -> Collection:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error.strerror if isinstance(error, OSError) else error}") from error
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if content is None and path.suffix != ".json":
        raise ValueError(f"{path} is no file of facts")
    if isinstance(content, dict) and "rows" in content:
        return parse(text, str(path))
    arch = content.get("arch") if isinstance(content, dict) else None
    try:
        found = read(path, arch if isinstance(arch, str) else path.stem)
    except StoreError as error:
        raise ValueError(f"{path} is no file of facts: {error.what}") from error
    if found is None:
        raise ValueError(f"{path}: no such file")
    return Collection(
        {found.arch: found.toolchain}, {(*key, found.arch): facts for key, facts in found.facts.items()}
    )


def _key(row: Any) -> Key:
    kernel, case, variant, arch = (str(row[name]) for name in _NAMES)
    return kernel, case, variant, arch


def _value(row: Any, place: str) -> Facts | str:
    if "error" in row:
        return str(row["error"])
    return facts_from_json(row["facts"], f"{place}: {'-'.join(_key(row))}")
