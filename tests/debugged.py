"""Kernels of this repository with TileLang's debugging tools in them, as when looking for a fault."""

import importlib
import importlib.util
import linecache
import sys
from pathlib import Path
from typing import Any

from tilecheck.spec import Case, KernelSpec

KERNELS = Path(__file__).parents[1] / "kernels"


def edited(kernel: str, old: str, new: str) -> Any:
    """The program of a kernel with the line `old`, which occurs once in its file, replaced by `new`."""
    path = KERNELS / f"{kernel}.py"
    lines = path.read_text().splitlines(keepends=True)
    (at,) = [i for i, line in enumerate(lines) if line.strip() == old]
    indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
    lines[at : at + 1] = [f"{indent}{line}\n" for line in new.splitlines()]
    # TileLang reads the source of what it traces; there is no file with this one.
    file = str(path.with_name(f"{kernel}_debugged.py"))
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    located = importlib.util.spec_from_loader(f"{kernel}_debugged", None, origin=file)
    assert located is not None
    module = importlib.util.module_from_spec(located)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile("".join(lines), file, "exec"), module.__dict__)
    return module.SPEC.program


def changed(kernel: str, name: str, cases: tuple[Case, ...], old: str, new: str) -> KernelSpec:
    """A spec with a kernel's edited program, and no more of the kernel's than checking it needs."""
    spec: KernelSpec = importlib.import_module(f"kernels.{kernel}").SPEC
    return KernelSpec(
        name,
        edited(kernel, old, new),
        spec.reference,
        cases,
        default_schedule=spec.default_schedule,
        outputs=spec.outputs,
        pass_configs=spec.pass_configs,
    )


PRINTED = Case(
    "printed-fp32", {"N": 700}, "float32", why="two blocks, the second with a tail", draw="integers"
)
PRINTING = changed(
    "vector_add",
    "printing",
    (PRINTED,),
    "T.copy(A_local, C[bx * block])",
    'T.print(A_local, msg="sums")\nT.copy(A_local, C[bx * block])',
)

REASON = "the weights of a row have no sum"
SOUND = Case("sound-fp32", {"M": 5, "N": 40}, "float32", why="the assertion holds")
BROKEN = Case("broken-fp32", {"M": 5, "N": 40}, "float32", why="NaN is not above 0", draw="nan")
ASSERTING = changed(
    "softmax",
    "asserting",
    (SOUND, BROKEN),
    "row_top, row_total = warp_top, warp_total",
    "row_top, row_total = warp_top, warp_total\n"
    "for i in T.Parallel(rows * warps):\n"
    f'    T.device_assert(row_total[i] > 0, "{REASON}")',
)

SPECS = (PRINTING, ASSERTING)
