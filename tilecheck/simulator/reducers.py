"""Reducers: contributions from the iterations of parallel loops, combined into one result per element."""

from typing import Any

import torch

from tilecheck.simulator.access import Closure
from tilecheck.simulator.operators import Region, tile_operator, update_cells
from tilecheck.simulator.state import State
from tilecheck.simulator.translator import CALLS, Translator, handles
from tilecheck.simulator.values import Value, cast, is_float, value_dtype

_NEUTRAL = {"sum": 0, "bitor": 0, "bitxor": 0, "bitand": -1}


def _neutral(kind: str, dtype: str) -> float:
    if kind in _NEUTRAL:
        return _NEUTRAL[kind]
    if is_float(dtype):
        return float("-inf") if kind == "max" else float("inf")
    info = torch.iinfo(value_dtype(dtype))
    return info.min if kind == "max" else info.max


@handles(CALLS, "tl.tileop.reducer_init")
def _reducer_init(t: Translator, node: Any) -> Closure:
    region = Region(t, node.args[0])
    kind = t.reducers[node.args[0].args[0].buffer.data]
    start = t.expr(node.args[1]) if len(node.args) > 1 else None

    def run(s: State) -> None:
        value: Value = _neutral(kind, region.dtype) if start is None else start(s)
        region.write(s, torch.as_tensor(value).to(value_dtype(region.dtype)))

    return tile_operator(t, run, "reducer_init")


@handles(CALLS, "tl.reducer_update")
def _reducer_update(t: Translator, node: Any) -> Closure:
    return _update(t, node.args[0], node.args[1])


def _update(t: Translator, target: Any, contribution: Any) -> Closure:
    """target: the load that names the element.  contribution: what each iteration adds to it."""
    access, value = t.access(target), t.expr(contribution)
    kind, dtype = t.reducers[target.buffer.data], str(target.buffer.dtype)
    every = torch.Size(t.acting_lanes())

    def run(s: State) -> None:
        given = torch.as_tensor(value(s)).to(value_dtype(dtype))
        array, flat, chosen = access.elements(s, every)
        update_cells(array, flat[chosen], given.expand(flat.shape)[chosen], kind)

    return run


_COMBINE_NODES = {"sum": "Add", "max": "Max", "min": "Min"}


def update_by_store(t: Translator, store: Any) -> Closure:
    """The store that updates a reducer in the older syntax: `r[i] += x`, `r[i] = T.max(r[i], x)`.

    TileLang rewrites it to an update (pass CanonicalizeLegacyReducer), and rejects any other store.
    """
    from tilelang import tvm

    kind, value = t.reducers[store.buffer.data], store.value
    if type(value).__name__ == _COMBINE_NODES.get(kind):
        for current, contribution in ((value.a, value.b), (value.b, value.a)):
            if (
                type(current).__name__ == "BufferLoad"
                and current.buffer.same_as(store.buffer)
                and tvm.ir.structural_equal(current.indices, store.indices)
            ):
                return _update(t, current, contribution)
    raise t.unsupported(f"this store to the {kind} reducer {store.buffer.name}; TileLang rejects it")


@handles(CALLS, "tl.tileop.finalize_reducer", "tl.tileop.finalize_reducer_v2")
def _finalize(t: Translator, node: Any) -> Closure:
    source = Region(t, node.args[0])
    target = Region(t, node.args[1]) if len(node.args) > 1 else None

    def run(s: State) -> None:
        if target is not None:
            target.write(s, cast(source.read(s), source.dtype, target.dtype))

    return tile_operator(t, run, "finalize_reducer")
