"""Say in words and numbers what a kernel does: tiles, grid, occupancy, traffic, roofline. It needs no GPU.

Tiles, grid and traffic come from the program, registers and shared memory from the compiler, which needs no
GPU; without nvcc the explanation says what it lacks. Nothing is run and nothing is timed.
"""

import argparse
from typing import TYPE_CHECKING

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import note_trouble_of_cache, show, stdout_kept
from tilecheck.cli.selecting import (
    DEFAULT_ARCH,
    add_root,
    add_schedule,
    arch_named,
    case_named,
    default_arch,
    kernel_named,
    legal_schedule,
    project_of,
    specs_of,
)

if TYPE_CHECKING:
    from tilecheck.arches import Arch
    from tilecheck.explain.words import Sources
    from tilecheck.latency.monitor import GpuFacts
    from tilecheck.program import Program


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kernel", metavar="KERNEL", help="name of the kernel; hyphens will do for underscores"
    )
    parser.add_argument("--case", metavar="ID", help="the case (default: the first whose code is looked at)")
    parser.add_argument("--arch", help=f"the architecture (default: {DEFAULT_ARCH})")
    add_schedule(parser)
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    with stdout_kept():
        text = _text(arguments)
    show(text)
    return 0


def _text(arguments: argparse.Namespace) -> str:
    from tilecheck.explain import explanation, layout_of
    from tilecheck.program import build_program

    spec = kernel_named(arguments.kernel, specs_of(project_of(arguments)))
    case = spec.cases_of_code[0] if arguments.case is None else case_named(arguments.case, spec)
    arch = default_arch(spec) if arguments.arch is None else arch_named(arguments.arch)
    schedule = legal_schedule(arguments.schedule, spec, case, arch)
    try:
        program = build_program(spec, case, arch, schedule)
    except ValueError as error:
        raise BadInput(f"{spec.test_id(case)} on {arch.name}: {error}") from error
    return explanation(program, layout_of(program), _sources(program))


def _sources(program: "Program") -> "Sources":
    """What the compiler says, as far as it gets."""
    from tilecheck.codegen import CodegenError, NoToolchain, artifacts_of, lower
    from tilecheck.explain.words import Sources

    gpu, origin = gpu_for(program.arch)
    try:
        note_trouble_of_cache()
        made = artifacts_of(program)
    except (CodegenError, NoToolchain) as error:
        lacking = str(error)
    else:
        return Sources(gpu, origin, made.lowered, made.facts)
    try:
        return Sources(gpu, origin, lower(program), None, lacking)
    except CodegenError as error:
        return Sources(gpu, origin, None, None, str(error))


def gpu_for(arch: "Arch") -> "tuple[GpuFacts, str]":
    """The GPU of this machine, if it is of the architecture; else one that stands for it."""
    from tilecheck import environment
    from tilecheck.arches import arch_of_capability
    from tilecheck.latency.chips import CHIPS
    from tilecheck.latency.monitor import Monitor

    machine = environment.machine()
    if machine.capability is not None and machine.gpu is not None:
        try:
            if arch_of_capability(*machine.capability).name == arch.name:
                with Monitor() as monitor:
                    return monitor.facts(), "as this machine's NVML has it"
        except (ValueError, RuntimeError):
            pass  # another architecture, or no NVML: the data sheet will do
    return CHIPS[arch.name], "by its data sheet"
