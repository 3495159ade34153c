"""Which stages there are, what each runs, and how long each may take."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tilecheck.nightly.known import Known, Suite
from tilecheck.nightly.stages import Stage, Step

LIMITS = {
    "guard": 120.0,
    "doctor": 300.0,
    "latency": 900.0,
    "correctness": 900.0,
    "schedules": 600.0,
    "sanitizer": 900.0,
    "codegen": 600.0,
    "newest": 1800.0,
    "report": 300.0,
}
"""The stages in their order, and the seconds that each may take."""

ON_GPU = ("doctor", "latency", "correctness", "schedules", "sanitizer", "newest")
"""Those that want the guard's leave."""

UNCONDITIONAL = ("doctor",)
"""Those of them that run without it, too, and then leave the GPU alone: they may explain why."""

TESTED = ("latency", "correctness", "schedules", "sanitizer", "codegen")
"""Those that are runs of pytest."""

ONLY_ON_GPU = ("guard", "latency", "sanitizer")
"""Those that mean nothing without a GPU."""

SCHEDULES = "test_schedules.py"
"""The module of the schedules, which are a stage of their own."""


@dataclass(frozen=True)
class Choice:
    """What was asked for.

    python: that runs the stages.  out: the night's folder.
    gpu: the model that is expected; "" with `simulate`.
    seed: of all tests.  stages: by name.  limits: seconds that differ from `LIMITS`.
    simulate: there is no GPU; kernels run on the simulator.
    newest: "auto", a version, or "off".  index: the page of TileLang's nightly builds; "": none.
    newest_gates: whether the newest TileLang can turn the night red.
    arguments: more of them for pytest, in all stages that test, as `-k softmax`.
    """

    python: str
    out: Path
    gpu: str
    seed: int
    stages: tuple[str, ...] = tuple(LIMITS)
    limits: dict[str, float] = field(default_factory=dict)
    simulate: bool = False
    newest: str = "auto"
    index: str = ""
    newest_gates: bool = False
    arguments: tuple[str, ...] = ()

    def seconds(self, stage: str) -> float:
        return self.limits.get(stage, LIMITS[stage])

    def folder(self, stage: str) -> Path:
        return self.out / stage


def guard(choice: Choice) -> Stage:
    command = (choice.python, "-m", "tilecheck.nightly.guard", choice.gpu, str(guard_file(choice)))
    return _stage(choice, "guard", Step(command))


def guard_file(choice: Choice) -> Path:
    """What the guard finds."""
    return choice.folder("guard") / "guard.json"


def times_file(choice: Choice) -> Path:
    """The night's times, as pytest-benchmark writes them."""
    return choice.folder("latency") / "run.json"


def facts_file(choice: Choice) -> Path:
    """What the kernels compile to."""
    return choice.folder("codegen") / "facts.json"


def stages(choice: Choice, suite: Suite, arch: str, reports: bool, refused: bool = False) -> list[Stage]:
    """All but the guard, in their order.

    arch: of the GPU, whose code is recorded.  reports: whether pytest has `--tilecheck-report`.
    refused: the guard does not let them onto the GPU.
    """
    made: dict[str, Callable[[], Stage]] = {
        "doctor": lambda: _doctor(choice, refused),
        "latency": lambda: _latency(choice, reports),
        "correctness": lambda: _correctness(choice, reports),
        "schedules": lambda: _schedules(choice, suite.root, reports),
        "sanitizer": lambda: _stage(
            choice, "sanitizer", _pytest(choice, "sanitizer", reports, "-m", "sanitizer", "-n", "auto")
        ),
        "codegen": lambda: _codegen(choice, suite.known, arch, reports),
        "newest": lambda: _newest(choice, suite.root, arch),
        "report": lambda: report(choice),
    }
    return [make() for name, make in made.items() if name in choice.stages]


def pytest_command(
    choice: Choice, python: str, folder: Path, *arguments: str, report: bool = False
) -> tuple[str, ...]:
    """pytest on this night's device and seed; what it found goes into `folder`/junit.xml."""
    device = ["--tilecheck-device=simulator"] if choice.simulate else ["--tilecheck-require-gpu"]
    return (
        python,
        "-m",
        "pytest",
        *arguments,
        *device,
        f"--tilecheck-seed={choice.seed}",
        f"--junit-xml={folder / 'junit.xml'}",
        *([f"--tilecheck-report={folder / 'report'}"] if report else []),
        *choice.arguments,
    )


