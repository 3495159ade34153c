"""The oracle accepts every result that right roundings can give, and no other."""

import math

import pytest
import torch

from tilecheck.dtypes import DTYPES, dtype
from tilecheck.oracle import judge
from tilecheck.spec import Reference, Term

hypothesis = pytest.importorskip("hypothesis", reason="wants the extra: pip install -e .[test]")
st = hypothesis.strategies

FLOATS = [d for d in DTYPES.values() if d.floating]
WIDE = [d.name for d in FLOATS if d.bits > 8]
FP8 = [d.name for d in FLOATS if d.bits == 8]


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def stored(x, name):
    """`x` (a float32 number, for a narrow dtype) rounded to nearest into the dtype."""
    return torch.tensor([x], dtype=torch.float64).to(getattr(torch, name))


def exact_inputs(name):
    """Every finite number of a kernel's accumulator, those that overflow the output included."""
    return st.floats(allow_nan=False, allow_infinity=False, width=64 if name == "float64" else 32)


@pytest.mark.parametrize("name", [d.name for d in FLOATS])
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_a_correctly_rounded_value_passes(name, data):
    x = data.draw(exact_inputs(name))
    verdict = judge(stored(x, name), Reference(f64(x), terms=()))
    assert verdict.ok, verdict.lines("C")
    assert verdict.budget_used <= 1


@pytest.mark.parametrize("name", [d.name for d in FLOATS])
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_a_value_moved_by_the_terms_and_then_rounded_passes(name, data):
    limit = min(1e30, 4 * dtype(name).largest)
    x = data.draw(st.floats(-limit, limit))
    moved = data.draw(st.floats(0, abs(x) + 1))
    share = data.draw(st.floats(-1, 1))
    reference = Reference(f64(x), terms=(Term("accumulation", 0.25, f64(4 * moved)),))
    out = stored(torch.tensor(x + share * moved, dtype=torch.float32).item(), name)
    # float32 itself rounds, and has a smallest number; that is one more term.
    reference = Reference(f64(x), (*reference.terms, Term("fp32", 2.0**-24, f64(abs(x) + moved + 2.0**-126))))
    verdict = judge(out, reference)
    assert verdict.ok, verdict.lines("C")


@pytest.mark.parametrize("name", WIDE)
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_a_value_beyond_the_bound_fails(name, data):
    kind = dtype(name)
    x = data.draw(st.floats(-kind.largest / 8, kind.largest / 8))
    moved = data.draw(st.floats(0, kind.largest / 16))
    bound = (
        kind.unit * (abs(x) + moved)
        + moved
        + kind.unit * kind.smallest_normal
        + min(2.0**-126, kind.smallest_normal)
    )
    sign = data.draw(st.sampled_from([-1, 1]))
    # The next value of the dtype past the bound, and then some.
    wrong = x + sign * bound * (1 + data.draw(st.floats(1e-6, 0.5)))
    out = stored(wrong, name)
    if abs(float(out.double()) - x) <= bound:  # rounded back into it
        return
    verdict = judge(out, Reference(f64(x), (Term("accumulation", 1.0, f64(moved)),)))
    assert not verdict.ok
    assert verdict.budget_used > 1
    assert verdict.bound == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("name", [d.name for d in FLOATS])
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_one_step_off_fails_where_nothing_but_the_store_rounds(name, data):
    kind, torch_dtype = dtype(name), getattr(torch, name)
    bits = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[kind.bits]
    x = data.draw(
        st.floats(
            kind.smallest_normal * 8 / kind.unit, kind.largest / 4, width=64 if name == "float64" else 32
        )
    )
    out = stored(x, name)
    x = float(out.double())  # a value of the dtype, which the kernel had to keep
    step = data.draw(st.sampled_from([-1, 1]))
    off = (out.view(bits) + 2 * step).view(torch_dtype)
    assert not judge(off, Reference(f64(x), terms=())).ok


@pytest.mark.parametrize("name", [d.name for d in FLOATS])
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_a_correctly_rounded_value_takes_none_of_the_terms(name, data):
    x = data.draw(exact_inputs(name))
    moved = data.draw(st.sampled_from([0.0, 1e-30, 1.0]))
    assert judge(stored(x, name), Reference(f64(x), (Term("t", 1.0, f64(moved)),))).terms_used == 0


