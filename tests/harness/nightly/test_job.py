"""Whole nights, played by a Python that is made: it does what a scenario says in place of each stage."""

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.harness.report.examples import whole_report
from tests.harness.report.test_pages import page_of
from tilecheck.cli import main
from tilecheck.git import git
from tilecheck.latency.baselines import read_run
from tilecheck.nightly import job
from tilecheck.nightly.history import History
from tilecheck.nightly.known import Known, Suite
from tilecheck.nightly.plan import LIMITS, Choice
from tilecheck.nightly.stages import Ended
from tilecheck.nightly.verdict import LEGEND, NUMBERS, TENS, exit_code, in_words
from tilecheck.report.codec import to_json
from tilecheck.versions import variables_of

H200 = "NVIDIA H200"

KNOWN = Known({"softmax-one": ("softmax", "one")}, ("one",))

# Stands for the interpreter of all stages.
FAKE = r"""#!PYTHON -S
import json, os, sys, time
words = sys.argv[1:]
folder = os.path.dirname(os.path.abspath(__file__))
scenario = json.load(open(os.path.join(folder, "scenario.json")))
with open(os.path.join(folder, "calls"), "a") as calls:
    calls.write(json.dumps([words, os.environ.get("TILELANG_CACHE_DIR")]) + "\n")
if "PYTEST_ADDOPTS" in os.environ:
    sys.exit(66)

if words[0] == "-c":
    print(scenario.get("versions", '{"tilelang": "0.1.15"}'))
    sys.exit(scenario.get("versions_code", 0))
os.makedirs(os.environ["TILELANG_CACHE_DIR"], exist_ok=True)

def option(name):
    return next((word.partition("=")[2] for word in words if word.startswith(name + "=")), None)

def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)

if words[:3] == ["-m", "pytest", "--help"]:
    print("  --tilecheck-report=DIR" if scenario.get("reports", True) else "  --other")
    print(scenario.get("help", ""))
    sys.exit(scenario.get("help_code", 0))
if words[1] == "tilecheck.nightly.guard":
    name, out = "guard", words[3]
    found = {"gpus": [{"uuid": "GPU-1", "name": "NVIDIA H200"}], "arch": "sm_90a",
             "toolchain": scenario.get("toolchain", {"tilelang": "0.1.15"}),
             "objections": scenario.get("objections", [])}
    if scenario.get("guard") != {"code": 9}:
        write(out, json.dumps(found))
elif words[1] == "tilecheck.nightly.upgrade":
    name, out = "newest", words[3]
    if "upgrade" in scenario:
        write(os.path.join(out, "newest.json"), json.dumps(scenario["upgrade"]))
        junit = os.path.join(out, "junit.xml")
elif words[1] == "tilecheck":
    name = {"doctor": "doctor", "facts": "facts", "report": "report"}[words[2]]
    if name == "report":
        out = words[words.index("--out") + 1]
        write(os.path.join(out, "summary.md"), "## all kernels\n")
        if not scenario.get(name, {}).get("silent"):
            page = scenario.get(name, {}).get("page", '<meta name="generator" content="tilecheck">')
            write(os.path.join(out, "index.html"), page)
else:
    junit = option("--junit-xml")
    name = os.path.basename(os.path.dirname(junit))
    if option("--tilecheck-report") and scenario.get("leave_reports", True):
        os.makedirs(option("--tilecheck-report"), exist_ok=True)
        if "results" in scenario.get(name, {}):
            write(os.path.join(option("--tilecheck-report"), "results.json"), scenario[name]["results"])

def case(test, bad):
    inside = '<failure message="%s">repeat: pytest x</failure>' % bad if bad else ""
    inside = "<skipped/>" if bad == "skip" else inside
    return '<testcase classname="tests.test_x" name="test_output[%s]">%s</testcase>' % (test, inside)

play = scenario.get(name, {})
without = name in ("guard", "newest", "doctor", "facts", "report") and "tests" not in play
if not without and not play.get("silent"):
    tests = "".join(case(t, bad) for t, bad in play.get("tests", {"softmax-one": ""}).items())
    write(junit, "<testsuites><testsuite>%s</testsuite></testsuites>" % tests)
    if name == "latency" and "run" in play:
        write(option("--benchmark-json"), play["run"])
if name == "facts":
    print(play.get("text", '{"toolchain": {}, "rows": []}'))
if "shell" in play:
    os.system(play["shell"])
if "say" in play:
    print(play["say"])
if play.get("hang"):
    time.sleep(600)
sys.exit(play.get("code", 0))
"""


