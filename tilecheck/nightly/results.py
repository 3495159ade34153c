"""What stages left behind, read back: pytest's JUnit files, reports, times."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilecheck.gist import wrong_line
from tilecheck.latency.baselines import BaselineError, read_run
from tilecheck.nightly.night import Checked, Failure, Time
from tilecheck.nightly.stages import NOTHING_SELECTED, Ended
from tilecheck.report.folder import ReportError, read
from tilecheck.report.model import BAD, Report
from tilecheck.report.overview import under_way

RIGHT = ("correctness", "schedules")
"""Sections of a report, and stages, that ask whether a kernel is right."""

_REPEAT = re.compile(r"^(?:E\s+)?repeat: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Junit:
    """What a JUnit file says.  counts: tests by outcome: passed, failed, skipped."""

    counts: Mapping[str, int]
    failures: tuple[Failure, ...]


class Rows:
    """Kernel and case of a test, by its id.  ids: `KernelSpec.test_id`, with the kernel and the case."""

    def __init__(self, ids: Mapping[str, tuple[str, str]]) -> None:
        self._ids = dict(sorted(ids.items(), key=lambda item: -len(item[0])))

    def find(self, test: str) -> tuple[str, str]:
        """("", "") for a test that is about none."""
        _, _, inside = test.partition("[")
        for id, row in self._ids.items():
            if re.search(rf"(?<![\w]){re.escape(id)}(?![\w])", inside):
                return row
        return "", ""


def read_junit(path: Path, stage: str, root: Path, rows: Rows, seed: int) -> Junit | None:
    """None: pytest did not get as far as writing the file. What is cut off is none, too.

    That pytest failed inside is none of its tests', and told by how the stage ended.
    """
    try:
        tree = ElementTree.parse(path)
    except (OSError, ElementTree.ParseError):
        return None
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failures = []
    for case in tree.iter("testcase"):
        if (case.get("classname"), case.get("name")) == ("pytest", "internal"):
            continue
        bad = [child for child in case if child.tag in ("failure", "error")]
        if not bad:
            counts["skipped" if case.find("skipped") is not None else "passed"] += 1
            continue
        counts["failed"] += 1
        test = _node_id(case, root)
        text = bad[0].text or ""
        kernel, of_case = rows.find(test)
        repeat = _REPEAT.findall(text)
        words = _telling_line(bad[0].get("message") or text)
        failures.append(
            Failure(
                stage=stage,
                test=test,
                kernel=kernel,
                case=of_case,
                words=words,
                repeat=repeat[-1].strip() if repeat else f'pytest "{test}" --tilecheck-seed={seed}',
            )
        )
    return Junit(counts, tuple(failures))


def of_tests(ended: Ended, folder: Path, arguments: Sequence[str]) -> Ended:
    """How a stage of tests ended: one that pytest passed, but in which no test ran, has answered nothing. One
    that hung says which tests it was at.

    folder: where pytest was to leave junit.xml and a report.  arguments: of the night, which may select no
    test of a stage.
    """
    if arguments and ended.codes == (NOTHING_SELECTED,):
        return replace(ended, state="skipped", words=f"{arguments[0]} selects none of it")
    if ended.state == "hung" and (told := _at_the_end(folder / "report")):
        return replace(ended, words=f"{ended.words}; under way: {told}")
    why = _without_a_test(folder / "junit.xml") if ended.state == "passed" else ""
    return replace(ended, state="broken", words=why) if why else ended


def _at_the_end(report: Path) -> str:
    """Which tests a run was at when it was ended, the longest first; "" where its report does not say."""
    found = read_report(report)
    return "; ".join(filter(None, map(under_way, found.runs))) if found else ""


def _without_a_test(junit: Path) -> str:
    """Why a run that pytest passed is no answer; "": it is one."""
    tested = read_junit(junit, "", Path(), Rows({}), 0)
    if tested is None:
        return "pytest left no junit.xml that can be read"
    if tested.counts["passed"] or tested.counts["failed"]:
        return ""
    skipped = tested.counts["skipped"]
    return f"no test ran{f': {skipped} skipped' if skipped else ''}"


def _node_id(case: ElementTree.Element, root: Path) -> str:
    """pytest's id of a test; the file has the class's name with slashes, as far as there is such a file."""
    classname, name = case.get("classname", ""), [case.get("name", "")]
    if not classname:  # a module that cannot be imported
        classname, name = name[0], []
    parts = classname.split(".")
    for end in range(len(parts), 0, -1):
        file = f"{'/'.join(parts[:end])}.py"
        if (root / file).is_file():
            return "::".join([file, *parts[end:], *name])
    return "::".join([classname, *name])


def _telling_line(text: str) -> str:
    """The first line of a message; of a wrong kernel the one that says in what, as its name is known."""
    lines = [line.removeprefix("E ").strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "no message"
    # The exception's type, where pytest writes it, says less than what it says.
    first = re.sub(r"^(\w+(\.\w+)+|\w+Error): ", "", lines[0])
    return wrong_line("\n".join(lines)) if " is wrong for " in first else first


def read_times(path: Path) -> tuple[dict[str, Time], str]:
    """Times by row, and why there are none: "" where there are."""
    try:
        run = read_run(path)
    except BaselineError as error:
        return {}, str(error)
    found = {}
    for id, row in run.rows.items():
        extra = row.raw.get("extra_info", {})
        found[id] = Time(
            median=row.median,
            method=row.method,
            clock_mhz=row.clock_mhz,
            vendor=str(extra.get("vendor") or ""),
            ratio=_number(extra.get("vendor_ratio")),
            verdict=row.verdict,
            kernel=str(extra.get("kernel") or ""),
        )
    return found, ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def with_bars(times: Mapping[str, Time], report: Report | None) -> dict[str, Time]:
    """Times with what they were compared with, which the stage's report knows."""
    known = {row.row: row for row in report.latency} if report else {}
    return {
        id: replace(time, old=known[id].old, band=known[id].band) if id in known else time
        for id, time in times.items()
    }


def read_report(folder: Path) -> Report | None:
    """The report of a stage, also of one that died; None: there is none that can be read."""
    try:
        return read(folder)
    except ReportError:
        return None


def checked(reports: Iterable[Report]) -> dict[str, Checked]:
    """How right each kernel is, by what the reports of the stages say that ask for it."""
    found: dict[str, Checked] = {}
    for report in reports:
        for test in report.tests:
            if test.kernel and test.section in RIGHT:
                before = found.setdefault(test.kernel, Checked())
                kind = "failed" if test.outcome in BAD else "passed" if test.outcome == "passed" else "other"
                found[test.kernel] = replace(before, **{kind: getattr(before, kind) + 1})
        for each in report.numerics:
            before = found.setdefault(each.kernel, Checked())
            if before.budget_used is None or each.budget_used > before.budget_used:
                found[each.kernel] = replace(before, budget_used=each.budget_used, row=each.row)
    return found
