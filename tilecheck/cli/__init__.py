"""The command line: `tilecheck COMMAND`, for what is no test.

A command is a module of this package, of the command's name, with `configure(parser)` and `run(arguments)`,
which returns the exit code (and `EPILOG`, where its help ends otherwise); and a line in `COMMANDS`. Only the
module of the command that is asked for is imported, and what that needs beyond the standard library only when
it runs: `tilecheck --help` wants neither torch nor TileLang.

What they share: selecting (kernels and cases), paths and target (files that are named), output, writing,
failing; elsewhere has facts of another version of TileLang.
"""

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from tilecheck.broken import broken_import
from tilecheck.cli.failing import EXIT_CODES, BadInput
from tilecheck.cli.output import flush, note, show
from tilecheck.near import did_you_mean
from tilecheck.processes import termination_interrupts

COMMANDS = {
    "doctor": "look at this machine: what can be run here, and what mends what cannot",
    "tutorial": "run the sections of the tutorial one by one, and say what became of each",
    "init": "write pytest's configuration and the test modules into another repository",
    "new": "write the skeleton of a kernel, which passes, and list it",
    "explain": "say what a kernel does: tiles, grid, occupancy, traffic, roofline",
    "source": "print the lowered program, CUDA source, PTX or SASS of a kernel",
    "facts": "print what the compiler made of kernels: registers, shared memory, instructions",
    "ab": "time the kernels of two commits, or two versions of TileLang, in turn",
    "diff-codegen": "say what changes in the compiled code from one TileLang, or file of facts, to another",
    "compare": "say which rows are slower in one file of times than in another",
    "calibrate": "time all rows in several runs, and say how much they differ between them",
    "promote": "make the next latency baseline of several runs",
    "report": "make one report of several runs, or that of a run that died",
    "tune": "search for the fastest schedule of a kernel",
    "nightly": "run the nightly job: all stages on one GPU, history, triage, the newest TileLang",
    "bisect": "find the commit, or the TileLang release, that broke or slowed a case",
}
"""Each command with its line of help."""


class _Parser(argparse.ArgumentParser):
    """argparse's, but a mistake is one line, and text that cannot be written is one."""

    def error(self, message: str) -> NoReturn:
        note(f"{self.prog}: {message}; see {self.prog} --help")
        sys.exit(2)

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stderr:
            super()._print_message(message, file)
        else:
            show(message)  # help and version: argparse drops without a word what cannot be written


def main(arguments: Sequence[str]) -> int:
    """Runs a command; its exit code, as `EXIT_CODES` says."""
    try:
        with termination_interrupts(), _warnings_in_one_line():
            return _run(arguments)
    except SystemExit as end:
        # No command ends so, and who asked must not take it for an answer.
        note(f"tilecheck: ended by SystemExit({end.code!r}), as of a kernel's file: take exit() out of it")
        return 2
    except BadInput as error:
        note(f"tilecheck: {error}")
        return 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if (told := broken_import(error)) is None:
            raise
        note(f"tilecheck: {told}")
        return 2


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Of tuned schedules that are not used: who types a command is not helped by where we warn of them."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            from tilecheck.tuning.lookup import UnusedSchedule

            if issubclass(category, UnusedSchedule):
                note(f"tilecheck: {message}")
            else:
                usual(message, category, *where, **more)

        warnings.showwarning = show
        yield


def entry() -> NoReturn:
    """The console script."""
    code = main(sys.argv[1:])
    try:
        flush()
    except BadInput as error:
        note(f"tilecheck: {error}")
        code = 2
    sys.exit(code)


def _run(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        parsed = _parsed(_overview().parse_args, arguments or ["--help"])
        return parsed if isinstance(parsed, int) else 2
    command, *rest = arguments
    if command not in COMMANDS:
        raise BadInput(f"no command {command!r}{did_you_mean(command, COMMANDS)}; see tilecheck --help")
    module = importlib.import_module(f"tilecheck.cli.{command.replace('-', '_')}")
    parser = _Parser(
        prog=f"tilecheck {command}",
        description=module.__doc__,
        epilog=getattr(module, "EPILOG", EXIT_CODES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.configure(parser)
    parsed = _parsed(parser.parse_intermixed_args, rest)
    return parsed if isinstance(parsed, int) else int(module.run(parsed))


def _parsed(
    parse: Callable[[Sequence[str]], argparse.Namespace], arguments: Sequence[str]
) -> argparse.Namespace | int:
    """The exit code instead, after --help and after a mistake."""
    try:
        return parse(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2


def _overview() -> _Parser:
    from tilecheck import __version__

    lines = [f"  {name:14} {line}" for name, line in COMMANDS.items()]
    parser = _Parser(
        prog="tilecheck",
        usage="tilecheck COMMAND ...",
        description="\n".join(["What is no test:", "", *lines, "", "tilecheck COMMAND --help says more."]),
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tilecheck {__version__}")
    return parser
