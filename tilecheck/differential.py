"""Simulator against GPU, on the same inputs: where they differ, one of them is wrong."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from tilecheck.conformance import launch, references_of
from tilecheck.device import Simulator
from tilecheck.dtypes import dtype
from tilecheck.inputs import draw_inputs, seed_of
from tilecheck.oracle import Verdict, judge
from tilecheck.program import Program, build_program
from tilecheck.spec import Case, KernelSpec, Reference, Term

if TYPE_CHECKING:
    from tilecheck.device import Device


class Disagreement(AssertionError):
    """The simulator and a device give different outputs for the same program and inputs."""


def agree(
    spec: KernelSpec, case: Case, device: "Device", *, seed: int, schedule: Any = None, repeat: str = ""
) -> dict[str, Verdict]:
    """Runs `case` on `device` and on the simulator, one program on the same inputs, and compares the outputs.

    The bound is the reference's, around what the simulator gives, and one rounding more, the simulator's own
    store; without error terms it is twice the simulator's own largest error.
    seed, schedule, repeat: as for `conformance.check`, which draws the same inputs.
    Returns the verdicts by output name, none where every output is empty. Raises Disagreement where the two
    differ by more, or the simulator stops at a finding.
    """
    from tilecheck.simulator import SimulationError

    program = build_program(spec, case, device.arch, schedule)
    if program.writes_nothing:
        return {}
    drawn = draw_inputs(program, seed_of(spec.test_id(case), seed))
    try:
        simulated = launch(program, drawn, Simulator(device.arch)).outputs
    except SimulationError as error:
        raise Disagreement(_message(program, device, str(error).splitlines(), repeat)) from error
    outputs = launch(program, drawn, device).outputs
    references = references_of(program, drawn)
    # In place of the reference in low precision, the reference: its largest distance from what the simulator
    # gives is the simulator's error.
    verdicts = {
        name: judge(out.cpu(), _around(simulated[name], references[name]), references[name].value)
        for name, out in outputs.items()
    }
    wrong = [line for name, verdict in verdicts.items() if not verdict.ok for line in verdict.lines(name)]
    if wrong:
        raise Disagreement(_message(program, device, wrong, repeat))
    return verdicts


def _around(simulated: torch.Tensor, reference: Reference) -> Reference:
    """What the simulator gives, as the right value."""
    if reference.exact or not simulated.is_floating_point():
        return Reference(simulated, exact=True, open=reference.open)
    value = simulated.double()
    if reference.terms is None:
        return Reference(value, open=reference.open)
    kind = dtype(str(simulated.dtype).removeprefix("torch."))
    # Below the smallest normal number the spacing stays what it is there, and so does a rounding's error.
    rounded = value.abs().nan_to_num(0.0, 0.0, 0.0).clamp(min=kind.smallest_normal)
    store = Term(f"the simulator's rounding to {kind.name}", kind.unit, rounded)
    return dataclasses.replace(reference, value=value, terms=(*reference.terms, store))


def _message(program: Program, device: "Device", lines: Sequence[str], repeat: str) -> str:
    schedule = f", schedule {program.variant}" if program.variant else ""
    head = (
        f"{program.spec.name}: {device.describe()} and the simulator (whose values are wanted below) "
        f"differ on {program.case}, {program.arch.name}{schedule}"
    )
    return "\n".join([head, *lines, *([f"repeat: {repeat}"] if repeat else [])])
