"""Loads the specs that the ini option `tilecheck_specs` names, for pytest and for the commands alike."""

import importlib
import os
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from tilecheck.spec import KernelSpec, SpecError


def load_specs(names: Iterable[str]) -> tuple[KernelSpec, ...]:
    """The specs that `names` stand for: `module` (its SPECS, else its SPEC) or `module:NAME`.

    Raises ValueError, in one line, for a name that stands for no specs and for a kernel that occurs twice.
    """
    found: dict[str, tuple[KernelSpec, str]] = {}
    for name in names:
        for spec in _named(name):
            if spec.name in found and found[spec.name][0] is not spec:
                raise ValueError(f"kernel {spec.name!r} is in {found[spec.name][1]!r} and again in {name!r}")
            found[spec.name] = spec, name
    return tuple(spec for spec, _ in found.values())


def _named(name: str) -> Sequence[KernelSpec]:
    module_name, _, attribute = name.partition(":")
    module = _module(module_name)
    given = [a for a in ([attribute] if attribute else ["SPECS", "SPEC"]) if hasattr(module, a)]
    if not given:
        raise ValueError(f"module {module_name!r} has no {attribute or 'SPECS, and no SPEC'}")
    value: Any = getattr(module, given[0])
    where = f"{module_name}:{given[0]}"
    if isinstance(value, KernelSpec):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise ValueError(f"{where} is {value!r}, neither a KernelSpec nor several")
    values = list(value)
    for item in values:
        if not isinstance(item, KernelSpec):
            raise ValueError(f"{where} holds {item!r}, which is no KernelSpec")
    if not values:
        raise ValueError(f"{where} is empty; add a kernel: tilecheck new KERNEL")
    return values


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        what = (str(error).strip().splitlines() or [""])[0]
        kind = "" if isinstance(error, SpecError) else f"{type(error).__name__}: "
        raise ValueError(f"cannot import {name!r}: {kind}{what}{_place(error)}") from error


def _place(error: BaseException) -> str:
    """Where in the author's code it happened: the last frame outside the import machinery and tilecheck."""
    if isinstance(error, SyntaxError):
        return ""  # its message has the place
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and not frame.filename.startswith((_OURS, "<"))
    ]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


_OURS = os.path.dirname(__file__) + os.sep
