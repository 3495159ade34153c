"""What a wrong name was probably meant to be."""

import difflib
from collections.abc import Iterable


def did_you_mean(given: str, known: Iterable[str], most: int = 3) -> str:
    """`; did you mean matmul or softmax?`, or where nothing is near, `; known: ...`, with the first eight."""
    known = list(known)
    near = difflib.get_close_matches(given, known, most, 0.5)
    near = near or [name for name in known if given and given in name][:most]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    more = f", ... ({len(known)} in all)" if len(known) > 8 else ""
    return f"; known: {', '.join(known[:8])}{more}" if known else ""
