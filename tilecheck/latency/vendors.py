"""Whether the vendors of a spec compute what its kernel computes: else a ratio to them says nothing."""

from typing import TYPE_CHECKING, Any

import torch

from tilecheck.conformance import references_of
from tilecheck.latency.contenders import tensor_sets, vendors
from tilecheck.program import build_program
from tilecheck.spec import Case, KernelSpec

if TYPE_CHECKING:
    from tilecheck.device import Device

MOST = 0.02
"""Largest norm-relative error: a vendor rounds and accumulates as it likes, and a wrong mask or a transposed
operand is off by the size of the output.
"""


class VendorMismatch(AssertionError):
    """A vendor computes something else, or nothing; the text is one line for each."""


def check_vendors(spec: KernelSpec, case: Case, device: "Device", *, seed: int) -> dict[str, float]:
    """The norm-relative error of each vendor's output for `case`, by name, where the reference is finite.

    Raises VendorMismatch where one fails, has another shape, or is off by more than `MOST`.
    """
    program = build_program(spec, case, device.arch)
    (tensors,) = tensor_sets(program, seed, device.torch_device, l2=0)
    inputs = {name: t for name, t in tensors.items() if program[name].role != "output"}
    reference = next(iter(references_of(program, inputs).values()))
    right = reference.value.isfinite()
    if reference.open is not None:
        right &= ~reference.open
    errors, faults = {}, []
    for name, (launch,) in vendors(program, [tensors]).items():
        try:
            errors[name] = _error(launch(), reference.value, right)
        except Exception as error:
            faults.append(
                f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            )
    faults += [
        f"{name}: off by {error:.3g} of the norm" for name, error in errors.items() if not error <= MOST
    ]
    if faults:
        raise VendorMismatch("\n".join(f"{spec.test_id(case)}: vendor {fault}" for fault in faults))
    return errors


def _error(out: Any, value: torch.Tensor, right: torch.Tensor) -> float:
    if out.shape != value.shape:
        raise ValueError(f"its output is {list(out.shape)}, and not {list(value.shape)}")
    difference = (out.double() - value)[right]
    return float(difference.norm() / value[right].norm().clamp_min(torch.finfo(torch.float64).tiny))
