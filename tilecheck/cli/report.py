"""Make one report of the reports of several runs, or the report of a run that died.

DIR is what `pytest --report` was given, or a results.json.
"""

import argparse
from pathlib import Path

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import note

EPILOG = """\
exit codes:
  0  written, and no run of it failed
  1  written; a run failed, or did not end
  2  wrong usage or unusable input; one line on standard error says which
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", metavar="DIR", nargs="+", type=Path, help="a report, or several")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="where to write (default: into DIR, if that is one)"
    )


def run(arguments: argparse.Namespace) -> int:
    from tilecheck.report import folder
    from tilecheck.report.merging import merge
    from tilecheck.report.overview import headline

    out = arguments.out
    if out is None:
        if len(arguments.reports) > 1 or not arguments.reports[0].is_dir():
            raise BadInput("--out DIR: where shall the report be written?")
        (out,) = arguments.reports
    if missing := folder.missing_extra():
        raise BadInput(missing)
    try:
        found = merge([folder.read(path) for path in arguments.reports])
        folder.prepare(out)
        folder.write(found, out)
    except ValueError as error:
        raise BadInput(str(error)) from error
    line = headline(found)
    note(f"{folder.show(out / folder.PAGE)}: {line.words}")
    return 0 if line.state in ("passed", "skipped") else 1
