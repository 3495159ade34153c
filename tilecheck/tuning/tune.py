"""The whole search for one case: space, ranking, search, confirmation, and the file of winners."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock

from tilecheck.arches import Arch
from tilecheck.latency.monitor import GpuFacts
from tilecheck.spec import Case, KernelSpec
from tilecheck.tuning.autotuner import Bench
from tilecheck.tuning.confirm import FINALISTS, REPEATS, TURN_BUDGET, Confirmed, confirmed
from tilecheck.tuning.identity import Identity, identity_of
from tilecheck.tuning.journal import Journal
from tilecheck.tuning.lookup import out_of_date
from tilecheck.tuning.outcomes import Failure, Outcome, Timing, seconds_of
from tilecheck.tuning.ranking import Estimate, Usage, ranked
from tilecheck.tuning.search import Found, Search, Shown
from tilecheck.tuning.space import Candidate, Space, space_of
from tilecheck.tuning.winners import Winner, WinnersError, read_winners, with_winner, write_winners

if TYPE_CHECKING:
    from tilecheck.codegen import Facts

SEEDS = (1, 2, 3)
"""Of the inputs under which finalists are checked once more, beside the search's own."""


class TuningBench(Bench, Protocol):
    """What the whole of it asks for."""

    def in_turn(
        self, candidates: Sequence[Candidate], repeats: int, budget: float, seeds: Sequence[int]
    ) -> tuple[list[dict[str, Timing]], dict[str, Failure]]: ...

    def facts(self, candidate: Candidate) -> "Facts | Failure": ...

    def prepare(self) -> None: ...

    def reopen(self) -> None: ...


@dataclass(frozen=True)
class Goal:
    """What a schedule is searched for.

    arch: of the GPU, with its model in `arch.gpu`.  gpu: its facts.  target: TileLang's.
    versions: of what compiles and runs it.
    """

    spec: KernelSpec
    case: Case
    arch: Arch
    gpu: GpuFacts
    target: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def name(self) -> str:
        """How messages call it."""
        return self.spec.test_id(self.case)

    @property
    def identity(self) -> Identity:
        """What a result holds for."""
        return identity_of(self.spec, self.case, self.arch, self.versions)

    @property
    def translated(self) -> bool:
        """Whether the code is that of an older architecture than the GPU's."""
        return "code" in self.target


@dataclass(frozen=True)
class Tuned:
    """What a search came to.

    refused: finalists that did not last, by id.  confirmed: None where nothing was to be confirmed.
    winner: the entry that was stored, or would be; None: what is in use stays.
    stored: what became of the file, in one line; "" for nothing.  unstored: why it was not written.
    """

    goal: Goal
    space: Space
    found: Found
    refused: Mapping[str, Failure] = field(default_factory=dict)
    confirmed: Confirmed | None = None
    winner: Winner | None = None
    stored: str = ""
    unstored: str = ""


def tune(
    goal: Goal,
    bench: TuningBench,
    *,
    journals: Path,
    winners: Path | None,
    progress: Callable[[str, int], Shown],
    budget: float | None = None,
    most: int | None = None,
    batch: int = 32,
) -> Tuned:
    """Searches, confirms, and stores a winner.

    journals: a private folder.  winners: the file; None: nothing is stored.
    progress: makes what shows it, from a name and the number of candidates.
    budget: seconds of the search, the confirmation comes on top; None: until all are tried.
    most: how many candidates are tried at most, as ranked.
    Raises ValueError for a kernel without a space, BenchError where nothing can be timed, OSError where
    journal or winners cannot be written, as far as that shows before the search.
    """
    space = space_of(goal.spec, goal.case, goal.arch)
    candidates = in_order(space, goal.gpu)[:most]
    if winners is not None:
        _check_writable(winners)
    identity = goal.identity
    bench.prepare()
    with Journal(journals, identity) as journal:
        found = Search(
            candidates=candidates,
            bench=bench,
            journal=journal,
            target=goal.target,
            progress=progress(goal.name, len(candidates)),
            batch=batch,
            budget=budget,
        ).run()
        if found.ended == "interrupted":
            return Tuned(goal, space, found)
        bench.reopen()
        verdict, refused = _confirm(goal, space, found, bench, journal)
    tuned = Tuned(goal, space, found, refused, verdict)
    if changed := _changed(goal, identity):
        return replace(tuned, unstored=changed)
    winner = _winner(tuned) if verdict is not None and verdict.kept else None
    stored, unstored = "", ""
    if winners is not None:
        try:
            stored = _store(goal, winners, winner, journals)
        except (OSError, WinnersError) as error:  # what was found is to be reported all the same
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            unstored = reason if str(winners) in reason else f"{winners} cannot be written: {reason}"
    return Tuned(goal, space, found, refused, verdict, winner, stored, unstored)


