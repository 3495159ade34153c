"""Say what changes in the compiled code from A to B, worst first: is it safe to upgrade? It needs no GPU.

A and B are each a version of TileLang (0.1.14, or `installed`), a file of facts
(baselines/codegen/sm_90a.json, or what `tilecheck facts --json` prints), or a folder of such files. A version
that is not installed goes into an environment of its own in the user's cache folder, in front of all that is
installed here; the same nvcc compiles for both.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import Progress, note, note_trouble_of_cache, show, stdout_kept
from tilecheck.cli.selecting import (
    add_jobs,
    add_root,
    add_schedule,
    add_several,
    arches_named,
    kernel_among,
    matching,
    project_of,
    rows_of,
    specs_of,
)
from tilecheck.counting import many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilecheck.codegen.batch import Row
    from tilecheck.codegen.collection import Collection
    from tilecheck.project import Project
    from tilecheck.spec import KernelSpec

EPILOG = """\
exit codes:
  0  nothing gets worse
  1  something does: lost tensor cores, copies or pipeline, spills, more shared memory, or it compiles no more
  2  nothing could be compared; one line on standard error says why
"""


@dataclass(frozen=True)
class _Side:
    """One of the two.  file: of facts, or a folder of them; None: `version` of TileLang is to be asked."""

    text: str
    file: Path | None
    version: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="the old: a version, a file or a folder")
    parser.add_argument("b", metavar="B", help="the new")
    add_several(parser)
    add_schedule(parser)
    add_jobs(parser)
    parser.add_argument(
        "--all", action="store_true", help="show rows that only differ, and every change of each"
    )
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    from tilecheck.codegen.report import compared, report

    sides = (_side(arguments.a), _side(arguments.b))
    _check_two(*sides)
    with stdout_kept():
        old, new = _collections(arguments, sides)
    found = compared(old, new)
    if not found.common:
        raise BadInput(f"{arguments.a} and {arguments.b} have no row in common")
    show(report(found, sides[0].text, sides[1].text, arguments.all))
    return 1 if found.worse else 0


def _side(text: str) -> _Side:
    from packaging.version import InvalidVersion, Version

    from tilecheck.environment import version

    if text and (path := Path(text)).exists():  # an empty path would be the current folder
        return _Side(text, path)
    if text == "installed":
        installed = version("tilelang")
        if installed is None:
            raise BadInput("TileLang is not installed here; name a version, as 0.1.15")
        return _Side(f"TileLang {installed}", None, installed)
    try:
        Version(text)
    except InvalidVersion:
        raise BadInput(f"{text!r} is neither a file, nor a folder, nor a version of TileLang") from None
    return _Side(f"TileLang {text}", None, text)


def _check_two(old: _Side, new: _Side) -> None:
    """BadInput where both are the same: there is nothing to compile twice for."""
    from packaging.version import Version

    if old.file is None and new.file is None and Version(old.version) == Version(new.version):
        raise BadInput(f"A and B are both {old.text}: name two versions, or a file of facts")


def _collections(
    arguments: argparse.Namespace, sides: "tuple[_Side, _Side]"
) -> "tuple[Collection, Collection]":
    """The facts of both sides; those of a version are of the rows that a file on the other side has."""
    from tilecheck.codegen.collection import stored

    if arguments.schedule and any(side.file for side in sides):
        raise BadInput("--schedule is for two versions; the facts of a file have their schedule")
    try:
        read = [None if s.file is None else _selected(stored(s.file), arguments) for s in sides]
    except ValueError as error:
        raise BadInput(str(error)) from error
    old, new = read
    if old is None or new is None:
        note_trouble_of_cache()
        project = project_of(arguments)
        specs = specs_of(project)
        given = old or new
        rows = rows_of(arguments, specs) if given is None else _rows_in(given, specs)
        old = old or _compiled(sides[0], project, specs, rows, arguments.jobs)
        new = new or _compiled(sides[1], project, specs, rows, arguments.jobs)
    return old, new


def _selected(found: "Collection", arguments: argparse.Namespace) -> "Collection":
    """The rows of a file that the options select; without options all."""
    kernels = {
        kernel_among(name, sorted({kernel for kernel, *_ in found.rows})) for name in arguments.kernels
    }
    cases = matching(arguments.case, sorted({case for _, case, *_ in found.rows}))
    arches = {arch.name for arch in arches_named(arguments.arch)} if arguments.arch else None
    return replace(
        found,
        rows={
            (kernel, case, variant, arch): value
            for (kernel, case, variant, arch), value in found.rows.items()
            if (not kernels or kernel in kernels) and case in cases and (arches is None or arch in arches)
        },
    )


def _rows_in(found: "Collection", specs: "Sequence[KernelSpec]") -> "list[Row]":
    """The rows of a file that the project still has, under their default schedule."""
    from tilecheck.codegen.batch import Row
    from tilecheck.codegen.store import DEFAULT

    there = {(spec.name, case.id, arch) for spec in specs for case in spec.cases for arch in spec.arches}
    rows = [(kernel, case, arch) for kernel, case, variant, arch in found.rows if variant == DEFAULT]
    return [Row(*row) for row in rows if row in there]


def _compiled(
    side: _Side, project: "Project", specs: "Sequence[KernelSpec]", rows: "Sequence[Row]", jobs: int
) -> "Collection":
    from tilecheck.cli.elsewhere import collect_with
    from tilecheck.codegen import NoToolchain, find_toolchain
    from tilecheck.codegen.batch import compile_rows
    from tilecheck.codegen.collection import collected
    from tilecheck.environment import version
    from tilecheck.versions import NoEnvironment

    try:
        toolchain = find_toolchain()
        note(f"{side.text}: {many(len(rows), 'row')}")
        if side.version != version("tilelang"):
            return collect_with(side.version, project.root, rows, jobs, note)
        outcomes = compile_rows(project.root, specs, rows, jobs, Progress(len(rows), jobs))
    except (NoToolchain, NoEnvironment) as error:
        raise BadInput(str(error)) from error
    return collected(outcomes, toolchain.fingerprint)