CORRECTNESS = ("-m", "correctness", f"--ignore-glob=*/{SCHEDULES}", "-n", "auto")


def _pytest(choice: Choice, name: str, reports: bool, *arguments: str) -> Step:
    folder = choice.folder(name)
    return Step(pytest_command(choice, choice.python, folder, *arguments, report=reports))


def _stage(choice: Choice, name: str, *steps: Step, gates: bool = True) -> Stage:
    return Stage(name, steps, choice.seconds(name), gates)


def _doctor(choice: Choice, refused: bool) -> Stage:
    required = () if choice.simulate else ("--no-launch",) if refused else ("--require-gpu",)
    return _stage(choice, "doctor", Step((choice.python, "-m", "tilecheck", "doctor", *required)))


def _latency(choice: Choice, reports: bool) -> Stage:
    step = _pytest(
        choice,
        "latency",
        reports,
        "--benchmark-compare",
        "-m",
        "latency",
        "--tilecheck-gate=strict",
        f"--benchmark-json={times_file(choice)}",
    )
    return _stage(choice, "latency", step)


def _correctness(choice: Choice, reports: bool) -> Stage:
    return _stage(choice, "correctness", _pytest(choice, "correctness", reports, *CORRECTNESS))


def _schedules(choice: Choice, root: Path, reports: bool) -> Stage:
    found = [
        str(path.relative_to(root))
        for path in sorted(root.rglob(SCHEDULES))
        if not any(part.startswith(".") for part in path.relative_to(root).parts)
        and not path.is_relative_to(choice.out)
    ]
    arguments = ("-m", "correctness", "-n", "auto", *(found or [SCHEDULES]))
    return _stage(choice, "schedules", _pytest(choice, "schedules", reports, *arguments))


def _codegen(choice: Choice, known: Known, arch: str, reports: bool) -> Stage:
    folder = choice.folder("codegen")
    test = (
        choice.python,
        "-m",
        "pytest",
        "-m",
        "codegen",
        "-n",
        "auto",
        f"--junit-xml={folder / 'junit.xml'}",
    )
    report = (f"--tilecheck-report={folder / 'report'}",) if reports else ()
    steps = [Step((*test, *report, *choice.arguments))]
    if arch and not choice.arguments:  # of all rows, or else a later night would miss the others
        steps.append(Step(facts_command(choice.python, known, arch), out=facts_file(choice)))
    return _stage(choice, "codegen", *steps)


def facts_command(python: str, known: Known, arch: str) -> tuple[str, ...]:
    """What the compiler makes of all rows that are looked at or timed; as JSON."""
    return (python, "-m", "tilecheck", "facts", "--arch", arch, "--json", "--case", *known.rows)


def _newest(choice: Choice, root: Path, arch: str) -> Stage:
    command = [
        *(choice.python, "-m", "tilecheck.nightly.upgrade", str(root), str(choice.folder("newest"))),
        *(f"--wanted={choice.newest}", f"--index={choice.index}", f"--arch={arch}", f"--seed={choice.seed}"),
        *(f"--seconds={choice.seconds('newest')}",),
        *(["--simulate"] if choice.simulate else []),
        f"--arguments={shlex.join(choice.arguments)}",
    ]
    return _stage(choice, "newest", Step(tuple(command)), gates=choice.newest_gates)


def report(choice: Choice) -> Stage:
    """One report of all that the stages have written by now; without steps if none has.

    It has no page of the nights: this one is not among them before it has ended.
    """
    folders = [choice.folder(name) / "report" for name in TESTED if name in choice.stages]
    found = [str(folder) for folder in folders if folder.is_dir()]
    command = (choice.python, "-m", "tilecheck", "report", *found, "--out", str(choice.folder("report")))
    # 1: it is written, and says that tests failed, which their own stages have said.
    steps = (Step(command, fine=(1,)),) if found else ()
    return _stage(choice, "report", *steps)
