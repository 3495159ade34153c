"""A check accepts a right kernel, and says of a wrong one what is wrong, where, and how to see it again.

The device is a Python function that fills the outputs: only what it does to memory counts here.
"""

from dataclasses import dataclass

import pytest
import tilelang.language as T
import torch

from tilecheck.arches import arch
from tilecheck.conformance import Mismatch, check
from tilecheck.conformance import run as outputs_of
from tilecheck.program import WrongDType, build_program
from tilecheck.simulator import SimulationError, Unsupported
from tilecheck.spec import Case, KernelSpec, Reference, Term


@dataclass(frozen=True)
class Schedule:
    block: int = 64


@dataclass
class Device:
    """Runs `kernel(tensors)` in place of every program."""

    kernel: object
    name: str = "fake"
    lost: str | None = None
    launches: int = 0

    def __post_init__(self):
        self.arch = arch("sm_90a")
        self.torch_device = torch.device("cpu")

    def run(self, program, arguments):
        assert list(arguments) == [p.name for p in program.parameters]
        self.launches += 1
        self.kernel(**arguments)

    def describe(self):
        return "a fake device"


def matmul(m, n, k, dtype, block):
    @T.prim_func
    def program(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, block), threads=128) as i:
            for r, c in T.Parallel(block, n):
                C[i * block + r, c] = A[i * block + r, 0] * B[0, c]

    return program


def matmul_reference(A, B, k):
    steps = (k / 16 + 4) * 2 * 2.0**-24
    return Reference(A @ B, (Term("fp32 accumulation", steps, A.abs() @ B.abs()),))


def legal(block):
    if block > 128:
        raise ValueError(f"block {block} > 128")


def matmul_spec(case=None, **kwargs):
    case = case or Case("tail-m-fp16", {"m": 100, "n": 128, "k": 64}, "float16", why="tail in M")
    given = {"default_schedule": lambda: Schedule(), "legal": legal, "reference": matmul_reference}
    return KernelSpec("matmul", matmul, cases=(case,), **{**given, **kwargs})


def right(A, B, C):
    C.copy_((A.float() @ B.float()).to(C.dtype))


def run(kernel, spec=None, **kwargs):
    spec = spec or matmul_spec()
    return check(spec, spec.cases[0], Device(kernel), seed=0, **kwargs)


def failure_of(kernel, spec=None, **kwargs):
    """The message with which the check refuses the kernel."""
    with pytest.raises(Mismatch) as failure:
        run(kernel, spec, **kwargs)
    assert not failure.value.outcome.ok
    return str(failure.value)


def test_a_right_kernel_passes_and_its_numbers_are_reported():
    outcome = run(right)
    assert outcome.ok
    assert outcome.launched
    assert not outcome.empirical
    assert 0.1 < outcome.budget_used <= 1
    assert 0 < outcome.max_abs_error < 0.02
    assert 0 < outcome.relative_error < 2.0**-11
    assert (outcome.kernel, outcome.case, outcome.arch, outcome.device) == (
        "matmul",
        "tail-m-fp16",
        "sm_90a",
        "fake",
    )
    assert outcome.schedule == "Schedule(block=64)"


@pytest.mark.parametrize("draw", ["normal", "integers", "one-hot", "cancelling"])
def test_a_right_kernel_passes_under_every_draw(draw):
    case = Case("square", {"m": 64, "n": 64, "k": 4096}, "float16", why="long reduction", draw=draw)
    assert run(right, matmul_spec(case)).ok


@pytest.mark.parametrize("draw", ["normal", "integers", "one-hot", "cancelling"])
def test_a_dropped_element_of_k_fails_under_every_draw(draw):
    case = Case("square", {"m": 64, "n": 64, "k": 4096}, "float16", why="long reduction", draw=draw)

    def drops_last(A, B, C):
        right(A[:, :-1], B[:-1], C)

    assert "elements wrong" in failure_of(drops_last, matmul_spec(case))


def one_element_off(A, B, C):
    right(A, B, C)
    C[99, 127] *= 1.01


