"""git, as far as commands here need it: what it says, and a commit checked out beside the working tree."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class GitError(ValueError):
    """git is not there, or fails; the text is one line."""


def git(folder: Path, *arguments: str) -> str:
    """What git prints in `folder`, without space around it; raises GitError where it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False, timeout=300
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:  # ValueError: a NUL in an argument
        raise GitError(f"git does not run: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise GitError(f"git {arguments[0]}: {said[-1]}")
    return done.stdout.strip()


def commit_named(folder: Path, ref: str) -> str:
    """The full name of a commit; raises GitError where there is none."""
    try:
        return git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    except GitError as error:
        if "exit code" not in str(error):
            raise
        raise GitError(f"there is no commit {ref!r} in this repository") from None


@contextmanager
def checked_out(ref: str, folder: Path) -> Iterator[Path]:
    """`folder` as of the commit `ref`, checked out beside the working tree and removed again."""
    top = Path(git(folder, "rev-parse", "--show-toplevel"))
    commit = commit_named(folder, ref)
    made = Path(tempfile.mkdtemp(prefix="tilecheck-"))
    try:
        git(top, "worktree", "add", "--detach", "--quiet", str(made / "tree"), commit)
        yield made / "tree" / folder.resolve().relative_to(top.resolve())
    finally:
        with suppress(GitError):
            git(top, "worktree", "remove", "--force", str(made / "tree"))
        shutil.rmtree(made, ignore_errors=True)
