"""summary.md: a report for the summary of a CI job, in GitHub's Markdown. Needs no other package.

All that comes from tests and files is text here and never markup: ids may hold anything.
"""

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from tilecheck.latency.gate import seconds as in_seconds
from tilecheck.report.model import Report, Test
from tilecheck.report.overview import (
    Headline,
    KernelView,
    failures,
    headline,
    in_words,
    kernels,
    moment,
    sections,
    share,
    took,
    under_way,
)

SHOWN = 20
"""Failures whose messages are shown; GitHub takes 1 MiB in all."""

_LINES = 40  # of a message

_SIGNS = {
    "passed": "✅",
    "failed": "❌",
    "crashed": "💥",
    "incomplete": "⚠️",
    "skipped": "⏭️",
    "not run": "➖",
}


def summary(report: Report) -> str:
    """The text of summary.md."""
    return "\n".join(_lines(report)) + "\n"


def text(value: str) -> str:
    """Words of others, so that Markdown shows them as they are, in one line."""
    plain = " ".join(value.split())
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\`*_{}\[\]()#|~!$])", r"\\\1", plain)
    # Mentions and links would be made of these.
    return plain.replace("@", "&#64;").replace("://", "&#58;//").replace("www.", "www&#46;")


def fenced(value: str) -> list[str]:
    """Lines of others as code, behind a fence that they do not hold."""
    longest = max((len(run) for run in re.findall(r"`+", value)), default=0)
    fence = "`" * max(3, longest + 1)
    lines = value.splitlines()
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"... {len(lines) - _LINES + 1} lines more in index.html"]
    return [fence, *lines, fence]


def _lines(report: Report) -> Iterator[str]:
    line = headline(report)
    yield f"## {_SIGNS[line.state]} tilecheck: {text(_capital(line))}"
    yield ""
    for run in report.runs:
        commit = run.environment.get("commit", "")
        told = [run.label, moment(run.started), took(run.seconds), *([f"commit {commit}"] if commit else [])]
        yield f"{text(', '.join(filter(None, told)))}  "
    for note in dict.fromkeys(note for run in report.runs for note in run.notes):
        yield f"_{text(note)}_  "
    for run in report.runs:
        if at_work := under_way(run):
            yield f"Under way when it was ended: {text(at_work)}  "
    yield ""
    yield from _table(
        ("", "section", "tests", "time"),
        [(_SIGNS[view.state], view.name, text(view.words), took(view.seconds)) for view in sections(report)],
    )
    views = kernels(report)
    if views:
        yield ""
        yield from _table(
            ("", "kernel", "tests", "budget used", "by", "latency"), [_kernel(view) for view in views]
        )
    bad = failures(report)
    for test in bad[:SHOWN]:
        yield from _failure(test)
    if len(bad) > SHOWN:
        yield ""
        yield f"{len(bad) - SHOWN} failures more in index.html."


def _capital(line: Headline) -> str:
    return line.words[:1].upper() + line.words[1:]


def _kernel(view: KernelView) -> Sequence[str]:
    worst = view.worst
    budget = by = ""
    if worst is not None:
        budget = f"{'~' if worst.empirical else ''}{share(worst.budget_used)}"
        by = text(worst.row) if worst.budget_used > 0 else ""
    return _SIGNS[view.state], text(view.kernel.name), text(in_words(view.counts)), budget, by, _latency(view)


def _latency(view: KernelView) -> str:
    if not view.latency:
        return ""
    if len(view.latency) == 1:
        (row,) = view.latency
        return text(f"{in_seconds(row.median)}{f', {row.verdict}' if row.verdict else ''}")
    verdicts = [row.verdict or "timed" for row in view.latency]
    return text(", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts)))


def _failure(test: Test) -> Iterator[str]:
    yield ""
    # A block of HTML, in which nothing is Markdown up to the empty line.
    id = html.escape(" ".join(test.id.split()))
    yield f"<details><summary>{_SIGNS['failed']} <code>{id}</code></summary>"
    yield ""
    yield from fenced(test.message or test.outcome)
    if test.repeat and test.repeat not in test.message:
        yield from fenced(test.repeat)
    yield ""
    yield "</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
