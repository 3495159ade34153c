"""Finds the project that a command is about: the folder whose pytest configuration names specs.

pytest reads the same files; here they are read without it, so that a command starts at once.
"""

import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilecheck.loading import load_specs
from tilecheck.spec import KernelSpec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("pytest.toml", ("pytest",)),
    (".pytest.toml", ("pytest",)),
    ("pytest.ini", ("pytest",)),
    (".pytest.ini", ("pytest",)),
    ("pyproject.toml", ("tool.pytest", "tool.pytest.ini_options")),
    ("tox.ini", ("pytest",)),
    ("setup.cfg", ("tool:pytest",)),
)
"""Files that may hold a configuration of pytest, in its order, with the sections that are one."""


@dataclass(frozen=True)
class Project:
    """A folder with specs.

    root: the folder of the configuration file.  config: that file.
    spec_names: what `tilecheck_specs` says.  pythonpath: folders that its modules are found in.
    stored_in: what `tilecheck_baselines` says.
    """

    root: Path
    config: Path
    spec_names: tuple[str, ...]
    pythonpath: tuple[Path, ...] = ()
    stored_in: str = "baselines"

    @property
    def baselines(self) -> Path:
        """The folder of what later runs are compared with."""
        return self.root / self.stored_in

    def specs(self) -> tuple[KernelSpec, ...]:
        """The specs, in the configuration's order, after putting `pythonpath` in front of `sys.path`.

        Raises ValueError, in one line, for a mistake there.
        """
        for folder in reversed(self.pythonpath):
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
        try:
            return load_specs(self.spec_names)
        except ValueError as error:
            raise ValueError(f"{self.config}: tilecheck_specs: {error}") from error


def find_project(start: Path) -> Project:
    """The project that the folder `start` is in: the nearest folder, upwards, that names specs.

    Raises ValueError, in one line, where there is none, or where a configuration on the way is malformed.
    """
    start = start.resolve()
    if not start.is_dir():
        raise ValueError(f"{start} is no folder")
    for folder in (start, *start.parents):
        for path, _, options in _configurations(folder):
            if names := words_of(path, options, "tilecheck_specs"):
                paths = words_of(path, options, "pythonpath")
                stored_in = str(options.get("tilecheck_baselines", "baselines"))
                return Project(folder, path, names, tuple(folder / each for each in paths), stored_in)
            break  # pytest would look at no other file of this folder
    raise ValueError(
        f"no pytest configuration in {start} or above it names specs; "
        "add `tilecheck_specs = MODULE` to pytest.ini, or name the folder with --root"
    )


def configuration_of(folder: Path) -> tuple[Path, str, Mapping[str, Any]] | None:
    """The file of `folder` that pytest takes its configuration from, the section in it that is one, and the
    options there; None: there is none.

    Raises ValueError, in one line, where it is malformed.
    """
    return next(_configurations(folder), None)


def _configurations(folder: Path) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
    for name, sections in _FILES:
        path = folder / name
        if path.is_file():
            for section in sections:
                if (options := _section(path, section)) is not None:
                    yield path, section, options


def _section(path: Path, section: str) -> Mapping[str, Any] | None:
    """The options of a section of a configuration file; None where it has no such section."""
    if path.suffix == ".toml":
        return _toml_table(path, section.split("."))
    import iniconfig

    try:
        file = iniconfig.IniConfig(path)
    except (iniconfig.ParseError, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    return dict(file[section].items()) if section in file else None


def _toml_table(path: Path, keys: list[str]) -> Mapping[str, Any] | None:
    try:
        table: Any = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    if not isinstance(table, dict) or set(table) == {"ini_options"}:
        return None
    return table


def words_of(path: Path, options: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The words of an option that is a list, of the configuration in `path`; ValueError, in one line, where
    it is none.
    """
    value = options.get(name, ())
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise ValueError(f"{path}: {name} is {value!r}: {error}") from error
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise ValueError(f"{path}: {name} is {value!r}, neither a string nor a list of strings")
