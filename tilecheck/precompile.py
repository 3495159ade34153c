"""Compiles many kernels at once, in processes of their own, into TileLang's cache on disk.

A compile takes a core for 4 to 7 s; after this, each kernel loads in milliseconds, and nothing but kernels
runs while they are timed.
"""

import multiprocessing
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

from tilecheck.gpus import cores


@dataclass(frozen=True)
class Job:
    """One kernel to compile.  kernel, case: the spec's name and the case's id.
    schedule, pass_configs: as for `build_program`.
    """

    kernel: str
    case: str
    schedule: Any = None
    pass_configs: Mapping[str, Any] = field(default_factory=dict)


def precompile(
    modules: Sequence[str],
    jobs: Sequence[Job],
    arch: str,
    target: Mapping[str, str],
    processes: int | None = None,
) -> Iterator[tuple[Job, str | None]]:
    """Compiles `jobs`, and gives each as it is done, with what went wrong in one line, or None.

    modules: that hold the specs, as the ini option `tilecheck_specs` names them.
    arch: name of the architecture that schedules are chosen for.  target: TileLang's, see
    `launch.compile_target`.  processes: how many at a time; None: one a core.

    A process that dies takes the jobs that were not done with it: they come with an error, and whoever wants
    the kernel compiles it himself.
    """
    count = max(1, min(processes or cores(), len(jobs)))
    context = multiprocessing.get_context("spawn")  # a forked child would share the parent's CUDA context
    with ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(sys.path,)) as pool:
        running: dict[Future[str | None], Job] = {
            pool.submit(_compile, tuple(modules), job, arch, dict(target)): job for job in jobs
        }
        for future in as_completed(running):
            error = future.exception()
            yield running[future], future.result() if error is None else f"{type(error).__name__}: {error}"


def _begin(path: list[str]) -> None:
    sys.path[:] = path


def _compile(modules: tuple[str, ...], job: Job, arch: str, target: dict[str, str]) -> str | None:
    from tilecheck import launch
    from tilecheck.arches import ARCHES
    from tilecheck.loading import load_specs
    from tilecheck.program import build_program

    spec = next(spec for spec in load_specs(modules) if spec.name == job.kernel)
    try:
        program = build_program(spec, spec.case(job.case), ARCHES[arch], job.schedule, job.pass_configs)
        launch.compile_program(program, target)
    except (launch.CompileError, ValueError) as error:
        return str(error)
    return None
