"""A kernel that hangs, dies or loses the GPU fails one test; the rest run, and the run says which it was.

Each test runs pytest on a small repository of its own. Without a GPU its device is a stand-in that does what
the name of the case says; with one, its kernels do it for real.
"""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tilecheck.gpus import VARIABLE, Gpu, installed_gpus, visible_gpus

CHECKOUT = Path(__file__).parents[2]
SEARCHED = os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])  # TileLang may be on the latter

INI = """
[pytest]
strict = true
pythonpath = .
tilecheck_specs = mine
timeout = {timeout}
"""

FAULTHANDLER = """
faulthandler_timeout = 2
faulthandler_exit_on_timeout = true
"""

CONFTEST = """
import ctypes, os, shutil, subprocess, sys, time, types
from pathlib import Path

import pytest

from tilecheck import environment, gpus
from tilecheck.activity import doing
from tilecheck.arches import ARCHES
from tilecheck.plugin import timelimit

timelimit.GRACE = 1.0
environment.machine = lambda: environment.Machine(
    torch="2.11", torch_cuda="13.0", driver="580", gpu="FAKE", capability=(9, 0), compiler=True
)
HERE = Path(__file__).parent


class OutOfMemoryError(RuntimeError):
    pass


def lock_twice(library):  # waits for ever, whatever signals come
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        library(None).pthread_mutex_lock(mutex)


class FakeCuda:
    name, arch, lost = "cuda", ARCHES["sm_90a"], None

    def describe(self):
        return "FAKE (sm_90a)"

    def run(self, case):
        what = case.id.rpartition("-")[0]
        (HERE / "log").open("a").write(f"{case.id} {os.environ.get('PYTEST_XDIST_WORKER')}\\n")
        with doing(f"running {case.id}"):
            getattr(self, what.replace("-", "_"))()

    def fine(self):
        assert not self.lost

    def hangs(self):
        lock_twice(ctypes.CDLL)  # while it waits, without the interpreter's lock

    def hangs_with_lock(self):
        lock_twice(ctypes.PyDLL)

    def compiles_for_ever(self):
        compiler = shutil.copy(shutil.which("sleep"), HERE / "ptxas")
        subprocess.Popen(["sh", "-c", f"{compiler} 1000; true"]).communicate()  # as TileLang does

    def aborts(self):
        os.abort()

    def loses(self):
        self.lost = "an illegal memory access"
        print("said before the end")
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def needs_all(self):
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 999 GiB")

    def needs_more(self):
        if not (HERE / "once").exists():
            (HERE / "once").touch()
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 99 GiB")


def pytest_sessionstart(session):
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    (HERE / "workers").open("a").write(f"{worker} {os.environ.get('CUDA_VISIBLE_DEVICES')}\\n")


sys.modules["tilecheck.launch"] = types.SimpleNamespace(Cuda=FakeCuda)
"""

SPECS = """
from tilecheck.spec import Case, KernelSpec

KINDS = {kinds}
CASES = [Case(f"{{kind}}-{{i}}", {{}}, "float16", why="it does") for i, kind in enumerate(KINDS)]
SPEC = KernelSpec("kernel", lambda: None, lambda: None, tuple(CASES))
"""

