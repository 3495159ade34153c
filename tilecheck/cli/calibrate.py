"""Time all latency rows again and again, each time in a new process, and say how much they differ.

That noise makes the bands of the gate. The runs are kept, as run-001.json and so on, and later ones add to
them, from other hosts too: `tilecheck promote` makes a baseline of them.

Runs of unchanged kernels that no baseline was made of show how often the gate alarms for nothing: --alarms
holds those that are kept against a baseline, and keeps the verdicts in alarms.jsonl beside it. With --runs 0,
and no run here, it tells of the verdicts that are kept.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilecheck.cli.failing import BadInput, want_gpu
from tilecheck.cli.output import note, show
from tilecheck.cli.paths import named
from tilecheck.cli.selecting import add_root, project_of
from tilecheck.counting import many

if TYPE_CHECKING:
    from tilecheck.latency.baselines import Run
    from tilecheck.project import Project

EPILOG = """\
exit codes:
  0  fine
  1  a run failed; those before it are kept
  2  wrong usage, or input or output that cannot be used; one line on standard error says which
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=_count, default=3, metavar="N", help="how many; 0: only tell of those that are kept"
    )
    parser.add_argument(
        "--out", type=named, metavar="DIR", help="where runs are kept (default: latency-runs in the root)"
    )
    parser.add_argument(
        "-k", dest="keyword", default="", metavar="EXPRESSION", help="as pytest's: which rows"
    )
    parser.add_argument(
        "--alarms",
        nargs="?",
        const="",
        metavar="NUMBER",
        help="hold the kept runs against a stored baseline (default: the newest), and count false alarms",
    )
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    from tilecheck.files import shown
    from tilecheck.gist import few
    from tilecheck.latency.baselines import BaselineError
    from tilecheck.latency.calibration import kept_runs, partial, repeat, spreads, table
    from tilecheck.tables import aligned

    project = project_of(arguments)
    root = project.root
    if arguments.runs:
        want_gpu("times", "--runs 0 tells of those that are kept")
    folder = (arguments.out or root / "latency-runs").resolve()
    choice = ["-k", arguments.keyword] if arguments.keyword else []
    try:
        for done in repeat(arguments.runs, folder, lambda path: run_pytest(root, path, choice)):
            note(f"{shown(done.path)}: {many(len(done.rows), 'row')}")
    except BaselineError as error:
        note(f"tilecheck calibrate: {error}")
        return 1
    try:
        runs = kept_runs(folder)
        if arguments.alarms is not None:
            show("\n".join(_alarms(project, runs, arguments.alarms)))
            return 0
        if len(runs) == 1:
            note(f"1 run in {shown(folder)}, and noise is what differs between runs")
            return 0
        found = spreads(runs)
    except BaselineError as error:
        raise BadInput(str(error)) from error
    show(
        "\n".join(
            [*aligned(table(found), right=(1, 2, 3, 4, 6, 7)), f"{many(len(runs), 'run')} in {shown(folder)}"]
        )
    )
    if left := partial(runs):
        note(f"not in all of the runs, and left out: {few(left)}")
    note(f"to make a baseline of them: tilecheck promote {shown(folder)}/run-*.json")
    return 0


def _alarms(project: "Project", runs: "Sequence[Run]", asked: str) -> Iterator[str]:
    from tilecheck.latency.alarms import FILE, against, keep, read, summary, trial
    from tilecheck.latency.baselines import choose, model_folder, read_run, stored_models

    if runs:
        folder = project.baselines / model_folder(runs[0].gpu)
    else:  # what was kept before tells of itself, where it is clear of which GPU
        folders = [project.baselines / model for model in stored_models(project.baselines)]
        folders = [folder for folder in folders if (folder / FILE).exists()]
        if len(folders) != 1:
            raise BadInput("no run is kept that could be held against a baseline")
        (folder,) = folders
    bar = read_run(choose(folder, asked or None))
    later = [run for run in runs if run.taken not in bar.made_of]
    kept = keep(folder / FILE, [trial(run, bar) for run in later]) if later else read(folder / FILE)
    found, outdated = against(bar, kept)
    if outdated:
        were = "1 run was" if outdated == 1 else f"{outdated} runs were"
        note(f"{were} held against {bar.path.name} before it was changed: not counted")
    if not found:
        which = "all of them went into it" if runs else "none is kept"
        raise BadInput(f"no run tells of false alarms of {bar.path.name}: {which}")
    return summary(found)


def run_pytest(root: Path, path: Path, choice: Sequence[str] = ()) -> int:
    """Times all rows in a new process, whose output goes to standard error; its exit code."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "latency",
        "--tilecheck-require-gpu",
        f"--benchmark-json={path}",
        *choice,
    ]
    return subprocess.run(command, cwd=root, stdout=sys.stderr, check=False).returncode


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs")
    return int(text)
