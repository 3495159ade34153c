"""Expressions: constants, arithmetic, conditions, loads, casts and calls of math functions."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tilecheck.simulator.access import Closure, cell_of
from tilecheck.simulator.intrinsics import INTRINSICS
from tilecheck.simulator.state import State, both
from tilecheck.simulator.translator import CALLS, EXPRESSIONS, Translator, handles, operator_name
from tilecheck.simulator.values import (
    Value,
    arithmetic,
    as_tensor,
    bits_of,
    cast,
    constant,
    is_float,
    load_form,
    memory_dtype,
    store_form,
    truth,
    value_dtype,
    wrap,
)


@handles(EXPRESSIONS, "IntImm")
def _integer(t: Translator, node: Any) -> Closure:
    value = constant(int(node.value), str(node.dtype))
    return lambda s: value


@handles(EXPRESSIONS, "FloatImm")
def _floating(t: Translator, node: Any) -> Closure:
    value = constant(float(node.value), str(node.dtype))
    return lambda s: value


@handles(EXPRESSIONS, "StringImm")
def _text(t: Translator, node: Any) -> Closure:
    value = str(node.value)
    return lambda s: value


@handles(EXPRESSIONS, "Var", "SizeVar")
def _variable(t: Translator, node: Any) -> Closure:
    return t.variable(node)


@handles(
    EXPRESSIONS,
    *("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"),
    *("EQ", "NE", "LT", "LE", "GT", "GE"),
)
def _binary(t: Translator, node: Any) -> Closure:
    kind, a, b = type(node).__name__, t.expr(node.a), t.expr(node.b)
    function = arithmetic(kind, str(node.a.dtype))
    if kind in ("Div", "Mod", "FloorDiv", "FloorMod") and not is_float(str(node.a.dtype)):
        return _division(t, function, a, b)
    return lambda s: function(a(s), b(s))


def _division(t: Translator, function: Callable[[Value, Value], Value], a: Closure, b: Closure) -> Closure:
    location = t.location

    def evaluate(s: State) -> Value:
        divisor = b(s)
        if isinstance(divisor, Tensor):
            zero = divisor == 0
            wrong = bool((zero if s.mask is None else zero & s.mask).any())
        else:
            wrong = divisor == 0
        if wrong:
            s.findings.add("division by zero", location, "", f"integer division by zero ({s.where})")
            if not isinstance(divisor, Tensor):
                return 0
        return function(a(s), divisor)

    return evaluate


@handles(EXPRESSIONS, "And")
def _and(t: Translator, node: Any) -> Closure:
    return _short_circuit(t.expr(node.a), t.expr(node.b), stop_at=False)


@handles(EXPRESSIONS, "Or")
def _or(t: Translator, node: Any) -> Closure:
    return _short_circuit(t.expr(node.a), t.expr(node.b), stop_at=True)


def _short_circuit(a: Closure, b: Closure, *, stop_at: bool) -> Closure:
    """C evaluates the right side only where the left side leaves it open; a load there may be out of range
    else.
    """

    def evaluate(s: State) -> Value:
        left = truth(a(s))
        if not isinstance(left, Tensor):
            return left if left is stop_at else truth(b(s))
        open_ = ~left if stop_at else left
        outer = s.mask
        s.mask = both(outer, open_)
        try:
            right = truth(b(s)) if bool(s.mask.any()) else stop_at
        finally:
            s.mask = outer
        return (left | right) if stop_at else (left & right)

    return evaluate


@handles(EXPRESSIONS, "Not")
def _not(t: Translator, node: Any) -> Closure:
    a = t.expr(node.a)

    def evaluate(s: State) -> Value:
        value = truth(a(s))
        return ~value if isinstance(value, Tensor) else not value

    return evaluate


@handles(EXPRESSIONS, "Select")
def _select(t: Translator, node: Any) -> Closure:
    return _choose(t, node.condition, node.true_value, node.false_value)


@handles(CALLS, "tirx.if_then_else")
def _if_then_else(t: Translator, node: Any) -> Closure:
    return _choose(t, *node.args)


def _choose(t: Translator, condition: Any, if_true: Any, if_false: Any) -> Closure:
    """Each lane evaluates only the side it takes: the other side's loads may be out of range."""
    dtype = str(if_true.dtype)
    test, a, b = t.expr(condition), t.expr(if_true), t.expr(if_false)

    def evaluate(s: State) -> Value:
        chosen = truth(test(s))
        if not isinstance(chosen, Tensor):
            return a(s) if chosen else b(s)
        outer = s.mask
        yes = both(outer, chosen)
        no = both(outer, ~chosen)
        if not bool(no.any()):
            return a(s)
        if not bool(yes.any()):
            return b(s)
        try:
            s.mask = yes
            x = a(s)
            s.mask = no
            y = b(s)
        finally:
            s.mask = outer
        return torch.where(chosen, as_tensor(x, dtype), as_tensor(y, dtype))

    return evaluate


