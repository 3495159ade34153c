"""Makes the next baseline of several runs, which also say how much a row differs from run to run.

It is stricter than the gate, since what goes in here is what later runs are held to: the sources are those of
one commit, every row was right and timed in each run, nothing disturbed the GPU, and the runs agree.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilecheck.files import shown
from tilecheck.gist import few, toolchain_changes
from tilecheck.latency.baselines import NOISIEST, Run, StoredRow, missing, orphaned, run_of
from tilecheck.latency.gate import fastest, seconds, spoiling
from tilecheck.latency.noise import Noise, machine_noise, noise_of

# Statistics of pytest-benchmark, and what stands for those of several runs; `outliers` is left the nearest's.
_MERGED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "rounds": sum,
    "total": sum,
    **dict.fromkeys(("mean", "stddev", "median", "q1", "q3", "iqr", "ld15iqr", "hd15iqr"), statistics.median),
}


@dataclass(frozen=True)
class Guards:
    """runs: the least number of them.  spread: share by which the medians of a row may differ.
    clock: share by which its clocks may.
    """

    runs: int = 3
    spread: float = 0.05
    clock: float = 0.015


GUARDS = Guards()


def objections(runs: Sequence[Run], expected: Sequence[str], guards: Guards = GUARDS) -> list[str]:
    """Why these runs make no baseline, a line each; none: they do.

    expected: ids of the rows that the kernels have.
    """
    return [
        *_too_few(runs, guards),
        *_disturbed(runs),
        *_different(runs),
        *_sources(runs),
        *_incomplete(runs, expected),
        *(line for id in expected if all(id in run.rows for run in runs) for line in _row(id, runs, guards)),
    ]


def merge(runs: Sequence[Run], path: Path, before: Run | None = None) -> Run:
    """One run made of several, which `objections` has let pass; `path` is where it will be.

    Times are the medians over the runs. Without the single samples, which are in the runs' own files.
    before: the baseline before it. How much machines of a model differ is not forgotten because those of
    these runs happen to be alike.
    """
    newest = max(runs, key=lambda run: run.taken)
    rows = {id: [run.rows[id] for run in runs] for id in newest.rows}
    noises = {id: _noise(taken) for id, taken in rows.items()}
    known = [row.machine_noise for row in before.rows.values()] if before else []
    machine = max([machine_noise(list(noises.values())), *known])
    benchmarks = [_merged(taken, noises[id], machine) for id, taken in rows.items()]
    content = {
        "machine_info": {"gpu": newest.gpu},
        "commit_info": dict(newest.raw.get("commit_info", {})),
        "benchmarks": benchmarks,
        "datetime": newest.taken,
        "version": newest.raw.get("version", ""),
        "tilecheck": {"runs": sorted(run.taken for run in runs), "arch": newest.arch},
    }
    return run_of(content, path)


def moved(old: Run | None, new: Run) -> Iterator[str]:
    """How each row moved from one baseline to the next, the furthest first."""
    if old is None:
        yield from (f"{id}: {seconds(row.median)}, new" for id, row in new.rows.items())
        return
    if changes := toolchain_changes(old.toolchain, new.toolchain):
        yield f"toolchain changed: {changes}"
    both = [(row, old.rows[id]) for id, row in new.rows.items() if id in old.rows]
    for row, before in sorted(both, key=lambda pair: -abs(pair[0].median / pair[1].median - 1)):
        change = row.median / before.median - 1
        how = "" if row.method == before.method else f", taken by {before.method} and now by {row.method}"
        yield f"{row.id}: {seconds(before.median)} -> {seconds(row.median)}, {change * 100:+.1f} %{how}"
    yield from (f"{id}: {seconds(new.rows[id].median)}, new" for id in missing(new.rows, old.rows))
    yield from (f"{id}: dropped" for id in orphaned(new.rows, old.rows))


def _too_few(runs: Sequence[Run], guards: Guards) -> Iterator[str]:
    if len(runs) < guards.runs:
        yield f"{len(runs)} of at least {guards.runs} runs: the noise of a row is what differs between runs"
    for i, run in enumerate(runs):
        if not run.taken:
            yield f"{shown(run.path)}: does not say when it was taken, and may be the same run as another"
        for other in runs[:i]:
            if run.path.resolve() == other.path.resolve() or (run.taken and run.taken == other.taken):
                yield f"{shown(run.path)} is the same run as {shown(other.path)}"
                break


def _disturbed(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        if run.failed:
            yield f"{shown(run.path)}: tests failed: {few(run.failed)}"
        if run.strangers:
            yield f"{shown(run.path)}: {run.strangers} other processes computed on the GPU"


def _different(runs: Sequence[Run]) -> Iterator[str]:
    first = runs[0]
    for run in runs:
        if not run.one_toolchain:
            yield f"{shown(run.path)}: its rows are from different toolchains"
        if run.gpu != first.gpu:
            yield f"{shown(run.path)} is of {run.gpu}, and {shown(first.path)} of {first.gpu}"
        if changes := toolchain_changes(first.toolchain, run.toolchain):
            yield f"{shown(run.path)}: another toolchain than {shown(first.path)}: {changes}"


def _sources(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        if not run.commit:
            yield f"{shown(run.path)}: of no known commit; run it in a git checkout"
        elif run.dirty:
            yield f"{shown(run.path)}: sources changed since commit {run.commit[:12]}; commit them, run again"
        elif run.commit != runs[0].commit and runs[0].commit:
            yield (
                f"{shown(run.path)} is of commit {run.commit[:12]}, and {shown(runs[0].path)} of "
                f"{runs[0].commit[:12]}"
            )


def _incomplete(runs: Sequence[Run], expected: Sequence[str]) -> Iterator[str]:
    for run in runs:
        for what, ids in (
            ("without", missing(expected, run.rows)),
            ("with rows that no kernel has:", orphaned(expected, run.rows)),
        ):
            if ids:
                yield f"{shown(run.path)}: {what} {few(ids)}"


def _row(id: str, runs: Sequence[Run], guards: Guards) -> Iterator[str]:
    rows = [run.rows[id] for run in runs]
    for what, values in (
        ("method", {row.method for row in rows}),
        ("schedule", {row.schedule for row in rows}),
        ("source hash", {row.source_hash for row in rows}),
        ("vendors", {", ".join(sorted(row.vendors)) for row in rows}),
    ):
        if len(values) > 1:
            yield f"{id}: the runs differ in {what}: {' | '.join(sorted(values))}"
    if reasons := sorted({r for row in rows for r in spoiling(row.throttled, row.clock_mhz)}):
        yield f"{id}: the driver lowered the clock ({', '.join(reasons)})"
    clocks = [row.clock_mhz for row in rows]
    if not all(clocks):
        yield f"{id}: the clock is unknown"
    elif _spread(clocks) > guards.clock:
        span = f"{min(clocks):.0f} to {max(clocks):.0f} MHz"
        yield f"{id}: at {span}; clocks may differ by {_share(guards.clock)}"
    medians = [row.median for row in rows]
    if _spread(medians) > guards.spread:
        yield (
            f"{id}: {seconds(min(medians))} to {seconds(max(medians))}; the runs may differ by "
            f"{_share(guards.spread)}"
        )
    if len(rows) > 1:
        noise = _noise(rows)
        if max(noise.ratio or 0.0, noise.vendors_time or 0.0) > NOISIEST:
            ratios = [row.median / row.vendors[noise.vendor] for row in rows]
            theirs = [row.vendors[noise.vendor] for row in rows]
            differ = (
                f"its runs differ by {_share(_spread(ratios))}, and those of it by {_share(_spread(theirs))}"
            )
            yield f"{id}: over {noise.vendor}, {differ}; no slowdown would show"


def _noise(rows: Sequence[StoredRow]) -> Noise:
    return noise_of([row.median for row in rows], [row.vendors for row in rows])


def _merged(rows: Sequence[StoredRow], noise: Noise, machine: float) -> dict[str, Any]:
    middle = statistics.median_low([row.median for row in rows])
    nearest = next(row for row in rows if row.median == middle)
    result = {**nearest.raw, "stats": _statistics(nearest, rows)}
    medians = [row.median for row in rows]
    vendors = _vendors(rows)
    best = fastest(vendors, vendors)
    extra = {name: value for name, value in nearest.raw["extra_info"].items() if name != "verdict"}
    result["extra_info"] = {
        **extra,
        "vendors": vendors,
        "vendor_ratio": statistics.median(medians) / vendors[best] if best else None,
        "clock_mhz": statistics.median([row.clock_mhz for row in rows]),
        "noise": noise.time,
        "ratio_noise": noise.ratio,
        "vendor_noise": noise.vendors_time,
        "machine_noise": machine,
        "steadiest": noise.vendor,
        "runs": len(rows),
        "medians": sorted(medians),
    }
    return result


def _vendors(rows: Sequence[StoredRow]) -> dict[str, float]:
    """The medians over the runs of those vendors that all of them have."""
    names = [name for name in rows[0].vendors if all(name in row.vendors for row in rows)]
    return {name: statistics.median([row.vendors[name] for row in rows]) for name in names}


def _statistics(nearest: StoredRow, rows: Sequence[StoredRow]) -> dict[str, Any]:
    stats = {name: value for name, value in nearest.raw["stats"].items() if name != "data"}
    for name, of in _MERGED.items():
        if name in stats:
            stats[name] = of([row.raw["stats"].get(name, stats[name]) for row in rows])
    if stats.get("mean"):
        stats["ops"] = 1 / stats["mean"]
    return stats


def _spread(values: Sequence[float]) -> float:
    return max(values) / min(values) - 1


def _share(share: float) -> str:
    return f"{share * 100:.1f} %"
