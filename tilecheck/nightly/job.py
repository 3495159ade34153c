"""The night: guard, stages, and what is made of them."""

import dataclasses
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tilecheck.arches import ARCHES, DEFAULT_ARCH
from tilecheck.files import replace, user_cache
from tilecheck.git import GitError, git
from tilecheck.nightly import plan, upgrade
from tilecheck.nightly.asking import Unanswered, answer
from tilecheck.nightly.drift import drifts
from tilecheck.nightly.history import History, Past, series, trends
from tilecheck.nightly.known import Suite
from tilecheck.nightly.night import Failure, Night, Time, Upgraded
from tilecheck.nightly.plan import ON_GPU, ONLY_ON_GPU, TESTED, UNCONDITIONAL, Choice
from tilecheck.nightly.results import (
    RIGHT,
    Junit,
    Rows,
    checked,
    of_tests,
    read_junit,
    read_report,
    read_times,
    with_bars,
)
from tilecheck.nightly.stages import Ended, Stage, State, run_stage
from tilecheck.nightly.trendfile import read_history, write_trend
from tilecheck.nightly.triage import drift_lines, triage
from tilecheck.nightly.verdict import INTERRUPTED, NOTHING, TENS, exit_code
from tilecheck.nightly.words import Told, beside, lines, markdown, of_newest, upgrade_verdict
from tilecheck.processes import termination_interrupts, uninterrupted
from tilecheck.report.folder import PAGE, missing_extra
from tilecheck.versions import variables_of

SUMMARY, RESULT, TRENDS = "summary.md", "night.json", "trends.json"

KERNELS = "kernel-cache"
"""What TileLang compiles tonight; a folder of the night's."""

SIMULATED = "simulator"

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class _Begun:
    """When a night began, and of which sources.  commit, dirty: as `commit_of` says."""

    date: str
    commit: str
    dirty: bool


@dataclasses.dataclass(frozen=True)
class _Guarded:
    """What the guard found.  uuids: of the GPUs.  objections: why they are not to be used.
    untold: why the toolchain is not known; "" if it is.
    """

    gpu: str
    arch: str
    toolchain: Mapping[str, str]
    uuids: tuple[str, ...] = ()
    objections: tuple[str, ...] = ()
    untold: str = ""


def run_night(choice: Choice, suite: Suite, history: Path, say: Say) -> int:
    """Runs a night; its exit code.

    history: the folder of all nights.  say: told of each stage as it ends.

    All that is found lies in `choice.out` then: night.json, summary.md, trends.json, logs/, and a folder a
    stage; of them report/ has the page of all nights, this one included. That page is made when the night is
    on record, and only then does the first page of the report lead to it. If the night is killed before, the
    report is as its stage left it, without page and link; the page of the next night shows what is on record.
    """
    begun = _Begun(datetime.now(timezone.utc).isoformat(timespec="seconds"), *commit_of(suite.root))
    say(f"seed {choice.seed}; to repeat this night: --seed {choice.seed}")
    ended: list[Ended] = []
    interrupted = False
    guarded = _Guarded(SIMULATED if choice.simulate else choice.gpu, "", {})
    with ExitStack() as held, termination_interrupts():
        try:
            ended, guarded = _guard(choice, suite.root, say, held)
            _run_stages(choice, suite, guarded, ended, say)
            held.enter_context(uninterrupted())  # a whole night is known by now, and has to be written
        except KeyboardInterrupt:
            held.enter_context(uninterrupted())
            interrupted = True
            say("interrupted")
        for made in (choice.out / KERNELS, choice.folder("newest") / upgrade.KERNELS):
            shutil.rmtree(made, ignore_errors=True)  # no later night may use them, and they are large
        code = INTERRUPTED if interrupted else exit_code(ended)
        night, notes = _record(choice, suite, guarded, begun, ended, code)
        told = _conclude(choice, suite, history, night, ended, notes)
    for line in ("", *lines(told)):
        say(line)
    if code == 0 and not (choice.out / SUMMARY).exists():
        say(f"but nothing of it could be written (exit code {NOTHING})")
        return NOTHING
    return code


def _say_ended(each: Ended, say: Say) -> None:
    say(f"{each.name}: {each.state} after {each.seconds:.0f} s{f': {each.words}' if each.words else ''}")


# The stages


