"""Schedules as people type and read them: some fields as text, the others as they are by default."""

import ast
import dataclasses
from functools import lru_cache
from typing import Any

from tilecheck.near import did_you_mean

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def changed_fields(schedule: Any, text: str) -> Any:
    """`schedule` with the fields of `text`, as in "stages=2,threads=256"; itself where `text` is empty.

    Raises ValueError, in one line, for a field that it does not have or that is given twice, and for a value
    of another type than the field's.
    """
    if not text.strip():
        return schedule
    if not dataclasses.is_dataclass(schedule):
        raise ValueError(f"the kernel has no schedule in which {text!r} could be set")
    known = {f.name: getattr(schedule, f.name) for f in dataclasses.fields(schedule)}
    given: dict[str, Any] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not (name and equals and value):
            raise ValueError(f"{word.strip()!r} is not FIELD=VALUE, as in stages=2,threads=256")
        if name not in known:
            raise ValueError(f"the schedule has no field {name!r}{did_you_mean(name, known)}")
        if name in given:
            raise ValueError(f"{name} is given twice, as {given[name]!r} and {value}")
        given[name] = _value(name, value, known[name])
    return dataclasses.replace(schedule, **given)  # type: ignore[type-var]


def fields_of(schedule: Any) -> "tuple[dataclasses.Field[Any], ...]":
    """The fields of a dataclass; none of anything else."""
    return dataclasses.fields(schedule) if dataclasses.is_dataclass(schedule) else ()


@lru_cache(maxsize=64)
def _usual(kind: Any, quiet: tuple[str, ...]) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(kind) if field.name in quiet}


def short_repr(schedule: Any, *quiet: str) -> str:
    """The repr of a dataclass, without those fields of `quiet` that are as they are by default."""
    kind: Any = type(schedule)
    usual = _usual(kind, quiet)
    given = (f"{name}={value!r}" for name, value in vars(schedule).items() if value != usual.get(name, usual))
    return f"{type(schedule).__name__}({', '.join(given)})"


def _value(name: str, text: str, usual: Any) -> Any:
    """The value that `text` stands for, of the type of the field's usual value."""
    if isinstance(usual, bool):
        if text.lower() not in _BOOLEANS:
            raise ValueError(f"{name} is {text!r}, neither true nor false")
        return _BOOLEANS[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    fits = (
        usual is None or isinstance(value, type(usual)) or (isinstance(usual, float) and type(value) is int)
    )
    if not fits or (isinstance(value, bool) and usual is not None):
        raise ValueError(f"{name} is {text!r}, and not of the type of its default {usual!r}")
    return value
