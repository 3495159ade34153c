"""Draws a kernel's inputs from a seed that depends on the test's id and on nothing else.

Draws that every kernel has (`Case.draw`; a kernel's own are `KernelSpec.draws`):

normal      floats: standard normal, rounded to the dtype; integers: uniform in -8..8 (0..16 unsigned); fair
            booleans
integers    floats that hold small integers: sums over the reduced axis pass 2^11, where fp16 accumulation
            rounds, and stay under 2^24, up to which fp32 accumulation is exact; so an element lost or taken
            twice shows
one-hot     the first input has one 16 in each row (last axis), else 0, at the last place in row 0, then the
            first, the second, ...: a product picks rows of the other operand, a softmax is all at that place
cancelling  the first input's signs change halfway along both of its last axes, magnitudes in [1, 2), the
            others are positive, in [1, 2): partial sums grow to half their length, then cancel
hostile     infinities, NaN, denormals and so on: see `tilecheck.hostile`
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from tilecheck.dtypes import DTYPES
from tilecheck.hostile import hostile
from tilecheck.spec import HOSTILE_DRAWS, SpecError, call_by_name

if TYPE_CHECKING:
    from tilecheck.program import Parameter, Program

DRAWN_ON_CPU = 1 << 24
"""Elements up to which a tensor is drawn on the CPU, so that each device gets the same; drawing 2^28 there
takes seconds, so larger ones are drawn where they are used, the same each time on that kind of device."""

_HOT = 16.0  # a power of two: products with it are exact; exp(16) outweighs 10^6 other columns


def seed_of(test_id: str, run_seed: int = 0) -> int:
    """Seed (0 .. 2^63 - 1) of a test's draws: the same in every process, whatever ran before."""
    digest = hashlib.sha256(f"{run_seed}:{test_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype of this name; ValueError if it has none."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise SpecError(f"torch has no dtype {name!r}")
    return found


def draw_inputs(program: "Program", seed: int, device: torch.device | str = "cpu") -> dict[str, torch.Tensor]:
    """The tensors that `program` reads, by name, contiguous: inputs, and inout ones before the launch.

    Each has a seed of its own, so that a parameter more does not change the others.
    Raises ValueError where a draw of the spec returns what does not fit the program.
    """
    spec, case = program.spec, program.case
    read = [p for p in program.parameters if p.role in ("input", "inout")]
    draw = "normal" if case.draw in spec.draws else case.draw
    where = torch.device("cpu") if case.draw in spec.draws else torch.device(device)
    floating = [p.name for p in read if _floating(p)]
    first = floating[0] if floating else read[0].name if read else None
    length = _reduced_length(read)
    ordinary = "normal" if draw in HOSTILE_DRAWS else draw
    drawn = {p.name: _draw(p, ordinary, seed_of(p.name, seed), where, p.name == first, length) for p in read}
    if draw in HOSTILE_DRAWS:
        for name in floating:
            drawn[name] = hostile(draw, drawn[name], name == floating[0], name == floating[-1])
    if case.draw in spec.draws:
        drawn |= _replacements(program, drawn, seed)
    return {name: tensor.to(device) for name, tensor in drawn.items()}


def scalars(program: "Program") -> dict[str, Any]:
    """Values of the program's scalar parameters, by name: the case's dims and flags.

    Raises ValueError if one is not among them.
    """
    case = program.case
    known = {**case.dims, **case.flags}
    wanted = [p.name for p in program.parameters if p.role == "scalar"]
    if missing := [name for name in wanted if name not in known]:
        raise SpecError(
            f"kernel {program.spec.name!r}: case {case.id!r} gives no dim or flag for the scalar parameter "
            f"{', '.join(missing)}; it has {', '.join(known)}"
        )
    return {name: known[name] for name in wanted}


def _replacements(
    program: "Program", drawn: Mapping[str, torch.Tensor], seed: int
) -> dict[str, torch.Tensor]:
    spec, case = program.spec, program.case
    rng = torch.Generator().manual_seed(seed_of(case.draw, seed))
    names = {**program.names, **drawn, "rng": rng}
    replaced = {}
    for name, tensor in call_by_name(spec.draws[case.draw], names).items():
        what = f"kernel {spec.name!r}: draw {case.draw!r} of case {case.id!r}"
        if name not in drawn:
            raise SpecError(f"{what} returns {name!r}, which is no input; inputs: {', '.join(drawn)}")
        if tensor.shape != drawn[name].shape:
            raise SpecError(f"{what} gives {name} shape {list(tensor.shape)}, not {list(drawn[name].shape)}")
        replaced[name] = tensor.to(drawn[name].dtype).contiguous()
    return replaced


def _floating(parameter: "Parameter") -> bool:
    return torch_dtype(parameter.dtype).is_floating_point


def _shape(parameter: "Parameter") -> tuple[int, ...]:
    assert parameter.shape is not None, f"{parameter.name} is a scalar"
    return parameter.shape


def _reduced_length(read: list["Parameter"]) -> int:
    """Likely length of the sums: the longest extent that two inputs share, else the longest last axis."""
    shapes = [_shape(p) for p in read]
    shared = [n for i, shape in enumerate(shapes) for other in shapes[:i] for n in shape if n in other]
    return max(shared or [shape[-1] for shape in shapes if shape] or [1])


def _draw(
    parameter: "Parameter", draw: str, seed: int, device: torch.device, first: bool, length: int
) -> torch.Tensor:
    shape, dtype = _shape(parameter), torch_dtype(parameter.dtype)
    elements = torch.Size(shape).numel()
    if elements <= DRAWN_ON_CPU:
        device = torch.device("cpu")
    rng = torch.Generator(device).manual_seed(seed)
    if draw == "one-hot" and first and shape:
        return _one_hot(shape, dtype, device)
    if draw == "cancelling" and dtype != torch.bool and (dtype.is_floating_point or dtype.is_signed):
        return _signed_halves(shape, dtype, rng, first)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=rng, device=device, dtype=torch.uint8).bool()
    if not dtype.is_floating_point:
        low, high = (-8, 9) if dtype.is_signed else (0, 17)
        return torch.randint(low, high, shape, generator=rng, device=device).to(dtype)
    if draw == "integers":
        return _integers(shape, dtype, rng, length)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return torch.randn(shape, generator=rng, device=device, dtype=wide).to(dtype)


