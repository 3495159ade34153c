"""Files for another repository: what `tilecheck init` and `tilecheck new` write, and how.

Nothing that is there is ever written over.
"""

import ast
import dataclasses
import importlib.util
import json
import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from tilecheck.files import create, replace
from tilecheck.project import configuration_of, find_project, words_of

MODULES = ("correctness", "schedules", "latency", "differential", "determinism", "sanitizer")
"""The test modules that `init` writes; each asks one question of every kernel."""

LISTING = "FAMILIES"
"""Name of the tuple of a specs package that lists its modules."""

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class CannotWrite(ValueError):
    """What was asked for cannot be written; the text is one line."""


@dataclass(frozen=True)
class Step:
    """What was done about a file.

    what: as in "wrote", "kept".  path: the file.  by_hand: lines that are left to the user to put there.
    section: of the file, below whose head they go; "": it has none.  option: of it that they replace.
    """

    what: str
    path: Path
    by_hand: str = ""
    section: str = ""
    option: str = ""


@dataclass(frozen=True)
class _Option:
    """An option of pytest's configuration.

    several: it is a list, of one element here.  why: comment lines above it.
    """

    name: str
    value: str
    several: bool = False
    why: tuple[str, ...] = ()

    def in_ini(self) -> list[str]:
        if self.several and " " in self.value:  # a line for each
            return [*(f"# {line}" for line in self.why), f"{self.name} =", f"    {self.value}"]
        return [*(f"# {line}" for line in self.why), f"{self.name} = {self.value}"]

    def in_toml(self) -> list[str]:
        text = self.value if self.value in ("true", "false") else f'"{self.value}"'
        return [f"{self.name} = [{text}]" if self.several else f"{self.name} = {text}"]


def _options(package: str) -> tuple[_Option, ...]:
    """What a repository's pytest has to be told."""
    return (
        _Option("pythonpath", ".", several=True),
        _Option("tilecheck_specs", package, several=True),
        _Option(
            "timeout",
            "300",
            why=(
                "Seconds for one test: a kernel that hangs fails it, and the run goes on. What keeps the",
                "interpreter's lock sees only the second limit, which ends the process with all stacks.",
            ),
        ),
        _Option("faulthandler_timeout", "600"),
        _Option("faulthandler_exit_on_timeout", "true"),
        _Option(
            "filterwarnings",
            "ignore:Failing to pass a value to the 'type_params' parameter:DeprecationWarning:tilelang",
            several=True,
            why=("TileLang's tracer, on Python 3.13: once for each program.",),
        ),
    )


def template(name: str) -> str:
    """The text of a template."""
    return files("tilecheck").joinpath("templates", *name.split("/")).read_text()


def _text(path: Path) -> str:
    """The text of a file, with its ends of lines as they are."""
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotWrite(f"{path}: cannot be read: {error}") from error


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# A repository

_Configuration = tuple[Path, str, Mapping[str, Any]]
"""As `configuration_of` gives it: its file, the section there, and its options."""


def initialize(root: Path, package: str, codegen: bool) -> list[Step]:
    """Configuration, specs package and test modules for the repository in `root`.

    package: name of the specs package, where the configuration names no specs so far.
    Raises CannotWrite.
    """
    if not package.isidentifier() or keyword.iskeyword(package):
        raise CannotWrite(f"{package!r} is no name of a package; take one like kernel_specs")
    if not root.is_dir():
        raise CannotWrite(f"{root} is no folder")
    _require_own(root, package)
    found = _configuration(root)
    steps = _configure(root, package, found)
    steps += [_package(root, package)] if steps[0].what != "kept" else _kept_listing(root, found)
    modules = (*MODULES, "codegen") if codegen else MODULES
    for module in modules:
        path = root / "tests" / f"test_{module}.py"
        steps.append(_created(path, template(f"tests/test_{module}.py.txt")))
    return steps


def _configuration(root: Path) -> _Configuration | None:
    try:
        return configuration_of(root)
    except ValueError as error:
        raise CannotWrite(str(error)) from error


def _created(path: Path, text: str) -> Step:
    try:
        create(path, text)
    except FileExistsError:
        return Step("kept", path)
    except OSError as error:
        raise CannotWrite(f"{path}: {error.strerror or error}") from error
    return Step("wrote", path)


