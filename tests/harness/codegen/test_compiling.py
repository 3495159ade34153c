from typing import Any

import pytest

from tilecheck.codegen import CodegenError, NoToolchain, find_toolchain
from tilecheck.codegen.compiling import Usage, compile_cubin, options_of, parse_usage
from tilecheck.gist import telling_line

TOLD = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first_kernel' for 'sm_90a'
ptxas info    : Function properties for first_kernel
    16 bytes stack frame, 48 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 154.290 ms
ptxas info    : Compiling entry function 'second_kernel' for 'sm_90a'
ptxas info    : Function properties for second_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 384 bytes cmem[0]
"""


def test_usage_is_the_largest_of_all_kernels() -> None:
    assert parse_usage(TOLD) == Usage(
        registers=255, stack=16, spill_stores=48, spill_loads=40, barriers=1, static_shared=1024
    )
    assert parse_usage(TOLD[TOLD.index("ptxas info    : Compiling entry function 'second") :]) == Usage(
        registers=32, stack=0, spill_stores=0, spill_loads=0, barriers=0, static_shared=0
    )


def test_usage_of_no_kernel_is_an_error() -> None:
    with pytest.raises(CodegenError, match="ptxas names no kernel: ptxas info    : 0 bytes gmem"):
        parse_usage("ptxas info    : 0 bytes gmem\n")


@pytest.mark.parametrize(
    ("pass_configs", "options"),
    [
        ({}, []),
        ({"tl.enable_fast_math": True}, ["--use_fast_math"]),
        ({"tl.enable_fast_math": False}, []),
        ({"tl.ptxas_register_usage_level": 10}, ["--ptxas-options=--register-usage-level=10"]),
        ({"tl.device_compile_flags": "-DA -DB='x y'"}, ["-DA", "-DB=x y"]),
        ({"tl.device_compile_flags": ["-DA", "-DB"]}, ["-DA", "-DB"]),
    ],
)
def test_pass_options_become_options_of_nvcc(pass_configs: dict[str, Any], options: list[str]) -> None:
    assert options_of(pass_configs)[4:] == options


@pytest.mark.parametrize(
    "pass_configs", [{}, {"tl.enable_fast_math": True, "tl.device_compile_flags": "-DX"}]
)
def test_options_are_those_of_tilelang(pass_configs: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    backend = pytest.importorskip("tilelang.cuda.backend", reason="this TileLang compiles elsewhere")
    from tilelang import tvm
    from tilelang.cache.cuda_binary_cache import CUDABinaryCache

    passed: list[str] = []

    def compile_cuda(code: str, form: str, arch: list[str], options: list[str], **_: Any) -> bytearray:
        passed.extend([*arch, *options])
        return bytearray(b"cubin")

    monkeypatch.setattr(backend.nvcc, "compile_cuda", compile_cuda)
    monkeypatch.setattr(CUDABinaryCache, "load", lambda *_: None)
    monkeypatch.setattr(CUDABinaryCache, "save", lambda *_: None)
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    backend.tilelang_callback_cuda_compile("code", target, pass_configs)
    assert sorted(passed) == sorted(["-arch=sm_90a", *options_of(pass_configs)[1:]])  # -O3 comes later there


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "int a;\nkernel.cu(3): error: identifier 'b' is undefined\nmore",
            "kernel.cu(3): error: identifier 'b' is undefined",
        ),
        ("code\nCompilation error:\nk.cu(1): error: x\nCommand: nvcc", "k.cu(1): error: x"),
        (
            "ptxas fatal   : (C7600) Register allocation failed",
            "ptxas fatal   : (C7600) Register allocation failed",
        ),
        ("  File a.cc, line 3\nInternalError: Check failed: x == y", "InternalError: Check failed: x == y"),
        ("only this", "only this"),
        ("", "no message"),
    ],
)
def test_telling_line(message: str, line: str) -> None:
    assert telling_line(message) == line


@pytest.mark.codegen
def test_source_that_nvcc_refuses() -> None:
    try:
        toolchain = find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    with pytest.raises(CodegenError, match=r"nvcc failed \(exit code \d+\): .*\"b\" is undefined"):
        compile_cubin("__global__ void k(int* a) { *a = b; }", "sm_90a", {}, toolchain)
