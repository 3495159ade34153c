"""The nightly job, by hand or by CI: guard, doctor, latency, correctness, schedules, sanitizer, codegen, the
newest TileLang beside the pinned one, report.

Each stage has a time limit, and none keeps the next from running. What it all means lies in the folder --out
then: summary.md, night.json, trends.json, logs, and report/, of which trend.html shows all nights on record.
"""

import argparse
import os
import secrets
import sys
from datetime import datetime, timezone
from pathlib import Path

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import note, show
from tilecheck.cli.paths import named
from tilecheck.cli.selecting import add_root, project_of
from tilecheck.near import did_you_mean
from tilecheck.nightly.plan import LIMITS, ON_GPU, ONLY_ON_GPU, Choice
from tilecheck.nightly.verdict import LEGEND

EPILOG = f"""\
seconds that each stage may take, and --limit changes:
  {", ".join(f"{name} {seconds:g}" for name, seconds in LIMITS.items())}

{LEGEND}"""

LONGEST = 7 * 24 * 3600
"""Seconds that a stage may be given at most."""

INDEX = "TILELANG_NIGHTLY_INDEX"
"""Environment variable with the page of nightly builds, the same as `make` takes."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpu", default="", metavar="MODEL", help="the model that has to be there, as 'NVIDIA H200'"
    )
    parser.add_argument(
        "--simulate", action="store_true", help="no GPU: what can be, is run on the simulator; no conformance"
    )
    parser.add_argument(
        "--out", type=named, metavar="DIR", help="a new folder (default: nights/DATE in the root)"
    )
    parser.add_argument(
        "--history", type=named, metavar="DIR", help="of all nights (default: nights/history in the root)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="STAGE",
        help="only these stages; the guard comes along where one wants the GPU",
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="STAGE=SECONDS",
        help="another time limit; several times",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of all tests (default: a new one)")
    parser.add_argument(
        "--newest",
        default="auto",
        metavar="VERSION",
        help="TileLang to set beside the pinned one: auto (the newest; default), off, or a version",
    )
    parser.add_argument(
        "--newest-index",
        default=os.environ.get(INDEX, ""),
        metavar="URL",
        help=f"page of nightly builds of TileLang (default: ${INDEX}; without: releases alone)",
    )
    parser.add_argument(
        "--newest-gates", action="store_true", help="the newest TileLang can turn the night red, too"
    )
    parser.add_argument(
        "-k", dest="keyword", default="", metavar="EXPRESSION", help="as pytest's, in all stages that test"
    )
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    project = project_of(arguments)
    choice = _choice(arguments, project.root)

    history = _history(arguments.history, project.root)

    from tilecheck.nightly.job import SUMMARY, run_night
    from tilecheck.nightly.keyword import require_keyword
    from tilecheck.nightly.known import Suite, known

    try:
        require_keyword(arguments.keyword)
        suite = Suite(project.root, known(project))  # a mistake there is one line, before anything runs
    except ValueError as error:
        raise BadInput(str(error)) from error
    _claim(choice.out)

    code = run_night(choice, suite, history, _say)
    if (choice.out / SUMMARY).exists():
        show(f"{choice.out / SUMMARY}")
    return code


def _say(text: str) -> None:
    try:
        note(text)
    except OSError:
        # Who no longer reads standard error must not cost the night its record, nor Python its exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _choice(arguments: argparse.Namespace, root: Path) -> Choice:
    from tilecheck.nightly.newest import NoVersion, require_wanted

    stages = _stages(arguments.only)
    on_gpu = [name for name in stages if name in (*ON_GPU, *ONLY_ON_GPU)]
    if on_gpu and not arguments.simulate and not arguments.gpu:
        raise BadInput(
            f"which GPU has to be there? --gpu 'NVIDIA H200', say, or --simulate; {on_gpu[0]} wants to know"
        )
    try:
        require_wanted(arguments.newest)
    except NoVersion as error:
        raise BadInput(f"--newest: {error}") from error
    if arguments.simulate and arguments.gpu:
        raise BadInput("--gpu and --simulate contradict each other")
    if on_gpu and not arguments.simulate and "guard" not in stages:
        stages = ("guard", *stages)
    limits = dict(_limit(text) for text in arguments.limit)
    return Choice(
        python=sys.executable,
        out=_folder(arguments.out, root),
        gpu=arguments.gpu,
        seed=secrets.randbelow(2**31) if arguments.seed is None else arguments.seed,
        stages=stages,
        limits=limits,
        simulate=arguments.simulate,
        newest=arguments.newest,
        index=arguments.newest_index,
        newest_gates=arguments.newest_gates,
        arguments=("-k", arguments.keyword) if arguments.keyword else (),
    )


def _stages(given: list[str]) -> tuple[str, ...]:
    words = [word for text in given for word in text.split(",") if word]
    if given and not words:  # as of a variable that is not set; it must not mean all of them
        raise BadInput("--only names no stage")
    for word in words:
        _known(word)
    return tuple(name for name in LIMITS if not words or name in words)


def _known(name: str) -> None:
    if name not in LIMITS:
        raise BadInput(f"no stage {name!r}{did_you_mean(name, LIMITS)}")


def _limit(text: str) -> tuple[str, float]:
    name, _, seconds = text.partition("=")
    _known(name)
    # By its length first: Python refuses to read a number of thousands of digits.
    if not seconds.isdecimal() or len(seconds) > len(str(LONGEST)) or not 1 <= int(seconds) <= LONGEST:
        given = seconds if len(seconds) < 20 else f"{seconds[:20]}..."
        raise BadInput(f"--limit {name}={given}: no number of seconds from 1 to {LONGEST}, a week")
    return name, float(seconds)


def _folder(given: Path | None, root: Path) -> Path:
    date = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H-%M-%SZ")
    folder = (given or root / "nights" / date).resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"--out {given or folder} is there and not empty; each night has a folder of its own")
    if "$" in str(folder):
        raise BadInput(f"--out {folder}: pytest takes what follows a $ for a variable; name another folder")
    return folder


def _history(given: Path | None, root: Path) -> Path:
    """The folder of all nights: one that can be none is a mistake, told before the night and not after it."""
    folder = (given or root / "nights" / "history").resolve()
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir():
        raise BadInput(f"--history {given or folder}: {there} is no folder")
    return folder


def _claim(folder: Path) -> None:
    """Makes the night's folder, for this night alone: of two that find it empty, one gets it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "logs").mkdir()
    except FileExistsError:
        raise BadInput(f"--out {folder} is another night's by now; each has a folder of its own") from None
    except OSError as error:
        raise BadInput(f"--out {folder}: {error.strerror or error}") from error