def _require_own(root: Path, package: str) -> None:
    """Raises CannotWrite for the name of a package that is imported from elsewhere: ours would hide it."""
    if package == "tests":
        raise CannotWrite("'tests' is the folder of the test modules; take another name, like kernel_specs")
    if package in sys.stdlib_module_names:
        raise CannotWrite(f"{package!r} is a module of Python's own; take another name, like kernel_specs")
    if (root / package).exists() or (root / f"{package}.py").exists():
        return
    try:
        found = importlib.util.find_spec(package)
    except ValueError:  # a module that is imported already, and does not say from where
        return
    places = [found.origin, *(found.submodule_search_locations or ())] if found else []
    files = [Path(place).resolve() for place in places if place]
    if files:
        raise CannotWrite(
            f"{package!r} is a module that is installed, {files[0]}; take one like kernel_specs"
        )


def _package(root: Path, package: str) -> Step:
    module = root / f"{package}.py"
    step = (
        Step("kept", module)
        if module.exists()
        else _created(root / package / "__init__.py", template("specs.py.txt"))
    )
    return _with_listing(step)


def _with_listing(step: Step) -> Step:
    """The step, with the lines that a module of specs lacks."""
    if step.what != "kept" or _defined(_text(step.path)) & {LISTING, "SPECS", "SPEC"}:
        return step
    return dataclasses.replace(step, by_hand=template("specs.py.txt").partition("\n\n")[2])


def _kept_listing(root: Path, found: _Configuration | None) -> list[Step]:
    """The file that lists the specs which a repository's configuration names; made where there is none.

    found: the configuration in `root`; None: a file without one is there.
    """
    try:
        project = find_project(root)
    except ValueError as error:
        raise CannotWrite(str(error)) from error
    module, _, attribute = project.spec_names[0].partition(":")
    try:
        _, listing = _home(project.root, project.pythonpath, module)
    except CannotWrite:
        if found is None or not module.isidentifier():
            return []
        return [_package(root, module), *_short_lists(*found, module)]
    step = Step("kept", listing)
    return [step if attribute else _with_listing(step)]


def _configure(root: Path, package: str, found: _Configuration | None) -> list[Step]:
    """The lines of pytest's configuration: in a new pytest.ini, or in the one that is there; and the lists
    that it has, without what we need in them.
    """
    wanted = _options(package)
    if found is None:
        lines = "".join(f"{line}\n" for option in wanted for line in option.in_ini())
        return [_created(root / "pytest.ini", f"[pytest]\n{lines}")]
    path, section, options = found
    if options.get("tilecheck_specs"):
        return [Step("kept", path)]
    short = _short_lists(*found, package)
    missing = [option for option in wanted if option.name not in options]
    in_ini = [line for option in missing for line in option.in_ini()]
    if path.name in ("pytest.ini", ".pytest.ini"):
        replace(path, _with_lines(_text(path), in_ini))
        return [Step("added to", path), *short]
    in_toml = [line for option in missing for line in option.in_toml()]
    lines = "\n".join(in_toml if path.suffix == ".toml" else in_ini)
    return [Step("left alone", path, lines, f"[{section}]"), *short]


def _short_lists(path: Path, section: str, options: Mapping[str, Any], package: str) -> list[Step]:
    """Lists that pytest's configuration has, without what we need in them, as `pythonpath = src`: the package
    lies in the root folder.
    """
    steps = []
    for option in _options(package):
        if not option.several or option.name not in options or option.name == "tilecheck_specs":
            continue
        given = options[option.name]
        try:
            words = words_of(path, options, option.name) if option.name == "pythonpath" else _lines(given)
        except ValueError as error:
            raise CannotWrite(str(error)) from error
        if option.value in words:
            continue
        if path.suffix == ".toml":
            values = (f"    {json.dumps(each)}," for each in (*words, option.value))
            lines = [f"{option.name} = [", *values, "]"]
        else:
            lines = [f"{option.name} =", *(f"    {each}" for each in (*words, option.value))]
        steps.append(Step("left alone", path, "\n".join(lines), f"[{section}]", option.name))
    return steps


def _lines(given: Any) -> tuple[str, ...]:
    lines = given.splitlines() if isinstance(given, str) else map(str, given)
    return tuple(line.strip() for line in lines if line.strip())


def _with_lines(text: str, lines: list[str]) -> str:
    """An ini file's text with lines right below the head of its section [pytest]."""
    before, head, after = re.split(r"(?m)^(\[pytest\][^\n]*\n?)", text, maxsplit=1)
    end = _newline(text)
    head = head if head.endswith("\n") else f"{head}{end}"
    return "".join([before, head, *(f"{line}{end}" for line in lines), after])


# A kernel


