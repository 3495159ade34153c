"""What `pytest --report DIR` writes, in a small project whose checks are stand-ins, however the run ends."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilecheck
from tests.harness.report import preload

# What the project's conftest replaces has to be what pytester's runs see: see test_plugin.py.
from tilecheck import conformance, environment, launch  # noqa: F401
from tilecheck.environment import Machine
from tilecheck.report import folder, page
from tilecheck.report.model import Report
from tilecheck.report.overview import headline, sections

preload.needed()

BARE = Machine(torch="2.13.0+cpu", no_driver="NVML: Driver Not Loaded")

SPECS = '''
"""Scales rows: Y = 2 X."""

from tilecheck.spec import Case, Cost, KernelSpec

def reference(n):
    return None

def cases(*ids):
    return tuple(Case(f"{id}-fp16", {"n": n}, "float16", why="a row") for id, n in ids)

SPECS = (
    KernelSpec("row_scale", lambda n: None, reference, cases(("one", 1), ("tail", 100), ("wrong", 7))),
    KernelSpec("big", lambda n: None, reference, cases(("small", 4), ("model", 2**20)),
               cost=lambda n: Cost(1e6 * n, n)),
)
'''

CONFTEST = """
import pytest

pytest_plugins = ["tilecheck.plugin"]

@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    from tilecheck import conformance
    from tilecheck.oracle import Verdict
    from tilecheck.regions import Region

    def check(spec, case, device, *, seed, repeat, schedule=None, pass_configs=None):
        n = case.dims["n"]
        verdict = Verdict("float16", 4, Region((4,)), budget_used=n / 200, terms_used=n / 1000)
        outcome = conformance.Outcome(
            spec.name, case.id, device.arch.name, device.name, "", True, {"C": verdict}
        )
        if case.id.startswith("wrong"):
            raise conformance.Mismatch(f"row 3 is wrong\\nrepeat: {repeat}", outcome)
        return outcome

    monkeypatch.setattr(conformance, "check", check)
"""

MODULE = """
import pytest

pytestmark = pytest.mark.correctness

def test_output(kernel_case, checker):
    checker.conformance(kernel_case)
"""

INI = """
[pytest]
strict = true
pythonpath = .
testpaths = tests
tilecheck_specs = my_kernels
markers =
    debugging: tools
    autotune: search
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Another repository with two kernels, one of them wrong, on a machine without a GPU."""
    monkeypatch.setenv("PYTHONPATH", str(Path(tilecheck.__file__).parents[1]), prepend=os.pathsep)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(environment, "machine", lambda: BARE)
    pytester.makefile(".ini", pytest=INI)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**{"my_kernels": SPECS, "tests/test_correctness": MODULE})
    return pytester


# The same without torch, which takes seconds to load: for runs in processes of their own. (The summary on the
# terminal loads it, too.)
LIGHT = """
import json
from dataclasses import asdict

import pytest

pytest_plugins = ["tilecheck.plugin"]

@pytest.fixture
def checker(request):
    from tilecheck.plugin.checking import RECORD, Record

    class Checker:
        def conformance(self, row):
            budget = row.case.dims["n"] / 200
            record = Record(row.spec.name, row.id, "float16", "simulator", "sm_90a", budget, 0, 0, 0, False)
            request.node.user_properties.append((RECORD, json.dumps(asdict(record))))
            assert not row.case.id.startswith("wrong")

    return Checker()
