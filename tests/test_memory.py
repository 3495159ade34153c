"""Do kernels use no more memory, and move no more of it, than their algorithm needs?"""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from kernels import flash_attention, matmul_bias_gelu, softmax, vector_add
from tilecheck.device import Device
from tilecheck.inputs import draw_inputs, torch_dtype
from tilecheck.launch import Cuda, compile_program
from tilecheck.plugin import Checker, skip_lacking
from tilecheck.program import Program, build_program
from tilecheck.spec import Case
from tilecheck.traffic import NoCounters, find_profiler, traffic

pytestmark = [pytest.mark.correctness, pytest.mark.gpu]

MIB = 2**20


@dataclass(frozen=True)
class Footprint:
    """Bytes: of the arguments, and of what the launch took besides, from torch and from the device."""

    arguments: int
    torch: int
    device: int


def footprint(program: Program, device: Device) -> Footprint:
    arguments: dict[str, Any] = draw_inputs(program, 0, device.torch_device)
    for p in program.outputs:
        arguments[p.name] = torch.empty(p.shape or (), dtype=torch_dtype(p.dtype), device=device.torch_device)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    device.run(program, arguments)
    return Footprint(
        sum(t.numel() * t.element_size() for t in arguments.values()),
        torch.cuda.max_memory_allocated() - before,
        free - torch.cuda.mem_get_info()[0],  # TileLang's runtime keeps what it allocates
    )


def test_attention_needs_memory_in_proportion_to_its_length(checker: Checker) -> None:
    dims = {"batch": 1, "heads": 4, "kv_heads": 4, "head_dim": 64}
    assert isinstance(checker.device, Cuda)
    programs = {}
    for length in (1024, 2048, 4096, 8192):
        case = Case(
            "long", {**dims, "q_len": length, "k_len": length}, "float16", {"causal": False}, why="memory"
        )
        programs[length] = build_program(flash_attention.SPEC, case, checker.device.arch)
        compile_program(programs[length], checker.device.target)
    with checker.alone():  # others take of what is free, too
        found = {length: footprint(program, checker.device) for length, program in programs.items()}
    for length, of_half in ((2048, 1024), (4096, 2048), (8192, 4096)):
        assert found[length].arguments == 2 * found[of_half].arguments
        assert found[length].torch <= 2 * found[of_half].torch + MIB, found
    # The scores of the longest would be 512 MiB in 16 bits; code and stacks of a kernel are some MiB.
    assert found[8192].device < 64 * MIB, found


LARGE = (
    (vector_add.SPEC, Case("large", {"N": 2**28}, "float32", why="3 GiB")),
    (softmax.SPEC, Case("large", {"M": 16384, "N": 8192}, "float16", why="512 MiB, rows in registers")),
    (
        softmax.SPEC,
        Case("large-online", {"M": 8192, "N": 65536}, "bfloat16", why="2 GiB, rows of several chunks"),
    ),
    (
        matmul_bias_gelu.SPEC,
        Case(
            "large",
            {"M": 16384, "N": 16384, "K": 256},
            "bfloat16",
            {"approximate": "tanh"},
            why="528 MiB: the output pushes the operands, 16 MiB, out of L2, and they are read again",
        ),
    ),
)


def test_traffic_is_near_the_least(checker: Checker) -> None:
    if find_profiler() is None:
        skip_lacking("ncu, which comes with the CUDA toolkit")
    programs = [build_program(spec, case, checker.device.arch) for spec, case in LARGE]
    try:
        moved = traffic(["kernels"], programs, alone=checker.alone)
    except NoCounters as error:
        skip_lacking(str(error))
    far = []
    for (spec, case), found in zip(LARGE, moved, strict=True):
        cost = spec.cost_of(case)
        assert cost is not None
        # What an L2 of 60 MiB keeps back of the output at the end is the reason for less.
        if not 0.8 * cost.bytes < found.bytes < 1.2 * cost.bytes:
            share = found.bytes / cost.bytes
            far.append(f"{spec.test_id(case)}: {found}, {share:.3f} of the least, {cost.bytes:.4g} bytes")
    assert not far, "\n".join(far)
