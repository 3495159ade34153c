"""Do kernels do what is right with the inputs that tests forget, and refuse what they cannot take?"""

from collections.abc import Callable

import pytest
import torch

from kernels import matmul, softmax, vector_add
from tilecheck.arguments import Argument
from tilecheck.device import Device
from tilecheck.guards import Guarded
from tilecheck.inputs import draw_inputs, scalars, torch_dtype
from tilecheck.plugin import Checker, KernelCase, skip_lacking
from tilecheck.program import Program, build_program
from tilecheck.spec import Case, KernelSpec

pytestmark = pytest.mark.correctness


def test_values(hostile_case: KernelCase, checker: Checker) -> None:
    checker.conformance(hostile_case)


def program_of(row: KernelCase, device: Device) -> tuple[Program, dict[str, Argument]]:
    """A row's program, and arguments that fit it."""
    program = build_program(row.spec, row.case, device.arch)
    arguments: dict[str, Argument] = dict(scalars(program))
    drawn = draw_inputs(program, 0, device.torch_device)
    for p in program.parameters:
        if p.shape is not None:
            empty = torch.zeros(p.shape, dtype=torch_dtype(p.dtype), device=device.torch_device)
            arguments[p.name] = drawn.get(p.name, empty)
    return program, arguments


def _misaligned(tensor: torch.Tensor) -> torch.Tensor:
    moved = Guarded(tensor.shape, tensor.dtype, tensor.device, misaligned=tensor.element_size())
    moved.fill(tensor)
    return moved.tensor


def _with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.repeat_interleave(2, dim=-1)[..., ::2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(_misaligned, "got an address", id="misaligned"),
        pytest.param(_with_gaps, "got strides", id="not-contiguous"),
        pytest.param(lambda t: t.double(), "got dtype float64", id="another-dtype"),
        pytest.param(lambda t: t[..., :-1].contiguous(), "got shape", id="too-short"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    small_case: KernelCase, change: Callable[[torch.Tensor], torch.Tensor], message: str, checker: Checker
) -> None:
    program, arguments = program_of(small_case, checker.device)
    for name, argument in arguments.items():
        if isinstance(argument, torch.Tensor):
            with pytest.raises((ValueError, TypeError), match=rf"parameter '{name}': {message}"):
                checker.device.run(program, {**arguments, name: change(argument)})


EMPTY = (
    (vector_add.SPEC, Case("empty", {"N": 0}, "float32", why="no elements")),
    (softmax.SPEC, Case("empty", {"M": 0, "N": 100}, "float16", why="no rows")),
    (
        matmul.SPEC,
        Case(
            "no-rows",
            {"M": 0, "N": 64, "K": 32},
            "float16",
            {"trans_a": False, "trans_b": False},
            why="M = 0",
        ),
    ),
    (
        matmul.SPEC,
        Case(
            "no-sum", {"M": 8, "N": 64, "K": 0}, "float16", {"trans_a": False, "trans_b": False}, why="K = 0"
        ),
    ),
)


@pytest.mark.parametrize("empty", [pytest.param(KernelCase(*row), id=KernelCase(*row).id) for row in EMPTY])
def test_dimensions_of_zero(empty: KernelCase, checker: Checker) -> None:
    checker.conformance(empty)


GIB = 2**30
PAST = 2**31
"""Elements: past the largest 32-bit integer."""


@pytest.fixture
def roomy(checker: Checker) -> Checker:
    # Asked of the whole GPU: what others hold of it now is no matter of hardware.
    total = torch.cuda.get_device_properties(checker.device.torch_device).total_memory
    if total < 40 * GIB:
        skip_lacking(f"a GPU of 40 GiB; this has {total / GIB:.0f}")
    return checker


def launched(spec: KernelSpec, case: Case, device: Device) -> dict[str, torch.Tensor]:
    """Inputs and outputs of one launch on inputs drawn on the GPU, outputs NaN before it."""
    program = build_program(spec, case, device.arch)
    rng = torch.Generator(device.torch_device).manual_seed(0)
    tensors = {}
    for p in program.parameters:
        assert p.shape is not None
        tensor = torch.empty(p.shape, dtype=torch_dtype(p.dtype), device=device.torch_device)
        tensors[p.name] = tensor.fill_(torch.nan) if p.role == "output" else tensor.normal_(generator=rng)
    device.run(program, tensors)
    return tensors


@pytest.mark.gpu
def test_vector_past_2e31_elements(roomy: Checker) -> None:
    case = Case("past-2e31", {"N": PAST + 9}, "bfloat16", why="indices past 32 bits")
    a, b, c = launched(vector_add.SPEC, case, roomy.device).values()
    for start in range(0, PAST + 9, 2**28):
        part = slice(start, start + 2**28)
        assert torch.equal(c[part], a[part] + b[part]), start


@pytest.mark.gpu
def test_softmax_past_2e31_elements(roomy: Checker) -> None:
    rows, columns = PAST // 32768 + 3, 32768
    case = Case("past-2e31", {"M": rows, "N": columns}, "bfloat16", why="indices past 32 bits")
    x, y = launched(softmax.SPEC, case, roomy.device).values()
    for start in (0, rows // 2, rows - 8):
        want = torch.softmax(x[start : start + 8].double(), 1)
        torch.testing.assert_close(y[start : start + 8].double(), want, rtol=2**-7, atol=1e-9)


@pytest.mark.gpu
def test_matmul_past_2e31_elements(roomy: Checker) -> None:
    m, n = PAST // 65536 + 5, 65536
    flags = {"trans_a": False, "trans_b": False}
    case = Case("past-2e31", {"M": m, "N": n, "K": 64}, "float16", flags, why="indices past 32 bits")
    a, b, c = launched(matmul.SPEC, case, roomy.device).values()
    for start in (0, m // 2, m - 8):
        want = a[start : start + 8].double() @ b.double()
        torch.testing.assert_close(c[start : start + 8].double(), want, rtol=2**-9, atol=2**-9)
