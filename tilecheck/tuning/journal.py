"""What a search has found so far: a file that only grows, so that one that is interrupted goes on.

Lines of JSON: the identity of the search, then an outcome each. A line is written and synced at once; one
that a crash left unfinished is dropped.
"""

import errno
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from tilecheck.tuning.identity import Identity
from tilecheck.tuning.outcomes import Outcome


class Journal:
    """The journal of one search; a context manager, which one process has at a time.

    folder: where journals are; nobody else can write there (`private_folder`).
    Raises ValueError, in one line, for a file that is no journal of this search, and where another process
    has it; OSError where it cannot be written.
    """

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.path = folder / f"{identity.kernel}-{identity.case}-{identity.key}.jsonl"
        self._identity = identity
        self._lock = FileLock(f"{self.path}.lock")
        self._writing = threading.Lock()
        self._found: dict[str, Outcome] = {}

    def __enter__(self) -> "Journal":
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(f"another process searches the same: it has {self.path}") from None
        try:
            self._read()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        """What was found, by the candidate's key."""
        return dict(self._found)

    def add(self, outcome: Outcome) -> None:
        """Writes an outcome down; threads may do so at the same time."""
        with self._writing:
            self._append(outcome.as_json())
            self._found[outcome.key] = outcome

    def _read(self) -> None:
        if not self.path.exists():
            self._append(self._identity.as_json())
            return
        text = self.path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            os.truncate(self.path, whole)
        lines = text[:whole].splitlines()
        if not lines:
            self._append(self._identity.as_json())
            return
        for number, line in enumerate(lines, 1):
            try:
                given = json.loads(line)
                if number > 1:
                    outcome = Outcome.of_json(given)
                    self._found[outcome.key] = outcome
                elif given != json.loads(json.dumps(self._identity.as_json())):
                    raise ValueError("another identity")
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    f"{self.path}:{number} is not of a journal of this search ({error}): remove the file"
                ) from None

    def _append(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, sort_keys=True) + "\n"
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "ab", buffering=0) as file:
                before = os.fstat(descriptor).st_size
                try:
                    if file.write(line.encode()) < len(line.encode()):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, before)  # else the next line would be joined to half of one
                    raise
        except OSError as error:
            raise OSError(f"{self.path} cannot be written: {error.strerror}") from error
