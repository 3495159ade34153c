"""What a launch takes for granted is checked before it, and what goes wrong in one is said plainly."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tilelang
import tilelang.language as T
import torch

from kernels import matmul
from tilecheck import launch
from tilecheck.arches import ARCHES
from tilecheck.arguments import check_arguments
from tilecheck.conformance import check
from tilecheck.launch import (
    CompileError,
    Cuda,
    LaunchError,
    arch_here,
    compile_program,
    compile_target,
)
from tilecheck.program import Parameter, Program, build_program
from tilecheck.spec import Case, KernelSpec

CPU = torch.device("cpu")
MATRIX = Parameter("A", "float16", "input", (4, 8), (8, 1))
SCALE = Parameter("scale", "float32", "scalar")
COUNT = Parameter("count", "int32", "scalar")
OUT = Parameter("C", "float32", "output", (4,), (1,))


def half(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.float16)


def test_arguments_come_back_in_the_order_of_the_parameters() -> None:
    out, matrix = torch.zeros(4), half(4, 8)
    ordered = check_arguments([MATRIX, SCALE, OUT], {"C": out, "scale": 0.5, "A": matrix}, CPU)
    assert ordered[0] is matrix
    assert ordered[1] == 0.5
    assert ordered[2] is out


@pytest.mark.parametrize(
    ("parameter", "argument", "error", "message"),
    [
        pytest.param(
            MATRIX, 1.0, TypeError, "'A': got 1.0 (float), want a float16 tensor", id="scalar-for-tensor"
        ),
        pytest.param(
            MATRIX, torch.zeros(4, 8), TypeError, "'A': got dtype float32, want float16", id="dtype"
        ),
        pytest.param(MATRIX, half(8, 4), ValueError, "'A': got shape (8, 4), want (4, 8)", id="shape"),
        pytest.param(MATRIX, half(32), ValueError, "'A': got shape (32,), want (4, 8)", id="rank"),
        pytest.param(MATRIX, half(8, 4).T, ValueError, "'A': got strides (1, 4), want (8, 1)", id="stride"),
        pytest.param(
            MATRIX,
            half(4, 8).to("meta"),
            ValueError,
            "'A': got a tensor on meta, want one on cpu",
            id="device",
        ),
        pytest.param(
            MATRIX, half(33)[1:].view(4, 8), ValueError, "'A': got an address 2 bytes past", id="alignment"
        ),
        pytest.param(
            SCALE, torch.ones(1), TypeError, "'scale': got a tensor of shape (1,)", id="tensor-for-scalar"
        ),
        pytest.param(
            COUNT, 0.5, TypeError, "'count': got 0.5 (float), want a int32 scalar", id="scalar-type"
        ),
        pytest.param(
            COUNT, 2**31, ValueError, "'count': got 2147483648, want a int32: -2147483648", id="range"
        ),
    ],
)
def test_wrong_argument_is_named_with_what_came_and_what_is_wanted(
    parameter: Parameter, argument: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        check_arguments([parameter], {parameter.name: argument}, CPU)
    assert message in str(raised.value)


def test_missing_and_surplus_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"no argument for C; the parameters are A, C"):
        check_arguments([MATRIX, OUT], {"A": half(4, 8)}, CPU)
    with pytest.raises(TypeError, match=r"argument for D, which is no parameter; those are A"):
        check_arguments([MATRIX], {"A": half(4, 8), "D": 1}, CPU)


def test_strides_that_no_element_uses_do_not_matter() -> None:
    column = Parameter("x", "float16", "input", (4, 1), (1, 1))
    check_arguments([column], {"x": half(8, 4)[:1].T}, CPU)  # strides (1, 4)
    empty = Parameter("x", "float16", "input", (0, 8), (8, 1))
    check_arguments([empty], {"x": half(8, 0).T}, CPU)


@pytest.mark.parametrize(
    ("capability", "target"),
    [((8, 0), "sm_80"), ((8, 6), "sm_86"), ((9, 0), "sm_90a"), ((10, 3), "sm_103a"), ((12, 1), "sm_121a")],
)
def test_code_is_for_the_gpu_itself_and_not_for_the_one_whose_limits_it_shares(
    capability: tuple[int, int], target: str
) -> None:
    assert compile_target(*capability) == {"kind": "cuda", "arch": target}


def test_code_of_an_older_architecture_is_made_for_the_gpu() -> None:
    assert compile_target(9, 0, "sm_80") == {"kind": "cuda", "arch": "sm_80", "code": ["sm_90"]}
    assert compile_target(12, 0, "sm_89") == {"kind": "cuda", "arch": "sm_89", "code": ["sm_120"]}
    for older, capability in (("sm_90a", (10, 0)), ("sm_89", (8, 0)), ("sm_80", (8, 0))):
        with pytest.raises(ValueError, match=f"code for {older} cannot be translated"):
            compile_target(*capability, older)


def test_limits_of_an_older_architecture_are_no_wider_than_the_gpus() -> None:
    ada = arch_here((8, 9), "NVIDIA L40S", "sm_80")
    assert (ada.name, ada.gpu) == ("sm_80", "nvidia-l40s")
    assert (ada.shared_per_block, ada.threads_per_sm) == (99 * 1024, 1536)
    assert arch_here((9, 0), "NVIDIA H200", "sm_80") == replace(ARCHES["sm_80"], gpu="nvidia-h200")
    assert arch_here((9, 0), "NVIDIA H200") == replace(ARCHES["sm_90a"], gpu="nvidia-h200")


@pytest.mark.gpu
def test_code_of_an_older_architecture_runs() -> None:
    device = Cuda(older="sm_80")
    if device.arch.capability != (8, 0) or torch.cuda.get_device_capability() <= (8, 0):
        pytest.skip("wants a GPU that is newer than sm_80")
    check(matmul.SPEC, matmul.SPEC.case("all-over-fp16"), device, seed=0)


def test_a_program_without_output_elements_is_not_launched() -> None:
    def program(*shapes: tuple[int, ...]) -> Any:
        return program_of(*(Parameter("C", "float32", "output", shape) for shape in shapes))

    assert program((0, 8)).writes_nothing
    assert not program((0, 8), (1,)).writes_nothing
    assert not program(()).writes_nothing


class FakeCuda(Cuda):
    """A GPU whose launches and synchronisations do what a test says."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, kernel: Any, synchronize: Any = lambda device: None
    ) -> None:
        self.arch, self.torch_device, self.lost = ARCHES["sm_90a"], CPU, None
        self.target = compile_target(9, 0)
        monkeypatch.setattr(launch, "compile_program", lambda program, target: kernel)
        monkeypatch.setattr(torch.cuda, "device", lambda device: pytest.MonkeyPatch.context())
        monkeypatch.setattr(torch.cuda, "synchronize", synchronize)


