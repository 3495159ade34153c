"""A report out of the events of a run. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tilecheck.report.codec import WrongForm, from_plain
from tilecheck.report.journal import Event
from tilecheck.report.model import (
    BAD,
    DIED,
    SCHEMA,
    SECTIONS,
    Code,
    History,
    Kernel,
    Latency,
    Numerics,
    Report,
    Run,
    Search,
    Section,
    Test,
)

_WORST = {name: i for i, name in enumerate(("crashed", "failed", "error", "xpassed", "xfailed", "skipped"))}


@dataclass
class _State:
    head: Event = field(default_factory=dict)
    at: float = 0.0
    collected: float | None = None
    planned: dict[str, int] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)
    running: dict[str, tuple[float, Test]] = field(default_factory=dict)
    tests: dict[str, Test] = field(default_factory=dict)
    numerics: list[Numerics] = field(default_factory=list)
    code: dict[tuple[str, str], Code] = field(default_factory=dict)
    latency: list[Latency] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)
    ended: str = DIED
    exit: int | None = None


def assemble(events: Iterable[Event]) -> Report:
    """The report of one run.  Raises WrongForm where the events are not those of one."""
    state = _State()
    for event in events:
        try:
            _take(state, event)
        except (KeyError, TypeError, AttributeError) as error:
            raise WrongForm(f"event {event.get('event')!r}: {error!r}") from error
    if not state.head:
        raise WrongForm("the run did not get as far as saying what it is")
    if state.ended == DIED:
        for begun, test in state.running.values():
            _crashed(state, begun, test)
        state.running.clear()
    return _report(state)


def _take(state: _State, event: Event) -> None:
    kind = event.get("event")
    state.at = max(state.at, float(event.get("at", 0.0)))
    if kind == "head":
        state.head = event
    elif kind == "plan":
        state.collected = float(event["at"])
        state.planned = {str(name): int(count) for name, count in event["functions"].items()}
        state.sections = {str(name): str(section) for name, section in event["sections"].items()}
    elif kind == "begin":
        test = from_plain(Test, event["test"], "test")
        state.running[test.id] = float(event["at"]), test
    elif kind == "phase":
        _phase(state, event)
    elif kind == "end":
        state.ended, state.exit = str(event["ended"]), event["exit"]


def _phase(state: _State, event: Event) -> None:
    test = from_plain(Test, event["test"], "test")
    if event["when"] != "setup" or test.outcome != "passed":
        begun, _ = state.running.pop(test.id, (state.at, test))
        if not test.seconds and test.outcome in BAD:  # told by someone else, as its process has died
            test = replace(test, seconds=state.at - begun)
    before = state.tests.get(test.id)
    state.tests[test.id] = test if before is None else _joined(before, test)
    state.numerics += [from_plain(Numerics, each, "numerics") for each in event.get("numerics", ())]
    state.latency += [from_plain(Latency, each, "latency") for each in event.get("latency", ())]
    state.searches += [from_plain(Search, each, "searches") for each in event.get("searches", ())]
    for each in event.get("code", ()):
        code = from_plain(Code, each, "code")
        key = (code.row, code.arch)
        state.code[key] = _joined_code(state.code[key], code) if key in state.code else code


def _joined(before: Test, after: Test) -> Test:
    """Of two phases of a test: the worse outcome with its message, and the time of both."""
    worse = min(before, after, key=lambda test: _WORST.get(test.outcome, len(_WORST)))
    return replace(
        worse,
        seconds=before.seconds + after.seconds,
        section=before.section,
        kernel=before.kernel or after.kernel,
        case=before.case or after.case,
        schedule=before.schedule or after.schedule,
    )


def _joined_code(before: Code, after: Code) -> Code:
    """Landmarks and facts of one row are asked of by two tests."""
    words = "; ".join(dict.fromkeys(filter(None, (before.words, after.words))))
    return replace(
        after,
        landmarks=after.landmarks or before.landmarks,
        stored=after.stored or before.stored,
        error=after.error or before.error,
        expected=before.expected or after.expected,
        words=words,
        severity=after.severity if after.stored else before.severity,
        toolchain=after.toolchain or before.toolchain,
        facts=after.facts or before.facts,
    )


def _crashed(state: _State, begun: float, test: Test) -> None:
    before = state.tests.get(test.id)
    took = state.at - begun
    state.tests[test.id] = replace(test, seconds=took if before is None else before.seconds + took)


def function_of(id: str) -> str:
    """The function of a test, without the row."""
    return id.partition("[")[0]


def section_of_file(id: str) -> str:
    """The section that the name of a test's file tells, where nothing else does."""
    stem = id.partition("::")[0].replace("\\", "/").rpartition("/")[2].removesuffix(".py")
    name = stem.removeprefix("test_")
    return name if name in SECTIONS[1:] else "other"


def _report(state: _State) -> Report:
    head = state.head
    run = from_plain(Run, {**head["run"], "seconds": state.at}, "run")
    run = replace(
        run,
        ended=state.ended,
        exit=state.exit,
        sections=tuple(_sections(state)),
        under_way={
            test.id: state.at - begun
            for begun, test in sorted(state.running.values(), key=lambda each: each[0])
        },
    )
    return Report(
        schema=SCHEMA,
        tilecheck=str(head["tilecheck"]),
        project=str(head["project"]),
        runs=(run,),
        kernels=tuple(from_plain(Kernel, each, "kernels") for each in head["kernels"]),
        tests=tuple(state.tests.values()),
        numerics=tuple(state.numerics),
        code=tuple(state.code.values()),
        latency=tuple(state.latency),
        searches=tuple(state.searches),
        history=tuple(from_plain(History, each, "history") for each in head["history"]),
    )


def _sections(state: _State) -> Iterable[Section]:
    yield Section("environment", state.at if state.collected is None else state.collected)
    planned = _planned(state)
    for name in SECTIONS[1:]:
        took = sum(test.seconds for test in state.tests.values() if test.section == name)
        yield Section(name, took, None if state.collected is None else planned[name])


def _planned(state: _State) -> Counter[str]:
    """Tests that were selected, by section. Where workers collected, it shows in what came of a function."""
    learned = {function_of(test.id): test.section for test in state.tests.values()} | state.sections
    planned: Counter[str] = Counter()
    for function, count in state.planned.items():
        planned[learned.get(function) or section_of_file(function)] += count
    return planned