def last_rows_unwritten(A, B, C):
    right(A[:64], B, C[:64])


def one_unwritten(A, B, C):
    kept = C[3, 70].clone().view(torch.int16)
    right(A, B, C)
    C[3, 70:71].view(torch.int16).copy_(kept)


def past_the_end(A, B, C):
    right(A, B, C)
    C.as_strided((130,), (1,), C.storage_offset() + C.numel()).zero_()


def before_the_start(A, B, C):
    right(A, B, C)
    C.as_strided((1,), (1,), C.storage_offset() - 1).zero_()


def behind_an_input(A, B, C):
    right(A, B, C)
    B.as_strided((1,), (1,), B.storage_offset() + B.numel()).zero_()


def input_modified(A, B, C):
    right(A, B, C)
    A[7] *= 2


def reads_past_the_end(A, B, C):
    behind = A.as_strided((1,), (1,), A.storage_offset() + A.numel())
    right(A, B, C)
    C[99] += behind * 0


def nan_tile(A, B, C):
    right(A, B, C)
    C[64:, 32:64] = float("nan")


def sign_of_infinity(A, B, C):
    right(A, B, C)
    C[5, 5] = -float("inf")


WRONG = {
    one_element_off: "C: 1 of 12800 elements wrong, at [99, 127]\n  worst at [99, 127]: got ",
    last_rows_unwritten: "C: 4608 elements never written, first at [64, 0]; "
    "they lie in rows 64..99, columns 0..127 (all 4608 there)",
    one_unwritten: "C: 1 element never written, at [3, 70]",
    past_the_end: "C: 130 elements written past its end, the nearest 1 past the last one",
    before_the_start: "C: 1 element written before its start, the nearest 1 before it",
    behind_an_input: "B: 1 element written past its end, the nearest 1 past the last one",
    input_modified: "A: 64 elements of an input changed, first at [7, 0]; "
    "they lie in row 7, columns 0..63 (all 64 there)",
    reads_past_the_end: "C: 128 of 12800 elements wrong, first at [99, 0]",
    nan_tile: "C: 1152 of 12800 elements wrong, first at [64, 32]; "
    "they lie in rows 64..99, columns 32..63 (all 1152 there)",
    sign_of_infinity: "worst at [5, 5]: got -inf, want ",
}


@pytest.mark.parametrize("kernel", WRONG, ids=lambda k: k.__name__)
def test_a_wrong_kernel_fails_with_what_and_where(kernel):
    assert WRONG[kernel] in failure_of(kernel)


def test_a_failure_names_everything_and_how_to_repeat_it():
    def wrong(A, B, C):
        A.fill_(0.5)
        B.fill_(0.25)
        C.fill_(8.0)
        C[64:, 32:64] = 8.25

    def halves(A, B):
        return {"A": torch.full(A.shape, 0.5), "B": torch.full(B.shape, 0.25)}

    case = Case("tail-m-fp16", {"m": 100, "n": 128, "k": 64}, "float16", why="tail in M", draw="halves")
    spec = matmul_spec(case, draws={"halves": halves})
    assert failure_of(wrong, spec, repeat='pytest "tests/test_correctness.py::test_it[x]" --seed=0') == (
        "matmul is wrong for tail-m-fp16 (m=100 n=128 k=64 float16) on fake, sm_90a\n"
        "schedule: Schedule(block=64)\n"
        "the case is there for: tail in M\n"
        "C: 1152 of 12800 elements wrong, first at [64, 32]; "
        "they lie in rows 64..99, columns 32..63 (all 1152 there)\n"
        "  worst at [64, 32]: got 8.25, want 8, error 0.25 is 63.9 times the bound\n"
        "  bound there: 0.00391 = 0.00391 (rounding to float16) + 7.63e-06 (fp32 accumulation) "
        "+ 2.98e-08 (subnormals)\n"
        "  largest absolute error 0.25, relative error (norm) 0.00937\n"
        "  it would take 3.23e+04 times the terms to come out so\n"
        'repeat: pytest "tests/test_correctness.py::test_it[x]" --seed=0'
    )


