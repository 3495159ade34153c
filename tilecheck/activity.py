"""What this process is at, for the message of one that has to be ended in the middle of it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

_doing: list[tuple[str, float]] = []


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Names the step that the block is: `compiling matmul-tail-m-fp16 for sm_90a`."""
    _doing.append((what, time.monotonic()))
    try:
        yield
    finally:
        _doing.pop()


def current() -> str | None:
    """The innermost step under way, and for how long; None: none is."""
    if not _doing:
        return None
    what, since = _doing[-1]
    return f"{what}, for {time.monotonic() - since:.0f} s"
