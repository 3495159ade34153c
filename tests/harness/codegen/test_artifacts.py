"""The cache of artifacts, with a compiler that counts its calls, and once with the real one."""

from pathlib import Path
from typing import Any

import pytest
import tilelang.language as T

from tilecheck.arches import arch
from tilecheck.codegen import (
    CodegenError,
    NoToolchain,
    Toolchain,
    artifacts_of,
    compiling,
    facts_of,
    find_toolchain,
    kept_facts,
    lower,
)
from tilecheck.codegen import artifacts as module
from tilecheck.codegen.artifacts import cache_folder, key_of
from tilecheck.program import Program, build_program
from tilecheck.spec import Case, KernelSpec

LISTING = "        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;\n"
VERSIONS = {"tilelang": "0.1.15", "nvcc": "13.0.88", "nvdisasm": "13.2.86"}


def doubled(n: int, dtype: str, factor: int = 2) -> Any:
    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as block:
            for i in T.Parallel(256):
                Y[block * 256 + i] = X[block * 256 + i] * factor

    return main


def program(name: str = "sm_90a", pass_configs: dict[str, Any] | None = None, **changes: Any) -> Program:
    case = Case("whole-fp32", {"n": 1024}, "float32", why="no tail")
    spec = KernelSpec("doubled", lambda n, dtype: doubled(n, dtype, **changes), lambda X: 2 * X, (case,))
    return build_program(spec, case, arch(name), pass_configs=pass_configs)


def toolchain(**versions: str) -> Toolchain:
    return Toolchain(Path("nvcc"), Path("ptxas"), Path("nvdisasm"), "wheels", {**VERSIONS, **versions})


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The sources that were compiled, in turn."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sources: list[str] = []

    def compile_cubin(cuda: str, *_: Any) -> tuple[bytes, compiling.Usage]:
        sources.append(cuda)
        return b"cubin", compiling.Usage(40, 0, 0, 0, 1, 0)

    monkeypatch.setattr(compiling, "compile_cubin", compile_cubin)
    monkeypatch.setattr(compiling, "disassemble", lambda *_: LISTING)
    return sources


def entry() -> Path:
    (found,) = (path for path in cache_folder().iterdir() if path.is_dir())
    return found


def test_the_second_time_nothing_is_compiled_nor_lowered(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = artifacts_of(program(), toolchain())
    monkeypatch.setattr(module, "lower", lambda _: pytest.fail("lowered again"))
    again = artifacts_of(program(), toolchain())
    assert len(compiled) == 1
    assert (again.facts, again.cuda, again.tir, again.cubin) == (first.facts, first.cuda, first.tir, b"cubin")
    assert (first.facts.registers, first.facts.threads, first.facts.instructions["LDG.128"]) == (40, 128, 1)


def test_kept_facts_are_those_that_were_made_and_never_make_any(compiled: list[str]) -> None:
    assert kept_facts(program(), toolchain()) is None and compiled == []
    made = facts_of(program(), toolchain())
    assert kept_facts(program(), toolchain()) == made
    assert kept_facts(program(), toolchain(nvcc="13.1.0")) is None and len(compiled) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((program(), toolchain()), (program(factor=3), toolchain())),
        ((program(), toolchain()), (program("sm_80"), toolchain())),
        ((program(), toolchain()), (program(pass_configs={"tl.enable_fast_math": True}), toolchain())),
        ((program(), toolchain()), (program(), toolchain(nvcc="13.1.80"))),
        ((program(), toolchain()), (program(), toolchain(tilelang="0.1.14"))),
    ],
    ids=["program", "arch", "options", "nvcc", "tilelang"],
)
def test_whatever_decides_is_in_the_key(one: Any, other: Any, compiled: list[str]) -> None:
    assert key_of(*one) != key_of(*other)
    artifacts_of(*one)
    artifacts_of(*other)
    assert len(compiled) == 2