class Stage:
    """Nights that are played. A scenario says by stage: code, tests (id: failure), hang, say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "project"
        (self.root / "tests").mkdir(parents=True)
        (self.root / "tests" / "test_schedules.py").touch()
        self.python = folder / "python"
        self.python.write_text(FAKE.replace("PYTHON", sys.executable))
        self.python.chmod(0o755)
        self.nights = 0
        self.said: list[str] = []

    def commit(self) -> None:
        """Makes the project a repository with a commit."""
        git(self.root, "init", "--quiet")
        git(self.root, "add", ".")
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        git(self.root, *identity, "commit", "--quiet", "--allow-empty", "-m", "one")

    def night(self, seed: int = 7, **scenario: Any) -> tuple[int, dict[str, Any]]:
        """Exit code and night.json."""
        self.nights += 1
        self.said = []
        out = self.folder / f"night-{self.nights}"
        out.mkdir()
        given = scenario.pop("choice", {})
        (self.folder / "scenario.json").write_text(json.dumps(scenario))
        choice = Choice(python=str(self.python), out=out, gpu=H200, seed=seed, **given)
        code = job.run_night(choice, Suite(self.root, KNOWN), self.folder / "history", self.said.append)
        self.out = out
        return code, json.loads((out / "night.json").read_text())

    def calls(self) -> list[tuple[list[str], str]]:
        return [tuple(json.loads(line)) for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tilecheck.nightly.stages.GRACE", 0.2)
    return Stage(tmp_path)


def states(night: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["state"] for each in night["ended"]}


def test_green_night(stage: Stage) -> None:
    code, night = stage.night()
    assert code == 0
    assert states(night) == dict.fromkeys(LIMITS, "passed")
    assert stage.said[0] == "seed 7; to repeat this night: --seed 7"
    assert stage.said[-1] == "GREEN"
    assert night["toolchain"] == {"tilelang": "0.1.15"} and night["gpu"] == H200
    summary = (stage.out / "summary.md").read_text()
    assert "| correctness | " in summary and summary.endswith("## all kernels\n")
    assert len(History(stage.folder / "history", H200).read().nights) == 1


def test_stages_run_in_order_with_seed_report_and_a_fresh_cache(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    stage.night(choice={"newest": "0.1.16", "index": "https://example.org"})
    commands = [words for words, _ in stage.calls() if "--help" not in words]
    assert {cache for _, cache in stage.calls()} == {str(stage.out / "kernel-cache")}
    assert not (stage.out / "kernel-cache").exists()  # made by the fake, and no later night's
    names = [
        "guard",
        "doctor",
        "latency",
        "correctness",
        "schedules",
        "sanitizer",
        "codegen",
        "facts",
        "upgrade",
    ]
    for name, words in zip([*names, "report"], commands, strict=True):
        assert name in " ".join(words)
    by_name = dict(zip(names, commands, strict=False))
    latency = by_name["latency"]
    assert "--benchmark-compare" in latency and "--tilecheck-gate=strict" in latency and "-n" not in latency
    for name in ("latency", "correctness", "schedules", "sanitizer"):
        assert {"--tilecheck-seed=7", "--tilecheck-require-gpu"} <= set(by_name[name])
        assert f"--tilecheck-report={stage.out / name / 'report'}" in by_name[name]
    for name in ("correctness", "schedules", "sanitizer", "codegen"):
        assert by_name[name][by_name[name].index("-n") + 1] == "auto"
    assert "--ignore-glob=*/test_schedules.py" in by_name["correctness"]
    assert "tests/test_schedules.py" in by_name["schedules"]
    assert by_name["facts"][-2:] == ["--case", "one"] and "sm_90a" in by_name["facts"]
    assert {"--wanted=0.1.16", "--index=https://example.org", "--seed=7"} <= set(by_name["upgrade"])


COMMITS = "git -c user.name=x -c user.email=x@example.org commit --quiet --allow-empty -m two"


def test_commit_is_that_of_the_beginning(stage: Stage) -> None:
    stage.commit()
    first = git(stage.root, "rev-parse", "HEAD")
    chosen = {"stages": ("guard", "doctor", "codegen")}
    _, night = stage.night(choice=chosen)
    assert (night["commit"], night["dirty"], night["notes"]) == (first, False, [])
    _, night = stage.night(choice=chosen, doctor={"shell": COMMITS})
    assert (night["commit"], night["dirty"]) == (first, True)
    (note,) = night["notes"]
    assert note.startswith(f"the commit was {first[:10]} when the night began, and is ")
    _, night = stage.night(choice=chosen, doctor={"shell": "echo changed >tests/test_schedules.py"})
    assert (night["dirty"], night["notes"]) == (True, ["files were changed while the night ran"])


@pytest.mark.parametrize(
    ("file", "dirty"), [("kernels/new.py", True), ("nights/one/new.py", False), ("words.txt", False)]
)
def test_python_files_that_no_commit_has_are_changes(stage: Stage, file: str, dirty: bool) -> None:
    stage.commit()
    (stage.root / file).parent.mkdir(parents=True, exist_ok=True)
    (stage.root / file).touch()
    assert job.commit_of(stage.root)[1] is dirty


def test_exit_codes_say_what_they_are_made_of() -> None:
    for name in NUMBERS:
        for state in TENS:
            assert in_words(exit_code([Ended(name, state, 1.0)])) == f"{name} {state}"
    assert exit_code([]) == exit_code([Ended("latency", "skipped", 0.0), Ended("report", "passed", 1.0)]) == 2
    assert exit_code([Ended("guard", "passed", 1.0)]) == 0 and in_words(2) == "nothing was run"
    assert in_words(0) == "green" and in_words(130) == "interrupted"
    assert (
        in_words(99) == "exit code 99" and in_words(19) == "exit code 19" and in_words(-1) == "exit code -1"
    )


def test_night_is_kept_with_all_that_the_page_of_nights_shows(stage: Stage) -> None:
    stage.night(
        correctness={"results": to_json(whole_report())},
        latency={"run": times(1e-4, "same")},
        newest={"code": 1},
        upgrade=UPGRADE,
    )
    (night,) = History(stage.folder / "history", H200).read().nights
    assert set(night.seconds) == set(LIMITS)
    assert night.kernels["softmax"].failed == 1 and night.kernels["softmax"].budget_used == float("inf")
    assert night.times["softmax-one"].kernel == "softmax"
    assert night.upgrade is not None and night.upgrade.version == "0.1.16"
    assert "slows 1 of 2 rows" in night.upgrade.verdict
    assert night.upgrade.parts == dict.fromkeys(("correctness", "latency", "codegen"), "failed")


def test_report_has_the_page_of_all_nights_with_this_one(stage: Stage) -> None:
    stage.night(latency={"run": times(1e-4, "same")})
    failing = {"code": 1, "tests": {"softmax-one": "softmax is wrong"}}
    code, night = stage.night(correctness=failing, report={"page": page_of(whole_report())})
    assert code == 13 and night["notes"] == []
    page = (stage.out / "report" / "trend.html").read_text()
    assert "2 nights, the last on" in page and "Red: correctness failed" in page and "softmax-one" in page
    assert 'href="index.html"' in page
    assert 'href="trend.html"' in (stage.out / "report" / "index.html").read_text()
    assert not any("--history" in words for words, _ in stage.calls()), "it is made once"


def test_page_of_nights_that_cannot_be_made_costs_neither_results_nor_exit_code(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = page_of(whole_report())
    monkeypatch.setattr("tilecheck.nightly.trendfile.trend_page", lambda *_, **__: 1 / 0)
    code, night = stage.night(report={"page": first})
    assert code == 0
    assert (stage.out / "report" / "index.html").read_text() == first, "a link to nothing"
    (note,) = night["notes"]
    assert note == "the page of all nights was not made: ZeroDivisionError: division by zero"
    monkeypatch.setattr(job, "missing_extra", lambda: "jinja2 is not installed")
    assert stage.night()[1]["notes"] == ["the page of all nights was not made: jinja2 is not installed"]
    assert not (stage.out / "report" / "trend.html").exists()


def test_night_that_is_killed_before_the_page_of_nights_leaves_no_link_to_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise SystemExit

    first = page_of(whole_report())
    with monkeypatch.context() as patch:
        patch.setattr(History, "append", killed)
        with pytest.raises(SystemExit):
            stage.night(report={"page": first})
    report = stage.folder / "night-1" / "report"
    assert json.loads((stage.folder / "night-1" / "night.json").read_text())["exit_code"] == 0
    assert "GREEN" in (stage.folder / "night-1" / "summary.md").read_text()
    assert (report / "index.html").read_text() == first and "trend.html" not in first
    assert not (report / "trend.html").exists()
    assert stage.night()[0] == 0
    assert "1 night, the last on" in (stage.out / "report" / "trend.html").read_text()


def test_history_that_cannot_be_written_is_told(stage: Stage) -> None:
    (stage.folder / "history").write_text("a file")
    code, night = stage.night()
    assert code == 0
    assert any("the history was not written" in note for note in night["notes"])
    assert states(night)["report"] == "passed"


def test_folder_that_goes_away_ends_no_night(stage: Stage) -> None:
    # As a disk does that is full, or no longer there, from the third stage on.
    out = stage.folder / "night-1"
    with pytest.raises(NotADirectoryError):  # by the test itself, which wants to read night.json
        stage.night(latency={"shell": f"rm -r {out}; touch {out}"})
    assert [line.partition(" after")[0] for line in stage.said if " after" in line][:2] == [
        "guard: passed",
        "doctor: passed",
    ]
    assert sum("broken after" in line for line in stage.said) == 7  # each of the others had its turn
    assert stage.said[-1].startswith("RED: correctness broken: it could not be run: ")
    assert sum("the night's folder was not written: " in line for line in stage.said) == 1
    (kept,) = History(stage.folder / "history", H200).read().nights
    assert kept.exit_code == 23


def test_night_of_which_nothing_is_written_is_on_record_and_not_green(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(job, "replace", full)
    with pytest.raises(FileNotFoundError):
        stage.night()
    assert stage.said[-2:] == ["GREEN", "but nothing of it could be written (exit code 2)"]
    assert stage.said.count("  the night's folder was not written: No space left on device") == 1
    (kept,) = History(stage.folder / "history", H200).read().nights
    assert kept.exit_code == 0


def test_history_that_somebody_holds_is_waited_for_and_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilecheck.nightly.history.PATIENCE", 0.1)
    stage.night()
    with FileLock(stage.folder / "history" / "nvidia-h200" / "nights.jsonl.lock"):
        code, night = stage.night()
    assert code == 0
    (note,) = night["notes"]
    assert note.startswith("the history was not written: ") and "could not be acquired" in note


def test_wrong_kernel(stage: Stage) -> None:
    failing = {"code": 1, "tests": {"softmax-one": "softmax is wrong"}}
    stage.commit()
    stage.night(seed=6)
    code, night = stage.night(correctness=failing, schedules=failing)
    assert code == 13  # stage 3, failed
    assert states(night)["report"] == "passed"  # nothing stopped
    (finding,) = night["findings"]
    assert (finding["kind"], finding["kernel"], finding["case"]) == ("wrong", "softmax", "one")
    assert finding["tests"] == {"correctness": 1, "schedules": 1}
    assert "only the seed changed, 6 -> 7" in finding["changed"][0]
    assert any(line == "softmax, one: wrong: softmax is wrong" for line in stage.said)
    assert stage.said[-1].startswith("RED: correctness failed")


def test_night_of_other_kernels_is_not_the_last_good_one(stage: Stage) -> None:
    stage.commit()
    stage.night(seed=5)
    stage.night(seed=6, choice={"arguments": ("-k", "matmul")})
    failing = {"code": 1, "tests": {"softmax-one": "softmax is wrong"}}
    _, night = stage.night(correctness=failing)
    (finding,) = night["findings"]
    assert "only the seed changed, 5 -> 7" in finding["changed"][0]


def times(median: float, verdict: str) -> str:
    extra = {
        "kernel": "softmax",
        "case": "one",
        "method": "events",
        "clock_mhz": 1980.0,
        "toolchain": {"tilelang": "0.1.15"},
        "vendors": {"torch": 2e-4},
        "vendor": "torch",
        "vendor_ratio": median / 2e-4,
        "verdict": verdict,
    }
    stats = dict.fromkeys(("min", "max", "mean", "median", "q1", "q3"), median)
    stats |= {"stddev": 0.0, "iqr": 0.0, "rounds": 50, "iterations": 1, "outliers": "0;0"}
    name = "test_latency[softmax-one]"
    benchmark = {"name": name, "fullname": f"tests/t.py::{name}", "extra_info": extra, "stats": stats}
    return json.dumps({"machine_info": {"gpu": H200}, "benchmarks": [benchmark]})


def test_times_are_as_the_gate_reads_them(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(times(1e-4, "same"))
    assert read_run(tmp_path / "run.json").rows["softmax-one"].median == 1e-4


def test_slow_kernel(stage: Stage) -> None:
    stage.night(latency={"run": times(1e-4, "same")})
    slow = {"code": 1, "tests": {"softmax-one": "is slower"}, "run": times(1.1e-4, "slower")}
    code, night = stage.night(latency=slow)
    assert code == 12
    (finding,) = night["findings"]
    assert finding["kind"] == "slower"
    assert night["times"]["softmax-one"]["median"] == 1.1e-4
    trends = json.loads((stage.out / "trends.json").read_text())
    assert trends["rows"]["softmax-one"]["median"] == [1e-4, 1.1e-4]


def test_hanging_stage(stage: Stage) -> None:
    code, night = stage.night(sanitizer={"hang": True}, choice={"limits": {"sanitizer": 3.0}})
    assert code == 35
    assert states(night)["sanitizer"] == "hung" and states(night)["codegen"] == "passed"
    assert "took longer than 3 s" in stage.said[-1]


def test_hanging_stage_says_which_tests_it_was_at(stage: Stage) -> None:
    report = whole_report()
    stuck = {f"tests/test_x.py::test_{name}": 9.0 - i for i, name in enumerate("abcde")}
    run = dataclasses.replace(report.runs[0], under_way=stuck)
    results = to_json(dataclasses.replace(report, runs=(run, *report.runs[1:])))
    scenario = {"hang": True, "results": results}
    _, night = stage.night(correctness=scenario, choice={"limits": {"correctness": 3.0}})
    (words,) = [each["words"] for each in night["ended"] if each["state"] == "hung"]
    told = "test_x.py::test_a for 9.0 s, test_x.py::test_b for 8.0 s, test_x.py::test_c for 7.0 s, 2 more"
    assert words.endswith(f"; under way: {told}")


@pytest.mark.parametrize(
    ("guard", "state", "code"),
    [
        ({"code": 1, "say": "guard: and all that it read"}, "failed", 10),
        ({"code": 9}, "broken", 20),
        ({"hang": True}, "hung", 30),
    ],
)
def test_guard_that_does_not_say_yes_lets_nothing_onto_the_gpu(
    stage: Stage, guard: dict[str, Any], state: str, code: int
) -> None:
    objections = ["GPU 0: is not alone: processes 17 use it", "GPU 0: is at 71 °C"]
    found, night = stage.night(guard=guard, objections=objections, choice={"limits": {"guard": 3.0}})
    assert found == code
    without_gpu = {"guard": state, "doctor": "passed", "codegen": "passed", "report": "passed"}
    assert states(night) == {**dict.fromkeys(LIMITS, "refused"), **without_gpu}
    # The doctor may say why, and leaves the GPU alone as well.
    (doctor,) = [words for words, _ in stage.calls() if words[1:3] == ["tilecheck", "doctor"]]
    assert doctor[3:] == ["--no-launch"]
    if state == "failed":
        assert f"guard failed: {'; '.join(objections)} (exit code 10)" in stage.said[-1]


def test_nothing_runs_on_a_gpu_that_is_refused_and_so_there_is_no_report(stage: Stage) -> None:
    code, night = stage.night(guard={"code": 1}, choice={"stages": ("guard", "latency", "report")})
    assert code == 10
    assert states(night) == {"guard": "failed", "latency": "refused", "report": "skipped"}


def test_simulated_stages_that_leave_no_report_make_none_and_are_green(stage: Stage) -> None:
    code, night = stage.night(choice={"simulate": True, "stages": ("guard", "doctor", "latency", "report")})
    assert code == 0
    assert states(night) == {"doctor": "passed", "latency": "skipped", "report": "skipped"}


def test_tests_that_leave_no_report_are_not_green(stage: Stage) -> None:
    code, night = stage.night(leave_reports=False)
    assert code == 28 and states(night)["report"] == "broken"


def test_corrupted_baseline(stage: Stage) -> None:
    words = "ERROR: baselines/nvidia-h200/0002_x.json: line 3, column 1: no JSON; mend the file"
    code, night = stage.night(latency={"code": 4, "say": words, "silent": True})
    assert code == 22
    assert "no JSON; mend the file" in stage.said[-1]
    assert any("latency: pytest left no results" in note for note in night["notes"])


def test_worst_is_named(stage: Stage) -> None:
    code, _ = stage.night(doctor={"code": 1}, latency={"code": 1}, schedules={"code": 3}, report={"code": 2})
    assert code == 24  # schedules before latency before doctor before report
    assert "24" not in LEGEND and "4 schedules" in LEGEND


def test_green_run_without_results_is_not_green(stage: Stage) -> None:
    code, _ = stage.night(correctness={"silent": True})
    assert code == 23


@pytest.mark.parametrize(
    ("tests", "words"),
    [({}, "no test ran"), ({"a": "skip", "b": "skip"}, "no test ran: 2 skipped")],
)
def test_stage_in_which_no_test_ran_is_not_green(stage: Stage, tests: dict[str, str], words: str) -> None:
    code, _ = stage.night(correctness={"tests": tests})
    assert code == 23 and stage.said[-1] == f"RED: correctness broken: {words} (exit code 23)"


def test_keyword_may_select_none_of_a_stage_and_then_it_is_skipped(stage: Stage) -> None:
    chosen = {"arguments": ("-k", "softmax")}
    code, night = stage.night(sanitizer={"code": 5, "tests": {}}, choice=chosen)
    assert code == 0 and states(night)["sanitizer"] == "skipped"
    assert any(line.endswith(": -k selects none of it") for line in stage.said)
    commands = [
        words for words, _ in stage.calls() if words[:2] == ["-m", "pytest"] and "--help" not in words
    ]
    assert len(commands) == 5 and all(words[-2:] == ["-k", "softmax"] for words in commands)
    assert not any("facts" in words for words, _ in stage.calls()), "they are of all rows"
    assert stage.night(sanitizer={"code": 5, "tests": {}})[0] == 25


def test_night_in_which_nothing_ran_is_not_green(stage: Stage) -> None:
    none = {"code": 5, "tests": {}}
    for chosen, play in (
        ({"stages": ("latency", "sanitizer")}, {}),
        ({"stages": ("codegen", "report"), "arguments": ("-k", "softmacs")}, {"codegen": none}),
    ):
        code, night = stage.night(choice={"simulate": True, **chosen}, **play)
        assert code == night["exit_code"] == 2
        assert stage.said[-1] == "NOTHING WAS RUN"
        assert "NOTHING WAS RUN" in (stage.out / "summary.md").read_text()


def test_report_says_that_tests_failed_and_is_written_all_the_same(stage: Stage) -> None:
    code, night = stage.night(correctness={"code": 1}, report={"code": 1})
    assert code == 13 and states(night)["report"] == "passed"
    (command,) = [words for words, _ in stage.calls() if "report" in words]
    assert [Path(word).parent.name for word in command if word.endswith("/report")] == [
        *("latency", "correctness", "schedules", "sanitizer", "codegen"),
        stage.out.name,
    ]


def test_report_that_crashes_or_leaves_no_page_is_not_green(stage: Stage) -> None:
    crash = "Traceback (most recent call last):\nMemoryError: no room"
    code, _ = stage.night(report={"code": 1, "say": crash})
    assert code == 28 and "report broken: crashed: MemoryError: no room" in stage.said[-1]
    for found in (0, 1):
        code, _ = stage.night(report={"code": found, "silent": True})
        assert code == 28 and "tilecheck report left no index.html" in stage.said[-1]


def test_report_of_the_stages_that_ran(stage: Stage) -> None:
    code, night = stage.night(guard={"code": 1})
    assert code == 10 and states(night)["report"] == "passed"
    (command,) = [words for words, _ in stage.calls() if "report" in words]
    assert [Path(word).parent.name for word in command if word.endswith("/report")] == [
        "codegen",
        stage.out.name,
    ]


def test_report_that_is_not_there_yet(stage: Stage) -> None:
    code, night = stage.night(reports=False)
    assert code == 28
    assert "pytest has no option --tilecheck-report here" in stage.said[-1]
    assert states(night)["correctness"] == "passed"
    assert not any("--tilecheck-report" in word for words, _ in stage.calls() for word in words)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"help_code": 4, "help": "ERROR: usage: pytest\n__main__.py: error: no --x"},
            "pytest does not say whether it can write reports: exit code 4: __main__.py: error: no --x",
        ),
        ({"help_code": 1}, "pytest does not say whether it can write reports: exit code 1: --other"),
        (
            {"help": "warning : ConfigWarning: could not load initial conftests: x.py"},
            "pytest has no option --tilecheck-report here: it could not load initial conftests: x.py",
        ),
    ],
)
def test_why_there_are_no_reports_is_told(stage: Stage, said: dict[str, Any], words: str) -> None:
    """That pytest has no such option is one thing, and that it does not get as far as saying so another."""
    code, _ = stage.night(**{"reports": False, **said})
    assert code == 28
    assert stage.said[-1] == f"RED: report broken: {words} (exit code 28)"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"versions": "E   nvidia is cut in half", "versions_code": 1}, "exit code 1: nvidia is cut in half"),
        ({"versions": "no JSON"}, "the process that reads them said something else"),
        ({"versions": ""}, "the process that reads them said something else"),
    ],
)
def test_why_no_versions_are_known_is_told(stage: Stage, said: dict[str, Any], why: str) -> None:
    for choice in ({"simulate": True}, {"stages": ("codegen",)}):
        code, night = stage.night(choice=choice, **said)
        assert (code, night["toolchain"]) == (0, {})
        assert night["notes"] == [f"no versions of the toolchain are known: {why}"]
    assert stage.night(choice={"simulate": True})[1]["toolchain"] == {"tilelang": "0.1.15"}


UPGRADE = {
    "version": "0.1.16",
    "pinned": "0.1.15",
    "words": "TileLang 0.1.16, the newest release",
    "parts": [
        {"name": "correctness", "state": "failed", "seconds": 9.0, "words": "1 failed", "codes": [1]},
        {"name": "latency", "state": "failed", "seconds": 9.0, "codes": [1]},
        {"name": "codegen", "state": "failed", "seconds": 9.0, "codes": [1]},
    ],
    "codegen": "60 rows: 2 worse, 58 the same. Not safe: softmax-one-sm_90a and 1 more get worse.",
    "rows": [
        {
            "row": "softmax-one",
            "verdict": "slower",
            "old": 1e-4,
            "new": 1.58e-4,
            "ratio": 1.58,
            "wrong": False,
        },
        {"row": "softmax-two", "verdict": "same", "old": 1e-4, "new": 1e-4, "ratio": 1.0, "wrong": False},
    ],
}


def test_newest_tilelang_is_told_and_turns_nothing_red_unless_asked(stage: Stage) -> None:
    code, _ = stage.night(newest={"code": 1}, upgrade=UPGRADE)
    assert code == 0
    text = "\n".join(stage.said)
    assert "softmax-one: slower, 100 us -> 158 us (+58.0 %)" in text
    assert "code: 60 rows: 2 worse, 58 the same. Not safe: softmax-one-sm_90a and 1 more get worse." in text
    assert "(does not turn the night red)" in text
    assert stage.night(newest={"code": 1}, upgrade=UPGRADE, choice={"newest_gates": True})[0] == 17


STEP = "0.1.15 -> 0.1.16"


@pytest.mark.parametrize(
    ("play", "given", "words"),
    [
        (
            {"code": 1},
            {},
            f"{STEP}: breaks kernels (1 test) and slows 1 of 2 rows and makes code worse: "
            "softmax-one-sm_90a and 1 more get worse",
        ),
        (
            {"code": 1},
            {"codegen": "9 rows: 9 worse. Not safe: " + "very-long-name-" * 40 + " get worse."},
            f"{STEP}: breaks kernels (1 test) and slows 1 of 2 rows and makes code worse: very-long-name-",
        ),
        (
            {"code": 3},
            {"parts": [{"name": "codegen", "state": "hung", "seconds": 9.0, "words": "", "codes": []}]},
            f"{STEP}: slows 1 of 2 rows; not answered: codegen",
        ),
        (
            {"code": 3},
            {"version": "", "words": "fell back: pip finds no release of TileLang"},
            "fell back: pip finds no release of TileLang",
        ),
        (
            {"code": 1, "say": "Traceback (most recent call last):\nOSError: disk full"},
            {"parts": [], "rows": [], "planned": ["correctness", "codegen"]},
            f"crashed: OSError: disk full; {STEP}: no verdict; not answered: correctness, codegen",
        ),
    ],
)
def test_table_says_what_an_upgrade_would_do(
    stage: Stage, play: dict[str, Any], given: dict[str, Any], words: str
) -> None:
    """The stage's log ends with whatever came last, which need not be what is wrong."""
    stage.night(newest={"say": "newest TileLang: codegen: failed", **play}, upgrade={**UPGRADE, **given})
    (line,) = [line for line in stage.said if line.startswith("newest  ")]
    _, _, said = line.partition("(does not turn the night red) ")
    assert said == words if len(said) < 160 else said.startswith(words)
    assert len(said) <= 160


