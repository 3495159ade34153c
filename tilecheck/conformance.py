"""One check: a kernel, one of its cases, a device; is what comes out right, and is nothing else touched?"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from tilecheck import guards
from tilecheck.guards import Guarded
from tilecheck.inputs import draw_inputs, scalars, seed_of, torch_dtype
from tilecheck.oracle import Verdict, judge
from tilecheck.program import Program, build_program
from tilecheck.regions import Region, elements
from tilecheck.spec import Case, KernelSpec, Reference, SpecError, call_by_name

if TYPE_CHECKING:
    from tilecheck.device import Device


@dataclass(frozen=True)
class Outcome:
    """What a check found.

    kernel, case, arch, device, schedule: names, for the record; the schedule as it prints, with options of
        passes that are not the spec's, "" for none.
    launched: false where every output is empty, so that there is nothing to compute.
    verdicts: by output name; empty where the simulator stopped before there was a result.
    faults: lines on memory touched that must not be, or not touched that must be, and the simulator's
        findings.
    """

    kernel: str
    case: str
    arch: str
    device: str
    schedule: str
    launched: bool
    verdicts: Mapping[str, Verdict]
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.faults and all(v.ok for v in self.verdicts.values())

    @property
    def budget_used(self) -> float:
        """Largest share of its bound that any element's error uses; infinite where there is no result, and
        for any error where every bit has to agree.
        """
        if self.faults and not self.verdicts:
            return math.inf
        return max((v.budget_used for v in self.verdicts.values()), default=0.0)

    @property
    def terms_used(self) -> float:
        """Largest share of the error terms, without the final rounding, that any element needs."""
        if self.faults and not self.verdicts:
            return math.inf
        return max((v.terms_used for v in self.verdicts.values()), default=0.0)

    @property
    def max_abs_error(self) -> float:
        return max((v.max_abs_error for v in self.verdicts.values()), default=0.0)

    @property
    def relative_error(self) -> float:
        """Largest norm-wise relative error of an output."""
        return max((v.relative_error for v in self.verdicts.values()), default=0.0)

    @property
    def empirical(self) -> bool:
        """Whether a bound is measured rather than made of the author's terms."""
        return any(v.empirical for v in self.verdicts.values())


