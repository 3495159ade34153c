"""From a spec and one of its cases to the TileLang program a device runs, and what its parameters are for.

A `Program` is the very PrimFunc that a GPU would get: the simulator interprets it, `launch` compiles it.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tilecheck.accesses import global_accesses
from tilecheck.arches import Arch
from tilecheck.spec import PASS_CONFIGS, Case, KernelSpec, SpecError, call_by_name
from tilecheck.tracing import tracing

_OUT_IDX = "tilelang_out_idx"


class WrongDType(SpecError):
    """A program declares a tensor with another element type than its case and spec say."""


Role = Literal["input", "output", "inout", "scalar"]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a program.

    shape, strides: in elements, concrete for the case; None for a scalar.
    role: output: written and never read; inout: both (atomics count as both).
    """

    name: str
    dtype: str
    role: Role
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Program:
    """A kernel's program for one case, schedule and architecture, ready to be simulated or compiled."""

    spec: KernelSpec
    case: Case
    arch: Arch
    schedule: Any
    prim_func: Any
    parameters: tuple[Parameter, ...]
    pass_configs: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise KeyError(name)

    @property
    def outputs(self) -> tuple[Parameter, ...]:
        """The tensors that the program writes, inout ones included."""
        return tuple(p for p in self.parameters if p.role in ("output", "inout"))

    @property
    def taking_outputs(self) -> Any:
        """`prim_func` as a function of all its tensors: without TileLang's mark of results that the call
        allocates and returns, which only the host heeds.
        """
        func = self.prim_func
        return func.without_attr(_OUT_IDX) if func.attrs and _OUT_IDX in func.attrs else func

    @property
    def writes_nothing(self) -> bool:
        """Whether no output has an element. Such a grid may be of size zero, which CUDA refuses to launch."""
        return all(0 in (parameter.shape or ()) for parameter in self.outputs)

    @property
    def names(self) -> dict[str, Any]:
        """What functions of the spec may ask for by parameter name."""
        return self.spec.names(self.case, self.arch, self.schedule, self.pass_configs)

    @property
    def variant(self) -> str:
        """The schedule, and pass options that are not the spec's, as messages print them; "" for neither."""
        words = [] if self.schedule is None else [str(self.schedule)]
        usual = self.spec.pass_configs
        words += [f"{k}={v}" for k, v in self.pass_configs.items() if k not in usual or usual[k] != v]
        return ", ".join(words)


def build_program(
    spec: KernelSpec,
    case: Case,
    arch: Arch,
    schedule: Any = None,
    pass_configs: Mapping[str, Any] | None = None,
) -> Program:
    """The program of `case` under `schedule` (None: the default schedule of `arch`).

    pass_configs: options of TileLang's passes, set beside those of the spec.

    Raises ValueError for an illegal schedule, and where the author's functions do not fit together: a
    parameter nobody gives, a program that is no PrimFunc, a symbolic size without a value, no output, a
    tensor that nobody uses, a tensor that is not of the case's element type (WrongDType).
    """
    if schedule is None:
        schedule = spec.schedule_for(case, arch)
    spec.check_schedule(schedule, case, arch, pass_configs)
    names = spec.names(case, arch, schedule, pass_configs)
    with tracing():
        prim_func, own_configs = _trace(spec, names)
    parameters = _parameters(spec, prim_func, {**case.dims, **case.flags})
    _check_dtypes(spec, case, parameters, names)
    return Program(
        spec=spec,
        case=case,
        arch=arch,
        schedule=schedule,
        prim_func=prim_func,
        parameters=parameters,
        pass_configs={**own_configs, **names[PASS_CONFIGS]},
    )