def test_newest_tilelang_that_cannot_be_installed_has_no_verdict(stage: Stage) -> None:
    reason = "pip failed (exit code 1): No matching distribution found for tilelang==99.9"
    wanted = {"version": "99.9", "words": "TileLang 99.9, as asked for", "parts": [], "rows": []}
    given = {**UPGRADE, **wanted, "codegen": "", "reason": reason, "simulated": True}
    stage.night(newest={"code": 3}, upgrade=given, choice={"simulate": True})
    verdict = f"0.1.15 -> 99.9: no verdict: it could not be installed: {reason}"
    assert verdict in (line.strip() for line in stage.said)
    (night,) = History(stage.folder / "history", "simulator").read().nights
    assert night.upgrade is not None and night.upgrade.verdict == verdict


def test_tests_under_both_are_set_side_by_side(stage: Stage) -> None:
    both, one = {"softmax-one": "softmax is wrong"}, {"softmax-one": "softmax is wrong", "other": "boom"}
    code, _ = stage.night(
        correctness={"code": 1, "tests": {**both, "other": ""}},
        newest={"code": 1, "tests": one},
        upgrade=UPGRADE,
    )
    assert code == 13
    text = "\n".join(stage.said)
    assert "correctness tests: pinned 1 of 2 failed, newest 2 of 2 failed" in text
    assert "fails under the newest alone: tests.test_x::test_output[other]: boom" in text
    assert "under the pinned alone" not in text


