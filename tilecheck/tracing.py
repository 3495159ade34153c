"""How the suite has TileLang trace a program: with the lines of its source, without doing work twice, and
without a log of the code that it makes of a program which cannot be traced.

TileLang offers none of it for a caller to ask for; all are settings of its tracer, put back afterwards.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import CellType, FunctionType
from typing import Any

from tilecheck.unlogged import unlogged


@contextmanager
def tracing() -> Iterator[None]:
    """What is traced within has, on each statement, the line of the kernel's source; diagnostics quote it."""
    # Before it raises what happened, at the line of the author's source, TileLang logs the function that it
    # made of that source: fifty lines that nobody wrote.
    made_code = unlogged("tilelang.language.eager.builder", "Failed to build prim_func")
    with _lines_recorded(), _sources_remembered(), made_code:
        yield


@contextmanager
def _lines_recorded() -> Iterator[None]:
    """TileLang's own macros (`T.reduce_sum` is one) would put lines of its library on their statements: those
    are not recorded, so that the line of the call stays."""
    import tilelang
    from tilelang.env import env
    from tilelang.language.eager.builder import Builder

    library = os.path.dirname(tilelang.__file__) + os.sep
    before, record = env.TILELANG_ENABLE_IR_SPAN, Builder.set_fileline

    def record_unless_library(self: Any, filename: str, lineno: int, name: str) -> Any:
        return None if filename.startswith(library) else record(self, filename, lineno, name)

    env.TILELANG_ENABLE_IR_SPAN = "1"
    Builder.set_fileline = record_unless_library
    try:
        yield
    finally:
        env.TILELANG_ENABLE_IR_SPAN = before
        Builder.set_fileline = record


@contextmanager
def _sources_remembered() -> Iterator[None]:
    """Within, TileLang rewrites the source of a function once, and not each time it traces it."""
    from tilelang.language.eager import builder

    mutate = builder.mutate
    builder.mutate = _remembering(mutate)
    try:
        yield
    finally:
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
