"""A wrong spec is a ValueError that carries the values; a right one calls functions by parameter name."""

import functools
import pickle
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tilecheck.arches import arch, arch_of_capability
from tilecheck.dtypes import dtype
from tilecheck.landmarks import absent, common, present
from tilecheck.spec import Case, Cost, KernelSpec, Reference, Term, call_by_name


def case(id="square", **kwargs):
    return Case(**{"id": id, "dims": {"m": 4, "n": 8}, "dtype": "float16", "why": "one tile", **kwargs})


def spec(**kwargs):
    given = {"name": "row_softmax", "program": lambda m: m, "reference": lambda x: x, "cases": (case(),)}
    return KernelSpec(**{**given, **kwargs})


@dataclass(frozen=True)
class Tile:
    rows: int = 128


TILED = {"default_schedule": lambda: Tile()}


def refuse_large(schedule, m):
    if schedule.rows > 128:
        raise ValueError(f"rows {schedule.rows} > 128 for m={m}")


@pytest.mark.parametrize(
    ("kwargs", "told"),
    [
        ({"id": "Tail-M"}, "'Tail-M' is not lower-kebab"),
        ({"id": "tail_m"}, "'tail_m' is not lower-kebab"),
        ({"id": "tail--m"}, "'tail--m' is not lower-kebab"),
        ({"id": 7}, "7 is not lower-kebab"),
        ({"dims": {"m": -1}}, "'square': dim m = -1 is not an integer >= 0"),
        ({"dims": {"m": 1.5}}, "dim m = 1.5 is not an integer"),
        ({"dims": {"m": True}}, "dim m = True is not an integer"),
        ({"flags": {"causal": [1]}}, r"flag causal = \[1\] is not a bool, number or string"),
        ({"flags": {"m": 3}}, "'square': m is reserved, or both a dim and a flag"),
        ({"dims": {"dtype": 3}}, "dtype is reserved"),
        ({"dtype": "half"}, "'square': unknown dtype 'half'; known: float64, float32"),
        ({"why": "  "}, "'square': `why` is empty"),
    ],
)
def test_a_malformed_case_says_what_is_wrong(kwargs, told):
    with pytest.raises(ValueError, match=told):
        case(**kwargs)


def test_a_case_is_a_value():
    one = case(flags={"causal": True})
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(case(flags={"causal": True}))
    assert str(one) == "square (m=4 n=8 causal=True float16)"
    with pytest.raises(TypeError):
        one.dims["m"] = 5
    assert case(dims={"m": 0}).dims == {"m": 0}


def test_per_dtype_names_each_row():
    rows = Case.per_dtype(["float16", "float8_e4m3fn"], "tail-m", {"m": 3}, "tail in M")
    assert [(r.id, r.dtype) for r in rows] == [("tail-m-fp16", "float16"), ("tail-m-e4m3", "float8_e4m3fn")]


@pytest.mark.parametrize(
    ("kwargs", "told"),
    [
        ({"name": "RowSoftmax"}, "'RowSoftmax' is not lower_snake"),
        ({"name": "row-softmax"}, "'row-softmax' is not lower_snake"),
        ({"cases": ()}, "'row_softmax': no cases"),
        ({"cases": ("square",)}, "'square' is not a Case"),
        ({"cases": (case(), case(dtype="float32"))}, r"'square' occurs twice: .*float16\) and .*float32\)"),
        ({"cases": (case(draw="spiky"),)}, "asks for the unknown draw 'spiky'; known: normal, integers"),
        ({"arches": ()}, "no architectures"),
        ({"arches": ("sm_70",)}, "unknown architecture 'sm_70'; known: sm_80"),
        ({"program": "matmul"}, "program is not callable: 'matmul'"),
        ({"reference": None}, "reference is not callable: None"),
        ({"draws": {"spike": 3}}, "draw 'spike' is not callable: 3"),
        ({"vendor": {"torch": 3}}, "vendor 'torch' is not callable: 3"),
        ({"dtypes": {"C": 32}}, "dtype of C is 32, no name and no function"),
        ({"legal": refuse_large}, "there is no `default_schedule`"),
        ({"cost": lambda m: m}, "cost of case 'square' is 4, not a Cost"),
        ({"cost": lambda k: Cost(k, k)}, "asks for k, which is not known here; known: m, n, dtype, case"),
        ({"grid": {"rows": (1,)}}, "grid's 'rows' is neither 'pass_configs' nor a field of None"),
        ({**TILED, "grid": {"columns": (1,)}}, r"grid's 'columns' is neither .* a field of Tile\(rows=128\)"),
        ({**TILED, "grid": {"rows": ()}}, r"grid of rows must hold values, each once: \(\)"),
        ({**TILED, "grid": {"rows": (8, 4, 8)}}, r"grid of rows must hold values, each once: \(8, 4, 8\)"),
        ({**TILED, "grid": {"rows": 8}}, "grid of rows is 8, not several values"),
        ({**TILED, "grid": {"rows": "8"}}, "grid of rows is '8', not several values"),
        ({"grid": {"pass_configs": ("tl.x",)}}, r"pass_configs must map options to values: \('tl.x',\)"),
        ({"grid_cases": ("square",)}, "cases of a grid, square, but no grid"),
        ({**TILED, "grid": {"rows": (4,)}, "grid_cases": ("round",)}, "has no case 'round'; it has square"),
        ({**TILED, "grid": {"rows": (4,)}, "grid_cases": ("square",) * 2}, "case of the grid occurs twice"),
        ({"landmarks": ("no-spills",)}, r"landmarks is not callable: \('no-spills',\)"),
        ({"landmarks": lambda: ["no-spills"]}, "'no-spills' of case 'square' is no Landmark"),
        ({"landmarks": lambda k: ()}, "asks for k, which is not known here; known: m, n, dtype, case"),
        (
            {"landmarks": lambda: (absent("no-bar", "BAR", "x"), present("no-bar", "BAR", "x"))},
            "case 'square' has a landmark twice: no-bar, no-bar",
        ),
        ({"code_cases": ("round",)}, "has no case 'round'; it has square"),
        ({"code_cases": ("square", "square")}, "a case of code_cases occurs twice: square, square"),
        ({"shared_memory": 0}, "shared_memory is not callable: 0"),
        (
            {"default_schedule": lambda: Tile(256), "legal": refuse_large},
            "default schedule of case 'square' on sm_80 is not legal: rows 256 > 128 for m=4",
        ),
    ],
)
def test_a_malformed_spec_says_what_is_wrong(kwargs, told):
    with pytest.raises(ValueError, match=told):
        spec(**kwargs)


