"""README.md and the pages it leads to tell the truth: they run, failures are real, what is named is there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kernels
from tilecheck import environment
from tilecheck.arches import ARCHES
from tilecheck.cli import COMMANDS, main
from tilecheck.codegen import NoToolchain, find_toolchain
from tilecheck.dtypes import DTYPES, dtype

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README = (ROOT / "README.md").read_text()
PARTS = ("reading-a-run", "report", "code", "tuning", "nightly")
PAGES = {
    name: (ROOT / name).read_text()
    for name in ("README.md", "CONTRIBUTING.md", *(f"docs/{part}.md" for part in PARTS))
}
BLOCKS = [found for page in PAGES.values() for found in FENCED.findall(page)]
COMMAND_LINES = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines() if line]
CODE = [text for page in PAGES.values() for text in re.findall(r"`([^`\n]+)`", FENCED.sub("", page))]
CODE += COMMAND_LINES

PLAIN_PAGES = sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))

FAMILY_FILE = "kernels/rms_norm.py"


def block(start: str) -> str:
    """The one code block that begins so."""
    (text,) = [text for _, text in BLOCKS if text.startswith(start)]
    return text


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tilecheck.plugin", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


# The example of a new kernel, and its failures


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this repository with the README's kernel in it: one new file, and one new line."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=ignored)
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "pytest.ini", "tests/known_issues.toml", "tests/test_correctness.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / FAMILY_FILE).write_text(block('"""RMS norm'))
    shown = block('     "flash_attention"').splitlines(keepends=True)
    before = "".join(line[1:] for line in shown if line[0] == " ")
    listing = tmp_path / "kernels/__init__.py"
    assert listing.read_text().count(before) == 1
    assert len(shown) == len(before.splitlines()) + 1
    listing.write_text(listing.read_text().replace(before, "".join(line[1:] for line in shown)))
    return tmp_path


def change(checkout: Path, right: str, wrong: str) -> None:
    text = (checkout / FAMILY_FILE).read_text()
    assert text.count(right) == 1
    (checkout / FAMILY_FILE).write_text(text.replace(right, wrong))


def failure(checkout: Path) -> str:
    ran = run_pytest(checkout, "-k", "rms-norm-tails-fp16", "--device=simulator")
    assert ran.returncode == 1, ran.stdout
    lines = [line.removeprefix("E").strip() for line in ran.stdout.splitlines() if line.startswith("E ")]
    return plain("\n".join(lines).removeprefix("tilecheck.conformance.Mismatch: "))


def plain(message: str) -> str:
    """Without the breaks of lines, and without the digits after the point that another torch may change."""
    return re.sub(r"\d+\.\d+(e[-+]\d+)?", "#", " ".join(message.split()))


def test_new_kernel_is_one_file_and_one_line(checkout: Path) -> None:
    (arguments,) = [
        line.partition("ARGS=")[2].strip("'") for line in CODE if "rms-norm" in line and "make" in line
    ]
    ran = run_pytest(checkout, "-m", "correctness", *arguments.split(), "--device=simulator")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^rms_norm +float16 +2 ", ran.stdout, re.MULTILINE), ran.stdout


def test_wrong_value_reads_as_shown(checkout: Path) -> None:
    change(checkout, "total[i] / N", "total[i] / columns")
    assert failure(checkout) == plain(FAILURES[0])


def test_finding_of_the_simulator_reads_as_shown(checkout: Path) -> None:
    change(checkout, "            T.copy(W[0], weights)\n", "")
    assert failure(checkout) == plain(FAILURES[1])


FAILURES = [text for _, text in BLOCKS if text.startswith("rms_norm is wrong")]


# The example of another repository


def test_kernel_of_another_repository(tmp_path: Path) -> None:
    for name in ("axpy.py", "specs.py", "pytest.ini"):
        (tmp_path / name).write_text(block(f"# {name}\n"))
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/test_correctness.py", tmp_path / "tests")
    ran = run_pytest(tmp_path, "-m", "correctness", "--device=simulator")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^axpy +float16 +1 .* ~", ran.stdout, re.MULTILINE), ran.stdout


