"""With `--report DIR`: writes down what a run finds as it goes, and makes the report when it ends.

Only the process that the user started does; xdist's workers hand on their results as pytest's reports.
"""

import json
import os
import textwrap
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tilecheck import __version__
from tilecheck.files import shown
from tilecheck.gist import gist
from tilecheck.plugin.carried import carried, carried_by_call, reason_of_skip
from tilecheck.plugin.checking import records
from tilecheck.plugin.code.checking import FACTS, code_records
from tilecheck.plugin.options import option, spelling
from tilecheck.plugin.repeat import from_here, quoted, repeat_command, test_command
from tilecheck.plugin.reportplaces import Place, place_of, section_of
from tilecheck.plugin.runfolder import is_worker
from tilecheck.plugin.runwords import head_of, rows_by_test_id
from tilecheck.plugin.selection import active, selection
from tilecheck.plugin.timing.stopwatch import latency_records
from tilecheck.plugin.tuning import SEARCHED
from tilecheck.report import folder as files
from tilecheck.report.assembly import assemble, function_of, section_of_file
from tilecheck.report.journal import Journal
from tilecheck.report.model import DIED, Code, Latency, Numerics, Search, Test
from tilecheck.report.watch import Watcher

_SHORT = 0.05
"""Seconds under which a set-up or a tear-down that passed is not worth a line."""

_MISMATCH = "tilecheck.conformance.Mismatch: "

_LONGEST = 20_000
"""Characters of a message that are kept: its head and its tail."""


@pytest.hookimpl(tryfirst=True)  # before what may refuse the run: that is told, too
def pytest_configure(config: pytest.Config) -> None:
    given = option(config, "report")
    if given is None or is_worker(config) or not _runs_tests(config):
        return
    asked = spelling(config, "report")
    if not active(config):
        raise pytest.UsageError(f"{asked}: there is nothing to report on: tilecheck_specs names no specs")
    if missing := files.missing_extra():
        raise pytest.UsageError(f"{asked}: {missing}")
    if not given:  # as of a variable that is not set; it must not mean the current folder
        raise pytest.UsageError(f"{asked} names no folder")
    # As pytest's own options have it: no shell expands the ~ of `--report=~/out`.
    folder = (config.invocation_params.dir / os.path.expanduser(given)).resolve()
    try:
        files.prepare(folder)
    except files.ReportError as error:
        raise pytest.UsageError(f"{asked}: {error}") from error
    config.pluginmanager.register(Reporter(config, folder), "tilecheck.reporter")


