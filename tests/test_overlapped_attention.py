"""Is attention right whose products overlap with softmax, by blocks that stay or not, and its code as said?

Schedules of the grid have this form too; here are the cases that show what else can go wrong with it.
"""

import re
from dataclasses import replace
from itertools import product

import pytest
import torch

from kernels import flash_attention
from kernels.flash_attention import SPEC, QueryWalk, Schedule, first_query, walk_over_queries
from tilecheck.arches import arch
from tilecheck.codegen import lower
from tilecheck.conformance import check, run
from tilecheck.device import Device
from tilecheck.plugin import CodeChecker, CodeRow
from tilecheck.program import build_program
from tilecheck.spec import Case


def small(blocks: int) -> Schedule:
    """Tiles of which even small cases have several, of queries and of keys."""
    return Schedule(64, 64, 2, 128, overlap=True, blocks=blocks)


@pytest.fixture
def hopper(tilecheck_device: Device) -> Device:
    if tilecheck_device.arch.capability != (9, 0):
        pytest.skip(f"products overlap with softmax on Hopper, not on {tilecheck_device.arch.name}")
    return tilecheck_device


IDS = (
    *("len-1-fp16", "len-17-causal-fp16", "len-63-fp16", "len-64-causal-fp16", "len-65-causal-fp16"),
    *("len-128-bf16", "len-128-causal-bf16", "len-129-fp16", "len-257-causal-bf16", "len-296-fp16"),
    *("len-400-causal-bf16", "decode-fp16", "decode-causal-bf16", "more-keys-fp16"),
    *("more-keys-causal-fp16", "more-keys-causal-bf16", "more-queries-fp16", "more-queries-causal-bf16"),
    *("blind-tiles-causal-fp16", "many-keys-fp16", "one-key-causal-fp16"),
    *("grouped-fp16", "grouped-causal-bf16", "multi-query-causal-fp16", "heads-8-causal-fp16"),
    *("batch-fp16", "dim-16-causal-fp16", "dim-80-bf16", "dim-96-causal-fp16", "dim-128-causal-bf16"),
    *("dim-256-fp16", "dim-256-causal-bf16"),
    *("last-key-fp16", "last-key-bf16", "last-key-causal-fp16", "last-key-more-keys-fp16"),
    *("last-key-alone-fp16", "last-key-hidden-fp16", "rising-fp16", "rising-causal-bf16"),
    *("sink-fp16", "sink-bf16", "creeping-fp16", "large-scores-fp16", "large-scores-bf16"),
    *(
        "huge-scores-fp16",
        "huge-scores-full-fp16",
        "low-scores-fp16",
        "low-scores-causal-bf16",
        "tower-bf16",
        "one-hot-fp16",
    ),
    *("cancelling-fp16", "integers-causal-fp16", "special-causal-fp16", "special-causal-bf16"),
)


@pytest.mark.correctness
@pytest.mark.parametrize(
    ("id", "blocks"),
    [
        pytest.param(id, blocks, id=f"{id}-{how}")
        for how, blocks in (("leaving", 0), ("staying", 3))
        for id in IDS
    ],
)
def test_output(id: str, blocks: int, hopper: Device) -> None:
    check(SPEC, SPEC.case(id), hopper, seed=0, schedule=small(blocks))


def rows_of(causal: bool) -> Case:
    dims = {"batch": 2, "heads": 6, "kv_heads": 3, "q_len": 200, "k_len": 217, "head_dim": 64}
    return Case("rows-fp16", dims, "float16", {"causal": causal}, "12 heads of 4 tiles of queries")


@pytest.mark.correctness
@pytest.mark.parametrize("causal", [False, True])
def test_blocks_that_stay_change_no_bit(causal: bool, hopper: Device) -> None:
    case = rows_of(causal)
    alone, staying = (run(SPEC, case, hopper, schedule=small(blocks))["Out"] for blocks in (0, 5))
    assert torch.equal(staying, alone)


