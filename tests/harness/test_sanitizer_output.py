"""What compute-sanitizer prints is read right, and a run that checked nothing is no clean one."""

import sys
from pathlib import Path

import pytest

from kernels import SPECS
from tilecheck.arches import ARCHES
from tilecheck.program import Program, build_program
from tilecheck.sanitizer import Finding, find_sanitizer, judged, options, parse, sanitize
from tilecheck.single import LAUNCHED, ToolError

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 16 bytes
=========     at matmul_kernel(const __half *, const __half *, __half *)+0x1a40 in matmul.py:131
=========     by thread (96,0,0) in block (3,0,0)
=========     Address 0x7f10ae001f00 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f10ae000000 of size 7,936 bytes
=========
========= Invalid __global__ write of size 16 bytes
=========     at matmul_kernel(const __half *, const __half *, __half *)+0x1a40 in matmul.py:131
=========     by thread (97,0,0) in block (3,0,0)
=========     Address 0x7f10ae001f10 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f10ae000000 of size 7,936 bytes
=========
========= Invalid __shared__ read of size 2 bytes
=========     at 0x160 in /somewhere/matmul.py:118:matmul_kernel
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x400 is misaligned
=========
========= Target application returned an error
========= ERROR SUMMARY: 3 errors
"""

RACECHECK = """\
========= COMPUTE-SANITIZER
tilecheck: launched row-any
========= Error: Race reported between Write access at row_kernel(const float *, float *)+0x90 in row.py:12
=========     and Read access at row_kernel(const float *, float *)+0xf0 in row.py:14 [60 hazards]
=========     and Write access at row_kernel(const float *, float *)+0x90 in row.py:12 [4 hazards]
=========
========= Warning: Race reported between Read access at row_kernel(const float *, float *)+0x20
=========     and Write access at row_kernel(const float *, float *)+0x40 [8 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""

SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at row_kernel(const float *, float *)+0x70 in row.py:13
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Barrier error detected. Divergent thread(s) in block.
=========     at row_kernel(const float *, float *)+0x70 in row.py:13
=========     by thread (1,0,0) in block (0,0,0)
=========
========= Barrier error detected. Invalid arguments.
=========     at __syncwarp(unsigned int)+0xe0 in sm_30_intrinsics.hpp:110
=========         Device Frame: row_kernel(float *)+0xb0 in row.py:12
=========     by thread (16,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 3 errors
"""

CLEAN = f"""\
========= COMPUTE-SANITIZER
{LAUNCHED} row-any
========= ERROR SUMMARY: 0 errors
"""


def test_accesses_out_of_bounds_are_told_once_with_line_and_first_thread() -> None:
    write, read = parse(MEMCHECK)
    assert write == Finding(
        "Invalid __global__ write of size 16 bytes; Address is out of bounds; "
        "and is 1 bytes after the nearest allocation at of size 7,936 bytes",
        ("matmul.py:131",),
        "thread (96,0,0) in block (3,0,0)",
        2,
    )
    assert read.places == ("matmul.py:118",)
    assert str(write).endswith("at matmul.py:131, first by thread (96,0,0) in block (3,0,0), 2 times")


def test_races_are_told_with_all_lines_that_take_part_and_the_number_of_hazards() -> None:
    error, warning = parse(RACECHECK)
    assert error.what == "error: race of a write and a read and a write"
    assert error.places == ("row.py:12", "row.py:14", "row.py:12")
    assert error.count == 64
    assert warning == Finding("warning: race of a read and a write", (), "", 8)


def test_barrier_errors_are_told() -> None:
    divergent, arguments = parse(SYNCCHECK)
    assert divergent.what == "Barrier error detected. Divergent thread(s) in block"
    assert (divergent.places, divergent.count) == (("row.py:13",), 2)
    assert arguments.what == "Barrier error detected. Invalid arguments"


def test_clean_run_has_no_findings() -> None:
    assert judged(CLEAN, 0) == []
    assert (
        judged(
            CLEAN.replace("ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards displayed (0 errors)"), 0
        )
        == []
    )


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("", 0),
        ("========= COMPUTE-SANITIZER\n", 1),
        (CLEAN.replace(LAUNCHED, "Traceback"), 1),
        ("========= COMPUTE-SANITIZER\n========= Error: process didn't terminate successfully\n", 1),
        ("========= Target application returned an error\n========= ERROR SUMMARY: 0 errors\n", 1),
    ],
    ids=["nothing", "no-summary", "not-launched", "process-failed", "target-failed"],
)
def test_run_that_checked_nothing_is_an_error(output: str, code: int) -> None:
    with pytest.raises(ToolError, match="nothing was checked"):
        judged(output, code)


def test_errors_that_are_only_counted_are_findings_too() -> None:
    (finding,) = judged(CLEAN.replace("0 errors", "5 errors"), 86)
    assert finding.what.startswith("5 errors that the report does not name")


@pytest.fixture
def program() -> Program:
    spec = SPECS[0]
    return build_program(spec, spec.case(spec.grid_cases[0]), ARCHES["sm_90a"])


def fake_tool(folder: Path, body: str) -> str:
    tool = folder / "compute-sanitizer"
    tool.write_text(f"#!{sys.executable}\nimport sys\n{body}")
    tool.chmod(0o755)
    return str(tool)


def test_tool_gets_only_the_programs_kernels_and_its_task(tmp_path: Path, program: Program) -> None:
    tool = fake_tool(tmp_path, f"print(sys.argv[1:]); print({RACECHECK!r}); sys.exit(86)")
    assert len(sanitize(["kernels"], program, "racecheck", seed=0, executable=tool)) == 2
    assert options("racecheck", program)[:2] == ["--tool", "racecheck"]
    assert "kns=vector_add_kernel" in options("racecheck", program)
    tool = fake_tool(
        tmp_path, f"assert sys.argv[-2] == 'tilecheck.single'; open(sys.argv[-1]); print({CLEAN!r})"
    )
    assert sanitize(["kernels"], program, "memcheck", seed=0, executable=tool) == []


def test_tool_is_found_on_the_path_and_in_the_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    tool = fake_tool(tmp_path / "bin", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_sanitizer() == tool
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_sanitizer() == tool


BROKEN = """
import tilelang.language as T

from tilecheck.spec import Case, KernelSpec


def program(N, does):
    @T.prim_func
    def right(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            a = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            a[tx] = A[tx]
            T.sync_threads()
            C[tx] = a[N - 1 - tx]

    @T.prim_func
    def races(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            a = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            a[tx] = A[tx]
            C[tx] = a[N - 1 - tx]

    @T.prim_func
    def strays(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            C[tx + 1] = A[tx]

    @T.prim_func
    def diverges(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            a = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            a[tx] = A[tx]
            if tx < N - 40:
                T.sync_threads()
            C[tx] = a[tx]

    return {"right": right, "races": races, "strays": strays, "diverges": diverges}[does]


KINDS = ("right", "races", "strays", "diverges")
CASES = tuple(Case(kind, {"N": 128}, "float32", {"does": kind}, why="it does") for kind in KINDS)
SPEC = KernelSpec(
    "row", program, lambda A: A, CASES,
    pass_configs={"tl.disable_thread_storage_sync": True, "tl.disable_safe_memory_legalize": True},
)
"""


@pytest.mark.gpu
@pytest.mark.skipif(find_sanitizer() is None, reason="no compute-sanitizer: it comes with the CUDA toolkit")
def test_on_a_gpu_broken_kernels_are_found_with_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    from tilecheck.launch import Cuda
    from tilecheck.loading import load_specs

    (spec,) = load_specs(["broken"])
    arch = Cuda().arch
    found = {}
    for case, tool in (
        *(("right", tool) for tool in ("memcheck", "racecheck", "synccheck")),
        ("races", "racecheck"),
        ("strays", "memcheck"),
        ("diverges", "synccheck"),
    ):
        program = build_program(spec, spec.case(case), arch)
        found[case, tool] = sanitize(["broken"], program, tool, seed=0)
    assert [found["right", tool] for tool in ("memcheck", "racecheck", "synccheck")] == [[], [], []]
    assert "race of a" in found["races", "racecheck"][0].what
    assert "Invalid __global__ write of size 4 bytes" in found["strays", "memcheck"][0].what
    assert "Barrier error" in found["diverges", "synccheck"][0].what
    for (case, _), findings in found.items():
        assert all(place.startswith("broken.py:") for f in findings for place in f.places), case
        assert case == "right" or findings[0].places, case
