"""docs/your-own-kernels.md, from top to bottom, in a folder of its own; and what else init and new do."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilecheck.cli import main
from tilecheck.scaffold import MODULES, template

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/your-own-kernels.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run_pytest(folder: Path, command: str) -> tuple[int, str]:
    """Exit code and output of a call of pytest on the page, as if tilecheck were installed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tilecheck.plugin",
            "-p",
            "no:cacheprovider",
            *command.split()[1:],
        ],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def put(folder: Path, language: str, text: str) -> None:
    """Does what a block that is no command says: a file, or a change of the listing."""
    if language == "python":
        name = text.splitlines()[0].removeprefix("# ")
        (folder / name).write_text(text)
    elif language == "diff":
        listing = folder / "specs/__init__.py"
        before = "".join(line[1:] + "\n" for line in text.splitlines() if line[0] == " ")
        after = "".join(line[1:] + "\n" for line in text.splitlines())
        assert listing.read_text().count(before) == 1
        listing.write_text(listing.read_text().replace(before, after))


def rows(text: str) -> list[str]:
    """The rows of a summary, without the numbers after the point, which another torch may change."""
    return [
        re.sub(r"\d\.\d\d", "#", line)
        for line in text.splitlines()
        if re.match(r"(row_affine|gemm_relu) +\w+ +\d", line)
    ]


@pytest.fixture
def own_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's package of specs is imported by this test alone."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "specs":
            del sys.modules[name]


