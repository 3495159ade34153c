"""What a candidate's reply means, given those of the good and the bad end. Pure."""

from dataclasses import dataclass

from tilecheck.bisecting.candidates import BisectError
from tilecheck.bisecting.probe import UNASKED, Reply
from tilecheck.bisecting.search import Answer
from tilecheck.codegen.changes import changes, in_words, worst
from tilecheck.codegen.facts import Facts


@dataclass(frozen=True)
class Judge:
    """good, bad: replies of both ends."""

    good: Reply
    bad: Reply

    def __post_init__(self) -> None:
        if self.good.kind != "right":
            raise ValueError(f"the good end is not good: {self.good}")
        if self.bad.kind in UNASKED:
            raise BisectError(f"the bad end cannot be asked: {self.bad.words}")
        if self.bad.kind == "right" and not self.words(self.bad):
            same = "compile to the same code" if self.good.facts else "are right"
            raise BisectError(f"both ends {same}: there is nothing to find")

    def answer(self, reply: Reply) -> Answer:
        """A candidate that fails in another way than the bad end tells nothing, and is skipped."""
        if reply.kind != "right":
            return "bad" if reply.kind == self.bad.kind else "skip"
        if self.bad.kind != "right":
            return "good"
        return "bad" if self.words(reply) else "good"

    def words(self, reply: Reply) -> str:
        """What is bad about a reply; "" if nothing is.

        Of code: what is worse than at the good end; if the bad end is only different, any difference.
        """
        if reply.kind != "right":
            return reply.words or reply.kind
        if reply.facts is None or self.good.facts is None or self.bad.facts is None:
            return ""
        good, now, bad = (Facts(**each) for each in (self.good.facts, reply.facts, self.bad.facts))
        if good.sass_hash == now.sass_hash:
            return ""
        found = changes(good, now)
        if worst(changes(good, bad)) == "regression" and worst(found) != "regression":
            return ""
        return in_words(found)
