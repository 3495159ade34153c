"""What does equality with the reference not say of matmul_bias_gelu? What is exact, and what changes no bit.

What it refuses is said in `test_matmul`, whose rules these are.
"""

from dataclasses import replace

import pytest
import torch

from kernels import matmul
from kernels.matmul_bias_gelu import SPEC
from tilecheck.conformance import run
from tilecheck.device import Device

pytestmark = pytest.mark.correctness


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("id", ["aligned-tails-fp16", "trips-9-tanh-bf16", "all-over-tanh-fp32"])
def test_stages_change_no_bit(id: str, stages: int, tilecheck_device: Device) -> None:
    case = SPEC.case(id)
    schedule = replace(SPEC.schedule_for(case, tilecheck_device.arch), stages=0)
    plain = run(SPEC, case, tilecheck_device, schedule=schedule)["C"]
    piped = run(SPEC, case, tilecheck_device, schedule=replace(schedule, stages=stages))["C"]
    assert torch.equal(piped, plain)


@pytest.mark.parametrize("id", ["all-over-fp16", "all-over-tanh-bf16"])
def test_far_above_zero_it_is_the_product_and_far_below_it_is_zero(id: str, tilecheck_device: Device) -> None:
    case = SPEC.case(id)
    M, N, K = (case.dims[name] for name in "MNK")
    dtype, rng = getattr(torch, case.dtype), torch.Generator().manual_seed(0)
    A, B = (torch.randint(0, 2, size, generator=rng).to(dtype) for size in ((M, K), (K, N)))
    product = run(SPEC, case, tilecheck_device, {"A": A, "B": B, "bias": torch.full((N,), 32, dtype=dtype)})[
        "C"
    ]
    assert torch.equal(product.long(), A.long() @ B.long() + 32)  # at most 97, so exact in bf16
    none = run(SPEC, case, tilecheck_device, {"A": A, "B": B, "bias": torch.full((N,), -128, dtype=dtype)})[
        "C"
    ]
    assert not none.any()


def test_its_rules_are_those_of_matmul() -> None:
    assert SPEC.legal is matmul.legal