def test_a_field_of_the_schedule_may_not_be_called_like_a_dim():
    with pytest.raises(
        ValueError, match=r"rows names both a field of Tile\(rows=128\) and a dim or flag of case 'square'"
    ):
        spec(cases=(case(dims={"rows": 3}),), default_schedule=lambda: Tile(), legal=refuse_large)


def test_the_four_first_fields_suffice():
    small = spec()
    assert small.schedule_for(small.cases[0], arch("sm_80")) is None
    assert small.cost_of(small.cases[0]) is None
    small.check_schedule(None, small.cases[0], arch("sm_80"))
    assert small.test_id(small.cases[0]) == "row-softmax-square"


def test_functions_get_what_they_ask_for():
    asked = []
    full = spec(
        cases=[case(flags={"causal": True})],
        default_schedule=lambda arch, m: Tile(64 if arch.name == "sm_80" else m),
        legal=lambda rows, schedule, dtype, causal: asked.append((rows, schedule, dtype, causal)),
        cost=lambda m, n: Cost(2 * m * n, m + n),
        arches=["sm_80", "sm_90a"],
    )
    assert asked == [(64, Tile(64), "float16", True), (4, Tile(4), "float16", True)]
    assert full.cost_of(full.cases[0]) == Cost(64, 12)
    assert full.arches == ("sm_80", "sm_90a")


ASKING = {
    "by name": lambda rows, m, arch: {"rows": rows, "m": m, "arch": arch.name},
    "as one": lambda schedule, pass_configs: {"rows": schedule.rows, "options": dict(pass_configs)},
    "by keyword": lambda *, dtype, case: {"dtype": dtype, "case": case.id},
    "with a default": lambda rows, unknown=3: {"rows": rows, "unknown": unknown},
    "for all": lambda **names: {"rows": names["rows"], "options": dict(names["pass_configs"])},
    "for more": lambda *rest, rows: {"rest": rest, "rows": rows},
}
"""Ways to write `legal`, which give what they were given."""


