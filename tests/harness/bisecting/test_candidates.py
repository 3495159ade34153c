"""Commits between two, in a real repository; releases between two, by a pip that is made."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tilecheck.bisecting.candidates import (
    BisectError,
    Candidate,
    commits_between,
    released,
    versions_between,
)
from tilecheck.git import GitError


def subjects(found: Sequence[Candidate]) -> list[str]:
    return [str(each).partition(" ")[2] for each in found]


@pytest.fixture
def line(new_repository: Callable[[], Any]) -> Any:
    made = new_repository()
    for name in "abc":
        made.commit(name)
    return made


def test_commits_from_good_to_bad_with_both_ends(line: Any) -> None:
    found = commits_between(line.root, "HEAD~2", "HEAD")
    assert subjects(found) == ["a", "b", "c"]
    assert found[-1].commit == line.git("rev-parse", "HEAD")


def test_merged_branch_is_one_step(line: Any) -> None:
    line.git("checkout", "--quiet", "-b", "side", "HEAD~1")
    line.commit("side 1")
    line.commit("side 2")
    line.git("checkout", "--quiet", "main")
    line.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    assert subjects(commits_between(line.root, "main~1", "main")) == ["c", "merge"]
    # From a commit of the branch itself there is no other way than along it.
    assert subjects(commits_between(line.root, "side~1", "main")) == ["side 1", "side 2", "merge"]


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("HEAD", "HEAD", "are one commit"),
        ("HEAD", "HEAD~1", "HEAD is no ancestor of HEAD~1"),
    ],
)
def test_ends_that_make_no_line(line: Any, good: str, bad: str, words: str) -> None:
    with pytest.raises(BisectError, match=words):
        commits_between(line.root, good, bad)


def test_an_end_that_is_no_commit(line: Any) -> None:
    with pytest.raises(GitError, match="there is no commit 'nowhere' in this repository"):
        commits_between(line.root, "nowhere", "HEAD")


KNOWN = ["0.1.17", "0.1.16", "0.1.15.post1", "0.1.15", "0.1.16rc1", "0.1.14", "odd"]


def test_releases_between() -> None:
    assert versions_between("0.1.14", "0.1.16", KNOWN) == ["0.1.14", "0.1.15", "0.1.15.post1", "0.1.16"]
    assert versions_between("0.1.16", "0.1.17.dev2", KNOWN) == ["0.1.16", "0.1.17.dev2"]


@pytest.mark.parametrize(("first", "last"), [("0.1.15", "0.1.14"), ("0.1.15", "0.1.15"), ("new", "0.1.15")])
def test_versions_that_make_no_line(first: str, last: str) -> None:
    with pytest.raises(BisectError):
        versions_between(first, last, KNOWN)


def test_releases_are_those_that_pip_lists() -> None:
    text = "tilelang (0.1.15)\nAvailable versions: 0.1.15, 0.1.14\n  INSTALLED: 0.1.15\n"
    assert released(lambda arguments: (0, text)) == ["0.1.15", "0.1.14"]
    with pytest.raises(BisectError, match="pip finds no releases"):
        released(lambda arguments: (1, ""))
