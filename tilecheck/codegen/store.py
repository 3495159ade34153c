"""Stored facts: what the code of each kernel, case and variant was the last time, one file an architecture.

A file holds the toolchain that its facts are from, since they compare exactly under that one alone, and below
it kernel -> case -> variant -> facts, sorted. Its layout is for reviews: sizes are a line of a row,
instructions another, and hashes, which say least, the last.

Writing puts rows into the file that is there, under a lock, and replaces it in one step. A file that cannot
be read whole is never written to: what it holds may be the only copy.
"""

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from filelock import FileLock

from tilecheck.codegen.facts import Facts
from tilecheck.files import replace, shown
from tilecheck.strictjson import Pairs, WrongError, brief, loaded

SCHEMA = 1
"""Number of the form of the files; another one is refused."""

DEFAULT = "default"
"""Variant of the default schedule."""

Key = tuple[str, str, str]
"""Kernel, case id and variant."""

_FIELDS = {f.name: f.type for f in dataclasses.fields(Facts)}
_SIZES = tuple(name for name, kind in _FIELDS.items() if kind is int and name != "cubin_bytes")
_LINES = (("schedule",), _SIZES, ("instructions",), ("cubin_bytes", "source_hash", "sass_hash"))


class StoreError(ValueError):
    """A file of stored facts that cannot be used; the text is one line: file, place, what to do.

    what: only what is wrong, for whoever has not come to it as to a file of the suite's.
    """

    def __init__(self, text: str, what: str = "") -> None:
        super().__init__(text)
        self.what = what or text


@dataclass(frozen=True)
class Stored:
    """Facts of one architecture, and the versions of the toolchain that they are from, by name."""

    arch: str
    toolchain: Mapping[str, str]
    facts: Mapping[Key, Facts]

    def __post_init__(self) -> None:
        object.__setattr__(self, "toolchain", MappingProxyType(dict(self.toolchain)))
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))


def path_of(baselines: Path, arch: str) -> Path:
    """The file of an architecture, in the folder of all that is stored."""
    return baselines / "codegen" / f"{arch}.json"


def stored_arches(baselines: Path) -> list[str]:
    """Names of the architectures that there are files of, sorted."""
    return sorted(path.stem for path in (baselines / "codegen").glob("*.json"))