class Mismatch(AssertionError):
    """A kernel is wrong: where, by how much, and how to see it again. `outcome` has the numbers."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True)
class Result:
    """outputs: what the launch wrote, by name, on the device.  faults: see `Outcome`."""

    outputs: dict[str, torch.Tensor]
    faults: list[str] = field(default_factory=list)


def check(
    spec: KernelSpec,
    case: Case,
    device: "Device",
    *,
    seed: int,
    schedule: Any = None,
    pass_configs: Mapping[str, Any] | None = None,
    repeat: str = "",
) -> Outcome:
    """Runs `case` once on `device` and judges every output.

    seed: of the run; the draws' seed is made of it and the test's id.  schedule: None for the default one.
    pass_configs: options of TileLang's passes, set beside those of the spec.
    repeat: the command that repeats this check, for the message.
    Raises Mismatch if the kernel is wrong; ValueError if the spec is, or `schedule` is illegal.
    """
    program = build_program(spec, case, device.arch, schedule, pass_configs)
    drawn = draw_inputs(program, seed_of(spec.test_id(case), seed), device.torch_device)
    result = _launched(program, drawn, device)
    verdicts = judge_outputs(program, drawn, result.outputs) if result.outputs else {}
    outcome = _outcome(program, device, result, verdicts)
    if not outcome.ok:
        raise Mismatch(_message(program, outcome, repeat), outcome)
    return outcome


def run(
    spec: KernelSpec,
    case: Case,
    device: "Device",
    inputs: Mapping[str, torch.Tensor] | None = None,
    *,
    seed: int = 0,
    schedule: Any = None,
    pass_configs: Mapping[str, Any] | None = None,
) -> dict[str, torch.Tensor]:
    """The outputs of `case` on `device`, by name, in CPU memory: for properties that tests state themselves.

    inputs: tensors that take the place of drawn ones, by name, of the program's shapes and dtypes.
    seed, schedule, pass_configs: as for `check`, which draws the same.
    Raises Mismatch where memory was touched that must not be, or not touched that must be; the values are not
    judged. ValueError if the spec is wrong, `schedule` is illegal or `inputs` do not fit.
    """
    program = build_program(spec, case, device.arch, schedule, pass_configs)
    drawn = draw_inputs(program, seed_of(spec.test_id(case), seed))
    for name, tensor in (inputs or {}).items():
        if name not in drawn:
            raise ValueError(f"{name!r} is no input of {spec.name!r}; inputs: {', '.join(drawn)}")
        if (tensor.shape, tensor.dtype) != (drawn[name].shape, drawn[name].dtype):
            raise ValueError(
                f"{name} is {list(tensor.shape)} {tensor.dtype}; {spec.test_id(case)} takes "
                f"{list(drawn[name].shape)} {drawn[name].dtype}"
            )
    drawn |= inputs or {}
    result = _launched(program, {n: t.to(device.torch_device) for n, t in drawn.items()}, device)
    outcome = _outcome(program, device, result, {})
    if outcome.faults:
        raise Mismatch(_message(program, outcome, ""), outcome)
    return {name: tensor.cpu() for name, tensor in result.outputs.items()}


def _launched(program: Program, drawn: Mapping[str, torch.Tensor], device: "Device") -> Result:
    """What came of a launch; a finding of the simulator is a fault, and there are no outputs then."""
    from tilecheck.simulator import SimulationError, Unsupported

    try:
        return _nothing(program, device) if program.writes_nothing else launch(program, drawn, device)
    except Unsupported:
        raise
    except SimulationError as error:
        return Result({}, str(error).splitlines())


def _outcome(program: Program, device: "Device", result: Result, verdicts: Mapping[str, Verdict]) -> Outcome:
    return Outcome(
        kernel=program.spec.name,
        case=program.case.id,
        arch=program.arch.name,
        device=device.name,
        schedule=program.variant,
        launched=not program.writes_nothing,
        verdicts=verdicts,
        faults=tuple(result.faults),
    )


def launch(program: Program, drawn: Mapping[str, torch.Tensor], device: "Device") -> Result:
    """Runs `program` once between guard bands, and says what became of all the memory.

    Inputs are copies of `drawn`; outputs are poisoned, or cleared where the spec says that the caller does.
    """
    buffers: dict[str, Guarded] = {}
    for parameter in program.parameters:
        if parameter.shape is None:
            continue
        name = parameter.name
        buffers[name] = Guarded(
            parameter.shape, torch_dtype(parameter.dtype), device.torch_device, parameter.strides
        )
        if name in drawn:
            buffers[name].fill(drawn[name].to(device.torch_device))
        elif name in program.spec.zeroed:
            buffers[name].tensor.zero_()
    values = {**scalars(program), **{name: buffer.tensor for name, buffer in buffers.items()}}
    device.run(program, {p.name: values[p.name] for p in program.parameters})

    faults: list[str] = []
    for name, buffer in buffers.items():
        faults += [f"{name}: {line}" for line in buffer.damage()]
        if program[name].role == "input":
            before = drawn[name].to(device.torch_device)
            faults += _told(name, "of an input changed", buffer.changed(before))
        elif name not in drawn and name not in program.spec.zeroed and guards.is_certain(buffer.tensor.dtype):
            # An integer or e4m3fn output may rightly hold the poison's pattern; there its verdict tells.
            faults += _told(name, "never written", buffer.unwritten())
    return Result({p.name: buffers[p.name].tensor for p in program.outputs}, faults)


def _told(name: str, what: str, where: Region) -> list[str]:
    if where.count == 0:
        return []
    return [f"{name}: {elements(where.count)} {what}, {where}"]


def judge_outputs(
    program: Program, drawn: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]
) -> dict[str, Verdict]:
    """Verdict on each output, against the spec's reference of the inputs `drawn`."""
    references = references_of(program, drawn)
    low_for = functools.cache(lambda dtype: _low_references(program, drawn, dtype))
    low = {
        name: low_for(outputs[name].dtype)[name].value
        for name, reference in references.items()
        if reference.terms is None and not reference.exact and outputs[name].is_floating_point()
    }
    return {name: judge(outputs[name], references[name], low.get(name)) for name in outputs}


