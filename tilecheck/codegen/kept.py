"""What was made at some cost, kept in a folder by key: an entry is a file, written whole, with its own hash.

A folder that cannot be used costs time, never an answer: nothing is found in it then, and nothing kept. The
same goes for an entry that is damaged.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from tilecheck.files import replace

DAYS = 30
"""How long an entry stays that nobody asks for."""


@dataclass(frozen=True)
class Kept:
    """The entries of a folder, which is made when there is something to keep."""

    folder: Path

    def read(self, key: str) -> Any:
        """The content that is kept by `key`; None where there is none, or it is not as it was written."""
        path = self._path(key)
        try:
            head, _, text = path.read_text(encoding="utf-8").partition("\n")
            if head != _hash(text):
                return None
            content = json.loads(text)
        except (OSError, ValueError):
            return None
        with suppress(OSError):  # somebody else's, or on a file system that is read-only
            os.utime(path)
        return content

    def write(self, key: str, content: Any) -> None:
        """Keeps `content`, plain values of JSON, if that can be done."""
        text = json.dumps(content)
        with suppress(OSError):
            replace(self._path(key), f"{_hash(text)}\n{text}")

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Within, no other process is at `key`, if that can be had."""
        lock = FileLock(self.folder / f"{key}.lock")
        held = False
        with suppress(OSError, NotImplementedError):  # the latter on file systems without locks
            self.folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            held = True
        try:
            yield
        finally:
            if held:
                lock.release()

    def trouble(self) -> str:
        """Why nothing can be kept, in a few words; "": it can."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                return ""
        except OSError as error:
            return f"{self.folder} cannot be written: {error.strerror or error}"

    def remove_old(self) -> None:
        """Removes what nobody asked for in a long time, at most once a day."""
        stamp, now = self.folder / ".cleaned", time.time()
        with suppress(OSError):
            if stamp.exists() and now - stamp.stat().st_mtime < 24 * 3600:
                return
            stamp.touch()
            for path in self.folder.iterdir():
                with suppress(OSError):
                    if now - path.stat().st_mtime > DAYS * 24 * 3600:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
