"""Binary search for the first bad one of a line of candidates, some of which cannot be asked. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Answer = Literal["good", "bad", "skip"]


@dataclass(frozen=True)
class Found:
    """suspects: numbers of the candidates of which one is the first bad one; all but the last were skipped.
    asked: how many were asked.
    """

    suspects: tuple[int, ...]
    asked: int


def first_bad(count: int, ask: Callable[[int], Answer]) -> Found:
    """The first bad one of `count` candidates, the first of which is known to be good and the last to be bad.

    ask: is called at most once for a candidate; about log2(count) times, if none is skipped.
    """
    if count < 2:
        raise ValueError(f"{count} candidates: there have to be a good and a bad one")
    good, bad = 0, count - 1
    skipped: set[int] = set()
    asked = 0
    while open_ := [number for number in range(good + 1, bad) if number not in skipped]:
        middle = min(open_, key=lambda number: abs(2 * number - good - bad))
        asked += 1
        answer = ask(middle)
        if answer == "good":
            good = middle
        elif answer == "bad":
            bad = middle
        else:
            skipped.add(middle)
    return Found(tuple(range(good + 1, bad + 1)), asked)