def test_drift_that_no_night_catches_is_told(stage: Stage) -> None:
    history = stage.folder / "history"
    stage.night(latency={"run": times(1e-4, "same")})
    (first,) = History(history, H200).read().nights
    (history / "nvidia-h200" / "nights.jsonl").unlink()
    for day in range(9):
        content = {**first.as_json(), "date": f"2026-01-{day + 1:02}"}
        content["times"]["softmax-one"] |= {"median": 1e-4 * 1.01**day, "ratio": 0.5 * 1.01**day}
        with (history / "nvidia-h200" / "nights.jsonl").open("a") as file:
            file.write(json.dumps(content) + "\n")
    code, night = stage.night(latency={"run": times(1e-4 * 1.01**9, "same")})
    assert code == 0
    (line,) = night["drifting"]
    assert line.startswith("softmax-one becomes slower: +9.4 % (+1.00 % a night over 10 nights;")
    assert line.endswith("it is the kernel")
    assert "## slow drift" in (stage.out / "summary.md").read_text()


def test_broken_history_is_told_and_costs_nothing_else(stage: Stage) -> None:
    stage.night()
    path = stage.folder / "history" / "nvidia-h200" / "nights.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    code, night = stage.night()
    assert code == 0
    assert any("line 1: no JSON" in note for note in night["notes"])


