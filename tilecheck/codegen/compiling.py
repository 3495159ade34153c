"""From CUDA source to a cubin, and what ptxas says of it."""

import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilecheck.codegen.lowering import CodegenError
from tilecheck.codegen.toolchain import Toolchain, variables
from tilecheck.gist import telling_line

SECONDS = 600
"""The longest that nvcc may take for one source."""

_FUNCTION = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_STATIC_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Usage:
    """What ptxas reports of a source's kernels, the largest of each: registers of a thread; bytes of stack
    and of spills a thread; named barriers; bytes of static shared memory a block.
    """

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    barriers: int
    static_shared: int


def compile_cubin(
    cuda: str, arch: str, pass_configs: Mapping[str, Any], toolchain: Toolchain
) -> tuple[bytes, Usage]:
    """The cubin of a CUDA source for `arch`, and its usage; raises CodegenError where nvcc refuses."""
    options = ["--cubin", "-Xptxas", "-v", *options_of(pass_configs)]
    cubin, told = _run_nvcc(cuda, arch, options, "cubin", toolchain)
    return cubin, parse_usage(told)


def compile_ptx(cuda: str, arch: str, pass_configs: Mapping[str, Any], toolchain: Toolchain) -> str:
    """The PTX of a CUDA source for `arch`; raises CodegenError where nvcc refuses."""
    return _run_nvcc(cuda, arch, ["--ptx", *options_of(pass_configs)], "ptx", toolchain)[0].decode()


def disassemble(cubin: bytes, toolchain: Toolchain) -> str:
    """The code of a cubin as nvdisasm prints it."""
    with tempfile.TemporaryDirectory(prefix="tilecheck-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        return _run([str(toolchain.nvdisasm), "-c", str(path)], "nvdisasm")


def options_of(pass_configs: Mapping[str, Any]) -> list[str]:
    """nvcc's options, those that TileLang 0.1.15 passes (tilelang/cuda/backend.py), but for -lineinfo: it
    writes the path of the source into the cubin and leaves the instructions as they are.
    """
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    options = ["-O3", "-std=c++20", f"-I{TILELANG_TEMPLATE_PATH}", f"-I{CUTLASS_INCLUDE_DIR}"]
    extra = pass_configs.get("tl.device_compile_flags") or ()
    for flag in [extra] if isinstance(extra, str) else extra:
        options += shlex.split(flag)
    if pass_configs.get("tl.enable_fast_math"):
        options.append("--use_fast_math")
    if (level := pass_configs.get("tl.ptxas_register_usage_level")) is not None:
        options.append(f"--ptxas-options=--register-usage-level={int(level)}")
    return options


def parse_usage(told: str) -> Usage:
    """Reads what `ptxas -v` prints; raises CodegenError where it names no kernel."""

    def largest(pattern: re.Pattern[str], group: int = 1) -> int:
        return max((int(found.group(group)) for found in pattern.finditer(told)), default=0)

    if not _FUNCTION.search(told) or not _USED.search(told):
        raise CodegenError(f"ptxas names no kernel: {telling_line(told)}")
    return Usage(
        registers=largest(_USED),
        stack=largest(_SPILLS),
        spill_stores=largest(_SPILLS, 2),
        spill_loads=largest(_SPILLS, 3),
        barriers=largest(_BARRIERS),
        static_shared=largest(_STATIC_SHARED),
    )


def _run_nvcc(
    cuda: str, arch: str, options: Sequence[str], result: str, toolchain: Toolchain
) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory(prefix="tilecheck-") as folder:
        source, made = Path(folder, "kernel.cu"), Path(folder, f"kernel.{result}")
        source.write_text(cuda)
        # Warnings are about TileLang's headers.
        command = [str(toolchain.nvcc), "-w", f"-arch={arch}", *options, "-o", str(made), str(source)]
        told = _run(command, "nvcc")
        return made.read_bytes(), told


def _run(command: Sequence[str], name: str) -> str:
    """Standard output and error of a program; CodegenError, with the line that tells, where it fails."""
    try:
        done = subprocess.run(
            command,
            env=variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CodegenError(f"{name} took more than {SECONDS} s") from error
    except OSError as error:
        raise CodegenError(f"{name} does not run: {error}") from error
    if done.returncode != 0:
        raise CodegenError(f"{name} failed (exit code {done.returncode}): {telling_line(done.stdout)}")
    return done.stdout
