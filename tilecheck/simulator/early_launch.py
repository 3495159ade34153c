"""Launches that may start before the one before them has ended, and what they must not do until it has.

TileLang 0.1.15 launches a kernel with programmatic stream serialisation if it calls `T.pdl_sync()`
(rt_mod_cuda.cc), and every kernel that has clusters, whether it calls that or not (`CUDAWrappedFunc` in
TVM's cuda_module.cc; jit/adapter/wrapper.py does the same). Such a launch may start as soon as all blocks of
the one before have called `T.pdl_trigger()` or ended, and waits for its memory nowhere but at `T.pdl_sync()`.
"""

from typing import Any

from tilecheck.simulator.access import Closure
from tilecheck.simulator.launch_shape import nodes_by_class
from tilecheck.simulator.state import State

_OWN_PARTS = {
    "BufferStore": ("",),
    "Evaluate": ("value",),
    "Bind": ("value",),
    "IfThenElse": ("condition",),
    "While": ("condition",),
    "AssertStmt": ("condition",),
    "For": ("min", "extent"),
}
"""Class of a statement -> its parts that are no statements; "": all of it."""


def only_after_the_launch_before(
    statement: Any, closure: Closure, location: Any, *, clusters: bool
) -> Closure:
    """The closure of a statement, which reports what it touches of global memory before `T.pdl_sync()`.

    clusters: it is for them that the launch may start early.
    """
    names = _global_buffers(statement)
    if not names:
        return closure
    why = (
        "TileLang has every launch with clusters start before the one before it has ended"
        if clusters
        else "the launch before may still be at work on it"
    )

    def run(s: State) -> None:
        if s.early:
            for name in names:
                text = f"{s.where} touches {name} before it calls T.pdl_sync(): {why}"
                s.findings.add("early access", location, name, text)
        closure(s)

    return run


def _global_buffers(statement: Any) -> list[str]:
    """Names of the buffers in global memory that a statement touches itself, not through those inside it."""
    names: dict[str, None] = {}
    for part in _OWN_PARTS.get(type(statement).__name__, ()):
        nodes = nodes_by_class(getattr(statement, part) if part else statement)
        for access in (*nodes["BufferStore"], *nodes["BufferLoad"]):
            if access.buffer.scope() == "global":
                names[str(access.buffer.name)] = None
    return list(names)
