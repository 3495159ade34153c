"""What a search came to, as text."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilecheck.codegen.table import COLUMNS, cells
from tilecheck.tables import aligned
from tilecheck.tuning.explore import effects, table
from tilecheck.tuning.outcomes import Failure, Outcome, seconds_of
from tilecheck.tuning.search import Found
from tilecheck.tuning.tune import Compiled, Tuned
from tilecheck.tuning.units import microseconds, percent

if TYPE_CHECKING:
    from tilecheck.codegen import Facts

SHOWN = 5
"""Schedules, and failures of a kind, that are listed."""


def text_of(tuned: Tuned) -> str:
    """The report of a search on a GPU."""
    goal, found = tuned.goal, tuned.found
    lines = [f"{goal.name} on {goal.gpu.name} ({goal.arch.name})"]
    if goal.translated:
        lines.append(f"code for {goal.arch.name}, translated for this GPU: one of its own has other times")
    lines += [f"space: {tuned.space}", _tried(found)]
    lines += _fastest(found)
    lines += _failures(found.outcomes)
    for id, failure in tuned.refused.items():
        lines.append(f"refused at the end: {id}: {failure.kind}: {_first_line(failure.reason)}")
    lines.append(_verdict(tuned))
    if any(o.timing for o in found.outcomes):
        lines += ["", table(effects(found.outcomes, goal.spec.tuning))]
    return "\n".join(lines)


def _tried(found: Found) -> str:
    kinds = Counter(outcome.kind for outcome in found.outcomes)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    rate = f", {found.tried / found.seconds:.2g} a second" if found.tried and found.seconds else ""
    return (
        f"tried: {told or 'none'}; {found.tried} of them now, in {found.seconds:.0f} s{rate} ({found.ended})"
    )


def _fastest(found: Found) -> list[str]:
    timed = found.timed
    lines = []
    for place, outcome in enumerate(timed, 1):
        if place <= SHOWN or outcome.id == "default":
            lines.append(
                f"  {place:3}. {microseconds(seconds_of(outcome)):>9}  {outcome.id}  {_values(outcome)}"
            )
    return (["fastest in the search:", *lines]) if lines else ["no schedule is right and has a time"]


def _values(outcome: Outcome) -> str:
    return " ".join(f"{name}={value}" for name, value in outcome.values.items())


def _failures(outcomes: Sequence[Outcome]) -> list[str]:
    lines, shown = [], Counter[str]()
    for outcome in outcomes:
        if outcome.timing is None:
            shown[outcome.kind] += 1
            if shown[outcome.kind] <= SHOWN:
                lines.append(f"  {outcome.kind}: {outcome.id}: {_first_line(outcome.reason)}")
    lines += [f"  {kind}: {n - SHOWN} more" for kind, n in shown.items() if n > SHOWN]
    return ["failed:", *lines] if lines else []


def _first_line(text: str) -> str:
    """The line of a failure that tells: of a wrong kernel the one with the numbers."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("worst at", "repeat"))]
    return (telling or lines or [""])[0] if len(lines) > 1 else (lines or [""])[0]


def _verdict(tuned: Tuned) -> str:
    verdict = tuned.confirmed
    if tuned.found.ended == "interrupted":
        return "interrupted: the same command goes on where this stopped; nothing was confirmed or stored"
    if verdict is None:
        return "nothing to confirm: what is in use stays" + (f"; {tuned.stored}" if tuned.stored else "")
    against = "" if verdict.default is None else f" against {microseconds(verdict.default)} of the default"
    gain = "" if verdict.gain is None else f", {percent(verdict.gain)}"
    kept = "kept" if verdict.kept else "the default stays"
    stored = f"; {tuned.stored}" if tuned.stored else "; not stored" if verdict.kept else ""
    times = f"{verdict.winner} {microseconds(verdict.median)}{against}{gain}"
    return f"in turn with the default: {times}: {kept} ({verdict.reason}){stored}"


def text_of_compiled(compiled: Compiled, why: str) -> str:
    """The report of a search that timed nothing.  why: the reason."""
    goal = compiled.goal
    sure = f"reckoned for an {goal.gpu.name} ({goal.gpu.multiprocessors} multiprocessors)"
    lines = [
        f"{goal.name} for {goal.arch.name}, {sure}",
        f"nothing was timed: {why}",
        f"space: {compiled.space}",
        f"compiled: {len(compiled.rows)} of the likeliest"
        + (f", out of time before {compiled.left} more" if compiled.left else ""),
    ]
    heads = ("estimate", "waves", "blocks/SM", "bound by", "regs", "spills", "shared", "schedule")
    cells: list[tuple[str, ...]] = [heads]
    for candidate, estimate, facts in compiled.rows:
        guess: tuple[str, ...] = ("-", "-", "-", "-")
        if estimate is not None:
            guess = (
                microseconds(estimate.seconds),
                f"{estimate.waves:.2f}",
                str(estimate.resident),
                estimate.bound,
            )
        cells.append((*guess, *_made(facts), candidate.id))
    lines += aligned(cells, right=range(len(heads) - 1))
    lost = [Outcome(c.id, c.values, f.kind, f.reason) for c, _, f in compiled.rows if isinstance(f, Failure)]
    return "\n".join([*lines, *_failures(lost)])


def side_by_side(several: Sequence[Compiled]) -> str:
    """What the compiler made of the same schedules for several architectures, the likeliest first."""
    made = {c.goal.arch.name: {row[0].key: row for row in c.rows} for c in several}
    first, *others = made.values()
    rows: list[tuple[str, ...]] = [("schedule", "arch", *COLUMNS)]
    blank = ("",) * (len(COLUMNS) - 1)
    for key in first:
        if all(key in other for other in others):
            names = [rows_of[key][0].id for rows_of in made.values()]
            name = next((n for n in names if n != "default"), "default")
            for arch, rows_of in made.items():
                facts = rows_of[key][2]
                told = (facts.kind, *blank) if isinstance(facts, Failure) else cells(facts)
                rows.append((name, arch, *told))
                name = ""
    return "\n".join(aligned(rows, right=()))


def _made(facts: "Facts | Failure") -> tuple[str, str, str]:
    if isinstance(facts, Failure):
        return ("-", "-", facts.kind)
    return (
        str(facts.registers),
        str(facts.spill_stores + facts.spill_loads),
        str(facts.static_shared + facts.dynamic_shared),
    )
