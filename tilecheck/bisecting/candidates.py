"""The line of candidates between a good and a bad end: commits, or releases of TileLang."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from tilecheck.askpip import Pip, run_pip
from tilecheck.git import commit_named, git


class BisectError(ValueError):
    """There is nothing to search in, or it cannot be searched; the text is one line."""


@dataclass(frozen=True)
class Candidate:
    """commit: "" for the working tree.  tilelang: a version; "" for the installed one.  words: for people."""

    commit: str = ""
    tilelang: str = ""
    words: str = ""

    def __str__(self) -> str:
        return self.words or self.commit[:10] or "working tree"


def commits_between(root: Path, good: str, bad: str) -> list[Candidate]:
    """The commits from `good` to `bad`, both among them, the oldest first.

    Along first parents if `good` is on that line, so that a merged branch is one step; else all on the way.
    Raises BisectError where `good` is no ancestor of `bad`, GitError where there is no such commit.
    """
    first, last = commit_named(root, good), commit_named(root, bad)
    if first == last:
        raise BisectError(f"{good} and {bad} are one commit, {first[:10]}")
    form = ("--format=%H %s", "--no-commit-header")
    base = git(root, "rev-parse", f"{first}^{{commit}}")
    lineage = git(root, "rev-list", "--first-parent", last).splitlines()
    path = ("--first-parent",) if base in lineage else ("--ancestry-path", "--topo-order")
    lines = git(root, "rev-list", *form, *path, "--reverse", f"{first}..{last}").splitlines()
    if not lines:
        raise BisectError(f"{good} is no ancestor of {bad}: there is no line of commits between them")
    start = git(root, "rev-list", *form, "--max-count=1", first)
    return [_commit(line) for line in (start, *lines)]


def _commit(line: str) -> Candidate:
    name, _, subject = line.partition(" ")
    return Candidate(commit=name, words=f"{name[:10]} {subject}")


def versions_between(first: str, last: str, known: Iterable[str]) -> list[str]:
    """The releases from `first` to `last`, both among them, the oldest first; pre-releases are left out but
    for these two. Raises BisectError.
    """
    low, high = _version(first), _version(last)
    if low >= high:
        raise BisectError(f"--tilelang {first}..{last}: the good one has to be the older one")
    between = {}
    for text in known:
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        if low < version < high and not version.is_prerelease:
            between[version] = text
    return [first, *(between[version] for version in sorted(between)), last]


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise BisectError(f"{text!r} is no version of TileLang, as 0.1.14 is") from None


def released(pip: Pip = run_pip) -> Sequence[str]:
    """The releases of TileLang that pip finds for this Python; BisectError where it finds none."""
    code, text = pip(["index", "versions", "tilelang", "--disable-pip-version-check", "--retries", "1"])
    marker = "Available versions:"
    found = [line.partition(marker)[2] for line in text.splitlines() if line.strip().startswith(marker)]
    if code != 0 or not found:
        raise BisectError("pip finds no releases of TileLang; is the package index within reach?")
    return [version.strip() for version in found[0].split(",")]