@pytest.mark.parametrize("name", [d.name for d in FLOATS])
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_a_value_moved_by_a_share_of_the_terms_takes_no_more_of_them(name, data):
    x = data.draw(st.floats(-dtype(name).largest / 4, dtype(name).largest / 4))
    moved = data.draw(st.floats(1e-6, 1)) * abs(x)
    share = data.draw(st.floats(-1, 1))
    out = stored(x + share * moved, name)
    verdict = judge(out, Reference(f64(x), (Term("t", 1.0, f64(moved)),)))
    # The sum in float64 rounds, too, by 2^-53 of x and so by up to 2^-33 of the terms.
    assert verdict.terms_used <= abs(share) + 2.0**-32
    # What the store moved it on is not counted, so it takes less than that by one rounding at most.
    spacing = 2 * dtype(name).unit * max(abs(float(out.double())), dtype(name).smallest_normal)
    assert verdict.terms_used >= abs(share) - (spacing + 2.0**-126) / max(moved, 1e-300) - 2.0**-32


@pytest.mark.parametrize(
    ("value", "got", "apart"),
    [
        # float16: 1 is a power of two, so that its cell reaches half as far down as up.
        (1 + 2.0**-11, 1.0, 0.0),
        (1 + 3 * 2.0**-11, 1.0, 2 * 2.0**-11),
        (1 - 2.0**-12, 1.0, 0.0),
        (1 - 2.0**-11, 1.0, 2.0**-12),
        (-1 + 2.0**-11, -1.0, 2.0**-12),
        (1.5, -1.0, 2.5 - 2.0**-12),
        # Zero, of either sign, and subnormals, which are 2^-24 apart.
        (2.0**-24, 0.0, 2.0**-25),
        (2.0**-24, -0.0, 2.0**-25),
        (-(2.0**-24), 0.0, 2.0**-25),
        (2.0**-23, 2.0**-24, 2.0**-25),
        (2.0**-14 - 2.0**-24, 2.0**-14, 2.0**-25),
        # The largest finite value, and what overflows.
        (65520.0, 65504.0, 0.0),
        (65536.0, 65504.0, 16.0),
        (65500.0, math.inf, 20.0),
        (1e9, math.inf, 0.0),
        (math.inf, math.inf, 0.0),
        (-math.inf, -math.inf, 0.0),
        (math.nan, math.nan, 0.0),
        (1.0, math.nan, math.inf),
        (1.0, -math.inf, math.inf),
        (math.inf, 65504.0, math.inf),
    ],
)
def test_what_it_takes_of_the_terms_is_the_distance_to_the_rounding_cell(value, got, apart):
    magnitude = 32.0
    reference = Reference(f64(0.0, value), (Term("t", 1.0, f64(1.0, magnitude)),))
    verdict = judge(torch.tensor([0.0, got], dtype=torch.float16), reference)
    assert verdict.terms_used == pytest.approx(apart / magnitude, abs=2.0**-120)


def test_open_elements_take_none_of_the_terms():
    value, is_open = f64(1.0, 2.0), torch.tensor([True, False])
    assert judge(torch.tensor([5.0, 2.0]), Reference(value, (), open=is_open)).terms_used == 0
    assert judge(torch.tensor([1.0, 5.0]), Reference(value, (), open=is_open)).terms_used == math.inf


def test_exact_comparisons_take_all_or_nothing():
    right = torch.tensor([1, 2])
    assert judge(right, Reference(right)).terms_used == 0
    assert judge(right + 1, Reference(right)).terms_used == math.inf


def test_of_an_empirical_bound_too_the_rounding_is_not_counted():
    reference, low = Reference(f64(1.0, 2.0)), torch.tensor([1.0, 2.25])
    verdict = judge(torch.tensor([1.1, 2.0]), reference, low)
    assert verdict.terms_used == pytest.approx(0.1 / 0.5, rel=1e-6)


@pytest.mark.parametrize("name", FP8)
def test_float8_one_code_off_fails_and_says_how_many_steps(name):
    out = torch.tensor([[1.0, 2.0, 3.0]]).to(getattr(torch, name))
    right = out.double()
    assert judge(out, Reference(right, ())).ok
    out.view(torch.uint8)[0, 1] += 1
    verdict = judge(out, Reference(right, ()))
    assert verdict.misses.count == 1
    assert verdict.index == (0, 1)
    assert verdict.steps == (1, 0, 0)
    assert verdict.budget_used == 2
    assert "+1 code steps, where +0 to +0 are allowed" in "\n".join(verdict.lines("C"))
    assert judge(out, Reference(right, (Term("scale", 0.2, right),))).ok


