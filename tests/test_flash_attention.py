"""What does equality with the reference not say of flash_attention? What is exact, what changes no bit, and
what is refused.
"""

import re

import pytest
import torch

from kernels import flash_attention
from kernels.flash_attention import SPEC, Schedule
from tilecheck.arches import Arch, arch
from tilecheck.conformance import run
from tilecheck.device import Device
from tilecheck.dtypes import dtype
from tilecheck.inputs import torch_dtype
from tilecheck.spec import Case

pytestmark = pytest.mark.correctness

DIMS = {"batch": 1, "heads": 2, "kv_heads": 1, "q_len": 150, "k_len": 217, "head_dim": 64}
NO_LOADERS = {"tl.disable_warp_specialized": True}


def case_of(name: str = "float16", causal: bool = False, **dims: int) -> Case:
    return Case(
        f"any-{dtype(name).short}", {**DIMS, **dims}, name, {"causal": causal}, why="tails in Q and K"
    )


def pipelines(target: Arch, causal: bool) -> list[int]:
    """Numbers of stages beside 0 that are legal with tiles of 64 x 64."""
    return [1, 2, 3] if target.bulk_copy else [1] if causal else [1, 2]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
class TestProperties:
    def test_stages_change_no_bit(self, name: str, causal: bool, tilecheck_device: Device) -> None:
        case = case_of(name, causal)
        plain = run(SPEC, case, tilecheck_device, schedule=Schedule(64, 64, 0, 128))["Out"]
        for stages in pipelines(tilecheck_device.arch, causal):
            piped = run(SPEC, case, tilecheck_device, schedule=Schedule(64, 64, stages, 128))["Out"]
            assert torch.equal(piped, plain), f"{stages} stages"

    @pytest.mark.parametrize("least", [0, 500], ids=["near", "far"])
    def test_constant_values_come_out(
        self, least: int, name: str, causal: bool, tilecheck_device: Device
    ) -> None:
        """Also where scores are so far below zero, at -2e6, that their own bound says nothing. Farther down,
        at -1e30, not even the largest score is exp2(0): a GPU fuses one of the two products by the scale.
        """
        rng = torch.Generator().manual_seed(0)

        def at_least(heads: int, length: int) -> torch.Tensor:
            drawn = torch.randn(1, heads, length, DIMS["head_dim"], generator=rng)
            return (drawn.abs() + least).to(torch_dtype(name))

        Q, K = at_least(DIMS["heads"], DIMS["q_len"]), -at_least(DIMS["kv_heads"], DIMS["k_len"])
        V = torch.randn(1, DIMS["kv_heads"], 1, DIMS["head_dim"], generator=rng).to(torch_dtype(name))
        V = V.expand(-1, -1, DIMS["k_len"], -1).contiguous()
        case = case_of(name, causal)
        Out = run(SPEC, case, tilecheck_device, {"Q": Q, "K": K, "V": V})["Out"].double()
        # The weights are rounded before they are added up, and so is the result.
        bound = 2.1 * dtype(name).unit * V[:, :, :1].double().abs()
        assert ((Out - V[:, :, :1].double()).abs() <= bound).all()

    def test_equal_weights_give_constant_values_exactly(
        self, name: str, causal: bool, tilecheck_device: Device
    ) -> None:
        case, kind = case_of(name, causal), getattr(torch, name)
        Q = torch.zeros(1, DIMS["heads"], DIMS["q_len"], DIMS["head_dim"], dtype=kind)
        V = torch.randn(1, 1, 1, DIMS["head_dim"], generator=torch.Generator().manual_seed(0))
        V = V.expand(1, 1, DIMS["k_len"], -1).to(kind).contiguous()
        Out = run(SPEC, case, tilecheck_device, {"Q": Q, "V": V})["Out"]
        assert torch.equal(Out, V[:, :, :1].expand_as(Out))


@pytest.mark.parametrize("stages", [0, 1])
def test_causal_attention_of_a_prefix_is_the_prefix(stages: int, tilecheck_device: Device) -> None:
    rng, schedule = torch.Generator().manual_seed(0), Schedule(64, 64, stages, 128)
    whole = {n: torch.randn(1, h, 217, 64, generator=rng).half() for n, h in (("Q", 2), ("K", 1), ("V", 1))}
    long = run(SPEC, case_of(causal=True, q_len=217), tilecheck_device, whole, schedule=schedule)["Out"]
    for length in (1, 64, 100, 128, 200):
        case = case_of(causal=True, q_len=length, k_len=length)
        prefix = {name: tensor[:, :, :length].contiguous() for name, tensor in whole.items()}
        short = run(SPEC, case, tilecheck_device, prefix, schedule=schedule)["Out"]
        assert torch.equal(short, long[:, :, :length]), f"{length} of 217"


