"""What people get to see: the table at the end, and summary.md, which CI shows on the job's page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilecheck.codegen.report import NOT_SAFE
from tilecheck.counting import many
from tilecheck.latency.gate import seconds
from tilecheck.nightly.drift import FALSE_ALARMS, FEWEST
from tilecheck.nightly.night import ANSWERED, Night
from tilecheck.nightly.results import Junit
from tilecheck.nightly.stages import Ended, shortened
from tilecheck.nightly.triage import Finding
from tilecheck.nightly.upgrade import UNANSWERED, Upgrade
from tilecheck.nightly.verdict import INTERRUPTED, NOTHING, worst
from tilecheck.tables import aligned

SHOWN = 30
"""Findings that are shown; night.json has them all."""


@dataclass(frozen=True)
class Told:
    """All that a night has to tell.

    beside: lines on the correctness tests under the newest TileLang, beside those under the pinned one.
    drifting: lines on rows that slowly become slower.  nights: before this one.
    notes: lines on what could not be read or written, and on dates of nights that go back.
    """

    night: Night
    ended: Sequence[Ended]
    findings: Sequence[Finding]
    upgrade: Upgrade | None
    beside: Sequence[str]
    drifting: Sequence[str]
    nights: int
    notes: Sequence[str]


def verdict(told: Told) -> str:
    """One line: green, or the worst."""
    found = worst(told.ended)
    if told.night.exit_code == INTERRUPTED:
        return "INTERRUPTED"
    if told.night.exit_code == NOTHING:
        return "NOTHING WAS RUN"
    if found is None:
        return "GREEN"
    return f"RED: {found.name} {found.state}: {found.words} (exit code {told.night.exit_code})"


def table(ended: Sequence[Ended]) -> list[str]:
    """The stages, their times and verdicts, aligned."""
    rows = [("stage", "time", "verdict", "")]
    rows += [(e.name, _minutes(e.seconds), e.state, _said(e)) for e in ended]
    return aligned(rows, right=(1,))


def _said(ended: Ended) -> str:
    free = "" if ended.gates or ended.green else "(does not turn the night red) "
    return f"{free}{ended.words}"


def _minutes(taken: float) -> str:
    return f"{int(taken // 60)} min {taken % 60:02.0f} s" if taken >= 60 else f"{taken:.0f} s"


def lines(told: Told) -> list[str]:
    """For a terminal."""
    found = [*table(told.ended), ""]
    for finding in told.findings[:SHOWN]:
        first, *rest = finding.lines()
        found += [first, *(f"  {line}" for line in rest), ""]
    for title, body in _sections(told):
        found += [f"{title}:", *(f"  {line}" for line in body), ""]
    return [*found, verdict(told)]


def _sections(told: Told) -> list[tuple[str, list[str]]]:
    sections = []
    if told.upgrade:
        both = [*upgrade_lines(told.upgrade), *told.beside]
        sections.append(("TileLang, pinned and newest", both))
    if told.drifting:
        sections.append(("slow drift", list(told.drifting)))
    notes = list(told.notes)
    if (more := len(told.findings) - SHOWN) > 0:
        notes.insert(0, f"{many(more, 'more finding')} in night.json")
    if notes:
        sections.append(("to know", notes))
    return sections


def upgrade_lines(upgrade: Upgrade) -> list[str]:
    """Would an upgrade break or slow us?"""
    found = [upgrade.words]
    if not upgrade.version:
        return found
    words = {part.name: part.words for part in upgrade.parts}
    for name, state in upgrade.states.items():
        found.append(f"{name}: {state}{f': {words[name]}' if words.get(name) else ''}")
    if upgrade.codegen:
        found.append(f"code: {upgrade.codegen}")
    if upgrade.rows:
        names = list(dict.fromkeys(str(row.get("verdict")) for row in upgrade.rows))
        found.append(f"times, in turn: {', '.join(f'{len(upgrade.of(name))} {name}' for name in names)}")
    for row in sorted(upgrade.of("slower"), key=lambda row: -float(row["ratio"])):
        old, new = seconds(float(row["old"])), seconds(float(row["new"]))
        found.append(f"{row['row']}: slower, {old} -> {new} ({(float(row['ratio']) - 1) * 100:+.1f} %)")
    for row in upgrade.of("not compared"):
        found.append(f"{row['row']}: not compared: {row.get('reason', '')}")
    return [*found, upgrade_verdict(upgrade)]


def beside(pinned: Junit | None, newest: Junit | None) -> list[str]:
    """The tests under both: how many fail, and those that fail under one alone."""
    if newest is None:
        return []
    sides = {"pinned": pinned, "newest": newest}
    counts = [
        f"{name} {each.counts['failed']} of {sum(each.counts.values())} failed"
        if each
        else f"{name} not tested"
        for name, each in sides.items()
    ]
    found = [f"correctness tests: {', '.join(counts)}"]
    if pinned is None:
        return found
    ours, theirs = ({f.test: f for f in each.failures} for each in (pinned, newest))
    for name, failing, other in (("newest", theirs, ours), ("pinned", ours, theirs)):
        alone = [failure for test, failure in failing.items() if test not in other]
        found += [f"fails under the {name} alone: {f.test}: {f.words}" for f in alone[:SHOWN]]
        if len(alone) > SHOWN:
            found.append(f"and {len(alone) - SHOWN} more under the {name} alone")
    return found


def upgrade_verdict(upgrade: Upgrade) -> str:
    """The answer, in one line. A part that is missing is not answered; without any, nothing was installed."""
    step = f"{upgrade.pinned} -> {upgrade.version}"
    states = upgrade.states
    if not states:
        why = f": {upgrade.reason}" if upgrade.reason else ""
        return f"{step}: no verdict: it could not be installed{why}"
    wrong, slower = any(row.get("wrong") for row in upgrade.rows), len(upgrade.of("slower"))
    bad = []
    if states.get("correctness") == "failed" or wrong:
        bad.append(f"breaks kernels{_failing_tests(upgrade)}")
    if slower:
        bad.append(f"slows {slower} of {many(len(upgrade.rows), 'row')}")
    elif states.get("latency") == "failed" and not wrong:
        bad.append(_untold_times(upgrade))
    if states.get("codegen") == "failed":
        _, _, which = upgrade.codegen.rstrip(".").partition(NOT_SAFE)
        bad.append(f"makes code worse{f': {which}' if which else ''}")
    open_ = [name for name, state in states.items() if state not in ANSWERED]
    unsaid = f"; not answered: {', '.join(open_)}" if open_ else ""
    unsaid += "; without a GPU, so times were not compared" if upgrade.simulated else ""
    fine = "no verdict" if open_ else "nothing speaks against it"
    return f"{step}: {' and '.join(bad) or fine}{unsaid}"


def _failing_tests(upgrade: Upgrade) -> str:
    words = next((part.words for part in upgrade.parts if part.name == "correctness"), "")
    counted = re.match(r"(\d+) failed", words)
    return f" ({many(int(counted[1]), 'test')})" if counted else ""


def _untold_times(upgrade: Upgrade) -> str:
    """Of times that failed, although no row is slower or wrong: `tilecheck ab` could not tell."""
    untold = len(upgrade.of("inconclusive")) + len(upgrade.of("not compared"))
    if not upgrade.rows:
        return "leaves no row timed"
    return f"leaves {untold} of {many(len(upgrade.rows), 'row')} inconclusive"


def of_newest(ended: Ended, upgrade: Upgrade | None) -> Ended:
    """How its stage ended: one that did not pass says what an upgrade would do, as far as it found out."""
    if upgrade is None or ended.green:
        return ended
    told = upgrade_verdict(upgrade) if upgrade.version else upgrade.words
    answered = ended.state == "failed" or ended.codes == (UNANSWERED,)
    return replace(ended, words=shortened(told if answered else f"{ended.words}; {told}"))


def markdown(told: Told, report: str) -> str:
    """summary.md.  report: what the report of the tests has to say, as Markdown; "" without one."""
    night = told.night
    changed = " with changes" if night.dirty else ""
    versions = ", ".join(f"{name} {version}" for name, version in night.toolchain.items())
    found = [
        f"# Night of {night.date[:10]}: {_safe(verdict(told))}",
        "",
        f"{_safe(night.gpu)}, commit {night.commit[:10] or 'unknown'}{changed}, seed {night.seed}, "
        f"{many(told.nights, 'night')} on record before it.",
        "",
        _safe(versions),
        "",
        "| stage | time | verdict | |",
        "|---|---:|---|---|",
    ]
    found += [
        f"| {e.name} | {_minutes(e.seconds)} | {_bold(e.state)} | {_safe(_said(e))} |" for e in told.ended
    ]
    for finding in told.findings[:SHOWN]:
        first, *rest = finding.lines()
        found += ["", f"### {_safe(first)}", "", *(f"- {_line(line)}" for line in rest if line.strip())]
    for title, body in _sections(told):
        found += ["", f"## {title}", "", *(f"- {_safe(line)}" for line in body)]
    if not told.drifting and told.nights + 1 >= FEWEST:
        found += [
            "",
            f"No slow drift in {told.nights + 1} nights (chance of a false alarm {FALSE_ALARMS:g} a night).",
        ]
    return "\n".join([*found, "", *([report] if report else [])])


def _bold(state: str) -> str:
    return state if state in ("passed", "skipped") else f"**{state}**"


def _line(line: str) -> str:
    head, colon, command = line.partition(": ")
    if colon and head in ("repeat", "find the change"):
        return f"{head}: `{command.replace('`', '')}`"
    return _safe(line.strip())


def _safe(text: str) -> str:
    """Text that came from messages and files, so that Markdown shows it as it is."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|#~@])", r"\\\1", plain)
