"""From a program to CUDA source, by TileLang's own passes. It needs neither a GPU nor nvcc."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilecheck.activity import doing
from tilecheck.gist import gist

if TYPE_CHECKING:
    from tilecheck.program import Program

# They hold the absolute path of the kernel's file, and change nothing else.
_LINE_DIRECTIVE = re.compile(r"^#line .*\n", re.MULTILINE)


class CodegenError(RuntimeError):
    """A program that TileLang, nvcc or ptxas does not compile; the text is one line."""


@dataclass(frozen=True)
class Lowered:
    """What TileLang makes of a program.

    tir: the lowered functions as text.  cuda: the source nvcc gets, without line directives.
    kernels: names of the device functions.  threads, dynamic_shared: of a block, the largest of these;
    shared memory in bytes.
    """

    tir: str
    cuda: str
    kernels: tuple[str, ...]
    threads: int
    dynamic_shared: int

    def as_json(self) -> dict[str, Any]:
        """Only plain values; `Lowered(**...)` makes it whole again."""
        return dataclasses.asdict(self) | {"kernels": list(self.kernels)}


def lower(program: "Program") -> Lowered:
    """Lowers `program` for its architecture; raises CodegenError where TileLang refuses."""
    import tilelang

    name = program.spec.test_id(program.case)
    try:
        with doing(f"lowering {name} for {program.arch.name}"), _compiling_for(program) as target:
            artifact = tilelang.lower(program.taking_outputs, target=target)
    except Exception as error:
        raise CodegenError(
            f"{name}: TileLang does not lower it for {program.arch.name}: {gist(error)}"
        ) from error
    functions = {str(f.attrs["global_symbol"]): f for f in artifact.device_mod.functions.values()}
    return Lowered(
        tir=artifact.device_mod.script(),
        cuda=_LINE_DIRECTIVE.sub("", artifact.kernel_source),
        kernels=tuple(sorted(functions)),
        threads=max(_threads(f.attrs["thread_extent"]) for f in functions.values()),
        dynamic_shared=max(int(f.attrs.get("dyn_shared_memory_buf", 0)) for f in functions.values()),
    )


@contextmanager
def _compiling_for(program: "Program") -> Iterator[Any]:
    """The surroundings in which TileLang's compile lowers (tilelang/jit/kernel.py)."""
    from tilelang import tvm

    target = tvm.target.Target({"kind": "cuda", "arch": program.arch.name})
    with tvm.transform.PassContext(opt_level=3, config=dict(program.pass_configs)), target:
        yield target


def _threads(extents: Mapping[str, Any]) -> int:
    return int(extents["threadIdx.x"]) * int(extents["threadIdx.y"]) * int(extents["threadIdx.z"])