@pytest.mark.parametrize("bad", [{"commit": "\0"}, {"toolchain": {"tilelang": "\ud800"}}])
def test_characters_in_an_old_line_cost_no_later_night(stage: Stage, bad: dict[str, Any]) -> None:
    stage.night()
    path = stage.folder / "history" / "nvidia-h200" / "nights.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text()), **bad}) + "\n")
    failing = {"code": 1, "tests": {"softmax-one": "softmax is wrong"}}
    code, night = stage.night(correctness=failing)
    assert code == 13 and (stage.out / "summary.md").exists()
    assert any("line 1: has the character" in note for note in night["notes"])


def test_simulated_night_leaves_out_what_means_nothing_without_a_gpu(stage: Stage) -> None:
    code, night = stage.night(choice={"simulate": True})
    assert code == 0
    skipped = {name for name, state in states(night).items() if state == "skipped"}
    assert skipped == {"latency", "sanitizer"} and "guard" not in states(night)
    assert night["gpu"] == "simulator"
    assert any("--tilecheck-device=simulator" in words for words, _ in stage.calls())


def test_second_night_on_one_gpu_is_refused(stage: Stage) -> None:
    with job._lock("GPU-1"):
        code, night = stage.night()
    assert code == 10
    assert "another night runs on this GPU" in stage.said[-1]
    assert states(night)["latency"] == "refused"
    assert stage.night()[0] == 0


