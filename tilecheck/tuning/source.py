"""A hash of the source of a kernel's program: a time from before it changed says nothing of it now.

It covers the function and all that it names of its own module, and of modules beside it, however these are
imported, step by step; without comments, docstrings and blank lines. So a new case, or a bound that is
mended, leaves winners as they are. Reads source files only: imports neither torch nor TileLang.
"""

import ast
import hashlib
import inspect
import io
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

_Definition = (
    ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign | ast.AugAssign
)
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


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
        owner, _, attribute = place[1].rpartition(".")
        for text, names in module.defined.get(place[1], ()):
            parts.append(text)
            waiting += [(place[0], each) for each in names]
        if place[1] in module.imported:  # as well, where `except ImportError` defines another
            waiting.append(module.imported[place[1]])
        elif owner in module.modules:
            waiting.append((module.modules[owner], attribute))
        elif place[1] not in module.defined:
            waiting += [(beside, place[1]) for beside in module.whole]
    return parts


class _Module:
    """What a file defines, by name: normalised source, and the names in it, for each definition. And what it
    imports from files beside it: names with file and name there, modules with their file, and the files of
    which it imports all.
    """

    def __init__(self, path: Path) -> None:
        source = path.read_text(encoding="utf-8")
        self.defined: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        self.imported: dict[str, tuple[Path, str]] = {}
        self.modules: dict[str, Path] = {}
        self.whole: list[Path] = []
        comments = _comments(source)
        lines = source.splitlines()
        tree = ast.parse(source)
        for node in ast.walk(tree):  # a program may import where it needs it
            self._import(path, node)
        for node in _statements(tree.body):
            if isinstance(node, _Definition):
                for name in _names_of(node):
                    self.defined.setdefault(name, []).append((_normal(node, lines, comments), _used(node)))

    def _import(self, path: Path, node: ast.AST) -> None:
        def beside(module: str) -> Path | None:
            file = path.with_name(f"{module.rpartition('.')[2]}.py")
            return file if file.exists() else None

        if isinstance(node, ast.Import):
            for alias in node.names:
                if file := beside(alias.name):
                    self.modules[alias.asname or alias.name] = file
        elif isinstance(node, ast.ImportFrom):
            file = beside(node.module or "")
            for alias in node.names:
                if file is None and (module := beside(alias.name)):
                    self.modules[alias.asname or alias.name] = module
                elif file is not None and alias.name == "*":
                    self.whole.append(file)
                elif file is not None:
                    self.imported[alias.asname or alias.name] = file, alias.name


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module, and what is under its `if`, `try` and the like."""
    for node in body:
        yield node
        if not isinstance(node, _Scope):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, name, ()))
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)


@lru_cache(maxsize=64)
def _module(path: Path, _changed: int) -> _Module:
    return _Module(path)


def _names_of(node: _Definition) -> Iterator[str]:
    if isinstance(node, _Scope):
        yield node.name
        return
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _used(node: ast.AST) -> tuple[str, ...]:
    """Names, then those with dots, as of what is in a module."""
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    dotted = [_dotted(each) for each in ast.walk(node) if isinstance(each, ast.Attribute)]
    return tuple(dict.fromkeys((*names, *filter(None, dotted))))


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as text; "" for an attribute of what is no name."""
    if isinstance(node, ast.Name):
        return node.id
    owner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if owner and isinstance(node, ast.Attribute) else ""


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
    if isinstance(node, _Scope):
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)
