"""Which tests `-m` leaves out, known before their rows are made: the grids of all kernels take seconds."""

import ast
from collections.abc import Collection

import pytest

OURS = frozenset(("correctness", "codegen", "latency", "autotune", "sanitizer", "debugging"))
"""Markers that say what a test asks: nobody gives them to one that is collected, as others may be."""


def left_out(metafunc: pytest.Metafunc) -> bool:
    """Whether `-m` is sure to leave out each test that this function gives rows to."""
    return excluded(
        metafunc.config.option.markexpr, {mark.name for mark in metafunc.definition.iter_markers()}
    )


def excluded(expression: str, marks: Collection[str]) -> bool:
    """Whether an expression as `-m` takes it leaves a test with these markers out.

    False where it says anything but `OURS`, "and", "or" and "not".
    """

    def value(node: ast.AST) -> bool:
        if isinstance(node, ast.BoolOp):
            values = [value(part) for part in node.values]
            return all(values) if isinstance(node.op, ast.And) else any(values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not value(node.operand)
        if isinstance(node, ast.Name) and node.id in OURS:
            return node.id in marks
        raise SyntaxError

    try:
        return not value(ast.parse(expression.strip(), mode="eval").body)
    except SyntaxError:
        return False