def add_kernel(start: Path, name: str) -> list[Step]:
    """A skeleton of a kernel, in the project that the folder `start` is in.

    Raises CannotWrite.
    """
    typed, name = name, name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise CannotWrite(f"{typed!r} is no name of a kernel: take lower_snake, like row_softmax")
    try:
        project = find_project(start)
    except ValueError as error:
        raise CannotWrite(f"{error}; or write them: tilecheck init") from error
    module, _, attribute = project.spec_names[0].partition(":")
    folder, listing = _home(project.root, project.pythonpath, module)
    path = folder / f"{name}.py"
    family = f"{module}.{name}" if listing.name == "__init__.py" else name
    by_hand = _by_hand(_text(listing), family, name, attribute)
    step = None
    if listing.name == "__init__.py" and (text := _listed(_text(listing), name)) is not None:
        step = Step("added to", listing)
    written = _created(path, template("kernel.py.txt").replace("KERNEL_NAME", name))
    if written.what == "kept":
        raise CannotWrite(f"{path} is there already; take another name, or remove it")
    if step is None:
        return [written, Step("left alone", listing, by_hand)]
    assert text is not None
    replace(listing, text)
    return [written, step]


def _by_hand(text: str, family: str, name: str, attribute: str) -> str:
    """The lines that list the SPEC of the module `family` beside those that are listed.

    text: of the module that lists them.  attribute: by which pytest's configuration names them; "": none.
    """
    known, listed, own = _defined(text), attribute or "SPECS", name.upper()
    if listed in known:
        before = "*" + listed
    elif not attribute and "SPEC" in known:
        before = "SPEC"
    else:
        before = ""
    values = f"({before}, {own})" if before else f"({own},)"
    return f"from {family} import SPEC as {own}\n{listed} = {values}"


def _defined(text: str) -> set[str]:
    """The names that a module sets or imports at its top level; none where it cannot be read."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return set()
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def _home(root: Path, pythonpath: tuple[Path, ...], module: str) -> tuple[Path, Path]:
    """(the folder for modules of kernels, the file that lists them) of a specs module."""
    parts = module.split(".")
    for base in (*pythonpath, root):
        package, file = base.joinpath(*parts, "__init__.py"), base.joinpath(*parts).with_suffix(".py")
        for listing in (package, file):
            if listing.is_file():
                return listing.parent, listing
    raise CannotWrite(
        f"the module {module!r}, which tilecheck_specs names, is not in {root} nor on its pythonpath"
    )


def _listed(text: str, name: str) -> str | None:
    """The text of a specs package with `name` at the end of its listing; None where it has no such listing.

    Raises CannotWrite where it is there already.
    """
    listing = _listing(text)
    if listing is None:
        return None
    names = _names(listing)
    if names is None:
        return None
    if name in names:
        raise CannotWrite(f"{name!r} is in {LISTING} already")
    changed = _inserted(text, listing, name)
    again = _listing(changed)
    return changed if again is not None and _names(again) == [*names, name] else None


def _listing(text: str) -> ast.Tuple | ast.List | None:
    """The tuple or list that `LISTING` is set to, at the top level and once; None where there is none."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None
    values = [
        node.value
        for node in body
        if isinstance(node, ast.Assign)
        and [t.id for t in node.targets if isinstance(t, ast.Name)] == [LISTING]
    ]
    return values[0] if len(values) == 1 and isinstance(values[0], ast.Tuple | ast.List) else None


def _names(listing: ast.Tuple | ast.List) -> list[str] | None:
    names = [each.value for each in listing.elts if isinstance(each, ast.Constant)]
    return [str(name) for name in names] if len(names) == len(listing.elts) else None


def _inserted(text: str, value: ast.Tuple | ast.List, name: str) -> str:
    lines, newline = text.splitlines(keepends=True), _newline(text)
    last, end = value.end_lineno, value.end_col_offset
    assert last is not None and end is not None
    if not value.elts:
        row = lines[value.lineno - 1].encode()
        head, tail = row[: value.col_offset], lines[last - 1].encode()[end:]
        left, right = (b"(", b")") if isinstance(value, ast.Tuple) else (b"[", b"]")
        middle = left + f'{newline}    "{name}",{newline}'.encode() + right
        lines[value.lineno - 1 : last] = [(head + middle + tail).decode()]
        return "".join(lines)
    element = value.elts[-1]
    at, column = element.end_lineno, element.end_col_offset
    assert at is not None and column is not None
    row = lines[at - 1].encode()
    if at == last:  # all in one line
        lines[at - 1] = (row[:column] + f', "{name}"'.encode() + row[column:]).decode()
        return "".join(lines)
    if not row[column:].lstrip().startswith(b","):
        lines[at - 1] = (row[:column] + b"," + row[column:]).decode()
    indent = " " * element.col_offset
    lines.insert(at, f'{indent}"{name}",{newline}')
    return "".join(lines)