MODULE = """
def test_it(kernel_case, tilecheck_device):
    tilecheck_device.run(kernel_case.case)
"""


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def fake(self, *kinds: str, ini: str = "") -> None:
        self.write("pytest.ini", INI.format(timeout=3) + ini)
        self.write("conftest.py", CONFTEST)
        self.write("mine.py", SPECS.format(kinds=kinds))
        self.write("test_mine.py", MODULE)

    def pytest(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tilecheck.plugin",
            "-p",
            "no:cacheprovider",
            *arguments,
        ]
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "TILECHECK_"))}
        run = subprocess.run(
            command,
            cwd=self.root,
            env={**ours, "PYTHONPATH": SEARCHED, "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=240,
        )
        sys.stdout.write(run.stdout)  # pytest shows it where an assertion fails
        return run

    def log(self, name: str = "log") -> list[list[str]]:
        """(case, worker) of the fake device's runs, or (worker, visible GPUs), in their order."""
        return [line.split() for line in (self.root / name).read_text().splitlines()]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def outcome(run: subprocess.CompletedProcess[str]) -> str:
    """The last line's counts."""
    counts = re.findall(r"^=+ (.*) in [\d.]+s.*=+$", run.stdout, re.MULTILINE)
    assert counts, run.stdout
    return counts[-1]


def section(run: subprocess.CompletedProcess[str], test: str) -> str:
    """What the run says about one failed test."""
    parts = re.split(r"^_{3,} (\S+) _{3,}$", run.stdout.partition("= FAILURES =")[2], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[test]


def test_each_culprit_fails_once_and_the_rest_run(repository: Repository) -> None:
    repository.fake(
        *(
            "fine",
            "hangs",
            "fine",
            "loses",
            "fine",
            "aborts",
            "fine",
            "needs-more",
            "needs-all",
            "fine",
            "fine",
        ),
        "compiles-for-ever",
    )
    run = repository.pytest("-n", "2", CUDA_VISIBLE_DEVICES="")
    assert outcome(run) == "5 failed, 7 passed"
    hang = section(run, "test_it[kernel-hangs-1]")
    assert "did not end within 3 s; it was running hangs-1, for " in hang
    assert 'repeat: pytest "test_mine.py::test_it[kernel-hangs-1]" --device=cuda' in hang
    lost = section(run, "test_it[kernel-loses-3]")
    assert "an illegal memory access was encountered" in lost
    assert "said before the end" in lost
    abort = section(run, "test_it[kernel-aborts-5]")
    assert "the process died at once" in abort
    assert "repeat: pytest" in abort
    alone = "This was the test's second run, with the GPU to itself." in section(
        run, "test_it[kernel-needs-all-8]"
    )
    assert alone or sys.version_info < (3, 11)
    assert "Timeout (>3" in section(run, "test_it[kernel-compiles-for-ever-11]")
    runs = [case for case, _ in repository.log()]
    assert runs.count("needs-more-7") == runs.count("needs-all-8") == 2
    assert all(runs.count(case) == 1 for case in runs if not case.startswith("needs"))
    assert not any(str(repository.root / "ptxas") in line for line in commands())


def commands() -> list[str]:
    """The command lines of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def test_code_that_keeps_the_interpreters_lock_ends_its_worker_only(repository: Repository) -> None:
    repository.fake("hangs-with-lock", "fine", "fine", ini=FAULTHANDLER)
    run = repository.pytest("-n", "1", CUDA_VISIBLE_DEVICES="")
    assert outcome(run) == "1 failed, 2 passed"
    assert "test_it[kernel-hangs-with-lock-0]" in run.stdout


def test_hang_ends_a_run_without_workers_with_a_summary_that_names_it(repository: Repository) -> None:
    repository.fake("fine", "hangs", "fine")
    run = repository.pytest("--junitxml=out.xml")
    assert run.returncode == 1
    assert outcome(run) == "1 failed, 1 passed"
    text = section(run, "test_it[kernel-hangs-1]")
    assert "did not end within 3 s; it was running hangs-1, for " in text
    assert "in hangs" in text  # the stack
    assert (
        "! run ended in test_mine.py::test_it[kernel-hangs-1]; -n 1 would run the tests after it"
        in run.stdout
    )
    assert 'name="test_it[kernel-hangs-1]"' in (repository.root / "out.xml").read_text()


def test_lost_context_without_workers_leaves_the_rest_out_and_says_so(repository: Repository) -> None:
    repository.fake("fine", "loses", "fine", "fine")
    repository.write("test_other.py", "def test_needs_no_gpu(): pass")
    run = repository.pytest("--require-gpu")
    assert outcome(run) == "1 failed, 2 passed, 2 skipped"
    assert "test_mine.py::test_it[kernel-loses-1] left the CUDA context unusable (an illegal" in run.stdout
    assert "2 tests after it did not run; -n 1 would run them in a new process" in run.stdout


def test_modules_that_skip_themselves_are_no_tests_left_out(repository: Repository) -> None:
    repository.fake("fine", "loses", "fine")
    repository.write("test_absent.py", "import pytest\npytest.importorskip('absent')")
    run = repository.pytest("--require-gpu")
    assert outcome(run) == "1 failed, 1 passed, 2 skipped"
    assert "1 test after it did not run" in run.stdout
    alone = repository.pytest("--device=simulator", "-k", "absent")
    assert "INTERNALERROR" not in alone.stdout
    assert alone.returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_out_of_memory_is_retried_without_workers_too(repository: Repository) -> None:
    repository.fake("needs-more", "needs-all")
    assert outcome(repository.pytest()) == "1 failed, 1 passed"
    assert len(repository.log()) == 4


ALONE = """
import time
from pathlib import Path

import pytest

def run(name, case):
    for word in ("begins", "ends"):
        with Path(__file__).with_name("turns").open("a") as log:
            log.write(f"{name}-{case.id} {word}\\n")
        time.sleep(0.2)

def test_with_others(kernel_case):
    run("among", kernel_case.case)

@pytest.mark.alone
def test_alone(kernel_case):
    run("alone", kernel_case.case)
"""


def test_test_that_is_marked_alone_runs_while_the_other_workers_hold_still(repository: Repository) -> None:
    repository.fake(*["fine"] * 6)
    repository.write("test_mine.py", ALONE)
    assert outcome(repository.pytest("-n", "3", CUDA_VISIBLE_DEVICES="")) == "12 passed"
    turns = repository.log("turns")
    assert len(turns) == 24
    for turn, following in pairwise(turns):
        if turn[0].startswith("alone") and turn[1] == "begins":
            assert following == [turn[0], "ends"], turns
    at_once = [t for t, f in pairwise(turns) if t[1] == f[1] == "begins"]
    assert at_once, "the others took turns as well"


NVML = """
import sys, types

class NVMLError(Exception):
    pass

def no_mig(handle):
    raise NVMLError

sys.modules["pynvml"] = types.SimpleNamespace(
    NVMLError=NVMLError, nvmlInit=lambda: None, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: 3,
    nvmlDeviceGetHandleByIndex=lambda i: i, nvmlDeviceGetMigMode=no_mig,
    nvmlDeviceGetUUID=lambda i: f"GPU-{i}",
    nvmlDeviceGetMemoryInfo=lambda i: types.SimpleNamespace(free=2**34),
)
"""


def test_workers_spread_over_the_callers_gpus_and_a_new_one_takes_the_place_of_the_dead(
    repository: Repository,
) -> None:
    repository.fake(*["fine"] * 3, "aborts", *["fine"] * 12)
    repository.write("sitecustomize.py", NVML)
    run = repository.pytest(
        *("-n", "auto", "-o", "tilecheck_worker_memory=12"),
        PYTHONPATH=f"{repository.root}{os.pathsep}{SEARCHED}",
        CUDA_VISIBLE_DEVICES="2,GPU-0",
    )
    assert outcome(run) == "1 failed, 15 passed"
    assert "2 workers" in run.stdout or len(os.sched_getaffinity(0)) < 2
    # The first line is the controller's, which keeps all.
    assert repository.log("workers")[0] == ["None", "2,GPU-0"]
    shown = dict(repository.log("workers")[1:])
    dead = next(worker for case, worker in repository.log() if case.startswith("aborts"))
    assert shown == {"gw0": "2", "gw1": "GPU-0", "gw2": shown[dead]}


KERNELS = """
import tilelang.language as T
import torch

from tilecheck.spec import Case, KernelSpec


def program(N, does):
    @T.prim_func
    def fine(A: T.Tensor((N,), "int64"), B: T.Tensor((N,), "int64")):
        with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < N:
                    B[bx * 32 + i] = A[bx * 32 + i]

    @T.prim_func
    def hangs(A: T.Tensor((N,), "int64"), B: T.Tensor((N,), "int64")):
        with T.Kernel(1, threads=32):
            while A[0] == 0:
                T.atomic_add(B[0], T.int64(1))

    @T.prim_func
    def strays(A: T.Tensor((N,), "int64"), B: T.Tensor((N,), "int64")):
        with T.Kernel(1, threads=32):
            B[A[0] + (1 << 40)] = A[0]

    @T.prim_func
    def asserts(A: T.Tensor((N,), "int64"), B: T.Tensor((N,), "int64")):
        with T.Kernel(1, threads=32):
            T.device_assert(A[0] > 0)
            B[0] = A[0]

    @T.prim_func
    def compiles_for_ever(A: T.Tensor((N,), "int64"), B: T.Tensor((N,), "int64")):
        with T.Kernel(1, threads=32):
            B[0] = A[0]

    return locals()[does]


def zeros(N):
    return {"A": torch.zeros(N, dtype=torch.int64)}


def case(id, does, N=64):
    return Case(id, {"N": N}, "int64", {"does": does}, why="it does", draw="zeros" if N < 2**20 else "normal")


CASES = (
    case("fine-1", "fine"), case("hang", "hangs"), case("fine-2", "fine"), case("stray", "strays"),
    case("fine-3", "fine"), case("assert", "asserts"), case("fine-4", "fine"),
    case("never", "compiles_for_ever"), case("fine-5", "fine"), case("huge", "fine", 2**37),
    case("fine-6", "fine"), case("fine-7", "fine"),
)

SPEC = KernelSpec(
    "kernel", program, lambda A: A, CASES, draws={"zeros": zeros}, zeroed=("B",), outputs=("B",),
    pass_configs={"tl.disable_safe_memory_legalize": True},  # else a store out of range is left out
)
"""

SLOW_COMPILER = """
import shutil, subprocess
from pathlib import Path

import pytest

from tilecheck.plugin import timelimit

timelimit.GRACE = 2.0


@pytest.fixture(autouse=True)
def compiler_that_hangs(monkeypatch):
    import tilelang

    right = tilelang.compile

    def compile(program, **options):
        if program.attrs["global_symbol"] == "compiles_for_ever":
            compiler = shutil.copy(shutil.which("sleep"), Path(__file__).parent / "ptxas")
            subprocess.Popen(["sh", "-c", f"{compiler} 1000; true"]).communicate()  # as TileLang does
        return right(program, **options)

    monkeypatch.setattr(tilelang, "compile", compile)
"""

CONFORMANCE = """
import pytest

pytestmark = pytest.mark.correctness


def test_output(kernel_case, checker):
    checker.conformance(kernel_case)
"""

WHERE = """
import pytest
import torch


@pytest.mark.gpu
@pytest.mark.parametrize("i", range(12))
def test_where(i, record_property):
    assert torch.cuda.device_count() == 1
    torch.zeros(1, device="cuda")
    record_property("gpu", str(torch.cuda.get_device_properties(0).uuid))
"""


@pytest.fixture
def real(repository: Repository) -> Repository:
    """A repository whose kernels do what they are called for, on the GPU."""
    repository.write("pytest.ini", INI.format(timeout=30))
    repository.write("conftest.py", SLOW_COMPILER)
    repository.write("mine.py", KERNELS)
    repository.write("test_mine.py", CONFORMANCE)
    return repository


@pytest.mark.gpu
def test_on_a_gpu_each_culprit_fails_once_and_the_rest_run(real: Repository) -> None:
    run = real.pytest("-n", "2", "--require-gpu")
    assert outcome(run) == "5 failed, 7 passed"
    hang = section(run, "test_output[kernel-hang]")
    assert "did not end within 30 s; it was running kernel-hang on cuda:0, for " in hang
    assert "illegal memory access" in section(run, "test_output[kernel-stray]")
    assert "kernel-assert: launch failed" in section(run, "test_output[kernel-assert]")
    assert "Timeout (>30" in section(run, "test_output[kernel-never]")
    assert "out of memory" in section(run, "test_output[kernel-huge]")
    assert run.stdout.count("replacing crashed worker") == 3


@pytest.mark.gpu
def test_on_a_gpu_a_hang_ends_a_run_without_workers(real: Repository) -> None:
    run = real.pytest("--require-gpu", "-k", "hang or fine")
    assert run.returncode == 1
    assert outcome(run).startswith("1 failed, 1 passed")
    assert "it was running kernel-hang on cuda:0" in section(run, "test_output[kernel-hang]")
    assert "! run ended in test_mine.py::test_output[kernel-hang]" in run.stdout


@pytest.mark.gpu
def test_on_a_gpu_a_lost_context_is_one_failure_without_workers(real: Repository) -> None:
    run = real.pytest("--require-gpu", "-k", "stray or fine")
    assert outcome(run).startswith("1 failed, 2 passed, 5 skipped")
    assert "test_output[kernel-stray] left the CUDA context unusable" in run.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("by", ["number", "uuid"])
def test_on_gpus_each_worker_sees_one_of_the_callers(repository: Repository, by: str) -> None:
    installed = installed_gpus()
    uuids = [uuid(gpu, installed) for gpu in visible_gpus(os.environ.get(VARIABLE), installed)]
    numbers = [str([gpu.name for gpu in installed].index(name)) for name in uuids]
    repository.write("pytest.ini", INI.format(timeout=60))
    repository.write("mine.py", SPECS.format(kinds=("fine",)))
    repository.write("test_where.py", WHERE)
    run = repository.pytest(
        *("-n", str(2 * len(uuids)), "--require-gpu", "--junitxml=out.xml"),
        CUDA_DEVICE_ORDER="PCI_BUS_ID",  # NVML's
        CUDA_VISIBLE_DEVICES=",".join(reversed(numbers if by == "number" else uuids)),
    )
    assert outcome(run) == "12 passed"
    found = re.findall(r'name="gpu" value="([^"]+)"', (repository.root / "out.xml").read_text())
    assert {f"GPU-{name}" for name in found} == set(uuids)


def uuid(gpu: Gpu, installed: list[Gpu]) -> str:
    if gpu.name.isdigit():
        return installed[int(gpu.name)].name
    return next(other.name for other in installed if other.name.startswith(gpu.name))
