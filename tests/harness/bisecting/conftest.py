"""A small repository with a kernel whose history has a fault in it."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

KERNEL = """
import tilelang.language as T

from tilecheck.spec import Case, KernelSpec


def program(N, dtype, block=1024):
    @T.prim_func
    def axpy(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype), Z: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as b:
            for i in T.Parallel(block):
                Z[b * block + i] = 2 * X[b * block + i] + Y[b * block + i]

    return axpy


def reference(X, Y):
    return 2 * X + Y


CASES = (Case("tail-fp16", {"N": 4099}, "float16", why="a tail"),)
SPEC = KernelSpec("axpy", program, reference, CASES)
"""

# By commit, what is replaced in the kernel: the fourth is wrong, the third and the fifth cannot be imported.
EDITS = [
    ("", ""),
    ("block=1024", "block=512"),
    ("import tilelang", "imp0rt tilelang"),
    ("= 2 * X", "= 3 * X"),
    ("reference(X", "reference X"),
    ('why="a tail"', 'why="a tail of three"'),
    ("threads=128", "threads=256"),
]
SUBJECTS = [
    "first",
    "smaller blocks",
    "does not import",
    "the fault",
    "does not import either",
    "words",
    "last",
]
BROKEN = (2, 4)


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        done = subprocess.run(
            ["git", "-C", str(self.root), *identity, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, subject: str, **files: str) -> str:
        for name, text in files.items():
            (self.root / name.replace("__", ".")).write_text(text)
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def new_repository(tmp_path: Path) -> Callable[[], Repository]:
    def make() -> Repository:
        folder = tmp_path / "repository"
        folder.mkdir()
        return Repository(folder)

    return make


@pytest.fixture
def repository(new_repository: Callable[[], Repository]) -> Repository:
    """One commit an edit; those that break a file are undone by the next."""
    made = new_repository()
    right = KERNEL
    ini = "[pytest]\npythonpath = .\ntilecheck_specs = specs\n"
    for number, ((old, new), subject) in enumerate(zip(EDITS, SUBJECTS, strict=True)):
        edited = right.replace(old, new) if old else right
        made.commit(subject, pytest__ini=ini, specs__py=edited)
        right = right if number in BROKEN else edited
    return made
