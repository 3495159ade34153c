"""What became of a candidate: how long it takes, or why that is not known."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from tilecheck.tuning.space import key_of, plain

Kind = Literal[
    "timed",
    "does not compile",
    "does not fit",
    "wrong",
    "launch error",
    "timeout",
    "died",
    "not timed",
    "breaks a promise",
]
"""timed: it is right, and has a time.  does not fit: known facts of its code are over a limit.
wrong: not the reference's outputs, or faster than the hardware.  died: its process did.
not timed: the stopwatch got no time that it trusts.  breaks a promise: of the spec's landmarks."""


class BenchError(RuntimeError):
    """Nothing can be compiled or timed any more, whatever the candidate; the text is one line."""


@dataclass(frozen=True)
class Timing:
    """Seconds of device time, and how they were taken (see `tilecheck.latency.timing.Samples`)."""

    median: float
    q1: float
    q3: float
    samples: int
    method: str
    clock_mhz: float = 0.0


@dataclass(frozen=True)
class Failure:
    """Why a candidate has no time: the kind, and the reason in a few lines."""

    kind: Kind
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What became of one candidate.  id, values: the candidate's.  reason: "" for one that was timed."""

    id: str
    values: dict[str, Any]
    kind: Kind
    reason: str = ""
    timing: Timing | None = None

    @property
    def key(self) -> str:
        """The candidate's."""
        return key_of(self.values)

    def as_json(self) -> dict[str, Any]:
        """Only plain values."""
        return asdict(self)

    @classmethod
    def of_json(cls, given: Any) -> "Outcome":
        """The outcome that `as_json` gave; ValueError where `given` is none."""
        try:
            timing = None if given["timing"] is None else Timing(**given["timing"])
            values = {name: plain(value) for name, value in given["values"].items()}
            made = cls(**{**given, "values": values, "timing": timing})
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{given!r} is no outcome: {error}") from None
        if made.kind not in get_args(Kind) or (made.kind == "timed") != (timing is not None):
            raise ValueError(f"{given!r} is no outcome")
        if timing is not None and not (isinstance(timing.median, float) and 0 < timing.median < math.inf):
            raise ValueError(f"{given!r} is no outcome: {timing.median!r} is no time")
        return made


def seconds_of(outcome: Outcome) -> float:
    """The median of an outcome that was timed."""
    assert outcome.timing is not None
    return outcome.timing.median