def _changed(goal: Goal, before: Identity) -> str:
    """Why what was found says nothing of the kernel as it is now; "" where it does."""
    try:
        if goal.identity == before:
            return ""
    except ValueError:  # the file is gone
        pass
    return "the kernel's file was changed during the search, so that nothing is stored: search again"


def _check_writable(winners: Path) -> None:
    folder = os.path.dirname(os.path.realpath(winners))
    if os.path.exists(folder) and not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"{winners} cannot be written: search with --dry-run, which stores nothing")


def in_order(space: Space, gpu: GpuFacts) -> list[Candidate]:
    """The default, then the others, likely ones first."""
    return [space.default, *(c for c, _ in ranked(space, gpu) if c != space.default)]


def _confirm(
    goal: Goal, space: Space, found: Found, bench: TuningBench, journal: Journal
) -> tuple[Confirmed | None, dict[str, Failure]]:
    """The verdict on the fastest that last, and why others did not; None where there is nobody to confirm."""
    by_key = {candidate.key: candidate for candidate in space.candidates}
    # A search that ran out of time may not have come to the default: that is no reason to do without it.
    default_failed = any(o.key == space.default.key and not o.timing for o in found.outcomes)
    rivals = [by_key[o.key] for o in found.timed if by_key[o.key] != space.default]
    refused: dict[str, Failure] = {}
    while rivals:
        finalists, rivals = rivals[:FINALISTS], rivals[FINALISTS:]
        broken = _breaches(goal, space.default, finalists, bench)
        contenders = [c for c in finalists if c.id not in broken]
        if not default_failed:
            contenders.insert(0, space.default)
        turns, failed = bench.in_turn(contenders, REPEATS, TURN_BUDGET, SEEDS)
        for candidate in finalists:
            if failure := broken.get(candidate.id) or failed.get(candidate.id):
                refused[candidate.id] = failure
                journal.add(Outcome(candidate.id, candidate.values, failure.kind, failure.reason))
        if any(name != space.default.id for name in (turns or [{}])[0]):
            return confirmed(turns, space.default.id, failed.get(space.default.id)), refused
    return None, refused


def _breaches(
    goal: Goal, default: Candidate, finalists: Sequence[Candidate], bench: TuningBench
) -> dict[str, Failure]:
    """Finalists whose code breaks a promise of the spec that the default's keeps, by id."""
    from tilecheck.codegen import NoToolchain

    try:
        with ThreadPoolExecutor(len(finalists) + 1) as pool:
            usual, *found = pool.map(bench.facts, [default, *finalists])
    except NoToolchain:
        return {}
    known = (
        set() if isinstance(usual, Failure) else {b.partition(":")[0] for b in _broken(goal, default, usual)}
    )
    broken = {}
    for candidate, facts in zip(finalists, found, strict=True):
        told = [] if isinstance(facts, Failure) else _broken(goal, candidate, facts)
        if new := [line for line in told if line.partition(":")[0] not in known]:
            broken[candidate.id] = Failure("breaks a promise", "; ".join(new))
    return broken


def _broken(goal: Goal, candidate: Candidate, facts: "Facts") -> list[str]:
    promised = goal.spec.landmarks_of(goal.case, goal.arch, candidate.schedule)
    return [line for landmark in promised if (line := landmark.breach(facts))]


