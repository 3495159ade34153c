"""What the kernels' files name is read beside the night, which outlives what they do."""

from pathlib import Path

import pytest

from tests.harness.bisecting.conftest import KERNEL
from tilecheck.cli import main
from tilecheck.nightly.known import known
from tilecheck.project import Project, find_project


def project(folder: Path, text: str) -> Project:
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\ntilecheck_specs = its_kernels\n")
    (folder / "its_kernels.py").write_text(text)
    return find_project(folder)


def test_names_of_rows(tmp_path: Path) -> None:
    found = known(project(tmp_path, f"print('hello')\n{KERNEL}\nprint('done')\n"))
    assert found.tests == {"axpy-tail-fp16": ("axpy", "tail-fp16")}
    assert found.rows == ("tail-fp16",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os\nos._exit(0)\n", "ended with exit code 0, without an answer: it said nothing"),
        ("import os\nos.abort()\n", "ended with exit code -6, without an answer"),
        ("import sys\nsys.exit(0)\n", "tilecheck_specs: "),
        ("import nowhere\n", "nowhere"),
    ],
)
def test_file_that_ends_its_process_ends_the_night_in_one_line(
    tmp_path: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, text)
    given = ["--simulate", "--root", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main(["nightly", *given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tilecheck: ") and words in line
    assert not (tmp_path / "out").exists()


def test_file_that_hangs_ends_the_night_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tilecheck.nightly.known.SECONDS", 4.0)
    project(tmp_path, "import time\ntime.sleep(600)\n")
    assert main(["nightly", "--simulate", "--root", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "took longer than 4 s" in line
