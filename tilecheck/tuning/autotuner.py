"""One batch of candidates through TileLang's own AutoTuner (TileLang 0.1.15, tilelang/autotuner/tuner.py).

What is used of it, and what is not:

- Its run: all candidates of a batch are compiled side by side by its pool of threads, then benchmarked one
  after the other. It is given the batch as configurations.
- `jit_compile` and `jit_elaborate`, where `@tilelang.autotune` puts its own: ours ask a compiler in a process
  of its own, which may hang or die, and give it a kernel of ours to benchmark.
- `get_profiler().do_bench`, by which it benchmarks a kernel: ours checks and times the candidate in a process
  of its own. AutoTuner's own timeout waits for a thread and leaves it, with the hung kernel on the GPU in
  front of all that follow, so it is off.
- `supply_prog`: without effect on ours, who draws inputs by the spec; but with a callback AutoTuner keeps no
  results, in memory or on disk. Its keys leave out GPU and CUDA toolchain, its files hold pickles. Ours are
  in the journal.
- `ref_prog` and `manual_check_prog`: unused (`skip_check`). They compare within one process, with 1 % of the
  elements free to miss.
- do_bench's backends: unused; times are taken by `tilecheck.latency.timing`.
- Its progress bars and log (autotuner.log in the current folder), which leave reasons out: silenced.

A batch is small, so that budget, interrupt and the best so far are heeded between two.
"""

import io
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from tilecheck.tuning.outcomes import Failure, Timing
from tilecheck.tuning.space import Candidate


class Bench(Protocol):
    """What compiles and times candidates: processes on a GPU, or what stands for them in tests.

    `compile` is called by several threads, `measure` by one at a time. Both raise `Stopped` once `stop` was
    called, and BenchError where nothing works any more.
    """

    def compile(self, candidate: Candidate) -> Failure | None:
        """None where it compiles."""

    def compile_ahead(self, candidates: Sequence[Candidate]) -> None:
        """Begins to compile what will be asked for next, and returns at once."""

    def measure(self, candidate: Candidate) -> Timing | Failure:
        """The time of a candidate that is right."""

    def stop(self) -> None:
        """Ends what is going on, from any thread."""


class Stopped(Exception):
    """The search is over, and nothing can be said of this candidate."""


Told = Callable[[Candidate, Timing | Failure], None]


def run_batch(
    batch: Sequence[Candidate],
    bench: Bench,
    target: Mapping[str, Any],
    told: Told,
    compiled: Callable[[], None] = lambda: None,
) -> None:
    """Compiles, checks and times a batch.

    target: TileLang's, see `launch.compile_target`.
    told: gets each result as it is there, from several threads.
    compiled: called once, when all are compiled, before the first is timed.
    Raises what the bench did, but for `Stopped`.
    """
    from tilelang.autotuner import AutoTuner

    errors: list[BaseException] = []
    all_compiled = cache(compiled)  # once

    def jit_compile(index: int, **_: Any) -> _Kernel:
        candidate = batch[index]
        with _noted(errors):
            failure = bench.compile(candidate)
            if failure is None:
                return _Kernel(candidate, bench, told, errors, all_compiled)
            told(candidate, failure)
        raise _Failed

    def jit_elaborate(**_: Any) -> None:
        """Looked at only where inputs are AutoTuner's to supply."""

    tuner = AutoTuner(_candidate, configs=[{"index": i} for i in range(len(batch))])
    tuner.set_compile_args(target=dict(target), execution_backend="tvm_ffi", verbose=False)
    tuner.set_profile_args(supply_prog=_no_inputs, skip_check=True)
    tuner.jit_compile, tuner.jit_elaborate = jit_compile, jit_elaborate
    with _silenced():
        try:
            tuner.run(timeout=0)
        except RuntimeError as error:
            if "No configuration successfully compiled" not in str(error):
                raise
    for raised in errors:
        if not isinstance(raised, Stopped):
            raise raised


class _Failed(Exception):
    """Tells AutoTuner that a candidate is out; the reason has been told already."""


@dataclass(frozen=True)
class _Kernel:
    """What AutoTuner takes for a compiled kernel, and for its profiler."""

    candidate: Candidate
    bench: Bench
    told: Told
    errors: list[BaseException]
    compiled: Callable[[], None]
    prim_func: None = None

    def get_profiler(self, **_: Any) -> "_Kernel":
        return self

    def _get_params(self, **_: Any) -> list[Any]:
        return []

    def do_bench(self, *_: Any, **__: Any) -> float:
        with _noted(self.errors):
            self.compiled()
            found = self.bench.measure(self.candidate)
            self.told(self.candidate, found)
            if isinstance(found, Timing):
                return found.median * 1e3  # AutoTuner's unit
        raise _Failed

    def update_tuner_result(self, **_: Any) -> "_Kernel":
        return self

    def get_kernel_source(self) -> str:
        return ""


def _candidate(index: int) -> None:
    """The function whose configurations AutoTuner thinks it searches: it reads the parameters' names."""


def _no_inputs(_: Any) -> list[Any]:
    return []


@contextmanager
def _noted(errors: list[BaseException]) -> Iterator[None]:
    """Keeps an error, which AutoTuner would take for the candidate's."""
    try:
        yield
    except BaseException as error:
        errors.append(error)
        raise


@contextmanager
def _silenced() -> Iterator[None]:
    """Without AutoTuner's bars, lines and log; whoever reports progress has the streams from before."""
    from tilelang.autotuner import tuner

    logger = logging.getLogger(tuner.__name__)
    before = tuner._logger_handlers_initialized, logger.handlers, logger.level
    tuner._logger_handlers_initialized = True  # else it opens autotuner.log in the current folder
    logger.handlers = [logging.NullHandler()]
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        tuner._logger_handlers_initialized, logger.handlers, logger.level = before
