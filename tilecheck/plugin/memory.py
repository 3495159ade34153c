"""Want of GPU memory fails a test only if it also has too little with the GPU to itself.

A test that runs out of memory runs once more, alone: the workers on the same GPU hold still for so long. Each
holds a lock while it tests; the one that runs alone takes those of all, behind a lock that every test passes
first, so that it need not wait until all are idle by chance. So do tests that are marked `alone`, and others
for as long as they are within `alone`.
"""

import gc
import os
import sys
import traceback
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import pytest
from filelock import BaseFileLock, FileLock

from tilecheck import gpus
from tilecheck.plugin.rows import uses_device
from tilecheck.plugin.runfolder import is_worker, run_folder
from tilecheck.plugin.selection import active, selection
from tilecheck.plugin.timelimit import pause, restart
from tilecheck.plugin.workers import NUMBER

KEPT = 1 << 30
"""Bytes of unused memory that a process may keep from one test to the next, where others want it as well."""

_OUT_OF_MEMORY = ("out of memory", "CUDA_ERROR_OUT_OF_MEMORY", "STATUS_ALLOC_FAILED")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "alone: runs with the GPU to itself; the other workers on it hold still"
    )


_turn_key = pytest.StashKey["_Turns"]()


class _Turns:
    """The locks of the workers that share this worker's GPU; without xdist there are none to wait for."""

    def __init__(self, config: Any) -> None:
        self._gate: BaseFileLock | None = None
        run = run_folder(config)
        if run is None or not is_worker(config) or NUMBER not in os.environ:
            return
        folder = run / f"turns-{os.environ.get(gpus.VARIABLE, 'all').replace('/', '-')}"
        folder.mkdir(exist_ok=True)
        number, count = int(os.environ[NUMBER]), config.workerinput["workercount"]
        self._gate = FileLock(folder / "gate")
        self._all = [FileLock(folder / str(i)) for i in range(count)]
        self._own = self._all[number]

    @contextmanager
    def shared(self) -> Iterator[None]:
        if self._gate is None:
            yield
            return
        with self._gate:
            self._own.acquire()
        try:
            yield
        finally:
            self._own.release()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside of `shared`, or of itself."""
        if self._gate is None or self._gate.is_locked:
            yield
            return
        # Without its own lock, or two that want to be alone would wait for each other.
        self._own.release()
        try:
            with ExitStack() as stack:
                stack.enter_context(self._gate)
                for lock in self._all:
                    stack.enter_context(lock)
                yield
        finally:
            self._own.acquire()


@contextmanager
def alone(item: pytest.Item) -> Iterator[None]:
    """While held, the other workers on the GPU of a running test hold still.

    To wait for them is no part of the test's time, which begins anew here, and once more at the end.
    """
    if not _on_gpu(item):
        yield
        return
    pause(item)
    with _turns(item.config).alone():
        restart(item)
        yield
        pause(item)  # another test may want to be alone before this one has its own turn back
    restart(item)


def _turns(config: pytest.Config) -> _Turns:
    if _turn_key not in config.stash:
        config.stash[_turn_key] = _Turns(config)
    return config.stash[_turn_key]


def _on_gpu(item: pytest.Item) -> bool:
    return uses_device(item) and active(item.config) and not selection(item.config).simulated


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    # Outermost, so that waiting for one's turn is no part of the test's time.
    if not _on_gpu(item):
        return (yield)
    turns = _turns(item.config)
    with turns.shared(), turns.alone() if item.get_closest_marker("alone") else nullcontext():
        try:
            return (yield)
        finally:
            _release(KEPT)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    if not _on_gpu(item):
        return (yield)
    try:
        return (yield)
    except Exception as error:
        if not out_of_memory(error):
            raise
        _forget(error)
    with alone(item):
        _release(0)
        try:
            return item.runtest()
        except Exception as error:
            if out_of_memory(error) and hasattr(error, "add_note"):  # from Python 3.11 on
                error.add_note("This was the test's second run, with the GPU to itself.")
            raise


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or one that led to it, says that the GPU's memory was used up."""
    while error is not None:
        if type(error).__name__ == "OutOfMemoryError" or any(sign in str(error) for sign in _OUT_OF_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


def _forget(error: BaseException | None) -> None:
    """Lets go of the tensors in an exception's frames: pluggy keeps the exception until the test ends."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _release(kept: int) -> None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    try:
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if unused > kept or kept == 0:
            gc.collect()
            torch.cuda.empty_cache()
    except RuntimeError:
        return  # the context is lost, and the memory with it
