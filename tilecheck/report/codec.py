"""Between the model and JSON: what is read is checked, field by field, and a mistake is named by its place.

JSON has no infinity and no NaN; they are written as the strings "inf", "-inf" and "nan". What UTF-8 cannot
hold, as halves of surrogate pairs, which stand for bytes of a file name or of output, is spelt: "\\udce9".
"""

import dataclasses
import json
import math
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from tilecheck.strictjson import brief

T = TypeVar("T")

_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class WrongForm(ValueError):
    """What is wrong, and where; one line."""


def to_plain(value: Any) -> Any:
    """Plain values that `json` writes, of a dataclass and all in it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_in_utf8(str(name)): to_plain(each) for name, each in value.items()}
    if isinstance(value, str):
        return _in_utf8(value)
    if isinstance(value, (list, tuple)):
        return [to_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _in_utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON in ASCII, in one line unless indented."""
    return json.dumps(to_plain(value), indent=indent, allow_nan=False)


def from_plain(kind: type[T], value: Any, place: str) -> T:
    """The dataclass `kind` that `to_plain` made `value` of; what has a default may be missing.

    place: what messages call it.  Raises WrongForm.
    """
    if not isinstance(value, dict):
        raise WrongForm(f"{place} is {brief(value)}, no object")
    hints = _hints(kind)  # type: ignore[arg-type]  # classes hash
    if unknown := [name for name in value if name not in hints]:
        raise WrongForm(f"{place}: {', '.join(map(repr, unknown))} unknown")
    given = {name: _read(hints[name], each, f"{place}: {name}") for name, each in value.items()}
    needed = [f.name for f in dataclasses.fields(kind) if _needed(f)]  # type: ignore[arg-type]
    if missing := [name for name in needed if name not in given]:
        raise WrongForm(f"{place}: {', '.join(missing)} missing")
    return kind(**given)


def _needed(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in dataclasses.fields(kind)}


def _read(hint: Any, value: Any, place: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _read_one_of(arguments, value, place)
    if origin is tuple:
        if not isinstance(value, list):
            raise WrongForm(f"{place} is {brief(value)}, no list")
        return tuple(_read(arguments[0], each, f"{place}[{i}]") for i, each in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise WrongForm(f"{place} is {brief(value)}, no object")
        return {name: _read(arguments[1], each, f"{place}: {name}") for name, each in value.items()}
    if dataclasses.is_dataclass(hint):
        return from_plain(hint, value, place)  # type: ignore[arg-type]
    return _read_plain(hint, value, place)


def _read_one_of(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    errors = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return _read(kind, value, place)
            except WrongForm as error:
                errors.append(error)
    raise errors[-1]


def _read_plain(kind: type, value: Any, place: str) -> Any:
    if kind is float:
        if isinstance(value, str) and value in _SPECIAL:
            return _SPECIAL[value]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**1000:
            return float(value)
    elif kind is str and isinstance(value, str):
        return _in_utf8(value)  # of a folder that was written before there was `_in_utf8`
    elif isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    names = {str: "string", int: "integer", float: "number", bool: "truth value"}
    raise WrongForm(f"{place} is {brief(value)}, no {names.get(kind, kind.__name__)}")
