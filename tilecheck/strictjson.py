"""JSON of ours, read back in a way that notices all that is not as we write it."""

import json
from collections.abc import Callable
from typing import Any


class WrongError(ValueError):
    """What is wrong in a file, and where."""


class Pairs(list[tuple[str, Any]]):
    """An object of JSON with its names as they stand there, double ones too."""


def loaded(text: str, made: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    """What `text` holds; raises WrongError, also for NaN and infinity.

    made: gives what stands for an object, by its names and values; it may raise ValueError.
    """
    try:
        return json.loads(text, object_pairs_hook=made, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise WrongError(f"line {error.lineno}, column {error.colno}: no JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise WrongError(f"no JSON: {error}") from error


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no name occurs twice, as after a merge: json takes the last of two, in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has {json.dumps(twice)} twice; remove one of them")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def brief(value: Any) -> str:
    """A value of JSON, for a message."""
    text = json.dumps(dict(value) if isinstance(value, Pairs) else value)
    return text if len(text) <= 40 else f"{text[:37]}..."
