"""What a run writes down as it goes: a line of JSON an event, at once, so that nothing is lost if it dies.

Events, by `event`; each has `at`, seconds since the start:

head    what the run is: `tilecheck`, `project`, `run`, `kernels`, `history`, as in the model
plan    how many tests were selected of each function: `functions`; of known ones the section: `sections`
begin   a test starts: `test`, as in the model if nothing more should come of it
phase   a phase of a test has ended: `test` as in the model, `when`, and its records: `numerics`, `code`,
        `latency`, `searches`
death   somebody else saw that the run is dead
end     the run ended: `exit`, and `ended` in words
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from tilecheck.report.codec import to_json

FILE = "results.partial.jsonl"
"""Its name, in the report's folder; it is gone once results.json is there."""

Event = Mapping[str, Any]


class Journal:
    """Collects a run's events, in memory and in a file.  Raises OSError where the file cannot be made."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Event] = []
        self._file: TextIO | None = (folder / FILE).open("w", encoding="ascii", newline="\n")

    def add(self, event: str, at: float, **values: Any) -> None:
        """Writes an event down; a full disk costs only what a crash would have left."""
        # The events in memory are as they would be read again.
        line = to_json({"event": event, "at": at, **values})
        self.events.append(json.loads(line))
        if self._file is not None:
            try:
                self._file.write(f"{line}\n")
                self._file.flush()
            except OSError:
                self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_events(folder: Path) -> Iterator[Event]:
    """The events of a run that died; a line that was not finished is left out.

    Raises OSError where there is no such file.
    """
    for line in (folder / FILE).read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
