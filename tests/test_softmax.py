"""What does equality with the reference not say of softmax? What changes no bit, and what it refuses."""

import re

import pytest
import torch

from kernels.softmax import SPEC, Schedule
from tilecheck.arches import arch
from tilecheck.conformance import run
from tilecheck.device import Device
from tilecheck.dtypes import dtype
from tilecheck.spec import Case

pytestmark = pytest.mark.correctness

ONE_PASS, ONLINE = Schedule(2, 512, 128), Schedule(4, 64, 128)
"""For rows of 427 columns: all in registers, and in 7 chunks."""


def case_of(name: str) -> Case:
    return Case(f"any-{dtype(name).short}", {"M": 21, "N": 427}, name, why="tails in both directions")


@pytest.mark.parametrize("schedule", [ONE_PASS, ONLINE], ids=["one-pass", "online"])
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
class TestProperties:
    def test_shift_of_a_row_changes_no_bit(
        self, name: str, schedule: Schedule, tilecheck_device: Device
    ) -> None:
        case, rng = case_of(name), torch.Generator().manual_seed(0)
        rows, columns = case.dims["M"], case.dims["N"]
        X = torch.randint(-20, 21, (rows, columns), generator=rng)
        shift = torch.randint(-200, 201, (rows, 1), generator=rng)  # sums stay under 2^8: exact in bf16
        Y, shifted = (
            run(SPEC, case, tilecheck_device, {"X": x.to(getattr(torch, name))}, schedule=schedule)["Y"]
            for x in (X, X + shift)
        )
        assert torch.equal(shifted, Y)

    def test_rows_sum_to_one(self, name: str, schedule: Schedule, tilecheck_device: Device) -> None:
        case, kind = case_of(name), dtype(name)
        sums = run(SPEC, case, tilecheck_device, schedule=schedule)["Y"].double().sum(dim=1)
        # Each weight is rounded in fp32 (as the reference's terms say, 2^-19) and to the type; below its
        # normal numbers that is to multiples of the smallest subnormal one.
        lost = kind.unit + 2.0**-19 + case.dims["N"] * kind.unit * kind.smallest_normal
        assert (sums - 1).abs().max() <= lost

    def test_order_of_columns_is_that_of_the_weights(
        self, name: str, schedule: Schedule, tilecheck_device: Device
    ) -> None:
        case = case_of(name)
        X = torch.randn(case.dims["M"], case.dims["N"], generator=torch.Generator().manual_seed(0))
        X = X.to(getattr(torch, name))
        Y = run(SPEC, case, tilecheck_device, {"X": X}, schedule=schedule)["Y"]
        ordered = Y.gather(1, X.argsort(dim=1)).float()
        assert (ordered.diff(dim=1) >= 0).all()


def test_rows_that_share_a_block_do_not_meet(tilecheck_device: Device) -> None:
    case = case_of("float16")
    together = run(SPEC, case, tilecheck_device, schedule=Schedule(16, 512, 512))["Y"]
    alone = run(SPEC, case, tilecheck_device, schedule=Schedule(1, 512, 32))["Y"]
    assert torch.equal(together, alone)


@pytest.mark.parametrize(
    ("schedule", "name", "reason"),
    [
        (ONE_PASS, "float64", "dtype float64 is none of float32"),
        (Schedule(1, 384, 96), "float16", "threads=96 must be a power of two"),  # tilelang #2542
        (Schedule(1, 2048, 2048), "float16", "threads=2048 must be a power of two from 32 to 1024"),
        (Schedule(1, 32, 16), "float16", "threads=16 must be a power of two from 32 to 1024"),
        (Schedule(3, 128, 64), "float16", "rows=3 must be a power of two"),
        (Schedule(0, 128, 64), "float16", "rows=0 must be a power of two"),
        (Schedule(64, 16, 64), "float16", "chunk=16 must be a power of two from 32 up"),
        (Schedule(2, 96, 64), "float16", "chunk=96 must be a power of two from 32 up"),
        (Schedule(1, 96, 64), "float16", "chunk=96 must be a power of two from 32 up"),
        (Schedule(1, 32, 64), "float16", "rows=1 x chunk=32 must be a multiple of threads=64"),
        (Schedule(64, 256, 128), "float16", "rows=64 x chunk=256 is 128 values"),
        (Schedule(1, 65536, 1024), "float16", "64 values for each of 1024, over 32"),
    ],
)
def test_what_would_not_compile_or_compute_wrong_is_refused(
    schedule: Schedule, name: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        SPEC.check_schedule(schedule, case_of(name), arch("sm_90a"))