def test_its_configuration_is_what_init_writes(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path)]) == 0
    assert block("# pytest.ini\n") == f"# pytest.ini\n{(tmp_path / 'pytest.ini').read_text()}"


# The commands


def help_of(command: str, capfd: pytest.CaptureFixture[str]) -> str:
    assert main([command, "--help"]) == 0
    return capfd.readouterr().out


def test_table_of_commands_is_that_of_the_program() -> None:
    assert re.findall(r"^\| `tilecheck ([a-z-]+)`", README, re.MULTILINE) == list(COMMANDS)


def test_commands_take_the_options_that_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    known = {command: options_in(help_of(command, capfd)) for command in COMMANDS}
    known["pytest"] = options_in(run_pytest(ROOT, "--help").stdout)
    shown = [line.partition("#")[0].replace(".ci/nightly", "tilecheck nightly") for line in COMMAND_LINES]
    commands = [line.removeprefix("tilecheck ").split() for line in shown if line.startswith("tilecheck ")]
    commands += [line.split() for line in shown if line.startswith("pytest ")]
    assert {"source", "tune", "nightly", "bisect", "calibrate", "pytest"} <= {words[0] for words in commands}
    for name, *words in commands:
        assert options_in(" ".join(words)) <= known[name], (name, words)
    somewhere = set().union(*known.values())
    for part in PARTS:
        assert options_in(PAGES[f"docs/{part}.md"]) <= somewhere
    assert options_in(COMMANDS_SECTION) <= somewhere


