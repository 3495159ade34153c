"""The command line as a whole: help, exit codes, pipes, and which project a command is about."""

import argparse
import dataclasses
import importlib
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tilecheck import __version__
from tilecheck.cli import COMMANDS, main
from tilecheck.cli.paths import named
from tilecheck.fields import changed_fields, short_repr
from tilecheck.near import did_you_mean
from tilecheck.project import find_project

ROOT = Path(__file__).parents[2]


def tilecheck(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """A command as a user gives it, in the checkout."""
    return subprocess.run(
        [sys.executable, "-m", "tilecheck", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


# Help and exit codes


def test_what_ends_the_process_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ends(_: argparse.Namespace) -> int:
        raise SystemExit(0)  # as a kernel's file may

    monkeypatch.setattr("tilecheck.cli.source.run", ends)
    assert main(["source", "matmul"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tilecheck: ended by SystemExit(0), as of a kernel's file: ")
    assert main(["source"]) == 2 and main(["source", "--help"]) == 0


def test_help_needs_no_compiler() -> None:
    heavy = ("torch", "tilelang", "numpy", "pytest")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({heavy}))\n"  # None there: an import fails
        "from tilecheck.cli import COMMANDS, main\n"
        "assert main(['--help']) == main([]) == 0\n"
        "assert all(main([command, '--help']) == 0 for command in COMMANDS)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert all(f"usage: tilecheck {command}" in ran.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_of_each_argument_what_it_is(command: str) -> None:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"tilecheck.cli.{command.replace('-', '_')}").configure(parser)
    assert [action.dest for action in parser._actions if not action.help] == []


def _paths_of(command: str) -> list[tuple[str, ...]]:
    """The command's arguments that name a file or a folder, each as it is given an empty one."""
    parser = argparse.ArgumentParser()
    importlib.import_module(f"tilecheck.cli.{command.replace('-', '_')}").configure(parser)
    assert not [action.dest for action in parser._actions if action.type is Path]
    paths = [action for action in parser._actions if action.type is named]
    return [(action.option_strings[0], "") if action.option_strings else ("",) for action in paths]


@pytest.mark.parametrize("command", COMMANDS)
def test_empty_path_is_not_taken_for_the_current_folder(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is what a script gives whose variable is not set; and the folder may be anybody's."""
    monkeypatch.chdir(tmp_path)
    for given in _paths_of(command):
        assert main([command, *given]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        assert "'' names no file and no folder" in err
        assert not list(tmp_path.iterdir())


def test_neither_side_of_a_comparison_of_code_may_be_an_empty_path(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["diff-codegen", "", "installed"]) == 2
    told = "tilecheck: '' is neither a file, nor a folder, nor a version of TileLang\n"
    assert capsys.readouterr().err == told


def test_module_and_console_script_are_one() -> None:
    ran = tilecheck("--version")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"tilecheck {__version__}\n", "")
    assert 'tilecheck = "tilecheck.cli:entry"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["sorce"], "tilecheck: no command 'sorce'; did you mean source?; see tilecheck --help"),
        (["diff_codegen"], "tilecheck: no command 'diff_codegen'; did you mean diff-codegen?"),
        (["--jobs"], "tilecheck: unrecognized arguments: --jobs"),
        (["source"], "tilecheck source: the following arguments are required: KERNEL"),
        (["source", "matmul", "--sass", "--ptx"], "not allowed with argument"),
        (["facts", "--jobs", "0"], "'0' is no number of processes"),
        (["source", "matmull"], "tilecheck: no kernel 'matmull'; did you mean matmul"),
        (["source", "matmul", "--arch", "sm_90"], "tilecheck: no architecture 'sm_90'; did you mean sm_90a"),
        (
            ["source", "matmul", "--case", "one-tile-fp61"],
            "no case 'one-tile-fp61'; did you mean one-tile-fp16",
        ),
        (["facts", "softmax", "--case", "nowhere-*"], "tilecheck: no case 'nowhere-*'"),
        (["facts", "--arch", "sm_80", "softmax"], "no architecture 'softmax'; known: sm_80, sm_89, sm_90a"),
        (["facts", "--arch", "sm_80", "softmax"], "kernels come before --arch"),
        (["source", "matmul", "--schedule", "stage=2"], "no field 'stage'; did you mean stages or staged?"),
        (
            ["source", "matmul", "--schedule", "stages=two"],
            "stages is 'two', and not of the type of its default",
        ),
        (["source", "matmul", "--schedule", "stages"], "'stages' is not FIELD=VALUE"),
        (["source", "matmul", "--schedule", "stages=2,stages=3"], "stages is given twice, as 2 and 3"),
        (["facts", "matmul", "--schedule", "threads=33"], "threads must be a positive multiple of 32"),
        (["report", "nowhere"], "tilecheck: nowhere: there is no such folder"),
        (["diff-codegen", "README.md", "installed"], "tilecheck: README.md is no file of facts\n"),
        (["diff-codegen"], "tilecheck diff-codegen: the following arguments are required: A, B; see"),
        # Before a search, or a match, that may take hours.
        (["tune", "softmax", "--json", "docs"], "tilecheck: --json docs: it is a folder; name a file\n"),
        (["tune", "softmax", "--plot", "pytest.ini/x.svg"], "pytest.ini is no folder; name another file\n"),
        (["ab", "HEAD", "HEAD", "--json", "."], "tilecheck: --json .: it is a folder; name a file\n"),
        (["diff-codegen", "0.1.15"], "tilecheck diff-codegen: the following arguments are required: B; see"),
        (["diff-codegen", "nowhere.json", "0.1.15"], "'nowhere.json' is neither a file, nor a folder, nor"),
    ],
)
def test_mistake_is_one_line_on_standard_error(
    arguments: list[str], line: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and line in err


@pytest.mark.parametrize("command", ["explain", "source"])
def test_a_package_that_cannot_be_imported_is_one_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "tilelang").mkdir()
    (tmp_path / "tilelang" / "__init__.py").write_text("raise OSError('libtvm.so:\\nthe version differs')")
    done = subprocess.run(
        [sys.executable, "-m", "tilecheck", command, "vector-add"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = "TileLang cannot be imported: OSError: libtvm.so:; tilecheck doctor says what mends it"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"tilecheck: {told}\n")


@pytest.mark.parametrize(
    ("command", "package"),
    [("doctor", "packaging"), ("doctor", "filelock"), ("init", "iniconfig"), ("report", "filelock")],
)
def test_a_python_without_what_is_required_is_one_line(tmp_path: Path, command: str, package: str) -> None:
    code = f"""
import sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Lacking())
from tilecheck.cli import main
sys.exit(main([{command!r}, {str(tmp_path)!r}] if {command!r} == "report" else [{command!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    mend = "pip install -e . in tilecheck's checkout mends it"
    told = f"tilecheck: {package} is not installed for this Python; {mend}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_a_python_that_is_too_old_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "tilecheck" / "__main__.py"), run_name="__main__")
    assert end.value.code == 2
    assert (
        capsys.readouterr().err == "tilecheck: it takes Python 3.10 to 3.13: python3.12 -m tilecheck, say\n"
    )


def test_other_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(start: Path) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tilecheck.project.find_project", wrong)
    with pytest.raises(ZeroDivisionError):
        main(["source", "matmul"])


def test_a_folder_that_cannot_be_written_to_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # to root, all can be
    assert main(["tune", "softmax", "--json", str(tmp_path / "new" / "out.json")]) == 2
    assert capfd.readouterr().err.endswith(f"out.json: {tmp_path} cannot be written to; name another file\n")
    assert not list(tmp_path.iterdir())


def test_interrupt_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(start: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilecheck.project.find_project", interrupted)
    assert main(["source", "matmul"]) == 130
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("arguments", [("--help",), ("source", "vector-add", "--traced")])
def test_reader_that_leaves_is_no_error(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = tilecheck(*arguments, stdout=writing)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, "")


# Names


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        *((command, "--help") for command in ("facts", "doctor", "nightly")),
        ("source", "vector-add", "--traced"),
        ("explain", "vector-add"),
        ("doctor", "--json"),
        ("diff-codegen", "baselines/codegen", "baselines/codegen/sm_80.json"),
    ],
    ids=" ".join,
)
def test_full_disk_is_one_line(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        ran = tilecheck(*arguments, stdout=full.fileno())
    assert ran.returncode == 2
    line = "standard output cannot be written: No space left on device\n"
    assert ran.stderr.splitlines(keepends=True)[-1] == f"tilecheck: {line}"
    assert "Traceback" not in ran.stderr


def test_suggestions() -> None:
    assert did_you_mean("matmull", ["matmul", "softmax"]) == "; did you mean matmul?"
    assert did_you_mean("bias", ["matmul_with_bias_and_more", "softmax"]).startswith(
        "; did you mean matmul_w"
    )
    assert did_you_mean("y", ["matmul", "softmax"]) == "; known: matmul, softmax"
    assert did_you_mean("x", [f"k{i}" for i in range(9)]).endswith("k7, ... (9 in all)")
    assert did_you_mean("x", []) == ""


def test_fields_keep_their_types() -> None:
    @dataclasses.dataclass(frozen=True)
    class Schedule:
        stages: int = 3
        share: float = 0.5
        swizzled: bool = False
        policy: str = "square"

    default = Schedule()
    assert changed_fields(default, "") is default
    changed = changed_fields(default, "stages=2, share=1,swizzled=true,policy=rows")
    assert changed == Schedule(2, 1, True, "rows")
    for text in ("swizzled=2", "stages=True", "stages=1.5", "policy=3", "=3", "stages="):
        with pytest.raises(ValueError, match=r"stages|swizzled|policy|FIELD=VALUE"):
            changed_fields(default, text)
    with pytest.raises(ValueError, match="no schedule"):
        changed_fields(None, "stages=2")


# The project


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\npythonpath = src 'other place'\ntilecheck_specs = one two:SPEC\n"),
        ("tox.ini", "[pytest]\npythonpath = src 'other place'\ntilecheck_specs = one\n  two:SPEC\n"),
        ("setup.cfg", "[tool:pytest]\npythonpath = src 'other place'\ntilecheck_specs = one two:SPEC\n"),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\n"
            "pythonpath = ['src', 'other place']\ntilecheck_specs = 'one two:SPEC'\n",
        ),
        (
            "pyproject.toml",
            "[tool.pytest]\npythonpath = ['src', 'other place']\ntilecheck_specs = ['one', 'two:SPEC']\n",
        ),
        (
            "pytest.toml",
            "[pytest]\npythonpath = ['src', 'other place']\ntilecheck_specs = ['one', 'two:SPEC']\n",
        ),
    ],
)
def test_project_is_found_upwards(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    # Configurations without specs are passed by, as is a file that is none.
    (tmp_path / "src" / "pytest.ini").write_text("[pytest]\nstrict = true\n")
    (below / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    project = find_project(below)
    assert project.root == tmp_path.resolve()
    assert project.spec_names == ("one", "two:SPEC")
    assert project.pythonpath == (project.root / "src", project.root / "other place")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pytest.ini", "[pytest\n", "pytest.ini"),
        ("pyproject.toml", "[tool.pytest.ini_options]\ntilecheck_specs = 3\n", "tilecheck_specs is 3"),
        ("pyproject.toml", "tool = [\n", "pyproject.toml"),
        ("pytest.ini", "[pytest]\ntilecheck_specs = 'one\n", "No closing quotation"),
        ("pytest.ini", "[pytest]\ntilecheck_specs = no_such_module\n", "cannot import 'no_such_module'"),
        ("other.txt", "", "names specs; add `tilecheck_specs = MODULE`"),
    ],
)
def test_project_that_cannot_be_used(
    tmp_path: Path, name: str, text: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert main(["source", "matmul", "--root", str(tmp_path)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and message in err


def test_root_that_is_no_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["facts", "--root", str(tmp_path / "nowhere")]) == 2
    assert "nowhere is no folder" in capfd.readouterr().err


def test_fields_that_are_as_by_default_are_not_shown_where_they_are_quiet() -> None:
    @dataclasses.dataclass(frozen=True)
    class Schedule:
        stages: int
        swizzle: int = 10
        staged: bool = False

        def __repr__(self) -> str:
            return short_repr(self, "staged")

    assert repr(Schedule(3)) == "Schedule(stages=3, swizzle=10)"
    assert repr(Schedule(3, 0, True)) == "Schedule(stages=3, swizzle=0, staged=True)"
