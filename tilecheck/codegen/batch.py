"""Facts of many rows, by a few processes side by side: TileLang lowers in the process that asks it to.

A row that ends its process, as a failed check inside a compiler may, is tried once more in a process of its
own, and fails alone.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilecheck.arches import arch
from tilecheck.codegen import CodegenError, Facts, NoToolchain, facts_of
from tilecheck.fields import changed_fields
from tilecheck.program import build_program
from tilecheck.project import find_project
from tilecheck.spec import KernelSpec


@dataclass(frozen=True)
class Row:
    """What to compile, by name.  schedule: fields that differ from the default one, as text."""

    kernel: str
    case: str
    arch: str
    schedule: str = ""

    def __str__(self) -> str:
        return f"{self.kernel.replace('_', '-')}-{self.case}-{self.arch}"


@dataclass(frozen=True)
class Outcome:
    """The facts of a row, or in one line why there are none."""

    row: Row
    facts: Facts | None
    error: str = ""


def compile_rows(
    root: Path,
    specs: Sequence[KernelSpec],
    rows: Sequence[Row],
    jobs: int,
    told: Callable[[Outcome, int], None],
) -> list[Outcome]:
    """What became of each row, in their order.

    root: a folder of the project whose `specs` these are.  jobs: processes.
    told: called with each outcome as it comes, and with the number of rows that have theirs.
    Raises NoToolchain.
    """
    done: dict[Row, Outcome] = {}

    def take(outcome: Outcome) -> None:
        done[outcome.row] = outcome
        told(outcome, len(done))

    if min(jobs, len(rows)) <= 1:
        for row in rows:
            take(_compile(specs, row))
        return [done[row] for row in rows]
    while rest := [row for row in rows if row not in done]:
        for outcome in _pooled(root, rest, jobs):
            take(outcome)
        # If the pool broke, by one of the rows that ran, these are the first that are not done.
        for row in [row for row in rest if row not in done][:jobs]:
            lone = next(_pooled(root, [row], 1), None)
            take(lone or Outcome(row, None, "the compiler ended its process"))
    return [done[row] for row in rows]


def _pooled(root: Path, rows: Sequence[Row], jobs: int) -> Iterator[Outcome]:
    """The outcomes as they come; those of a pool that broke are missing."""
    # Not forked: TVM and torch have threads of their own by now.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(rows)), context, _start, (root,))
    try:
        for future in as_completed([pool.submit(_compile_in_child, row) for row in rows]):
            yield future.result()
    except BrokenProcessPool:
        return
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


_specs: tuple[KernelSpec, ...] = ()


def _start(root: Path) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the parent says that it was interrupted, and once is enough
    globals()["_specs"] = find_project(root).specs()


def _compile_in_child(row: Row) -> Outcome:
    return _compile(_specs, row)


def _compile(specs: Sequence[KernelSpec], row: Row) -> Outcome:
    try:
        return Outcome(row, facts_of(_program(specs, row)))
    except (CodegenError, ValueError) as error:
        return Outcome(row, None, str(error))
    except NoToolchain:
        raise
    except Exception as error:
        from tilecheck.gist import gist

        return Outcome(row, None, gist(error))


def _program(specs: Sequence[KernelSpec], row: Row) -> Any:
    (spec,) = (spec for spec in specs if spec.name == row.kernel)
    case, target = spec.case(row.case), arch(row.arch)
    schedule = changed_fields(spec.schedule_for(case, target), row.schedule)
    return build_program(spec, case, target, schedule)