@pytest.mark.parametrize("name", FP8)
def test_float8_every_code_is_accepted_for_itself_and_refused_for_its_neighbours(name):
    out = torch.arange(256, dtype=torch.uint8).view(getattr(torch, name))
    finite = torch.isfinite(out.double())
    assert judge(out, Reference(out.double(), ())).ok
    values = out[finite].double().unique()  # -0.0 and 0.0 count as one
    below = values[:-1].to(out.dtype)
    verdict = judge(below, Reference(values[1:], ()))
    assert verdict.misses.count == len(values) - 1


@pytest.mark.parametrize(("name", "largest"), [("float8_e4m3fn", 448.0), ("float8_e5m2", 57344.0)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_float8_overflow_may_saturate_or_not(name, largest, sign):
    limit = torch.tensor([sign * largest]).to(getattr(torch, name))
    beyond = 0x7F if name == "float8_e4m3fn" else 0x7C  # NaN in the format without infinity
    wild = torch.tensor([beyond | (0x80 if sign < 0 else 0)], dtype=torch.uint8).view(limit.dtype)
    for value in (sign * largest * 2, sign * math.inf):
        assert judge(limit, Reference(f64(value), ())).ok
        assert judge(wild, Reference(f64(value), ())).ok
        assert not judge((-limit.float()).to(limit.dtype), Reference(f64(value), ())).ok
    for value in (sign * largest, sign * 1.0):
        assert not judge(wild, Reference(f64(value), ())).ok


HALFWAY = 65520.0  # of float16: between its largest finite value 65504 and 65536


@pytest.mark.parametrize(
    ("value", "moved", "got", "ok"),
    [
        (65519.0, 0.0, math.inf, False),
        (65519.0, 0.0, 65504.0, True),
        (HALFWAY, 0.0, math.inf, True),
        (HALFWAY, 0.0, -math.inf, False),
        (65500.0, 25.0, math.inf, True),
        (65500.0, 15.0, math.inf, False),
        (-65500.0, 25.0, -math.inf, True),
        (-65500.0, 25.0, math.inf, False),
        (1e6, 0.0, math.inf, True),
        (1e6, 0.0, 65504.0, False),
        (1e6, 1e6, 65504.0, True),
        (65500.0, 25.0, math.nan, False),
        (math.inf, 0.0, math.inf, True),
        (math.inf, 0.0, -math.inf, False),
        (math.inf, 0.0, 65504.0, False),
        (math.nan, 0.0, math.nan, True),
        (math.nan, 0.0, 0.0, False),
        (math.nan, 0.0, math.inf, False),
        (0.0, 0.0, math.nan, False),
        (0.0, 0.0, -math.inf, False),
    ],
)
def test_infinity_and_nan_stand_where_the_value_has_them(value, moved, got, ok):
    out = torch.tensor([1.0, got], dtype=torch.float16)
    verdict = judge(out, Reference(f64(1.0, value), (Term("accumulation", 1.0, f64(0.0, moved)),)))
    assert verdict.ok == ok
    if not ok:
        assert verdict.index == (1,)
        finite = math.isfinite(value) and math.isfinite(got)
        told = "\n".join(verdict.lines("C"))
        if "largest absolute error" in told:  # which leaves out NaN and infinity, and says so
            assert ("of the finite elements" in told) != finite


def test_open_elements_may_hold_anything():
    out = torch.tensor([[1.0, math.nan], [math.inf, 2.0]])
    value = torch.tensor([[1.0, 0.0], [math.nan, 2.0]], dtype=torch.float64)
    is_open = torch.tensor([[False, True], [True, False]])
    assert not judge(out, Reference(value, ())).ok
    assert judge(out, Reference(value, (), open=is_open)).ok
    assert judge(out, Reference(value, (Term("scores", 1.0, value),), open=is_open)).ok
    out[1, 1] = 3.0
    assert judge(out, Reference(value, (), open=is_open)).misses.first == (1, 1)


def test_zeros_do_not_pass_for_the_small_values_of_a_long_softmax():
    value = torch.full((2, 1 << 15), 2.0**-15, dtype=torch.float64)
    verdict = judge(torch.zeros(value.shape, dtype=torch.float16), Reference(value, ()))
    assert verdict.misses.count == value.numel()


def test_what_fp32_flushes_to_zero_passes():
    value = f64(2.0**-127, -(2.0**-130))
    assert judge(torch.zeros(2), Reference(value, ())).ok
    assert not judge(torch.zeros(2), Reference(value * 8, ())).ok


@pytest.mark.parametrize("name", ["float32", "float16", "float8_e4m3fn"])
def test_exact_references_are_compared_bit_for_bit(name):
    out = torch.tensor([[0.0, 1.0], [-2.0, math.nan]]).to(getattr(torch, name))
    assert judge(out, Reference(out.clone(), exact=True)).ok
    assert judge(out, Reference(out.double(), exact=True)).ok
    value = out.double()
    value[0, 0] = -0.0
    verdict = judge(out, Reference(value, exact=True))
    assert verdict.misses.count == 1
    assert verdict.budget_used == math.inf
    assert "worst at [0, 0]: got 0, want -0, to agree in every bit" in "\n".join(verdict.lines("C"))


@pytest.mark.parametrize("name", ["int64", "int32", "int16", "int8", "uint8", "bool"])
def test_integers_are_compared_exactly_whatever_the_reference_says(name):
    out = torch.tensor([0, 1, 1, 0]).to(getattr(torch, name))
    assert judge(out, Reference(out.clone())).ok
    wrong = out.clone()
    wrong[2] = 0
    verdict = judge(wrong, Reference(out))
    assert (verdict.misses.first, verdict.got, verdict.want) == ((2,), 0, 1)
    if name == "int64":
        big = torch.tensor([2**53 + 1])
        assert not judge(big, Reference(big - 1)).ok


def test_a_bool_that_is_neither_0_nor_1_is_wrong():
    out = torch.tensor([165, 1], dtype=torch.uint8).view(torch.bool)
    verdict = judge(out, Reference(torch.tensor([True, True])))
    assert verdict.misses.count == 1
    assert verdict.got == 165


def test_an_exact_value_that_the_dtype_does_not_have_is_the_authors_error():
    with pytest.raises(ValueError, match=r"value 0.1 at \[1\] does not exist in float16"):
        judge(torch.zeros(2, dtype=torch.float16), Reference(f64(0.0, 0.1), exact=True))


def test_fp16_accumulation_and_a_dropped_element_of_k_are_rejected_at_k_16384():
    torch.manual_seed(0)
    k = 16384
    a, b = torch.randn(8, k).half(), torch.randn(k, 8).half()
    value = a.double() @ b.double()
    steps = (k / 16 + 4) * 2 * 2.0**-24
    reference = Reference(value, (Term("fp32 accumulation", steps, a.double().abs() @ b.double().abs()),))

    def accumulated(dtype, k=k):
        total = torch.zeros(8, 8, dtype=dtype)
        for i in range(0, k, 16):
            total = (total.float() + a[:, i : i + 16].float() @ b[i : i + 16].float()).to(dtype)
        return total

    right = judge(accumulated(torch.float32), reference)
    assert right.ok
    assert right.budget_used < 0.7
    half = judge(accumulated(torch.float16), reference)
    assert not half.ok
    assert half.budget_used > 2
    short = a.float()[:, :-1] @ b.float()[:-1]
    assert not judge(short, reference).ok


def test_no_share_of_the_elements_may_miss():
    value = torch.ones(1000, 100, dtype=torch.float64)
    out = value.float()
    out[777, 3] = 1.001
    verdict = judge(out, Reference(value, ()))
    assert verdict.misses.count == 1
    assert verdict.index == (777, 3)


def test_misses_are_counted_and_boxed_across_chunks(monkeypatch):
    value = torch.ones(3, 200, 64, dtype=torch.float64)
    out = value.float()
    out[1:, 64:128, :32] = 2.0
    out[2, 100, 5] = 7.0
    whole = judge(out, Reference(value, ()))
    monkeypatch.setattr("tilecheck.regions.chunks.__defaults__", (100,))
    chunked = judge(out, Reference(value, ()))
    assert chunked == whole
    assert whole.misses.count == 2 * 64 * 32
    assert whole.misses.first == (1, 64, 0)
    assert whole.index == (2, 100, 5)
    assert (
        str(whole.misses)
        == "first at [1, 64, 0]; they lie in axis 0 at 1..2, rows 64..127, columns 0..31 (all 4096 there)"
    )


def test_errors_are_reported_whole():
    value = f64(3.0, 4.0)
    verdict = judge(
        torch.tensor([3.0, 4.5]),
        Reference(value, (Term("a", 1.0, f64(1.0, 1.0)), Term("b", 0.5, f64(0.0, 2.0)))),
    )
    assert verdict.ok
    assert verdict.max_abs_error == 0.5
    assert verdict.relative_error == pytest.approx(0.1)
    assert verdict.budget_used == pytest.approx(0.25, rel=1e-5)
    assert dict(verdict.shares) == {
        "rounding to float32": 2.0**-24 * 6,
        "a": 1.0,
        "b": 1.0,
        "subnormals": pytest.approx(2.0**-126),
    }


def test_terms_broadcast_like_rows_and_columns():
    value = torch.zeros(4, 6, dtype=torch.float64)
    rows = torch.arange(4.0).double()[:, None]
    assert judge(torch.arange(4.0)[:, None].expand(4, 6), Reference(value, (Term("rows", 1.0, rows),))).ok
    with pytest.raises(ValueError, match=r"magnitude of shape \[4\] does not broadcast to \[4, 6\]"):
        judge(value.float(), Reference(value, (Term("rows", 1.0, rows[:, 0]),)))


def test_empirical_bound_is_twice_the_largest_error_of_the_low_precision_run():
    value = f64(1.0, 2.0, 100.0)
    low = torch.tensor([1.0, 2.0, 100.5])
    reference = Reference(value)
    assert judge(torch.tensor([1.9, 2.0, 100.0]), reference, low).ok
    verdict = judge(torch.tensor([2.1, 2.0, 100.0]), reference, low)
    assert not verdict.ok
    assert verdict.empirical
    assert "empirical bound there: 1 = " in "\n".join(verdict.lines("C"))
    # A run that comes out right by luck does not ask a kernel for more than the dtype can hold.
    assert judge(torch.tensor([1.0, 2.0, 100.00001]), reference, value.float()).ok
    with pytest.raises(ValueError, match="no error terms"):
        judge(value.float(), reference)


def test_an_output_without_elements_is_right():
    verdict = judge(torch.zeros(0, 7), Reference(torch.zeros(0, 7, dtype=torch.float64), ()))
    assert verdict.ok
    assert verdict.budget_used == 0
    assert verdict.index is None
    assert verdict.lines("C") == ["C: no elements"]


def test_a_scalar_output():
    value = torch.tensor(2.0, dtype=torch.float64)
    assert judge(torch.tensor(2.0), Reference(value, ())).ok
    verdict = judge(torch.tensor(3.0), Reference(value, ()))
    assert verdict.lines("C")[0] == "C: 1 of 1 element wrong, at []"


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        (Reference(torch.zeros(3, dtype=torch.float64), ()), r"shape \[3\], the output \[2\]"),
        (Reference(torch.zeros(2), ()), "torch.float32; it has to be computed in float64"),
        (Reference(f64(0, 0), (Term("t", 1.0, f64(1, -1)),)), r"'t' is -1.0 at \[1\]"),
        (Reference(f64(0, 0), (Term("t", 1.0, f64(1, math.nan)),)), r"'t' is nan at \[1\]"),
        (Reference(f64(0, 0), (Term("t", 1.0, f64(math.inf, 0)),)), r"'t' is inf at \[0\]"),
        (Reference(f64(0, 0), (), open=torch.tensor([0, 1])), "not boolean"),
    ],
)
def test_an_unusable_reference_is_the_authors_error(reference, told):
    with pytest.raises(ValueError, match=told):
        judge(torch.zeros(2), reference)


def test_a_failure_reads_so():
    value = torch.zeros(100, 128, dtype=torch.float64)
    value[:, :] = 1.25
    out = value.half()
    out[64:, 32:64] = 1.5
    reference = Reference(value, (Term("fp32 accumulation over 4 steps", 2.0**-20, value.abs() * 64),))
    assert judge(out, reference).lines("C") == [
        "C: 1152 of 12800 elements wrong, first at [64, 32]; "
        "they lie in rows 64..99, columns 32..63 (all 1152 there)",
        "  worst at [64, 32]: got 1.5, want 1.25, error 0.25 is 364 times the bound",
        "  bound there: 0.000687 = 0.00061 (rounding to float16) + 7.63e-05 (fp32 accumulation over 4 steps) "
        "+ 2.98e-08 (subnormals)",
        "  largest absolute error 0.25, relative error (norm) 0.06",
        "  it would take 3.27e+03 times the terms to come out so",
    ]
