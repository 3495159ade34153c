"""Tile operators on the registers of a thread, written out as loops over elements, as TileLang lowers them.

Each function takes the call and gives a statement that does the same with loads and stores, or None where no
operand is a thread's own (scope `local`).
"""

from collections.abc import Callable, Sequence
from typing import Any

_OWN_SCOPES = ("local", "local.var")
_NEAR = ("local", "local.var", "local.fragment")


def is_own(region: Any) -> bool:
    """Whether the buffer of a region belongs to each thread alone."""
    return str(region.args[0].buffer.scope()) in _OWN_SCOPES


def copy_by_element(call: Any) -> Any:
    """target[...] = source[...], over the extents that are not 1 on the nearer side."""
    source, target = call.args[:2]
    if not (is_own(source) or is_own(target)):
        return None
    near = str(source.args[0].buffer.scope()) in _NEAR
    steps = [e for e in _extents(source if near else target) if not _is_one(e)]

    def body(loop_vars: Sequence[Any]) -> Any:
        return _store(target, _load(source, loop_vars), loop_vars)

    return _nest(steps, body)


def fill_by_element(call: Any) -> Any:
    """target[...] = value."""
    target, value = call.args[:2]
    if not is_own(target):
        return None
    steps = [e for e in _extents(target) if not _is_one(e)]
    return _nest(steps, lambda loop_vars: _store(target, value, loop_vars))


def reduce_by_element(call: Any) -> Any:
    """target[...] = neutral element, unless told not to clear it; then each element of the source joins."""
    from tilelang import tvm

    source, target = call.args[:2]
    if not (is_own(source) or is_own(target)):
        return None
    kind, axis, clear = str(call.args[2].value), int(call.args[3]), bool(call.args[4])
    extents = _extents(source)
    dtype = str(target.args[0].buffer.dtype)
    kept = [e for i, e in enumerate(extents) if i != axis]

    def result(loop_vars: Sequence[Any]) -> list[Any]:
        """Indices of the result: it lacks the axis, or has 1 there."""
        others = [v for i, v in enumerate(loop_vars) if i != axis]
        minima = list(target.args[0].indices)
        if len(minima) == len(loop_vars):
            others.insert(axis, tvm.tirx.IntImm("int32", 0))
        offsets = others or [tvm.tirx.IntImm("int32", 0)]
        return [m + o for m, o in zip(minima, offsets, strict=True)]

    def join(loop_vars: Sequence[Any]) -> Any:
        place = result(loop_vars)
        source_load = source.args[0]
        at = [m + v for m, v in zip(source_load.indices, loop_vars, strict=True)]
        element = tvm.tirx.BufferLoad(source_load.buffer, at).astype(dtype)
        old = tvm.tirx.BufferLoad(target.args[0].buffer, place)
        return tvm.tirx.BufferStore(target.args[0].buffer, _joined(kind, old, element), place)

    loops = _nest(extents, join)
    if not clear:
        return loops
    neutral = _neutral(kind, dtype)

    def start(loop_vars: Sequence[Any]) -> Any:
        every = list(loop_vars)
        every.insert(axis, tvm.tirx.IntImm("int32", 0))
        return tvm.tirx.BufferStore(target.args[0].buffer, neutral, result(every))

    return tvm.tirx.SeqStmt([_nest(kept, start), loops])


def _joined(kind: str, old: Any, element: Any) -> Any:
    from tilelang import tvm

    tir = tvm.tirx
    if kind in ("abssum", "absmax") and not str(element.dtype).startswith("uint"):
        element = tir.Max(element, tir.const(0, str(element.dtype)) - element)
    if kind in ("sum", "abssum"):
        return old + element
    if kind in ("max", "absmax"):
        return tir.Max(old, element)
    if kind == "min":
        return tir.Min(old, element)
    return {"bitand": old.__and__, "bitor": old.__or__, "bitxor": old.__xor__}[kind](element)


def _neutral(kind: str, dtype: str) -> Any:
    from tilelang import tvm

    if kind == "max":
        return tvm.tirx.min_value(dtype) if "float" not in dtype else tvm.tirx.const(float("-inf"), dtype)
    if kind == "min":
        return tvm.tirx.max_value(dtype) if "float" not in dtype else tvm.tirx.const(float("inf"), dtype)
    return tvm.tirx.const(-1 if kind == "bitand" else 0, dtype)


def _extents(region: Any) -> list[Any]:
    return list(region.args[2:])


def _is_one(extent: Any) -> bool:
    return type(extent).__name__ == "IntImm" and int(extent) == 1


def _indices(region: Any, loop_vars: Sequence[Any]) -> list[Any]:
    rest = iter(loop_vars)
    minima, extents = region.args[0].indices, _extents(region)
    return [m if _is_one(e) else m + next(rest) for m, e in zip(minima, extents, strict=True)]


def _load(region: Any, loop_vars: Sequence[Any]) -> Any:
    from tilelang import tvm

    return tvm.tirx.BufferLoad(region.args[0].buffer, _indices(region, loop_vars))


def _store(region: Any, value: Any, loop_vars: Sequence[Any]) -> Any:
    from tilelang import tvm

    buffer = region.args[0].buffer
    if str(value.dtype) != str(buffer.dtype):
        value = tvm.tirx.Cast(str(buffer.dtype), value)
    return tvm.tirx.BufferStore(buffer, value, _indices(region, loop_vars))


def _nest(extents: Sequence[Any], body: Callable[[Sequence[Any]], Any]) -> Any:
    from tilelang import tvm

    loop_vars = [tvm.tirx.Var(f"e{i}", "int32") for i in range(len(extents))]
    statement = body(loop_vars)
    for var, extent in reversed(list(zip(loop_vars, extents, strict=True))):
        statement = tvm.tirx.For(var, 0, extent, tvm.tirx.ForKind.SERIAL, statement)
    return statement
