"""What does equality with the reference not say of matmul? What is exact, and what is refused."""

import re
from dataclasses import replace

import pytest
import torch

from kernels.matmul import SPEC, Schedule
from tilecheck.arches import arch
from tilecheck.conformance import run
from tilecheck.device import Device
from tilecheck.schedules import Grid
from tilecheck.spec import Case

FLAGS = {"trans_a": False, "trans_b": False}
HALF = Case("half", {"M": 512, "N": 512, "K": 512}, "float16", FLAGS, "any")
TRANSPOSED = Case("half-nt", dict(HALF.dims), "float16", {**FLAGS, "trans_b": True}, "B transposed")
UNALIGNED = Case("odd", {"M": 510, "N": 510, "K": 510}, "float16", FLAGS, "no bulk copies")
TALL = Case("tall", {"M": 2**20 + 1, "N": 64, "K": 64}, "float16", FLAGS, "too many blocks")
NO_LOADERS = {"tl.disable_warp_specialized": True}
HALF_PAIRS = Case(
    "half-pairs", {"M": 512, "N": 500, "K": 512}, "float16", {**FLAGS, "trans_b": True}, "C odd"
)
EMPTY = Case("empty", {"M": 512, "N": 512, "K": 0}, "float16", FLAGS, "no product")
TF32 = Case("single", dict(HALF.dims), "float32", FLAGS, "tf32")
TF32_TRANSPOSED = Case("single-nt", dict(HALF.dims), "float32", {**FLAGS, "trans_b": True}, "B transposed")


@pytest.mark.correctness
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("id", ["trips-9-fp16", "tt-aligned-bf16", "aligned-tails-fp32"])
def test_stages_change_no_bit(id: str, stages: int, tilecheck_device: Device) -> None:
    case = SPEC.case(id)
    schedule = replace(SPEC.schedule_for(case, tilecheck_device.arch), stages=0)
    plain = run(SPEC, case, tilecheck_device, schedule=schedule)["C"]
    piped = run(SPEC, case, tilecheck_device, schedule=replace(schedule, stages=stages))["C"]
    assert torch.equal(piped, plain)


