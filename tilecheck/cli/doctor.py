"""Look at this machine: is the environment sane, what can be run here, and what mends what is not?

It needs no GPU. A line is ok, a note (worth knowing; nothing here is broken) or bad.
"""

import argparse
import json
import textwrap

from tilecheck.cli.output import show, stdout_kept

EPILOG = """\
exit codes:
  0  nothing is bad; without a GPU, too
  1  something is bad, or with --require-gpu no kernel runs on a GPU here
  2  wrong usage; one line on standard error says which
"""

WIDTH = 110
_INDENT = 17


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="JSON instead of lines")
    parser.add_argument("--require-gpu", action="store_true", help="fail where no kernel runs on a GPU")
    parser.add_argument(
        "--no-launch", action="store_true", help="launch nothing on a GPU, as when somebody else uses it"
    )


def run(arguments: argparse.Namespace) -> int:
    from tilecheck import __version__
    from tilecheck.doctor import Examination

    examination = Examination(launches=not arguments.no_launch)
    steps = examination.run()
    while True:
        with stdout_kept():
            line = next(steps, None)
        if line is None:
            break
        if not arguments.json:
            show("\n".join(_lines(line.state, line.name, line.found, line.mend)))
    abilities = examination.abilities()
    gpu = next(each for each in abilities if each.name == "GPU")
    code = 1 if examination.broken or (arguments.require_gpu and gpu.lacking) else 0
    if arguments.json:
        found = {
            "tilecheck": __version__,
            "lines": [line.as_json() for line in examination.lines],
            "can": [each.as_json() for each in abilities],
            "exit_code": code,
        }
        show(json.dumps(found, indent=1))
        return code
    show("")
    for each in abilities:
        word = "no" if each.lacking else "yes"
        show("\n".join(_lines(word, each.name, each.lacking or each.command, "")))
    return code


def _lines(word: str, name: str, text: str, mend: str) -> list[str]:
    head = f"{word:5}{name:12}"
    space = " " * _INDENT
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=space, break_on_hyphens=False
    ) or [head.rstrip()]
    if mend:
        lines += textwrap.wrap(
            mend,
            WIDTH,
            initial_indent=f"{space}-> ",
            subsequent_indent=f"{space}   ",
            break_on_hyphens=False,
        )
    return lines
