"""Write what a repository needs to have its kernels checked: configuration, specs package, test modules.

Nothing that is there is written over: a file that exists is kept, and what is left to do by hand is said.
"""

import argparse
from pathlib import Path

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import show
from tilecheck.cli.paths import named
from tilecheck.cli.writing import told

EPILOG = """\
exit codes:
  0  all is there now
  1  lines are left to be put into a file by hand
  2  wrong usage, or input or output that cannot be used; one line on standard error says which
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        type=named,
        default=Path(),
        help="the repository's root (default: the current folder)",
    )
    parser.add_argument(
        "--specs",
        metavar="NAME",
        default="specs",
        help="name of the package for kernels and their specs (default: %(default)s)",
    )
    parser.add_argument(
        "--codegen",
        action="store_true",
        help="write test_codegen.py, too; its facts are stored by pytest -m codegen --update-facts",
    )


def run(arguments: argparse.Namespace) -> int:
    from tilecheck.scaffold import CannotWrite, initialize

    try:
        steps = initialize(arguments.folder, arguments.specs, arguments.codegen)
    except CannotWrite as error:
        raise BadInput(str(error)) from error
    code = told(steps, arguments.folder)
    show("next: tilecheck new KERNEL, then pytest -m correctness")
    return code