def _guard(choice: Choice, root: Path, say: Say, held: ExitStack) -> tuple[list[Ended], _Guarded]:
    if choice.simulate:
        return [], _unguarded(choice, root, SIMULATED, DEFAULT_ARCH)
    if not any(name == "guard" or name in ON_GPU + ONLY_ON_GPU for name in choice.stages):
        return [], _unguarded(choice, root, choice.gpu or "no-gpu", "")
    ended = run_stage(plan.guard(choice), choice.out / "logs", root, _variables(choice))
    found = _read_guard(choice)
    if ended.state == "failed" and found.objections:
        ended = dataclasses.replace(ended, words="; ".join(found.objections))
    if ended.state == "passed" and not found.uuids:
        ended = dataclasses.replace(ended, state="broken", words="it left no word of what it found")
    if ended.state == "passed":
        try:
            for uuid in found.uuids:
                held.enter_context(_lock(uuid))
        except Timeout:  # is an OSError, too
            ended = dataclasses.replace(ended, state="failed", words="another night runs on this GPU")
        except OSError as error:
            words = f"this GPU cannot be locked: {error}; is XDG_CACHE_HOME a folder that can be written?"
            ended = dataclasses.replace(ended, state="broken", words=words)
    _say_ended(ended, say)
    return [ended], found


