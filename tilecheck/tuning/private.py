"""A folder that nobody else can write: TileLang runs what its caches hold, libraries and pickles."""

import os
import stat
from pathlib import Path

from tilecheck.files import user_cache


def private_folder(*names: str, inside: Path | None = None) -> Path:
    """The folder `names` below the user's cache folder, made with mode 0700 where it does not exist.

    inside: a folder that it must not lie in: the project's, whose files others write.
    Raises PermissionError, in one line, where somebody else could put files there, and another OSError where
    it cannot be made.
    """
    folder = (user_cache() / "tuning").absolute()
    _make(folder.parent, parents=True)
    for step in (folder, *(folder.joinpath(*names[: i + 1]) for i in range(len(names)))):
        _make(step, mode=0o700)
        _check_own(step)
        folder = step
    real = folder.resolve()
    if inside is not None and real.is_relative_to(inside.resolve()):
        raise PermissionError(f"{folder} lies in the project {inside}: set XDG_CACHE_HOME to another folder")
    for step in real.parents:
        _check_way(step)
    return folder


def _make(folder: Path, mode: int = 0o777, parents: bool = False) -> None:
    try:
        folder.mkdir(mode, parents, exist_ok=True)
    except FileExistsError:
        if parents:
            raise OSError(f"{folder} is no folder: set XDG_CACHE_HOME to a folder of your own") from None
        # `_check_own` says what it is
    except OSError as error:
        told = f"{folder} cannot be made ({error.strerror}): set XDG_CACHE_HOME to a folder of your own"
        raise OSError(told) from error


def _check_own(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{folder} is no folder but a link or a file: remove it")
    if found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is owned by user {found.st_uid}: remove it, or set XDG_CACHE_HOME")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise PermissionError(f"{folder} has mode {mode:04o}, and others may have written there: remove it")


def _check_way(folder: Path) -> None:
    """Whoever may rename a folder on the way can put another in its place."""
    found = folder.lstat()
    others = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
    if others or found.st_uid not in (0, os.getuid()):
        mode = stat.S_IMODE(found.st_mode)
        raise PermissionError(
            f"others can write {folder} (mode {mode:04o}, user {found.st_uid}): set XDG_CACHE_HOME to a "
            "folder of your own"
        )