@pytest.mark.usefixtures("own_imports")
def test_the_page_does_what_it_says(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(
        "tilelang.tools.pass_visualizer.examples.gemm_relu", reason="newer than this TileLang"
    )
    ran: list[str] = []
    last = ""
    for language, text in BLOCKS:
        if language == "sh":
            for command in text.splitlines():
                if command.startswith("pip ") or command == "tilecheck doctor":
                    continue  # this environment is as good; the doctor has tests of its own
                if command.startswith("pytest "):
                    code, last = run_pytest(repository, command)
                else:
                    code, last = main(command.split()[1:]), capfd.readouterr().out
                assert code == 0, f"{command}\n{last}"
                ran.append(command)
        elif language:
            put(repository, language, text)
        elif "tilecheck: simulated" in text:
            assert rows(last) == rows(text) != []
        else:
            assert last == text
    assert {command.split()[1] for command in ran if command.startswith("tilecheck")} == {
        *("init", "new", "explain", "source")
    }
    assert "__global__" in last


def test_indices_out_of_range_are_told_of(repository: Path) -> None:
    assert main(["init"]) == 0
    (gather,) = (text for language, text in BLOCKS if language == "python" and "gather_rows" in text)
    put(repository, "python", gather.replace(', draw="rows"', ""))
    (repository / "specs/__init__.py").write_text(
        template("specs.py.txt").replace("()", '("gather_rows",)', 1)
    )
    code, shown = run_pytest(repository, "pytest -m correctness -k often tests/test_correctness.py")
    assert code == 1
    assert "I: drawn from -8 to 8, or 0 to 16 unsigned; `draws` of the spec gives others" in shown


# Init


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tree(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_second_time_nothing_changes(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    first = tree(repository)
    assert len(first) == len(MODULES) + 2
    assert main(["init"]) == 0
    assert tree(repository) == first
    again = capfd.readouterr().out.partition("next:")[2]
    assert "wrote" not in again
    assert set(re.findall(r"^kept (\S+), which is there$", again, re.MULTILINE)) == first.keys()


def test_what_is_there_is_never_written_over(repository: Path) -> None:
    there = {
        "pytest.ini": "# ours\n[pytest]\n# and this\naddopts = -q\nmarkers =\n    slow: yes\n[x]\na = 1\n",
        "specs/__init__.py": "SPECS = ()\n",
        "tests/test_correctness.py": "def test_mine(): pass\n",
    }
    for name, text in there.items():
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(text)
    assert main(["init"]) == 0
    after = tree(repository)
    head, added, rest = re.split(r"(?s)(?<=\[pytest\]\n)(.*)(?=# and this\n)", after["pytest.ini"])
    assert head + rest == there["pytest.ini"]
    assert set(options_in(added)) == OPTIONS
    assert {name: after[name] for name in list(there)[1:]} == {n: there[n] for n in list(there)[1:]}


def test_ends_of_lines_and_links_stay_as_they_are(repository: Path, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "shared.ini"
    elsewhere.write_bytes(b"[pytest]\r\naddopts = -q\r\n")
    (repository / "pytest.ini").symlink_to(elsewhere)
    (repository / "specs").mkdir()
    (repository / "specs/__init__.py").write_bytes(b'FAMILIES = (\r\n    "a",\r\n)\r\n')
    assert main(["init"]) == 0
    assert main(["new", "fresh"]) == 0
    assert (repository / "pytest.ini").is_symlink()
    assert elsewhere.read_bytes().startswith(b"[pytest]\r\npythonpath = .\r\ntilecheck_specs = specs\r\n")
    assert elsewhere.read_bytes().endswith(b"\r\naddopts = -q\r\n")
    assert b"\n" not in elsewhere.read_bytes().replace(b"\r\n", b"")
    listing = b'FAMILIES = (\r\n    "a",\r\n    "fresh",\r\n)\r\n'
    assert (repository / "specs/__init__.py").read_bytes() == listing


OPTIONS = {
    *("pythonpath", "tilecheck_specs", "filterwarnings"),
    *("timeout", "faulthandler_timeout", "faulthandler_exit_on_timeout"),
}

CHECK_OF_OPTIONS = """
def test_options(request):
    get = request.config.getini
    assert get("tilecheck_specs") == ["specs"]
    assert get("pythonpath") == [request.config.rootpath]
    assert len(get("filterwarnings")) == 1
    assert float(get("faulthandler_timeout")) == 600
    assert get("faulthandler_exit_on_timeout") is True
    from pytest_timeout import _get_item_settings
    assert _get_item_settings(request.node).timeout == 300
"""


def options_in(text: str) -> list[str]:
    return re.findall(r"^(\w+) =", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", None),
        ("pytest.ini", "[pytest]\naddopts = -q\n"),
        ("pyproject.toml", "[tool.pytest]\naddopts = ['-q']\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-q'\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = -q\n"),
    ],
)
def test_pytest_takes_what_init_writes_or_says(
    repository: Path, name: str, text: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (repository / name).write_text(text)
    if main(["init"]) == 1:
        assert text is not None
        shown = capfd.readouterr().out
        ((section, lines),) = re.findall(r"  put this below (\S+) in it:\n((?:    .*\n)+)", shown)
        assert section == text.splitlines()[0]
        (repository / name).write_text(text + re.sub(r"(?m)^    ", "", lines))
    assert main(["new", "fresh"]) == 0  # a run without specs is refused
    (repository / "test_options.py").write_text(CHECK_OF_OPTIONS)
    code, shown = run_pytest(repository, "pytest test_options.py")
    assert code == 0, shown


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-q'\n", 'tilecheck_specs = ["specs"]'),
        ("setup.cfg", "[tool:pytest]\naddopts = -q\n", "tilecheck_specs = specs"),
        ("tox.ini", "[pytest]\npythonpath = src\n", "tilecheck_specs = specs"),
    ],
)
def test_another_configuration_is_left_to_its_owner(
    repository: Path, name: str, text: str, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (repository / name).write_text(text)
    assert main(["init"]) == 1
    assert (repository / name).read_text() == text
    assert not (repository / "pytest.ini").exists()  # pytest would read it in place of the other
    shown = capfd.readouterr().out
    assert f"left alone {name}" in shown
    assert line in shown
    if "pythonpath" in text:
        assert (
            "in place of its pythonpath, below [pytest] in it:\n    pythonpath =\n        src\n        .\n"
            in shown
        )
    else:
        assert "pythonpath" in shown and "in place of" not in shown


def test_a_pyproject_without_pytest_is_no_obstacle(repository: Path) -> None:
    (repository / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    assert main(["init", "--specs", "kernel_specs", "--codegen"]) == 0
    assert "tilecheck_specs = kernel_specs" in (repository / "pytest.ini").read_text()
    assert {"kernel_specs/__init__.py", "tests/test_codegen.py"} <= tree(repository).keys()


def test_specs_that_are_configured_are_kept(repository: Path) -> None:
    (repository / "pytest.ini").write_text("[pytest]\ntilecheck_specs = mine\n")
    (repository / "mine.py").write_text("SPECS = ()\n")
    assert main(["init"]) == 0
    assert (repository / "pytest.ini").read_text() == "[pytest]\ntilecheck_specs = mine\n"
    assert (repository / "mine.py").read_text() == "SPECS = ()\n"
    assert not (repository / "specs").exists()


def test_a_package_that_is_configured_is_made_where_there_is_none(repository: Path) -> None:
    (repository / "pytest.ini").write_text("[pytest]\npythonpath = .\ntilecheck_specs = mine\n")
    assert main(["init"]) == 0
    assert main(["new", "fresh"]) == 0
    assert {"mine/__init__.py", "mine/fresh.py"} <= tree(repository).keys()
    assert not (repository / "specs").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\npythonpath = src\nfilterwarnings =\n    error\n"),
        ("pyproject.toml", "[tool.pytest]\npythonpath = ['src']\nfilterwarnings = ['error']\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = 'src'\nfilterwarnings = ['error']\n"),
    ],
)
def test_lists_that_are_there_are_shown_with_what_they_lack(
    repository: Path, name: str, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (repository / name).write_text(text)
    (repository / "src").mkdir()
    assert main(["init"]) == 1
    shown = capfd.readouterr().out
    changed = (repository / name).read_text()
    for option, lines in re.findall(
        r"  put this in place of its (\w+), below \S+ in it:\n((?:    .*\n)+)", shown
    ):
        old = re.compile(rf"(?m)^{option} =.*\n(?: .*\n)*")
        changed = old.sub(lambda _, lines=lines: re.sub(r"(?m)^    ", "", lines), changed)
    for lines in re.findall(r"  put this below \S+ in it:\n((?:    .*\n)+)", shown):
        changed += re.sub(r"(?m)^    ", "", lines)
    (repository / name).write_text(changed)
    assert main(["init"]) == 0
    assert main(["new", "fresh"]) == 0
    (repository / "test_options.py").write_text(
        CHECK_OF_OPTIONS.replace("== 1", "== 2").replace(
            "== [request.config.rootpath]", "== [request.config.rootpath / 'src', request.config.rootpath]"
        )
    )
    code, shown = run_pytest(repository, "pytest test_options.py")
    assert code == 0, shown


def test_a_package_that_lists_nothing_is_told_of(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (repository / "kernels").mkdir()
    (repository / "kernels/__init__.py").write_text("")
    assert main(["init", "--specs", "kernels"]) == 1
    assert (repository / "kernels/__init__.py").read_text() == ""
    (lines,) = re.findall(r"kept kernels/.*\n  put this into it:\n((?:    .*\n|\n)+)", capfd.readouterr().out)
    (repository / "kernels/__init__.py").write_text(re.sub(r"(?m)^    ", "", lines))
    assert main(["init", "--specs", "kernels"]) == 0
    assert main(["new", "fresh"]) == 0
    code, shown = run_pytest(repository, "pytest -m correctness --collect-only -q -k fresh")
    assert code == 0 and "fresh-whole" in shown, shown


@pytest.mark.parametrize("name", ["torch", "tilelang", "json", "tests"])
def test_a_name_that_is_taken_is_refused(
    repository: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--specs", name]) == 2
    assert re.search(f"'{name}' is .*; take .*kernel_specs\n$", capfd.readouterr().err)
    assert tree(repository) == {}


@pytest.mark.parametrize("module", [*MODULES, "codegen"])
def test_the_modules_written_are_ours(module: str) -> None:
    assert template(f"tests/test_{module}.py.txt") == (ROOT / f"tests/test_{module}.py").read_text()


# New


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("FAMILIES = ()\n", 'FAMILIES = (\n    "fresh",\n)\n'),
        ("FAMILIES = []\n", 'FAMILIES = [\n    "fresh",\n]\n'),
        ('FAMILIES = ("a",)\n', 'FAMILIES = ("a", "fresh",)\n'),
        ('FAMILIES = ["a"]\n', 'FAMILIES = ["a", "fresh"]\n'),
        (
            'FAMILIES = (\n    "a",\n    "é",  # last\n    # more to come\n)\n',
            'FAMILIES = (\n    "a",\n    "é",  # last\n    "fresh",\n    # more to come\n)\n',
        ),
        ('FAMILIES = [\n    "a"\n]\n', 'FAMILIES = [\n    "a",\n    "fresh",\n]\n'),
    ],
)
def test_the_listing_gets_a_line(repository: Path, before: str, after: str) -> None:
    assert main(["init"]) == 0
    (repository / "specs/__init__.py").write_text(f"# above\n{before}# below\n")
    assert main(["new", "fresh"]) == 0
    assert (repository / "specs/__init__.py").read_text() == f"# above\n{after}# below\n"


@pytest.mark.parametrize(
    "listing", ["SPECS = (1,)\n", 'FAMILIES = ("a", name)\n', "FAMILIES = make()\n", "x = (\n"]
)
def test_a_listing_of_another_kind_is_left_to_its_owner(
    repository: Path, listing: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["init"]) == 0
    (repository / "specs/__init__.py").write_text(listing)
    assert main(["new", "row-scale"]) == 1
    assert (repository / "specs/__init__.py").read_text() == listing
    assert (repository / "specs/row_scale.py").exists()
    assert "from specs.row_scale import SPEC as ROW_SCALE\n" in capfd.readouterr().out


def test_specs_in_a_single_module(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (repository / "pytest.ini").write_text("[pytest]\npythonpath = src\ntilecheck_specs = checked:ALL\n")
    (repository / "src").mkdir()
    (repository / "src/checked.py").write_text("ALL = ()\n")
    assert main(["new", "row_scale"]) == 1
    assert (repository / "src/row_scale.py").exists()
    shown = capfd.readouterr().out
    assert "from row_scale import SPEC as ROW_SCALE\n    ALL = (*ALL, ROW_SCALE)\n" in shown


@pytest.mark.parametrize("before", ["", "{skeleton}", "SPECS = ()\n"], ids=["empty", "one-spec", "several"])
def test_what_is_left_to_the_owner_lists_one_kernel_after_another(
    repository: Path, before: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (repository / "pytest.ini").write_text("[pytest]\npythonpath = .\ntilecheck_specs = checked\n")
    assert main(["init"]) in (0, 1)
    skeleton = template("kernel.py.txt").replace("KERNEL_NAME", "first")
    (repository / "checked").rename(repository / "away")
    (repository / "checked.py").write_text(before.replace("{skeleton}", skeleton))
    for name in ("second", "third"):
        capfd.readouterr()
        assert main(["new", name]) == 1
        (lines,) = re.findall(r"  put this into it:\n((?:    .*\n)+)", capfd.readouterr().out)
        with (repository / "checked.py").open("a") as file:
            file.write(re.sub(r"(?m)^    ", "", lines))
    code, shown = run_pytest(repository, "pytest -m correctness --collect-only -q tests/test_correctness.py")
    assert code == 0, shown
    expected = {"second", "third"} | ({"first"} if before == "{skeleton}" else set())
    assert {name for name in ("first", "second", "third") if f"[{name}-whole" in shown} == expected


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Row", "'Row' is no name of a kernel"),
        ("Row-Affine", "'Row-Affine' is no name of a kernel"),
        ("2d", "no name of a kernel"),
        ("class", "no name of a kernel"),
        ("../escape", "no name of a kernel"),
        ("there", "specs/there.py is there already"),
        ("listed", "'listed' is in FAMILIES already"),
    ],
)
def test_a_name_that_will_not_do(
    repository: Path, name: str, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["init"]) == 0
    (repository / "specs/there.py").write_text("kept = True\n")
    (repository / "specs/__init__.py").write_text('FAMILIES = ("listed",)\n')
    before = tree(repository)
    capfd.readouterr()
    assert main(["new", name]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert line in err
    assert tree(repository) == before


def test_without_a_project_it_says_how_to_get_one(
    repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "row_scale"]) == 2
    assert "tilecheck init" in capfd.readouterr().err
    assert tree(repository) == {}
