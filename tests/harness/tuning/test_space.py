"""What is tried: the legal part of the knobs' product that fits, counted; likely schedules first."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernels import SPECS
from tests.harness.tuning.fakes import goal, module_in
from tilecheck.arches import ARCHES
from tilecheck.latency.chips import CHIPS
from tilecheck.latency.roofline import roof
from tilecheck.spec import Cost, KernelSpec
from tilecheck.tiling import Tiling
from tilecheck.tuning.ranking import Usage, estimate, neighbours, ranked, resident_blocks
from tilecheck.tuning.space import schedule_of, space_of, values_of
from tilecheck.tuning.tune import in_order

HOPPER, CHIP = ARCHES["sm_90a"], CHIPS["sm_90a"]


@pytest.fixture
def spec(tmp_path: Path) -> KernelSpec:
    found: KernelSpec = module_in(tmp_path).SPEC
    return found


def test_counts_before_and_after_each_filter(spec: KernelSpec) -> None:
    space = space_of(spec, spec.case("long"), ARCHES["sm_80"])
    assert (space.product, space.legal, len(space.candidates)) == (16, 14, 12)
    assert space.refused == {"over the shared memory of a block": 2}
    assert str(space) == "4 x 4 = 16 combinations, 14 legal, 2 over the shared memory of a block, 12 to try"
    assert len(space_of(spec, spec.case("long"), HOPPER).candidates) == 14


def test_every_candidate_is_legal_and_there_once_with_the_default_first(spec: KernelSpec) -> None:
    case = spec.case("short")
    space = space_of(spec, case, HOPPER)
    assert space.candidates[0] is space.default and space.default.id == "default"
    assert len({c.key for c in space.candidates}) == len({c.id for c in space.candidates})
    for candidate in space.candidates:
        spec.check_schedule(candidate.schedule, case, HOPPER)
        assert candidate.schedule.tile <= 100


def test_a_default_outside_of_the_knobs_values_is_tried_all_the_same(spec: KernelSpec) -> None:
    narrow = replace(spec, tuning={"tile": (128, 256)})
    space = space_of(narrow, spec.case("long"), HOPPER)
    assert [c.id for c in space.candidates] == ["default", "t128", "t256"]
    assert str(space) == "2 = 2 combinations, 2 legal, 3 to try, the default with them"


def test_a_kernel_without_a_space_is_told_so(spec: KernelSpec) -> None:
    with pytest.raises(ValueError, match="'copy' has nothing to tune: its spec gives no `tuning`"):
        space_of(replace(spec, tuning={}, tuning_cases=()), spec.case("long"), HOPPER)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tuning": {"width": (1,)}}, r"the tuning's 'width' is no field of Schedule\("),
        ({"tuning": {"pass_configs": ({},)}}, "the tuning's 'pass_configs' is no field"),
        ({"tuning": {"tile": ()}}, "tuning of tile must hold values, each once"),
        ({"tuning": {"tile": 8}}, "tuning of tile is 8, not several values"),
        ({"tuning": {}}, "cases of a tuning, long, but no tuning"),
        ({"tuning_cases": ("none",)}, "no case 'none'"),
        ({"tuning_cases": ("long", "long")}, "a case of the tuning occurs twice"),
        ({"tiling": lambda N: N}, "tiling of case 'long' is 1000, not a Tiling"),
        ({"tiling": 3}, "tiling is not callable: 3"),
    ],
)
def test_a_malformed_space_is_refused_where_it_is_made(
    spec: KernelSpec, changed: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(spec, **changed)


@pytest.mark.parametrize("values", [{"tile": 1}, {"tile": 1, "stages": 2, "threads": 3, "depth": 4}])
def test_a_schedule_of_other_fields_is_refused(spec: KernelSpec, values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"lacks stages, threads|has depth; known: tile, stages, threads"):
        schedule_of(values, spec.own_schedule(spec.case("long"), HOPPER))


@pytest.mark.parametrize("wrong", ["64", 64.0, True, None])
def test_a_schedule_of_other_types_is_refused(spec: KernelSpec, wrong: object) -> None:
    like = spec.own_schedule(spec.case("long"), HOPPER)
    with pytest.raises(ValueError, match="is not of the type of tile=64"):
        schedule_of({**values_of(like), "tile": wrong}, like)


def seconds(tiling: Tiling, cost: Cost, **usage: int) -> float:
    used = Usage(tiling.threads, usage.get("registers", 0), usage.get("shared", 0))
    return estimate(tiling, used, cost, HOPPER, CHIP, roof(CHIP, HOPPER, "bfloat16")).seconds


def test_a_last_wave_with_few_blocks_takes_as_long_as_a_whole_one() -> None:
    def of(blocks: int) -> float:
        return seconds(Tiling(blocks, 384, 1e9, 1e4), Cost(1e9 * blocks, 1e4 * blocks), registers=168)

    assert of(2 * 132 + 1) == pytest.approx(of(3 * 132), rel=0.01)
    assert of(2 * 132) < 0.7 * of(2 * 132 + 1)


def test_few_stages_wait_unless_other_blocks_use_the_time() -> None:
    cost = Cost(1e9, 1e6)

    def of(stages: int, shared: int) -> float:
        return seconds(Tiling(264, 128, 1e6, 1e6, steps=64, stages=stages), cost, shared=shared)

    assert of(4, 200_000) < 0.6 * of(1, 200_000)
    assert of(1, 20_000) < of(1, 200_000)


def test_no_estimate_is_under_the_roofline() -> None:
    cost = Cost(1e6, 4.8e9)  # a millisecond of an H200's memory
    assert 1e-3 <= seconds(Tiling(10**5, 128, 10, 10, stages=8), cost) < 1.1e-3
    assert seconds(Tiling(132, 128, 10, 10, stages=8), cost) >= 1e-3


def test_blocks_on_a_multiprocessor_are_limited_by_each_resource() -> None:
    assert resident_blocks(Usage(128, 0, 0), HOPPER) == 16
    assert resident_blocks(Usage(32, 0, 0), HOPPER) == 32
    assert resident_blocks(Usage(384, 168, 0), HOPPER) == 1
    assert resident_blocks(Usage(128, 0, 100 * 1024), HOPPER) == 2
    assert resident_blocks(Usage(1024, 255, 0), HOPPER) == 1


def test_spills_put_a_schedule_back(spec: KernelSpec) -> None:
    space = space_of(spec, spec.case("far"), HOPPER)
    best = ranked(space, CHIP)[0][0]
    again = ranked(space, CHIP, {best.key: Usage(128, 255, 0, spills=True)})
    assert again[0][0] != best


def test_without_a_model_the_nearest_to_the_default_come_first(spec: KernelSpec) -> None:
    space = space_of(replace(spec, tiling=None), spec.case("long"), HOPPER)
    rows = ranked(space, CHIP)
    assert rows[0] == (space.default, None)
    near = {c.key for c in neighbours(space.default, space.candidates)}
    assert {c.key for c, _ in rows[1 : 1 + len(near)]} == near


def test_schedules_that_the_model_cannot_tell_apart_do_not_crowd_out_others() -> None:
    spec = next(spec for spec in SPECS if spec.name == "matmul")
    space = space_of(spec, spec.case("square-4096-bf16"), HOPPER)
    first = [c.schedule for c in in_order(space, CHIP)[:32]]
    assert len({(s.block_m, s.block_n, s.block_k, s.stages, s.threads, s.blocks) for s in first}) >= 24


@pytest.mark.parametrize(
    ("case", "tile"),
    # What was fastest of 117 on an H200 by hand.
    [
        ("square-4096-bf16", (128, 256, 64, 4, 256)),
        ("square-8192-bf16", (128, 256, 64, 4, 256)),
        ("llama8b-up-bf16", (128, 256, 64, 4, 256)),
    ],
)
def test_the_first_batch_has_what_is_known_to_be_fast(case: str, tile: tuple[int, ...]) -> None:
    spec = next(spec for spec in SPECS if spec.name == "matmul")
    space = space_of(spec, spec.case(case), HOPPER)
    first = [c.schedule for c, _ in ranked(space, CHIP)[:32]]
    assert tile in {(s.block_m, s.block_n, s.block_k, s.stages, s.threads) for s in first}


@pytest.mark.parametrize("name", [spec.name for spec in SPECS])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_every_kernel_has_a_space_for_its_first_tuned_cases(name: str, arch: str) -> None:
    spec = next(spec for spec in SPECS if spec.name == name)
    for id in spec.tuning_cases[:2]:
        space = space_of(spec, spec.case(id), ARCHES[arch])
        assert 10 < len(space.candidates) <= space.legal + 1 <= space.product + 1
        assert all(found is not None for _, found in ranked(space, CHIPS[arch])[:5])


def test_a_goal_names_its_gpu(spec: KernelSpec) -> None:
    identity = goal(spec).identity
    assert (identity.gpu, identity.arch, identity.dtype, identity.dims) == (
        "nvidia-h200",
        "sm_90a",
        "float32",
        {"N": 1000},
    )