def _read_guard(choice: Choice) -> _Guarded:
    try:
        found = json.loads(plan.guard_file(choice).read_text(encoding="utf-8"))
        gpus = found["gpus"]
        return _Guarded(
            gpu=str(gpus[0]["name"]) if gpus else choice.gpu,
            arch=str(found["arch"]),
            toolchain={str(name): str(version) for name, version in found["toolchain"].items()},
            uuids=tuple(str(gpu["uuid"]) for gpu in gpus),
            objections=tuple(map(str, found["objections"])),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return _Guarded(choice.gpu, "", {})


def _lock(uuid: str) -> FileLock:
    """Taken by one night at a time; entering it raises Timeout for the second."""
    folder = user_cache() / "gpus"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{uuid}.lock", timeout=0)


def _run_stages(choice: Choice, suite: Suite, guarded: _Guarded, ended: list[Ended], say: Say) -> None:
    """Runs all stages but the guard and adds each to `ended` as it ends: an interrupt loses none of them, and
    that which it ends is one of them.

    ended: the guard, if it ran.
    """
    refused = any(each.state != "passed" for each in ended)
    variables = _variables(choice)
    no_reports = _why_no_reports(choice.python, suite.root, variables)
    arch = guarded.arch if guarded.arch in ARCHES else ""
    for planned in plan.stages(choice, suite, arch, not no_reports, refused):
        # What the report is made of is known only when the others have ended.
        stage = plan.report(choice) if planned.name == "report" else planned
        each = _not_run(stage, choice, refused, no_reports, ended)
        if each is None:
            say(f"{stage.name}: begins, {stage.seconds:g} s at most")
            begun = time.monotonic()
            try:
                each = _run(stage, choice, suite.root, variables)
            except KeyboardInterrupt:
                taken = time.monotonic() - begun
                ended.append(Ended(stage.name, "interrupted", taken, gates=stage.gates))
                raise
        ended.append(each)
        _say_ended(each, say)


def _not_run(
    stage: Stage, choice: Choice, refused: bool, no_reports: str, before: Sequence[Ended]
) -> Ended | None:
    """Why a stage is not run; None: it is.

    refused: the guard lets nothing onto the GPU.  no_reports: why pytest writes none; "": it does.
    before: the stages that have ended.
    """

    def because(state: State, words: str) -> Ended:
        return Ended(stage.name, state, 0.0, words, gates=stage.gates)

    if choice.simulate and stage.name in ONLY_ON_GPU:
        return because("skipped", "needs a GPU")
    if refused and stage.name in ON_GPU and stage.name not in UNCONDITIONAL:
        return because("refused", "the guard does not let it run")
    if stage.name == "newest" and choice.newest == "off":
        return because("skipped", "not asked for")
    if stage.name == "report" and no_reports:
        return because("broken", no_reports)
    if stage.name == "report" and not stage.steps:
        tested = any(each.name in TESTED and each.state not in ("skipped", "refused") for each in before)
        return because("broken" if tested else "skipped", "no stage has left a report")
    return None


def _run(stage: Stage, choice: Choice, root: Path, variables: Mapping[str, str]) -> Ended:
    ended = run_stage(stage, choice.out / "logs", root, variables)
    if stage.name in TESTED:
        return of_tests(ended, choice.folder(stage.name), choice.arguments)
    if stage.name == "newest":
        return of_newest(ended, upgrade.read(choice.folder("newest")))
    if stage.name == "report" and ended.state == "passed" and not (choice.folder("report") / PAGE).exists():
        return dataclasses.replace(ended, state="broken", words=f"tilecheck report left no {PAGE}")
    return ended


def _variables(choice: Choice) -> dict[str, str]:
    """Of each stage: its kernels are compiled tonight, and no option of pytest's is added to ours."""
    given = {name: value for name, value in variables_of().items() if name != "PYTEST_ADDOPTS"}
    return {**given, "TILELANG_CACHE_DIR": str(choice.out / KERNELS), "PYTHONUNBUFFERED": "1"}


def _why_no_reports(python: str, root: Path, variables: Mapping[str, str]) -> str:
    """Why pytest writes none here, in one line; "": it does."""
    try:
        said = answer([python, "-m", "pytest", "--help"], root, variables).stdout
    except Unanswered as error:
        return f"pytest does not say whether it can write reports: {error}"
    if "--tilecheck-report" in said:
        return ""
    # It helps, too, where it could not load a conftest.py, which may be what brings the option.
    unloaded = re.search(r"could not load .*", said)
    return f"pytest has no option --tilecheck-report here{f': it {unloaded[0]}' if unloaded else ''}"


def _unguarded(choice: Choice, root: Path, gpu: str, arch: str) -> _Guarded:
    """What the guard would tell besides of the GPU, which nothing is going to use."""
    code = "import json; from tilecheck.nightly.guard import toolchain; print(json.dumps(toolchain()))"
    try:
        said = answer([choice.python, "-c", code], root, variables_of()).stdout
        return _Guarded(gpu, arch, dict(json.loads(said.splitlines()[-1])))
    except Unanswered as error:
        why = str(error)
    except (ValueError, IndexError, TypeError):
        why = "the process that reads them said something else"
    return _Guarded(gpu, arch, {}, untold=f"no versions of the toolchain are known: {why}")


# What is made of them


def _record(
    choice: Choice,
    suite: Suite,
    guarded: _Guarded,
    begun: _Begun,
    ended: Sequence[Ended],
    code: int,
) -> tuple[Night, list[str]]:
    """The night as the history will have it, but for what the history is needed for; and notes on it."""
    states = {each.name: each.state for each in ended}
    notes = [guarded.untold] if guarded.untold else []
    failures: list[Failure] = []
    for name in TESTED:
        tested = _tested(choice, suite, name)
        if tested is not None:
            failures += tested.failures
        elif states.get(name) in TENS:
            notes.append(f"{name}: pytest left no results; {choice.out / 'logs' / name}.log has its output")
    times: dict[str, Time] = {}
    if plan.times_file(choice).exists():
        times, why = read_times(plan.times_file(choice))
        if why:
            notes.append(why)
        times = with_bars(times, read_report(choice.folder("latency") / "report"))
    reports = [read_report(choice.folder(name) / "report") for name in RIGHT]
    if changed := _changed_since(begun, suite.root):
        notes.append(changed)
    night = Night(
        date=begun.date,
        gpu=guarded.gpu,
        seed=choice.seed,
        exit_code=code,
        commit=begun.commit,
        dirty=begun.dirty or bool(changed),
        arch=guarded.arch,
        toolchain=dict(guarded.toolchain),
        stages=states,
        seconds={each.name: round(each.seconds, 1) for each in ended},
        failures=tuple(failures),
        times=times,
        kernels=checked(report for report in reports if report),
        arguments=choice.arguments,
    )
    return night, notes


def _tested(choice: Choice, suite: Suite, name: str) -> Junit | None:
    """What pytest left of a stage."""
    rows = Rows(suite.known.tests)
    return read_junit(choice.folder(name) / "junit.xml", name, suite.root, rows, choice.seed)


def commit_of(root: Path) -> tuple[str, bool]:
    """The commit of the working tree, and whether files of it were changed since, or Python files are there
    that it does not have; "" where git tells none.
    """
    try:
        commit = git(root, "rev-parse", "HEAD")
        changed = git(root, "status", "--porcelain", "--untracked-files=no")
        new = git(root, "ls-files", "--others", "--exclude-standard", "--", "*.py", ":(exclude)nights/")
        return commit, bool(changed or new)
    except GitError:
        return "", False


def _changed_since(begun: _Begun, root: Path) -> str:
    """What became of the sources while the night ran; "" if nothing did."""
    commit, dirty = commit_of(root)
    if commit != begun.commit:
        return f"the commit was {begun.commit[:10]} when the night began, and is {commit[:10]} at its end"
    return "files were changed while the night ran" if dirty and not begun.dirty else ""


def _conclude(
    choice: Choice,
    suite: Suite,
    folder: Path,
    night: Night,
    ended: Sequence[Ended],
    notes: Sequence[str],
) -> Told:
    """Reads the history, says what tonight means, writes it all down, and adds tonight to the history.

    What cannot be had again is written first: the page of all nights, which takes long where there are many,
    can be made of the history at any time.
    """
    history, notes = History(folder, night.gpu), list(notes)
    try:
        past = history.read()
    except OSError as error:
        past = Past((), (f"the history cannot be read: {error}",))
    notes += past.told
    found = upgrade.read(choice.folder("newest")) if "newest" in choice.stages else None
    if found:
        night = dataclasses.replace(night, newest=found.words, upgrade=_upgraded(found))
    night = _with_facts(choice, history, night, notes)
    nights = [*past.nights, night]
    findings = triage(night, past.nights, history.facts, suite.root)
    ratios = series(nights, "ratio")
    told = Told(
        night=night,
        ended=ended,
        findings=findings,
        upgrade=found,
        beside=beside(_tested(choice, suite, "correctness"), _tested(choice, suite, "newest")),
        drifting=drift_lines(drifts(series(nights)), drifts(ratios), ratios),
        nights=len(past.nights),
        notes=notes,
    )
    with _noted(notes):
        _write(choice, told)
    try:
        history.append(night)
    except OSError as error:
        notes.append(f"the history was not written: {error}")
    with _noted(notes):
        replace(choice.out / TRENDS, json.dumps(trends(nights)) + "\n")
    if "report" in choice.stages:
        notes += _draw(folder, choice.folder("report"), suite.root.name)
    with _noted(notes):
        _write(choice, told)  # with the notes on what came last
    return told


@contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """What of the night's folder cannot be written, as on a full disk, must cost nothing else."""
    try:
        yield
    except OSError as error:
        note = f"the night's folder was not written: {error.strerror or error}"
        if note not in notes:
            notes.append(note)


def _upgraded(found: upgrade.Upgrade) -> Upgraded | None:
    if not found.version:
        return None
    return Upgraded(found.pinned, found.version, upgrade_verdict(found), found.states)


def _draw(history: Path, out: Path, project: str) -> list[str]:
    """Makes the page of all nights, now that this one is on record; why not, as notes."""
    if missing := missing_extra():
        return [f"the page of all nights was not made: {missing}"]
    try:
        write_trend(read_history(history), out, project)
    except Exception as error:  # whatever drawing raises costs a page, and not the night
        return [f"the page of all nights was not made: {type(error).__name__}: {error}"]
    return []


def _with_facts(choice: Choice, history: History, night: Night, notes: list[str]) -> Night:
    try:
        text = plan.facts_file(choice).read_text(encoding="utf-8")
        if not text:  # it did not get as far, which the stage says
            return night
        json.loads(text)
        return dataclasses.replace(night, facts=history.keep_facts(text))
    except FileNotFoundError:
        return night
    except (OSError, ValueError) as error:
        if "codegen" in choice.stages:
            notes.append(f"what kernels compile to was not kept: {error}")
        return night


def _write(choice: Choice, told: Told) -> None:
    content: dict[str, Any] = {
        **told.night.as_json(),
        "ended": [dataclasses.asdict(each) for each in told.ended],
        "findings": [dataclasses.asdict(finding) for finding in told.findings],
        "upgrade": dataclasses.asdict(told.upgrade) if told.upgrade else None,
        "drifting": list(told.drifting),
        "notes": list(told.notes),
    }
    replace(choice.out / RESULT, json.dumps(content, indent=1) + "\n")
    replace(choice.out / SUMMARY, markdown(told, _summary_of(choice.folder("report"))))


def _summary_of(report: Path) -> str:
    try:
        return (report / "summary.md").read_text(encoding="utf-8")
    except OSError:
        return ""