class Reporter:
    """Watches one run for the sake of its report."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._start = time.monotonic()
        self._started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._journal = Journal(folder)
        self._watcher = _watcher(folder)
        self._ended = "refused before it began; its output says why"
        self._said: list[str] = []
        self._written = False
        self._headed = False
        self._rows: Mapping[str, tuple[str, str]] = {}
        self._places: dict[str, Place] = {}
        self._planned = False

    # The run

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionstart(self) -> Generator[None, Any, Any]:
        try:
            result = yield
        except pytest.UsageError as error:
            self._ended = _refused(error)
            raise
        self._ended = "complete"
        self._head()
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        except pytest.UsageError as error:
            self._ended = _refused(error)
            raise

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items or not _distributed(self._config):
            self._places = {item.nodeid: place for item in session.items if (place := place_of(item))}
            self._plan(
                [item.nodeid for item in session.items],
                {function_of(item.nodeid): section_of(item) for item in session.items},
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        if not self._planned:  # each worker collects the same
            self._planned = True
            self._plan(ids, {})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # As it would be told if nothing more came of it.
        place = self._places.get(nodeid) or self._place_by_id(nodeid)
        command = test_command if place.section == "codegen" else repeat_command
        self._add(
            "begin",
            test=Test(
                id=nodeid,
                section=place.section,
                outcome="crashed",
                seconds=0.0,
                kernel=place.kernel,
                case=place.case,
                schedule=place.schedule,
                message=f"{DIED} while this test was under way",
                repeat=command(self._config, nodeid),
            ),
        )

    def pytest_runtest_logreport(self, report: Any) -> None:
        outcome = _outcome(report)
        if report.when in ("setup", "teardown") and outcome == "passed" and report.duration < _SHORT:
            return
        place = place_of(report) or self._place_by_id(report.nodeid)
        self._add(
            "phase",
            when=report.when,
            test=self._test(report, outcome, place),
            numerics=list(_numerics(report, place)),
            code=list(_code(report, place)),
            latency=list(_latency(report, place, self._config)),
            searches=list(_searches(report, place)),
        )

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            place = Place(section_of_file(report.nodeid))
            test = self._test(report, "error", place)
            file = from_here(self._config, report.nodeid.partition("::")[0])
            self._add(
                "phase", when="collect", test=replace(test, repeat=f"pytest {quoted(file)} --collect-only")
            )

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self._ended = "interrupted" if excinfo.errisinstance(KeyboardInterrupt) else str(excinfo.value)

    def pytest_internalerror(self, excrepr: Any) -> None:
        lines = str(excrepr).strip().splitlines() or ["no message"]
        self._ended = f"internal error: {lines[-1].removeprefix('E').strip()}"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        stopped = session.shouldfail or session.shouldstop
        if stopped and self._ended == "complete":
            self._ended = str(stopped)
        self._finish(int(session.exitstatus if session.exitstatus is not None else exitstatus))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._said:
            terminalreporter.write_line(f"tilecheck report: {line}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        if not self._written:  # refused before it began
            self._finish(int(pytest.ExitCode.USAGE_ERROR))

    # Events

    def _head(self) -> None:
        if not self._headed:
            self._headed = True
            self._rows = rows_by_test_id(self._config)
            self._add("head", **head_of(self._config, self._started))

    def _plan(self, ids: Iterable[str], sections: Mapping[str, str]) -> None:
        self._add("plan", functions=dict(Counter(map(function_of, ids))), sections=sections)

    def _add(self, event: str, **values: Any) -> None:
        if not self._written:
            self._journal.add(event, time.monotonic() - self._start, **values)

    def _finish(self, code: int) -> None:
        if self._written:
            return
        if not self._headed:
            self._journal.add("head", 0.0, tilecheck=__version__, **_bare(self._config, self._started))
        self._add("end", exit=code, ended=self._ended)
        self._written = True
        self._journal.close()
        try:
            files.write(assemble(self._journal.events), self._folder)
            self._said.append(shown(self._folder / files.PAGE))
        except files.ReportError as error:
            self._said.append(str(error))
        except Exception as error:  # the tests' results must not be lost for the sake of a plot
            self._said.append(f"{shown(self._folder / files.PAGE)} was not written: {gist(error)}")
        if self._watcher is not None:
            self._watcher.dismiss()

    # Tests

    def _place_by_id(self, id: str) -> Place:
        """The place of a test that a process took with it when it died, as far as its id tells."""
        row = id.partition("[")[2].removesuffix("]")
        kernel, case = self._rows.get(row, ("", ""))
        return Place(section_of_file(id), kernel, case, row)

    def _test(self, report: Any, outcome: str, place: Place) -> Test:
        message, repeat = _message(report, outcome)
        return Test(
            id=report.nodeid,
            section=place.section,
            outcome=outcome,
            seconds=float(getattr(report, "duration", 0.0)),
            kernel=place.kernel,
            case=place.case,
            schedule=place.schedule,
            message=message,
            repeat=repeat,
        )


def _watcher(folder: Path) -> Watcher | None:
    try:
        return Watcher(folder)
    except OSError:  # no process more, and the tests need none
        return None


def _runs_tests(config: pytest.Config) -> bool:
    """Whether this is a run, and not a question to pytest."""
    others = (
        "help",
        "version",
        "collectonly",
        "markers",
        "showfixtures",
        "show_fixtures_per_test",
        "cacheshow",
    )
    return not any(getattr(config.option, name, False) for name in others)


def _refused(error: pytest.UsageError) -> str:
    return f"refused: {'; '.join(map(str, error.args))}"


def _distributed(config: pytest.Config) -> bool:
    return config.pluginmanager.has_plugin("dsession")


def _bare(config: pytest.Config, started: str) -> dict[str, Any]:
    """The head of a run that was refused before anything was known of it."""
    run = {"started": started, "seconds": 0.0, "ended": "", "exit": None}
    return {"project": config.rootpath.name, "run": run, "kernels": [], "history": []}


def _outcome(report: Any) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed:
        return "error" if report.when in ("setup", "teardown") else "failed"
    return "skipped" if report.skipped else "passed"


def _message(report: Any, outcome: str) -> tuple[str, str]:
    """What a test has to say, and the command that repeats it."""
    if outcome == "passed":
        return "", ""
    if outcome in ("xfailed", "xpassed"):
        return str(report.wasxfail), ""
    if outcome == "skipped":
        return reason_of_skip(report).removeprefix("Skipped: "), ""
    text = str(report.longrepr or "no message").strip()
    told = [text, *(content for title, content in getattr(report, "sections", ()) if title == "repeat")]
    commands = [
        line.partition("repeat: ")[2] for part in told for line in part.splitlines() if "repeat: " in line
    ]
    return _shortened(_without_frames(text)), commands[-1].strip() if commands else ""


def _without_frames(text: str) -> str:
    """The message alone, where the frames above it only show a test that asks for a check."""
    marked = [line[1:] for line in text.splitlines() if line.startswith("E ")]
    message = textwrap.dedent("\n".join(marked))
    return message.removeprefix(_MISMATCH) if message.startswith(_MISMATCH) else text


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _numerics(report: Any, place: Place) -> Iterator[Numerics]:
    for found in records([report]):
        yield Numerics(
            test=report.nodeid,
            section=place.section,
            kernel=found.kernel,
            row=found.case,
            dtype=found.dtype,
            device=found.device,
            arch=found.arch,
            budget_used=found.budget_used,
            terms_used=found.terms_used,
            max_abs_error=found.max_abs_error,
            relative_error=found.relative_error,
            empirical=found.empirical,
            case=place.case,
            schedule=place.schedule,
        )


def _code(report: Any, place: Place) -> Iterator[Code]:
    facts = next(map(json.loads, carried(report, FACTS)), None)
    for found in code_records(report):
        failed = found.finding in ("compile error", "no compiler")
        yield Code(
            row=found.row,
            kernel=place.kernel,
            case=place.case,
            arch=found.arch,
            landmarks=found.finding if found.finding in ("kept", "broken") else "",
            stored=found.finding if found.finding in ("same", "source", "changed", "new") else "",
            error=found.words or found.finding if failed else "",
            expected=found.expected,
            words="" if failed else found.words,
            severity=found.severity,
            toolchain=found.toolchain,
            facts=facts,
        )


def _latency(report: Any, place: Place, config: pytest.Config) -> Iterator[Latency]:
    gpu = ""
    for found in latency_records([report]):
        if not gpu and not selection(config).simulated:
            from tilecheck.latency import bench

            gpu = bench.gpu_name()
        yield Latency(
            row=found.row,
            kernel=place.kernel,
            case=place.case,
            gpu=gpu,
            median=found.median,
            q1=found.q1,
            q3=found.q3,
            samples=found.samples,
            method=found.method,
            clock_mhz=found.clock_mhz,
            vendors=found.vendors,
            vendor=found.vendor,
            ratio=found.ratio,
            tflops=found.tflops,
            gbs=found.gbs,
            roofline=found.roofline,
            peak_flops=found.peak_flops,
            peak_bytes=found.peak_bytes,
            verdict=found.verdict,
            old=found.old,
            change=found.change,
            band=found.band,
            smallest=found.smallest,
            words=found.words,
            toolchain=found.toolchain,
            schedule=found.schedule,
        )


def _searches(report: Any, place: Place) -> Iterator[Search]:
    for text in carried_by_call(report, SEARCHED):
        yield Search(report.nodeid, place.kernel, place.case, text)
