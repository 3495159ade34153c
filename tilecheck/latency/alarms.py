"""How often the gate alarms where nothing changed: runs of the same kernels, held against one baseline (A/A).

The verdicts of each run are kept in a file beside the baselines, a line of JSON a run, so that later runs, on
other hosts too, add to them. They are verdicts on what the baseline was then: once its file is another, they
count no more.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from tilecheck.counting import many
from tilecheck.files import replace, shown
from tilecheck.gist import toolchain_changes
from tilecheck.latency.baselines import BaselineError, Run, StoredRow
from tilecheck.latency.gate import Verdict, judge

FILE = "alarms.jsonl"
"""Its name, in the folder of a GPU model."""

RISK = 0.05
"""Of a bound: how often the true share may be above it."""

_VERSION = 2


@dataclass(frozen=True)
class Trial:
    """One run, held against a baseline.

    taken: when, as the run says.  baseline: name of the file.  digest: of what was in it.
    verdicts: values of `gate.Verdict`, by row.
    changes: of time, and of the ratio to a vendor (None without), as shares, by row.
    """

    taken: str
    baseline: str
    digest: str
    verdicts: Mapping[str, str]
    changes: Mapping[str, tuple[float, float | None]]

    @property
    def alarms(self) -> int:
        """Rows that are not the same."""
        return sum(verdict != Verdict.SAME.value for verdict in self.verdicts.values())


def trial(run: Run, bar: Run) -> Trial:
    """The verdicts on the rows of `run` that are the same kernel, schedule, toolchain and method as in `bar`,
    each from one measurement: the gate takes two more before it fails a row.

    Raises BaselineError, in one line, where there is none, or where the baseline was made of this run.
    """
    if run.gpu != bar.gpu:
        raise BaselineError(f"{shown(run.path)} is of {run.gpu}, and {shown(bar.path)} of {bar.gpu}")
    if not run.taken:
        raise BaselineError(f"{shown(run.path)} does not say when it was taken, and may be here twice")
    if run.taken in bar.made_of:
        raise BaselineError(f"{shown(bar.path)} was made of {shown(run.path)}")
    judged = {
        id: judge(row.measurement, bar.rows[id].bar)
        for id, row in run.rows.items()
        if id in bar.rows and _unchanged(row, bar.rows[id])
    }
    if not judged:
        raise BaselineError(f"{shown(run.path)} has no row that is the same kernel in {shown(bar.path)}")
    return Trial(
        taken=run.taken,
        baseline=bar.path.name,
        digest=bar.digest,
        verdicts={id: j.verdict.value for id, j in judged.items()},
        changes={
            id: (round(j.change, 5), None if j.ratio is None else round(j.ratio.change, 5))
            for id, j in judged.items()
        },
    )


def summary(trials: Sequence[Trial]) -> Iterator[str]:
    """What they show, in lines: rows that were not the same, counts, and bounds on the true shares."""
    for each in trials:
        for id, verdict in each.verdicts.items():
            if verdict != Verdict.SAME.value:
                time, ratio = each.changes[id]
                against = "" if ratio is None else f", over the vendor {_percent(ratio)}"
                yield f"{each.taken}: {id}: {verdict}: {_percent(time)}{against}"
    counts = Counter(verdict for each in trials for verdict in each.verdicts.values())
    rows, runs = counts.total(), len(trials)
    told = ", ".join(f"{counts[v.value]} {v.value}" for v in Verdict)
    sizes = sorted(len(each.verdicts) for each in trials)
    size = many(sizes[0], "row") if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]} rows"
    each_and_all = size if runs == 1 else f"{size} each, {rows} in all"
    yield f"{many(runs, 'run')} of unchanged kernels, of {each_and_all}: {told}"
    for what, fails in (
        ("slower", {Verdict.SLOWER.value}),
        ("anything but the same", {v.value for v in Verdict} - {Verdict.SAME.value}),
    ):
        alarms = sum(counts[verdict] for verdict in fails)
        alarmed = sum(bool(fails & set(each.verdicts.values())) for each in trials)
        yield (
            f"{what}: {alarms} of {many(rows, 'row')}, under {upper_bound(alarms, rows) * 1000:.3g} of 1000; "
            f"{alarmed} of {many(runs, 'run')}, under {upper_bound(alarmed, runs) * 100:.3g} % of runs, "
            f"whose rows are not independent (both with {1 - RISK:.0%} confidence)"
        )


def upper_bound(events: int, of: int, risk: float = RISK) -> float:
    """The share below which the true one is, but for this risk (Clopper and Pearson, one-sided): that of
    which so few events, or fewer, are as unlikely as the risk.
    """
    if not 0 <= events <= of or of == 0:
        raise ValueError(f"{events} events of {of}")
    if events == of:
        return 1.0
    low, high = events / of, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(events, of, middle) > risk:
            low = middle
        else:
            high = middle
    return high


def read(file: Path) -> list[Trial]:
    """The trials that are kept; none where there is no file. Raises BaselineError, in one line, for what is
    none of them.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"{shown(file)}: {error}") from error
    kept: dict[tuple[str, str], Trial] = {}
    for number, line in enumerate(lines, 1):
        place = f"{shown(file)}, line {number}"
        each = _read(line, place)
        if kept.setdefault(_key(each), each) is not each:
            raise BaselineError(f"{place}: the run of {each.taken} is there twice; remove the line")
    return list(kept.values())