def test_other_seeds_are_other_inputs_and_the_same_seed_the_same():
    seen = []

    def recording(A, B, C):
        seen.append(A.clone())
        right(A, B, C)

    spec = matmul_spec()
    for seed in (1, 1, 2):
        check(spec, spec.cases[0], Device(recording), seed=seed)
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


def test_an_illegal_schedule_is_refused_before_the_launch():
    device = Device(right)
    spec = matmul_spec()
    with pytest.raises(ValueError, match="block 256 > 128"):
        check(spec, spec.cases[0], device, seed=0, schedule=Schedule(256))
    assert device.launches == 0
    assert check(spec, spec.cases[0], device, seed=0, schedule=Schedule(32)).schedule == "Schedule(block=32)"


def typed(n, a, c):
    @T.prim_func
    def program(A: T.Tensor((n,), a), C: T.Tensor((n,), c)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                C[i] = A[i]

    return program


def typed_spec(dtype, a, c, **kwargs):
    case = Case("some", {"n": 128}, dtype, {"a": a, "c": c}, why="types")
    return KernelSpec("typed", typed, lambda A: A, (case,), **kwargs)


@pytest.mark.parametrize(
    ("dtype", "a", "c", "told"),
    [
        (
            "float16",
            "float16",
            "float32",
            r"C is float32, and case 'some' is float16;.*dtypes={'C': 'float32'}",
        ),
        ("float32", "float32", "float16", "C is float16, and case 'some' is float32"),
        ("float16", "float16", "bfloat16", "C is bfloat16"),
        ("float16", "float32", "float16", "A is float32"),
        ("int8", "int8", "int32", "C is int32"),
        ("int8", "float32", "int8", "A is float32"),
    ],
)
def test_a_tensor_of_another_type_than_the_case_is_refused(dtype, a, c, told):
    spec = typed_spec(dtype, a, c)
    device = Device(lambda A, C: C.copy_(A))
    with pytest.raises(WrongDType, match=told):
        check(spec, spec.cases[0], device, seed=0)
    assert device.launches == 0


@pytest.mark.parametrize(
    ("dtype", "a", "c", "dtypes"),
    [
        ("float16", "float16", "float32", {"C": "float32"}),
        ("float16", "float16", "float32", {"C": lambda c: c}),
        ("int8", "int8", "int32", {"C": "int32"}),
        ("float8_e4m3fn", "bfloat16", "float8_e4m3fn", {"A": "bfloat16"}),
        # Indices and masks beside floats.
        ("float16", "float16", "int32", {}),
        ("float16", "uint8", "float16", {}),
    ],
)
def test_another_type_may_be_meant(dtype, a, c, dtypes):
    spec = typed_spec(dtype, a, c, dtypes=dtypes)
    program = build_program(spec, spec.cases[0], arch("sm_90a"))
    assert (program["A"].dtype, program["C"].dtype) == (a, c)


@pytest.mark.parametrize(
    ("dtypes", "told"),
    [
        ({"C": "float64"}, "C is float32 in case 'some'; the spec's `dtypes` say float64"),
        ({"C": lambda a: a}, "C is float32 in case 'some'; the spec's `dtypes` say float16"),
        ({"C": "float32", "D": "float32"}, "D is no parameter"),
    ],
)
def test_types_that_a_spec_states_are_checked(dtypes, told):
    spec = typed_spec("float16", "float16", "float32", dtypes=dtypes)
    with pytest.raises(ValueError, match=told):
        build_program(spec, spec.cases[0], arch("sm_90a"))


def test_pass_options_reach_legal_program_and_message():
    seen = []
    spec = matmul_spec(
        legal=lambda pass_configs: seen.append(pass_configs), pass_configs={"tl.enable_fast_math": True}
    )

    class Recording(Device):
        def run(self, program, arguments):
            seen.append(program.pass_configs)
            super().run(program, arguments)

    options = {"tl.enable_fast_math": False, "tl.disable_tma_lower": True}
    outcome = check(spec, spec.cases[0], Recording(right), seed=0, pass_configs=options)
    assert seen[-2:] == [options, options]
    assert outcome.schedule == "Schedule(block=64), tl.enable_fast_math=False, tl.disable_tma_lower=True"
    assert check(spec, spec.cases[0], Device(right), seed=0).schedule == "Schedule(block=64)"


class TestRun:
    def test_gives_outputs_of_given_and_drawn_inputs(self):
        spec = matmul_spec()
        A = torch.eye(100, 64).half()
        seen = []

        def recording(A, B, C):
            seen.append(B.clone())
            right(A, B, C)

        C = outputs_of(spec, spec.cases[0], Device(recording), {"A": A})["C"]
        assert torch.equal(C[:64], seen[0])
        assert not C[64:].any()
        check(spec, spec.cases[0], Device(recording), seed=0)
        assert torch.equal(seen[0], seen[1])  # B is as a check draws it

    @pytest.mark.parametrize(
        ("inputs", "told"),
        [
            ({"X": torch.ones(1)}, "'X' is no input of 'matmul'; inputs: A, B"),
            ({"C": torch.ones(100, 128)}, "'C' is no input"),
            (
                {"A": torch.ones(100, 64)},
                r"A is \[100, 64\] torch.float32; .* takes \[100, 64\] torch.float16",
            ),
            ({"A": torch.ones(64, 100).half()}, r"A is \[64, 100\] torch.float16; .* takes \[100, 64\]"),
        ],
    )
    def test_refuses_inputs_that_do_not_fit(self, inputs, told):
        spec = matmul_spec()
        device = Device(right)
        with pytest.raises(ValueError, match=told):
            outputs_of(spec, spec.cases[0], device, inputs)
        assert device.launches == 0

    def test_judges_memory_and_not_values(self):
        spec = matmul_spec()
        assert outputs_of(spec, spec.cases[0], Device(lambda A, B, C: C.fill_(3)))["C"].eq(3).all()
        with pytest.raises(Mismatch, match="A: 6400 elements of an input changed"):
            outputs_of(spec, spec.cases[0], Device(lambda A, B, C: (A.fill_(9), C.fill_(3))))
        with pytest.raises(Mismatch, match="C: 128 elements never written"):
            outputs_of(spec, spec.cases[0], Device(lambda A, B, C: C[1:].fill_(3)))


def test_nothing_is_launched_for_an_empty_output():
    device = Device(right)
    spec = matmul_spec(Case("empty", {"m": 0, "n": 128, "k": 64}, "float16", why="no rows"))
    outcome = check(spec, spec.cases[0], device, seed=0)
    assert outcome.ok
    assert not outcome.launched
    assert outcome.budget_used == 0
    assert device.launches == 0


def test_findings_of_the_simulator_are_a_mismatch():
    finding = SimulationError.__new__(SimulationError)
    Exception.__init__(finding, "kernels/matmul.py:12: out of range: C[128, 0]")

    def found(A, B, C):
        raise finding

    message = failure_of(found, repeat="pytest x")
    assert message.splitlines()[3:] == ["kernels/matmul.py:12: out of range: C[128, 0]", "repeat: pytest x"]


def test_what_the_simulator_does_not_know_is_no_verdict():
    def unknown(A, B, C):
        raise Unsupported("kernels/matmul.py:12: tl.tileop.wonder")

    with pytest.raises(Unsupported, match="wonder"):
        run(unknown)


def test_without_terms_the_bound_is_empirical_and_called_so():
    spec = matmul_spec(reference=lambda A, B: A @ B)
    outcome = run(right, spec)
    assert outcome.ok
    assert outcome.empirical
    assert "empirical bound there" in failure_of(one_element_off_by_much, spec)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_an_empirical_bound_takes_a_right_kernel_of_every_dtype(dtype):
    case = Case("square", {"m": 32, "n": 32, "k": 64}, dtype, why="one tile")
    spec = matmul_spec(case, reference=lambda A, B: A @ B)
    assert run(right, spec).empirical
    assert "C: 1 of 1024 elements wrong, at [3, 3]" in failure_of(one_element_off_by_much, spec)


def one_element_off_by_much(A, B, C):
    right(A, B, C)
    C[3, 3] = -C[3, 3].float() + 100


def test_without_terms_the_reference_has_to_run_in_another_precision():
    def only_float64(A, B):
        return A @ B @ torch.eye(B.shape[1], dtype=torch.float64)

    with pytest.raises(ValueError, match="gives no error terms, and runs in float64 only"):
        run(right, matmul_spec(reference=only_float64))


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        (lambda A, B: (A @ B).T, r"gives C shape \[128, 100\]; in the program it is \[100, 128\]"),
        (lambda A, B: {"D": A @ B}, "gives D; the program writes C"),
        (lambda A, B: 3.0, "gives a float for C, not a tensor"),
        (lambda A, B: Reference((A @ B).float(), ()), "torch.float32; it has to be computed in float64"),
        (lambda A, X: A, "asks for X, which is not known here; known: m, n, k"),
    ],
)
def test_an_unusable_reference_is_the_authors_error(reference, told):
    with pytest.raises(ValueError, match=told):
        run(right, matmul_spec(reference=reference))