def test_layouts_are_in_the_key() -> None:
    from tilelang.layout import Layout

    def copied(swap: bool) -> Any:
        @T.prim_func
        def main(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128):
                tile = T.alloc_shared((64, 64), "float32")
                T.annotate_layout({tile: Layout((64, 64), lambda i, j: j * 64 + i if swap else i * 64 + j)})
                T.copy(X, tile)
                T.copy(tile, Y)

        return main

    case = Case("one", {}, "float32", why="a layout")
    plain, swapped = (
        build_program(
            KernelSpec("copied", lambda s=swap: copied(s), lambda X: X, (case,)), case, arch("sm_90a")
        )
        for swap in (False, True)
    )
    assert key_of(plain, toolchain()) != key_of(swapped, toolchain())


@pytest.mark.parametrize("damage", ["truncated", "no cubin", "other fields"])
def test_a_damaged_entry_is_made_anew(compiled: list[str], damage: str) -> None:
    first = artifacts_of(program(), toolchain())
    record = entry() / "facts.json"
    if damage == "truncated":
        record.write_text(record.read_text()[:100])
    elif damage == "no cubin":
        (entry() / "kernel.cubin").unlink()
    else:
        record.write_text(record.read_text().replace('"registers"', '"registres"'))
    assert artifacts_of(program(), toolchain()).facts == first.facts
    assert len(compiled) == 2
    assert artifacts_of(program(), toolchain()).facts == first.facts
    assert len(compiled) == 2


def test_a_failure_leaves_no_entry(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise CodegenError("nvcc failed")

    monkeypatch.setattr(compiling, "compile_cubin", fails)
    with pytest.raises(CodegenError, match="nvcc failed"):
        artifacts_of(program(), toolchain())
    assert not [path for path in cache_folder().iterdir() if path.is_dir()]


def test_what_nobody_asks_for_goes(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    artifacts_of(program(), toolchain())
    (cache_folder() / ".cleaned").unlink()
    now = module.time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + 31 * 24 * 3600)
    artifacts_of(program("sm_80"), toolchain())
    assert not (cache_folder() / key_of(program(), toolchain())).exists()


def test_what_tilelang_refuses_is_named() -> None:
    def refused(n: int) -> Any:
        @T.prim_func
        def main(X: T.Tensor((n,), "float16"), Y: T.Tensor((n,), "float16")):
            with T.Kernel(1, threads=48):
                tile = T.alloc_fragment((n, 16), "float32")
                total = T.alloc_fragment((n,), "float32")
                T.clear(tile)
                T.reduce_sum(tile, total, dim=1)
                T.copy(total, Y)

        return main

    case = Case("one", {"n": 48}, "float16", why="48 threads")
    spec = KernelSpec("refused", refused, lambda X: X, (case,))
    with pytest.raises(
        CodegenError, match=r"^refused-one: TileLang does not lower it for sm_90a: .+"
    ) as caught:
        lower(build_program(spec, case, arch("sm_90a")))
    assert "\n" not in str(caught.value)


@pytest.mark.codegen
def test_source_and_code_are_those_that_tilelang_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TileLang's own compile, for the same architecture, against ours."""
    try:
        found = find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    import re

    import tilelang
    from tilelang.cache.cuda_binary_cache import CUDABinaryCache
    from tilelang.contrib import nvcc

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cubins: list[bytes] = []
    real = nvcc.compile_cuda

    def compile_cuda(*arguments: Any, **named: Any) -> Any:
        cubins.append(bytes(real(*arguments, **named)))
        return cubins[-1]

    monkeypatch.setattr(CUDABinaryCache, "load", lambda *_: None)
    monkeypatch.setattr(nvcc, "compile_cuda", compile_cuda)
    monkeypatch.setattr(nvcc, "get_nvcc_compiler", lambda: str(found.nvcc))
    tilelang.disable_cache()
    try:
        target = {"kind": "cuda", "arch": "sm_80"}
        kernel = tilelang.compile(program("sm_80").prim_func, target=target, execution_backend="tvm_ffi")
    finally:
        tilelang.enable_cache()
    ours = artifacts_of(program("sm_80"), found)
    assert re.sub(r"#line .*\n", "", kernel.get_kernel_source()) == ours.cuda
    assert [compiling.disassemble(cubin, found) for cubin in cubins] == [ours.sass]
    assert ".entry main_kernel" in ours.ptx
    assert ours.facts.value("LDG") > 0
