"""Make one report of the reports of several runs, the report of a run that died, or the page of all nights.

DIR is what `pytest --report` was given, or a results.json. With --history, trend.html beside the report
shows the nights on record: stages, times and their drift, correctness, the newest TileLang. It can be made
without a report, too.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import note
from tilecheck.cli.paths import named

EPILOG = """\
exit codes:
  0  written, and no run of it failed; red nights of the past do not count
  1  written; a run failed, or did not end
  2  wrong usage, or input or output that cannot be used; one line on standard error says which
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", metavar="DIR", nargs="*", type=named, help="a report, or several")
    parser.add_argument(
        "--out", metavar="DIR", type=named, help="where to write (default: into DIR, if that is one)"
    )
    parser.add_argument(
        "--history", metavar="DIR", type=named, help="of all nights, as `tilecheck nightly` keeps it"
    )


def run(arguments: argparse.Namespace) -> int:
    from tilecheck.files import shown
    from tilecheck.nightly.trendfile import read_history, write_trend
    from tilecheck.report import folder
    from tilecheck.report.merging import merge
    from tilecheck.report.overview import headline

    for path in arguments.reports:
        try:
            there = path.exists()
        except OSError as error:  # in a folder that may not be looked into
            raise BadInput(f"{path}: {error.strerror or error}") from error
        if not there:
            raise BadInput(f"{path}: there is no such folder")
    out = _out(arguments.reports, arguments.history, arguments.out)
    if missing := folder.missing_extra():
        raise BadInput(missing)
    code, project = 0, ""
    try:
        pasts = None if arguments.history is None else read_history(arguments.history)
        if arguments.reports:
            found = merge([folder.read(path) for path in arguments.reports])
            folder.claim(out)
            folder.write(found, out)
            (out / folder.TREND).unlink(missing_ok=True)  # to which the new page does not lead
            line = headline(found)
            note(f"{shown(out / folder.PAGE)}: {line.words}")
            code, project = (0 if line.state in ("passed", "skipped") else 1), found.project
        if pasts is not None:
            words = write_trend(pasts, out, project)
            note(f"{shown(out / folder.TREND)}: {words}")
    except ValueError as error:
        raise BadInput(str(error)) from error
    return code


def _out(reports: Sequence[Path], history: Path | None, out: Path | None) -> Path:
    """Where to write: as given, or into the one report."""
    if not reports and history is None:
        raise BadInput("of what? DIR of a report, or --history DIR of all nights")
    if out is not None:
        return out
    if len(reports) != 1 or not reports[0].is_dir():
        raise BadInput("--out DIR: where shall the report be written?")
    return reports[0]
