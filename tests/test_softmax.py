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

SCHEDULES = {
    "one-pass": Schedule(2, 512, 128),
    "two-passes": Schedule(4, 64, 128),
    "shared": Schedule(2, 128, 128, 64),
    "staged": Schedule(4, 64, 128, staged=True),
    "cluster": Schedule(1, 512, 512, cluster=2),
}
"""For rows of 427 columns: all in registers; in 7 chunks, read again; in 4, each row shared by 7 blocks; in 7
that wait; by two blocks, though one would do."""


def case_of(name: str) -> Case:
    return Case(f"any-{dtype(name).short}", {"M": 21, "N": 427}, name, why="tails in both directions")


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
class TestProperties:
    @pytest.fixture(autouse=True)
    def clusters(self, schedule: Schedule, tilecheck_device: Device) -> None:
        if schedule.cluster > 1 and tilecheck_device.arch.capability < (9, 0):
            pytest.skip(f"clusters are for Hopper and later, not for {tilecheck_device.arch.name}")

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

    def test_order_of_columns_is_that_of_the_weights_but_for_roundings(
        self, name: str, schedule: Schedule, tilecheck_device: Device
    ) -> None:
        case = case_of(name)
        X = torch.randn(case.dims["M"], case.dims["N"], generator=torch.Generator().manual_seed(0))
        X = X.to(getattr(torch, name))
        Y = run(SPEC, case, tilecheck_device, {"X": X}, schedule=schedule)["Y"]
        # Weights of equal values may be 2^-19 apart, measured by maxima of different threads or divided by
        # sums of different blocks; and then one rounded up, one down.
        ordered, kind = Y.gather(1, X.argsort(dim=1)).double(), dtype(name)
        lost = (2 * kind.unit + 2.0**-19) * ordered[:, :-1] + kind.unit * kind.smallest_normal
        assert (ordered.diff(dim=1) >= -lost).all()


@pytest.mark.parametrize("name", ["one-pass", "two-passes"])
def test_the_largest_values_of_a_row_weigh_the_same(name: str, tilecheck_device: Device) -> None:
    case = case_of("float32")
    X = torch.randint(0, 4, (case.dims["M"], case.dims["N"]), generator=torch.Generator().manual_seed(0))
    Y = run(SPEC, case, tilecheck_device, {"X": X.float()}, schedule=SCHEDULES[name])["Y"]
    # Whoever holds one of them measures by the maximum of the row.
    for x, y in zip(X, Y, strict=True):
        assert len(y[x == 3].unique()) == 1


def test_rows_that_share_a_block_do_not_meet(tilecheck_device: Device) -> None:
    case = case_of("float16")
    together = run(SPEC, case, tilecheck_device, schedule=Schedule(16, 512, 512))["Y"]
    alone = run(SPEC, case, tilecheck_device, schedule=Schedule(1, 512, 32))["Y"]
    assert torch.equal(together, alone)


@pytest.mark.parametrize(
    ("schedule", "name", "reason"),
    [
        (Schedule(2, 512, 128), "float64", "dtype float64 is none of float32"),
        (Schedule(1, 384, 96), "float16", "threads=96 must be a power of two"),  # tilelang #2542
        (Schedule(1, 2048, 2048), "float16", "threads=2048 must be a power of two from 32 to 1024"),
        (Schedule(1, 32, 16), "float16", "threads=16 must be a power of two from 32 to 1024"),
        (Schedule(3, 128, 64), "float16", "rows=3 must be a power of two, up to threads=64"),
        (Schedule(0, 128, 64), "float16", "rows=0 must be a power of two"),
        (Schedule(128, 16, 64), "float16", "rows=128 must be a power of two, up to threads=64"),
        (Schedule(1, 96, 64), "float16", "chunk=96 must be a multiple of 64, what threads=64 load at once"),
        (Schedule(1, 0, 64), "float16", "chunk=0 must be a multiple of 64"),
        (Schedule(64, 256, 128), "float16", "rows=64 x chunk=256 is 128 values"),
        (Schedule(1, 65536, 1024), "float16", "64 values for each of 1024, over 32"),
        (Schedule(2, 128, 128, 96), "float16", "share=96 must be 0, or with chunk=128 under 427 up to that"),
        (Schedule(2, 128, 128, 256), "float16", "share=256 must be 0, or with chunk=128 under 427"),
        (Schedule(2, 128, 128, -64), "float16", "share=-64 must be 0, or with chunk=128 under 427"),
        (Schedule(2, 512, 128, 64), "float16", "share=64 must be 0, or with chunk=512 under 427"),
        (
            Schedule(2, 512, 128, 0, True),
            "float16",
            "staged=True is for blocks that write all of rows",
        ),
        (Schedule(2, 128, 128, 64, True), "float16", "staged=True is for blocks that write all of rows"),
        (Schedule(8, 192, 32, 0, True), "float16", "rows=8 x chunk=192 is 48 values for each of 32, over 32"),
        (Schedule(1, 512, 512, cluster=0), "float16", "cluster=0 must be a power of two up to 16 on sm_90a"),
        (
            Schedule(1, 512, 512, cluster=17),
            "float16",
            "cluster=17 must be a power of two up to 16",
        ),
        (Schedule(1, 512, 512, cluster=3), "float16", "cluster=3 must be a power of two up to 16 on sm_90a"),
        (Schedule(2, 512, 512, cluster=2), "float16", "cluster=2 holds one row of 427 in chunks: rows=2"),
        (Schedule(1, 512, 256, cluster=2), "float16", "cluster=2 takes 512 or 1024 threads, not 256"),
    ],
)
def test_what_would_not_compile_or_compute_wrong_is_refused(
    schedule: Schedule, name: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        SPEC.check_schedule(schedule, case_of(name), arch("sm_90a"))


@pytest.mark.parametrize(
    ("schedule", "N", "name", "reason"),
    [
        (Schedule(1, 512, 512, cluster=2), 427, "sm_80", "cluster=2 must be a power of two up to 1 on sm_80"),
        (
            Schedule(1, 512, 512, cluster=16),
            427,
            "sm_120a",
            "cluster=16 must be a power of two up to 8",
        ),
        (Schedule(1, 4096, 512, cluster=8), 2**16, "sm_90a", "cluster=8 holds one row of 65536 in"),
        (Schedule(1, 16384, 512, 0, True), 81920, "sm_120a", "takes 131200 bytes, over 101376"),
        (Schedule(1, 16384, 512, 0, True), 2**18, "sm_90a", "takes 491648 bytes, over 232448"),
    ],
)
def test_what_an_architecture_does_not_hold_is_refused(
    schedule: Schedule, N: int, name: str, reason: str
) -> None:
    case = Case("any-fp16", {"M": 21, "N": N}, "float16", why="long rows")
    with pytest.raises(ValueError, match=re.escape(reason)):
        SPEC.check_schedule(schedule, case, arch(name))