def extremes(n, dtype):
    @T.prim_func
    def program(
        x: T.Tensor((n,), dtype),
        high: T.Tensor((n,), dtype),
        count: T.Tensor((1,), "int32"),
        scale: T.float32,
    ):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                high[i] = x[i] * scale
                T.atomic_add(count[0], 1)

    return program


def extremes_spec(**kwargs):
    case = Case("short", {"n": 10}, "float32", {"scale": 2.0}, why="one block")

    def reference(x, scale, n):
        return {"high": Reference(x * scale, exact=True), "count": torch.tensor([n], dtype=torch.int32)}

    return KernelSpec("extremes", extremes, reference, (case,), **kwargs)


def test_several_outputs_scalars_and_cleared_outputs():
    def kernel(x, high, count, scale):
        high.copy_(x * scale)
        count += len(x)

    spec = extremes_spec(zeroed=("count",))
    outcome = run(kernel, spec)
    assert set(outcome.verdicts) == {"high", "count"}
    assert outcome.budget_used == 0

    def counts_wrong(x, high, count, scale):
        high.copy_(x * scale)
        count += len(x) - 1

    assert (
        "count: 1 of 1 element wrong, at [0]\n  worst at [0]: got 9, want 10, to agree in every bit"
        in failure_of(counts_wrong, spec)
    )


