"""What the kernels' files name, as far as the night wants to know it: read by a process of its own.

A file may end the process that imports it, or never end; the night has to outlive it, and say so.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tilecheck.project import Project, find_project
from tilecheck.versions import variables_of
from tilecheck.watch import asked

SECONDS = 300.0
"""To import all kernels, and torch and TileLang with them."""


@dataclass(frozen=True)
class Known:
    """tests: what pytest calls the test of a row, with the kernel and the case.
    rows: ids of cases whose code is looked at or that are timed.
    """

    tests: Mapping[str, tuple[str, str]]
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Suite:
    """What a night is of.  root: the project's folder.  known: what its specs name."""

    root: Path
    known: Known


def known(project: Project) -> Known:
    """What the project's specs name; raises ValueError, in one line."""
    command = [sys.executable, "-m", "tilecheck.nightly.known", str(project.root)]
    try:
        done = asked(command, "", project.root, variables_of(), SECONDS)
    except subprocess.TimeoutExpired:
        raise ValueError(
            f"{project.config}: tilecheck_specs: to import the kernels took longer than {SECONDS:g} s; "
            "does one of their files wait for something?"
        ) from None
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
        if "wrong" not in answer:
            tests = {test: (kernel, case) for test, (kernel, case) in answer["tests"].items()}
            return Known(tests, tuple(answer["rows"]))
    except (ValueError, IndexError, TypeError, KeyError):
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise ValueError(
            f"{project.config}: tilecheck_specs: the process that imports the kernels ended with exit code "
            f"{done.returncode}, without an answer: {said[-1]}"
        ) from None
    raise ValueError(answer["wrong"])


def of_specs(project: Project) -> Known:
    """The same, in this process."""
    specs = project.specs()
    tests = {spec.test_id(case): (spec.name, case.id) for spec in specs for case in spec.cases}
    ids = (id for spec in specs for id in (*(c.id for c in spec.cases_of_code), *spec.latency_cases))
    return Known(tests, tuple(dict.fromkeys(ids)))


def main(root: Path) -> None:
    """The process; what the kernels' files print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        answer = asdict(of_specs(find_project(root)))
    except ValueError as error:
        answer = {"wrong": str(error)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
