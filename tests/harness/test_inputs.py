"""Draws: the same for the same test and seed, whatever else happens, and discriminating where they say so."""

import pytest
import torch

from tilecheck import inputs
from tilecheck.arches import arch
from tilecheck.hostile import hostile
from tilecheck.inputs import draw_inputs, scalars, seed_of
from tilecheck.program import Parameter, Program
from tilecheck.spec import HOSTILE_DRAWS, Case, KernelSpec

FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int64", "int32", "int16", "int8", "uint8"]


def program(parameters, draw="normal", draws=None, dims=None):
    """A program as draws see it: no code, only parameters; each is (name, dtype, shape[, role])."""
    case = Case("some-case", dims or {"m": 4}, "float16", {"causal": True}, "some branch", draw)
    spec = KernelSpec("some_kernel", lambda: None, lambda: None, [case], draws=draws or {})
    made = tuple(
        Parameter(name, dtype, role[0] if role else "input", shape)
        for name, dtype, shape, *role in parameters
    )
    return Program(spec, spec.cases[0], arch("sm_90a"), None, None, made)


def product(m, k, n, dtype="float16", draw="normal", seed=1):
    drawn = draw_inputs(program([("A", dtype, (m, k)), ("B", dtype, (k, n))], draw), seed)
    return drawn["A"], drawn["B"]


def test_seeds_are_for_ever():
    assert seed_of("matmul-square-fp16", 7) == 1112314842687606578


def test_seeds_differ_by_test_and_by_run():
    seeds = {seed_of(test, run) for test in ("a", "b", "1:a") for run in (0, 1, 11)}
    assert len(seeds) == 9
    assert all(0 <= s < 2**63 for s in seeds)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, "bool"])
@pytest.mark.parametrize("draw", ["normal", "integers", "one-hot", "cancelling"])
def test_every_dtype_has_every_draw_and_repeats_it(name, draw):
    p = program([("A", name, (6, 33)), ("B", name, (33, 5)), ("v", name, (7,))], draw)
    once, again, other = draw_inputs(p, 3), draw_inputs(p, 3), draw_inputs(p, 4)
    assert {n: (t.dtype, tuple(t.shape)) for n, t in once.items()} == {
        q.name: (getattr(torch, name), q.shape) for q in p.parameters
    }
    same = {n: torch.equal(once[n].double(), again[n].double()) for n in once}
    assert all(same.values())
    assert not all(torch.equal(once[n].double(), other[n].double()) for n in once)
    assert all(torch.isfinite(t.double()).all() for t in once.values())


def test_normal_floats_are_normal_and_integers_small():
    p = program(
        [
            ("x", "float16", (1000, 100)),
            ("i", "int32", (1000,)),
            ("u", "uint8", (1000,)),
            ("b", "bool", (1000,)),
        ]
    )
    drawn = draw_inputs(p, 0)
    assert abs(float(drawn["x"].float().mean())) < 0.02
    assert abs(float(drawn["x"].float().std()) - 1) < 0.02
    assert (drawn["i"].min(), drawn["i"].max()) == (-8, 8)
    assert (drawn["u"].min(), drawn["u"].max()) == (0, 16)
    assert 400 < int(drawn["b"].sum()) < 600


def test_a_parameter_more_does_not_change_the_others():
    torch.rand(5)
    few = draw_inputs(program([("A", "float16", (8, 8))]), 1)
    torch.manual_seed(99)
    more = draw_inputs(
        program([("Z", "float16", (8, 8)), ("A", "float16", (8, 8)), ("C", "float16", (8, 8), "output")]), 1
    )
    assert torch.equal(few["A"], more["A"])
    assert not torch.equal(more["A"], more["Z"])
    assert set(more) == {"A", "Z"}


def test_inout_parameters_are_drawn():
    drawn = draw_inputs(program([("C", "float32", (4,), "inout"), ("out", "float32", (4,), "output")]), 1)
    assert set(drawn) == {"C"}


@pytest.mark.parametrize("k", [16, 64, 1000, 4096, 16384])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_integer_sums_pass_2_to_the_11_and_stay_exact_in_fp32(k, name):
    a, b = product(24, k, 40, name, "integers")
    assert torch.equal(a.double(), a.double().round())
    sums = a.double() @ b.double()
    assert sums.abs().max() > 2**11
    assert (a.double().abs() @ b.double().abs()).max() < 2**24
    assert sums.abs().max() < 65504  # fits a float16 output
    assert torch.equal(sums, (a.float() @ b.float()).double())


def test_one_hot_picks_each_row_of_the_other_operand_the_last_one_first():
    a, b = product(10, 7, 5, draw="one-hot")
    assert ((a != 0).sum(1) == 1).all()
    assert a.argmax(1).tolist() == [6, 0, 1, 2, 3, 4, 5, 6, 0, 1]
    assert torch.equal((a.double() @ b.double())[:2], 16 * b.double()[[6, 0]])


def test_one_hot_fills_the_first_floating_input():
    p = program([("index", "int32", (8,)), ("x", "float16", (4, 8))], "one-hot")
    drawn = draw_inputs(p, 0)
    assert ((drawn["x"] != 0).sum(1) == 1).all()
    assert (drawn["index"] != 0).sum() > 1


