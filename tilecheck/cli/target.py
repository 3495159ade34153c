"""A file that an option names: looked at before the work, which may take hours, and written after it."""

import os
from pathlib import Path

from tilecheck.cli.failing import BadInput
from tilecheck.files import is_stream, replace, shown


def check(option: str, path: Path | None) -> None:
    """Raises BadInput where the file of `option` cannot be written, as far as that shows without trying.

    path: None where the option was not given.
    """
    if path is None:
        return
    if os.path.isdir(path):
        raise BadInput(f"{option} {path}: it is a folder; name a file")
    if is_stream(path):
        if not os.access(path, os.W_OK):
            raise BadInput(f"{option} {path}: it cannot be written to; name another file")
        return
    # Not by methods of paths, which fail where a folder may not be looked into.
    folder = next(each for each in Path(os.path.realpath(path)).parents if os.path.exists(each))
    if not os.path.isdir(folder):
        raise BadInput(f"{option} {path}: {shown(folder)} is no folder; name another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"{option} {path}: {shown(folder)} cannot be written to; name another file")
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except OSError as error:  # too long a name, a link that leads to itself
        raise BadInput(f"{option} {path}: {error.strerror}; name another file") from error


def write(option: str, path: Path, text: str) -> None:
    """Writes the file, whole or not at all; its folder is made if need be.  Raises BadInput."""
    try:
        replace(path, text)
    except OSError as error:
        raise BadInput(f"{option} {path}: {error.strerror or error}") from error