@handles(EXPRESSIONS, "Cast")
def _cast(t: Translator, node: Any) -> Closure:
    value, source, target = t.expr(node.value), str(node.value.dtype), str(node.dtype)
    if node.annotations:
        given = ", ".join(f"{name}={setting}" for name, setting in node.annotations.items())
        raise t.unsupported(f"a cast with {given}")
    if source == target:
        return value
    return lambda s: cast(value(s), source, target)


@handles(EXPRESSIONS, "Let")
def _let(t: Translator, node: Any) -> Closure:
    value = t.expr(node.value)
    slot = t.define(node.var, t.axes(node.value))
    body = t.expr(node.body)

    def evaluate(s: State) -> Value:
        s.vars[slot] = value(s)
        return body(s)

    return evaluate


@handles(EXPRESSIONS, "BufferLoad")
def _load(t: Translator, node: Any) -> Closure:
    slot = t.buffer(node.buffer)
    if t.is_registers(slot):
        return _load_register(t, node, slot)
    return t.touching(node, t.access(node), stores=False).load


def _load_register(t: Translator, node: Any, slot: int) -> Closure:
    indices = [t.expr(i) for i in t.indices(node)]
    location, name = t.location, node.buffer.name
    blank = constant(0, str(node.dtype))

    def evaluate(s: State) -> Value:
        registers = s.memory[slot]
        cell = cell_of(s, registers, indices, location)
        if cell is None:
            return blank
        held = registers.cells.get(cell)
        if held is None:
            why = "which nothing has written"
        elif held[1] is None:
            return held[0]
        elif isinstance(held[1], str):
            why = "whose value differs between the iterations of the T.Parallel that wrote it"
        else:
            unwritten = ~held[1] if s.mask is None else s.mask & ~held[1]
            if not bool(unwritten.any()):
                return held[0]
            why = "which some lanes have not written"
        s.findings.add("unwritten read", location, name, f"{name}{list(cell)}, {why} ({s.where})")
        return blank if held is None else held[0]

    return evaluate


@handles(EXPRESSIONS, "Call")
def _call(t: Translator, node: Any) -> Closure:
    name, given = operator_name(node), list(node.args)
    if name == "tirx.call_pure_extern":
        name, *given = str(given[0].value), *given[1:]
    if name in INTRINSICS:
        for mode in (str(a.value) for a in given if type(a).__name__ == "StringImm"):
            if mode != "rn":
                raise t.unsupported(f"{name} with rounding mode {mode}")
        dtypes = [str(a.dtype) for a in given]
        function = INTRINSICS[name](str(node.dtype), dtypes)
        arguments = [t.expr(a) for a in given]
        if len(arguments) == 1:
            only = arguments[0]
            return lambda s: function(only(s))
        return lambda s: function(*(a(s) for a in arguments))
    return t.call(node)


@handles(CALLS, "tirx.large_uint_imm")
def _large_integer(t: Translator, node: Any) -> Closure:
    """A uint64 constant past the largest int64, given as its lower and upper 32 bits."""
    low, high = (int(a) for a in node.args)
    value = wrap(high << 32 | low, str(node.dtype))
    return lambda s: value


@handles(CALLS, "tl.infinity")
def _infinity(t: Translator, node: Any) -> Closure:
    value = constant(float("inf"), str(node.dtype))
    return lambda s: value


@handles(CALLS, "tirx.reinterpret")
def _reinterpret(t: Translator, node: Any) -> Closure:
    value, source, target = t.expr(node.args[0]), str(node.args[0].dtype), str(node.dtype)
    if bits_of(source) != bits_of(target):
        raise t.unsupported(f"reinterpreting {source} as {target}")

    def evaluate(s: State) -> Value:
        stored = store_form(as_tensor(value(s), source), source)
        return load_form(stored.view(memory_dtype(target)), target)

    return evaluate


@handles(CALLS, "tirx.likely", "tirx.ignore_loop_partition", "tl.__ldg")
def _same(t: Translator, node: Any) -> Closure:
    return t.expr(node.args[0])


@handles(CALLS, "tl.max_nan", "tl.min_nan")
def _nan_propagating(t: Translator, node: Any) -> Closure:
    function = torch.maximum if operator_name(node) == "tl.max_nan" else torch.minimum
    dtype = str(node.dtype)
    a, b = (t.expr(x) for x in node.args)
    return lambda s: function(as_tensor(a(s), dtype), as_tensor(b(s), dtype)).to(value_dtype(dtype))
