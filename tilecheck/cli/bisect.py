"""Find the commit, or the release of TileLang, that broke or slowed a case.

Commits from --good to --bad are tried, releases with --tilelang A..B, or with both options first which of the
two is at fault. Each candidate's kernels are checked out beside the working tree, and this harness asks them.
A commit that does not build, or that fails in another way than the bad end, is skipped.
"""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tilecheck.arches import DEFAULT_ARCH
from tilecheck.cli.failing import BadInput, want_gpu
from tilecheck.cli.output import note, show
from tilecheck.cli.selecting import add_kernel, add_root, arch_named, project_of
from tilecheck.files import shown

if TYPE_CHECKING:
    from tilecheck.bisecting.candidates import Candidate
    from tilecheck.bisecting.hunt import Asked, Verdict

EPILOG = """\
what is asked, with --by:
  correctness  is the case right? on the simulator, or with --device=cuda on this GPU
  facts        is its code as good? it wants nvcc, and no GPU
  latency      is it as fast? timed in turn with the good end, as `tilecheck ab` does it; on this GPU alone

exit codes:
  0  found
  1  narrowed down to several: all but the last of them could not be asked
  2  wrong usage, or the ends are not good and bad; one line on standard error says which
"""

SECONDS = 600

DAY = 24 * 3600


def configure(parser: argparse.ArgumentParser) -> None:
    add_kernel(parser)
    parser.add_argument("--case", required=True, metavar="ID", help="the case that was fine and is not now")
    parser.add_argument("--good", metavar="REF", help="a commit on which the case was fine")
    parser.add_argument("--bad", metavar="REF", help="a later one on which it is not (default: HEAD)")
    parser.add_argument(
        "--tilelang", metavar="A..B", help="a version with which it was fine, and a newer one with which not"
    )
    parser.add_argument(
        "--by",
        choices=("correctness", "facts", "latency"),
        default="correctness",
        help="what is asked of each candidate, see below (default: %(default)s)",
    )
    parser.add_argument(
        "--device",
        choices=("simulator", "cuda"),
        default="simulator",
        help="where --by=correctness runs the case (default: %(default)s)",
    )
    parser.add_argument(
        "--arch",
        default=DEFAULT_ARCH,
        help="whose schedules run or whose code is compiled (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs (default: 0)")
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=SECONDS,
        metavar="N",
        help="for one candidate (default: %(default)s)",
    )
    add_root(parser)


def _seconds(text: str) -> int:
    if not text.isdecimal() or len(text) > len(str(DAY)) or not 1 <= int(text) <= DAY:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number of seconds from 1 to {DAY}, a day")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    from tilecheck.bisecting.candidates import BisectError
    from tilecheck.bisecting.hunt import axis, hunt
    from tilecheck.git import GitError

    root = project_of(arguments).root
    if not arguments.good and not arguments.tilelang:
        raise BadInput("between what? --good REF and --bad REF, or --tilelang A..B")
    if arguments.by == "latency":
        want_gpu("times", "--by=correctness and --by=facts do without")
    elif arguments.device == "cuda":
        want_gpu("runs on cuda", "leave out --device=cuda: the simulator will do")
    asked = _asked(arguments, root)
    try:
        commits, versions = _line(arguments, root)
        verdict = hunt(axis(commits, versions, asked, note), asked, note)
    except (BisectError, GitError) as error:
        raise BadInput(str(error)) from error
    show("\n".join(_lines(verdict, root)))
    return 0 if len(verdict.suspects) == 1 else 1


def _asked(arguments: argparse.Namespace, root: Path) -> "Asked":
    from tilecheck.bisecting.hunt import ByProbe, Places
    from tilecheck.bisecting.probe import Question
    from tilecheck.bisecting.timing import ByTime

    kernel, places = arguments.kernel.replace("-", "_"), Places(root, note)
    arch = arch_named(arguments.arch).name
    if arguments.by == "latency":
        return ByTime(f"{kernel.replace('_', '-')}-{arguments.case}", places)
    question = Question(
        kernel, arguments.case, arguments.by, device=arguments.device, arch=arch, seed=arguments.seed
    )
    return ByProbe(question, places, arguments.seconds)


def _line(arguments: argparse.Namespace, root: Path) -> "tuple[list[Candidate], list[str]]":
    """The commits and the versions between the ends, those included."""
    from tilecheck.bisecting.candidates import commits_between, released, versions_between

    if arguments.bad and not arguments.good:
        raise BadInput("--bad without --good: from which commit on?")
    commits = commits_between(root, arguments.good, arguments.bad or "HEAD") if arguments.good else []
    if not arguments.tilelang:
        return commits, []
    first, dots, last = arguments.tilelang.partition("..")
    if not (first and dots and last):
        raise BadInput(f"--tilelang {arguments.tilelang}: two versions, as 0.1.14..0.1.15")
    return commits, versions_between(first, last, released())


def _lines(verdict: "Verdict", root: Path) -> list[str]:
    last = verdict.suspects[-1]
    several = len(verdict.suspects) > 1
    lines = [f"one of these {len(verdict.suspects)}, as the others could not be asked:"] if several else []
    lines += [f"first bad: {each}" if not several else f"  {each}" for each in verdict.suspects]
    lines += [f"  {verdict.words}", f"last good: {verdict.before}", f"{verdict.asked} asked"]
    if last.commit and not several and not last.words.startswith("TileLang"):
        place = "" if root.samefile(".") else f"-C {shlex.quote(shown(root))} "
        lines.append(f"to see it: git {place}show {last.commit[:10]}")
    return lines