"""


def run_apart(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    project.makeconftest(LIGHT)
    options = ("--report", "out", "-p", "no:tilecheck.plugin.summary", "--device=simulator")
    return project.runpytest_subprocess(*options, *arguments)


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    options = ("--report", "out", "-p", "no:cacheprovider")
    return project.runpytest(*options, *arguments, no_reraise_ctrlc=True)


def report_of(project: pytest.Pytester) -> Report:
    files = sorted(path.name for path in (project.path / "out").iterdir())
    assert files == ["index.html", "results.json", "summary.md"]
    return folder.read(project.path / "out")


def states(report: Report) -> dict[str, str]:
    return {view.name: view.state for view in sections(report)}


def outcomes(report: Report) -> dict[str, str]:
    return {test.id.rpartition("::")[2]: test.outcome for test in report.tests}


def test_whole_run(project: pytest.Pytester) -> None:
    result = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["tilecheck report: out/index.html"])
    report = report_of(project)
    assert outcomes(report) == {
        "test_output[row-scale-one-fp16]": "passed",
        "test_output[row-scale-tail-fp16]": "passed",
        "test_output[row-scale-wrong-fp16]": "failed",
        "test_output[big-small-fp16]": "passed",
        "test_output[big-model-fp16]": "skipped",
    }
    assert {each.row: each.budget_used for each in report.numerics} == {
        "row-scale-one-fp16": 0.005,
        "row-scale-tail-fp16": 0.5,
        "row-scale-wrong-fp16": 0.035,
        "big-small-fp16": 0.02,
    }
    (only,) = report.runs
    assert (only.ended, only.exit, only.device, only.arch) == ("complete", 1, "simulator", "sm_90a")
    assert [kernel.summary for kernel in report.kernels] == ["Scales rows: Y = 2 X."] * 2
    assert report.kernels[1].cases[0].flops == 4e6
    assert states(report)["correctness"] == "failed"
    assert {states(report)[name] for name in ("codegen", "latency", "autotune", "debugging")} == {"not run"}


def test_failure_has_its_message_without_frames_and_the_command_that_repeats_it(
    project: pytest.Pytester,
) -> None:
    run(project)
    (failed,) = [test for test in report_of(project).tests if test.outcome == "failed"]
    assert failed.message == f"row 3 is wrong\nrepeat: {failed.repeat}"
    assert (failed.kernel, failed.case) == ("row_scale", "wrong-fp16")
    command, *arguments = failed.repeat.replace('"', "").split()
    assert command == "pytest"
    project.runpytest(*arguments).assert_outcomes(failed=1)


def test_sections_go_by_marker_and_by_what_a_test_asks_for(project: pytest.Pytester) -> None:
    project.makepyfile(
        **{
            "tests/test_more": """
                import pytest

                @pytest.mark.debugging
                def test_tool(): assert False, "no tool"

                @pytest.mark.autotune
                def test_search(kernel_case, record_property):
                    record_property("tilecheck-tuned", "24 tried")

                @pytest.mark.correctness
                def test_legal(grid_case): pass

                def test_plain(): pass
            """
        }
    )
    run(project)
    report = report_of(project)
    assert states(report)["debugging"] == "failed"
    assert {test.id.rpartition("::")[2]: test.section for test in report.tests}["test_plain"] == "other"
    assert ("row_scale", "one-fp16", "24 tried") in [(s.kernel, s.case, s.text) for s in report.searches]
    (tool,) = [test for test in report.tests if test.id.endswith("test_tool")]
    assert "no tool" in tool.message
    assert tool.repeat.startswith('pytest "tests/test_more.py::test_tool"')


def test_workers_of_xdist_hand_on_the_same(project: pytest.Pytester) -> None:
    project.makepyfile(
        **{
            "tests/test_dead": "import os\ndef test_dead(): os._exit(3)",
            "tests/test_own": "import pytest\n@pytest.mark.correctness\ndef test_property(): pass",
        }
    )
    run_apart(project, "-p", "xdist", "-n", "2")
    report = report_of(project)
    found = outcomes(report)
    assert found["test_output[row-scale-wrong-fp16]"] == "failed"
    assert found["test_output[big-model-fp16]"] == "skipped"
    assert found["test_dead"] == "failed"
    assert len(found) == 7
    assert len(report.numerics) == 4
    assert states(report)["correctness"] == "failed"
    (dead,) = [test for test in report.tests if test.id.endswith("test_dead")]
    assert dead.seconds > 0
    assert "the process died at once" in dead.message
    assert "what it said last, if anything, is in the output of the run" in dead.message
    assert "above" not in dead.message  # on a page it is not
    planned = {section.name: section.planned for section in report.runs[0].sections}
    assert (planned["correctness"], planned["other"]) == (6, 1)


def test_folder_elsewhere_is_not_taken_for_tests(project: pytest.Pytester, tmp_path: Path) -> None:
    project.makeconftest(LIGHT)
    elsewhere = str(tmp_path / "out")
    options = ("-p", "tilecheck.plugin", "-p", "no:tilecheck.plugin.summary", "-p", "xdist")
    # The folder is there by the time that workers begin.
    result = project.runpytest_subprocess(*options, "-n", "2", "-k", "one", "--report", elsewhere)
    result.assert_outcomes(passed=1)
    # And from the beginning, which pytest alone could mend.
    result = project.runpytest_subprocess(*options, "-k", "one", "--report", elsewhere)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = next(project.path.glob("*.ini")).name
    assert result.stderr.lines == [
        f"ERROR: pytest took {elsewhere}, which is there, for tests, and did not read {name}; "
        f"write --report={elsewhere}",
        "",
    ]
    result = project.runpytest_subprocess(*options, "-k", "one", f"--report={elsewhere}")
    result.assert_outcomes(passed=1)


def wait_for(path: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert path.exists()


def test_run_that_is_killed_leaves_a_report(project: pytest.Pytester) -> None:
    project.makepyfile(
        **{"tests/test_zz": f"import os\ndef test_kill(): os.kill(os.getpid(), {int(signal.SIGKILL)})"}
    )
    result = run_apart(project)
    assert result.ret == -signal.SIGKILL
    wait_for(project.path / "out" / "index.html")
    time.sleep(0.3)  # until what was written down has been removed
    report = report_of(project)
    assert report.runs[0].ended == "the process died"
    assert outcomes(report)["test_kill"] == "crashed"
    (killed,) = [test for test in report.tests if test.outcome == "crashed"]
    assert killed.repeat == 'pytest "tests/test_zz.py::test_kill" --device=simulator --seed=0'
    assert outcomes(report)["test_output[row-scale-one-fp16]"] == "passed"
    assert states(report)["correctness"] == "failed"
    assert states(report)["other"] == "crashed"


ENDINGS = {
    "import pytest\ndef test_it(): raise KeyboardInterrupt": "interrupted",
    "import pytest\ndef test_it(): pytest.exit('enough')": "enough",
}


@pytest.mark.parametrize(("module", "ended"), ENDINGS.items(), ids=ENDINGS.values())
def test_run_that_is_stopped(project: pytest.Pytester, module: str, ended: str) -> None:
    project.makepyfile(**{"tests/test_aa": module})
    run(project)
    report = report_of(project)
    assert report.runs[0].ended == ended
    assert states(report)["correctness"] == "incomplete"
    assert states(report)["other"] == "incomplete"
    assert list(report.runs[0].under_way) == ["tests/test_aa.py::test_it"]


def test_interrupted_run_names_the_tests_that_its_workers_were_at(project: pytest.Pytester) -> None:
    stuck = f"time.sleep(1); os.kill(os.getppid(), {int(signal.SIGINT)}); time.sleep(60)"
    project.makepyfile(**{"tests/test_aa": f"import os, time\ndef test_stuck(): {stuck}"})
    run_apart(project, "-p", "xdist", "-n", "2", "-k", "stuck")
    report = report_of(project)
    assert report.runs[0].ended == "interrupted"
    assert list(report.runs[0].under_way) == ["tests/test_aa.py::test_stuck"]
    said = (project.path / "out" / "summary.md").read_text()
    assert r"Under way when it was ended: test\_aa.py::test\_stuck for " in said
    assert "under way then" in (project.path / "out" / "index.html").read_text()


def test_run_that_stops_at_the_first_failure(project: pytest.Pytester) -> None:
    run(project, "-x")
    report = report_of(project)
    assert headline(report).state == "failed"
    assert headline(report).words == "ended early after 3 tests, 1 of which failed: stopping after 1 failures"
    assert len(report.tests) == 3
    words = {view.name: view.words for view in sections(report)}
    assert words["correctness"].endswith("; 2 not run")


def test_text_that_utf_8_cannot_hold_costs_no_report(project: pytest.Pytester) -> None:
    project.makepyfile(
        **{
            "tests/test_codegen": """
            def test_raises(): raise RuntimeError("nvcc said: " + b"\\xe9".decode(errors="surrogateescape"))
            def test_compares(): assert "\\ud800" == "good"
            """
        }
    )
    run(project, "tests/test_codegen.py")
    first, second = report_of(project).tests
    assert "nvcc said: \\udce9" in first.message and "\\ud800" in second.message
    assert "nvcc said: \\udce9" in (project.path / "out/index.html").read_text(encoding="utf-8")


def test_a_folder_with_such_text_can_be_made_a_report(project: pytest.Pytester) -> None:
    run(project)
    file = project.path / "out/results.json"
    file.write_text(file.read_text().replace("row 3 is wrong", "row 3 is \\udce9"))
    folder.write(folder.read(project.path / "out"), project.path / "again")
    assert "row 3 is \\udce9" in (project.path / "again/index.html").read_text(encoding="utf-8")


def test_internal_error(project: pytest.Pytester) -> None:
    project.makeconftest(
        CONFTEST + "\ndef pytest_runtest_protocol(item): raise RuntimeError('a broken plugin')\n"
    )
    assert run(project).ret == pytest.ExitCode.INTERNAL_ERROR
    report = report_of(project)
    assert "a broken plugin" in report.runs[0].ended
    assert states(report)["correctness"] == "incomplete"


def test_module_that_cannot_be_imported(project: pytest.Pytester) -> None:
    project.makepyfile(**{"tests/test_codegen": "import not_there"})
    run(project)
    report = report_of(project)
    (broken,) = report.tests
    assert (broken.section, broken.outcome) == ("codegen", "error")
    assert "not_there" in broken.message
    assert broken.repeat == 'pytest "tests/test_codegen.py" --collect-only'


def test_refused_run_says_why(project: pytest.Pytester) -> None:
    result = run(project, "--require-gpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    report = report_of(project)
    assert report.runs[0].ended.startswith("refused: --require-gpu")
    assert states(report)["environment"] == "failed"


def test_run_that_another_plugin_refuses_says_so(project: pytest.Pytester) -> None:
    run(project, "-k", "one")
    conftest = f"{CONFTEST}\ndef pytest_configure(config): raise pytest.UsageError('not today')\n"
    project.makeconftest(conftest)
    assert run(project).ret == pytest.ExitCode.USAGE_ERROR
    assert report_of(project).runs[0].ended.startswith("refused")


@pytest.mark.parametrize("question", ["--help", "--markers", "--collect-only", "--fixtures"])
def test_questions_to_pytest_leave_no_report(project: pytest.Pytester, question: str) -> None:
    assert run(project, question).ret == 0
    assert not (project.path / "out").exists()


def test_old_report_never_passes_for_a_new_one(project: pytest.Pytester) -> None:
    run(project, "-k", "one")
    run(project, "-k", "tail")
    assert outcomes(report_of(project)) == {"test_output[row-scale-tail-fp16]": "passed"}


def occupied_by_file(path: Path) -> None:
    path.write_text("")


def occupied_by_code(path: Path) -> None:
    path.mkdir()
    (path / "test_x.py").touch()


def occupied_by_page(path: Path) -> None:
    path.mkdir()
    (path / "index.html").write_text("<html>mine")


@pytest.mark.parametrize(
    ("occupy", "words"),
    [
        (occupied_by_file, "out is a file; a report is a folder"),
        (occupied_by_code, "out holds Python files; give a folder of its own to a report"),
        (occupied_by_page, "index.html in out is no report of tilecheck's; name another folder"),
    ],
)
def test_nothing_of_others_is_written_over(
    project: pytest.Pytester, occupy: Callable[[Path], None], words: str
) -> None:
    occupy(project.path / "out")
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines == [f"ERROR: --report: {words}", ""]
    assert not (project.path / "out" / "results.json").exists()


@pytest.mark.parametrize("name", ["index.html", "trend.html", "results.json", "results.partial.jsonl"])
def test_what_is_no_regular_file_is_not_waited_for(project: pytest.Pytester, name: str) -> None:
    (project.path / "out").mkdir()
    os.mkfifo(project.path / "out" / name)
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = f"out/{name} is no regular file; remove it, or name another folder"
    assert result.errlines == [f"ERROR: --report: {told}", ""]


@pytest.mark.parametrize(
    ("trouble", "words"),
    [(PermissionError(13, "Permission denied"), "Permission denied"), (None, "File name too long")],
    ids=["forbidden", "long"],
)
def test_a_folder_that_cannot_be_looked_at_is_one_line(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, trouble: OSError | None, words: str
) -> None:
    name = "out" if trouble else "x" * 300
    usual = Path.stat

    def stat(path: Path, **more: Any) -> os.stat_result:
        if trouble is not None and path.name == name:  # as in the home of another; root may
            raise trouble
        return usual(path, **more)

    monkeypatch.setattr(Path, "stat", stat)
    result = project.runpytest(f"--report={name}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines == [f"ERROR: --report: {name}: {words}", ""]


def test_a_home_is_meant_as_the_shell_means_it(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.mkdir("home")))
    result = project.runpytest("--report=~/out", "-k", "nothing")
    assert (project.path / "home" / "out" / "results.json").exists(), result.stdout.str()
    assert not (project.path / "~").exists()


def test_an_empty_name_is_not_the_current_folder(project: pytest.Pytester) -> None:
    result = project.runpytest("--report=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines == ["ERROR: --report names no folder", ""]
    assert not (project.path / "results.json").exists()


def test_missing_packages_are_named_with_the_command_that_installs_them(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line, _) = result.errlines
    assert line == (
        "ERROR: --report: jinja2 and matplotlib are not installed; pip install jinja2 matplotlib, "
        "or install the extra `report`"
    )
    assert not (project.path / "out").exists()


def test_project_without_specs_has_nothing_to_report(project: pytest.Pytester) -> None:
    result = run(project, "-o", "tilecheck_specs=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "tilecheck_specs names no specs" in result.errlines[0]


def test_page_that_cannot_be_made_costs_neither_results_nor_exit_code(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(report: Report) -> str:
        raise ZeroDivisionError("a plot")

    monkeypatch.setattr(page, "page", broken)
    result = run(project, "-k", "one")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["tilecheck report: out/index.html was not written: ZeroDivisionError: a plot"]
    )
    assert json.loads((project.path / "out" / "results.json").read_text())["schema"] == 1


def test_without_the_option_tests_carry_nothing_more(project: pytest.Pytester) -> None:
    project.runpytest("--junitxml=junit.xml")
    assert "tilecheck-place" not in (project.path / "junit.xml").read_text()
    assert not (project.path / "out").exists()
