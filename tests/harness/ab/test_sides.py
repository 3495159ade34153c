"""The processes of two sides, and what they are checked out from; without a GPU."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilecheck.ab.bench import serve
from tilecheck.ab.sides import RowError, Side, SideError, side
from tilecheck.cli import main
from tilecheck.git import GitError, checked_out

BENCH = """
import sys
from tilecheck.ab.bench import serve

class Bench:
    def rows(self): return ["a-one"]
    def prepare(self, rows): return {}
    def check(self, row): return None
    def time(self, row, method):
        if row == "dies": raise SystemExit(7)
        if row == "throws": raise RuntimeError("CUDA out of memory")
        print("noise of a library", file=sys.stderr)
        return {"seconds": 0.5, "clock_mhz": 1.0, "method": "events"}

serve(Bench, sys.stdin, sys.stdout)
"""


def side_of(script: str, tmp_path: Path) -> Side:
    path = tmp_path / "bench.py"
    path.write_text(script)
    made = Side("HEAD", Path(sys.executable), tmp_path)
    made._command = [sys.executable, str(path)]
    return made


def test_requests_and_answers(tmp_path: Path) -> None:
    with side_of(BENCH, tmp_path) as made:
        assert made.rows() == ["a-one"]
        assert made.prepare(["a-one"]) == {}
        assert made.check("a-one") is None
        assert made.time("a-one")["seconds"] == 0.5


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    with (
        side_of(BENCH, tmp_path) as made,
        pytest.raises(SideError, match=r"^HEAD: its process ended with exit code 7$"),
    ):
        made.time("dies")


def test_a_row_that_raises_is_told_and_the_next_is_timed(tmp_path: Path) -> None:
    with side_of(BENCH, tmp_path) as made:
        with pytest.raises(RowError, match=r"^HEAD: RuntimeError: CUDA out of memory$"):
            made.time("throws")
        assert made.time("a-one")["seconds"] == 0.5


def test_an_exception_is_an_answer() -> None:
    def broken() -> Any:
        raise ValueError("no kernels\nat all")

    answers = io.StringIO()
    serve(broken, ['{"do": "rows"}'], answers)
    assert json.loads(answers.getvalue()) == {"error": "ValueError: no kernels"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose file `sub/kernel.py` says 1 in its first commit, and 2 in the working tree."""

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init", "--quiet")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "kernel.py").write_text("1")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    (tmp_path / "sub" / "kernel.py").write_text("2")
    return tmp_path


def test_a_commit_is_checked_out_beside_the_working_tree(repository: Path) -> None:
    with checked_out("HEAD", repository / "sub") as folder:
        assert (folder / "kernel.py").read_text() == "1"
        assert (repository / "sub" / "kernel.py").read_text() == "2"
    assert not folder.exists()
    listed = subprocess.run(
        ["git", "-C", str(repository), "worktree", "list"], capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 1


def test_no_such_commit(repository: Path) -> None:
    with (
        pytest.raises(GitError, match=r"^there is no commit 'nowhere' in this repository$"),
        side("nowhere", repository, print),
    ):
        pass


def test_the_command_wants_a_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tilecheck import environment

    monkeypatch.setattr(environment, "why_no_gpu", lambda machine: "no NVIDIA driver")
    root = str(Path(__file__).parents[3])
    assert main(["ab", "HEAD", "--root", root]) == 2
    assert capsys.readouterr().err == (
        "tilecheck: times want a GPU: no NVIDIA driver; diff-codegen compares two versions without one\n"
    )


def test_installed_is_the_working_tree(repository: Path) -> None:
    with side("installed", repository / "sub", print) as made:
        assert made.label == "working tree"
        assert made._root == repository / "sub"
