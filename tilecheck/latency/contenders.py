"""What is timed: a kernel, and what a user would call instead, ready to be launched on the same inputs."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from tilecheck.inputs import draw_inputs, scalars, seed_of, torch_dtype
from tilecheck.latency.timing import GRAPH_LAUNCHES, Launch

if TYPE_CHECKING:
    from tilecheck.program import Program

_CACHES = 3  # in a graph, a launch's tensors come again after this many times the L2

Tensors = Mapping[str, torch.Tensor]


def tensor_sets(
    program: "Program", seed: int, device: torch.device, l2: int
) -> list[dict[str, torch.Tensor]]:
    """Inputs and outputs of `program` on `device`, by name, as often as short launches have to rotate over
    them to find none in `l2` bytes of L2: once for a case that is larger. All sets have the same values.
    """
    drawn = draw_inputs(program, seed_of(program.spec.test_id(program.case), seed), device)
    first = {name: tensor.to(device) for name, tensor in drawn.items()} | _outputs(program, drawn, device)
    size = sum(tensor.numel() * tensor.element_size() for tensor in first.values())
    count = min(GRAPH_LAUNCHES, math.ceil(_CACHES * l2 / max(size, 1)))
    return [first, *({n: t.clone() for n, t in first.items()} for _ in range(count - 1))]


def _outputs(program: "Program", drawn: Tensors, device: torch.device) -> dict[str, torch.Tensor]:
    made = {}
    for p in program.outputs:
        if p.name not in drawn:
            assert p.shape is not None
            made[p.name] = torch.zeros(p.shape, dtype=torch_dtype(p.dtype), device=device)
    return made


def ours(program: "Program", kernel: Callable[..., Any], sets: list[dict[str, torch.Tensor]]) -> list[Launch]:
    """Launches of the compiled `kernel`, one for each set of tensors."""
    given = scalars(program)
    return [
        functools.partial(kernel, *({**given, **tensors}[p.name] for p in program.parameters))
        for tensors in sets
    ]


def vendors(program: "Program", sets: list[dict[str, torch.Tensor]]) -> dict[str, list[Launch]]:
    """Calls of each vendor of the spec, by its name, one for each set of tensors.

    Each is called once; one that raises NotImplementedError does not have what the case wants, and is left
    out. Any other error is raised again by whoever calls it.
    """
    written = {p.name for p in program.outputs if p.role == "output"}
    called: dict[str, list[Launch]] = {}
    for name, vendor in program.spec.vendor.items():
        wanted = inspect.signature(vendor).parameters
        calls: list[Launch] = [
            functools.partial(vendor, **_given(program, tensors, wanted, written)) for tensors in sets
        ]
        if _has_it(calls[0]):
            called[name] = calls
    return called


def _has_it(call: Launch) -> bool:
    try:
        call()
    except Exception as error:
        return not isinstance(error, NotImplementedError)
    return True


def _given(
    program: "Program", tensors: Tensors, wanted: Mapping[str, Any], written: set[str]
) -> dict[str, Any]:
    inputs = {name: tensor for name, tensor in tensors.items() if name not in written}
    known = {**program.names, **inputs}
    return {name: known[name] for name in wanted if name in known}
