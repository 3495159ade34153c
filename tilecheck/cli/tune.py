"""Search for the fastest schedule of a kernel: every candidate is compiled, checked against the reference,
and timed. Winners that are faster than the schedule in use, beyond noise, go into schedules.json beside the
kernels.

A search that was interrupted, or ran out of time, goes on with the same command. Without a GPU, or for an
architecture that is not the GPU's, the likeliest candidates are compiled and ranked, and nothing is timed:
16 of them, or --most. Code for an older one (sm_80, sm_89) is timed, if it is asked for alone, as the GPU
runs what nvcc translates it to; no winner is stored then.
"""

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilecheck.cli import target
from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import note, show, stdout_kept
from tilecheck.cli.paths import named
from tilecheck.cli.selecting import (
    add_jobs,
    add_kernel,
    add_root,
    arches_named,
    case_named,
    default_arch,
    kernel_named,
    project_of,
    specs_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tilecheck.arches import Arch
    from tilecheck.progress import Progress
    from tilecheck.project import Project
    from tilecheck.spec import Case, KernelSpec
    from tilecheck.tuning.tune import Goal

COMPILED = 16
"""Candidates that are compiled where nothing is timed, unless --most says otherwise."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_kernel(parser)
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="ID",
        help="a case; may be given several times (default: those that the kernel is tuned for)",
    )
    parser.add_argument(
        "--budget",
        type=_minutes,
        metavar="MINUTES",
        help="of the search for each case, to which the confirmation adds about one; where nothing is timed, "
        "of compiling those that --most says (default: no limit)",
    )
    parser.add_argument(
        "--most",
        type=_count,
        metavar="N",
        help=f"try the N likeliest schedules only (default: all; where nothing is timed, {COMPILED})",
    )
    parser.add_argument(
        "--arch",
        nargs="+",
        action="extend",
        default=[],
        metavar="ARCH",
        help="compile for this architecture (default: that of the GPU); several are shown side by side",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs (default: 0)")
    parser.add_argument("--dry-run", action="store_true", help="store no winner")
    parser.add_argument(
        "--json", type=named, metavar="FILE", help="write all outcomes, and how each knob moves latency"
    )
    parser.add_argument(
        "--plot",
        type=named,
        metavar="FILE",
        help="draw how each knob moves latency, as SVG (wants matplotlib)",
    )
    add_jobs(parser)
    add_root(parser)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of minutes")
    return minutes


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of schedules")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    target.check("--json", arguments.json)
    target.check("--plot", arguments.plot)
    written = [os.path.realpath(each) for each in (arguments.json, arguments.plot) if each is not None]
    if len(set(written)) < len(written):
        raise BadInput(f"--json and --plot are both {arguments.plot}; name two files")
    project = project_of(arguments)
    spec = kernel_named(arguments.kernel, specs_of(project))
    if not spec.tuning:
        raise BadInput(f"kernel {spec.name!r} has nothing to tune: its spec gives no `tuning`")
    cases = [case_named(id, spec) for id in dict.fromkeys(arguments.case)] or spec.cases_of_tuning
    asked = arches_named(arguments.arch) if arguments.arch else ()
    if others := [arch.name for arch in asked if arch.name not in spec.arches]:
        known = ", ".join(spec.arches)
        raise BadInput(f"kernel {spec.name!r} is not for {', '.join(others)}, but for {known}")
    why, older = _what_runs_here(spec, asked)
    if arguments.plot is not None:
        _check_plot(arguments.plot, why)
    data: list[dict[str, Any]] = []
    good, unstored = True, list[str]()
    if why is not None and arguments.most is None:
        early = "" if arguments.budget is None else ", and --budget can only end that early"
        note(f"nothing is timed here, so that {COMPILED} schedules are compiled{early}; --most N takes more")
    try:
        for case in cases:
            if why is None:
                good = _tune(arguments, project, spec, case, older, data, unstored) and good
            else:
                arches = asked or (default_arch(spec),)
                good = _compile(arguments, project, spec, case, arches, why, data) and good
    except (BadInput, KeyboardInterrupt):
        for told in unstored:
            note(f"tilecheck: {told}")
        raise
    finally:
        if arguments.json is not None and data:
            _write("--json", arguments.json, json.dumps(data, indent=1))
    if arguments.plot is not None:
        if any(row["effects"] for row in data):
            _write("--plot", arguments.plot, _drawn(data))
        else:
            note(f"--plot {arguments.plot}: not written, as no schedule has a time")
    if unstored:
        raise BadInput("; ".join(dict.fromkeys(unstored)))
    return 0 if good else 1


def _check_plot(path: Path, why: str | None) -> None:
    """Before a search, which may be long: that there will be something to draw, and what draws it."""
    from importlib.util import find_spec

    if why is not None:
        raise BadInput(f"--plot {path}: nothing is timed here, so there is nothing to draw: {why}")
    if find_spec("matplotlib") is None:
        raise BadInput(f"--plot {path}: matplotlib is not installed; pip install matplotlib")


def _drawn(data: "Sequence[dict[str, Any]]") -> str:
    from tilecheck.tuning.explore import Effect
    from tilecheck.tuning.plot import svg

    return svg({f"{row['kernel']}, {row['case']}": [Effect(**e) for e in row["effects"]] for row in data})


def _what_runs_here(spec: "KernelSpec", asked: "Sequence[Arch]") -> tuple[str | None, str | None]:
    """Why what is asked for cannot be timed here, or None; and the older architecture whose code it is.

    Raises BadInput where nothing is asked for, and the kernel is not for this GPU.
    """
    from tilecheck import environment
    from tilecheck.arches import arch_of_capability
    from tilecheck.launch import runs_code_of

    machine = environment.machine()
    if (missing := environment.why_no_gpu(machine)) is not None:
        return missing, None
    assert machine.capability is not None
    own = arch_of_capability(*machine.capability).name
    if not asked and own not in spec.arches:
        known = ", ".join(spec.arches)
        raise BadInput(f"kernel {spec.name!r} is not for {own}, as this GPU is, but for {known}; see --arch")
    others = [arch.name for arch in asked if arch.name != own]
    if len(asked) == len(others) == 1 and runs_code_of(others[0], machine.capability):
        return None, others[0]
    return (f"this GPU is {own}" if others else None), None


def _tune(
    arguments: argparse.Namespace,
    project: "Project",
    spec: "KernelSpec",
    case: "Case",
    older: str | None,
    data: list[dict[str, Any]],
    unstored: list[str],
) -> bool:
    """Whether a schedule is right and has a time; raises KeyboardInterrupt after an interrupted report.

    unstored: gets the reason where the winners' file could not be written.
    """
    from tilecheck.tuning.explore import as_json
    from tilecheck.tuning.lookup import winners_file
    from tilecheck.tuning.machine import bench_for, goal_here, journals_folder
    from tilecheck.tuning.outcomes import BenchError
    from tilecheck.tuning.report import text_of
    from tilecheck.tuning.tune import tune

    with stdout_kept():
        try:
            goal = goal_here(spec, case, older)
            with bench_for(goal, project.spec_names, project.root, arguments.jobs, arguments.seed) as bench:
                tuned = tune(
                    goal,
                    bench,
                    journals=journals_folder(project.root),
                    winners=None if arguments.dry_run or older else winners_file(spec),
                    progress=_progress(arguments.jobs),
                    budget=None if arguments.budget is None else 60 * arguments.budget,
                    most=arguments.most,
                    batch=max(8, arguments.jobs),
                )
        except (BenchError, ValueError, OSError) as error:
            raise BadInput(f"{spec.test_id(case)}: {error}") from error
    _report(text_of(tuned), data)
    data.append(_described(goal) | as_json(tuned.found.outcomes, spec.tuning))
    if tuned.unstored:
        unstored.append(f"{spec.test_id(case)}: {tuned.unstored}")
    if tuned.found.ended == "interrupted":
        raise KeyboardInterrupt
    return bool(tuned.found.timed)


def _compile(
    arguments: argparse.Namespace,
    project: "Project",
    spec: "KernelSpec",
    case: "Case",
    arches: "Sequence[Arch]",
    why: str,
    data: list[dict[str, Any]],
) -> bool:
    """Whether a schedule compiles for each of the architectures."""
    from tilecheck.codegen import NoToolchain
    from tilecheck.tuning.machine import bench_for, goal_for
    from tilecheck.tuning.outcomes import BenchError, Failure
    from tilecheck.tuning.report import side_by_side, text_of_compiled
    from tilecheck.tuning.tune import compile_ranked, likeliest_of_all

    most, several, good = arguments.most or COMPILED, [], True
    try:
        goals = [goal_for(spec, case, arch) for arch in arches]
        wanted = likeliest_of_all(goals, most) if len(goals) > 1 else None
        for goal in goals:
            with (
                stdout_kept(),
                bench_for(goal, project.spec_names, project.root, arguments.jobs, arguments.seed) as bench,
            ):
                compiled = compile_ranked(
                    goal,
                    bench,
                    jobs=arguments.jobs,
                    progress=_progress(arguments.jobs),
                    most=most,
                    budget=None if arguments.budget is None else 60 * arguments.budget,
                    wanted=wanted,
                )
            several.append(compiled)
            _report(text_of_compiled(compiled, why), data)
            rows = [
                {
                    "id": candidate.id,
                    "values": candidate.values,
                    "estimate": None if estimate is None else estimate.seconds,
                    **(vars(facts) if isinstance(facts, Failure) else {"facts": facts.as_json()}),
                }
                for candidate, estimate, facts in compiled.rows
            ]
            data.append(_described(goal) | {"compiled": rows})
            good = any(not isinstance(facts, Failure) for *_, facts in compiled.rows) and good
    except (NoToolchain, BenchError, ValueError, OSError) as error:
        raise BadInput(f"{spec.test_id(case)}: {error}") from error
    if len(several) > 1:
        _report(side_by_side(several), data)
    return good


def _report(text: str, before: list[dict[str, Any]]) -> None:
    """Shows a report, after a blank line if there was one before."""
    show(f"\n{text}" if before else text)


def _progress(jobs: int) -> "Callable[[str, int], Progress]":
    from tilecheck.progress import Progress

    return lambda name, total: Progress(name, total, unit="schedule", at_once=jobs)


def _described(goal: "Goal") -> dict[str, Any]:
    return {
        "kernel": goal.spec.name,
        "case": goal.case.id,
        "arch": goal.arch.name,
        "gpu": goal.arch.gpu,
        "versions": dict(goal.versions),
    }


def _write(option: str, path: Path, text: str) -> None:
    target.write(option, path, text)
    note(f"written to {path}")