def references_of(program: Program, drawn: Mapping[str, torch.Tensor]) -> dict[str, Reference]:
    """The spec's reference, computed where `drawn` lies from its floats in float64, by output name.

    Raises ValueError where it does not give every output of the program, in its shape.
    """
    wide = {n: t.double() if t.is_floating_point() else t for n, t in drawn.items()}
    return _called(program, wide)


def _low_references(
    program: Program, drawn: Mapping[str, torch.Tensor], output: torch.dtype
) -> dict[str, Reference]:
    """The reference in the precision of the inputs, or of an `output` that is wider: whoever stores more bits
    has computed them. In float32 where torch has no such arithmetic.
    """
    drawn = {
        n: t.to(output) if t.is_floating_point() and t.element_size() < output.itemsize else t
        for n, t in drawn.items()
    }
    narrow = all(not t.is_floating_point() or t.element_size() > 1 for t in drawn.values())
    try:
        if narrow:
            return _called(program, drawn)
    except RuntimeError:
        pass  # "not implemented for 'Half'" and its like
    single = {n: t.float() if t.is_floating_point() else t for n, t in drawn.items()}
    try:
        return _called(program, single)
    except RuntimeError as error:
        raise SpecError(
            f"kernel {program.spec.name!r}: the reference gives no error terms, and runs in float64 only "
            f"({error}), so that there is no bound; give terms, or make no tensors of a fixed dtype in it"
        ) from error


def _called(program: Program, tensors: Mapping[str, torch.Tensor]) -> dict[str, Reference]:
    spec, case = program.spec, program.case
    where = f"kernel {spec.name!r}: reference of case {case.id!r}"
    given = call_by_name(spec.reference, {**program.names, **tensors})
    wanted = [p.name for p in program.outputs]
    if not isinstance(given, Mapping):
        if len(wanted) != 1:
            raise SpecError(
                f"{where} returns one value, but the program writes {', '.join(wanted)}; return a mapping, "
                "or name the spec's `outputs` where one of them is an input that a kernel must not write"
            )
        given = {wanted[0]: given}
    if set(given) != set(wanted):
        raise SpecError(f"{where} gives {', '.join(given)}; the program writes {', '.join(wanted)}")
    references = {n: r if isinstance(r, Reference) else Reference(r) for n, r in given.items()}
    for parameter in program.outputs:
        value = references[parameter.name].value
        if not isinstance(value, torch.Tensor):
            raise SpecError(f"{where} gives a {type(value).__name__} for {parameter.name}, not a tensor")
        if tuple(value.shape) != parameter.shape:
            raise SpecError(
                f"{where} gives {parameter.name} shape {list(value.shape)}; in the program it is "
                f"{list(parameter.shape or ())}"
            )
    return references


def _nothing(program: Program, device: "Device") -> Result:
    empty = {
        p.name: torch.empty(p.shape or (), dtype=torch_dtype(p.dtype), device=device.torch_device)
        for p in program.outputs
    }
    return Result(empty)


def _message(program: Program, outcome: Outcome, repeat: str) -> str:
    lines = [f"{outcome.kernel} is wrong for {program.case} on {outcome.device}, {outcome.arch}"]
    if outcome.schedule:
        lines.append(f"schedule: {outcome.schedule}")
    lines += [f"the case is there for: {program.case.why}", *outcome.faults]
    for name, verdict in outcome.verdicts.items():
        if not verdict.ok:
            lines += verdict.lines(name)
    if program.case.draw not in program.spec.draws and (whole := _integers(program)):
        lines.append(
            f"{', '.join(whole)}: drawn from -8 to 8, or 0 to 16 unsigned; `draws` of the spec gives others, "
            "as indices that are in range"
        )
    if repeat:
        lines.append(f"repeat: {repeat}")
    return "\n".join(lines)


def _integers(program: Program) -> list[str]:
    """The inputs that hold integers."""
    kinds = {p.name: torch_dtype(p.dtype) for p in program.parameters if p.role in ("input", "inout")}
    return [
        name
        for name, kind in kinds.items()
        if not (kind.is_floating_point or kind.is_complex or kind is torch.bool)
    ]
