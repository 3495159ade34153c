"""Compares two files of times, row by row, as the gate does: the older one is the bar."""

from collections.abc import Iterator
from dataclasses import dataclass

from tilecheck.counting import many
from tilecheck.files import shown
from tilecheck.gist import toolchain_changes
from tilecheck.latency.baselines import BaselineError, Run, missing, orphaned
from tilecheck.latency.gate import POLICY, Judgement, Policy, Verdict, judge


@dataclass(frozen=True)
class Comparison:
    """judgements: on the rows that both have, by id.  only_old, only_new: the rows that one has.
    toolchain: what differs there; "" if nothing does.
    """

    judgements: dict[str, Judgement]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    toolchain: str

    @property
    def exit_code(self) -> int:
        """0: all rows are the same, or faster.  1: one is slower.  3: nothing can be said of a row."""
        verdicts = {judgement.verdict for judgement in self.judgements.values()}
        if Verdict.SLOWER in verdicts:
            return 1
        return 3 if Verdict.INCONCLUSIVE in verdicts or self.only_old or self.only_new else 0

    def lines(self, every: bool = False) -> Iterator[str]:
        """What moved, the worst first, and a line of counts; `every`: also the rows that did not move."""
        if self.toolchain:
            yield f"toolchain changed: {self.toolchain}"
        order = [Verdict.SLOWER, Verdict.INCONCLUSIVE, Verdict.FASTER, Verdict.SAME]
        ranked = sorted(self.judgements.items(), key=lambda r: (order.index(r[1].verdict), -abs(r[1].change)))
        yield from (f"{id}: {j}" for id, j in ranked if every or j.verdict is not Verdict.SAME)
        yield from (f"{id}: only in the first file" for id in self.only_old)
        yield from (f"{id}: only in the second file" for id in self.only_new)
        counts = [
            (verdict, [j for j in self.judgements.values() if j.verdict is verdict]) for verdict in order
        ]
        yield f"{many(len(self.judgements), 'row')}: " + ", ".join(
            f"{len(found)} {v.value}" for v, found in counts
        )


def compare(old: Run, new: Run, policy: Policy = POLICY) -> Comparison:
    """Every row of `new` against that of `old`.

    Raises BaselineError, in one line, where the files are not of one GPU model, or have no row in common.
    """
    if old.gpu != new.gpu:
        raise BaselineError(f"{shown(old.path)} is of {old.gpu}, and {shown(new.path)} of {new.gpu}")
    common = [id for id in old.rows if id in new.rows]
    if not common:
        raise BaselineError(f"{shown(old.path)} and {shown(new.path)} have no row in common")
    changes = dict.fromkeys(
        toolchain_changes(old.rows[id].toolchain, new.rows[id].toolchain) for id in common
    )
    return Comparison(
        judgements={id: judge(new.rows[id].measurement, old.rows[id].bar, policy) for id in common},
        only_old=tuple(orphaned(new.rows, old.rows)),
        only_new=tuple(missing(new.rows, old.rows)),
        toolchain="; ".join(change for change in changes if change),
    )