def program_of(*parameters: Parameter) -> Any:
    case = Case("row", {"n": 4}, "float32", why="a row")
    spec = KernelSpec("fake", lambda n: None, lambda n: None, (case,))
    return Program(spec, case, ARCHES["sm_90a"], None, SimpleNamespace(attrs=None), parameters)


def raising(error: Exception) -> Any:
    def call(*_: Any, **__: Any) -> None:
        raise error

    return call


def test_kernel_gets_its_arguments_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Any] = []
    FakeCuda(monkeypatch, lambda *args: got.extend(args)).run(
        program_of(SCALE, OUT), {"C": torch.zeros(4), "scale": 2.0}
    )
    assert got[0] == 2.0
    assert got[1].shape == (4,)


def test_failed_launch_names_the_case_and_the_cuda_error(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("Traceback:\n  somewhere\nCUDALaunch Error: CUDA_ERROR_INVALID_VALUE\n grid=(0,1,1)")
    device = FakeCuda(monkeypatch, raising(error))
    with pytest.raises(LaunchError, match=r"fake-row: launch failed on cpu: .*CUDA_ERROR_INVALID_VALUE"):
        device.run(program_of(OUT), {"C": torch.zeros(4)})
    assert device.lost is None


def test_error_that_costs_the_context_stops_later_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    sticky = RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with ...")
    device = FakeCuda(monkeypatch, lambda *_: None, raising(sticky))
    with pytest.raises(LaunchError, match=r"illegal memory access was encountered; the CUDA context is lost"):
        device.run(program_of(OUT), {"C": torch.zeros(4)})
    with pytest.raises(
        LaunchError, match=r"not launched: an earlier launch .*fake-row.*illegal memory access"
    ):
        device.run(program_of(OUT), {"C": torch.zeros(4)})


def test_compiler_message_is_cut_to_its_gist(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = RuntimeError(
        "Compilation error:\n#include <x.h>\nint a;\nkernel.cu(3): error: identifier 'b' is undefined\nmore"
    )
    monkeypatch.setattr(tilelang, "compile", raising(noise))
    with pytest.raises(
        CompileError, match=r"fake-row: does not compile for sm_90a: .*identifier 'b' is undefined"
    ):
        compile_program(program_of(OUT), compile_target(9, 0))


def doubled(n: int, dtype: str) -> Any:
    @T.prim_func
    def program(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                if bx * 128 + i < n:
                    Y[bx * 128 + i] = X[bx * 128 + i] * 2

    return program


@tilelang.jit
def doubled_and_returned(X, n: int, dtype: str):
    X: T.Tensor((n,), dtype)
    Y = T.empty((n,), dtype)
    with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
        for i in T.Parallel(128):
            if bx * 128 + i < n:
                Y[bx * 128 + i] = X[bx * 128 + i] * 2
    return Y


def test_results_that_the_program_returns_are_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("odd", {"n": 1001}, "float32", why="a tail")
    tensor = torch.zeros(1001)
    prim_func = doubled_and_returned.get_tir(X=tensor, n=1001, dtype="float32")
    assert "tilelang_out_idx" in prim_func.attrs
    spec = KernelSpec("doubled", lambda n: None, lambda X: X * 2, (case,))
    seen: dict[str, Any] = {}
    monkeypatch.setattr(tilelang, "compile", lambda func, **options: seen.update(options, func=func))
    program = Program(spec, case, ARCHES["sm_90a"], None, prim_func, ())
    compile_program(program, compile_target(9, 0))
    assert "tilelang_out_idx" not in seen["func"].attrs
    assert seen["out_idx"] is None
    assert seen["target"] == {"kind": "cuda", "arch": "sm_90a"}
    assert "tilelang_out_idx" in prim_func.attrs


def program_on(device: Cuda) -> Program:
    case = Case("odd", {"n": 1001}, "float32", why="a tail")
    spec = KernelSpec("doubled", doubled, lambda X: X * 2, (case,))
    return build_program(spec, case, device.arch)


@pytest.mark.gpu
def test_program_runs_on_the_gpu() -> None:
    device = Cuda()
    x = torch.arange(1001.0, device=device.torch_device)
    y = torch.zeros_like(x)
    device.run(program_on(device), {"Y": y, "X": x})
    assert torch.equal(y, x * 2)


@pytest.mark.gpu
def test_kernel_runs_on_the_current_stream() -> None:
    device = Cuda()
    kernel = compile_program(program_on(device), device.target)
    x, ones = torch.zeros(1001, device=device.torch_device), torch.ones(1001, device=device.torch_device)
    y = torch.zeros_like(x)
    stream = torch.cuda.Stream(device.torch_device)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(
            100_000_000
        )  # cycles, 50 ms and more: on any other stream the kernel would see zeros
        x.copy_(ones)
        kernel(x, y)
    stream.synchronize()
    assert torch.equal(y, ones * 2)


@pytest.mark.gpu
def test_failed_assertion_on_the_gpu_loses_the_context_and_says_so(tmp_path: Path) -> None:
    # In a process of its own, whose CUDA context it may cost; from a file, as TileLang reads the source.
    script = """
import tilelang.language as T, torch
from tilecheck.launch import Cuda, LaunchError
from tilecheck.program import build_program
from tilecheck.spec import Case, KernelSpec

def failing(n, dtype):
    @T.prim_func
    def program(Y: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=32) as bx:
            T.device_assert(bx > 0)
            for i in T.Parallel(32):
                Y[i] = 1.0
    return program

case = Case("any", {"n": 32}, "float32", why="x")
device = Cuda()
program = build_program(KernelSpec("failing", failing, lambda: None, (case,)), case, device.arch)
for _ in range(2):
    try:
        device.run(program, {"Y": torch.zeros(32, device=device.torch_device) if not device.lost else None})
    except LaunchError as error:
        print("LaunchError:", error)
"""
    checkout = str(Path(__file__).parents[2])
    # What is there already may be where TileLang is.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([checkout, os.environ.get("PYTHONPATH", "")])}
    (tmp_path / "script.py").write_text(script)
    run = subprocess.run(
        [sys.executable, tmp_path / "script.py"], env=environment, capture_output=True, text=True, check=False
    )
    first, second = [line for line in run.stdout.splitlines() if line.startswith("LaunchError")]
    assert "failing-any: launch failed on cuda:0" in first
    assert "the CUDA context is lost" in first
    assert "not launched: an earlier launch left the CUDA context unusable (failing-any" in second
