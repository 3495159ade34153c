"""A stage: how it ends, and what becomes of the processes of one that hangs."""

import io
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tilecheck.nightly.stages import Ended, Stage, Step, last_words, run_stage
from tilecheck.progress import Progress
from tilecheck.versions import variables_of

VARIABLES = variables_of()


def python(code: str, *words: str, **given: object) -> Step:
    return Step((sys.executable, "-c", code, *words), **given)  # type: ignore[arg-type]


def ran(tmp_path: Path, *steps: Step, seconds: float = 60, grace: float = 0.2) -> Ended:
    return run_stage(Stage("codegen", steps, seconds), tmp_path / "logs", tmp_path, VARIABLES, grace)


def test_passed(tmp_path: Path) -> None:
    ended = ran(tmp_path, python("print('fine')"), python("pass"))
    assert (ended.state, ended.words, ended.codes, ended.green) == ("passed", "", (0, 0), True)
    assert "\nfine\n" in Path(ended.log).read_text()


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (
            "print('tilecheck diff-codegen: 2 rows are worse'); raise SystemExit(1)",
            "failed",
            "2 rows are worse",
        ),
        (
            "print('ERROR: usage'); raise SystemExit(4) # of pytest",
            "broken",
            "pytest refused to run: ERROR: usage",
        ),
        ("raise SystemExit(5) # of pytest", "broken", "no tests were selected"),
        ("raise SystemExit(2)", "broken", "wrong usage or unusable input"),
        ("print('fell back'); raise SystemExit(3)", "broken", "exit code 3: fell back"),
        ("import os; os.abort()", "broken", "died of SIGABRT"),
        ("raise ValueError('no such GPU')", "broken", "crashed: ValueError: no such GPU"),
        ("raise SystemExit(77)", "broken", "exit code 77"),
    ],
)
def test_other_ends(tmp_path: Path, code: str, state: str, words: str) -> None:
    ended = ran(tmp_path, python(code, *(["pytest"] if code.endswith("of pytest") else [])))
    assert (ended.state, ended.green) == (state, False)
    assert words in ended.words


def test_unknown_command_is_a_broken_stage_with_a_clear_word(tmp_path: Path) -> None:
    ended = ran(tmp_path, Step((sys.executable, "-m", "tilecheck", "doctr")))
    assert ended.state == "broken"
    assert "tilecheck: no command 'doctr'" in ended.words


def test_program_that_is_not_there(tmp_path: Path) -> None:
    ended = ran(tmp_path, Step(("/nowhere/python", "-m", "pytest")))
    assert (ended.state, ended.words) == (
        "broken",
        "exit code 127: error: /nowhere/python does not run: No such file or directory",
    )


def test_failure_does_not_stop_the_next_step_unless_it_should(tmp_path: Path) -> None:
    failing = python("raise SystemExit(1)")
    ended = ran(tmp_path, failing, python("print('facts')", out=tmp_path / "sub" / "facts"))
    assert (ended.state, ended.codes) == ("failed", (1, 0))
    assert (tmp_path / "sub" / "facts").read_text() == "facts\n"
    assert ran(tmp_path, failing, python("pass", after_failure=False)).codes == (1,)


def test_broken_step_is_worse_than_a_failed_one(tmp_path: Path) -> None:
    ended = ran(tmp_path, python("raise SystemExit(1)"), python("raise SystemExit(4)"))
    assert ended.state == "broken" and ended.words.startswith("exit code 4")


def test_further_codes_may_be_answers(tmp_path: Path) -> None:
    assert ran(tmp_path, python("raise SystemExit(3)", answers=(3,))).state == "failed"


def test_crash_is_none_of_the_codes_that_are_fine(tmp_path: Path) -> None:
    assert ran(tmp_path, python("raise SystemExit(1)", fine=(1,))).state == "passed"
    assert ran(tmp_path, python("raise ValueError('boom')", fine=(1,))).words == "crashed: ValueError: boom"


def gone(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True  # nobody of ours is its parent any more
        time.sleep(0.05)
    return False


HANGS = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
mine = subprocess.Popen(sleep)
other = subprocess.Popen(sleep, start_new_session=True)
open("pids", "w").write(f"{mine.pid} {other.pid}")
time.sleep(600)
"""


def test_stage_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    ended = ran(tmp_path, python(HANGS), python("raise SystemExit('never')"), seconds=4)
    assert ended.state == "hung"
    assert ended.words.startswith("took longer than 4 s, at: ")
    assert ended.codes == ()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2 and all(map(gone, pids))


@pytest.mark.parametrize("ours", [signal.default_int_handler, signal.SIG_IGN], ids=["heeded", "ignored"])
def test_stage_that_hangs_may_write_down_what_it_has(tmp_path: Path, ours: Any) -> None:
    code = "import time\ntry: time.sleep(600)\nexcept KeyboardInterrupt: open('junit.xml', 'w').write('<x/>')"
    before = signal.signal(signal.SIGINT, ours)  # ignored: as a shell starts what is in the background
    try:
        assert ran(tmp_path, python(code), seconds=2, grace=20).state == "hung"
        assert signal.getsignal(signal.SIGINT) is ours
    finally:
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "junit.xml").exists()


def progress(told: str = "") -> str:
    stream = io.StringIO()
    shown = Progress("compiling", 22, unit="row", stream=stream)
    shown.reach(22, told)
    shown.close()
    assert "22 of 22 rows" in stream.getvalue()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("E   assert 1 == 2\n==== 2 failed, 97 passed in 3.21s ====\n", "2 failed, 97 passed in 3.21s"),
        (
            "usage: x\n__main__.py: error: unrecognized arguments: --tilecheck-report=x\n  inifile: y\n",
            "__main__.py: error: unrecognized arguments: --tilecheck-report=x",
        ),
        ("ERROR: baselines/0002.json: line 1: no JSON\n\n", "ERROR: baselines/0002.json: line 1: no JSON"),
        (
            "INTERNALERROR> def f():\nINTERNALERROR> a.b.OddError: no\nINTERNALERROR> assert 0\n"
            "tilecheck warning: x\ntilecheck versions: TileLang 0.1.15\ntilecheck report: y\n",
            "INTERNALERROR> a.b.OddError: no",
        ),
        ("tilecheck doctor: no\ntilecheck latency: NVIDIA H200\n", "tilecheck doctor: no"),
        ("one\ntwo\n", "two"),
        (f"two\n{progress('a-row-sm_90a')}", "two"),
        (progress(), ""),
        ("", ""),
        ("x" * 500, "x" * 157 + "..."),
    ],
)
def test_last_words(text: str, words: str) -> None:
    assert last_words(text) == words
