"""The schedules under test: every pair of values that is legal together occurs together, in few schedules."""

import dataclasses
import itertools
from dataclasses import dataclass

import pytest

from tilecheck.arches import arch
from tilecheck.plugin import KernelCase
from tilecheck.schedules import LARGEST_PRODUCT, MOST, PASS_CONFIGS, Grid
from tilecheck.spec import Case, KernelSpec

hypothesis = pytest.importorskip("hypothesis", reason="wants the extra: pip install -e .[test]")
st = hypothesis.strategies

HOPPER = arch("sm_90a")
ROW = Case("row-fp16", {"n": 8}, "float16", why="a row")


def kernel(grid, illegal=lambda values: False, default=None):
    """A spec with a schedule of the grid's knobs; `illegal` judges name -> value, pass options among them."""
    knobs = [knob for knob in grid if knob != PASS_CONFIGS]
    schedule = dataclasses.make_dataclass("Schedule", [*knobs, ("untried", int, 7)], frozen=True)
    first = schedule(**{knob: grid[knob][0] for knob in knobs} | (default or {}))

    def legal(schedule, pass_configs):
        values = {**dataclasses.asdict(schedule), PASS_CONFIGS: dict(pass_configs)}
        if schedule != first and illegal(values):
            raise ValueError(f"{values} is illegal")

    return KernelSpec(
        "any_kernel",
        lambda: None,
        lambda: None,
        (ROW,),
        default_schedule=lambda: first,
        legal=legal,
        grid=grid,
    )


def grid_of(grid, illegal=lambda values: False, **kwargs):
    return Grid(kernel(grid, illegal, **kwargs), ROW, HOPPER)


def values_of(grid, variant):
    given = {**dataclasses.asdict(variant.schedule), PASS_CONFIGS: variant.pass_configs}
    return tuple((knob, repr(given[knob])) for knob in grid.knobs)


def pairs_of(grid, variants):
    return {pair for v in variants for pair in itertools.combinations(values_of(grid, v), 2)}


@st.composite
def grids(draw):
    """A grid of which combinations are illegal that hold one of a few drawn values, pairs or triples."""
    names = ["block_m", "block_n", "stages", "threads", "swizzle"]
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    grid = {name: tuple(range(size)) for name, size in zip(names, sizes, strict=False)}
    if draw(st.booleans()):
        grid[PASS_CONFIGS] = ({}, {"tl.enable_fast_math": True})
    options = [(k, v) for k, values in grid.items() if k != PASS_CONFIGS for v in values]
    forbidden = draw(st.lists(st.sets(st.sampled_from(options), min_size=1, max_size=3), max_size=5))

    def illegal(values):
        return any(all(values[k] == v for k, v in combination) for combination in forbidden)

    return grid_of(grid, illegal)


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(grids())
def test_every_legal_pair_is_covered_and_every_other_is_told(grid):
    legal = grid.full()
    chosen = grid.pairwise()
    assert {v.id for v in chosen} <= {v.id for v in legal}
    assert pairs_of(grid, chosen) == pairs_of(grid, legal)
    alone = [{value for v in variants for value in values_of(grid, v)} for variants in (chosen, legal)]
    assert alone[0] == alone[1]
    assert len(chosen) <= min(MOST, len(legal))

    impossible = {tuple((k, repr(v)) for k, v in pair) for pair in grid.impossible()}
    every = {
        ((a, repr(x)), (b, repr(y)))
        for a, b in itertools.combinations(grid.knobs, 2)
        for x, y in itertools.product(grid.spec.grid[a], grid.spec.grid[b])
    }
    assert impossible == every - pairs_of(grid, legal)


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(grids())
def test_the_product_is_legal_or_rejected_and_ids_are_one_to_one(grid):
    variants = [*grid.full(), *(variant for variant, _ in grid.rejected())]
    combinations = itertools.product(*grid.spec.grid.values())
    assert len(variants) == len(list(combinations)) == len({v.id for v in variants})
    assert len({values_of(grid, v) for v in variants}) == len(variants)
    assert all(v.schedule.untried == 7 for v in variants)
    for variant in grid.full():
        grid.spec.check_schedule(variant.schedule, ROW, HOPPER, variant.pass_configs)
    for variant, error in grid.rejected():
        with pytest.raises(ValueError, match="is illegal"):
            grid.spec.check_schedule(variant.schedule, ROW, HOPPER, variant.pass_configs)
        assert "is illegal" in str(error)


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(grids())
def test_the_choice_is_the_same_each_time(grid):
    again = Grid(grid.spec, ROW, HOPPER)
    assert [v.id for v in grid.pairwise()] == [v.id for v in again.pairwise()]