def _trace(spec: KernelSpec, names: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """The PrimFunc that the spec's program gives for `names`, and the pass options of a `@tilelang.jit`."""
    from tilelang.jit import JITImpl
    from tilelang.language import PrimFunc

    program, pass_configs = spec.program, {}
    if isinstance(program, PrimFunc):
        return program, {}
    if isinstance(program, JITImpl):
        pass_configs = dict(program.pass_configs or {})
        wanted = program.signature.parameters
        missing = [n for n, p in wanted.items() if n not in names and p.default is p.empty]
        if missing:
            raise SpecError(
                f"kernel {spec.name!r}: program asks for {', '.join(missing)}, which is no dim or flag of "
                f"case {names['case'].id!r}; known: {', '.join(names)}"
            )
        traced = program.get_tir(**{n: names[n] for n in wanted if n in names})
    else:
        traced = call_by_name(program, names)
        if isinstance(traced, JITImpl):
            raise SpecError(f"kernel {spec.name!r}: program returns a @tilelang.jit function; call it there")
    if not isinstance(traced, PrimFunc):
        raise SpecError(
            f"kernel {spec.name!r}: program returns {type(traced).__name__}, not a TileLang PrimFunc"
        )
    return traced, pass_configs


def _parameters(spec: KernelSpec, prim_func: Any, sizes: Mapping[str, Any]) -> tuple[Parameter, ...]:
    written, read = global_accesses(prim_func)
    parameters, idle = [], []
    for var in prim_func.params:
        if var not in prim_func.buffer_map:
            parameters.append(Parameter(var.name, str(var.dtype), "scalar"))
            continue
        buffer = prim_func.buffer_map[var]
        name = _parameter_name(var.name, buffer.name)
        is_output = buffer.data in written if spec.outputs is None else name in spec.outputs
        role: Role = "input" if not is_output else "inout" if buffer.data in read else "output"
        if role == "inout" and name in spec.zeroed:
            role = "output"
        shape = tuple(_size(spec, extent, sizes, f"shape of {name}") for extent in buffer.shape)
        strides = _strides(spec, buffer, shape, sizes, name)
        parameters.append(Parameter(name, str(buffer.dtype), role, shape, strides))
        if buffer.data not in written | read:
            idle.append(name)
    if not any(p.role in ("output", "inout") for p in parameters):
        raise SpecError(f"kernel {spec.name!r}: the program writes none of {[p.name for p in parameters]}")
    if idle and spec.outputs is None:
        _check_idle(spec, idle)
    known = {p.name for p in parameters}
    if unknown := sorted({*(spec.outputs or ()), *spec.zeroed, *spec.dtypes} - known):
        raise SpecError(
            f"kernel {spec.name!r}: {', '.join(unknown)} is no parameter; there are {sorted(known)}"
        )
    return tuple(parameters)


def _check_idle(spec: KernelSpec, idle: list[str]) -> None:
    """SpecError for a tensor that not even the reference wants: an output that the program forgets would pass
    for an input, and the input that gets the result in its stead for the output.
    """
    wanted = inspect.signature(spec.reference).parameters
    if any(p.kind is p.VAR_KEYWORD for p in wanted.values()):
        return
    if forgotten := [name for name in idle if name not in wanted]:
        raise SpecError(
            f"kernel {spec.name!r}: the program neither reads nor writes {', '.join(forgotten)}, and the "
            "reference does not ask for it; where that is meant, name the spec's `outputs`"
        )


def _check_dtypes(
    spec: KernelSpec, case: Case, parameters: tuple[Parameter, ...], names: Mapping[str, Any]
) -> None:
    for parameter in parameters:
        name, dtype = parameter.name, parameter.dtype
        if parameter.role == "scalar":
            continue
        if name in spec.dtypes:
            stated = spec.dtypes[name]
            wanted = stated if isinstance(stated, str) else call_by_name(stated, names)
            if dtype != wanted:
                raise WrongDType(
                    f"kernel {spec.name!r}: {name} is {dtype} in case {case.id!r}; the spec's `dtypes` say "
                    f"{wanted}"
                )
        elif dtype != case.dtype and (_counts(case.dtype) or not _counts(dtype)):
            raise WrongDType(
                f"kernel {spec.name!r}: {name} is {dtype}, and case {case.id!r} is {case.dtype}; where that "
                f"is meant, the spec says so: dtypes={{{name!r}: {dtype!r}}}"
            )


def _counts(dtype: str) -> bool:
    """Whether it is a type of integers or booleans: of indices, masks, codes."""
    return dtype.startswith(("int", "uint", "bool"))


def _parameter_name(handle: str, buffer: str) -> str:
    # The tracer names the handle of `A` "A_handle" or "A", and renames a buffer that clashes to "A_1".
    return handle.removesuffix("_handle") if handle.endswith("_handle") else handle or buffer


def _size(spec: KernelSpec, extent: Any, sizes: Mapping[str, Any], what: str) -> int:
    from tilelang import tvm

    if isinstance(extent, tvm.tirx.IntImm):
        return int(extent)
    if isinstance(extent, tvm.tirx.Var):
        if isinstance(sizes.get(extent.name), int):
            return int(sizes[extent.name])
        raise SpecError(
            f"kernel {spec.name!r}: {what} holds the symbolic size {extent.name!r}, which is no dim of the "
            f"case; known: {', '.join(sizes)}"
        )
    bound = {v: _size(spec, v, sizes, what) for v in tvm.tirx.analysis.undefined_vars(extent)}
    value = tvm.arith.Analyzer().simplify(tvm.tirx.stmt_functor.substitute(extent, bound))
    if not isinstance(value, tvm.tirx.IntImm):
        raise SpecError(f"kernel {spec.name!r}: {what} is {extent}, which is no number for this case")
    return int(value)


def _strides(
    spec: KernelSpec, buffer: Any, shape: tuple[int, ...], sizes: Mapping[str, Any], name: str
) -> tuple[int, ...]:
    """Concrete strides; a symbolic one that the case does not give is that of a contiguous tensor."""
    contiguous = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        contiguous[axis] = contiguous[axis + 1] * max(shape[axis + 1], 1)
    if len(buffer.strides) != len(shape):
        return tuple(contiguous)
    strides = []
    for default, stride in zip(contiguous, buffer.strides, strict=True):
        try:
            strides.append(_size(spec, stride, sizes, f"stride of {name}"))
        except ValueError:
            strides.append(default)
    return tuple(strides)
