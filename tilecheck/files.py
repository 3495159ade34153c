"""Files: such as are never seen half written, how messages name them, and where ours are cached."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Writes a file whole or not at all; a link, and the permissions of what is there, stay as they are.

    What is no file but a device or a pipe, as /dev/null and /dev/stdout, is written to.
    """
    if is_stream(path):
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        return
    path = Path(os.path.realpath(path))  # `resolve` raises no OSError for a link that leads to itself
    with _beside(path, text) as made:
        with suppress(FileNotFoundError):
            made.chmod(path.stat().st_mode & 0o777)
        made.replace(path)


def create(path: Path, text: str) -> None:
    """Writes a new file, whole or not at all; FileExistsError where there is one."""
    with _beside(path, text) as made:
        os.link(made, path)  # unlike a rename, this fails where there is a file


def user_cache() -> Path:
    """Our folder among those that the user's programs keep what can be had again in (XDG Base Directory
    Specification). OSError, in one line, for a user without a home.
    """
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given, "tilecheck")
    try:
        return Path.home() / ".cache" / "tilecheck"
    except RuntimeError:
        raise OSError("you have no home folder: set XDG_CACHE_HOME to a folder of your own") from None


def is_stream(path: Path) -> bool:
    """Whether something is there that is neither a file nor a folder: root would put a file in its place."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def shown(path: Path) -> str:
    """A path as messages show it: relative to where the command was given, if it lies below."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative


@contextmanager
def _beside(path: Path, text: str) -> Iterator[Path]:
    """A file with this text in the folder of `path`, which is made if need be; in the end it is gone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Of no fixed name, as two may be at it; and not by `tempfile`, whose files none but their owner can read.
    made = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with made.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield made
    finally:
        made.unlink(missing_ok=True)
