"""What is started in a session of its own ends with whoever started it, even where that is killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilecheck.processes import running
from tilecheck.versions import variables_of
from tilecheck.watch import asked

# Neither heeds signals nor lets another thread of its interpreter run, as a kernel that hangs may not.
HANGS = """
import os, re, signal, subprocess, sys
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("pids.new", "w").write(f"{os.getpid()} {other.pid}")
os.rename("pids.new", "pids")
re.match("(a*)*b", "a" * 60)
"""

IMPORTS = """
import sys
from pathlib import Path
from tilecheck.versions import variables_of
"""

BY_STAGE = """
from tilecheck.nightly.stages import Stage, Step, run_stage
run_stage(Stage("codegen", (Step((sys.executable, "-c", HANGS)),), 600), Path("logs"), Path(), variables_of())
"""

BY_ASKING = """
from tilecheck.watch import asked
asked([sys.executable, "-c", HANGS], "", Path(), variables_of(), 600)
"""


@pytest.mark.parametrize("code", [BY_STAGE, BY_ASKING], ids=["stage", "asked"])
def test_what_hangs_ends_with_who_started_it_where_that_is_killed(tmp_path: Path, code: str) -> None:
    head = f"{IMPORTS}HANGS = {HANGS!r}\n"
    starts = subprocess.Popen([sys.executable, "-c", head + code], cwd=tmp_path, env=variables_of())
    deadline = time.monotonic() + 60
    try:
        while not (tmp_path / "pids").exists():
            assert time.monotonic() < deadline and starts.poll() is None
            time.sleep(0.05)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 2 and all(map(running, pids))
    finally:
        starts.send_signal(signal.SIGKILL)
        starts.wait()
    while any(map(running, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_answer_comes_with_what_was_said_and_the_exit_code(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.read().upper()); sys.exit('why')"
    done = asked([sys.executable, "-c", code], "words", tmp_path, variables_of(), 60)
    assert (done.stdout.strip(), done.stderr.strip(), done.returncode) == ("WORDS", "why", 1)


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        asked([sys.executable, "-c", HANGS], "", tmp_path, variables_of(), 2)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    deadline = time.monotonic() + 20
    while any(map(running, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
