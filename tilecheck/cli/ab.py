"""Time the kernels of two commits, or under two versions of TileLang, in turn on one GPU.

OLD and NEW are commits of the repository, or `tilelang==VERSION` for the kernels as they lie there under
another TileLang; `installed` is the working tree under the TileLang that is installed, which NEW is unless it
is given. No stored time is needed.
"""

import argparse

from tilecheck.ab.pairs import LEAST, PAIRS, SAME_WITHIN
from tilecheck.cli import target
from tilecheck.cli.failing import BadInput, want_gpu
from tilecheck.cli.output import note, show
from tilecheck.cli.paths import named
from tilecheck.cli.selecting import add_root, project_of

EPILOG = f"""\
verdicts, of {PAIRS} times in turn:
  slower, faster   all {PAIRS} say so, by more than {LEAST * 100:g} %: less is seen of the same code, too
  same             all {PAIRS} are within {SAME_WITHIN * 100:g} %
  inconclusive     neither

exit codes:
  0  nothing is slower
  1  a row is slower, or the new side is wrong or does not compile
  2  wrong usage, or input or output that cannot be used; one line on standard error says which
  3  nothing is slower, and rows are inconclusive
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="a commit, or tilelang==VERSION")
    parser.add_argument("new", metavar="NEW", nargs="?", help="the same (default: the working tree)")
    parser.add_argument(
        "-k",
        dest="parts",
        metavar="TEXT",
        action="append",
        default=[],
        help="only rows whose id holds this, as in `-k softmax`; several: any of them",
    )
    parser.add_argument(
        "--json", type=named, metavar="FILE", help="write the results into FILE as well, as they come"
    )
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    target.check("--json", arguments.json)
    project = project_of(arguments)

    from tilecheck.ab.match import play, shared_rows
    from tilecheck.ab.report import as_json, exit_code, line, summary
    from tilecheck.ab.sides import SideError, side
    from tilecheck.git import GitError
    from tilecheck.versions import NoEnvironment

    want_gpu("times", "diff-codegen compares two versions without one")
    try:
        with (
            side(arguments.old, project.root, note) as old,
            side(arguments.new, project.root, note) as new,
        ):
            rows, only = shared_rows(old.rows(), new.rows())
            parts = arguments.parts or [""]
            rows = [row for row in rows if any(part in row for part in parts)]
            if not rows:
                held = f" that holds {' or '.join(map(repr, parts))}" if arguments.parts else ""
                raise BadInput(f"the two sides have no row in common{held}")
            results = []
            for result in play(old, new, rows, note):
                results.append(result)
                show(line(result))
                if arguments.json:
                    target.write("--json", arguments.json, as_json(results, only, old.label, new.label))
            show(summary(results, only, old.label, new.label))
            return exit_code(results)
    except (SideError, GitError, NoEnvironment) as error:
        raise BadInput(str(error)) from error
