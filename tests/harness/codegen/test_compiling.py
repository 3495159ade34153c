import os
from pathlib import Path
from typing import Any

import pytest

from tilecheck.codegen import CodegenError, NoToolchain, Toolchain, find_toolchain
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


POISON = {
    "NVCC_PREPEND_FLAGS": "-DN=7",
    "NVCC_APPEND_FLAGS": "-Xptxas -O0",
    "PTXAS_FLAGS": "-O0",
    "CUDAFE_FLAGS": "--no-such-option",
    "INCLUDES": "-I{folder}",
    "SYSTEM_INCLUDES": "-isystem {folder}",
    "CPATH": "{folder}",
    "C_INCLUDE_PATH": "{folder}",
    "CPLUS_INCLUDE_PATH": "{folder}",
    "GCC_EXEC_PREFIX": "{folder}/",
    "COMPILER_PATH": "{folder}",
    "CICC_PATH": "{folder}",
    "NVVMIR_LIBRARY_DIR": "{folder}",
}
"""Variables by which somebody's shell has a say in what nvcc and g++ make of a source."""


def test_nobodys_variables_reach_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = tmp_path / "nvcc"
    (tmp_path / "told").write_text(TOLD)
    lines = (f"env > '{tmp_path}/seen'", 'cp "$0" "${@: -2:1}"', f"cat '{tmp_path}/told'")
    nvcc.write_text("\n".join(["#!/bin/bash", *lines, ""]))
    nvcc.chmod(0o755)
    for name in POISON:
        monkeypatch.setenv(name, "poison")
    monkeypatch.setenv("NVCC_CCBIN", "g++-12")
    compile_cubin("source", "sm_80", {}, Toolchain(nvcc, nvcc, nvcc, "path", {}))
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())
    assert "poison" not in seen.values()
    assert seen["NVCC_CCBIN"] == "g++-12", "where the machine's own is too new for nvcc, nothing else helps"
    assert seen["PATH"] == os.environ["PATH"]


@pytest.mark.codegen
def test_code_is_the_same_whatever_the_shell_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        toolchain = find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    source = """
#if __has_include(<poison.h>)
#include <poison.h>
#endif
#ifndef N
#define N 4
#endif
extern "C" __global__ void k(float* a) { for (int i = 0; i < N; ++i) a[threadIdx.x + i * 32] *= 2; }
"""
    clean = compile_cubin(source, "sm_80", {}, toolchain)
    (tmp_path / "poison.h").write_text("#define N 9\n")
    for name, value in POISON.items():
        monkeypatch.setenv(name, value.format(folder=tmp_path))
    assert compile_cubin(source, "sm_80", {}, toolchain) == clean


@pytest.mark.codegen
def test_source_that_nvcc_refuses() -> None:
    try:
        toolchain = find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    with pytest.raises(CodegenError, match=r"nvcc failed \(exit code \d+\): .*\"b\" is undefined"):
        compile_cubin("__global__ void k(int* a) { *a = b; }", "sm_90a", {}, toolchain)
