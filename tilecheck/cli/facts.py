"""Print what the compiler made of kernels, as a table or as JSON. It needs nvcc, and no GPU."""

import argparse

from tilecheck.cli.failing import EXIT_CODES, BadInput
from tilecheck.cli.output import Progress, note_trouble_of_cache, show, stdout_kept
from tilecheck.cli.selecting import (
    add_jobs,
    add_root,
    add_schedule,
    add_several,
    project_of,
    rows_of,
    specs_of,
)

_LEGEND = """\
columns of the table, a block's or a thread's:
  threads      of a block
  regs         registers of a thread
  spills       bytes a thread that registers spill, stored+loaded
  shared       bytes of shared memory of a block, static and dynamic
  tensor       instructions of the tensor cores
  copies       asynchronous copies from global memory: bulk (TMA) loads+stores, or cp.async
  ld/stmatrix  instructions that move tiles between shared memory and registers: ldmatrix+stmatrix
  ld/st bits   widths of a thread's plain loads / stores of global memory
  cubin        size in bytes
"""

EPILOG = f"{_LEGEND}\n{EXIT_CODES}"


def configure(parser: argparse.ArgumentParser) -> None:
    add_several(parser)
    add_schedule(parser)
    parser.add_argument(
        "--json", action="store_true", help="JSON, which diff-codegen reads, instead of a table"
    )
    add_jobs(parser)
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    with stdout_kept():
        text, complete = _text(arguments)
    show(text)
    return 0 if complete else 1


def _text(arguments: argparse.Namespace) -> tuple[str, bool]:
    """The table or the JSON, and whether all rows compile."""
    project = project_of(arguments)
    specs = specs_of(project)
    rows = rows_of(arguments, specs)

    from tilecheck.codegen import NoToolchain, find_toolchain
    from tilecheck.codegen.batch import compile_rows
    from tilecheck.codegen.collection import as_json
    from tilecheck.codegen.table import table

    try:
        toolchain = find_toolchain()
        note_trouble_of_cache()
        outcomes = compile_rows(
            project.root, specs, rows, arguments.jobs, Progress(len(rows), arguments.jobs)
        )
    except NoToolchain as error:
        raise BadInput(str(error)) from error
    complete = all(outcome.facts is not None for outcome in outcomes)
    if arguments.json:
        return as_json(outcomes, toolchain.fingerprint), complete
    return f"{table(outcomes)}\n\n{toolchain}", complete
