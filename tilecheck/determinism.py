"""Whether a kernel gives the same bits again: many times, on two streams at once, after other work."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from tilecheck import guards, regions
from tilecheck.inputs import draw_inputs, scalars, seed_of, torch_dtype
from tilecheck.program import Program, build_program
from tilecheck.regions import Region
from tilecheck.spec import Case, KernelSpec

if TYPE_CHECKING:
    from tilecheck.launch import Cuda

LAUNCHES = 50

Outputs = dict[str, torch.Tensor]


class Nondeterministic(AssertionError):
    """Two launches on the same inputs differ."""


def check_determinism(
    spec: KernelSpec,
    case: Case,
    device: "Cuda",
    *,
    seed: int,
    schedule: Any = None,
    pass_configs: Mapping[str, Any] | None = None,
    repeat: str = "",
) -> None:
    """Launches `case` many times on `device`; Nondeterministic where any two outputs differ by a bit.

    The arguments are those of `conformance.check`.
    """
    from tilecheck.launch import compile_program

    program = build_program(spec, case, device.arch, schedule, pass_configs)
    if program.writes_nothing:
        return
    kernel = compile_program(program, device.target)
    sets = [
        draw_inputs(program, seed_of(spec.test_id(case), seed + other), device.torch_device)
        for other in range(2)
    ]

    def launch(which: int) -> Outputs:
        tensors = _buffers(program, sets[which], device.torch_device)
        values = {**scalars(program), **tensors}
        kernel(*(values[p.name] for p in program.parameters))
        return {p.name: tensors[p.name] for p in program.outputs}

    make: Callable[..., Any] = torch.cuda.Stream  # which torch leaves without types
    streams = [torch.cuda.stream(make(device.torch_device)) for _ in range(2)]
    with torch.cuda.device(device.torch_device):
        found = differences(launch, streams, lambda: _dirty(device.torch_device), torch.cuda.synchronize)
    if found:
        head = f"{spec.name} is not deterministic for {case} on {device.describe()}"
        raise Nondeterministic("\n".join([head, *found, *([f"repeat: {repeat}"] if repeat else [])]))


def differences(
    launch: Callable[[int], Outputs],
    streams: Sequence[AbstractContextManager[Any]] = (nullcontext(), nullcontext()),
    dirty: Callable[[], None] = lambda: None,
    synchronize: Callable[[], None] = lambda: None,
) -> list[str]:
    """In what circumstances outputs differ, one line each; none if they never do.

    launch: starts the kernel on the current stream, on the first (0) or second (1) set of inputs, and returns
        its outputs, new tensors each time.
    dirty: leaves NaN in what memory, shared memory and registers the next kernel gets.
    """
    want = [launch(0), launch(1)]
    synchronize()
    found = []

    def compare(circumstance: str, got: Sequence[tuple[int, Outputs]]) -> None:
        synchronize()
        for n, (which, outputs) in enumerate(got):
            for name, tensor in outputs.items():
                if where := _differing(tensor, want[which][name]):
                    found.append(
                        f"{circumstance}, launch {n + 1} of {len(got)}: {name} differs in "
                        f"{regions.elements(where.count)}, {where}"
                    )
                    return

    compare("again", [(0, launch(0)) for _ in range(LAUNCHES)])
    at_once = []
    synchronize()
    for n in range(LAUNCHES):
        for stream in streams:
            with stream:
                at_once.append((n % 2, launch(n % 2)))
    compare("on two streams at once", at_once)
    compare("in another order", [(which, launch(which)) for which in (1, 1, 0, 1, 0, 0)])
    after = []
    for which in (0, 1, 0):
        dirty()
        after.append((which, launch(which)))
    compare("after another kernel has left NaN everywhere", after)
    return found


def _differing(got: torch.Tensor, want: torch.Tensor) -> Region | None:
    where = Region(tuple(got.shape))
    for part in regions.chunks(got.shape):
        mask = guards.bits(got[part]) != guards.bits(want[part])
        where = where.plus(mask, regions.starts(part, mask.ndim))
    return where if where.count else None


def _buffers(program: Program, drawn: Mapping[str, torch.Tensor], device: torch.device) -> Outputs:
    tensors = {}
    for p in program.parameters:
        if p.shape is None:
            continue
        if p.role == "input":
            tensors[p.name] = drawn[p.name]
        elif p.name in drawn:
            tensors[p.name] = drawn[p.name].clone()
        else:
            tensor = torch.empty(p.shape, dtype=torch_dtype(p.dtype), device=device)
            if p.name in program.spec.zeroed:
                tensor.zero_()
            tensors[p.name] = tensor
    return tensors


def _dirty(device: torch.device) -> None:
    """A product of NaN, which goes through shared memory and registers of every multiprocessor, and memory
    that holds NaN and is given back."""
    nan = torch.full((4096, 4096), torch.nan, dtype=torch.float16, device=device)
    (nan @ nan).add_(1)
    torch.full((1 << 26,), torch.nan, device=device)
