"""Each failure once: which kernel, which case, since when, what changed since it was right, how to repeat it.

"Since it was right" is the last night on which the stage got through and did not report the row: nights on
which that stage hung or was refused say nothing of it, nor do those whose arguments for pytest, if they are
not tonight's, may have left it out.
"""

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from tilecheck.codegen.changes import changes, in_words
from tilecheck.codegen.collection import Collection as FactsOf
from tilecheck.codegen.facts import Facts
from tilecheck.codegen.store import DEFAULT
from tilecheck.counting import many
from tilecheck.gist import toolchain_changes
from tilecheck.git import GitError, git
from tilecheck.nightly.drift import Drift
from tilecheck.nightly.night import Failure, Night

Kind = Literal["wrong", "slower", "unsettled", "stale", "code", "other"]

_BY_VERDICT: dict[str, Kind] = {"slower": "slower", "inconclusive": "unsettled", "faster": "stale"}

_COMPILERS = ("tilelang", "apache-tvm-ffi", "z3-solver", "nvcc", "ptxas")
"""What of the toolchain makes code."""

_ORDER: tuple[Kind, ...] = ("wrong", "slower", "code", "other", "unsettled", "stale")

_LOADED = Callable[[str], FactsOf | None]


@dataclass(frozen=True)
class Finding:
    """One kernel and case that fails, or one test that is about none.

    name: `kernel, case`, or the test.  tests: by stage, how many fail.
    since: the first night of those on end on which it failed so.  first_seed: the seed of that night.
    nights: how many on end.  changed: what differs from the last good night, a line each.
    bisect: a command that finds the commit or the release; "" where there is nothing to find.
    """

    kind: Kind
    name: str
    kernel: str
    case: str
    words: str
    tests: Mapping[str, int]
    since: str
    first_seed: int
    nights: int
    changed: tuple[str, ...]
    repeat: str
    bisect: str = ""

    def lines(self) -> list[str]:
        """For people: the first says what, the others are details."""
        where = ", ".join(f"{stage} ({many(count, 'test')})" for stage, count in self.tests.items())
        again = "new tonight" if self.nights == 1 else f"for {self.nights} nights, since {self.since}"
        found = [
            f"{self.name}: {_SAID[self.kind]}: {self.words}",
            f"in {where}; {again}; first bad seed {self.first_seed}",
            *self.changed,
            f"repeat: {self.repeat}",
        ]
        return [*found, f"find the change: {self.bisect}"] if self.bisect else found


_SAID: dict[Kind, str] = {
    "wrong": "wrong",
    "slower": "slower",
    "unsettled": "its time is inconclusive",
    "stale": "faster than its stored time, which is stale",
    "code": "its code is not what it was or should be",
    "other": "fails",
}


def triage(tonight: Night, before: Sequence[Night], facts: _LOADED, root: Path) -> list[Finding]:
    """What failed tonight, the worst first.

    before: the nights of the same GPU model, the oldest first.  facts: what kernels compiled to, by the name
    that a night has for it.  root: a folder of the repository, for the commits between two nights.
    """
    groups: dict[tuple[str, ...], list[Failure]] = {}
    for failure in tonight.failures:
        kind = _kind(failure, tonight)
        # A kernel that is wrong in a hundred schedules is one finding; that it is slower is another.
        key = (kind, failure.kernel, failure.case) if failure.kernel else (kind, failure.test)
        groups.setdefault(key, []).append(failure)
    found = [_finding(group, tonight, before, facts, root) for group in groups.values()]
    return sorted(found, key=lambda finding: _ORDER.index(finding.kind))


def _kind(failure: Failure, night: Night) -> Kind:
    if not failure.kernel:
        return "other"
    if failure.stage == "codegen":
        return "code"
    if failure.stage == "latency":
        time = night.times.get(row_of(failure))
        if time is not None and time.verdict in _BY_VERDICT:
            return _BY_VERDICT[time.verdict]
        if time is not None:
            return "other"  # it has no stored time
    return "wrong"


def row_of(failure: Failure) -> str:
    """As latency rows are named."""
    return f"{failure.kernel.replace('_', '-')}-{failure.case}"


def _finding(
    group: Sequence[Failure], tonight: Night, before: Sequence[Night], facts: _LOADED, root: Path
) -> Finding:
    first = min(group, key=lambda failure: len(failure.test))
    kind = _kind(first, tonight)
    streak, good = _streak(group, kind, tonight, before)
    tests = {stage: len(list(part)) for stage, part in groupby(group, key=lambda failure: failure.stage)}
    changed = [] if good is None else [*_changed(good, tonight, root)]
    code = _code(first, good, tonight, facts)
    if kind == "slower":
        changed.append(_blame(code, good, tonight))
    elif code is not None and code != "":
        changed.append(f"its code changed: {code}")
    if good is None:
        changed.insert(0, "no night is on record on which it is known to have been right")
    return Finding(
        kind=kind,
        name=f"{first.kernel}, {first.case}" if first.kernel else first.test,
        kernel=first.kernel,
        case=first.case,
        words=first.words,
        tests=tests,
        since=streak[0].date,
        first_seed=streak[0].seed,
        nights=len(streak),
        changed=tuple(changed),
        repeat=first.repeat,
        bisect=_bisect(first, kind, good, tonight) if good is not None else "",
    )


