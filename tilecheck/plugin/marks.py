"""What an expression after `-m` selects, known before pytest asks each test."""

import ast
from collections.abc import Callable, Collection

import pytest

OURS = frozenset(("correctness", "codegen", "latency", "autotune", "sanitizer", "debugging"))
"""Markers that say what a test asks: nobody gives them to one that is collected, as others may be."""


def all_excluded(metafunc: pytest.Metafunc) -> bool:
    """Whether `-m` is sure to leave out each test that this function gives rows to: those of the grids of all
    kernels take seconds to make.
    """
    return excluded(
        metafunc.config.option.markexpr, {mark.name for mark in metafunc.definition.iter_markers()}
    )


def excluded(expression: str, marks: Collection[str]) -> bool:
    """Whether an expression as `-m` takes it leaves a test with these markers out.

    False where it says anything but `OURS`, "and", "or" and "not".
    """

    def known(part: ast.expr) -> bool:
        if isinstance(part, ast.Name) and part.id in OURS:
            return part.id in marks
        raise SyntaxError

    try:
        return not evaluated(expression, known)
    except SyntaxError:
        return False


def evaluated(expression: str, holds: Callable[[ast.expr], bool]) -> bool:
    """What an expression as `-m` takes it comes to.

    holds: whether a part of it that is no "and", "or" or "not" is true.
    Raises SyntaxError, also for most of what pytest refuses.
    """

    def value(node: ast.expr) -> bool:
        if isinstance(node, ast.BoolOp):
            values = [value(part) for part in node.values]
            return all(values) if isinstance(node.op, ast.And) else any(values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not value(node.operand)
        return holds(node)

    return value(ast.parse(expression.strip(), mode="eval").body)
