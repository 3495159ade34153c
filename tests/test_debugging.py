"""Do TileLang's own debugging tools work on our kernels, and say what is so?"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import debugged
import pytest
import torch

import kernels
from tilecheck.arches import ARCHES, Arch, arch
from tilecheck.codegen import lower
from tilecheck.conformance import Mismatch, check
from tilecheck.device import Device, Simulator
from tilecheck.inputs import draw_inputs, seed_of
from tilecheck.program import Program, build_program
from tilecheck.simulator import simulate
from tilecheck.single import LAUNCHED, Single, run_under
from tilecheck.spec import Case, KernelSpec

pytestmark = pytest.mark.debugging

SPECS = {spec.name: spec for spec in kernels.SPECS}
SIMULATED = Simulator(ARCHES["sm_90a"])
SECONDS = 240


def launched(spec: KernelSpec, case: Case) -> tuple[int, str]:
    """Exit code and output of one launch in a process of its own, whose prints come out at its end."""
    return run_under(["env"], [Single(("debugged",), spec.name, case)], SECONDS)


# Prints


def sums_of(program: Program) -> list[float]:
    """What the blocks of `debugged.PRINTING` print: past the tensor's end zeros."""
    drawn = draw_inputs(program, seed_of(program.spec.test_id(program.case)))
    sums = drawn["A"] + drawn["B"]
    block = program.schedule.block
    return torch.nn.functional.pad(sums, (0, -len(sums) % block)).tolist()


def test_what_is_printed_is_in_the_source() -> None:
    program = build_program(debugged.PRINTING, debugged.PRINTED, arch("sm_90a"))
    assert re.search(r'debug_print_buffer_value\("sums", "A_local", ', lower(program).cuda)


def test_prints_of_a_simulated_launch() -> None:
    program = build_program(debugged.PRINTING, debugged.PRINTED, arch("sm_90a"))
    drawn = draw_inputs(program, seed_of(program.spec.test_id(program.case)))
    told: list[str] = []
    simulate(program.prim_func, [drawn["A"], drawn["B"], torch.zeros(700)], tell=told.append)
    found = [
        re.fullmatch(r"msg='sums' buffer=A_local, index=(\d+), block \((\d+)\).*: (.+)", line)
        for line in told
    ]
    assert all(found), told[:3]
    block = program.schedule.block
    values = {int(f[2]) * block + int(f[1]): float(f[3]) for f in found if f}
    assert [values[i] for i in sorted(values)] == sums_of(program)


@pytest.mark.gpu
def test_prints_of_a_launch(tilecheck_device: Device) -> None:
    program = build_program(debugged.PRINTING, debugged.PRINTED, tilecheck_device.arch)
    code, output = launched(debugged.PRINTING, debugged.PRINTED)
    assert code == 0 and LAUNCHED in output, output[-2000:]
    line = re.compile(
        r"^msg='sums' BlockIdx=\((\d+), 0, 0\), ThreadIdx=\(0, 0, 0\): "
        r"buffer=A_local, index=(\d+), dtype=float value=(\S+)$",
        re.MULTILINE,
    )
    block = program.schedule.block
    values = {int(b) * block + int(i): float(value) for b, i, value in line.findall(output)}
    assert [values[i] for i in sorted(values)] == sums_of(program), output[:2000]


# Assertions


@pytest.fixture
def asserts_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """TileLang 0.1.15 leaves assertions out of what is traced on a machine without CUDA."""
    monkeypatch.setattr("tilelang.cuda.debug._IS_CUDA_AVAILABLE", True)


@pytest.mark.usefixtures("asserts_traced")
class TestAssertions:
    def test_one_that_holds(self) -> None:
        check(debugged.ASSERTING, debugged.SOUND, SIMULATED, seed=0)

    def test_one_that_fails_is_told_with_its_message_and_line(self) -> None:
        with pytest.raises(Mismatch) as raised:
            check(debugged.ASSERTING, debugged.BROKEN, SIMULATED, seed=0)
        message = str(raised.value)
        assert f"device assertion failed: {debugged.REASON}" in message
        assert re.search(r"softmax_debugged\.py:\d+", message)

    def test_its_message_is_in_the_source(self) -> None:
        program = build_program(debugged.ASSERTING, debugged.SOUND, arch("sm_90a"))
        assert re.search(rf'device_assert_with_msg\(.*"{debugged.REASON}', lower(program).cuda)


@pytest.mark.gpu
def test_an_assertion_that_holds_on_the_gpu() -> None:
    code, output = launched(debugged.ASSERTING, debugged.SOUND)
    assert code == 0 and LAUNCHED in output, output[-2000:]
    assert "assert failed" not in output


@pytest.mark.gpu
def test_an_assertion_that_fails_ends_the_launch_with_its_message() -> None:
    # It costs the CUDA context, so the process is not this one.
    code, output = launched(debugged.ASSERTING, debugged.BROKEN)
    assert code != 0 and LAUNCHED not in output, output[-2000:]
    assert f"Device assert failed: {debugged.REASON}" in output
    assert "the CUDA context is lost" in output


# The generated source

