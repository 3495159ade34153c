"""Repeats whole latency runs, each in a process of its own, and says how much a row differs between them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilecheck.files import shown
from tilecheck.gist import toolchain_changes
from tilecheck.latency.baselines import BaselineError, Run, StoredRow, read_run
from tilecheck.latency.gate import POLICY, Bar, Policy, between_machines, seconds
from tilecheck.latency.noise import Noise, machine_noise, noise_of

UNFINISHED = "unfinished.json"
"""The file of a run that has not ended well."""

Runner = Callable[[Path], int]
"""Runs all rows in a process of its own, writes their times into the file, and returns the exit code."""


@dataclass(frozen=True)
class Spread:
    """How one row differs between runs.

    medians: seconds, one a run.  noise: between them.
    band, smallest: what the gate makes of it, see `gate.Policy`; the band is that of the time.
    """

    row: str
    medians: tuple[float, ...]
    noise: Noise
    band: float
    smallest: float


def repeat(runs: int, folder: Path, runner: Runner) -> Iterator[Run]:
    """Runs as often, and gives each run as it is done; files in `folder` that are there are left alone.

    A run that fails or is interrupted leaves `UNFINISHED` at most, which is none of the runs.
    Raises BaselineError, in one line, where one fails or leaves no times.
    """
    for _ in range(runs):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished, path = folder / UNFINISHED, _next(folder)
        unfinished.unlink(missing_ok=True)
        if code := runner(unfinished):
            raise BaselineError(f"{shown(path)}: the run failed, exit code {code}")
        run = read_run(unfinished)
        unfinished.replace(path)
        yield replace(run, path=path)


def kept_runs(folder: Path) -> list[Run]:
    """The runs in a folder, in their order."""
    return [read_run(path) for path in sorted(folder.glob("run-*.json"))]


def spreads(runs: Sequence[Run], policy: Policy = POLICY) -> list[Spread]:
    """How the rows that all runs have differ, the noisiest first.

    Raises BaselineError, in one line, where the runs are not of one GPU model and toolchain, or too few, or
    where a row is not the same kernel, timed in the same way, in all of them.
    """
    if len(runs) < 2:
        raise BaselineError(f"the noise between runs needs two of them, and there is {len(runs)}")
    for run in runs[1:]:
        if run.gpu != runs[0].gpu:
            raise BaselineError(
                f"{shown(run.path)} is of {run.gpu}, and {shown(runs[0].path)} of {runs[0].gpu}"
            )
        if changes := toolchain_changes(runs[0].toolchain, run.toolchain):
            raise BaselineError(f"{shown(run.path)}: another toolchain than {shown(runs[0].path)}: {changes}")
        for id, row in run.rows.items():
            if id in runs[0].rows and (what := _other_kernel(runs[0].rows[id], row)):
                raise BaselineError(f"{shown(run.path)}: {id}: another {what} than in {shown(runs[0].path)}")
    common = [id for id in runs[0].rows if all(id in run.rows for run in runs)]
    if not common:
        raise BaselineError(f"the {len(runs)} runs have no row in common")
    noises = {id: _noise([run.rows[id] for run in runs]) for id in common}
    machine = machine_noise(list(noises.values()))
    found = [_spread([run.rows[id] for run in runs], noises[id], machine, policy) for id in common]
    return sorted(found, key=lambda spread: -spread.smallest)


def partial(runs: Sequence[Run]) -> list[str]:
    """Ids of the rows that some of the runs lack, of which `spreads` says nothing."""
    every = dict.fromkeys(id for run in runs for id in run.rows)
    return [id for id in every if not all(id in run.rows for run in runs)]


def table(found: Sequence[Spread]) -> list[tuple[str, ...]]:
    """The cells of a table of them, with its head."""
    rows: list[tuple[str, ...]] = [
        ("row", "median", "runs differ by", "noise", "over vendor", "vendor", "band", "finds from")
    ]
    for s in found:
        middle = sorted(s.medians)[len(s.medians) // 2]
        rows.append(
            (
                s.row,
                seconds(middle),
                _percent(max(s.medians) / min(s.medians) - 1),
                _percent(s.noise.time),
                "" if s.noise.ratio is None else _percent(s.noise.ratio),
                s.noise.vendor,
                _percent(s.band),
                _percent(s.smallest),
            )
        )
    return rows


def _other_kernel(old: StoredRow, new: StoredRow) -> str:
    """In what two rows differ that should differ by noise alone; "": in nothing."""
    if old.method != new.method:
        return "method"
    if old.schedule != new.schedule:
        return "schedule"
    return "source hash" if old.source_hash != new.source_hash else ""


def _noise(rows: Sequence[StoredRow]) -> Noise:
    return noise_of([row.median for row in rows], [row.vendors for row in rows])


def _spread(rows: Sequence[StoredRow], noise: Noise, machine: float, policy: Policy) -> Spread:
    medians = tuple(row.median for row in rows)
    bar = Bar(
        median=medians[0],
        method=rows[0].method,
        noise=noise.time,
        ratio_noise=noise.ratio,
        vendor_noise=noise.vendors_time,
        machine_noise=machine,
        vendor=noise.vendor,
        vendors=rows[0].vendors if noise.vendor else {},
    )
    band = policy.band(between_machines(noise.time, bar))
    return Spread(rows[0].id, medians, noise, band, policy.smallest_of(bar))


def _next(folder: Path) -> Path:
    number = 1
    while (folder / f"run-{number:03}.json").exists():
        number += 1
    return folder / f"run-{number:03}.json"


def _percent(share: float) -> str:
    return f"{share * 100:.2f} %"