@hypothesis.given(
    st.lists(st.one_of(st.text(max_size=4), st.integers(-20, 20), st.floats(-9, 9)), min_size=1, max_size=8)
)
def test_ids_differ_however_alike_values_are_spelt(values):
    values = tuple(v for i, v in enumerate(values) if v not in values[:i])
    ids = [v.id for v in grid_of({"mode": values, "modes": (1, 2)}).full()]
    assert len(set(ids)) == len(ids) == 2 * len(values)
    assert all(id.isascii() and id.isprintable() and "::" not in id and " " not in id for id in ids)


def test_ids_are_short_and_readable():
    grid = grid_of(
        {
            "block_m": (64,),
            "block_n": (128,),
            "block_k": (32,),
            "stages": (2,),
            "threads": (128,),
            "swizzle": (0, 10),
            "split_k": (True,),
            "pass_configs": (
                {},
                {"tl.enable_fast_math": True, "tl.disable_tma_lower": True},
                {"tl.disable_warp_specialized": False, "tl.ptxas_register_usage_level": 5},
            ),
        }
    )
    assert [variant.id for variant in grid.full()] == [
        "m64-n128-k32-s2-t128-w0-split_k1",
        "m64-n128-k32-s2-t128-w0-split_k1-fast_math+no_tma_lower",
        "m64-n128-k32-s2-t128-w0-split_k1-warp_specialized+ptxas_register_usage_level=5",
        "m64-n128-k32-s2-t128-w10-split_k1",
        "m64-n128-k32-s2-t128-w10-split_k1-fast_math+no_tma_lower",
        "m64-n128-k32-s2-t128-w10-split_k1-warp_specialized+ptxas_register_usage_level=5",
    ]


def test_three_knobs_take_few_schedules():
    grid = grid_of({"a": range(5), "b": range(4), "c": range(3), "d": range(3)})
    assert len(grid.full()) == 180
    assert 20 <= len(grid.pairwise()) <= 23  # a and b alone have 20 pairs


def test_a_kernel_without_schedules_may_try_pass_options():
    options = ({}, {"tl.enable_fast_math": True})
    spec = KernelSpec("plain", lambda: None, lambda: None, (ROW,), grid={PASS_CONFIGS: options})
    variants = Grid(spec, ROW, HOPPER).pairwise()
    assert [(v.id, v.schedule, v.pass_configs) for v in variants] == [
        ("default", None, {}),
        ("fast_math", None, {"tl.enable_fast_math": True}),
    ]


def test_legal_sees_the_options_of_spec_and_variant_together():
    seen = []
    spec = KernelSpec(
        "plain",
        lambda: None,
        lambda: None,
        (ROW,),
        default_schedule=lambda: None,
        legal=lambda pass_configs: seen.append(pass_configs),
        pass_configs={"tl.enable_fast_math": True, "tl.disable_wgmma": True},
    )
    spec.check_schedule(None, ROW, HOPPER, {"tl.enable_fast_math": False})
    assert seen[-1] == {"tl.enable_fast_math": False, "tl.disable_wgmma": True}


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: grid_of({"a": range(1000), "b": range(1000)}),
            f"'any_kernel': the grid has 1000 x 1000 = 1000000 combinations, more than {LARGEST_PRODUCT}",
        ),
        (
            lambda: grid_of({name: range(256) for name in "abcdefgh"}),  # 2^64
            f"= 18446744073709551616 combinations, more than {LARGEST_PRODUCT}",
        ),
        (
            lambda: grid_of({"a": range(13), "b": range(12)}).pairwise(),
            f"case 'row-fp16' on sm_90a: the pairs of its grid take 156 schedules, more than {MOST}",
        ),
        (
            lambda: grid_of({"a": (1, 2)}, lambda v: True, default={"a": 0}).pairwise(),
            "case 'row-fp16' on sm_90a: no combination of its grid is legal",
        ),
    ],
)
def test_a_grid_that_cannot_be_tested_says_why(make, told):
    with pytest.raises(ValueError, match=told):
        make()


def test_a_rejection_has_to_name_a_value():
    @dataclass(frozen=True)
    class Schedule:
        stages: int

    def legal(stages):
        if stages in (11, 12):
            raise ValueError("stages=11 is too many" if stages == 11 else "too many stages: 2, 112")

    grid = {"stages": (2, 11, 12)}
    default = Schedule(2)
    spec = KernelSpec(
        "any", lambda: None, lambda: None, (ROW,), default_schedule=lambda: default, legal=legal, grid=grid
    )
    assert Grid(spec, ROW, HOPPER).unexplained() == ["s12: too many stages: 2, 112"]


