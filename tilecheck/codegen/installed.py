"""Marks of what is installed and has a say in the code: another one wherever one of its files is another.

Sizes and times of files stand for what is in them: there are 7000, and looking at them takes 0.2 s, once in a
process. An edit of an installed TileLang shows, as does a rebuilt one that is imported from its checkout.
"""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from tilecheck.codegen.toolchain import Toolchain

_MODULES = ("tilelang", "tvm", "tvm_ffi", "z3")
"""Packages that turn a program into CUDA source."""

_HEADERS = frozenset(("", ".h", ".hh", ".hpp", ".hxx", ".cuh", ".cu", ".inl", ".inc", ".ipp"))
_VARIABLE = re.compile(r"(TILELANG|TL|TVM)_(?!.*(CACHE|PRINT|AUTO_TUNING|_DIR$|_PATH$))")
_OF_OPTION = re.compile(r"^--?(I|isystem|include-path|system-include|pre-include|include)[= ]?")


def of_lowering() -> Mapping[str, Any]:
    """The mark of what lowers a program: TileLang, with what it imports, and its variables."""
    from tilelang.env import TL_LIBS

    modules = (sys.modules.get(name) for name in _MODULES)
    folders = [str(folder) for module in modules for folder in getattr(module, "__path__", ())]
    return {
        "record": _record("tilelang"),
        "files": [_of_folder(Path(folder)) for folder in dict.fromkeys([*folders, *map(str, TL_LIBS)])],
        "variables": {name: value for name, value in sorted(os.environ.items()) if _VARIABLE.match(name)},
    }


def of_compiling(options: Sequence[str], toolchain: Toolchain) -> Mapping[str, Any]:
    """The mark of what compiles a source: options of nvcc, with what lies where they point to, and the
    toolkit.
    """
    host = shutil.which(os.environ.get("NVCC_CCBIN") or "g++")
    return {
        "options": [_of_option(option) for option in options],
        "programs": [_of_file(path) for path in (toolchain.nvcc, toolchain.ptxas, toolchain.nvdisasm)],
        "toolkit": _of_toolkit(toolchain.nvcc.parent.parent),
        "host": host and [host, _of_file(Path(host).resolve())],
    }


def _of_option(option: str) -> str:
    """An option; in place of a path, the mark of what lies there: where that is tells nothing."""
    found = _OF_OPTION.match(option)
    name, rest = (found[0], option[found.end() :]) if found else ("", option)
    return name + ",".join(map(_of_place, rest.split(",")))


def _of_place(text: str) -> str:
    place = Path(text)
    if text and place.is_dir():
        return _of_folder(place, _HEADERS)
    return _of_file(place) if text and place.is_file() else text


def _of_toolkit(top: Path) -> Sequence[str]:
    """Compilers and headers of a toolkit; of one that is strewn over the system, nothing."""
    if not (top / "nvvm").is_dir():
        return ()
    headers = _of_folder(top / "include", _HEADERS)
    return [_of_folder(top / "bin"), _of_folder(top / "nvvm"), headers]


@cache
def _of_folder(folder: Path, suffixes: frozenset[str] = frozenset()) -> str:
    """suffixes: of the files that count; without any all do."""
    mark = hashlib.sha256()
    for name, state in sorted(_files(folder, suffixes)):
        mark.update(f"{name}\0{state}\0".encode(errors="surrogateescape"))
    return mark.hexdigest()


def _files(top: Path, suffixes: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Names below `top` and states, but for what is hidden, and what Python makes of its sources."""
    folders, seen = [str(top)], set()
    while folders:
        folder = folders.pop()
        try:
            found = os.stat(folder)
            entries = list(os.scandir(folder))
        except OSError:
            continue
        if (found.st_dev, found.st_ino) in seen:  # through a link
            continue
        seen.add((found.st_dev, found.st_ino))
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__pycache__":
                continue
            if entry.is_dir():
                folders.append(entry.path)
            elif not suffixes or os.path.splitext(entry.name)[1] in suffixes:
                yield os.path.relpath(entry.path, top), _of_file(entry)


def _of_file(path: "Path | os.DirEntry[str]") -> str:
    try:
        found = path.stat()
    except OSError:
        return "none"
    return f"{found.st_size} {found.st_mtime_ns}"


@cache
def _record(package: str) -> str:
    """A hash of a package's list of files with theirs: it tells builds apart whose files have one time."""
    try:
        record = distribution(package).read_text("RECORD") or ""
    except PackageNotFoundError:
        record = ""
    return hashlib.sha256(record.encode()).hexdigest()