@pytest.mark.correctness
def test_order_of_rows_changes_no_bit(hopper: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    case = rows_of(causal=True)
    together = run(SPEC, case, hopper, schedule=small(0))["Out"]
    monkeypatch.setattr(flash_attention, "KEYS_IN_L2", 2 * 4 * 217 * 64)  # of two heads: four of queries
    apart = run(SPEC, case, hopper, schedule=small(0))["Out"]
    assert torch.equal(apart, together)


@pytest.mark.correctness
@pytest.mark.parametrize(("rows", "tiles"), [(1, 1), (1, 7), (7, 1), (12, 5), (5, 12)])
@pytest.mark.parametrize("near", [0, 1, 4, 100])
@pytest.mark.parametrize("blocks", [1, 5, 7, 132])
@pytest.mark.parametrize("back", [False, True])
def test_each_tile_is_taken_once(rows: int, tiles: int, near: int, blocks: int, back: bool) -> None:
    walk = QueryWalk(rows, tiles, near, min(blocks, rows * tiles), back)
    assert sorted(taken_by_each(walk)) == list(product(range(rows), range(tiles)))


def taken_by_each(walk: QueryWalk) -> list[tuple[int, int]]:
    return [walk.tile(block, turn) for block in range(walk.blocks) for turn in range(walk.turns(block))]


@pytest.mark.correctness
def test_blocks_that_leave_take_one_tile_each_the_longest_first() -> None:
    walk = walk_over_queries(rows=2, near=2, most=0, steps=[1, 2, 3])
    assert taken_by_each(walk) == [(0, 2), (1, 2), (0, 1), (1, 1), (0, 0), (1, 0)]


@pytest.mark.correctness
def test_blocks_that_stay_are_as_few_as_take_no_more_turns_where_tiles_are_alike() -> None:
    walk = walk_over_queries(rows=4, near=1, most=13, steps=[5, 5, 5, 5])
    assert (walk.blocks, taken_by_each(walk)[:2]) == (8, [(0, 3), (2, 3)])


@pytest.mark.correctness
@pytest.mark.parametrize(
    ("rows", "near", "tiles", "more"),
    [
        pytest.param(128, 64, 11, 0.05, id="dim-64-2k"),
        pytest.param(128, 32, 16, 0.05, id="dim-128-2k"),
        pytest.param(64, 16, 32, 0.04, id="dim-128-4k"),
        pytest.param(64, 32, 16, 0.05, id="model-1x64x2048"),
        pytest.param(32, 32, 64, 0.01, id="llama8b-8k"),
    ],
)
def test_causal_tiles_are_shared_out_evenly(rows: int, near: int, tiles: int, more: float) -> None:
    """Of an H200: how much more than an even share the block with most to do has."""
    steps = range(1, tiles + 1)
    walk = walk_over_queries(rows, near, 132, steps)
    loads = [
        sum(steps[walk.tile(block, turn)[1]] + 1 for turn in range(walk.turns(block)))
        for block in range(walk.blocks)
    ]
    assert max(loads) <= (1 + more) * sum(loads) / 132


@pytest.mark.correctness
def test_more_tiles_than_can_be_weighed_are_walked_all_the_same() -> None:
    walk = walk_over_queries(rows=3, near=3, most=5, steps=range(400_000))
    assert sum(walk.turns(block) for block in range(walk.blocks)) == 1_200_000


@pytest.mark.correctness
@pytest.mark.parametrize(
    ("q_len", "block_m", "causal", "first"),
    [
        (2048, 192, True, -64),
        (2048, 192, False, 0),
        (2048, 128, True, 0),
        (193, 192, True, -191),
        (192, 192, True, 0),
        (100, 192, True, 0),
        (1, 64, True, 0),
    ],
)
def test_first_of_several_causal_tiles_is_the_one_that_is_not_whole(
    q_len: int, block_m: int, causal: bool, first: int
) -> None:
    assert first_query(q_len, block_m, causal) == first


@pytest.mark.correctness
def test_which_tile_is_not_whole_changes_no_bit(hopper: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    case = rows_of(causal=True)
    first = run(SPEC, case, hopper, schedule=small(0))["Out"]
    monkeypatch.setattr(flash_attention, "first_query", lambda *_: 0)
    assert torch.equal(run(SPEC, case, hopper, schedule=small(0))["Out"], first)


@pytest.mark.correctness
def test_form_is_printed_where_it_is_another() -> None:
    plain = "Schedule(block_m=64, block_n=64, stages=2, threads=128"
    assert str(Schedule(64, 64, 2, 128)) == f"{plain})"
    assert str(small(0)) == f"{plain}, overlap=True)"
    assert str(small(3)) == f"{plain}, overlap=True, blocks=3)"


@pytest.mark.codegen
@pytest.mark.parametrize(
    ("id", "schedule"),
    [
        pytest.param(id, schedule, id=f"{id}-{schedule.blocks}")
        for id, schedule in [
            ("len-65-causal-fp16", small(0)),
            ("more-keys-causal-fp16", small(3)),
            ("more-queries-causal-bf16", small(0)),
            ("grouped-causal-bf16", small(5)),
            ("dim-64-2k-causal-fp16", Schedule(192, 128, 2, 384, overlap=True)),
            ("dim-64-2k-causal-fp16", Schedule(192, 128, 2, 384, overlap=True, blocks=132)),
            ("dim-128-2k-causal-fp16", Schedule(128, 128, 2, 256, overlap=True, blocks=132)),
        ]
    ],
)
def test_all_threads_meet_at_each_barrier(id: str, schedule: Schedule) -> None:
    """One before Out is staged, which TileLang counts, and one after, by name."""
    lowered = lower(build_program(SPEC, SPEC.case(id), arch("sm_90a"), schedule))
    waiting = re.findall(r"__sync_thread_partial\(\d+, (\d+)\)", lowered.cuda)
    assert len(waiting) == 2
    assert set(waiting) == {str(schedule.threads)}


@pytest.mark.codegen
@pytest.mark.parametrize(
    ("id", "schedule"),
    [
        ("dim-128-4k-fp16", Schedule(128, 176, 2, 256, overlap=True)),
        ("dim-64-4k-fp16", Schedule(192, 128, 2, 384, overlap=True, blocks=132)),
        ("dim-128-4k-causal-fp16", Schedule(128, 128, 2, 256, overlap=True)),
        ("dim-256-causal-bf16", Schedule(128, 64, 1, 256, overlap=True)),
    ],
    ids=lambda value: "" if isinstance(value, Schedule) else value,
)
def test_landmarks(id: str, schedule: Schedule, code_checker: CodeChecker) -> None:
    others = ("grid_cases", "code_cases", "latency_cases", "tuning_cases")
    spec = replace(
        SPEC,
        name="flash_attention_overlapped",
        cases=(SPEC.case(id),),
        default_schedule=lambda: schedule,
        arches=("sm_90a",),
        **dict.fromkeys(others, ()),
    )
    code_checker.landmarks(CodeRow(spec, spec.cases[0], arch("sm_90a")))