BULK = {"copy": r"\btl::tma_load\(", "barrier": r"\b(mbarrier|\w+_full)\[.*\]\.wait\("}
BY_WARP = {
    "tensor cores": r"\btl::mma_sync<",
    "copy": r"\btl::cp_async_gs<",
    "wait": r"\btl::cp_async_wait<",
    "matrix load": r"\btl::ptx_ldmatrix_x4",
    "barrier": r"\b__syncthreads\(\)",
}
BY_WARPGROUP = {"tensor cores": r"\btl::wgmma_ss<", **BULK, "registers": r"\btl::warpgroup_reg_alloc<"}
NAMES = [
    ("matmul", "square-4096-fp16", "sm_80", BY_WARP),
    ("matmul", "square-4096-fp16", "sm_90a", BY_WARPGROUP),
    ("matmul_bias_gelu", "square-4096-tanh-bf16", "sm_80", BY_WARP),
    ("matmul_bias_gelu", "square-4096-tanh-bf16", "sm_90a", BY_WARPGROUP),
    ("flash_attention", "dim-128-2k-causal-fp16", "sm_80", BY_WARP),
    (
        "flash_attention",
        "dim-128-2k-causal-fp16",
        "sm_90a",
        {**BY_WARPGROUP, "from registers": r"\btl::wgmma_rs<", "store": r"\btl::tma_store\("},
    ),
    ("softmax", "quarter-gib-4096-fp16", "sm_90a", {"reduction": r"\btl::AllReduce<tl::SumOp"}),
    ("vector_add", "2e28-fp32", "sm_80", {"16 bytes at a time": r"\*\(float4\*\)"}),
]


@pytest.mark.parametrize(("kernel", "id", "on", "names"), NAMES, ids=[f"{k}-{a}" for k, _, a, _ in NAMES])
def test_source_has_what_it_should_by_name(kernel: str, id: str, on: str, names: dict[str, str]) -> None:
    spec = SPECS[kernel]
    source = lower(build_program(spec, spec.case(id), arch(on))).cuda
    missing = [what for what, pattern in names.items() if not re.search(pattern, source)]
    assert not missing, f"{missing} not found in:\n{source}"


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", SPECS)
def test_source_of_a_compiled_kernel_is_the_one_that_is_looked_at(
    kernel: str, tilecheck_device: Device
) -> None:
    from tilecheck.launch import compile_program, compile_target

    program = build_program(SPECS[kernel], SPECS[kernel].cases_of_code[0], tilecheck_device.arch)
    target = compile_target(*tilecheck_device.arch.capability)
    if target != compile_target(*torch.cuda.get_device_capability()):
        pytest.skip("this GPU shares its limits with an architecture, and not its code")
    compiled: Any = compile_program(program, target)
    assert re.sub(r"#line .*\n", "", compiled.get_kernel_source()) == lower(program).cuda


# TileLang's profiler


@pytest.mark.gpu
@pytest.mark.alone
@pytest.mark.parametrize(
    ("kernel", "id"),
    [("vector_add", "2e28-fp32"), ("vector_add", "2e28-bf16"), ("softmax", "quarter-gib-4096-bf16")],
)
def test_profiler_and_stopwatch_agree(kernel: str, id: str, tilecheck_device: Device) -> None:
    """On kernels that memory bounds, which the power cap leaves alone."""
    from tilecheck.latency.contenders import ours, tensor_sets
    from tilecheck.latency.monitor import Monitor
    from tilecheck.latency.timing import Stopwatch
    from tilecheck.latency.timing_cuda import CudaDevice
    from tilecheck.launch import Cuda, compile_program

    assert isinstance(tilecheck_device, Cuda)
    spec = SPECS[kernel]
    program = build_program(spec, spec.case(id), tilecheck_device.arch)
    compiled: Any = compile_program(program, tilecheck_device.target)
    with Monitor() as monitor:
        sets = tensor_sets(program, 0, tilecheck_device.torch_device, monitor.facts().l2)
        device = CudaDevice(monitor)
        samples = Stopwatch(device, budget=0.5).time_in_turn({"ours": ours(program, compiled, sets)})["ours"]
    tensors = [sets[0][parameter.name] for parameter in program.parameters]
    milliseconds = compiled.get_profiler().do_bench(input_tensors=tensors, return_mode="median")
    # Both put events around a launch; only the stopwatch takes off what these measure of their own.
    assert milliseconds / 1e3 - device.own_time == pytest.approx(samples.median, rel=0.05)


# Traces of the lowering

PASSES = ("LayoutInference", "LowerTileOp", "FlattenBuffer", "SplitHostDevice")


def program_to_trace(on: Arch) -> Program:
    return build_program(SPECS["matmul"], SPECS["matmul"].case("one-tile-fp16"), on)


def test_program_after_each_pass_can_be_dumped(tmp_path: Path) -> None:
    """What the option `tl.enable_dump_ir` does in a compile."""
    import tilelang

    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    dump = tilelang.tvm.ir.instrument.DumpIR(dump_dir=str(tmp_path))
    program = program_to_trace(arch("sm_90a"))
    with tilelang.tvm.transform.PassContext(opt_level=3, instruments=[dump]), target:
        tilelang.lower(program.prim_func, target=target)
    files = sorted(tmp_path.rglob("*.*"))
    assert all(any(name in file.name for file in files) for name in PASSES), [file.name for file in files]
    inferred = next(file for file in files if "LayoutInference" in file.name).read_text()
    assert "A_shared" in inferred and "gemm" in inferred


@pytest.fixture
def lower_trace(tmp_path: Path) -> Iterator[Path]:
    """TileLang's tracer, switched on as TL_LOWER_TRACE=html does."""
    from tilelang.tools import lower_trace

    lower_trace.enable(mode="html", trace_dir=str(tmp_path))
    try:
        yield tmp_path
    finally:
        lower_trace.disable()


def test_page_of_what_each_pass_changes(lower_trace: Path) -> None:
    source = lower(program_to_trace(arch("sm_90a"))).cuda
    (page,) = {file.resolve() for file in lower_trace.rglob("*.html")}
    text = page.read_text()
    assert all(name in text for name in PASSES)
    assert "wgmma" in source
