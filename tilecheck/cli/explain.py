"""Say in words and numbers what a kernel does: tiles, grid, occupancy, traffic, roofline. It needs no GPU.

Tiles, grid and traffic come from the program, registers and shared memory from the compiler, which needs no
GPU; without nvcc the explanation says what it lacks. Nothing is run and nothing is timed.
"""

import argparse
from typing import TYPE_CHECKING

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import note_trouble_of_cache, show, stdout_kept
from tilecheck.cli.selecting import add_one, add_root, one_of

if TYPE_CHECKING:
    from tilecheck.arches import Arch
    from tilecheck.explain.words import Sources
    from tilecheck.latency.monitor import GpuFacts
    from tilecheck.program import Program


def configure(parser: argparse.ArgumentParser) -> None:
    add_one(parser)
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    with stdout_kept():
        text = _text(arguments)
    show(text)
    return 0


def _text(arguments: argparse.Namespace) -> str:
    from tilecheck.explain import explanation, layout_of
    from tilecheck.program import build_program

    spec, case, arch, schedule = one_of(arguments)
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
