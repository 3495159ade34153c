"""What is started in a session of its own ends with whoever started it, even where that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness.alive import running
from tilecheck.family import descendants
from tilecheck.versions import variables_of
from tilecheck.watch import asked, watched

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
sys.path.insert(0, str(Path.cwd()))
"""

BY_STAGE = """
from tilecheck.nightly.stages import Stage, Step, run_stage
run_stage(Stage("codegen", (Step((sys.executable, "hangs.py")),), 600), Path("logs"), Path(), variables_of())
"""

BY_ASKING = """
from tilecheck.watch import asked
asked([sys.executable, "hangs.py"], "", Path(), variables_of(), 600)
"""

BY_CHECKING = """
from tilecheck.isolation import run_isolated
run_isolated(["hangs"], "row-right", device="simulator")
"""

BY_TOOL = """
from tilecheck.single import run_under
run_under([sys.executable, "hangs.py"], [], 600)
"""

BY_TUTORIAL = """
from tilecheck.tutorial import play, read_page
Path("page.md").write_text("## Hangs\\n\\n```python\\nimport hangs\\n```\\n")
page = read_page(Path("page.md"))
list(play(page, page.sections, Path.cwd(), False, begin=print))
"""

BY_TUNING = """
from tilecheck.tuning.child import Child
Child("hangs", "").ask({}, 600)
"""


KILLED = {
    "stage": BY_STAGE,
    "asked": BY_ASKING,
    "check": BY_CHECKING,
    "tool": BY_TOOL,
    "tutorial": BY_TUTORIAL,
    "tuning": BY_TUNING,
}


@pytest.mark.parametrize(
    ("code", "how"),
    [
        *(pytest.param(code, signal.SIGKILL, id=f"{name}-killed") for name, code in KILLED.items()),
        pytest.param(BY_ASKING, signal.SIGTERM, id="asked-terminated"),
        pytest.param(BY_TUNING, signal.SIGINT, id="tuning-interrupted"),
    ],
)
def test_what_hangs_ends_with_who_started_it(tmp_path: Path, code: str, how: signal.Signals) -> None:
    (tmp_path / "hangs.py").write_text(HANGS)
    starts = subprocess.Popen(
        [sys.executable, "-c", IMPORTS + code],
        cwd=tmp_path,
        env=variables_of(),
        # In the background a shell has its commands ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    try:
        while not (tmp_path / "pids").exists():
            assert time.monotonic() < deadline and starts.poll() is None
            time.sleep(0.05)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 2 and all(map(running, pids))
        pids += [pid for pid, _ in descendants(starts.pid)]  # and who watches
    finally:
        starts.send_signal(how)
        starts.wait()
    while any(map(running, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_nothing_is_left_of_what_is_watched_side_by_side(tmp_path: Path) -> None:
    before = set(descendants(os.getpid()))
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    with watched() as one, watched() as two:
        pids = [one(sleeps).pid, two(sleeps, cwd=tmp_path).pid]
        two(["true"]).wait()
        assert all(map(running, pids))
    assert set(descendants(os.getpid())) == before


def test_an_interrupt_amid_a_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(descendants(os.getpid()))
    popen = subprocess.Popen

    def interrupted(command: list[str], **options: Any) -> Any:
        child = popen(command, **options)
        if command == ["sleep", "600"]:
            signal.raise_signal(signal.SIGINT)  # before anybody knows of it
        return child

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), watched() as start:
        start(["sleep", "600"])
    assert set(descendants(os.getpid())) == before


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
