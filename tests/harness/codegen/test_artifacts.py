"""The cache of artifacts, with a compiler that counts its calls, and once with the real one."""

import dataclasses
import errno
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
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
    installed,
    kept,
    kept_facts,
    lower,
)
from tilecheck.codegen import artifacts as module
from tilecheck.codegen.artifacts import cache_folder, key_of
from tilecheck.codegen.kept import Kept
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


def entries() -> dict[str, Path]:
    """The files of the cache's two entries, by what they have."""
    found = {path: path.read_text() for path in cache_folder().glob("*.json")}
    return {"code" if '"cubin"' in text else "lowered": path for path, text in found.items()}


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
    ],
    ids=["program", "arch", "options", "nvcc"],
)
def test_whatever_decides_is_in_the_key(one: Any, other: Any, compiled: list[str]) -> None:
    assert key_of(*one) != key_of(*other)
    artifacts_of(*one)
    artifacts_of(*other)
    assert len(compiled) == 2


def test_another_tilelang_lowers_anew_and_compiles_what_came_out_another(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts_of(program(), toolchain())
    lowered: list[Program] = []
    monkeypatch.setattr(module, "lower", lambda p: lowered.append(p) or lower(p))
    made = artifacts_of(program(), toolchain(tilelang="0.1.14"))
    assert (len(lowered), len(compiled), made.cubin) == (1, 1, b"cubin")
    changed = dataclasses.replace(made.lowered, cuda=made.cuda + "// by another pass")
    monkeypatch.setattr(module, "lower", lambda _: changed)
    assert artifacts_of(program(), toolchain(tilelang="0.1.13")).cuda == changed.cuda
    assert len(compiled) == 2


class Installation:
    """A TileLang and a toolkit in files; what is found out of them once in a process is found anew."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        for name in (
            *("tilelang/engine/lower.py", "build/lib/libtilelang.so", "src/tl_templates/common.h"),
            *("cutlass/cute.hpp", "cu/bin/nvcc", "cu/bin/ptxas", "cu/nvvm/bin/cicc"),
            *(
                "cu/nvvm/libdevice/libdevice.10.bc",
                "cu/include/cuda_fp16.h",
                "cu/include/cccl/cuda/std/atomic",
            ),
            *("nvdisasm", "mine/mine.h", "given.h", "g++"),
        ):
            self.edit(name, name)
        env = importlib.import_module("tilelang.env")
        (folder / "g++").chmod(0o755)
        monkeypatch.setenv("NVCC_CCBIN", str(folder / "g++"))
        monkeypatch.setattr(installed, "_MODULES", ("installation",))
        package = SimpleNamespace(__path__=[str(folder / "tilelang")])
        monkeypatch.setitem(sys.modules, "installation", package)
        monkeypatch.setattr(env, "TL_LIBS", [str(folder / "build" / "lib")])
        monkeypatch.setattr(env, "TILELANG_TEMPLATE_PATH", str(folder / "src"), raising=False)
        monkeypatch.setattr(env, "CUTLASS_INCLUDE_DIR", str(folder / "cutlass"), raising=False)

    def edit(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.forget()

    @staticmethod
    def forget() -> None:
        """As in a new process."""
        installed._of_folder.cache_clear()

    def toolchain(self) -> Toolchain:
        cu = self.folder / "cu" / "bin"
        return Toolchain(cu / "nvcc", cu / "ptxas", self.folder / "nvdisasm", "wheels", VERSIONS)

    def program(self) -> Program:
        flags = [
            "-I",
            str(self.folder / "mine"),
            f"-I{self.folder}/mine",
            "-include",
            f"{self.folder}/given.h",
        ]
        return program(pass_configs={"tl.device_compile_flags": flags})


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    yield Installation(tmp_path / "installation", monkeypatch)
    Installation.forget()


@pytest.mark.parametrize(
    ("name", "compiles"),
    [
        ("tilelang/engine/lower.py", False),
        ("tilelang/new.py", False),
        ("build/lib/libtilelang.so", False),
        ("src/tl_templates/common.h", True),
        ("src/tl_templates/new.h", True),
        ("cutlass/cute.hpp", True),
        ("cu/bin/nvcc", True),
        ("cu/bin/nvcc.profile", True),
        ("cu/nvvm/bin/cicc", True),
        ("cu/nvvm/libdevice/libdevice.10.bc", True),
        ("cu/include/cuda_fp16.h", True),
        ("cu/include/cccl/cuda/std/atomic", True),
        ("nvdisasm", True),
        ("mine/mine.h", True),
        ("given.h", True),
        ("g++", True),
    ],
)
def test_a_file_that_is_another_is_seen(
    name: str, compiles: bool, compiled: list[str], installation: Installation
) -> None:
    artifacts_of(installation.program(), installation.toolchain())
    installation.forget()
    assert kept_facts(installation.program(), installation.toolchain()) is not None
    installation.edit(name, "#error changed")
    assert kept_facts(installation.program(), installation.toolchain()) is None
    artifacts_of(installation.program(), installation.toolchain())
    assert len(compiled) == (2 if compiles else 1)


@pytest.mark.parametrize(
    "name", ["tilelang/__pycache__/a.pyc", "mine/notes.txt", "mine/.git/HEAD", "cu/lib/a.so"]
)
def test_a_file_that_decides_nothing_is_not(
    name: str, compiled: list[str], installation: Installation
) -> None:
    artifacts_of(installation.program(), installation.toolchain())
    installation.edit(name, "new")
    assert kept_facts(installation.program(), installation.toolchain()) is not None


def test_templates_of_another_place_are_seen(
    compiled: list[str], installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = importlib.import_module("tilelang.env")
    artifacts_of(installation.program(), installation.toolchain())
    installation.edit("elsewhere/tl_templates/common.h", "#error changed")
    monkeypatch.setattr(env, "TILELANG_TEMPLATE_PATH", str(installation.folder / "elsewhere"), raising=False)
    artifacts_of(installation.program(), installation.toolchain())
    assert len(compiled) == 2


def test_variables_of_tilelang_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of(program(), toolchain())
    monkeypatch.setenv("TILELANG_CACHE_DIR", "/somewhere")
    monkeypatch.setenv("TILELANG_PRINT_ON_COMPILATION", "0")
    assert key_of(program(), toolchain()) == before
    monkeypatch.setenv("TILELANG_LAYOUT_COST_MODEL", "another")
    assert key_of(program(), toolchain()) != before


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


@pytest.mark.parametrize("which", ["lowered", "code"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "no UTF-8", "edited", "gone"])
def test_a_damaged_entry_is_made_anew(compiled: list[str], damage: str, which: str) -> None:
    first = artifacts_of(program(), toolchain())
    path = entries()[which]
    text = path.read_text()
    if damage == "gone":
        path.unlink()
    elif damage == "no UTF-8":
        path.write_bytes(b"\xff" + text.encode())
    else:
        edited = text.replace('"threads": 128', '"threads": "x"').replace(
            '"registers": 40', '"registers": "x"'
        )
        assert edited != text
        path.write_text({"truncated": text[:-20], "empty": "", "edited": edited}[damage])
    again = artifacts_of(program(), toolchain())
    assert (again.facts, again.cubin, again.tir) == (first.facts, first.cubin, first.tir)
    made = len(compiled)
    assert made == (2 if which == "code" else 1)
    assert artifacts_of(program(), toolchain()).facts == first.facts
    assert len(compiled) == made


def test_an_entry_of_another_form_is_not_read(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    artifacts_of(program(), toolchain())
    monkeypatch.setattr(module, "_FORM", module._FORM + 1)
    artifacts_of(program(), toolchain())
    assert len(compiled) == 2


def unusable(how: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the cache's folder one that nothing can be written to, also for root, whom no mode stops."""
    if how == "a file":
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
        (folder / "file").touch()
    elif how == "no folder can be made":
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/1/nowhere")
    else:

        def refuses(*_: Any, **__: Any) -> Any:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        for name in ("mkdir", "touch", "unlink"):
            monkeypatch.setattr(Path, name, refuses)
        for name in ("utime", "mkdir"):
            monkeypatch.setattr(os, name, refuses)
        monkeypatch.setattr(kept, "replace", refuses)
        monkeypatch.setattr(kept.FileLock, "acquire", refuses)
        monkeypatch.setattr(kept.tempfile, "TemporaryFile", refuses)


@pytest.mark.parametrize("how", ["a file", "no folder can be made", "read-only"])
def test_without_a_usable_folder_it_compiles_each_time(
    how: str, compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Kept(cache_folder()).trouble() == ""
    unusable(how, tmp_path, monkeypatch)
    trouble = Kept(cache_folder()).trouble()
    assert trouble.startswith(f"{cache_folder()} cannot be written: ") and "\n" not in trouble
    assert kept_facts(program(), toolchain()) is None
    for count in (1, 2):
        assert facts_of(program(), toolchain()).registers == 40
        assert len(compiled) == count


def test_a_read_only_folder_gives_what_it_has(
    compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = facts_of(program(), toolchain())
    unusable("read-only", tmp_path, monkeypatch)
    assert facts_of(program(), toolchain()) == made
    assert kept_facts(program(), toolchain()) == made
    assert len(compiled) == 1


def test_a_file_system_without_locks_is_used_all_the_same(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: Any) -> Any:
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr(kept.FileLock, "acquire", refuses)
    assert facts_of(program(), toolchain()) == facts_of(program(), toolchain())
    assert len(compiled) == 1


def test_a_failure_leaves_no_entry(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise CodegenError("nvcc failed")

    monkeypatch.setattr(compiling, "compile_cubin", fails)
    with pytest.raises(CodegenError, match="nvcc failed"):
        artifacts_of(program(), toolchain())
    assert entries() == {}


def test_what_nobody_asks_for_goes(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    artifacts_of(program(), toolchain())
    (cache_folder() / "an-old-form").mkdir()
    before = list(entries().values())
    (cache_folder() / ".cleaned").unlink()
    now = kept.time.time()
    monkeypatch.setattr(kept.time, "time", lambda: now + 31 * 24 * 3600)
    artifacts_of(program("sm_80"), toolchain())
    assert not any(path.exists() for path in [*before, cache_folder() / "an-old-form"])


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
