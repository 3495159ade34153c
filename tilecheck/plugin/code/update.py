"""With `--update-facts`: stores the facts of the selected rows, at the end of the run and all at once.

So a file never mixes toolchains, and xdist's workers, which only report, need not agree on who writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilecheck.codegen import changes, store
from tilecheck.gist import toolchain_changes
from tilecheck.plugin.code.checking import CodeRecord, code_records
from tilecheck.plugin.code.rows import baselines, code_rows, key_of, rows_to_store
from tilecheck.plugin.options import option
from tilecheck.plugin.runfolder import is_worker
from tilecheck.plugin.selection import active

_NAME = "tilecheck.code-results"


@dataclass(eq=False)  # pytest keeps plugins in sets
class CodeResults:
    """What a run found of the code that it looked at, and what was stored of it.

    updated: lines, one a row.  refused: lines, one an architecture whose file was left alone.
    """

    records: list[CodeRecord] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.records += code_records(report)


def code_results(config: pytest.Config) -> CodeResults:
    """The results of this run; none in a worker, which hands them on."""
    found: CodeResults | None = config.pluginmanager.get_plugin(_NAME)
    return found or CodeResults()


def pytest_configure(config: pytest.Config) -> None:
    if active(config) and not is_worker(config):
        config.pluginmanager.register(CodeResults(), _NAME)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if not active(config) or not option(config, "update-facts"):
        return
    results = code_results(config)
    of_arch: dict[str, list[CodeRecord]] = {}
    for record in results.records:
        if record.facts is not None:
            of_arch.setdefault(record.arch, []).append(record)
    for arch, records in of_arch.items():
        try:
            results.updated += _update(config, arch, records)
        except ValueError as error:
            results.refused.append(str(error))
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _update(config: pytest.Config, arch: str, records: Sequence[CodeRecord]) -> list[str]:
    """Stores the facts of these records; returns how each row moved. Raises ValueError where it must not."""
    facts = {record.key: store.facts_from_json(record.facts) for record in records}
    (versions, *others) = (record.versions for record in records if record.versions is not None)
    if any(other != versions for other in others):
        raise ValueError(f"{arch}: not stored, as its facts are from different toolchains")
    path = store.path_of(baselines(config), arch)
    stored = store.read(path, arch)
    old = stored.facts if stored else {}
    whole = rows_to_store(config, arch, versions.get("tilelang", "none")).keys() <= facts.keys()
    dropped = sorted(old.keys() - facts.keys()) if whole else []
    moved = changes.compare({key: old[key] for key in old.keys() & facts.keys()}, facts)
    toolchain = toolchain_changes(stored.toolchain, versions) if stored else ""
    if moved or dropped or toolchain:
        store.update(path, arch, versions, facts, drop=dropped, whole=whole)
    ids = {record.key: record.row for record in records}
    lines = [f"{arch}: {toolchain}"] if toolchain else []
    lines += [f"{ids[row.row]}: {'recorded' if row.kind == 'added' else row}" for row in moved]
    there = {key_of(row) for row in code_rows(config) if row.arch.name == arch}
    for key in dropped:
        why = "it is known not to compile" if key in there else "no kernel has it any more"
        lines.append(f"{' '.join(key)}, {arch}: dropped, as {why}")
    return lines
