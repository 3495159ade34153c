"""What a side does on a GPU, in its own process and with its own pool, on a device that is made up."""

import sys
from pathlib import Path

import pytest

from tilecheck.ab.match import play
from tilecheck.ab.sides import Side
from tilecheck.latency.gate import Verdict

# The compiler is left out, here and in the processes of the pool.
KERNELS = """
import torch

from tilecheck import launch
from tilecheck.spec import Case, KernelSpec

def compiled(program, target):
    name = program.spec.name
    if name == "refused":
        raise launch.CompileError("refused-row-fp16: does not compile: no such intrinsic\\nline 3")

    def kernel(X, Y):
        if name == "throws" and launch.Cuda.checked:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory\\nin 3 pieces")
        torch.mul(X, 3 if name == "wrong" else 2, out=Y)

    return kernel

launch.compile_program = compiled

def scaled(n, dtype):
    import tilelang.language as T

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as b:
            for i in T.Parallel(128):
                Y[b * 128 + i] = 2 * X[b * 128 + i]

    return main

def untraced(n, dtype):
    raise ValueError("there is no tile of this size\\nnor of another")

def spec(name, program):
    case = Case("row-fp16", {"n": 4096}, "float16", why="a row")
    return KernelSpec(name, program, lambda X: 2 * X, (case,), latency_cases=(case.id,))

SPECS = (
    spec("untraced", untraced),
    spec("refused", scaled),
    spec("wrong", scaled),
    spec("throws", scaled),
    spec("scaled", scaled),
)
"""

# So is the GPU; the bench, its pool of processes, and the stopwatch are the real ones.
STAND_INS = """
import torch

from tilecheck import launch
from tilecheck.arches import ARCHES
from tilecheck.latency import monitor, timing_cuda

class Cuda:
    name, arch, lost, target = "cuda", ARCHES["sm_90a"], None, {"kind": "cuda", "arch": "sm_90a"}
    torch_device = torch.device("cpu")
    checked = False

    def run(self, program, arguments):
        Cuda.checked = False
        launch.compile_program(program, self.target)(arguments["X"], arguments["Y"])
        Cuda.checked = True

    def describe(self):
        return "a GPU"

class Monitor:
    def __init__(self, index):
        pass

    def facts(self):
        return monitor.GpuFacts("NVIDIA H200", 132, 1.98e9, 4.8e12, 60 << 10, "580.65")

class Device:
    def __init__(self, monitor):
        pass

    def once(self, launch, filler):
        launch()
        return 80e-6

    def reading(self):
        return monitor.Reading(1.98e9)

launch.Cuda, monitor.Monitor, timing_cuda.CudaDevice = Cuda, Monitor, Device
"""

CHILD = (
    "import sys; del sys.path[0]; exec(sys.argv[2]); from tilecheck.ab.bench import main; main(sys.argv[1])"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\ntilecheck_specs = kernels_compared\n")
    (tmp_path / "kernels_compared.py").write_text(KERNELS)
    return tmp_path


def side_of(label: str, root: Path) -> Side:
    made = Side(label, Path(sys.executable), root)
    made._command = [sys.executable, "-c", CHILD, str(root), STAND_INS]
    return made


def test_a_side_compiles_in_its_pool_checks_and_times(project: Path) -> None:
    with side_of("old", project) as old, side_of("new", project) as new:
        rows = old.rows()
        results = {result.row: result for result in play(old, new, rows, lambda _: None)}
    assert list(results) == rows and len(rows) == 5
    scaled = results.pop("scaled-row-fp16")  # after all that failed
    assert scaled.verdict is Verdict.SAME
    assert scaled.pairs is not None and scaled.pairs.old == (80e-6,) * 8
    assert all(result.pairs is None and "\n" not in result.reason for result in results.values())
    reasons = {row.removesuffix("-row-fp16"): result.reason for row, result in results.items()}
    assert reasons.pop("wrong").startswith("new side: ") and results["wrong-row-fp16"].wrong
    assert reasons == {
        "untraced": "old side: there is no tile of this size",
        "refused": "old side: refused-row-fp16: does not compile: no such intrinsic",
        "throws": "old: OutOfMemoryError: CUDA out of memory",
    }
