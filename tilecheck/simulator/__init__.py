"""Runs a tile program on the CPU, before any lowering, and reports what it does to its memory.

    simulate(prim_func, [a, b, c])

interprets the PrimFunc that a GPU would get: blocks one after the other, those of a cluster in turns,
parallel loops as whole index grids, tile operators as tensor operations in the declared dtypes. Arguments are
CPU tensors (and numbers) in the order of the program's parameters; outputs are written in place.

run          from a program and its arguments to its findings
translator   the IR as Python closures, once: statements, expressions and access to elements, operators on
             tiles and reducers, intrinsics; element_loops and threads for what single threads do;
             launch_shape looks at the whole before
state        what changes meanwhile: values, memory and its shadows
findings     what is wrong: iterations of a loop that meet, clusters (whose blocks take turns), early_launch
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from tilecheck.simulator.findings import Finding, Location, SimulationError, Unsupported
from tilecheck.simulator.run import run

__all__ = ["NOT_MODELLED", "Finding", "Location", "SimulationError", "Unsupported", "simulate"]

NOT_MODELLED = (
    "asynchronous copies and barriers within a block, launches that overlap, layouts, warps, fast math, the "
    "order in which tensor cores add"
)
"""What a simulated pass says nothing about."""


def simulate(
    prim_func: Any,
    arguments: Sequence[Tensor | float],
    *,
    pass_configs: Mapping[str, Any] | None = None,
    tell: Callable[[str], Any] = print,
) -> None:
    """Runs `prim_func` on `arguments`, in place.

    tell: called with each line that the program prints (`T.print`).
    Raises SimulationError for what the program must not do (reads of memory nothing wrote, indices out of
    range, conflicting writes, output elements never written, failed assertions; in a cluster, accesses to the
    memory of another block that nothing orders; global memory touched before a launch that may start early
    has waited for the one before), each with its line;
    Unsupported, naming construct and line, for what the simulator does not know; ValueError if arguments do
    not fit the parameters.
    """
    run(prim_func, arguments, dict(pass_configs or {}), tell)
