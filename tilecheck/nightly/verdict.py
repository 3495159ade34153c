"""The night's exit code, which names the worst that happened and where."""

from collections.abc import Sequence

from tilecheck.nightly.plan import LIMITS
from tilecheck.nightly.stages import Ended, State

NUMBERS = {name: number for number, name in enumerate(LIMITS)}
"""The last digit of the exit code: the stage."""

TENS: dict[State, int] = {"failed": 10, "broken": 20, "hung": 30}
"""The first, of the states that turn a night red: what became of it."""

WORST_FIRST = (
    *("guard", "correctness", "schedules", "sanitizer", "codegen", "latency", "doctor", "report", "newest"),
)
"""A wrong kernel is worse than a slow one; without the guard's leave nothing else counts."""

INTERRUPTED = 130

NOTHING = 2
"""Nothing was run, and so nothing was wrong, which is no green night; nor is one of which nothing is
written.
"""

LEGEND = f"""\
exit codes:
  0    every stage passed
  1x   stage x says no: a kernel is wrong, slower, or not what it was
  2x   stage x did not get through: wrong usage, a file that cannot be read, a crash
  3x   stage x took longer than it may
  2    wrong usage or unusable input, and one line on standard error says which; or nothing was run, or
       what passed could not be written into the night's folder
  130  interrupted; the stages before that are in the night's folder
where x is {", ".join(f"{number} {name}" for name, number in NUMBERS.items())}
and of several the worst is named, in this order: {", ".join(WORST_FIRST[:5])},
{", ".join(WORST_FIRST[5:])}
"""


def worst(ended: Sequence[Ended]) -> Ended | None:
    """The stage that the night's exit code is of; None: the night is green."""
    red = [each for each in ended if each.gates and each.state in TENS]
    return min(red, key=lambda each: WORST_FIRST.index(each.name), default=None)


def exit_code(ended: Sequence[Ended]) -> int:
    found = worst(ended)
    if found is not None:
        return TENS[found.state] + NUMBERS[found.name]
    # Guard and report are about the others: alone they count only where nothing else was asked for.
    counted = [each for each in ended if each.name not in ("guard", "report")] or ended
    return NOTHING if all(each.state == "skipped" for each in counted) else 0


def in_words(code: int) -> str:
    """What a night's exit code says: "green", or the stage and what became of it."""
    if code == 0:
        return "green"
    if code == NOTHING:
        return "nothing was run"
    if code == INTERRUPTED:
        return "interrupted"
    became = {number: state for state, number in TENS.items()}.get(code // 10 * 10)
    stage = {number: name for name, number in NUMBERS.items()}.get(code % 10)
    return f"{stage} {became}" if became and stage else f"exit code {code}"