@pytest.mark.parametrize("how", ASKING)
def test_many_schedules_are_judged_as_one_is(how):
    """However `legal` asks for it, it gets the same of one schedule as of one among thousands."""
    seen = []

    @functools.wraps(ASKING[how])
    def legal(*args, **kwargs):
        seen.append(ASKING[how](*args, **kwargs))
        if seen[-1].get("rows", 0) > 128:
            raise ValueError("rows > 128")

    full = spec(**TILED, legal=legal, pass_configs={"a": 1})
    row, hopper, options = full.cases[0], arch("sm_90a"), {"b": 2}
    judge = full.judge(row, hopper, Tile(1))
    for schedule in (Tile(1), Tile(64)):
        judge(schedule, options)
        full.check_schedule(schedule, row, hopper, options)
        assert seen[-1] == seen[-2]
        assert seen[-1].get("rows", schedule.rows) == schedule.rows
        assert seen[-1].get("options", {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    if "rows" in seen[-1]:
        for check in (judge, lambda schedule, options: full.check_schedule(schedule, row, hopper, options)):
            with pytest.raises(ValueError, match="rows > 128"):
                check(Tile(256), options)


def test_what_legal_asks_for_and_nobody_knows_is_told():
    def legal(depth):
        raise AssertionError(depth)

    with pytest.raises(
        ValueError, match=r"legal asks for depth, which is not known here; known: m, n, dtype"
    ):
        spec(**TILED, legal=legal)


def test_landmarks_join_the_common_ones_or_take_the_place_of_one():
    hopper = arch("sm_90a")
    assert spec().landmarks_of(case(), hopper) == common(hopper)
    spilling = absent("no-spills", "spill_stores", "loads are let pass")
    full = spec(
        **TILED, landmarks=lambda rows, arch: (spilling, present("tensor-cores", f"HMMA.{rows}", arch.name))
    )
    found = {landmark.id: landmark for landmark in full.landmarks_of(case(), hopper)}
    assert found["no-spills"] == spilling
    assert found["tensor-cores"] == present("tensor-cores", "HMMA.128", "sm_90a")
    assert len(found) == len(common(hopper)) + 1
    assert full.landmarks_of(case(), hopper, Tile(64))[-1].fact == "HMMA.64"


def test_shared_memory_is_predicted_of_a_schedule():
    assert spec().shared_memory_of(case(), arch("sm_80")) is None
    full = spec(**TILED, shared_memory=lambda rows, n, pass_configs: rows * n + len(pass_configs))
    assert full.shared_memory_of(case(), arch("sm_80")) == 1024
    assert full.shared_memory_of(case(), arch("sm_80"), Tile(2), {"tl.enable_fast_math": True}) == 17


def test_code_is_looked_at_of_the_first_four_cases_or_of_those_named():
    several = [case(f"case-{i}") for i in range(6)]
    assert spec(cases=several).cases_of_code == tuple(several[:4])
    assert spec(cases=several, code_cases=["case-5", "case-0"]).cases_of_code == (several[5], several[0])


def test_an_unknown_case_is_told_which_there_are():
    with pytest.raises(ValueError, match="'row_softmax' has no case 'sqare'; it has square"):
        spec().case("sqare")
    assert spec().case("square").id == "square"


def test_call_by_name():
    names = {"a": 1, "b": 2}
    assert call_by_name(lambda b, c=5: (b, c), names) == (2, 5)
    assert call_by_name(lambda **kwargs: kwargs, names) == names

    def wants(a, missing):
        raise AssertionError

    with pytest.raises(ValueError, match="wants asks for missing, which is not known here; known: a, b"):
        call_by_name(wants, names)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Cost(-1, 0), "flops=-1 bytes=0"),
        (lambda: Cost(0, float("nan")), "flops=0 bytes=nan"),
        (lambda: Term("cast of P", -0.5, 1), "'cast of P': coefficient -0.5 is not >= 0"),
        (lambda: Term("cast of P", float("nan"), 1), "coefficient nan"),
        (lambda: Reference(1, (Term("cast of P", 1, 1),), exact=True), r"got \['cast of P'\]"),
    ],
)
def test_malformed_costs_terms_and_references_say_what_is_wrong(make, told):
    with pytest.raises(ValueError, match=told):
        make()


def test_terms_given_as_a_list_become_a_tuple_and_none_stays_none():
    term = Term("cast of P", 1, 1)
    assert Reference(1, [term]).terms == (term,)
    assert Reference(1).terms is None
    assert Reference(1, exact=True).terms is None


@pytest.mark.parametrize(
    ("capability", "name"), [((8, 0), "sm_80"), ((8, 6), "sm_89"), ((9, 0), "sm_90a"), ((12, 1), "sm_120a")]
)
def test_a_gpu_runs_the_code_of_an_architecture(capability, name):
    assert arch_of_capability(*capability).name == name


def test_an_old_gpu_is_refused_with_what_there_is():
    with pytest.raises(ValueError, match=r"7\.5 is not supported; supported: 8\.0 \(sm_80\)"):
        arch_of_capability(7, 5)


def test_dtypes_agree_with_torch():
    torch = pytest.importorskip("torch")
    for name in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        ours, theirs = dtype(name), torch.finfo(getattr(torch, name))
        assert (ours.bits, ours.largest, ours.smallest_normal) == (
            theirs.bits,
            theirs.max,
            theirs.smallest_normal,
        )
        assert 2 * ours.unit == theirs.eps
        assert ours.floating
    for name in ("int64", "int32", "int16", "int8", "uint8"):
        assert (dtype(name).bits, dtype(name).unit) == (torch.iinfo(getattr(torch, name)).bits, 0)
        assert dtype(name).largest == float(torch.iinfo(getattr(torch, name)).max) or name == "int64"


def test_specs_need_no_tensor_library():
    code = (
        "import sys, tilecheck.spec; print([m for m in ('torch', 'tilelang', 'numpy') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_a_grid_may_be_given_as_any_several_values():
    tiled = spec(**TILED, grid={"rows": range(8, 33, 8), "pass_configs": [{}]}, grid_cases=["square"])
    assert dict(tiled.grid) == {"rows": (8, 16, 24, 32), "pass_configs": ({},)}
    assert tiled.grid_cases == ("square",)
    with pytest.raises(TypeError):
        tiled.grid["rows"] = (1,)