@pytest.mark.codegen
def test_facts_read_as_shown(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        toolchain = find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    shown = block("  case ")
    if str(toolchain) not in shown:
        pytest.skip(f"the page shows another toolchain than {toolchain}")
    (command,) = [
        line for line in block("tilecheck source").splitlines() if line.startswith("tilecheck facts matmul")
    ]
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", sys.path[:])
    assert main(command.split()[1:]) == 0
    assert capfd.readouterr().out == shown


@pytest.mark.codegen
def test_explanation_reads_as_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        toolchain = find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    if str(toolchain) not in PAGES["docs/code.md"]:
        pytest.skip(f"the page shows another toolchain than {toolchain}")
    (command,) = [line for line in block("tilecheck source").splitlines() if " explain " in line]
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", sys.path[:])
    # As the data sheet has the GPU, whatever this machine has.
    monkeypatch.setattr(environment, "machine", environment.Machine)
    assert main(shlex.split(command, comments=True)[1:]) == 0
    assert capfd.readouterr().out.endswith(block("the launch\n"))


COMMANDS_SECTION = README.partition("\n## Commands\n")[2].partition("\n## ")[0]


# What it names


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def test_options_are_those_of_pytest_and_the_commands() -> None:
    shown, of_commands = run_pytest(ROOT, "--help").stdout, COMMANDS_SECTION
    named = options_in(README)
    assert options_in(README.replace(of_commands, "")) - options_in(shown) == set()
    ours = set(re.findall(r"^  (--tilecheck-[a-z-]+)", shown, re.MULTILINE))
    assert ours
    assert ours | {f"--{name.removeprefix('--tilecheck-')}" for name in ours} <= named


def test_architectures_of_the_option_are_all_there_are() -> None:
    (row,) = [line for line in README.splitlines() if line.startswith("| `--arch`")]
    assert re.findall(r"`(sm_\w+)`", row) == list(ARCHES)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {match for text in CODE for match in re.findall(r"\bmake ([a-z]+)", text)}
    assert {"correctness", "test", "venv"} <= named <= targets


def test_make_variables_exist() -> None:
    known = set(re.findall(r"^([A-Z_]+) \?=", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {match for text in CODE for match in re.findall(r"\b([A-Z]+)=", text)} <= known


def test_layout_and_files_exist() -> None:
    layout = [line.split()[0] for line in block("kernels/ ").splitlines()]
    named = [text for text in CODE if re.fullmatch(r"[\w./]+\.(py|md|txt|toml)", text)]
    written_here = {FAMILY_FILE, "axpy.py", "specs.py", "summary.md"}
    assert layout
    assert [
        name for name in (*layout, *named) if name not in written_here and not (ROOT / name).exists()
    ] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *PLAIN_PAGES])
def test_links_lead_to_files_and_headings(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page.read_text())
    assert links or name not in ("README.md", "docs/reading-a-run.md")
    for file, heading in links:
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        assert not heading or heading in headings_of(target.read_text()), f"{file}#{heading}"


def headings_of(page: str) -> set[str]:
    """Anchors of a page, as GitHub names them."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_each_page_is_linked_from_the_readme() -> None:
    assert set(re.findall(r"\]\((docs/[\w-]+\.md)\)", README)) == set(PLAIN_PAGES)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *PLAIN_PAGES])
def test_blocks_are_closed(name: str) -> None:
    # One that is not closed swallows the page up to the end of the next.
    fences = re.findall(r"^```(.*)$", (ROOT / name).read_text(), re.MULTILINE)
    assert len(fences) % 2 == 0 and not any(fences[1::2])


def test_table_of_kernels_is_that_of_the_specs() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in README.splitlines() if "|" in line
    ]
    at = next(i for i, row in enumerate(rows) if row[0] == "kernel")
    arches, rows = rows[at][2:], rows[at + 2 : at + 2 + len(kernels.SPECS)]
    assert arches == list(ARCHES)
    assert [row[0] for row in rows] == [f"`{spec.name}`" for spec in kernels.SPECS]
    shorts = {kind.short for kind in DTYPES.values()}
    for spec, (_, dtypes, *cells) in zip(kernels.SPECS, rows, strict=True):
        assert set(re.findall(r"\w+", dtypes)) & shorts == {dtype(case.dtype).short for case in spec.cases}
        assert [name for name, cell in zip(arches, cells, strict=True) if cell] == list(spec.arches)


COUNTING = """
import json
from collections import Counter

import pytest

from tilecheck.plugin.limits import TOO_LARGE
from tilecheck.plugin.rows import row_of

RECORDED = {"kernel_case", "hostile_case", "scheduled_case", "empty"}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if any(name == TOO_LARGE for name, _ in item.user_properties)]
    ran = [item for item in items if row_of(item) and not item.get_closest_marker("skip")]
    rows = [row_of(item) for item in ran if RECORDED & item.callspec.params.keys()]
    counts = Counter(f"{row.spec.name} {row.case.dtype}" for row in rows)
    (config.rootpath / "counted.json").write_text(json.dumps([counts, len(left_out)]))
"""


def test_counts_of_the_summary_shown_are_those_of_a_run(tmp_path: Path) -> None:
    for name in ("kernels", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "pytest.ini", tmp_path)
    (tmp_path / "counting.py").write_text(COUNTING)
    # tests/harness asks nothing of kernels, and takes most of the time.
    asked = ["-m", "correctness", "--device=simulator", "--ignore=tests/harness", "--collect-only", "-q"]
    ran = run_pytest(tmp_path, "-p", "counting", *asked)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counts, left_out = json.loads((tmp_path / "counted.json").read_text())
    shown = block("tilecheck 0")
    rows = re.findall(r"^(\w+) +(\w+) +(\d+) +[\d.]+ +[\d.]+ *([\w-]*)$", shown, re.MULTILINE)
    assert rows
    for kernel, of_dtype, count, case in rows:
        assert (kernel, of_dtype, int(count)) == (kernel, of_dtype, counts[f"{kernel} {of_dtype}"])
        assert case in {"", *(spec.test_id(case) for spec in kernels.SPECS for case in spec.cases)}
    (told,) = re.findall(r"^(\d+) cases left out as too large", shown, re.MULTILINE)
    assert int(told) == left_out
