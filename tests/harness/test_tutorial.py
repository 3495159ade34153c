"""docs/tutorial.md runs, block by block, and shows what comes out; and how `tilecheck tutorial` goes on."""

import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import kernels
from tests.harness.alive import running
from tilecheck import environment
from tilecheck.cli import main
from tilecheck.family import descendants
from tilecheck.latency import bench
from tilecheck.latency.timing import Samples
from tilecheck.program import build_program
from tilecheck.tutorial import blocks, play, read_page
from tilecheck.tutorial.page import Section

ROOT = Path(__file__).parents[2]
PAGE = read_page(ROOT / "docs/tutorial.md")
BY_OTHERS = ("tilecheck doctor",)
"""Commands of the page that a test of theirs runs from end to end."""


def shown(section: Section) -> dict[int, str]:
    """Output that the page shows right below a block, by the block's line."""
    text = PAGE.path.read_text().splitlines()
    found = {}
    for block in section.blocks:
        end = block.line - 1 + len(block.text.splitlines())  # of the closing fence, from 0
        if text[end + 1 : end + 3] == ["", "```"]:
            close = text.index("```", end + 3)
            found[block.line] = "\n".join(text[end + 3 : close])
    return found


def plain(text: str) -> str:
    """Without digits after a point, which another torch may change."""
    return re.sub(r"(?<=\d)\.\d+(e[-+]\d+)?", ".#", text.strip())


@pytest.fixture
def in_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the root, with imports that end with the test, and on the simulator."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    monkeypatch.setattr(environment, "machine", lambda: environment.Machine(torch="2", no_driver="a test"))


@pytest.mark.usefixtures("in_checkout")
@pytest.mark.parametrize("section", PAGE.sections, ids=lambda section: str(section.number))
def test_python_of_a_section(
    section: Section, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs: dict[int, str] = {}
    run = blocks._run_python

    def run_and_keep(path: Path, line: int, *rest: Any) -> None:
        capfd.readouterr()
        run(path, line, *rest)
        outputs[line] = capfd.readouterr().out

    monkeypatch.setattr(blocks, "_run_python", run_and_keep)
    monkeypatch.setattr(blocks, "_run_command", lambda *_: None)
    assert blocks.run_section(PAGE, section, gpu=False) == sum(block.gpu for block in section.blocks)
    for line, output in shown(section).items():
        beginning, more, _ = output.partition("\n...")
        assert plain(outputs[line]).startswith(plain(beginning)), f"line {line}"
        assert more or plain(outputs[line]) == plain(output), f"line {line}"


class FakeBench:
    """Times a row without launching it: its program has to be one."""

    def time(self, spec: Any, case: Any, seed: int) -> bench.Timed:
        build_program(spec, case, FakeDevice.arch)
        samples = Samples((1e-3, 2e-3, 3e-3), "events", 1980.0)
        return bench.Timed(samples, dict.fromkeys(spec.vendor, samples))


class FakeDevice:
    from tilecheck.arches import ARCHES

    arch = ARCHES["sm_90a"]


@pytest.mark.usefixtures("in_checkout")
@pytest.mark.parametrize(
    "section",
    [section for section in PAGE.sections if any(block.gpu for block in section.blocks)],
    ids=lambda section: str(section.number),
)
def test_blocks_for_a_gpu_run_with_a_stopwatch_of_the_test(
    section: Section, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "open_bench", lambda device: (FakeBench(), nullcontext()))
    monkeypatch.setattr(blocks, "_run_command", lambda *_: None)
    assert blocks.run_section(PAGE, section, gpu=True) == 0
    assert re.search(r"2(\.0|000\.0|\.000) [um]s", capfd.readouterr().out)


def commands(gpu: bool = False) -> list[str]:
    lines = (
        line
        for section in PAGE.sections
        for block in section.blocks
        if block.gpu == gpu
        for line in block.text.splitlines()
    )
    return [line for line in lines if line.startswith(("tilecheck ", "pytest ")) and line not in BY_OTHERS]


@pytest.mark.usefixtures("in_checkout")
@pytest.mark.parametrize("command", [command for command in commands() if command.startswith("tilecheck ")])
def test_commands_of_the_page(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)[1:]) == 0
    assert capfd.readouterr().out


