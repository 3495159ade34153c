"""Would an upgrade break or slow us? The suite under the newest TileLang, beside the pinned one.

`python -m tilecheck.nightly.upgrade ROOT FOLDER ...` is the stage: it finds the newest version, makes an
environment with it, and there runs the correctness tests; then it times both in turn on this GPU
(`tilecheck ab`), and compares what they compile to (`tilecheck diff-codegen`). What came out is in
FOLDER/newest.json.
"""

import argparse
import dataclasses
import json
import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilecheck.environment import version
from tilecheck.files import replace
from tilecheck.nightly.asking import Unanswered, answer
from tilecheck.nightly.newest import Newest, NoVersion, newest
from tilecheck.nightly.plan import CORRECTNESS, Choice, pytest_command
from tilecheck.nightly.results import of_tests
from tilecheck.nightly.stages import NOTHING_SELECTED, Ended, Stage, Step, run_stage
from tilecheck.versions import NoEnvironment, environment_with, variables_of

UNANSWERED = 3
"""The stage's exit code where a part gave no answer; 1 where one says no."""

RESULT, KERNELS = "newest.json", "kernel-cache"

SHARES = {"correctness": 0.5, "latency": 0.6, "codegen": 1.0}
"""Of the time that is left, what each part may take."""

SPARE = 30.0
"""Seconds by which to be through before the stage is ended."""


@dataclass(frozen=True)
class Upgrade:
    """What the newest version gave.  version: "" where there was none.  words: which it is, or why none.
    parts: how each part ended.  codegen: the answer of diff-codegen.
    rows: what `tilecheck ab` said of each row: "row", "verdict", "old", "new" (seconds), "ratio", "reason".
    planned: names of the parts that were to run; none before it is installed.  reason: why it was not.
    simulated: there was no GPU.
    """

    version: str = ""
    pinned: str = ""
    words: str = ""
    parts: tuple[Ended, ...] = ()
    codegen: str = ""
    rows: tuple[dict[str, Any], ...] = field(default=())
    planned: tuple[str, ...] = ()
    reason: str = ""
    simulated: bool = False

    @property
    def states(self) -> dict[str, str]:
        """By part; "missing": it was planned, and did not end."""
        return dict.fromkeys(self.planned, "missing") | {part.name: part.state for part in self.parts}

    def of(self, verdict: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row.get("verdict") == verdict]


def read(folder: Path) -> Upgrade | None:
    """What the stage wrote; None: it did not get as far."""
    try:
        content = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        parts = tuple(Ended(**{**part, "codes": tuple(part["codes"])}) for part in content.pop("parts"))
        rows = tuple(dict(row) for row in content.pop("rows"))
        planned = tuple(content.pop("planned", ()))
        return Upgrade(parts=parts, rows=rows, planned=planned, **content)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def stages(
    choice: Choice,
    python: str,
    found: Newest,
    pinned: str,
    arch: str,
    folder: Path,
    rows: Sequence[str] | None = None,
) -> list[Stage]:
    """The parts; each gets its limit when its turn comes.  rows: that are timed; None: all of them."""
    test = pytest_command(choice, python, folder, *CORRECTNESS)
    made = [Stage("correctness", (Step(test),), 0)]
    if not choice.simulate:
        versions = ("installed", f"tilelang=={found.version}")
        only = [word for row in rows or () for word in ("-k", row)]
        command = (choice.python, "-m", "tilecheck", "ab", *versions, f"--json={folder / 'ab.json'}", *only)
        made.append(Stage("latency", (Step(command, answers=(3,)),), 0))
    compare = (choice.python, "-m", "tilecheck", "diff-codegen", pinned, found.version)
    arches = ("--arch", arch) if arch else ()
    made.append(Stage("codegen", (Step((*compare, *arches), out=folder / "diff-codegen.txt"),), 0))
    return made


def timed(choice: Choice, root: Path) -> list[str]:
    """The rows that the night's arguments for pytest leave to be timed; raises Unanswered."""
    # One test a line, whatever the project's own options say; without a GPU pytest would select none.
    listing = ("--collect-only", "--verbosity=-1", "--tilecheck-require-gpu")
    command = (choice.python, "-m", "pytest", *listing, "-m", "latency", *choice.arguments)
    done = answer(command, root, variables_of(), fine=(0, NOTHING_SELECTED))
    found: list[str] = re.findall(r"::\w+\[(.+)\]$", done.stdout, re.MULTILINE)
    if not found and done.returncode == 0:
        raise Unanswered("it selects some, and lists none")
    return found