@pytest.mark.parametrize("transposed", [False, True])
def test_cancelling_sums_grow_and_then_cancel_in_either_layout(transposed):
    k = 512
    shapes = ((k, 8), (8, k)) if transposed else ((8, k), (k, 8))
    drawn = draw_inputs(program([("A", "float16", shapes[0]), ("B", "float16", shapes[1])], "cancelling"), 1)
    a, b = (t.double().T if transposed else t.double() for t in drawn.values())
    half = (a[:, : k // 2] @ b[: k // 2]).abs()
    assert half.min() > k / 2
    assert (a @ b).abs().max() < half.min() / 5


def test_a_draw_of_the_spec_replaces_what_it_names():
    def spike(x, m, causal, rng):
        assert causal
        assert x.dtype == torch.float16
        x = torch.zeros(x.shape)
        x[m - 1, int(torch.randint(0, 5, (), generator=rng))] = 100.0
        return {"x": x}

    p = program([("x", "float16", (4, 5)), ("y", "float16", (4, 5))], "spike", {"spike": spike})
    drawn = draw_inputs(p, 5)
    assert (drawn["x"].dtype, int((drawn["x"] != 0).sum())) == (torch.float16, 1)
    assert torch.equal(drawn["y"], draw_inputs(program([("y", "float16", (4, 5))]), 5)["y"])
    assert torch.equal(drawn["x"], draw_inputs(p, 5)["x"])


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ({"z": torch.zeros(4, 5)}, "returns 'z', which is no input; inputs: x"),
        ({"x": torch.zeros(5, 4)}, r"gives x shape \[5, 4\], not \[4, 5\]"),
    ],
)
def test_a_draw_that_does_not_fit_is_the_authors_error(returned, told):
    p = program([("x", "float16", (4, 5))], "odd", {"odd": lambda: returned})
    with pytest.raises(ValueError, match=told):
        draw_inputs(p, 1)


def test_scalars_come_from_dims_and_flags():
    p = program([("x", "float16", (4,)), ("m", "int32", None, "scalar"), ("causal", "bool", None, "scalar")])
    assert scalars(p) == {"m": 4, "causal": True}
    with pytest.raises(
        ValueError, match="'some-case' gives no dim or flag for the scalar parameter eps; it has m, causal"
    ):
        scalars(program([("eps", "float32", None, "scalar")]))


@pytest.mark.parametrize("draw", ["normal", "integers", "one-hot", "cancelling"])
def test_tensors_without_elements_are_drawn(draw):
    drawn = draw_inputs(
        program([("A", "float16", (0, 8)), ("B", "float16", (8, 0)), ("s", "float16", ())], draw), 1
    )
    assert [tuple(t.shape) for t in drawn.values()] == [(0, 8), (8, 0), ()]


def test_large_tensors_are_drawn_where_they_are_used(monkeypatch):
    used = []
    generator = torch.Generator

    def recorded(device="cpu"):
        used.append(torch.device(device).type)
        return generator("cpu")

    monkeypatch.setattr(inputs, "DRAWN_ON_CPU", 100)
    monkeypatch.setattr(torch, "Generator", recorded)
    monkeypatch.setattr(torch, "randn", lambda shape, **_: torch.zeros(shape))
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *_, **__: self)
    draw_inputs(program([("small", "float32", (10, 10)), ("large", "float32", (10, 11))]), 1, "meta")
    assert used == ["cpu", "meta"]


class TestHostile:
    """Each draw is what its name says, in the places where it says."""

    def drawn(self, draw: str, dtype: str = "float16") -> tuple[torch.Tensor, torch.Tensor]:
        normal = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
        return hostile(draw, normal, True, False), hostile(draw, normal, False, True)

    @pytest.mark.parametrize("draw", HOSTILE_DRAWS)
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_any_shape_and_type_will_do(self, draw: str, dtype: str) -> None:
        for shape in ((), (0, 8), (1,), (1, 1), (2, 3, 5)):
            normal = torch.ones(shape).to(getattr(torch, dtype))
            changed = hostile(draw, normal, True, True)
            assert (changed.shape, changed.dtype) == (normal.shape, normal.dtype)
            assert (normal.float() == 1).all()

    def test_infinities_and_nan_are_few_and_in_their_rows(self) -> None:
        first, last = self.drawn("infinite")
        assert first.isinf().sum(1).tolist() == [1, 1, 2, 0]
        assert first[0].max() == torch.inf
        assert first[1].min() == -torch.inf
        assert last.isfinite().all()
        first, last = self.drawn("nan")
        assert first.isnan().sum(1).tolist() == [0, 1, 0, 0]
        first, last = self.drawn("nan-last")
        assert first.isfinite().all()
        assert last.isnan().nonzero().tolist() == [[3, 7]]

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
    def test_denormals_are_below_the_normal_range_and_not_zero(self, dtype: str) -> None:
        first, _ = self.drawn("denormal", dtype)
        size = first.double().abs()
        assert (size < torch.finfo(first.dtype).smallest_normal).all()
        assert (size > 0).sum() > 28

    def test_the_others(self) -> None:
        assert self.drawn("largest")[0].abs().amax(1).tolist()[:2] == [65504, 65504]
        assert torch.signbit(self.drawn("negative-zero")[0]).all()
        assert [t.unique().tolist() for t in self.drawn("equal")] == [[0.75], [0.75]]
        first, last = self.drawn("alternating")
        assert first.sum() == 0
        assert last.unique().tolist() == [0.75]
