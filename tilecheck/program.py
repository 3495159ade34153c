"""From a spec and one of its cases to the TileLang program a device runs, and what each parameter of it is
for.

A `Program` is the very PrimFunc that a GPU would get: the simulator interprets it, `launch` compiles it.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CellType, FunctionType
from typing import Any, Literal

from tilecheck.arches import Arch
from tilecheck.spec import PASS_CONFIGS, Case, KernelSpec, call_by_name

Role = Literal["input", "output", "inout", "scalar"]

# Position of the operands that an operator writes; its other regions are read. `accumulates` also reads them.
_WRITES: dict[str, tuple[int, ...]] = {
    "copy": (1,),
    "async_copy": (1,),
    "tma_copy": (1,),
    "im2col": (1,),
    "transpose": (1,),
    "fill": (0,),
    "cumsum": (1,),
    "cummax": (1,),
    "reduce": (1,),
    "finalize_reducer_v2": (1,),
}
_ACCUMULATES: dict[str, tuple[int, ...]] = {
    "gemm": (2,),
    "wgmma_gemm": (2,),
    "gemm_sp": (3,),
    "atomicadd": (1,),
    "atomicmax": (1,),
    "atomicmin": (1,),
}


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
    parameter nobody gives, a program that is no PrimFunc, a symbolic size without a value, no output.
    """
    if schedule is None:
        schedule = spec.schedule_for(case, arch)
    spec.check_schedule(schedule, case, arch, pass_configs)
    names = spec.names(case, arch, schedule, pass_configs)
    with source_lines_recorded():
        prim_func, own_configs = _trace(spec, names)
    return Program(
        spec=spec,
        case=case,
        arch=arch,
        schedule=schedule,
        prim_func=prim_func,
        parameters=_parameters(spec, prim_func, {**case.dims, **case.flags}),
        pass_configs={**own_configs, **names[PASS_CONFIGS]},
    )


@contextmanager
def source_lines_recorded() -> Iterator[None]:
    """Has TileLang stamp every statement it traces with the line of the kernel's source; diagnostics quote
    it.

    TileLang's own macros (`T.reduce_sum` is one) would put lines of its library there: those are not
    recorded, so that the line of the call stays.
    """
    import tilelang
    from tilelang.env import env
    from tilelang.language.eager import builder
    from tilelang.language.eager.builder import Builder

    library = os.path.dirname(tilelang.__file__) + os.sep
    before, record = env.TILELANG_ENABLE_IR_SPAN, Builder.set_fileline

    def record_unless_library(self: Any, filename: str, lineno: int, name: str) -> Any:
        return None if filename.startswith(library) else record(self, filename, lineno, name)

    env.TILELANG_ENABLE_IR_SPAN = "1"
    Builder.set_fileline = record_unless_library
    mutate = builder.mutate
    builder.mutate = _remembering(mutate)
    try:
        yield
    finally:
        env.TILELANG_ENABLE_IR_SPAN = before
        Builder.set_fileline = record
        builder.mutate = mutate


_rewritten: dict[tuple[Any, ...], tuple[Any, dict[str, Any]]] = {}
"""Code of a traced function and the module it is from -> (what TileLang made of it, the module's names)."""


def _remembering(mutate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """TileLang's `mutate`, which parses and rewrites the source of a function, but once for each function.

    A program is traced for each case and schedule, its macros more often, and nine tenths of that time went
    into rewriting the same source. Only the values that a function takes from around it differ.
    """
    from tilelang.language.eager.utils import get_func_nonlocals

    def remembered(function: Any) -> Any:
        code = function.__code__
        key = (code, code.co_filename, id(function.__globals__))
        if key in _rewritten:
            generator, _ = _rewritten[key]
            around = get_func_nonlocals(function)
            made = generator.gen
            if set(made.__code__.co_freevars) <= around.keys():
                cells = tuple(CellType(around[name]) for name in made.__code__.co_freevars)
                gen = FunctionType(made.__code__, made.__globals__, made.__name__, made.__defaults__, cells)
                return replace(generator, gen=gen)
        generator = mutate(function)
        if not generator.extra_type_hints:  # those are values of around, too
            _rewritten[key] = (generator, function.__globals__)
        return generator

    return remembered


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
            raise ValueError(
                f"kernel {spec.name!r}: program asks for {', '.join(missing)}, which is no dim or flag of "
                f"case {names['case'].id!r}; known: {', '.join(names)}"
            )
        traced = program.get_tir(**{n: names[n] for n in wanted if n in names})
    else:
        traced = call_by_name(program, names)
        if isinstance(traced, JITImpl):
            raise ValueError(f"kernel {spec.name!r}: program returns a @tilelang.jit function; call it there")
    if not isinstance(traced, PrimFunc):
        raise ValueError(
            f"kernel {spec.name!r}: program returns {type(traced).__name__}, not a TileLang PrimFunc"
        )
    return traced, pass_configs


def _parameters(spec: KernelSpec, prim_func: Any, sizes: Mapping[str, Any]) -> tuple[Parameter, ...]:
    written, read = global_accesses(prim_func)
    parameters = []
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
    if not any(p.role in ("output", "inout") for p in parameters):
        raise ValueError(f"kernel {spec.name!r}: the program writes none of {[p.name for p in parameters]}")
    known = {p.name for p in parameters}
    if unknown := sorted({*(spec.outputs or ()), *spec.zeroed} - known):
        raise ValueError(
            f"kernel {spec.name!r}: {', '.join(unknown)} is no parameter; there are {sorted(known)}"
        )
    return tuple(parameters)


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
        raise ValueError(
            f"kernel {spec.name!r}: {what} holds the symbolic size {extent.name!r}, which is no dim of the "
            f"case; known: {', '.join(sizes)}"
        )
    bound = {v: _size(spec, v, sizes, what) for v in tvm.tirx.analysis.undefined_vars(extent)}
    value = tvm.arith.Analyzer().simplify(tvm.tirx.stmt_functor.substitute(extent, bound))
    if not isinstance(value, tvm.tirx.IntImm):
        raise ValueError(f"kernel {spec.name!r}: {what} is {extent}, which is no number for this case")
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


def global_accesses(prim_func: Any) -> tuple[set[Any], set[Any]]:
    """(written, read): data variables of the buffers that a program stores to and loads from; atomics do
    both.
    """
    from tilelang import tvm

    written: set[Any] = set()
    loads: list[Any] = []

    def drop(load: Any) -> None:
        # Children come before their parents: the load under a written region was counted as a read just now.
        for i in range(len(loads) - 1, -1, -1):
            if loads[i].same_as(load):
                del loads[i]
                return

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tirx.BufferStore):
            written.add(node.buffer.data)
        elif isinstance(node, tvm.tirx.BufferLoad):
            loads.append(node)
        elif isinstance(node, tvm.tirx.Call) and isinstance(node.op, tvm.ir.Op):
            name = node.op.name.rpartition(".")[2]
            if name == "access_ptr":
                mask = int(node.args[2])
                if mask & 2:
                    written.add(node.args[0].buffer.data)
                if not mask & 1:
                    drop(node.args[0])
            for i in (*_WRITES.get(name, ()), *_ACCUMULATES.get(name, ())):
                load = node.args[i].args[0]
                written.add(load.buffer.data)
                if i in _WRITES.get(name, ()):
                    drop(load)

    tvm.tirx.stmt_functor.post_order_visit(prim_func.body, visit)
    return written, {load.buffer.data for load in loads}