def _winner(tuned: Tuned) -> Winner:
    goal, verdict = tuned.goal, tuned.confirmed
    assert verdict is not None
    identity = goal.identity
    values = {o.id: o.values for o in tuned.found.outcomes}
    others = [o for o in tuned.found.timed if o.id != verdict.winner and o.id not in tuned.refused]
    second = others[0] if others else None
    return Winner(
        gpu=identity.gpu,
        kernel=identity.kernel,
        case=identity.case,
        arch=identity.arch,
        dims=identity.dims,
        flags=identity.flags,
        dtype=identity.dtype,
        schedule=values[verdict.winner],
        median=verdict.median,
        method=verdict.timing.method,
        default=tuned.space.default.values,
        default_median=verdict.default,
        noise=float(verdict.noise),
        runner_up=None if second is None else second.values,
        runner_up_median=None if second is None else seconds_of(second),
        tried=len(tuned.found.outcomes),
        source=identity.source,
        versions=identity.versions,
    )


def _store(goal: Goal, path: Path, winner: Winner | None, locks: Path) -> str:
    """Puts the winner into the file; without one an entry that is out of date is removed."""
    identity = goal.identity
    with FileLock(locks / "winners.lock"):
        before = read_winners(path)
        if winner is not None:
            write_winners(path, with_winner(before, winner))
            return f"stored in {path.name}"
        place = (identity.gpu, identity.kernel, identity.case)
        old = [w for w in before if (w.gpu, w.kernel, w.case) == place]
        if old and out_of_date(goal.spec, old[0]):
            write_winners(path, [w for w in before if w is not old[0]])
            return f"its entry in {path.name} was out of date, and is removed"
    return ""


@dataclass(frozen=True)
class Compiled:
    """Candidates that were compiled for an architecture, and ranked; nothing was timed.

    rows: candidates with their estimate and what the compiler made of them, by that estimate, which is not
    the order in which they are tried; those that do not compile last.
    left: how many were not compiled.
    """

    goal: Goal
    space: Space
    rows: tuple[tuple[Candidate, Estimate | None, "Facts | Failure"], ...]
    left: int


def likeliest_of_all(goals: Sequence[Goal], most: int) -> list[str]:
    """Keys of the candidates that all goals have, likely ones of the first goal first."""
    spaces = [space_of(goal.spec, goal.case, goal.arch) for goal in goals]
    shared = set.intersection(*({c.key for c in space.candidates} for space in spaces))
    return [c.key for c in in_order(spaces[0], goals[0].gpu) if c.key in shared][:most]


def compile_ranked(
    goal: Goal,
    bench: TuningBench,
    *,
    jobs: int,
    progress: Callable[[str, int], Shown],
    most: int,
    budget: float | None = None,
    wanted: Sequence[str] | None = None,
) -> Compiled:
    """Compiles the likeliest candidates for the architecture of `goal`, and ranks them by what came out.

    wanted: keys of the candidates to compile, instead of the likeliest.
    Raises ValueError for a kernel without a space, NoToolchain where nothing could compile.
    """
    space = space_of(goal.spec, goal.case, goal.arch)
    candidates = in_order(space, goal.gpu)
    candidates = candidates[:most] if wanted is None else [c for c in candidates if c.key in wanted]
    shown = progress(goal.name, len(candidates))
    start, made = time.monotonic(), {}

    def one(candidate: Candidate) -> "Facts | Failure | None":
        late = budget is not None and time.monotonic() - start >= budget
        return None if late else bench.facts(candidate)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for candidate, facts in zip(candidates, pool.map(one, candidates), strict=True):
                if facts is not None:
                    made[candidate.key] = facts
                    shown.reach(len(made), f"compiled {candidate.id}")
        except BaseException:
            bench.stop()  # else the pool waits for all that it was given
            raise
    shown.close()
    usages = {
        key: Usage(
            f.threads, f.registers, f.static_shared + f.dynamic_shared, f.spill_stores + f.spill_loads > 0
        )
        for key, f in made.items()
        if not isinstance(f, Failure)
    }
    rows = [(c, e, made[c.key]) for c, e in ranked(space, goal.gpu, usages) if c.key in made]
    rows.sort(key=lambda row: (isinstance(row[2], Failure), row[1].seconds if row[1] else 0.0))
    return Compiled(goal, space, tuple(rows), len(candidates) - len(made))
