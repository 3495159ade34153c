"""The mistakes of a kernel's author are told in a few lines, and expected failures are told from them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A right kernel, of which each kernel of the module below has one text replaced.
KERNEL = """
import torch
import tilelang.language as T
from tilecheck.spec import Case, KernelSpec, Reference, Term

def program(N, dtype):
    @T.prim_func
    def double(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = X[i] + X[i]
    return double

def reference(X):
    value = X + X
    return Reference(value, [Term("sum", 0.0, value.abs())])

SPEC = KernelSpec(__name__, program, reference, (Case("one", {"N": 64}, "float16", why="-"),))
"""

# module -> what is replaced, by what, and the message between its head and the repeat line
MISTAKES = {
    "wrong_dtype": (
        "Y: T.Tensor((N,), dtype)",
        "Y: T.Tensor((N,), 'float32')",
        "kernel 'wrong_dtype': Y is float32, and case 'one' is float16; where that is meant, the spec says "
        "so: dtypes={'Y': 'float32'}",
    ),
    "wrong_output": (
        "Y[i] = X[i]",
        "X[i] = X[i]",
        "kernel 'wrong_output': the program neither reads nor writes Y, and the reference does not ask for "
        "it; where that is meant, name the spec's `outputs`",
    ),
    "no_dim": (
        "program(N,",
        "program(N, M,",
        "program asks for M, which is not known here; known: N, dtype, case, pass_configs, arch",
    ),
    "no_tensor": (
        "reference(X)",
        "reference(Z)",
        "reference asks for Z, which is not known here; known: N, dtype, case, pass_configs, arch, X",
    ),
    "wrong_shape": (
        "value = X + X",
        "value = X[:3]",
        "kernel 'wrong_shape': reference of case 'one' gives Y shape [3]; in the program it is [64]",
    ),
    "wrong_term": (
        "0.0",
        "-1.0",
        "wrong_term.py:16: in reference\n"
        '    return Reference(value, [Term("sum", -1.0, value.abs())])\n'
        "term 'sum': coefficient -1.0 is not >= 0",
    ),
    "no_name_in_program": (
        "X[i] + X[i]",
        "X[i] + Q[i]",
        "no_name_in_program.py:7: in program\n"
        "    @T.prim_func\n"
        "no_name_in_program.py:11: in double\n"
        "    Y[i] = X[i] + Q[i]\n"
        "NameError: name 'Q' is not defined",
    ),
    "no_name_in_reference": (
        "X + X",
        "X + Q",
        "no_name_in_reference.py:15: in reference\n    value = X + Q\nNameError: name 'Q' is not defined",
    ),
    "torch_refuses": (
        "X + X",
        "X @ torch.ones(3)",
        "torch_refuses.py:15: in reference\n    value = X @ torch.ones(3)\nRuntimeError: ",
    ),
    "asserts": (
        "value = X + X",
        "value = X + X; assert False, 'no'",
        "asserts.py:15: in reference\n    value = X + X; assert False, 'no'\nAssertionError: no",
    ),
}

LEDGER = """
[[known]]
test = "no-name-in-reference-one"
issue = 1
symptom = "wrong"
tilelang = ">=0.1"
devices = ["simulator"]
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    right = KERNEL
    for name, (before, after, _) in {**MISTAKES, "right": ("", "", "")}.items():
        assert not before or right.count(before) == 1, name
        (folder / f"{name}.py").write_text(right.replace(before, after) if before else right)
    listing = "\n".join(f"from {name} import SPEC as {name}" for name in [*MISTAKES, "right"])
    (folder / "specs.py").write_text(f"{listing}\nSPECS = ({', '.join([*MISTAKES, 'right'])},)\n")
    (folder / "ledger.toml").write_text(LEDGER)
    (folder / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\ntilecheck_specs = specs\ntilecheck_known_issues = ledger.toml\n"
    )
    (folder / "test_it.py").write_text((ROOT / "tests/test_correctness.py").read_text())
    return folder


def run(folder: Path, *options: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "tilecheck.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-m", "correctness", "--device=simulator", *options],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shown(repository: Path) -> str:
    return run(repository)


def message_of(shown: str, name: str) -> str:
    """All that pytest shows of a failure."""
    id = f"{name.replace('_', '-')}-one"
    (text,) = re.findall(rf"^_+ test_output\[{id}\] _+\n(.*?)(?=^[_=]{{5}})", shown, re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message(shown: str, name: str) -> None:
    id = f"{name.replace('_', '-')}-one"
    head, *middle, repeat = message_of(shown, name).splitlines()
    assert head == f"{name} cannot be checked for one (N=64 float16) on simulator, sm_90a"
    assert "\n".join(middle).startswith(MISTAKES[name][2])
    assert len(middle) == len(MISTAKES[name][2].splitlines())
    assert repeat == f'repeat: pytest "test_it.py::test_output[{id}]" --device=simulator --seed=0'
    (line,) = re.findall(rf"^FAILED test_it.py::test_output\[{id}\] - (.*)$", shown, re.MULTILINE)
    assert MISTAKES[name][2].splitlines()[-1] in line


def test_a_mistake_is_no_failure_that_the_ledger_expects(shown: str) -> None:
    assert f"{len(MISTAKES)} failed, 1 passed" in shown


def test_it_reads_the_same_from_a_worker(repository: Path, shown: str) -> None:
    spread = run(repository, "-n", "1", "-k", "no-name-in-program")
    told = message_of(spread, "no_name_in_program")
    assert message_of(shown, "no_name_in_program") == re.sub(r"^\[gw0\].*\n", "", told, flags=re.MULTILINE)


def test_the_whole_way_is_shown_on_request(repository: Path) -> None:
    assert "tilecheck/program.py" in run(repository, "--tb=long", "-k", "no-dim")
