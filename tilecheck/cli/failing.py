"""How a command says that it cannot do what was asked for: in one line, with what was probably meant."""

import difflib
from collections.abc import Iterable


class BadInput(Exception):
    """Wrong usage or unusable input: its text is the one line that is shown, and the exit code is 2."""


def did_you_mean(given: str, known: Iterable[str], most: int = 3) -> str:
    """`; did you mean matmul or softmax?`, or where nothing is near, `; known: ...`, with the first eight."""
    known = list(known)
    near = difflib.get_close_matches(given, known, most, 0.5) or [k for k in known if given and given in k][:most]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    more = f", ... ({len(known)} in all)" if len(known) > 8 else ""
    return f"; known: {', '.join(known[:8])}{more}" if known else ""
