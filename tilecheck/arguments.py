"""Arguments against parameters: everything a launch takes for granted, checked before it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from tilecheck.dtypes import DTYPES

if TYPE_CHECKING:
    from tilecheck.program import Parameter

Argument = torch.Tensor | bool | int | float

# Vectorised loads and bulk copies move 16 bytes at once, and TileLang takes base pointers to allow it: a
# tensor that starts elsewhere is a misaligned address, which costs the whole CUDA context.
ALIGNMENT = 16


def check_arguments(
    parameters: Sequence["Parameter"], arguments: Mapping[str, Argument], device: torch.device
) -> list[Argument]:
    """The arguments in the order of the parameters, if each is what its parameter says.

    Raises TypeError for a missing, surplus or wrongly typed argument, ValueError for a wrong shape, stride,
    device or alignment; the message names the parameter, what came and what is wanted.
    """
    names = [p.name for p in parameters]
    if missing := [name for name in names if name not in arguments]:
        raise TypeError(f"no argument for {', '.join(missing)}; the parameters are {', '.join(names)}")
    if surplus := [name for name in arguments if name not in names]:
        raise TypeError(
            f"argument for {', '.join(surplus)}, which is no parameter; those are {', '.join(names)}"
        )
    for parameter in parameters:
        if parameter.shape is None:
            _check_scalar(parameter, arguments[parameter.name])
        else:
            _check_tensor(parameter, arguments[parameter.name], device)
    return [arguments[name] for name in names]


def _check_tensor(parameter: "Parameter", tensor: Argument, device: torch.device) -> None:
    where = f"parameter {parameter.name!r}"
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{where}: got {tensor!r} ({type(tensor).__name__}), want a {parameter.dtype} tensor")
    if str(tensor.dtype) != f"torch.{parameter.dtype}":
        raise TypeError(f"{where}: got dtype {_name(tensor.dtype)}, want {parameter.dtype}")
    if tuple(tensor.shape) != parameter.shape:
        raise ValueError(f"{where}: got shape {tuple(tensor.shape)}, want {parameter.shape}")
    if parameter.strides is not None and not _same_layout(tensor, parameter.strides):
        raise ValueError(f"{where}: got strides {tensor.stride()}, want {parameter.strides} (in elements)")
    if not _same_device(tensor.device, device):
        raise ValueError(f"{where}: got a tensor on {tensor.device}, want one on {device}")
    if past := tensor.data_ptr() % ALIGNMENT:
        raise ValueError(
            f"{where}: got an address {past} bytes past a multiple of {ALIGNMENT}, want a multiple"
        )


def _check_scalar(parameter: "Parameter", value: Argument) -> None:
    where = f"parameter {parameter.name!r}"
    known = DTYPES.get(parameter.dtype)
    wanted: tuple[type, ...] = (bool, int, float) if known is None or known.floating else (bool, int)
    if parameter.dtype == "bool":
        wanted = (bool,)
    if not isinstance(value, wanted):
        got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
        raise TypeError(f"{where}: got {got} ({type(value).__name__}), want a {parameter.dtype} scalar")
    if known is not None and not known.floating and parameter.dtype != "bool":
        lowest, highest = _integer_range(parameter.dtype, known.bits)
        if not lowest <= value <= highest:
            raise ValueError(f"{where}: got {value}, want a {parameter.dtype}: {lowest} to {highest}")


def _integer_range(name: str, bits: int) -> tuple[int, int]:
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _same_layout(tensor: torch.Tensor, strides: Sequence[int]) -> bool:
    # The stride of an axis of one element is never used, nor is any stride of a tensor without elements;
    # torch and DLPack put various numbers there.
    if tensor.numel() == 0:
        return True
    return all(
        size == 1 or got == want
        for size, got, want in zip(tensor.shape, tensor.stride(), strides, strict=True)
    )


def _same_device(got: torch.device, want: torch.device) -> bool:
    return got.type == want.type and (want.index is None or got.index in (None, want.index))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