def keep(file: Path, trials: Iterable[Trial]) -> list[Trial]:
    """Adds those that are not in the file yet, and gives all that are. A run counts once for a baseline,
    under whatever name; held against it anew, as it is another, its verdicts are the new ones.

    Raises BaselineError as `read` does, and where the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_name(f".{file.name}.lock")):
            kept = {_key(each): each for each in read(file)}
            kept |= {_key(each): each for each in trials}
            replace(file, "".join(f"{json.dumps(_as_json(each))}\n" for each in kept.values()))
    except OSError as error:
        raise BaselineError(f"{shown(file)}: not written: {error.strerror or error}") from error
    return list(kept.values())


def against(bar: Run, kept: Iterable[Trial]) -> tuple[list[Trial], int]:
    """Those of the trials that are on this baseline, and how many are on what had its name before."""
    named = [each for each in kept if each.baseline == bar.path.name]
    found = [each for each in named if each.digest == bar.digest]
    return found, len(named) - len(found)


def _key(each: Trial) -> tuple[str, str]:
    return each.taken, each.baseline


def _unchanged(new: StoredRow, old: StoredRow) -> bool:
    same = (new.schedule, new.source_hash, new.method) == (old.schedule, old.source_hash, old.method)
    return same and not toolchain_changes(old.toolchain, new.toolchain)


def _at_most(events: int, of: int, share: float) -> float:
    """The probability of so many events or fewer."""
    if share in (0.0, 1.0):
        return 1.0 if share == 0.0 else 0.0
    yes, no = math.log(share), math.log1p(-share)
    choose = (math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1) for k in range(events + 1))
    return sum(math.exp(ways + k * yes + (of - k) * no) for k, ways in enumerate(choose))


def _as_json(each: Trial) -> dict[str, Any]:
    rows = {id: [verdict, *each.changes[id]] for id, verdict in each.verdicts.items()}
    said = {"taken": each.taken, "baseline": each.baseline, "digest": each.digest}
    return {"version": _VERSION, **said, "rows": rows}


def _read(line: str, place: str) -> Trial:
    try:
        found = json.loads(line)
        if found["version"] != _VERSION:
            raise BaselineError(f"{place}: of version {found['version']}; this reads {_VERSION}")
        rows = {
            id: (Verdict(v).value, _finite(t), None if r is None else _finite(r))
            for id, (v, t, r) in found["rows"].items()
        }
        if not rows:
            raise ValueError("no rows")
        return Trial(
            taken=str(found["taken"]),
            baseline=str(found["baseline"]),
            digest=str(found["digest"]),
            verdicts={id: verdict for id, (verdict, _, _) in rows.items()},
            changes={id: (time, ratio) for id, (_, time, ratio) in rows.items()},
        )
    except BaselineError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise BaselineError(f"{place}: no verdicts of a run: {error!r}; remove the line") from error


def _finite(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError(f"{value} is no share")
    return number


def _percent(share: float) -> str:
    return f"{share * 100:+.1f} %"
