"""What differs between two compilations of a row, or of many, in words and with the worst first.

Worse is what a kernel is known to lose time by: registers that go through memory, tensor cores, asynchronous
copies or a pipeline of them that are lost, narrower accesses, more shared memory, and more registers where
fewer blocks share a multiprocessor for it. The same the other way round is better. All else only differs:
nobody knows which of two instruction counts is faster.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from tilecheck.codegen.facts import Facts

Severity = Literal["regression", "improvement", "neutral"]

SEVERITIES: tuple[Severity, ...] = ("regression", "improvement", "neutral")
"""The worst first; what improves comes before the rest, of which there is most."""

# Facts of which more is worse, by what they cost most; then those that only differ.
_LOCAL = {
    "spill_stores": "spill stores",
    "spill_loads": "spill loads",
    "stack": "stack",
    "LDL": "LDL",
    "STL": "STL",
}
_ROOM = {
    "dynamic_shared": "dynamic shared memory",
    "static_shared": "static shared memory",
}
_PLAIN = {"kernels": "device functions", "threads": "threads", "barriers": "barriers"}

# Ranks: local memory 0, tensor cores 1, copies 2.
_COPIES_RANK, _WIDTH_RANK, _ROOM_RANK = 2, 3, 4

_WIDTHS = (256, 128, 64, 32, 16, 8)


@dataclass(frozen=True)
class _Ladder:
    """Ways to do one thing, the best first; each a group of instruction families.

    needed: how many of the first ways are a loss where they vanish without another in their place.
    rank: of a loss, among those of all ladders.
    """

    rank: int
    ways: tuple[tuple[str, ...], ...]
    needed: int = 0


def _by_width(opcode: str) -> tuple[tuple[str, ...], ...]:
    return tuple((f"{opcode}.{width}",) for width in _WIDTHS)


def _any_width(opcode: str) -> tuple[str, ...]:
    return tuple(f"{opcode}.{width}" for width in _WIDTHS)


_BULK_LOADS = ("UTMALDG", "UBLKCP")

_LADDERS = (
    # Tensor cores, by the threads that work on one instruction: two blocks' warps, a warpgroup, a warp.
    _Ladder(
        1,
        (("UTCMMA",), ("HGMMA", "IGMMA", "QGMMA"), ("HMMA", "IMMA", "DMMA", "QMMA", "OMMA")),
        needed=3,
    ),
    # Into shared memory: by the copy engine, past the registers, through them.
    _Ladder(
        _COPIES_RANK,
        (_BULK_LOADS, *_by_width("LDGSTS"), *_by_width("LDG"), _any_width("STS")),
        needed=1 + len(_WIDTHS),
    ),
    _Ladder(_COPIES_RANK, (("UTMASTG", "UTMAREDG", "UBLKRED"), *_by_width("STG")), needed=1),
    # Between shared memory and registers: by matrices of a warp, by each thread for itself.
    _Ladder(_WIDTH_RANK, (("LDSM",), *_by_width("LDS"))),
    _Ladder(_WIDTH_RANK, (("STSM",), *_by_width("STS"))),
)
_SCHEDULE_FIELD = re.compile(r"(\w+)=([^=,()]+)")


@dataclass(frozen=True)
class Change:
    """One difference, in words: "registers 168 -> 255".

    rank: among changes of one severity, the lower the worse.
    informs: it says something of the source, and nothing of what runs.
    """

    words: str
    severity: Severity
    rank: int
    informs: bool = False


def changes(old: Facts, new: Facts) -> tuple[Change, ...]:
    """What `new` does differently from `old`, the worst first."""
    found = [*_costs(old, new), *_instructions(old, new), *_differences(old, new)]
    return tuple(sorted(found, key=lambda change: (SEVERITIES.index(change.severity), change.rank)))


def bind(found: Iterable[Change]) -> bool:
    """Whether the code itself differs."""
    return any(not change.informs for change in found)


def worst(found: Iterable[Change]) -> Severity:
    """The severity of the worst change; "neutral" without any."""
    return min((change.severity for change in found), key=SEVERITIES.index, default="neutral")


def in_words(found: Iterable[Change]) -> str:
    """The changes in one line."""
    return ", ".join(change.words for change in found)


Row = TypeVar("Row")


@dataclass(frozen=True)
class RowChange(Generic[Row]):
    """What happened to one row between two sets of facts.

    changes: of a row that both have.
    """

    row: Row
    kind: Literal["changed", "removed", "added"]
    changes: tuple[Change, ...] = ()

    @property
    def severity(self) -> Severity:
        return worst(self.changes)

    def __str__(self) -> str:
        return in_words(self.changes) or self.kind


def compare(old: Mapping[Row, Facts], new: Mapping[Row, Facts]) -> tuple[RowChange[Row], ...]:
    """The rows in which two sets of facts differ: regressions, rows that are gone, those that are new,
    improvements, and the rest; each kind with the worst first.
    """
    rows: list[RowChange[Row]] = []
    for row, facts in old.items():
        if row not in new:
            rows.append(RowChange(row, "removed"))
        elif found := changes(facts, new[row]):
            rows.append(RowChange(row, "changed", found))
    rows += (RowChange(row, "added") for row in new if row not in old)
    return tuple(sorted(rows, key=_place))


def _place(row: RowChange[Row]) -> tuple[int, int, str]:
    if row.kind != "changed":
        return (1 if row.kind == "removed" else 2), 0, str(row.row)
    after = {"regression": 0, "improvement": 3, "neutral": 4}[row.severity]
    return after, row.changes[0].rank, str(row.row)


def _costs(old: Facts, new: Facts) -> Iterator[Change]:
    for names, rank in ((_LOCAL, 0), (_ROOM, _ROOM_RANK)):
        for name, called in names.items():
            before, now = _counted(old, name), _counted(new, name)
            if before != now:
                severity: Severity = "regression" if now > before else "improvement"
                yield Change(f"{called} {before} -> {now}", severity, rank)
    if old.registers != new.registers:
        more = _resident(new) - _resident(old)
        severity = "regression" if more < 0 else "improvement" if more > 0 else "neutral"
        yield Change(f"registers {old.registers} -> {new.registers}", severity, _ROOM_RANK)


def _resident(facts: Facts) -> int:
    """How many threads, in whole blocks, a multiprocessor has registers for, up to those it has room for.

    All architectures have 65536 registers and, at most, 2048 threads (see `tilecheck.arches`).
    """
    blocks = min(65536 // max(facts.registers_of_block, 1), 2048 // max(facts.threads, 1))
    return blocks * facts.threads


def _instructions(old: Facts, new: Facts) -> Iterator[Change]:
    judged: dict[str, tuple[Severity, int]] = {}
    for ladder in _LADDERS:
        judged |= {name: ("regression", rank) for name, rank in _losses(ladder, old, new)}
        judged |= {name: ("improvement", rank) for name, rank in _losses(ladder, new, old)}
    judged |= dict.fromkeys(_lost_pipeline(old, new), ("regression", _COPIES_RANK))
    judged |= dict.fromkeys(_lost_pipeline(new, old), ("improvement", _COPIES_RANK))
    for name in sorted({*old.instructions, *new.instructions} - _LOCAL.keys()):
        before, now = _counted(old, name), _counted(new, name)
        if before != now:
            severity, rank = judged.get(name, ("neutral", _ROOM_RANK + 1))
            called = "all instructions" if name == "total" else name
            yield Change(f"{called} {before} -> {now}", severity, rank)


def _losses(ladder: _Ladder, old: Facts, new: Facts) -> Iterator[tuple[str, int]]:
    """The families that `new` has fewer of while it has more of a worse way, or none of a needed one; and
    their ranks.
    """
    gains = [sum(_counted(new, n) - _counted(old, n) for n in way) for way in ladder.ways]
    for step, way in enumerate(ladder.ways):
        needed = step < ladder.needed
        vanished = needed and not any(_counted(new, name) for name in way)
        worse = any(gain > 0 for gain in gains[step + 1 :])
        better = any(gain > 0 for gain in gains[:step])
        if gains[step] < 0 and (worse or (vanished and not better)):
            fewer = (name for name in way if _counted(new, name) < _counted(old, name))
            yield from ((name, ladder.rank if needed else _WIDTH_RANK) for name in fewer)


def _lost_pipeline(old: Facts, new: Facts) -> Iterator[str]:
    """The families by which `old` has copies run ahead in groups, as cp.async does, and waits for one group
    at a time, if `new` has no groups: each trip of its loop waits for memory. Bulk copies have barriers.
    """
    bulk = sum(_counted(new, name) - _counted(old, name) for name in _BULK_LOADS)
    if _counted(old, "LDGDEPBAR") and not _counted(new, "LDGDEPBAR") and bulk <= 0:
        yield from (name for name in ("LDGDEPBAR", "DEPBAR") if _counted(new, name) < _counted(old, name))


def _differences(old: Facts, new: Facts) -> Iterator[Change]:
    last = _ROOM_RANK + 2
    if old.schedule != new.schedule:
        yield Change(f"schedule {_schedules(old.schedule, new.schedule)}", "neutral", 0)
    for name, called in _PLAIN.items():
        before, now = getattr(old, name), getattr(new, name)
        if before != now:
            yield Change(f"{called} {before} -> {now}", "neutral", 1)
    same_code = old.sass_hash == new.sass_hash
    if not same_code and old.instructions == new.instructions:
        yield Change("SASS changed, same counts", "neutral", last)
    if old.cubin_bytes != new.cubin_bytes:
        yield Change(f"cubin {old.cubin_bytes} -> {new.cubin_bytes} bytes", "neutral", last + 1)
    if old.source_hash != new.source_hash:
        words = "CUDA source changed, same SASS" if same_code else "CUDA source changed"
        yield Change(words, "neutral", last + 2, informs=True)


def _schedules(old: str, new: str) -> str:
    """Only the fields that differ, if these are two schedules of one class."""
    before, now = _SCHEDULE_FIELD.findall(old), _SCHEDULE_FIELD.findall(new)
    if _SCHEDULE_FIELD.sub(r"\1", old) != _SCHEDULE_FIELD.sub(r"\1", new):
        return f"{old or 'none'} -> {new or 'none'}"
    differ = (f"{name}={a} -> {b}" for (name, a), (_, b) in zip(before, now, strict=True) if a != b)
    return ", ".join(differ)


def _counted(facts: Facts, name: str) -> int:
    """A size, or how often exactly this family occurs."""
    return int(getattr(facts, name)) if hasattr(facts, name) else facts.instructions.get(name, 0)
