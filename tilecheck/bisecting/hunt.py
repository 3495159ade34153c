"""The hunt: both ends are asked first, then those between them, until one is left."""

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tilecheck.bisecting.candidates import BisectError, Candidate
from tilecheck.bisecting.judging import Judge
from tilecheck.bisecting.probe import UNASKED, Question, Reply, ask
from tilecheck.bisecting.search import Answer, first_bad
from tilecheck.environment import version
from tilecheck.git import GitError, checked_out
from tilecheck.versions import NoEnvironment, environment_with, variables_of

Say = Callable[[str], None]


class Asked(Protocol):
    """Asks candidates: the ends first, then others."""

    def ends(self, good: Candidate, bad: Candidate) -> str:
        """What is bad about the bad end; raises BisectError where the ends are not what they should be."""

    def answer(self, candidate: Candidate) -> tuple[Answer, str]:
        """With what is to be said of it."""


@dataclass(frozen=True)
class Verdict:
    """suspects: the first bad one; or several, if those before the last could not be asked.
    words: what is bad about the last of them.  before: the last good one.
    asked: how many were, ends included.
    """

    suspects: tuple[Candidate, ...]
    words: str
    before: Candidate
    asked: int


def hunt(line: Sequence[Candidate], asked: Asked, say: Say) -> Verdict:
    """The first bad one of a line of candidates.  say: told of each as it is asked."""
    words = {len(line) - 1: asked.ends(line[0], line[-1])}
    say(f"{line[0]}: good")
    say(f"{line[-1]}: bad: {words[len(line) - 1]}")

    def one(number: int) -> Answer:
        answer, said = asked.answer(line[number])
        say(f"{line[number]}: {'skipped' if answer == 'skip' else answer}{f': {said}' if said else ''}")
        words[number] = said
        return answer

    found = first_bad(len(line), one)
    last = found.suspects[-1]
    return Verdict(
        suspects=tuple(line[number] for number in found.suspects),
        words=words[last],
        before=line[found.suspects[0] - 1],
        asked=found.asked + 2,
    )


class Places:
    """Where a candidate's kernels and its Python are.  root: the project's folder, in the working tree."""

    def __init__(self, root: Path, say: Say) -> None:
        self.root, self._say = root, say

    def python(self, candidate: Candidate) -> Path:
        """Raises NoEnvironment."""
        if candidate.tilelang in ("", version("tilelang")):
            return Path(sys.executable)
        return environment_with(candidate.tilelang, self._say).python

    def variables(self, candidate: Candidate, folder: Path) -> dict[str, str]:
        # TileLang's own cache of compiled kernels must not hand one version's to another.
        cache = folder / f"kernels-{candidate.tilelang or 'installed'}"
        return {**variables_of(self.python(candidate)), "TILELANG_CACHE_DIR": str(cache)}


class ByProbe:
    """Asks whether a candidate is right, or what it compiles to.  seconds: that one may take."""

    def __init__(self, question: Question, places: Places, seconds: float) -> None:
        self._question, self._places, self._seconds = question, places, seconds
        self._judge: Judge | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="tilecheck-bisect-")

    def ends(self, good: Candidate, bad: Candidate) -> str:
        first = self.reply(good)
        if first.kind in UNASKED:
            raise BisectError(f"the good end cannot be asked: {first.words}")
        if first.kind != "right":
            raise BisectError(f"the good end is not good: {first.kind}: {first.words}")
        judge = Judge(first, self.reply(bad))
        self._judge = judge
        return judge.words(judge.bad)

    def answer(self, candidate: Candidate) -> tuple[Answer, str]:
        assert self._judge is not None, "the ends come first"
        reply = self.reply(candidate)
        return self._judge.answer(reply), self._judge.words(reply)

    def reply(self, candidate: Candidate) -> Reply:
        """Of one candidate; one whose TileLang cannot be had has none."""
        try:
            python = self._places.python(candidate)
            variables = self._places.variables(candidate, Path(self._folder.name))
            if not candidate.commit:
                return ask(self._question, self._places.root, python, variables, self._seconds)
            with checked_out(candidate.commit, self._places.root) as folder:
                return ask(self._question, folder, python, variables, self._seconds)
        except NoEnvironment as error:
            return Reply("no answer", str(error))
        except GitError as error:
            raise BisectError(str(error)) from error


def axis(commits: Sequence[Candidate], versions: Sequence[str], asked: Asked, say: Say) -> list[Candidate]:
    """The one line to search, where both commit and TileLang may be at fault.

    The newest commit under the oldest TileLang decides: if it is good, the release is at fault, else a
    commit.
    commits: from the good to the bad one; none: the working tree.  versions: the same; none: the installed
    one.
    """
    if not versions:
        return list(commits)
    if not commits:
        return [Candidate(tilelang=version, words=f"TileLang {version}") for version in versions]
    first, last = commits[0], commits[-1]
    say(f"{first} under TileLang {versions[0]} against {last} under TileLang {versions[-1]}")
    asked.ends(replace(first, tilelang=versions[0]), replace(last, tilelang=versions[-1]))
    answer, words = asked.answer(replace(last, tilelang=versions[0]))
    if answer == "skip":
        raise BisectError(
            f"commit or release? {last} under TileLang {versions[0]} would tell, and cannot be asked: {words}"
        )
    if answer == "good":
        say(f"{last} is good under TileLang {versions[0]}: it is the release")
        return [
            replace(last, tilelang=version, words=f"TileLang {version}, at commit {last.commit[:10]}")
            for version in versions
        ]
    say(f"{last} is bad under TileLang {versions[0]}, too: it is a commit")
    return [replace(commit, tilelang=versions[0]) for commit in commits]