def test_commands_for_a_gpu_are_spelt_right(capfd: pytest.CaptureFixture[str]) -> None:
    assert commands(gpu=True)
    for command in commands(gpu=True):
        _, name, kernel, *options = shlex.split(command)
        assert main([name, "--help"]) == 0
        shown = capfd.readouterr().out
        assert {word for word in options if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", shown))
        (spec,) = [spec for spec in kernels.SPECS if spec.name == kernel]
        spec.case(options[options.index("--case") + 1])


def test_calls_of_pytest_on_the_page_select_tests() -> None:
    for command in (command for command in commands() if command.startswith("pytest ")):
        blocks._run_command(PAGE.path, 1, ["pytest", "-p", "no:cacheprovider", *shlex.split(command)[1:]])


# The runner

COURSE = """
Before the first section.

## Fine

```python
x = 1
```

```
not code
```

```python
print("x is", x + 1)
```

## Wrong

```python
y = 1

raise ValueError("as it were")
```

## Dead

```python
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
```

## Slow

```python
import time
time.sleep(60)
```

## For a GPU

```python gpu
raise AssertionError("there is none")
```

## Last

```sh
tilecheck --version  # of a program that is there
```
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    path = tmp_path / "course.md"
    path.write_text(COURSE)
    return path


def test_one_section_costs_no_other(course: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = read_page(course)
    begun: list[str] = []
    ticks = iter(range(100))
    results = list(
        play(
            page,
            page.sections,
            course.parent,
            gpu=False,
            begin=lambda section: begun.append(section.title),
            limit=10.0,
            clock=lambda: float(next(ticks)),
        )
    )
    assert begun == ["Fine", "Wrong", "Dead", "Slow", "For a GPU", "Last"]
    assert [result.state for result in results] == ["ok", "failed", "died", "hung", "ok", "ok"]
    assert [result.left_out for result in results] == [0, 0, 0, 0, 1, 0]
    assert {result.seconds for result in results} == {1.0}
    line = COURSE.splitlines().index('raise ValueError("as it were")') + 1
    assert results[1].why == f"{course}:{line}: ValueError: as it were"
    assert results[2].why == "ended by SIGKILL"
    assert results[3].why == "no end within 10 s"
    out = capfd.readouterr().out
    assert "x is 2" in out
    assert "$ tilecheck --version" in out


@pytest.mark.parametrize(
    ("block", "line", "words"),
    [
        ("import sys\nsys.exit()", 5, "SystemExit"),
        ("import sys\nsys.exit(0)", 5, "SystemExit: 0"),
        ("x = 1\ndef (", 5, "SyntaxError: invalid syntax"),
        ("x = 1\n  y = 2", 5, "IndentationError: unexpected indent"),
        ("raise RuntimeError('first\\nsecond')", 4, "RuntimeError: first"),
    ],
)
def test_a_block_that_does_not_get_to_its_end_says_where_and_why(
    course: Path, capfd: pytest.CaptureFixture[str], block: str, line: int, words: str
) -> None:
    course.write_text(f"## One\n\n```python\n{block}\n```\n\n```python\nprint('after')\n```\n")
    assert main(["tutorial", "--file", str(course), "--root", str(ROOT)]) == 1
    out = capfd.readouterr().out
    assert "after" not in out and out.endswith(f"0 of 1 sections got through\n1: {course}:{line}: {words}\n")


def test_summary_and_exit_code(course: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["tutorial", "--file", str(course), "--root", str(ROOT)]
    assert main([*arguments, "fine", "2"]) == 1
    out = capfd.readouterr().out
    assert re.search(r"^ 1  Fine +ok +\d+\.\d$", out, re.MULTILINE)
    assert re.search(r"^ 2  Wrong +failed +\d+\.\d$", out, re.MULTILINE)
    assert "1 of 2 sections got through\n2: " in out
    assert main([*arguments, "--list", "5", "last"]) == 0
    assert capfd.readouterr().out == " 5  For a GPU\n 6  Last\n"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_ends_the_section_and_sums_up_what_was(course: Path, how: signal.Signals) -> None:
    command = ["-m", "tilecheck", "tutorial", "--file", str(course), "--root", str(ROOT), "fine", "slow"]
    ran = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        # In the background a shell has its commands ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert ran.stdout is not None
    seen = ""
    while not seen.endswith("== 4. Slow\n"):
        seen += ran.stdout.readline()
    while len(pids := [pid for pid, _ in descendants(ran.pid)]) < 2:  # the section's, and its watcher
        time.sleep(0.05)
    ran.send_signal(how)
    out, _ = ran.communicate(timeout=30)
    assert ran.returncode == 130
    assert "== interrupted\n" in out and "1 of 2 sections got through" in out
    assert not any(map(running, pids))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no sections", "no sections"),
        ("```python\nx = 1\n```\n## One\n", "code before the first section"),
        ("## One\n```python\nx = 1\n", ":2: a block that does not end"),
        ("## One\n```python cuda\nx = 1\n```\n", "only gpu may follow"),
        ("## One\n```sh\nrm -rf x\n```\n", "'rm' is not one of tilecheck, pytest"),
    ],
)
def test_a_page_that_cannot_run_is_refused(
    tmp_path: Path, text: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text(text)
    assert main(["tutorial", "--file", str(tmp_path / "page.md"), "--root", str(ROOT)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--root", str(ROOT), "nowhere"], "no section 'nowhere'; there are 1 'Environment'"),
        (["--root", str(ROOT), "--file", "nowhere.md"], "nowhere.md is not there"),
    ],
)
def test_what_is_not_there_is_named(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["tutorial", *arguments]) == 2
    assert message in capfd.readouterr().err
