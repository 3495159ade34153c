"""Whether an installed package can be imported, and whether it is the one that Python finds."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tilecheck.doctor.lines import Line
from tilecheck.gist import telling_line

IMPORT_SECONDS = 300
"""The longest that importing a package may take: the first time, on a slow disk, it is minutes."""

_MARK = "\x1e"
"""Before what is said of a failure, so that what the package itself writes is not taken for it."""

# By the path of this process: a child of its own would look in the current folder first.
_TRY = f"""
import sys
sys.path[:] = sys.argv[2:]
try:
    __import__(sys.argv[1])
except BaseException as error:
    sys.stderr.write("{_MARK}" + type(error).__name__ + "{_MARK}" + str(error))
    sys.stderr.flush()
    sys.exit(1)
"""


def import_fault(package: str) -> str | None:
    """Why a package cannot be imported, in one line; None: it can. It is tried in a process of its own, as a
    library that does not fit may end it.
    """
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _TRY, package, *sys.path],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=IMPORT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the import takes more than {IMPORT_SECONDS} s"
    if tried.returncode == 0:
        return None
    if tried.returncode < 0:
        return f"the import ends Python by signal {-tried.returncode}"
    *_, kind, message = ("", "", *tried.stderr.split(_MARK))
    return f"{kind}: {telling_line(message)}" if kind else f"the import ends Python, code {tried.returncode}"


_OF_A_MODULE = re.compile(
    r"(?:No module named|cannot import name '[^']*' from(?: partially initialized module)?) '([^'.]+)"
)
"""What Python says of an import within an import, with the name of the outermost package."""


def mend_of_another(fault: str, package: str) -> str | None:
    """What mends an import of `package` that fails for a module which is not its own, and which this names;
    None: it is the package's own fault.

    fault: as `import_fault` tells it.
    """
    told = _OF_A_MODULE.search(fault)
    if told is None:
        return None
    module, own = told[1], _metadata(importlib.metadata.files, package)
    if module in {package, *(each.parts[0] for each in own)}:
        return None
    if module in sys.stdlib_module_names:
        return f"{module} is part of Python, and this one lacks it: take another build of Python"
    # A distribution may have another name than its module: z3 is of z3-solver.
    wanted = [Requirement(text).name for text in _metadata(importlib.metadata.requires, package)]
    alike = [name for name in wanted if canonicalize_name(module) in canonicalize_name(name)]
    if lacking := [name for name in alike if not _installed(name)]:
        return f"{module}, which {package} imports, is missing: pip install {lacking[0]}"
    if owner := _owner(module):
        return f"{module}, which {package} imports, is broken: pip install --force-reinstall {owner}"
    if any(module in each.parts for each in own):  # in a folder that it adds to the path
        return None
    return f"{module}, which {package} imports, is missing: pip install {module}"


def _owner(module: str) -> str | None:
    """The distribution that a module came with, by its files: `packages_distributions` of Python 3.10 knows
    only those that list their modules.
    """
    for distribution in importlib.metadata.distributions():
        if any(file.parts[0] in (module, f"{module}.py") for file in distribution.files or ()):
            return str(distribution.metadata["Name"])
    return None


def _metadata(read: Callable[[str], list[Any] | None], package: str) -> list[Any]:
    try:
        return read(package) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def hidden_by(package: str) -> Path | None:
    """The module or package that Python finds in place of the installed one; None: it finds that.

    Where the installed one is linked to, and not copied, nobody can tell: None.
    """
    try:
        files = importlib.metadata.files(package) or []
        spec = importlib.util.find_spec(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    own = next(
        (Path(str(each.locate())) for each in files if each.as_posix() == f"{package}/__init__.py"), None
    )
    if own is None or spec is None or spec.origin is None:
        return None
    found = Path(spec.origin)
    if not own.exists() or not found.exists() or found.samefile(own):
        return None
    return found.parent if found.name == "__init__.py" else found


def hidden_line(name: str, installed: str | None, fault: str | None, by: Path) -> Line:
    """What is installed, hidden by something else; bad where that cannot be imported."""
    found = f"{installed} is installed, but {by} comes before it"
    mend = f"take {by.parent} off PYTHONPATH, or give the command in another folder"
    if fault is None:
        return Line(name, "note", found, mend)
    return Line(name, "bad", f"{found}, and cannot be imported: {fault}", mend)


def cache_at_fault(fault: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The folder that TileLang makes as it is imported, if that is what failed."""
    folder = environ.get("TILELANG_CACHE_DIR") or os.path.expanduser("~/.tilelang/cache")
    named = {Path(text) for text in re.findall(r"\[Errno .*'([^']+)'", fault)}
    return folder if named & {Path(folder), *Path(folder).parents} else None
