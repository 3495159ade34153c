"""Questions that the night puts to processes of their own: each is answered, or it is said why not."""

import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tilecheck.nightly.stages import last_words
from tilecheck.watch import asked

SECONDS = 120.0
"""For an answer: pytest and TileLang are imported, and nothing is run."""


class Unanswered(RuntimeError):
    """There is no answer; the text is one line."""


def answer(
    command: Sequence[str],
    root: Path,
    variables: Mapping[str, str],
    fine: Collection[int] = (0,),
    seconds: float = SECONDS,
) -> subprocess.CompletedProcess[str]:
    """What a command says that is run in the folder `root`, with `variables` as its environment.

    fine: exit codes of an answer.  Raises Unanswered where it has another, does not run, or takes longer.
    """
    try:
        done = asked(command, "", root, variables, seconds)
    except subprocess.TimeoutExpired:
        raise Unanswered(f"no answer within {seconds:g} s") from None
    except OSError as error:
        raise Unanswered(f"{command[0]} does not run: {error.strerror or error}") from None
    if done.returncode in fine:
        return done
    raise Unanswered(f"exit code {done.returncode}: {_why(done)}")


def _why(done: subprocess.CompletedProcess[str]) -> str:
    text = f"{done.stdout}\n{done.stderr}"
    # What is raised while pytest collects says more than how many errors there were.
    raised = [line for line in text.splitlines() if line.startswith("E  ")]
    return last_words("\n".join(raised) or text).removeprefix("E ").strip() or "it said nothing"