def _integers(shape: tuple[int, ...], dtype: torch.dtype, rng: torch.Generator, length: int) -> torch.Tensor:
    # A sum of n products of integers uniform in -r..r has deviation sqrt(n)*r^2/3. With r = 111/n^(1/4) that
    # is 2^12 for every n, and the sum of all magnitudes, sqrt(n)*111^2, stays under 2^24 up to n = 10^6.
    exact = int(1 / DTYPES[str(dtype).removeprefix("torch.")].unit)
    r = max(1, min(exact, round(111 / max(length, 1) ** 0.25)))
    return torch.randint(-r, r + 1, shape, generator=rng, device=rng.device, dtype=torch.int32).to(dtype)


def _one_hot(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    tensor = torch.zeros(shape, dtype=torch.float32, device=device)
    if tensor.numel():
        rows = tensor.view(-1, shape[-1])
        at = (torch.arange(len(rows), device=device) - 1) % shape[-1]
        rows[torch.arange(len(rows), device=device), at] = _HOT if dtype.is_floating_point else 1.0
    return tensor.to(dtype)


def _signed_halves(
    shape: tuple[int, ...], dtype: torch.dtype, rng: torch.Generator, first: bool
) -> torch.Tensor:
    device = rng.device
    if dtype.is_floating_point:
        tensor = 1 + torch.rand(shape, generator=rng, device=device, dtype=torch.float32)
    else:
        tensor = torch.randint(1, 9, shape, generator=rng, device=device).float()
    if first:
        for axis in range(max(0, len(shape) - 2), len(shape)):
            tensor.narrow(axis, shape[axis] // 2, shape[axis] - shape[axis] // 2).neg_()
    # 1 + rand may round up to 2, which is as good.
    return tensor.to(dtype)
