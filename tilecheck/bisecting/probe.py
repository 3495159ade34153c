"""One candidate: a kernel and a case of one commit, under one TileLang, asked in a process of its own.

The kernels are those of the candidate, the harness is this one. The child (`ask` starts it) takes a task from
standard input and gives one answer, as JSON.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tilecheck.arches import DEFAULT_ARCH
from tilecheck.watch import asked

By = Literal["correctness", "facts"]

Kind = Literal["right", "wrong", "no build", "crashed", "hung", "absent", "no answer"]
"""no build: it is not to be imported, traced or compiled.  crashed: its process died, as of SIGSEGV.
absent: there is no such kernel or case.  no answer: its TileLang cannot be had, or somebody ended its
process, as the system does where memory is short: the candidate is not to blame.
"""

UNASKED: tuple[Kind, ...] = ("absent", "no answer")
"""Replies that tell nothing of the case; with one at an end there is nothing to search for."""

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

_CHILD = "import sys; del sys.path[0]; from tilecheck.bisecting.probe import main; main()"


@dataclass(frozen=True)
class Question:
    """device: "simulator" or "cuda".  arch: whose schedules or code; of the GPU, for "cuda"."""

    kernel: str
    case: str
    by: By
    device: str = "simulator"
    arch: str = DEFAULT_ARCH
    seed: int = 0


@dataclass(frozen=True)
class Reply:
    """words: why it is not right, in one line.  facts: `Facts` as JSON, where these were asked for."""

    kind: Kind
    words: str = ""
    facts: Mapping[str, Any] | None = None


def ask(question: Question, root: Path, python: Path, variables: Mapping[str, str], seconds: float) -> Reply:
    """The reply of the project in `root`.  python, variables: of the child.  seconds: it may take."""
    task = json.dumps({**asdict(question), "root": str(root)})
    try:
        done = asked([str(python), "-c", _CHILD], task, root, variables, seconds)
    except subprocess.TimeoutExpired:
        return Reply("hung", f"took longer than {seconds:g} s")
    try:
        return Reply(**json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        return _silent(done.returncode, done.stderr)


def _silent(code: int, errors: str) -> Reply:
    """Of a process that ended without an answer."""
    said = [line.strip() for line in errors.splitlines() if line.strip()] or ["it said nothing"]
    if code >= 0:
        return Reply("no build", f"its process ended with exit code {code}: {said[-1]}")
    how = signal.Signals(-code)
    if how in _FROM_OUTSIDE:
        return Reply("no answer", f"its process was ended by {how.name}; is memory short?")
    return Reply("crashed", f"its process died of {how.name}: {said[-1]}")


def main() -> None:
    """The child; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    task = json.load(sys.stdin)
    root = Path(task.pop("root"))
    answers.write(json.dumps(asdict(reply_of(Question(**task), root))) + "\n")
    answers.flush()


def reply_of(question: Question, root: Path) -> Reply:
    """In this process."""
    from tilecheck.gist import gist
    from tilecheck.project import find_project

    try:
        specs = find_project(root).specs()
    except Exception as error:
        return Reply("no build", gist(error))  # whatever a kernel's file raises when it is imported
    spec = next((spec for spec in specs if spec.name == question.kernel), None)
    case = next((case for case in spec.cases if case.id == question.case), None) if spec else None
    if spec is None or case is None:
        what = f"case {question.case!r} of " if spec else ""
        return Reply("absent", f"there is no {what}kernel {question.kernel!r}")
    try:
        return _facts(spec, case, question) if question.by == "facts" else _checked(spec, case, question)
    except Exception as error:
        return Reply("no build", gist(error))


def _checked(spec: Any, case: Any, question: Question) -> Reply:
    from tilecheck.arches import arch
    from tilecheck.conformance import Mismatch, check
    from tilecheck.device import Simulator
    from tilecheck.gist import wrong_line

    if question.device == "simulator":
        try:
            check(spec, case, Simulator(arch(question.arch)), seed=question.seed)
        except Mismatch as error:
            return Reply("wrong", wrong_line(str(error)))
        return Reply("right")

    from tilecheck.launch import Cuda, LaunchError

    try:
        check(spec, case, Cuda(), seed=question.seed)
    except (Mismatch, LaunchError) as error:
        return Reply("wrong", wrong_line(str(error)))
    return Reply("right")


def _facts(spec: Any, case: Any, question: Question) -> Reply:
    from tilecheck.arches import arch
    from tilecheck.codegen import facts_of
    from tilecheck.program import build_program

    return Reply("right", facts=facts_of(build_program(spec, case, arch(question.arch))).as_json())
