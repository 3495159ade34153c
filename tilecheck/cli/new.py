"""Write the skeleton of a kernel, which passes as it is, into the specs package, and list it there."""

import argparse
from pathlib import Path

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import show
from tilecheck.cli.selecting import add_root
from tilecheck.cli.writing import told

EPILOG = """\
exit codes:
  0  the skeleton is there, and listed
  1  it is there, and has to be listed by hand
  2  wrong usage, or input or output that cannot be used; one line on standard error says which
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="KERNEL", help="its name, in lower_snake")
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    from tilecheck.scaffold import CannotWrite, add_kernel

    try:
        steps = add_kernel(arguments.root, arguments.kernel)
    except CannotWrite as error:
        raise BadInput(str(error)) from error
    code = told(steps, Path())
    show(
        f"next: pytest -m correctness -k {arguments.kernel.replace('_', '-')}, then replace what it computes"
    )
    return code
