"""What `-m` leaves out before rows are made is nothing that it would select; no grid is searched for it."""

import ast
import os
import re
from pathlib import Path

import pytest

from tilecheck.plugin.marks import OURS, excluded

ROOT = Path(__file__).parents[2]

PROJECT = {
    "my_kernels": """
from dataclasses import dataclass
from pathlib import Path

from tilecheck.spec import Case, KernelSpec

@dataclass(frozen=True)
class Schedule:
    block: int = 1

def legal(schedule):
    if schedule != Schedule():  # which any run asks about
        Path("asked").touch()

CASES = (Case("one-fp16", {"n": 4}, "float16", why="a row"),)
SPECS = (
    KernelSpec("copy", lambda n: None, lambda n: None, CASES, default_schedule=Schedule, legal=legal,
               grid={"block": (1, 2)}, shared_memory=lambda: 0),
)
""",
    "test_grids": """
import pytest

@pytest.mark.correctness
def test_schedule(scheduled_case): pass

@pytest.mark.codegen
def test_shared(shared_row): pass

@pytest.mark.slow
@pytest.mark.latency
def test_other(scheduled_case): pass
""",
}


@pytest.mark.parametrize(
    ("expression", "left_out"),
    [
        ("", False),
        ("codegen", False),
        ("correctness", True),
        ("not codegen", True),
        ("latency or codegen", False),
        ("latency and codegen", True),
        ("not (correctness or latency)", False),
        ("correctness and (", False),  # which pytest refuses
        # Of others it is not known who bears them in the end.
        ("slow", False),
        ("correctness and slow", False),
        ("correctness(n=1)", False),
    ],
)
def test_expressions(expression: str, left_out: bool) -> None:
    assert excluded(expression, {"codegen", "parametrize"}) == left_out


def test_markers_are_those_that_say_what_a_test_asks() -> None:
    listed = (ROOT / "pytest.ini").read_text().partition("markers =")[2].partition("\n#")[0]
    assert set(re.findall(r"^ +(\w+):", listed, re.MULTILINE)) == {*OURS, "gpu", "alone"}


@pytest.mark.parametrize(
    ("arguments", "passed", "asked"),
    [
        ([], 2 + 4, True),  # a row of shared memory on each of two architectures; latency rows want a GPU
        (["-m", "correctness"], 2, True),
        (["-m", "codegen"], 4, True),
        (["-m", "sanitizer"], 0, False),
        (["-m", "slow or correctness"], 2, True),
    ],
)
def test_what_is_selected_is_what_was(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    passed: int,
    asked: bool,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    pytester.makeconftest('pytest_plugins = ["tilecheck.plugin"]')
    pytester.makefile(
        ".ini", pytest="[pytest]\npythonpath = .\ntilecheck_specs = my_kernels\nmarkers = slow\n"
    )
    pytester.makepyfile(**PROJECT)
    result = pytester.runpytest_subprocess("--device=simulator", *arguments)
    assert result.parseoutcomes().get("passed", 0) == passed, result.stdout.str()
    assert not {"failed", "errors", "error"} & result.parseoutcomes().keys()
    assert (pytester.path / "asked").exists() == asked


def test_this_folder_is_passed_over_by_no_run_that_asks_for_a_test_of_it() -> None:
    """tests/harness/conftest.py says which markers its tests have; a module with others would be lost."""
    from tests.harness.conftest import MARKS

    found = set()
    for path in Path(__file__).parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Attribute(value=ast.Name("pytest"), attr="mark"), attr=name):
                    found.add(name)
    assert found & OURS == MARKS


@pytest.mark.parametrize(("expression", "collected"), [("latency", False), ("codegen", True), ("", True)])
def test_modules_of_this_folder_are_imported_only_where_they_may_be_asked_for(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, expression: str, collected: bool
) -> None:
    from tests.harness.conftest import pytest_ignore_collect

    monkeypatch.setattr(pytestconfig.option, "markexpr", expression)
    assert (pytest_ignore_collect(Path(__file__), pytestconfig) is None) is collected
