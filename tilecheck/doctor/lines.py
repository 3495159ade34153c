"""What the doctor found: a line for each thing that was looked at."""

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "note", "bad"]


@dataclass(frozen=True)
class Line:
    """One finding.

    name: what was looked at.  found: what there is, in one line.
    state: ok; note: worth knowing, and nothing here is broken; bad: something that should work does not.
    mend: what to do about it; every line that is not ok has one.
    """

    name: str
    state: State
    found: str
    mend: str = ""

    def __post_init__(self) -> None:
        if (self.state == "ok") == bool(self.mend):
            raise ValueError(f"{self.name} is {self.state}, and its mend is {self.mend!r}")

    def as_json(self) -> dict[str, str]:
        """Only plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Ability:
    """What can be run here.  command: that runs it.  lacking: why it cannot be, in one line; "": it can."""

    name: str
    command: str
    lacking: str = ""

    def as_json(self) -> dict[str, str | bool]:
        """Only plain values."""
        return asdict(self) | {"can": not self.lacking}
