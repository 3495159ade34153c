"""A hash of the source of a kernel's program: a time from before it changed says nothing of it now.

It covers the function and all that it names of its own module, and of modules beside it, step by step;
without comments, docstrings and blank lines. So a new case, or a bound that is mended, leaves winners as they
are. Reads source files only: imports neither torch nor TileLang.
"""

import ast
import hashlib
import inspect
import io
import sys
import tokenize
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


def source_hash(program: Callable[..., Any]) -> str | None:
    """The hash, 16 hexadecimal digits; None where the source cannot be found."""
    function = _plain(program)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    path, name = getattr(module, "__file__", None), getattr(function, "__name__", "")
    if path is None:
        return None
    parts = _reached(Path(path), name)
    return hashlib.sha256("\n\n".join(parts).encode()).hexdigest()[:16] if parts else None


def source_file(program: Callable[..., Any]) -> Path | None:
    """The file of the module that `program` is of; None where there is none."""
    module = sys.modules.get(getattr(_plain(program), "__module__", None) or "")
    path = getattr(module, "__file__", None)
    return None if path is None else Path(path)


def _plain(program: Any) -> Any:
    """The author's function within a partial, or within TileLang's jit."""
    while (inner := getattr(program, "func", None)) is not None and inner is not program:
        program = inner
    return inspect.unwrap(program) if callable(program) else program


def _reached(path: Path, name: str) -> list[str]:
    """The sources that `name` of the file needs, itself first, in the order in which they are met."""
    waiting, seen, parts = [(path, name)], set(), []
    while waiting:
        place = waiting.pop(0)
        if place in seen:
            continue
        seen.add(place)
        try:
            module = _module(place[0], place[0].stat().st_mtime_ns)
        except (OSError, SyntaxError, UnicodeDecodeError):
            continue
        if place[1] in module.defined:
            text, names = module.defined[place[1]]
            parts.append(text)
            waiting += [(place[0], each) for each in names]
        elif place[1] in module.imported:
            waiting.append(module.imported[place[1]])
    return parts


class _Module:
    """What a file defines, by name: normalised source, and the names in it. And what it imports from files
    beside it: file, and name there.
    """

    def __init__(self, path: Path) -> None:
        source = path.read_text(encoding="utf-8")
        self.defined: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.imported: dict[str, tuple[Path, str]] = {}
        comments = _comments(source)
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.ImportFrom):
                beside = path.with_name(f"{(node.module or '').rpartition('.')[2]}.py")
                for alias in node.names:
                    if beside.exists():
                        self.imported[alias.asname or alias.name] = beside, alias.name
            elif isinstance(node, _Definition):
                for name in _names_of(node):
                    self.defined[name] = _normal(node, lines, comments), _used(node)


@lru_cache(maxsize=64)
def _module(path: Path, _changed: int) -> _Module:
    return _Module(path)


def _names_of(node: _Definition) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _used(node: ast.AST) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name)))


def _comments(source: str) -> dict[int, int]:
    """Where a comment begins, by line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.start[1] for token in tokens if token.type == tokenize.COMMENT}


def _normal(node: _Definition, lines: list[str], comments: dict[int, int]) -> str:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    left_out = {n for each in ast.walk(node) for n in _docstring(each)}
    kept = []
    for number in range(first, (node.end_lineno or first) + 1):
        text = lines[number - 1][: comments.get(number)].rstrip()
        if text and number not in left_out:
            kept.append(text)
    return "\n".join(kept)


def _docstring(node: ast.AST) -> range:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)
