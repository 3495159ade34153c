"""Compare two files of times, row by row, as the gate does. It needs no GPU.

A and B are files of pytest-benchmark, of one GPU model: stored ones, or what --benchmark-json wrote. A is the
bar: its noise makes the bands.
"""

import argparse

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import show
from tilecheck.cli.paths import named

EPILOG = """\
exit codes:
  0  every row of B is as fast as in A, or faster
  1  a row is slower
  2  the files cannot be compared; one line on standard error says why
  3  nothing can be said of some row, and no other one is slower
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A.json", type=named, help="the old times")
    parser.add_argument("b", metavar="B.json", type=named, help="the new times")
    parser.add_argument("--all", action="store_true", help="show the rows that did not move, too")


def run(arguments: argparse.Namespace) -> int:
    from tilecheck.latency.baselines import BaselineError, read_run
    from tilecheck.latency.comparison import compare

    try:
        found = compare(read_run(arguments.a), read_run(arguments.b))
    except BaselineError as error:
        raise BadInput(str(error)) from error
    show("\n".join(found.lines(arguments.all)))
    return found.exit_code