def test_gpu_that_cannot_be_locked_is_not_used(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    code, night = stage.night()
    assert code == 20 and states(night)["latency"] == "refused"
    assert "this GPU cannot be locked: " in stage.said[-1] and "XDG_CACHE_HOME" in stage.said[-1]


def test_counts_of_one_are_no_plurals(stage: Stage) -> None:
    """Of nights before, of findings that are not shown, and of tests that fail."""
    tests = {f"other-{number}": "boom" for number in range(31)}
    for before, nights in enumerate(("0 nights", "1 night", "2 nights")):
        stage.night(correctness={"code": 1, "tests": tests})
        summary = (stage.out / "summary.md").read_text()
        assert f", {nights} on record before it." in summary, before
        assert "\n- 1 more finding in night.json" in summary
        assert "in correctness (1 test);" in summary


def test_many_findings_are_cut_short_for_people_alone(stage: Stage) -> None:
    tests = {f"other-{number}": "boom" for number in range(50)}
    code, night = stage.night(correctness={"code": 1, "tests": tests})
    assert code == 13 and len(night["findings"]) == 50
    summary = (stage.out / "summary.md").read_text()
    assert summary.count("\n### ") == 30 and "20 more findings in night.json" in summary


def test_hostile_words_do_not_become_markdown(stage: Stage) -> None:
    bad = "&lt;img src=x&gt; | [x](http://x) **bold**"
    stage.night(correctness={"code": 1, "tests": {"softmax-one": bad}})
    summary = (stage.out / "summary.md").read_text()
    assert "<img" not in summary and "[x](" not in summary and "**bold" not in summary
    assert "&lt;img src=x&gt; \\| \\[x\\]" in summary


# Interrupted, and the command line


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_night_that_is_terminated_writes_what_it_has(stage: Stage, how: signal.Signals) -> None:
    scenario = {"correctness": {"hang": True}}
    (stage.folder / "scenario.json").write_text(json.dumps(scenario))
    out = stage.folder / "night"
    out.mkdir()
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_job import KNOWN, Stage, Suite, H200, job, Choice
stage = Stage.__new__(Stage)
stage.root = Path({str(stage.root)!r})
choice = Choice(python={str(stage.python)!r}, out=Path({str(out)!r}), gpu=H200, seed=7)
say = lambda text: print(text, flush=True)
sys.exit(job.run_night(choice, Suite(stage.root, KNOWN), Path({str(stage.folder / "history")!r}), say))
"""
    ran = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=variables_of(), cwd=stage.folder
    )
    assert ran.stdout is not None
    for line in ran.stdout:
        if line.startswith("correctness: begins"):
            break
    time.sleep(0.5)
    ran.send_signal(how)
    rest, _ = ran.communicate(timeout=60)
    assert ran.returncode == 130
    night = json.loads((out / "night.json").read_text())
    before = {"guard": "passed", "doctor": "passed", "latency": "passed"}
    assert states(night) == {**before, "correctness": "interrupted"}
    assert night["seconds"]["correctness"] > 0
    *table, verdict = rest.splitlines()
    assert any(re.fullmatch(r"correctness +\d+ s  interrupted", line) for line in table)
    assert verdict == "INTERRUPTED"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("where", ["shutil.rmtree", "triage", "write_trend"])
def test_whole_night_is_written_whatever_comes_after_its_last_stage(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, how: signal.Signals, where: str
) -> None:
    monkeypatch.setattr(f"tilecheck.nightly.job.{where}", lambda *_, **__: signal.raise_signal(how) or [])
    code, night = stage.night(choice={"simulate": True, "stages": ("doctor", "codegen", "report")})
    assert code == 0 and night["exit_code"] == 0
    assert stage.said[-1] == "GREEN"
    assert len(History(stage.folder / "history", "simulator").read().nights) == 1


PLAYED = """
import sys
from tilecheck.cli import entry
from tilecheck.nightly import job, known

def night(choice, suite, history, say):
    for line in ("one", "two", "three"):
        say(line)
    (choice.out / "written").touch()
    return 13

job.run_night = night
known.known = lambda project: None
entry()
"""


def test_night_goes_on_when_nobody_reads_what_it_says(tmp_path: Path) -> None:
    root, out = Path(__file__).parents[3], tmp_path / "out"
    reads, writes = os.pipe()
    os.close(reads)
    try:
        command = [
            sys.executable,
            "-c",
            PLAYED,
            "nightly",
            "--simulate",
            "--root",
            str(root),
            "--out",
            str(out),
        ]
        done = subprocess.run(command, stderr=writes, stdout=writes, env=variables_of(), check=False)
    finally:
        os.close(writes)
    assert done.returncode == 13 and (out / "written").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "which GPU has to be there?"),
        (["--only", "latency"], "which GPU has to be there?"),
        (["--only", "latancy"], "no stage 'latancy'; did you mean latency?"),
        (["--simulate", "--gpu", "x"], "contradict each other"),
        (
            ["--simulate", "--limit", "latency=soon"],
            "--limit latency=soon: no number of seconds",
        ),
        (["--simulate", "--limit", "latency=604801"], "no number of seconds from 1 to 604800"),
        (
            ["--simulate", "--limit", f"latency={'9' * 400}"],
            "latency=99999999999999999999...: no number",
        ),
        (["--simulate", "--limit", f"latency={'9' * 5000}"], "no number of seconds"),
        (
            ["--simulate", "--newest", "latest"],
            "--newest: 'latest' is no version of TileLang; give auto",
        ),
        (["--simulate", "--out", "/tmp/a$b"], "--out /tmp/a$b: pytest takes what follows a $ for a variable"),
        (["--simulate", "--out", "."], "is there and not empty"),
        (["--simulate", "--only", ""], "--only names no stage"),
        (["--simulate", "--only", ","], "--only names no stage"),
        (["--simulate", "-k", "softmax and ("], "-k 'softmax and (': pytest does not take it: exit code 4: "),
        (["--simulate", "--history", "README.md"], "--history README.md: "),
        (["--simulate", "--history", "README.md/nights"], "README.md is no folder"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(Path(__file__).parents[3])
    assert main(["nightly", *arguments, "--root", root]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert not (Path(root) / "nights").exists()


def test_folder_is_one_night_s_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        "nightly",
        "--simulate",
        "--root",
        str(Path(__file__).parents[3]),
        "--out",
        str(tmp_path / "out"),
    ]
    codes: list[int] = []

    def second_begins(_: object) -> Known:
        if not codes:
            codes.append(-1)
            codes.append(main(given))
        return KNOWN

    monkeypatch.setattr("tilecheck.nightly.known.known", second_begins)
    monkeypatch.setattr(job, "run_night", lambda *_: 13)
    assert main(given) == 2 and codes == [-1, 13]
    assert "is another night's by now" in capsys.readouterr().err.splitlines()[-1]


def test_command_brings_the_guard_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Choice] = []
    monkeypatch.setattr("tilecheck.nightly.known.known", lambda _: KNOWN)
    monkeypatch.setattr(job, "run_night", lambda choice, *_: seen.append(choice) or 13)
    root = str(Path(__file__).parents[3])
    given = ["--only", "latency", "--gpu", H200, "--out", str(tmp_path / "out"), "--limit", "latency=60"]
    assert main(["nightly", *given, "--root", root]) == 13
    assert main(["nightly", *given[:-4], "--out", str(tmp_path / "next"), "--root", root]) == 13
    assert seen[0].stages == ("guard", "latency") and seen[0].seconds("latency") == 60
    assert seen[0].seed != seen[1].seed
