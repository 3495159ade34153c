"""Run the tutorial's sections one by one: one that fails stops none of the others.

Each runs in a process of its own. Blocks that want a GPU are left out where there is none, the others run on
the simulator. At the end there is a summary: state and time of each section.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import show
from tilecheck.cli.paths import named
from tilecheck.cli.selecting import add_root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilecheck.tutorial import Page, Result, Section

EPILOG = """\
exit codes:
  0  every section got through
  1  a section did not
  2  wrong usage, or input or output that cannot be used; one line on standard error says which
"""

PAGE = Path("docs", "tutorial.md")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help="numbers of sections, or words of their titles (default: all)",
    )
    parser.add_argument("--list", action="store_true", help="show the sections, and run none")
    parser.add_argument(
        "--file", type=named, metavar="FILE", help=f"another page than the project's {PAGE.as_posix()}"
    )
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    from tilecheck import environment
    from tilecheck.project import find_project
    from tilecheck.tutorial import play, read_page

    try:
        root = find_project(arguments.root).root
        path = arguments.file or root / PAGE
        if not path.is_file():
            raise BadInput(f"{path} is not there; run it in a checkout of tilecheck, or name a --file")
        page = read_page(path)
    except ValueError as error:
        raise BadInput(str(error)) from error
    chosen = _chosen(arguments.sections, page)
    if arguments.list:
        show("\n".join(f"{section.number:2}  {section.title}" for section in chosen))
        return 0
    lacking = environment.why_no_gpu(environment.machine())
    show(f"{path.name}: {len(chosen)} sections, on {'the simulator: ' + lacking if lacking else 'the GPU'}")

    def begin(section: "Section") -> None:
        show(f"\n== {section.number}. {section.title}")

    results: list[Result] = []
    try:
        for result in play(page, chosen, root, lacking is None, begin=begin):
            results.append(result)
            show(f"== {result.state}, {result.seconds:.1f} s{': ' + result.why if result.why else ''}")
    except KeyboardInterrupt:
        show("== interrupted")
        raise
    finally:
        if results:
            show(_summary(results, len(chosen)))
    return 0 if all(result.state == "ok" for result in results) else 1


def _chosen(words: "Sequence[str]", page: "Page") -> "list[Section]":
    chosen: list[Section] = []
    for word in words:
        found = [
            section
            for section in page.sections
            if word == str(section.number) or (not word.isdecimal() and word.lower() in section.title.lower())
        ]
        if not found:
            titles = ", ".join(f"{section.number} {section.title!r}" for section in page.sections)
            raise BadInput(f"no section {word!r}; there are {titles}")
        chosen += [section for section in found if section not in chosen]
    return chosen or list(page.sections)


def _summary(results: "Sequence[Result]", chosen: int) -> str:
    width = max(len(result.section.title) for result in results)
    lines = ["", f"{'':4}{'section':{width}}  state   seconds"]
    for result in results:
        blocks = "block wants" if result.left_out == 1 else "blocks want"
        left_out = f"  {result.left_out} {blocks} a GPU" if result.left_out else ""
        lines.append(
            f"{result.section.number:2}  {result.section.title:{width}}  {result.state:6}  "
            f"{result.seconds:7.1f}{left_out}"
        )
    bad = [result for result in results if result.state != "ok"]
    lines.append(f"{len(results) - len(bad)} of {chosen} sections got through")
    lines += [f"{result.section.number}: {result.why}" for result in bad]
    return "\n".join(lines)
