"""Files are whole or as they were, and what is beside them in their folder stays alone."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilecheck import files


@pytest.fixture
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("write", [files.replace, files.create])
def test_a_new_file_is_as_any_other(
    tmp_path: Path, usual_mask: None, write: Callable[[Path, str], None]
) -> None:
    path = tmp_path / "results" / "a.json"
    write(path, "µ\r\n\n")
    assert path.read_bytes() == "µ\r\n\n".encode() and mode(path) == 0o644
    assert names(path.parent) == ["a.json"]


def test_links_and_permissions_stay(tmp_path: Path, usual_mask: None) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    files.replace(link, "new")
    assert link.is_symlink() and path.read_text() == "new" and mode(path) == 0o640


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        files.replace(path, "µ\n")
        assert os.read(reading, 100) == "µ\n".encode()
        os.close(reading)
    assert pipe.is_fifo() and link.is_symlink() and names(tmp_path) == ["link", "pipe"]


def test_create_takes_nobodys_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(FileExistsError):
        files.create(tmp_path / "a", "new")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "old"


@pytest.mark.parametrize("write", [files.replace, files.create])
def test_a_failed_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, str], None]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "a", "new")
    assert names(tmp_path) == []
