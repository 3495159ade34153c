"""How each knob moves latency, from what a search has found: data, and a table.

For each value of a knob: `alone`, the time of the fastest schedule with this knob changed to the value and
all else as it is; and `best`, that of the fastest of all that have the value. The first shows the knob, the
second what the others can make up for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilecheck.tables import aligned
from tilecheck.tuning.outcomes import Outcome, seconds_of
from tilecheck.tuning.units import microseconds


@dataclass(frozen=True)
class Effect:
    """One value of one knob.  alone, best: seconds, None where no such schedule has a time.
    timed, failed: how many schedules with the value have one, and have none.
    """

    knob: str
    value: Any
    alone: float | None
    best: float | None
    timed: int
    failed: int


def effects(outcomes: Sequence[Outcome], knobs: Mapping[str, Sequence[Any]]) -> list[Effect]:
    """The effect of each value of each knob, in the order of `knobs`; none where nothing was timed."""
    timed = [o for o in outcomes if o.timing]
    if not timed:
        return []
    fastest = min(timed, key=seconds_of).values
    found = []
    for knob, values in knobs.items():
        for value in values:
            having = [o for o in timed if o.values.get(knob) == value]
            alone = [seconds_of(o) for o in having if o.values == {**fastest, knob: value}]
            found.append(
                Effect(
                    knob=knob,
                    value=value,
                    alone=alone[0] if alone else None,
                    best=min(map(seconds_of, having), default=None),
                    timed=len(having),
                    failed=sum(o.values.get(knob) == value for o in outcomes) - len(having),
                )
            )
    return found


def as_json(outcomes: Sequence[Outcome], knobs: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """All of it as plain values, for plots: the knobs' effects, and every outcome."""
    return {
        "knobs": {knob: list(values) for knob, values in knobs.items()},
        "effects": [asdict(effect) for effect in effects(outcomes, knobs)],
        "outcomes": [outcome.as_json() for outcome in outcomes],
    }


def table(found: Sequence[Effect]) -> str:
    """Lines of text; the ratio is to the fastest of all."""
    if not found:
        return "no schedule has a time, so that no knob can be compared"
    fastest = min(e.best for e in found if e.best is not None)
    rows = [("knob", "value", "alone", "", "best with it", "", "timed", "failed")]
    before = ""
    for effect in found:
        rows.append(
            (
                effect.knob if effect.knob != before else "",
                str(effect.value),
                *_told(effect.alone, fastest),
                *_told(effect.best, fastest),
                str(effect.timed),
                str(effect.failed),
            )
        )
        before = effect.knob
    return "\n".join(aligned(rows, right=range(1, len(rows[0]))))


def _told(seconds: float | None, fastest: float) -> tuple[str, str]:
    return ("-", "") if seconds is None else (microseconds(seconds), f"{seconds / fastest:.2f}x")
