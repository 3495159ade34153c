"""The end of a run that looked at code: how many rows, what changed, and what was stored."""

import re
from collections.abc import Iterable, Iterator, Sequence

import pytest

from tilecheck.arches import ARCHES
from tilecheck.codegen import cache_trouble
from tilecheck.codegen.changes import SEVERITIES
from tilecheck.counting import many
from tilecheck.plugin.code.checking import CodeRecord
from tilecheck.plugin.code.rows import code_rows
from tilecheck.plugin.code.update import code_results
from tilecheck.plugin.marks import excluded
from tilecheck.plugin.options import option, spelling
from tilecheck.plugin.selection import active
from tilecheck.plugin.timing.mode import latency_run
from tilecheck.tables import aligned

SHOWN = 20
"""Rows that changed under another toolchain which the summary names; -v: all."""


_none_key = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)  # before -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[_none_key] = not any(item.get_closest_marker("codegen") for item in items)


def _asks_for_code(config: pytest.Config) -> bool:
    marks = config.option.markexpr
    named = re.search(r"\bcodegen\b", marks) is not None and not excluded(marks, {"codegen"})
    return named or latency_run(config).code_instead or option(config, "update-facts")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not active(config):
        return
    results = code_results(config)
    updating = option(config, "update-facts")
    if config.stash.get(_none_key, False) and not results.records and _asks_for_code(config):
        terminalreporter.write_sep("=", "tilecheck: code")
        terminalreporter.write_line("no test of code here; this writes them: tilecheck init --codegen")
        return
    if not results.records and not updating:
        return
    terminalreporter.write_sep("=", "tilecheck: code")
    looked_at = [record for record in results.records if record.finding != "no compiler"]
    for line in (
        *table(looked_at),
        *_left_out(config, results.records, looked_at),
        *_in_source_only(looked_at),
        *_of_cache(looked_at),
        *under_another_toolchain(looked_at, None if config.get_verbosity() > 0 else SHOWN),
    ):
        terminalreporter.write_line(line)
    if updating:
        stored = (
            "stored:" if results.updated else "nothing to store" if not results.refused else "not stored:"
        )
        terminalreporter.write_line(f"{spelling(config, 'update-facts')}: {stored}")
        for line in results.updated:
            terminalreporter.write_line(f"  {line}")
        for line in results.refused:
            terminalreporter.write_line(f"  {line}", red=True)


def table(records: Iterable[CodeRecord]) -> list[str]:
    """For each architecture: rows, and those that do not compile, break a landmark, or changed."""
    groups: dict[str, list[CodeRecord]] = {name: [] for name in ARCHES}
    for record in records:
        groups[record.arch].append(record)
    groups = {name: members for name, members in groups.items() if members}
    if not groups:
        return []
    rows: list[tuple[str, ...]] = [("arch", "rows", "compile errors", "broken landmarks", "changed")]
    for arch, members in groups.items():
        count = str(len({record.row for record in members}))
        cells = (_counted(members, finding) for finding in ("compile error", "broken", "changed"))
        rows.append((arch, count, *cells))
    return aligned(rows, right=(1, 2, 3, 4))


def _counted(records: Iterable[CodeRecord], finding: str) -> str:
    rows = {record.row: record.expected for record in records if record.finding == finding}
    known = sum(rows.values())
    return f"{len(rows)} ({known} known)" if known else str(len(rows))


def _left_out(
    config: pytest.Config, records: Iterable[CodeRecord], looked_at: Iterable[CodeRecord]
) -> Iterator[str]:
    skipped = {record.row: record.words for record in records if record.finding == "no compiler"}
    if skipped:
        yield f"{many(len(skipped), 'row')} not compiled: {next(iter(skipped.values()))}"
        return
    seen, there = len({record.row for record in looked_at}), sum(1 for _ in code_rows(config))
    if 0 < seen < there:
        yield f"{seen} of {there} rows; all of them: pytest -m codegen"


def _of_cache(looked_at: Sequence[CodeRecord]) -> Iterator[str]:
    trouble = cache_trouble() if looked_at else ""
    if trouble:
        yield trouble


def _in_source_only(records: Iterable[CodeRecord]) -> Iterator[str]:
    rows = {record.row for record in records if record.finding == "source"}
    if rows:
        yield f"CUDA source changed, same SASS: {', '.join(sorted(rows))}"


def under_another_toolchain(records: Iterable[CodeRecord], most: int | None = None) -> Iterator[str]:
    """What changed where facts are not from this toolchain, worst first; `most` rows, None: all."""
    groups: dict[str, list[CodeRecord]] = {}
    for record in records:
        if record.toolchain:
            groups.setdefault(record.toolchain, []).append(record)
    for toolchain, members in groups.items():
        changed = sorted((r for r in members if r.finding == "changed"), key=_place)
        count = f"{len(changed)} of {many(len(members), 'row')} changed{':' if changed else ''}"
        yield f"toolchain differs: {toolchain}; {count}"
        shown = changed[:most]
        yield from (f"  {record.row}: {record.words}" for record in shown)
        if len(shown) < len(changed):
            yield f"  and {len(changed) - len(shown)} more; -v names them"


def _place(record: CodeRecord) -> tuple[int, str]:
    return SEVERITIES.index(record.severity), record.row
