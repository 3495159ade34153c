"""Which tuned schedule a case uses: its own, else that of the nearest shape; none where none fits.

An entry counts for its GPU model, element type and flags only. Where no GPU is at hand (the simulator, code
for a named architecture) all models of the architecture count, in the order of their names. What is out of
date, or what `legal` refuses, is never used in silence: it is warned of, once, and the author's default is
used.

Imports neither torch nor TileLang.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tilecheck.arches import Arch
from tilecheck.tuning.source import source_file, source_hash
from tilecheck.tuning.winners import FILE, Winner, read_winners

if TYPE_CHECKING:
    from tilecheck.spec import Case, KernelSpec

NEAR = 1.0
"""How far a size may be from that of an entry: factors of two."""


class UnusedSchedule(UserWarning):
    """A tuned schedule that is not used, and why."""


@dataclass(frozen=True)
class Choice:
    """A tuned schedule for a case.  how: its own entry, or that of the nearest shape."""

    schedule: Any
    winner: Winner
    how: Literal["exact", "nearest"]


def winners_file(spec: "KernelSpec") -> Path | None:
    """The file for `spec`, there or not: beside its program's module; None where that is no file."""
    module = source_file(spec.program)
    return None if module is None else module.with_name(FILE)


def tuned_schedule(spec: "KernelSpec", case: "Case", target: Arch) -> Any:
    """The tuned schedule of `case` on `target`, if there is one; raises WinnersError for a spoilt file."""
    found = choose(spec, case, target)
    return None if found is None else found.schedule


def choose(spec: "KernelSpec", case: "Case", target: Arch) -> Choice | None:
    """The tuned schedule of `case` on `target`, with where it is from."""
    path = winners_file(spec)
    if path is None or not (winners := read_winners(path)):
        return None
    entries = [w for w in winners if w.kernel == spec.name and w.arch == target.name]
    if target.gpu:
        entries = [w for w in entries if w.gpu == target.gpu]
    for winner in _by_distance(entries, case):
        if (reason := unusable(spec, case, target, winner)) is None:
            how: Literal["exact", "nearest"] = "exact" if winner.case == case.id else "nearest"
            return Choice(_schedule(spec, case, target, winner), winner, how)
        if winner.case == case.id or "out of date" in reason:
            _warn(f"{path}: {winner.place}: not used: {reason}")
    return None


def out_of_date(spec: "KernelSpec", winner: Winner) -> str | None:
    """Why an entry says nothing of the program as it is now; None: it does."""
    now = source_hash(spec.program)
    if now == winner.source:
        return None
    return f"out of date: the program's source was {winner.source}, and is {now}; tune again"


def unusable(spec: "KernelSpec", case: "Case", target: Arch, winner: Winner) -> str | None:
    """Why an entry cannot be used for `case`, in one line; None: it can."""
    if reason := out_of_date(spec, winner):
        return reason
    try:
        spec.check_schedule(_schedule(spec, case, target, winner), case, target)
    except ValueError as error:
        return f"refused: {error}"
    return None


def _schedule(spec: "KernelSpec", case: "Case", target: Arch, winner: Winner) -> Any:
    from tilecheck.tuning.space import schedule_of

    return schedule_of(winner.schedule, spec.own_schedule(case, target), spec.tuning)


def _by_distance(entries: list[Winner], case: "Case") -> Iterator[Winner]:
    """Entries of the case's kind that are near, its own first; of equal ones in the order of the file."""
    reached = []
    for place, winner in enumerate(entries):
        if winner.dtype != case.dtype or dict(winner.flags) != dict(case.flags):
            continue
        distance = _distance(winner.dims, case.dims)
        if distance is not None:
            reached.append((winner.case != case.id, distance, place, winner))
    return (winner for *_, winner in sorted(reached, key=lambda row: row[:3]))


def _distance(a: Any, b: Any) -> float | None:
    """Sum of the factors of two between two shapes; None where a size is too far, or the dims are others."""
    if a.keys() != b.keys():
        return None
    total = 0.0
    for name in a:
        if a[name] == b[name]:
            continue
        if min(a[name], b[name]) <= 0 or abs(factor := math.log2(a[name] / b[name])) > NEAR:
            return None
        total += abs(factor)
    return total


@cache
def _warn(message: str) -> None:
    warnings.warn(message, UnusedSchedule, stacklevel=2)
