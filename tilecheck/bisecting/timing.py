"""Is a candidate slower than the good end? Both are timed in turn on this GPU, as `tilecheck ab` does, and
judged by the same rule: a smaller change than `LEAST` is none.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tilecheck.ab.match import Result, play
from tilecheck.ab.pairs import LEAST
from tilecheck.ab.sides import Side, SideError
from tilecheck.bisecting.candidates import BisectError, Candidate
from tilecheck.bisecting.hunt import Places
from tilecheck.bisecting.search import Answer
from tilecheck.git import GitError, checked_out
from tilecheck.latency.gate import Verdict
from tilecheck.versions import NoEnvironment


class ByTime:
    """row: as latency rows are named."""

    def __init__(self, row: str, places: Places) -> None:
        self._row, self._places = row, places
        self._good: Candidate | None = None

    def ends(self, good: Candidate, bad: Candidate) -> str:
        self._good = good
        answer, words = self.answer(bad)
        if answer != "bad":
            raise BisectError(
                f"the bad end is not slower than the good one by more than {LEAST * 100:g} %: {words}"
            )
        return words

    def answer(self, candidate: Candidate) -> tuple[Answer, str]:
        """A kernel that does not compile, or is wrong, tells nothing of its time."""
        try:
            return judged(self._timed(candidate))
        except (SideError, GitError, NoEnvironment) as error:
            return "skip", str(error)

    def _timed(self, candidate: Candidate) -> Result:
        assert self._good is not None, "the ends come first"
        with self._side(self._good) as old, self._side(candidate) as new:
            (result,) = play(old, new, [self._row], lambda _: None)
            return result

    @contextmanager
    def _side(self, candidate: Candidate) -> Iterator[Side]:
        python = self._places.python(candidate)
        if not candidate.commit:
            with Side(str(candidate), python, self._places.root) as side:
                yield side
        else:
            with (
                checked_out(candidate.commit, self._places.root) as folder,
                Side(str(candidate), python, folder) as side,
            ):
                yield side


def judged(result: Result) -> tuple[Answer, str]:
    """What a comparison with the good end says."""
    if result.pairs is None:
        return "skip", result.reason
    words = f"{(result.pairs.ratio - 1) * 100:+.1f} % against the good end"
    if result.verdict is Verdict.SLOWER:
        return "bad", words
    if result.verdict is Verdict.INCONCLUSIVE:
        return "skip", f"{words}, inconclusive{f': {result.reason}' if result.reason else ''}"
    return "good", words