KERNELS = """
from dataclasses import dataclass

from tilecheck.spec import Case, KernelSpec

@dataclass(frozen=True)
class Schedule:
    block: int
    stages: int

def legal(block, stages):
    if block * stages > 64:
        raise ValueError(f"{block=} x {stages=}")

def cases(*ids):
    return tuple(Case(id, {"n": 1}, "float16", why="a row") for id in ids)

SPECS = (
    KernelSpec(
        "tiled", lambda n: None, lambda n: None, cases("one", "two", "three"),
        default_schedule=lambda: Schedule(16, 1), legal=legal,
        grid={"block": (16, 32), "stages": (1, 2, 4), "pass_configs": ({}, {"tl.enable_fast_math": True})},
        grid_cases=("two", "three"),
    ),
    KernelSpec("plain", lambda n: None, lambda n: None, cases("one")),
)
"""

MODULE = """
def test_output(scheduled_case):
    assert scheduled_case.schedule.block != 32, scheduled_case.pass_configs

def test_rejected(grid_case):
    pass
"""


@pytest.fixture
def project(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    pytester.makeini("[pytest]\ntilecheck_specs = gridded\npythonpath = .")
    pytester.makeconftest('pytest_plugins = ["tilecheck.plugin"]')
    pytester.makepyfile(gridded=KERNELS, test_schedules=MODULE)
    return pytester


def collected(project, *options):
    lines = project.runpytest("--collect-only", "-q", "-p", "no:cacheprovider", *options).outlines
    return [line.partition("::")[2] for line in lines if "::" in line]


def test_plugin_gives_each_case_of_the_grid_under_each_schedule(project):
    ids = collected(project, "--device=simulator", "--all-schedules")
    programs = ("b16-s1", "b16-s2", "b16-s4", "b32-s1", "b32-s2")  # 32 x 4 is not legal
    assert ids == [
        *(f"test_output[tiled-{case}-{p}]" for case in ("two", "three") for p in programs),
        "test_rejected[tiled-two]",
        "test_rejected[tiled-three]",
    ]


def test_plugin_tries_pass_options_where_they_make_a_difference(project, monkeypatch):
    from tilecheck import environment

    gpu = environment.Machine(
        torch="2.11.0", torch_cuda="12.8", driver="580.65", driver_cuda="13.0", gpu="H200", capability=(9, 0),
        compiler=True,
    )  # fmt: skip
    monkeypatch.setattr(environment, "machine", lambda: gpu)
    ids = [id for id in collected(project, "--tilecheck-all-schedules") if "output" in id]
    assert len(ids) == 2 * 5 * 2
    assert "test_output[tiled-two-b32-s2-fast_math]" in ids
    fewer = [id for id in collected(project) if "output" in id]
    assert set(fewer) < set(ids)
    simulated = [id for id in collected(project, "--device=simulator") if "output" in id]
    assert set(simulated) <= set(fewer)  # so that what fails there is repeated here by the same id


def test_failure_names_schedule_and_options(project):
    result = project.runpytest("--device=simulator", "-k", "output and two and b32")
    result.stdout.fnmatch_lines("scheduled_case = <tiled: two (n=1 float16) b32-s1*>")


def test_schedule_outside_the_pairs_is_repeated_with_the_full_product(project):
    from tilecheck.plugin.repeat import repeat_command

    test = "test_schedules.py::test_output[tiled-two-b16-s4]"
    for options in (["--device=simulator"], ["--device=simulator", "--all-schedules"]):
        command = repeat_command(project.parseconfig("-p", "tilecheck.plugin", *options), test)
        assert command.startswith(f'pytest "{test}" ')
        assert ("--all-schedules" in command) is ("--all-schedules" in options)


def test_grid_without_legal_schedule_is_an_error_of_collection(project):
    project.makepyfile(gridded=KERNELS.replace("(16, 32)", "(128, 256)").replace('"stages"', '"stages" '))
    result = project.runpytest("--device=simulator")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines("*kernel 'tiled', case 'two' on sm_90a: no combination of its grid is legal*")


def test_row_without_schedule_is_that_of_the_default():
    spec = kernel({"block_m": (1, 2)})
    (_, variant) = Grid(spec, ROW, HOPPER).full()
    assert KernelCase(spec, ROW).id == "any-kernel-row-fp16"
    assert KernelCase(spec, ROW).schedule is None
    assert KernelCase(spec, ROW, variant).id == "any-kernel-row-fp16-m2"
    assert KernelCase(spec, ROW, variant).schedule.block_m == 2
