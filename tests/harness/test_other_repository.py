"""Another repository: an ordinary kernel, a spec of a few lines, and our test modules as they are."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

KERNEL = """
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_m=32, block_n=32, block_k=32, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=128) as (bx, by):
            A_tile = T.alloc_shared((block_m, block_k), dtype)
            B_tile = T.alloc_shared((block_k, block_n), dtype)
            C_tile = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(C_tile)
            for k in T.Pipelined(T.ceildiv(K, block_k), num_stages=2):
                T.copy(A[by * block_m, k * block_k], A_tile)
                T.copy(B[k * block_k, bx * block_n], B_tile)
                T.gemm(A_tile, B_tile, C_tile)
            T.copy(C_tile, C[by * block_m, bx * block_n])

    return main
"""

SPEC = """
from gemm import matmul
from tilecheck.spec import Case, KernelSpec

SPEC = KernelSpec(
    name="gemm",
    program=matmul,
    reference=lambda A, B: A @ B,
    cases=(
        *Case.per_dtype(("float16", "bfloat16"), "tiles", {"M": 64, "N": 32, "K": 64}, why="whole tiles"),
        Case("tails-fp16", {"M": 65, "N": 33, "K": 40}, "float16", why="a tail in each dim"),
    ),
)
"""


class Repository:
    """A folder with a kernel, its spec, an ini file and the test modules of this checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("gemm.py", KERNEL)
        self.write("checked.py", SPEC)
        self.write("conftest.py", 'pytest_plugins = ["tilecheck.plugin"]\n')
        self.write("pytest.ini", "[pytest]\nstrict = true\npythonpath = .\ntilecheck_specs = checked\n")
        for module in ("test_correctness.py", "test_differential.py"):
            self.write(f"tests/{module}", (CHECKOUT / "tests" / module).read_text())

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def break_kernel(self, right: str, wrong: str) -> None:
        assert KERNEL.count(right) == 1
        self.write("gemm.py", KERNEL.replace(right, wrong))

    def pytest(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        return subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_spec_is_short() -> None:
    assert len(SPEC.strip().splitlines()) < 15


def test_right_kernel_passes(repository: Repository) -> None:
    run = repository.pytest("-m", "correctness", "--device=simulator")
    assert run.returncode == 0, run.stdout
    assert "3 passed, 1 skipped" in run.stdout  # the comparison with a GPU has none here
    assert re.search(r"^gemm +float16 +2 ", run.stdout, re.MULTILINE)
    assert "simulated on the CPU, so no GPU conformance" in run.stdout


def test_wrong_value_says_where_and_how_to_see_it_again(repository: Repository) -> None:
    repository.break_kernel("T.ceildiv(K, block_k)", "K // block_k")
    run = repository.pytest("-m", "correctness", "--device=simulator", "--seed=3")
    assert run.returncode == 1
    assert "1 failed, 2 passed" in run.stdout
    message = run.stdout.partition("FAILURES")[2]
    assert "gemm is wrong for tails-fp16 (M=65 N=33 K=40 float16) on simulator, sm_90a" in message
    assert "worst at" in message
    assert "empirical bound" in message
    command = re.search(r"repeat: pytest (.*)", message)
    assert command is not None
    repository.write("gemm.py", KERNEL)
    again = repository.pytest(*shlex.split(command[1]))
    assert "1 passed" in again.stdout


def test_finding_of_the_simulator_names_the_line(repository: Repository) -> None:
    repository.break_kernel("T.ceildiv(M, block_m), threads", "M // block_m, threads")
    run = repository.pytest("-m", "correctness", "--device=simulator", "-k", "tails")
    assert run.returncode == 1
    assert re.search(r"gemm\.py:\d+: unwritten output: .*C", run.stdout), run.stdout
