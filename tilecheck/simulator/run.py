"""From a PrimFunc and its arguments to a finished run: binds parameters, makes memory, runs, checks the
outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from tilecheck.accesses import global_accesses
from tilecheck.simulator import (  # noqa: F401  (they fill the tables)
    expressions,
    operators,
    reducers,
    statements,
    threads,
)
from tilecheck.simulator.findings import Location, location_of_span
from tilecheck.simulator.memory import Array, Registers, allocate, parameter, view
from tilecheck.simulator.state import Return, State
from tilecheck.simulator.translator import Translator
from tilecheck.simulator.values import cast, is_float, is_known, storage_dtype

UNGUARDED = "tl.disable_safe_memory_legalize"
"""Pass option that takes away TileLang's guards around accesses to global memory."""

WITHOUT_REUSE = "tl.disable_shared_memory_reuse"
"""Pass option that gives each shared buffer memory of its own."""


def run(
    prim_func: Any,
    arguments: Sequence[Tensor | float],
    options: Mapping[str, Any],
    tell: Callable[[str], Any],
) -> None:
    """See `tilecheck.simulator.simulate`."""
    t = Translator(
        prim_func,
        guarded=not options.get(UNGUARDED, False),
        reuses_memory=not options.get(WITHOUT_REUSE, False),
    )
    symbols = _bind_symbols(t, prim_func, arguments)
    body = t.stmt(prim_func.body)
    written, read = global_accesses(prim_func)
    s = State(t.variable_count, [], tell)
    for slot, value in symbols:
        s.vars[slot] = value
    s.memory = _make_memory(t, s, prim_func, arguments, written, read)
    with torch.no_grad(), suppress(Return):
        body(s)
    for array in s.memory:
        if isinstance(array, Array):
            array.storage.end_launch()
    _check_outputs(t, s, prim_func, written - read)
    s.findings.raise_if_any()


def _bind_symbols(
    t: Translator, prim_func: Any, arguments: Sequence[Tensor | float]
) -> list[tuple[int, Any]]:
    """(slot, value) of scalar parameters and of the symbolic sizes and strides of the tensors."""
    from tilelang import tvm

    if len(arguments) != len(prim_func.params):
        raise ValueError(
            f"the program has {len(prim_func.params)} parameters, got {len(arguments)} arguments"
        )
    bound: list[tuple[int, Any]] = []
    known: dict[Any, int] = {}
    for var, argument in zip(prim_func.params, arguments, strict=True):
        if var not in prim_func.buffer_map:
            dtype = str(var.dtype)
            value = cast(argument if isinstance(argument, Tensor) else _number(argument, dtype), dtype, dtype)
            bound.append((t.define(var), value))
            continue
        buffer = prim_func.buffer_map[var]
        if not isinstance(argument, Tensor):
            raise ValueError(f"parameter {buffer.name} is a tensor, got {argument!r}")
        if argument.dim() != len(buffer.shape):
            raise ValueError(
                f"{buffer.name} has {len(buffer.shape)} dimensions, got shape {tuple(argument.shape)}"
            )
        if not is_known(str(buffer.dtype)):
            t.location = location_of_span(buffer.span) or t.location
            raise t.unsupported(f"parameter {buffer.name} of dtype {buffer.dtype}")
        if argument.dtype is not storage_dtype(str(buffer.dtype)):
            raise ValueError(f"{buffer.name} is {buffer.dtype}, got {argument.dtype}")
        for declared, actual in zip(buffer.shape, argument.shape, strict=True):
            if isinstance(declared, tvm.tirx.Var):
                if known.setdefault(declared, actual) != actual:
                    raise ValueError(
                        f"{buffer.name}: {declared.name} is {known[declared]} elsewhere, {actual} here"
                    )
            elif isinstance(declared, tvm.tirx.IntImm) and int(declared) != actual:
                raise ValueError(f"{buffer.name} has shape {list(buffer.shape)}, got {tuple(argument.shape)}")
        for declared, actual in zip(buffer.strides, argument.stride(), strict=False):
            if isinstance(declared, tvm.tirx.Var):
                known.setdefault(declared, actual)
    bound.extend((t.define(var), value) for var, value in known.items())
    return bound


def _number(value: float, dtype: str) -> Any:
    if is_float(dtype):
        return torch.tensor(float(value), dtype=torch.float64).to(storage_dtype(dtype))
    return bool(value) if dtype == "bool" else int(value)


def _make_memory(
    t: Translator,
    s: State,
    prim_func: Any,
    arguments: Sequence[Tensor | float],
    written: set[Any],
    read: set[Any],
) -> list[Array | Registers | None]:
    by_data: dict[Any, Array] = {}
    unit: dict[Any, int] = {}
    for buffer in (*t.buffers, *prim_func.buffer_map.values()):
        size = storage_dtype(str(buffer.dtype)).itemsize
        unit[buffer.data] = min(size, unit.get(buffer.data, size))
    for var, argument in zip(prim_func.params, arguments, strict=True):
        if var in prim_func.buffer_map:
            buffer = prim_func.buffer_map[var]
            assert isinstance(argument, Tensor)
            array = parameter(
                str(buffer.name),
                str(buffer.dtype),
                argument,
                unit[buffer.data],
                stored_to=buffer.data in written,
                read=buffer.data in read and not t.synchronises,
            )
            array.storage.ordered_by_program = t.synchronises
            by_data[buffer.data] = array
    memory: list[Array | Registers | None] = []
    for slot, buffer in enumerate(t.buffers):
        shape = t.private.get(slot, ()) + tuple(int(t.expr(extent)(s)) for extent in buffer.shape)
        name, dtype = str(buffer.name), str(buffer.dtype)
        if t.is_registers(slot):
            memory.append(Registers(name, dtype, shape))
            continue
        declared = next((b for b in prim_func.buffer_map.values() if b.same_as(buffer)), None)
        if declared is not None:
            memory.append(by_data[declared.data])
            continue
        base = by_data.get(buffer.data)
        if base is None:
            array = allocate(name, dtype, str(buffer.scope()), shape, unit[buffer.data])
            by_data[buffer.data] = array
            memory.append(array)
            continue
        strides = _contiguous(shape)
        if buffer.strides:
            of_threads = strides[: len(t.private.get(slot, ()))]
            strides = of_threads + tuple(int(t.expr(stride)(s)) for stride in buffer.strides)
        memory.append(view(base, name, dtype, shape, strides))
    return memory


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def _check_outputs(t: Translator, s: State, prim_func: Any, outputs: set[Any]) -> None:
    """Every element of a tensor that the program writes and never reads must have been written."""
    for slot, buffer in enumerate(t.buffers):
        array = s.memory[slot]
        if buffer.data not in outputs or not isinstance(array, Array) or array.storage.ever is None:
            continue
        if not array.data.numel():
            continue
        missing = array.by_element(~array.shadow(array.storage.ever, array.shape, array.strides, 0))
        if not bool(missing.any()):
            continue
        at = ", ".join(str(int(i)) for i in missing.nonzero()[0])
        s.findings.add(
            "unwritten output",
            t.store_locations.get(buffer.data, Location()),
            array.name,
            f"{array.name}[{at}] is never written ({int(missing.sum())} of {missing.numel()} elements)",
        )