def test_inout_parameters_hold_drawn_values_and_may_change():
    def reference(x, scale, count):
        return {"high": Reference(x * scale, exact=True), "count": count + len(x)}

    spec = KernelSpec("extremes", extremes, reference, extremes_spec().cases)

    def kernel(x, high, count, scale):
        high.copy_(x * scale)
        count += len(x)

    assert run(kernel, spec).ok


def row_sums(m, n, dtype):
    @T.prim_func
    def program(A: T.Tensor((m, n), dtype), S: T.Tensor((m,), "float32")):
        with T.Kernel(m, threads=32) as i:
            S[i] = A[i, 0]

    return program


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("lost", [0, 1])
def test_measured_bound_is_of_the_precision_that_the_output_has(dtype, lost):
    """Without terms: in that of the inputs, a sum of thousands may lose an element."""
    case = Case("wide", {"m": 4, "n": 2000}, dtype, why="fp32 sums of narrow numbers")
    spec = KernelSpec(
        "row_sums", row_sums, lambda A: A.sum(1), (case,), outputs=("S",), dtypes={"S": "float32"}
    )

    def kernel(A, S):
        S.copy_(A[:, : A.shape[1] - lost].double().sum(1))

    if lost:
        with pytest.raises(Mismatch, match="empirical bound"):
            check(spec, case, Device(kernel), seed=0)
    else:
        assert check(spec, case, Device(kernel), seed=0).empirical