def test_heads_of_a_group_share_their_keys(tilecheck_device: Device) -> None:
    case = case_of(heads=4, kv_heads=2)
    rng = torch.Generator().manual_seed(0)
    Q = torch.randn(1, 2, 150, 64, generator=rng).half().repeat_interleave(2, dim=1)
    Out = run(SPEC, case, tilecheck_device, {"Q": Q})["Out"]
    assert torch.equal(Out[:, 0::2], Out[:, 1::2])
    assert not torch.equal(Out[:, 0], Out[:, 2])


@pytest.mark.parametrize(
    ("schedule", "case", "name", "pass_configs", "reason"),
    [
        (Schedule(64, 64, 2, 128), case_of("float32"), "sm_90a", {}, "dtype float32 is neither"),
        (Schedule(64, 64, 2, 128), case_of(heads=3, kv_heads=2), "sm_90a", {}, "heads=3 is no multiple"),
        (
            Schedule(64, 64, 2, 128),
            case_of(heads=65536),
            "sm_90a",
            {},
            "heads=65536 exceeds the 65535 blocks",
        ),
        (
            Schedule(64, 64, 2, 128),
            case_of(batch=65536),
            "sm_90a",
            {},
            "batch=65536 exceeds the 65535 blocks",
        ),
        (
            Schedule(64, 64, 2, 128),
            case_of(head_dim=24),
            "sm_90a",
            {},
            "head_dim=24 must be a multiple of 16",
        ),
        (Schedule(64, 16, 0, 128), case_of(head_dim=272), "sm_90a", {}, "head_dim=272 must be"),
        (Schedule(64, 24, 2, 128), case_of(), "sm_90a", {}, "block_n=24 must be a multiple of 16"),
        (Schedule(64, 272, 0, 128), case_of(), "sm_90a", {}, "block_n=272 must be"),
        (Schedule(72, 64, 0, 48), case_of(), "sm_90a", {}, "threads=48 must be whole warps"),
        (Schedule(64, 64, 0, 0), case_of(), "sm_90a", {}, "threads=0 must be whole warps"),
        (Schedule(72, 64, 0, 128), case_of(), "sm_90a", {}, "block_m=72 must give each warp of 128 threads"),
        (Schedule(64, 64, 2, 256), case_of(), "sm_90a", {}, "block_m=64 must give each warp of 256 threads"),
        (Schedule(272, 64, 0, 32), case_of(), "sm_90a", {}, "block_m=272 must give"),
        (Schedule(64, 64, -1, 128), case_of(), "sm_90a", {}, "stages=-1 is negative"),
        (Schedule(64, 64, 1, 64), case_of(), "sm_90a", {}, "threads=64 must be whole groups of 128"),
        (Schedule(96, 64, 2, 192), case_of(), "sm_100a", {}, "threads=192 must be whole groups of 128"),
        (Schedule(256, 64, 0, 256), case_of(), "sm_90a", {}, "block_m=256 must be 64 for each 128 of 256"),
        (Schedule(64, 64, 1, 128), case_of(), "sm_90a", NO_LOADERS, "stages=1 must be 0 without bulk copies"),
        (Schedule(64, 64, 2, 128), case_of(causal=True), "sm_80", {}, "stages=2 with causal by cp.async"),
        (Schedule(96, 64, 2, 96), case_of(causal=True), "sm_90a", NO_LOADERS, "stages=2 with causal by cp"),
        (Schedule(128, 192, 0, 128), case_of(), "sm_80", {}, "256 scores and sums for each of threads=128"),
        (
            Schedule(192, 208, 1, 384),
            case_of(),
            "sm_90a",
            {},
            "wgmma needs 130 registers of 128",
        ),
        (Schedule(256, 16, 1, 512), case_of(head_dim=144), "sm_90a", {}, "wgmma needs 102 registers"),
        (Schedule(64, 64, 2, 128, blocks=5), case_of(), "sm_90a", {}, "blocks=5 must be 0, or positive with"),
        (Schedule(64, 64, 2, 128, True, -1), case_of(), "sm_90a", {}, "blocks=-1 must be 0"),
        (Schedule(64, 64, 1, 128, True), case_of(), "sm_80", {}, "overlap takes wgmma, and bulk copies"),
        (Schedule(64, 64, 1, 128, True), case_of(), "sm_100a", {}, "overlap takes wgmma, and bulk copies"),
        (Schedule(64, 64, 0, 128, True), case_of(), "sm_90a", {}, "overlap takes wgmma, and bulk copies"),
        (Schedule(128, 64, 1, 128, True), case_of(), "sm_90a", {}, "overlap takes 64 queries for each 128"),
        (Schedule(256, 64, 1, 512, True), case_of(), "sm_90a", {}, "overlap takes 64 queries for each 128"),
        (Schedule(192, 144, 1, 384, True), case_of(), "sm_90a", {}, "overlap needs 165 registers of 160"),
        (Schedule(128, 256, 1, 256, True), case_of(), "sm_90a", {}, "overlap needs 249 registers of 240"),
        (
            Schedule(64, 64, 2, 128, True),
            case_of(batch=2**15, heads=2**12, q_len=1000),
            "sm_90a",
            {},
            "2147483648 are too many",
        ),
        (Schedule(128, 128, 3, 256, True, 1), case_of(head_dim=128), "sm_90a", {}, "263168 bytes of shared"),
        (Schedule(64, 96, 4, 128), case_of(head_dim=192), "sm_90a", {}, "320512 bytes of shared memory"),
        (Schedule(128, 128, 2, 256), case_of(head_dim=128), "sm_89", {}, "163840 bytes of shared memory"),
    ],
)
def test_what_would_not_compile_or_compute_wrong_is_refused(
    schedule: Schedule, case: Case, name: str, pass_configs: dict[str, bool], reason: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        SPEC.check_schedule(schedule, case, arch(name), pass_configs)


@pytest.mark.parametrize(
    ("schedule", "causal", "name", "pass_configs"),
    [
        (Schedule(32, 64, 0, 64), True, "sm_90a", {}),
        (Schedule(96, 64, 3, 192), False, "sm_90a", NO_LOADERS),
        (Schedule(64, 64, 0, 128), True, "sm_90a", NO_LOADERS),
        (Schedule(64, 64, 2, 128), False, "sm_100a", NO_LOADERS),
        (Schedule(192, 48, 2, 128), False, "sm_90a", {}),
        (Schedule(256, 128, 2, 512), False, "sm_90a", {}),
        (Schedule(192, 192, 2, 384), False, "sm_90a", {}),
        (Schedule(64, 64, 1, 128), True, "sm_80", {}),
        (Schedule(128, 240, 2, 256, True), False, "sm_90a", {}),
        (Schedule(192, 128, 2, 384, True, 132), False, "sm_90a", {}),
        (Schedule(64, 16, 1, 128, True, 10**6), False, "sm_90a", {}),
    ],
)
def test_rules_do_not_reach_further_than_their_reason(
    schedule: Schedule, causal: bool, name: str, pass_configs: dict[str, bool]
) -> None:
    SPEC.check_schedule(schedule, case_of(causal=causal), arch(name), pass_configs)


def test_a_grid_may_be_as_large_as_cuda_allows() -> None:
    largest = case_of(batch=65535, heads=65535, kv_heads=1, q_len=2**20)
    SPEC.check_schedule(Schedule(64, 64, 2, 128), largest, arch("sm_90a"))


@pytest.mark.parametrize(("q_len", "k_len", "causal"), [(300, 40, True), (129, 200, True), (200, 65, False)])
def test_reference_may_take_the_queries_in_parts(
    q_len: int, k_len: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = torch.Generator().manual_seed(0)
    Q = torch.randn(1, 4, q_len, 16, generator=rng, dtype=torch.float64)
    K, V = torch.randn(2, 1, 2, k_len, 16, generator=rng, dtype=torch.float64)
    whole = flash_attention.reference(Q, K, V, causal, "float16")
    monkeypatch.setattr(flash_attention, "QUERIES", 37)
    parts = flash_attention.reference(Q, K, V, causal, "float16")
    torch.testing.assert_close(parts.value, whole.value)
    assert torch.equal(parts.open, whole.open)
    for one, other in zip(parts.terms, whole.terms, strict=True):
        torch.testing.assert_close(one.magnitude, other.magnitude)
