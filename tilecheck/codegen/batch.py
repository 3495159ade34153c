"""Facts of many rows, by a few processes side by side: TileLang lowers in the process that asks it to."""

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from tilecheck.arches import arch
from tilecheck.codegen import CodegenError, Facts, NoToolchain, facts_of
from tilecheck.fields import changed_fields
from tilecheck.processes import side_by_side
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
    else:
        for row, future in side_by_side(partial(_compile_in_child, root), rows, jobs):
            try:
                take(future.result())
            except BrokenProcessPool:
                take(Outcome(row, None, "the compiler ended its process"))
    return [done[row] for row in rows]


def _compile_in_child(root: Path, row: Row) -> Outcome:
    return _compile(_specs(root), row)


@cache
def _specs(root: Path) -> tuple[KernelSpec, ...]:
    return find_project(root).specs()


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