def main(arguments: argparse.Namespace) -> int:
    begun, folder, pinned = time.monotonic(), arguments.folder, version("tilelang") or "unknown"
    try:
        found = newest(arguments.wanted, arguments.index, pinned)
    except NoVersion as error:
        sys.stderr.write(f"error: --wanted: {error}\n")
        return 2
    _note(found.words)
    result = Upgrade(found.version, pinned, found.words, simulated=arguments.simulate)
    _write(folder, result)
    if not found.version:
        return 0 if "nothing to compare" in found.words else UNANSWERED
    try:
        environment = environment_with(found.version, _note, found.index)
    except NoEnvironment as error:
        _note(str(error))
        _write(folder, dataclasses.replace(result, reason=str(error)))
        return UNANSWERED
    choice = Choice(
        python=sys.executable,
        out=folder,
        gpu="",
        seed=arguments.seed,
        simulate=arguments.simulate,
        arguments=tuple(shlex.split(arguments.arguments)),
    )
    rows, untimed = _rows_to_time(choice, arguments.root)
    planned = stages(choice, str(environment.python), found, pinned, arguments.arch, folder, rows)
    result = dataclasses.replace(result, planned=tuple(stage.name for stage in planned))
    _write(folder, result)
    end = begun + arguments.seconds - SPARE
    for stage in planned:
        skipped = untimed if stage.name == "latency" else None
        ended = skipped or _run(stage, choice, arguments.root, end - time.monotonic())
        result = _with(result, ended, folder)
        _write(folder, result)
        _note(f"{ended.name}: {ended.state}{f': {ended.words}' if ended.words else ''}")
    if any(part.state == "failed" for part in result.parts):
        return 1
    return 0 if all(part.green for part in result.parts) else UNANSWERED


def _run(stage: Stage, choice: Choice, root: Path, left: float) -> Ended:
    """left: seconds, for this part and those after it."""
    folder = choice.out
    variables = {**variables_of(stage.steps[0].command[0]), "TILELANG_CACHE_DIR": str(folder / KERNELS)}
    limited = dataclasses.replace(stage, seconds=max(1.0, left * SHARES[stage.name]))
    ended = run_stage(limited, folder / "logs", root, variables)
    return of_tests(ended, folder, choice.arguments) if stage.name == "correctness" else ended


def _rows_to_time(choice: Choice, root: Path) -> tuple[list[str] | None, Ended | None]:
    """The rows to time, None for all of them; and where none is to be timed, how that part ends."""
    if choice.simulate or not choice.arguments:
        return None, None
    option = choice.arguments[0]
    try:
        rows = timed(choice, root)
    except Unanswered as error:
        words = f"pytest does not say which rows {option} selects: {error}"
        return None, Ended("latency", "broken", 0.0, words)
    return rows, None if rows else Ended("latency", "skipped", 0.0, f"{option} selects none of it")


def _with(result: Upgrade, ended: Ended, folder: Path) -> Upgrade:
    parts = (*result.parts, ended)
    if ended.name == "latency":
        return dataclasses.replace(result, parts=parts, rows=tuple(_rows(folder / "ab.json")))
    if ended.name == "codegen":
        return dataclasses.replace(result, parts=parts, codegen=_last(folder / "diff-codegen.txt"))
    return dataclasses.replace(result, parts=parts)


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["rows"]
        return [dict(row) for row in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _last(path: Path) -> str:
    """The answer of diff-codegen, which is its last paragraph, wrapped."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    return " ".join(text.rpartition("\n\n")[2].split())


def _write(folder: Path, result: Upgrade) -> None:
    replace(folder / RESULT, json.dumps(dataclasses.asdict(result), indent=1) + "\n")


def _note(text: str) -> None:
    sys.stdout.write(f"newest TileLang: {text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tilecheck.nightly.upgrade", allow_abbrev=False)
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wanted", default="auto")
    parser.add_argument("--index", default="")
    parser.add_argument("--arch", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--arguments", default="")
    return parser


if __name__ == "__main__":
    sys.exit(main(_parser().parse_args()))