def _streak(
    group: Sequence[Failure], kind: Kind, tonight: Night, before: Sequence[Night]
) -> tuple[list[Night], Night | None]:
    """The nights on end on which it failed so, tonight the last; and the last on which it did not fail."""
    stages = {failure.stage for failure in group}
    row = (group[0].kernel, group[0].case)
    tests = {failure.test for failure in group}
    streak, on_end = [tonight], True
    for night in reversed(before):
        kinds = {
            _kind(failure, night)
            for failure in night.failures
            if failure.stage in stages
            and ((failure.kernel, failure.case) == row if row[0] else failure.test in tests)
        }
        if kinds:
            on_end = on_end and kind in kinds
            if on_end:
                streak.insert(0, night)
        elif all(night.answered(stage, row_of(group[0]), tonight.arguments) for stage in stages):
            return streak, night
    return streak, None


def _changed(good: Night, tonight: Night, root: Path) -> list[str]:
    lines = []
    if good.commit != tonight.commit:
        lines.append(f"commit {_short(good.commit)} -> {_short(tonight.commit)}")
        lines += [f"  {line}" for line in _log(root, good.commit, tonight.commit)]
    elif not good.commit:
        lines.append("commit unknown, then and now")
    if good.dirty:
        lines.append("and the working tree had changes then that are in no commit")
    if tonight.dirty:
        lines.append("and the working tree has changes that are in no commit")
    if versions := toolchain_changes(good.toolchain, tonight.toolchain):
        lines.append(versions)
    when = f"right on {good.date}"
    if not lines:
        seeds = f"{good.seed} -> {tonight.seed}"
        return [f"{when}; since then only the seed changed, {seeds}: neither commit nor versions did"]
    return [f"{when}; changed since then:", *(f"  {line}" for line in lines)]


_MOST = 5
"""Commits that are shown."""


def _log(root: Path, good: str, bad: str) -> list[str]:
    """The commits between two, the newest first; nothing where git does not know them."""
    if not good or not bad:
        return []
    try:
        between = ("--end-of-options", f"{good}..{bad}")
        lines = git(root, "log", "--oneline", "--no-decorate", *between).splitlines()
    except GitError:
        return []
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [*lines[:_MOST], *more]


def _short(commit: str) -> str:
    return commit[:10] or "unknown"


def _code(failure: Failure, good: Night | None, tonight: Night, facts: _LOADED) -> str | None:
    """What changed in its code since then; "": nothing; None: unknown."""
    if good is None or not failure.kernel:
        return None
    old, new = (_facts_of(facts(night.facts), failure, tonight.arch) for night in (good, tonight))
    if old is None or new is None:
        return None
    found = changes(old, new)
    return "" if old.sass_hash == new.sass_hash else in_words(found)


def _facts_of(found: FactsOf | None, failure: Failure, arch: str) -> Facts | None:
    value = found.rows.get((failure.kernel, failure.case, DEFAULT, arch)) if found else None
    return value if isinstance(value, Facts) else None


def _blame(code: str | None, good: Night | None, tonight: Night) -> str:
    """What a slower row is slower by, as far as its code tells."""
    if code is None or good is None:
        return "whether its code changed is not known: there are no facts of it, then or now"
    if code == "":
        old, new = (night.toolchain.get("driver", "unknown") for night in (good, tonight))
        driver = old if old == new else f"{old} -> {new}"
        return f"same code (SASS), slower: the machine or the driver ({driver})"
    compiler = any(good.toolchain.get(name) != tonight.toolchain.get(name) for name in _COMPILERS)
    ours = good.commit != tonight.commit or not good.commit or good.dirty or tonight.dirty
    who = {(True, True): "the compiler or us", (True, False): "the compiler", (False, True): "us"}
    return (
        f"other code (SASS): {who.get((compiler, ours), 'and neither commit nor compiler changed')}: {code}"
    )


def _bisect(failure: Failure, kind: Kind, good: Night, tonight: Night) -> str:
    tilelang = [night.toolchain.get("tilelang", "") for night in (good, tonight)]
    refs = [night.commit for night in (good, tonight)]
    by = {"wrong": "correctness", "slower": "latency", "code": "facts"}.get(kind)
    if by is None or not failure.kernel or (refs[0] == refs[1] and tilelang[0] == tilelang[1]):
        return ""
    words = ["tilecheck", "bisect", failure.kernel, "--case", failure.case, "--by", by]
    if all(refs) and refs[0] != refs[1]:
        words += ["--good", _short(refs[0]), "--bad", _short(refs[1])]
    if all(tilelang) and tilelang[0] != tilelang[1]:
        words += ["--tilelang", f"{tilelang[0]}..{tilelang[1]}"]
    if kind == "wrong":
        words += ["--seed", str(tonight.seed)]
    return shlex.join(words)


def drift_lines(found: Sequence[Drift], ratios: Sequence[Drift], with_vendor: Collection[str]) -> list[str]:
    """Rows that slowly become slower.

    ratios: the drifts of times over the vendor's.  with_vendor: the rows that have these.
    """
    also = {drift.row for drift in ratios}
    return [f"{drift.row} becomes slower: {drift}; {_whose(drift.row, also, with_vendor)}" for drift in found]


def _whose(row: str, also: Collection[str], with_vendor: Collection[str]) -> str:
    if row in also:
        return "so does its time over the vendor's: it is the kernel"
    if row in with_vendor:
        return "its time over the vendor's does not show it: rather the machine"
    return "there is no vendor's time to tell the kernel from the machine"
