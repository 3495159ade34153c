"""Compiles many kernels at once, in processes of their own, into TileLang's cache on disk.

A compile takes a core for 4 to 7 s; after this, each kernel loads in milliseconds, and nothing but kernels
runs while they are timed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tilecheck.gist import gist, telling_line
from tilecheck.gpus import cores
from tilecheck.processes import side_by_side


@dataclass(frozen=True)
class Job:
    """One kernel to compile, with its default schedule.  kernel, case: the spec's name and the case's id."""

    kernel: str
    case: str


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

    A job that ends its process comes with an error, like one that does not compile.
    """
    compile_one = partial(_compile, tuple(modules), arch, dict(target))
    for job, future in side_by_side(compile_one, jobs, processes or cores()):
        error = future.exception()
        yield job, future.result() if error is None else gist(error)


def _compile(modules: tuple[str, ...], arch: str, target: dict[str, str], job: Job) -> str | None:
    from tilecheck import launch
    from tilecheck.arches import ARCHES
    from tilecheck.loading import load_specs
    from tilecheck.program import build_program

    spec = next(spec for spec in load_specs(modules) if spec.name == job.kernel)
    try:
        program = build_program(spec, spec.case(job.case), ARCHES[arch])
        launch.compile_program(program, target)
    except (launch.CompileError, ValueError) as error:
        return telling_line(str(error))
    return None
