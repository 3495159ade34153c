"""What changes from one collection of facts to another, for whoever asks whether it is safe to upgrade."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from tilecheck.codegen.changes import RowChange, bind, compare
from tilecheck.codegen.collection import Collection, Key
from tilecheck.codegen.facts import Facts
from tilecheck.codegen.store import DEFAULT
from tilecheck.codegen.table import WIDTH
from tilecheck.counting import many
from tilecheck.gist import toolchain_changes

NOT_SAFE = "Not safe: "
"""Begins the last sentence of a report, where rows get worse: which these are."""

SHOWN = 6
"""Changes of a row that are shown; the worst come first."""


@dataclass(frozen=True)
class Comparison:
    """Rows by what became of them.

    common: those that both have.  broken: that compile no more, with the reason.  mended: that compile now.
    failing: that compile with neither.  changed: whose code differs, worst first.
    rewritten: how many have the same code from another source.
    removed, added: that only one has.  toolchain: versions that differ, in words.
    """

    common: int
    broken: Mapping[Key, str]
    mended: tuple[Key, ...]
    failing: tuple[Key, ...]
    changed: tuple[RowChange[Key], ...]
    rewritten: int
    removed: tuple[Key, ...]
    added: tuple[Key, ...]
    toolchain: str

    @property
    def regressions(self) -> tuple[RowChange[Key], ...]:
        """Rows that compile, to worse code."""
        return tuple(change for change in self.changed if change.severity == "regression")

    @property
    def worse(self) -> int:
        """Rows that get worse."""
        return len(self.broken) + len(self.regressions)


def compared(old: Collection, new: Collection) -> Comparison:
    """What becomes of each row of `old` and `new`."""
    common = [key for key in old.rows if key in new.rows]
    before, broken, mended, failing = {}, {}, [], []
    after: dict[Key, Facts] = {}
    for key in common:
        was, now = old.rows[key], new.rows[key]
        if isinstance(was, str) and isinstance(now, str):
            failing.append(key)
        elif isinstance(was, str):
            mended.append(key)
        elif isinstance(now, str):
            broken[key] = now
        else:
            before[key], after[key] = was, now
    differing = compare(before, after)
    return Comparison(
        common=len(common),
        broken=broken,
        mended=tuple(mended),
        failing=tuple(failing),
        changed=tuple(change for change in differing if bind(change.changes)),
        rewritten=sum(not bind(change.changes) for change in differing),
        removed=tuple(key for key in old.rows if key not in new.rows),
        added=tuple(key for key in new.rows if key not in old.rows),
        toolchain=toolchain_changes(_toolchain(old), _toolchain(new)),
    )


def name_of(key: Key) -> str:
    """`matmul-tail-m-fp16-sm_80`, with the variant if it is not the default one."""
    kernel, case, variant, arch = key
    return "-".join([kernel.replace("_", "-"), case, *([] if variant == DEFAULT else [variant]), arch])


def report(found: Comparison, old: str, new: str, whole: bool) -> str:
    """A table, worst first, and an answer.  old, new: what is compared.  whole: every change of each row."""
    lines = [f"{old} -> {new}", *_wrapped(found.toolchain or "the same toolchain", 2), ""]
    lines += _table(found, whole)
    for label, keys in (("only in A", found.removed), ("only in B", found.added)):
        if keys:
            lines += [f"{label}: {many(len(keys), 'row')}", *_wrapped(", ".join(map(name_of, keys)), 2), ""]
    return "\n".join([*lines, *_wrapped(_answer(found), 0)])


def _table(found: Comparison, whole: bool) -> list[str]:
    """The rows under what became of them; those of one fate together."""
    fates: dict[tuple[str, str], list[Key]] = {}
    for key, error in found.broken.items():
        fates.setdefault(("worse", f"compiles no more: {error}"), []).append(key)
    for severity, label in (("regression", "worse"), ("improvement", "better"), ("neutral", "differs")):
        if label == "better" and found.mended:
            fates["better", "compiles now"] = list(found.mended)
        for change in found.changed:
            if change.severity == severity and (whole or label != "differs"):
                fates.setdefault((label, _words(change, whole)), []).append(change.row)
    lines = []
    for (label, words), keys in fates.items():
        first, *more = _wrapped(", ".join(map(name_of, keys)), 8)
        lines += [f"{label:8}{first.lstrip()}", *more, *_wrapped(words, 10)]
    return [*lines, ""] if lines else []


def _words(change: RowChange[Key], whole: bool) -> str:
    words = [each.words for each in change.changes]
    more = len(words) - SHOWN
    return ", ".join(words if whole or more <= 0 else [*words[:SHOWN], f"and {more} more"])


def _answer(found: Comparison) -> str:
    differ = sum(change.severity == "neutral" for change in found.changed)
    better = sum(change.severity == "improvement" for change in found.changed) + len(found.mended)
    same = found.common - found.worse - differ - better - len(found.failing)
    counts = {
        "worse": found.worse,
        "better": better,
        "only different": differ,
        "the same": same - found.rewritten,
        "the same from another CUDA source": found.rewritten,
        "compiling with neither": len(found.failing),
    }
    summary = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{many(found.common, 'row')}: {summary}. {_verdict(found)}"


def _verdict(found: Comparison) -> str:
    """The first of each kind is named, as this sentence may be all that somebody gets to see."""
    worse = (
        (list(found.broken), "compiles no more", "compile no more"),
        ([change.row for change in found.regressions], "gets worse", "get worse"),
    )
    said = [
        f"{name_of(keys[0])} {one}"
        if len(keys) == 1
        else f"{name_of(keys[0])} and {len(keys) - 1} more {several}"
        for keys, one, several in worse
        if keys
    ]
    return f"{NOT_SAFE}{', '.join(said)}." if said else "Safe, as far as the code tells."


def _wrapped(text: str, indent: int) -> list[str]:
    space = " " * indent
    return textwrap.wrap(text, WIDTH, initial_indent=space, subsequent_indent=space, break_on_hyphens=False)


def _toolchain(collection: Collection) -> Mapping[str, str]:
    """The versions, of all architectures together; those that differ among them are named with each."""
    merged: dict[str, set[str]] = {}
    for toolchain in collection.toolchains.values():
        for name, version in toolchain.items():
            merged.setdefault(name, set()).add(version)
    return {name: " and ".join(sorted(versions)) for name, versions in merged.items()}