def read(path: Path, arch: str) -> Stored | None:
    """What is stored for `arch` in `path`; None: there is no such file. Raises StoreError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{shown(path)}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, f"byte {error.start} is no UTF-8") from error
    return parse(text, path, arch)


def parse(text: str, path: Path, arch: str) -> Stored:
    """What `text`, the content of `path`, stores for `arch`; raises StoreError."""
    try:
        return _stored(loaded(text, Pairs), arch)
    except WrongError as wrong:
        raise _unusable(path, str(wrong)) from wrong


def update(
    path: Path,
    arch: str,
    toolchain: Mapping[str, str],
    facts: Mapping[Key, Facts],
    drop: Collection[Key] = (),
    whole: bool = False,
) -> None:
    """Puts `facts` into the file and takes the rows of `drop` out; the other rows stay as they are.

    whole: `facts` are all that the file shall hold, under whichever toolchain; else, if it holds other rows
    from another toolchain, it is refused.
    Raises StoreError, and leaves the file alone, where that cannot be read or written.
    """
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{path.name}.lock")):
            old = read(path, arch)
            kept = {} if old is None or whole else {k: f for k, f in old.facts.items() if k not in drop}
            if old is not None and kept.keys() - facts.keys() and old.toolchain != dict(toolchain):
                raise StoreError(
                    f"{shown(path)}: other rows are from another toolchain; record all of {arch} together"
                )
            replace(path, dump(Stored(arch, toolchain, {**kept, **facts})))
    except OSError as error:
        raise StoreError(f"{shown(path)}: not written: {error.strerror or error}") from error


def dump(stored: Stored) -> str:
    """The content of a file, as JSON laid out for reviews."""
    kernels: dict[str, dict[str, dict[str, str]]] = {}
    for (kernel, case, variant), facts in sorted(stored.facts.items()):
        kernels.setdefault(kernel, {}).setdefault(case, {})[variant] = _row(facts)
    head = {
        "schema": json.dumps(SCHEMA),
        "arch": json.dumps(stored.arch),
        "toolchain": _braced({name: json.dumps(v) for name, v in sorted(stored.toolchain.items())}, 2),
    }
    tree = _braced(
        {
            kernel: _braced({case: _braced(variants, 6) for case, variants in cases.items()}, 4)
            for kernel, cases in kernels.items()
        },
        2,
    )
    return _braced({**head, "facts": tree}, 0) + "\n"


def facts_from_json(value: Any, place: str = "facts") -> Facts:
    """The facts that `Facts.as_json` made `value` of; raises ValueError that names the place in it."""
    row = _object(value, place)
    _exactly(row, _FIELDS, place)
    for name, kind in _FIELDS.items():
        if kind is int:
            _number(row[name], f"{place}: {name}")
        elif kind is str:
            _text(row[name], f"{place}: {name}")
    counts = _object(row["instructions"], f"{place}: instructions")
    for family, count in counts.items():
        _number(count, f"{place}: instructions: {family}")
    return Facts(**{**row, "instructions": counts})


# Layout


def _row(facts: Facts) -> str:
    values = facts.as_json()
    values["instructions"] = dict(sorted(facts.instructions.items()))
    lines = (", ".join(f"{json.dumps(n)}: {json.dumps(values[n])}" for n in names) for names in _LINES)
    return "{\n" + ",\n".join(f"{' ' * 10}{line}" for line in lines) + f"\n{' ' * 8}}}"


def _braced(members: Mapping[str, str], indent: int) -> str:
    """An object with a member a line; these are JSON already.  indent: of its closing brace."""
    if not members:
        return "{}"
    lines = (f"{' ' * (indent + 2)}{json.dumps(name)}: {text}" for name, text in members.items())
    return "{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}"


# Reading


def _stored(content: Any, arch: str) -> Stored:
    top = _object(content, "the whole")
    if "schema" in top and top["schema"] != SCHEMA:
        raise WrongError(f"schema is {top['schema']!r}, and this tilecheck reads {SCHEMA}")
    _exactly(top, ("schema", "arch", "toolchain", "facts"), "the whole")
    if top["arch"] != arch:
        raise WrongError(f"arch is {top['arch']!r}, and the file is that of {arch}")
    toolchain = _object(top["toolchain"], "toolchain")
    for name, version in toolchain.items():
        _text(version, f"toolchain: {name}")
    return Stored(arch, toolchain, dict(_rows(top["facts"])))


def _rows(content: Any) -> Iterator[tuple[Key, Facts]]:
    for kernel, cases in _object(content, "facts").items():
        for case, variants in _object(cases, f"facts: {kernel}").items():
            for variant, row in _object(variants, f"facts: {kernel}: {case}").items():
                yield (kernel, case, variant), facts_from_json(row, f"facts: {kernel}: {case}: {variant}")


def _object(value: Any, place: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if not isinstance(value, Pairs):
        raise WrongError(f"{place} is {brief(value)}, no object")
    names = [name for name, _ in value]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise WrongError(f"{place}: {double!r} occurs twice")
    return dict(value)


def _exactly(value: Mapping[str, Any], names: Collection[str], place: str) -> None:
    if missing := [name for name in names if name not in value]:
        raise WrongError(f"{place}: {', '.join(missing)} missing")
    if unknown := [name for name in value if name not in names]:
        raise WrongError(f"{place}: {', '.join(map(repr, unknown))} unknown; there are {', '.join(names)}")


def _number(value: Any, place: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise WrongError(f"{place} is {brief(value)}, no integer >= 0")


def _text(value: Any, place: str) -> None:
    if not isinstance(value, str):
        raise WrongError(f"{place} is {brief(value)}, no string")


def _unusable(path: Path, what: str) -> StoreError:
    name = shown(path)
    return StoreError(
        f"{name}: {what}; nothing was written to it: mend it, take it back with "
        f"`git checkout -- {name}`, or remove it and record its rows anew",
        what,
    )
