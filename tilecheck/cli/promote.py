"""Make the next baseline of several latency runs, each from a process of its own. It needs no GPU.

RUN.json is what `tilecheck calibrate` leaves, or pytest -m latency --benchmark-json=RUN.json. Their medians
become the bar of later runs, and what differs between them the noise of each row. Nothing is written unless
all of them are of one commit without changes, of one GPU model and one toolchain, with every row that the
kernels have, undisturbed, and agree.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import note, show
from tilecheck.cli.paths import named
from tilecheck.cli.selecting import add_root, project_of, specs_of
from tilecheck.counting import many

if TYPE_CHECKING:
    from tilecheck.latency.baselines import Run
    from tilecheck.spec import KernelSpec

EPILOG = """\
exit codes:
  0  written, or with --dry-run, it would be
  1  refused; standard error says why, a line each
  2  unusable files or options; one line on standard error says which
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN.json", type=named, nargs="+", help="three or more runs")
    parser.add_argument("--name", default="", help="what follows the number (default: tilelang-VERSION)")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    from tilecheck.files import shown
    from tilecheck.latency.baselines import (
        BaselineError,
        choose,
        model_folder,
        numbered,
        read_run,
        write_next,
    )
    from tilecheck.latency.promotion import merge, moved, objections

    project = project_of(arguments)
    name = arguments.name
    if name and any(sign in name for sign in "/\\ "):
        raise BadInput(f"--name {name!r} is no part of a file's name")
    try:
        runs = [read_run(path) for path in arguments.runs]
        folder = project.baselines / model_folder(runs[0].gpu)
        old = read_run(choose(folder, None)) if numbered(folder) else None
        if old is not None and old.gpu != runs[0].gpu:
            raise BadInput(f"{shown(old.path)} is of {old.gpu}, and {shown(runs[0].path)} of {runs[0].gpu}")
        found = objections(runs, expected_rows(specs_of(project), runs[0].arch))
        if found:
            for line in found:
                note(f"tilecheck promote: {line}")
            return 1
        name = name or f"tilelang-{runs[0].toolchain.get('tilelang', 'unknown')}"
        merged = merge(runs, folder / "next.json", old)
        path = None if arguments.dry_run else write_next(folder, name, merged.raw)
    except BaselineError as error:
        raise BadInput(str(error)) from error
    show("\n".join([*moved(old, merged), *_summary(merged)]))
    note("nothing written, as --dry-run says" if path is None else f"written: {shown(path)}")
    return 0


def expected_rows(specs: "Sequence[KernelSpec]", arch: str) -> list[str]:
    """Ids of the rows that are timed on an architecture; "": on any."""
    return [
        spec.test_id(case)
        for spec in specs
        if not arch or arch in spec.arches
        for case in spec.cases_of_latency
    ]


def _summary(merged: "Run") -> list[str]:
    from tilecheck.latency.gate import POLICY

    smallest = sorted(POLICY.smallest_of(row.bar) for row in merged.rows.values())
    least, middle, most = (f"{smallest[i] * 100:.1f} %" for i in (0, len(smallest) // 2, -1))
    rows = many(len(smallest), "row")
    return [f"{rows}: a slowdown is found from {least} to {most} on, in half of them from {middle} on"]