def test_grid_has_trip_counts_around_the_depth_of_the_pipeline() -> None:
    hopper, tried = arch("sm_90a"), set()
    for case in map(SPEC.case, SPEC.grid_cases):
        for schedule in (variant.schedule for variant in Grid(SPEC, case, hopper).pairwise()):
            tried.add((schedule.stages, -(-case.dims["K"] // schedule.block_k)))
    wanted = {(s, trips) for s in (1, 2, 3, 4) for trips in (1, 2, 2 * s - 1, 2 * s + 1)}
    assert not wanted - tried


@pytest.mark.correctness
@pytest.mark.parametrize("swizzle", [1, 2, 10])
def test_order_of_blocks_changes_no_bit(swizzle: int, tilecheck_device: Device) -> None:
    case = SPEC.case("last-panel-fp16")
    schedule = replace(SPEC.schedule_for(case, tilecheck_device.arch), swizzle=0)
    plain = run(SPEC, case, tilecheck_device, schedule=schedule)["C"]
    swizzled = run(SPEC, case, tilecheck_device, schedule=replace(schedule, swizzle=swizzle))["C"]
    assert torch.equal(swizzled, plain)


@pytest.mark.correctness
@pytest.mark.parametrize(
    "id", ["grid-tails-fp16", "grid-whole-bf16", "aligned-tails-bf16", "nt-aligned-fp16"]
)
def test_staging_changes_no_bit(id: str, tilecheck_device: Device) -> None:
    if tilecheck_device.arch.capability != (9, 0):
        pytest.skip(f"C is staged after wgmma, which {tilecheck_device.arch.name} has not")
    case = SPEC.case(id)
    schedule = replace(SPEC.schedule_for(case, tilecheck_device.arch), staged=False)
    direct = run(SPEC, case, tilecheck_device, schedule=schedule)["C"]
    staged = run(SPEC, case, tilecheck_device, schedule=replace(schedule, staged=True))["C"]
    assert torch.equal(staged.view(torch.int16), direct.view(torch.int16))


@pytest.mark.correctness
@pytest.mark.parametrize("id", ["all-over-fp16", "nt-tails-fp16", "tn-tails-fp32", "tt-aligned-fp32"])
def test_integers_are_exact_and_products_add_up(id: str, tilecheck_device: Device) -> None:
    case = SPEC.case(id)
    M, N, K = (case.dims[name] for name in "MNK")
    dtype, rng = getattr(torch, case.dtype), torch.Generator().manual_seed(0)
    left, right, b = (torch.randint(-3, 4, size, generator=rng) for size in ((M, K), (M, K), (K, N)))

    def product(a: torch.Tensor) -> torch.Tensor:
        stored = {"A": a.T if case.flags["trans_a"] else a, "B": b.T if case.flags["trans_b"] else b}
        inputs = {name: tensor.to(dtype).contiguous() for name, tensor in stored.items()}
        return run(SPEC, case, tilecheck_device, inputs)["C"].long()  # sums stay under 2^11

    assert torch.equal(product(left), left @ b)
    assert torch.equal(product(left + right), product(left) + product(right))


@pytest.mark.correctness
@pytest.mark.parametrize("id", ["all-over-bf16", "aligned-tails-bf16", "primes-fp32"])
def test_powers_of_two_scale_every_bit(id: str, tilecheck_device: Device) -> None:
    case = SPEC.case(id)
    rng = torch.Generator().manual_seed(0)
    A = torch.randn(case.dims["M"], case.dims["K"], generator=rng).to(getattr(torch, case.dtype))
    once = run(SPEC, case, tilecheck_device, {"A": A})["C"]
    assert torch.equal(run(SPEC, case, tilecheck_device, {"A": -8 * A})["C"], -8 * once)


@pytest.mark.correctness
@pytest.mark.parametrize("id", ["all-over-fp16", "aligned-tails-bf16", "tn-tails-fp16"])
def test_identity_gives_the_other_operand(id: str, tilecheck_device: Device) -> None:
    case = SPEC.case(id)
    K, N = case.dims["K"], case.dims["N"]
    drawn = torch.randn(case.dims["M"], K, generator=torch.Generator().manual_seed(0))
    A = drawn.to(getattr(torch, case.dtype))
    inputs = {"A": (A.T if case.flags["trans_a"] else A).contiguous(), "B": torch.eye(K, N).to(A.dtype)}
    C = run(SPEC, case, tilecheck_device, inputs)["C"]
    width = min(K, N)
    assert torch.equal(C[:, :width], A[:, :width])
    assert not C[:, width:].any()


@pytest.mark.correctness
@pytest.mark.parametrize(
    ("schedule", "case", "name", "pass_configs", "reason"),
    [
        (Schedule(64, 64, 64, 0, 48), HALF, "sm_90a", {}, "multiple of 32"),
        (Schedule(64, 64, 64, 2, 0), HALF, "sm_80", {}, "positive multiple of 32"),
        (Schedule(64, 64, 64, -1, 128), HALF, "sm_90a", {}, "must not be negative"),
        (Schedule(64, 64, 64, 2, 128, -1), HALF, "sm_90a", {}, "must not be negative"),
        (Schedule(272, 8, 16, 0, 32), HALF, "sm_90a", {}, "block_m must be a multiple of 16 up to 256"),
        (Schedule(72, 64, 64, 0, 32), HALF, "sm_80", {}, "block_m must be a multiple of 16 up to 256"),
        (Schedule(16, 264, 16, 0, 32), HALF, "sm_90a", {}, "block_n must be a multiple of 8 up to 256"),
        (Schedule(16, 20, 16, 0, 32), HALF, "sm_80", {}, "block_n must be a multiple of 8 up to 256"),
        (Schedule(64, 64, 40, 2, 128), HALF, "sm_90a", {}, "block_k must be a positive multiple of 16"),
        (Schedule(64, 64, 0, 0, 128), HALF, "sm_80", {}, "block_k must be a positive multiple of 16"),
        (Schedule(16, 104, 64, 0, 384), HALF, "sm_90a", {}, "share the tile out evenly"),  # tilelang #2537
        (Schedule(64, 64, 64, 2, 160), HALF, "sm_80", {}, "share the tile out evenly"),
        (Schedule(256, 256, 16, 0, 256), HALF, "sm_90a", {}, "256 accumulators"),
        (Schedule(64, 24, 64, 2, 128), HALF, "sm_90a", {}, "24] columns"),
        (Schedule(128, 48, 64, 2, 256), HALF, "sm_90a", {}, "24, 48] columns"),
        (Schedule(64, 8, 64, 2, 128), HALF, "sm_90a", {}, "8] columns"),
        (Schedule(64, 40, 64, 2, 128), TRANSPOSED, "sm_90a", {}, "40] columns"),
        (Schedule(64, 64, 64, 2, 128), UNALIGNED, "sm_90a", {}, "rows of whole 16 bytes"),
        (Schedule(64, 64, 64, 2, 128), HALF, "sm_90a", NO_LOADERS, "only by bulk copy"),
        (Schedule(64, 64, 64, 2, 64), HALF, "sm_90a", {}, "multiple of 128"),
        (Schedule(64, 64, 64, 2, 64), HALF, "sm_120a", {}, "multiple of 128"),
        (Schedule(256, 128, 64, 1, 1024), HALF, "sm_100a", {}, "1152 threads exceed 1024"),
        (
            Schedule(192, 256, 32, 2, 384),
            HALF,
            "sm_90a",
            {},
            "wgmma needs 154 registers, 512 threads leave 128",
        ),
        (Schedule(256, 128, 128, 4, 256), HALF, "sm_90a", {}, "bytes of shared memory exceed 232448"),
        (Schedule(128, 128, 64, 4, 128), HALF, "sm_89", {}, "131072 bytes of shared memory exceed 101376"),
        (Schedule(16, 64, 64, 0, 128), TALL, "sm_90a", {}, "65535 rows of blocks"),
        (Schedule(64, 128, 64, 2, 128, blocks=-1), HALF, "sm_90a", {}, "must not be negative"),
        (Schedule(64, 128, 64, 1, 128, blocks=5), HALF, "sm_80", {}, "blocks that stay take wgmma"),
        (Schedule(64, 128, 64, 1, 128, blocks=5), HALF, "sm_100a", {}, "blocks that stay take wgmma"),
        (Schedule(64, 128, 64, 1, 128, blocks=5), UNALIGNED, "sm_90a", {}, "and bulk copies of A and B"),
        (Schedule(64, 128, 64, 1, 128, blocks=5), HALF, "sm_90a", NO_LOADERS, "and bulk copies of A and B"),
        (Schedule(32, 128, 64, 2, 128, blocks=5), HALF, "sm_90a", {}, "share the tile out evenly"),
        (Schedule(64, 128, 64, 2, 256, blocks=5), HALF, "sm_90a", {}, "share the tile out evenly"),
        (Schedule(64, 128, 64, 0, 128, blocks=5), HALF, "sm_90a", {}, "take a pipeline"),
        (Schedule(64, 128, 64, 2, 128, blocks=5), EMPTY, "sm_90a", {}, "begin each sum with a product"),
        (Schedule(192, 128, 64, 2, 384, blocks=5), HALF, "sm_90a", {}, "95232 registers exceed 65536"),
        (
            Schedule(64, 64, 64, 2, 128, blocks=5),
            HALF,
            "sm_90a",
            {},
            "half of block_n must be whole 128 bytes",
        ),
        (
            Schedule(64, 128, 64, 2, 128, blocks=5),
            HALF_PAIRS,
            "sm_90a",
            {},
            "stores C in rows of whole 16 bytes",
        ),
        (Schedule(64, 128, 64, 2, 128, blocks=5, staged=True), HALF, "sm_90a", {}, "always stage C"),
        (Schedule(64, 64, 64, 2, 64, staged=True), HALF, "sm_80", {}, "C is staged after wgmma"),
        (Schedule(64, 64, 64, 2, 128, staged=True), TF32, "sm_90a", {}, "C is staged after wgmma"),
        (Schedule(64, 64, 64, 1, 128, staged=True), UNALIGNED, "sm_90a", {}, "and bulk copies of A and B"),
        (Schedule(64, 256, 64, 2, 128, staged=True), HALF, "sm_90a", {}, "has to fit where tiles of A were"),
        (Schedule(64, 64, 64, 0, 128, staged=True), HALF, "sm_90a", {}, "has to fit where tiles of A were"),
        (Schedule(64, 64, 64, 2, 128, staged=True), HALF_PAIRS, "sm_90a", {}, "rows of whole 16 bytes"),
        (Schedule(64, 64, 32, 2, 128, blocks=5), TF32_TRANSPOSED, "sm_90a", {}, "of A and B as they are"),
        (Schedule(64, 64, 48, 2, 128, blocks=5), TF32, "sm_90a", {}, "block_k must be whole 128 bytes"),
        (Schedule(128, 32, 32, 2, 128, blocks=5), TF32, "sm_90a", {}, "share the tile out evenly"),
        (
            Schedule(128, 256, 64, 5, 256, blocks=5),
            HALF,
            "sm_90a",
            {},
            "279552 bytes of shared memory exceed 232448",
        ),
    ],
)
def test_what_would_not_compile_or_compute_wrong_is_refused(
    schedule: Schedule, case: Case, name: str, pass_configs: dict[str, bool], reason: str
) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(reason)}.*{re.escape(str(schedule))}"):
        SPEC.check_schedule(schedule, case, arch(name), pass_configs)


@pytest.mark.correctness
@pytest.mark.parametrize(
    ("schedule", "case", "name", "pass_configs"),
    [
        (Schedule(64, 8, 64, 2, 128), TRANSPOSED, "sm_90a", {}),
        (Schedule(64, 64, 64, 1, 128), HALF, "sm_90a", NO_LOADERS),
        (Schedule(64, 64, 64, 4, 64), HALF, "sm_90a", NO_LOADERS),
        (Schedule(48, 40, 48, 3, 96), HALF, "sm_100a", NO_LOADERS),
        (Schedule(192, 256, 32, 0, 384), HALF, "sm_90a", {}),
        (Schedule(128, 256, 64, 4, 256, blocks=132), HALF, "sm_90a", {}),
        (Schedule(256, 128, 64, 2, 256, blocks=132), TRANSPOSED, "sm_90a", {}),
        (Schedule(64, 128, 16, 1, 128, 0, blocks=10000), HALF, "sm_90a", {}),
        (Schedule(256, 128, 32, 4, 256, blocks=132), TF32, "sm_90a", {}),
        (Schedule(64, 64, 64, 1, 128, staged=True), TRANSPOSED, "sm_90a", {}),
        (Schedule(128, 256, 32, 8, 256, 0, staged=True), HALF, "sm_90a", {}),
        (Schedule(80, 64, 32, 1, 128, blocks=1), TF32, "sm_90a", {}),
    ],
)
def test_rules_do_not_reach_further_than_their_reason(
    schedule: Schedule, case: Case, name: str, pass_configs: dict[str, bool]
) -> None:
    SPEC.check_schedule(schedule, case, arch(name), pass_configs)
