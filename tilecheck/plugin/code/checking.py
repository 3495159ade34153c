"""Looks at the code of a row for a test, and records what it was."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pytest

from tilecheck import environment
from tilecheck.codegen import changes, store
from tilecheck.gist import toolchain_changes
from tilecheck.ledger import Known
from tilecheck.plugin.carried import carried_by_call
from tilecheck.plugin.code.rows import baselines, key_of, rows_to_store, selected, selected_arches
from tilecheck.plugin.code.shared import SharedRow
from tilecheck.plugin.expected import known_of_code, reason_of
from tilecheck.plugin.options import option, spelling
from tilecheck.plugin.repeat import from_here, test_command
from tilecheck.plugin.rows import CodeRow

if TYPE_CHECKING:
    from tilecheck.codegen import Facts, Toolchain

CODE_RECORD = "tilecheck-code"
"""Name of the user property of a test's report that holds its `CodeRecord`, as JSON."""

FACTS = "tilecheck-facts"
"""Name of the user property that holds the facts of a test's row, as JSON; only where a report is made."""

_seen_key = pytest.StashKey[dict[str, "Facts"]]()

_told_key = pytest.StashKey[set[str]]()
"""Architectures of which a test has said that their file cannot be used."""

Finding = Literal["kept", "broken", "same", "source", "changed", "new", "compile error", "no compiler"]


@dataclass(frozen=True)
class CodeRecord:
    """What a test found of a row of code; travels with its report, also from xdist workers.

    key: what its facts are stored by.
    finding: of its landmarks, that they are "kept" or "broken"; of its facts, against the stored ones,
    "same", "changed" or "new", or that only the "source" changed.
    expected: the ledger has it.
    words: the changes, the compiler's message, or what is missing.  severity: of the worst change.
    toolchain: how it differs from that of the stored facts; "": it does not.
    facts, versions: what to store, and the toolchain it is from; None where nothing is to be stored.
    """

    row: str
    key: store.Key
    arch: str
    finding: Finding
    expected: bool = False
    words: str = ""
    severity: changes.Severity = "neutral"
    toolchain: str = ""
    facts: Mapping[str, Any] | None = None
    versions: Mapping[str, str] | None = None


class CodeChecker:
    """What a test can ask about the code of a row. What fails raises AssertionError, in few lines.

    Where there is no compiler, the test skips.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._config = item.config
        self._tilelang = environment.version("tilelang") or "none"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def landmarks(self, row: CodeRow) -> None:
        """The code keeps all that the spec promises of it.

        The ledger may have exceptions, by landmark; one that is kept after all fails.
        """
        __tracebackhide__ = True
        facts = self._facts_of(row, self._toolchain_for(row))
        known = {entry.landmark: entry for entry in self._known(row) if entry.symptom == "landmark"}
        breaches = {mark.id: mark.breach(facts) for mark in row.spec.landmarks_of(row.case, row.arch)}
        lines = [breach for id, breach in breaches.items() if breach and id not in known]
        lines += [_outdated(entry, breaches) for id, entry in known.items() if not breaches.get(id)]
        if lines:
            self._record(row, "broken", words="; ".join(lines))
            self._fail(row, "is not as promised", lines)
        reason = "; ".join(f"{reason_of(e, self._tilelang)} {breaches[id]}" for id, e in known.items())
        self._record(row, "broken" if known else "kept", expected=bool(known), words=reason)
        if known:
            _fail_as_expected(reason)

    def facts(self, row: CodeRow) -> None:
        """The code is that of the stored facts.

        Under another toolchain than theirs it may differ, which the summary of the run says. With
        `--update-facts` the facts are stored at the end of the run instead.
        """
        __tracebackhide__ = True
        stored = self._stored_for(row)
        toolchain = self._toolchain_for(row)
        updating: bool = option(self._config, "update-facts")
        moved = ""
        if stored and stored.facts:
            moved = toolchain_changes(stored.toolchain, toolchain.fingerprint)
        if updating and moved:
            self._refuse_a_part(row, moved)
        facts = self._facts_of(row, toolchain)
        old = stored.facts.get(key_of(row)) if stored else None
        found = changes.changes(old, facts) if old else ()
        finding: Finding = "changed" if changes.bind(found) else "source" if found else "same"
        self._record(
            row,
            finding if old else "new",
            words=changes.in_words(found),
            severity=changes.worst(found),
            toolchain=moved,
            facts=facts.as_json() if updating else None,
            versions=toolchain.fingerprint if updating else None,
        )
        if updating:
            return
        if old is None and not (stored and self._did_not_compile(row, stored)):
            self._fail(row, "has no stored facts", [f"record them: {self._updating_command()}"])
        if finding == "changed" and not moved:
            self._fail(row, "changed", [*_by_severity(found), f"accept it: {self._updating_command()}"])

    def shared_memory(self, row: SharedRow) -> None:
        """A block takes as much shared memory as the spec predicts, and no more than the architecture has.

        Lowering tells: no compiler is needed.
        """
        __tracebackhide__ = True
        from tilecheck import codegen
        from tilecheck.codegen.sharedmemory import disagreements
        from tilecheck.program import build_program

        variant = row.variant
        program = build_program(row.spec, row.case, row.arch, variant.schedule, variant.pass_configs)
        try:
            lines = list(disagreements(program, codegen.lower(program)))
        except codegen.CodegenError as error:
            self._fail(row, "does not lower", [str(error)])
        if lines:
            self._fail(row, "takes other shared memory than it should", lines)

    def stored_rows(self, arch: str) -> None:
        """Facts are stored of each row of an architecture that there is, selected or not, and of no other."""
        __tracebackhide__ = True
        stored = self._stored(arch)
        file = from_here(self._config, str(store.path_of(baselines(self._config), arch)))
        # The ledger's word for the version that the facts are from: what did not compile then is not there.
        tilelang = stored.toolchain.get("tilelang", self._tilelang) if stored else self._tilelang
        wanted = rows_to_store(self._config, arch, tilelang)
        if not wanted and stored:
            raise AssertionError(f"{file}: no kernel is for {arch} any more; remove the file")
        held = stored.facts.keys() if stored else set()
        orphaned, missing = held - wanted.keys(), wanted.keys() - held
        if option(self._config, "update-facts"):  # done at the end of the run
            missing = {key for key in missing if wanted[key].id not in selected(self._config)}
            orphaned = set() if self._is_whole(arch) else orphaned
        lines = [f"  no kernel has it any more: {' '.join(key)}" for key in sorted(orphaned)]
        lines += [f"  not stored: {' '.join(key)}" for key in sorted(missing)]
        if lines:
            mend = f"mend it: {self._updating_command(arch)}"
            raise AssertionError("\n".join([f"{file} does not have the rows there are:", *lines, mend]))

    def _toolchain_for(self, row: CodeRow) -> "Toolchain":
        """The toolchain of this machine; skips the test where there is none."""
        __tracebackhide__ = True
        from tilecheck import codegen

        try:
            return codegen.find_toolchain()
        except codegen.NoToolchain as error:
            self._record(row, "no compiler", words=str(error))
            pytest.skip(str(error))

    def _facts_of(self, row: CodeRow, toolchain: "Toolchain") -> "Facts":
        """The facts of a row. Ends the test where it does not compile, or was not expected to."""
        __tracebackhide__ = True
        from tilecheck import codegen
        from tilecheck.program import build_program

        entry = next((entry for entry in self._known(row) if entry.symptom == "compile error"), None)
        reason = reason_of(entry, self._tilelang) if entry else ""
        seen = self._config.stash.setdefault(_seen_key, {})
        try:
            facts = seen.get(row.id) or codegen.facts_of(
                build_program(row.spec, row.case, row.arch), toolchain
            )
            seen[row.id] = facts
        except codegen.CodegenError as error:
            self._record(row, "compile error", expected=entry is not None, words=str(error))
            if entry:
                _fail_as_expected(f"{reason}: {error}")
            self._fail(row, "does not compile", [str(error)])
        if option(self._config, "report"):
            self._item.user_properties.append((FACTS, json.dumps(facts.as_json())))
        if entry:
            self._fail(row, "now compiles", [f"remove its entry, or end it ({reason})"])
        return facts

    def _known(self, row: CodeRow) -> tuple[Known, ...]:
        return known_of_code(self._config, row, self._tilelang)

    def _did_not_compile(self, row: CodeRow, stored: store.Stored) -> bool:
        """Whether it is known that the version of TileLang that the facts are from did not compile a row."""
        tilelang = stored.toolchain.get("tilelang", self._tilelang)
        return key_of(row) not in rows_to_store(self._config, row.arch.name, tilelang)

    def _stored(self, arch: str) -> "store.Stored | None":
        __tracebackhide__ = True
        try:
            return store.read(store.path_of(baselines(self._config), arch), arch)
        except store.StoreError as error:
            raise AssertionError(str(error)) from None

    def _stored_for(self, row: CodeRow) -> "store.Stored | None":
        """What is stored of the architecture of a row.

        A file that cannot be used fails one test, that of the architecture, or the first that asks; the
        others skip.
        """
        __tracebackhide__ = True
        arch = row.arch.name
        try:
            return self._stored(arch)
        except AssertionError:
            told = self._config.stash.setdefault(_told_key, set())
            if arch not in selected_arches(self._config) and arch not in told:
                told.add(arch)
                raise
        file = from_here(self._config, str(store.path_of(baselines(self._config), arch)))
        pytest.skip(f"not compared, as {file} cannot be used: another test says why")

    def _is_whole(self, arch: str) -> bool:
        """Whether this run has all rows of an architecture."""
        rows = rows_to_store(self._config, arch, self._tilelang).values()
        return selected(self._config).issuperset(row.id for row in rows)

    def _refuse_a_part(self, row: CodeRow, moved: str) -> None:
        __tracebackhide__ = True
        arch = row.arch.name
        if not self._is_whole(arch):
            raise AssertionError(
                f"{spelling(self._config, 'update-facts')}: the facts of {arch} are from another toolchain "
                f"({moved}), so record all of them together: {self._updating_command(arch)}"
            )

    def _updating_command(self, arch: str | None = None) -> str:
        """The command that stores the facts of this test's row, or of all rows of an architecture."""
        if arch is None:
            command = test_command(self._config, self._item.nodeid)
        else:
            file = from_here(self._config, self._item.nodeid.partition("::")[0])
            command = f"pytest {file} -k {arch}"
        return f"{command} {spelling(self._config, 'update-facts')}"

    def _record(self, row: CodeRow, finding: Finding, **found: Any) -> None:
        record = CodeRecord(row.id, key_of(row), row.arch.name, finding, **found)
        self._item.user_properties.append((CODE_RECORD, json.dumps(dataclasses.asdict(record))))

    def _fail(self, row: CodeRow | SharedRow, what: str, lines: Iterable[str]) -> NoReturn:
        __tracebackhide__ = True
        head = f"the code of {row.spec.name} for {row.case}, {row.arch.name}, {what}:"
        repeat = f"repeat: {test_command(self._config, self._item.nodeid)}"
        raise AssertionError("\n".join([head, *(f"  {line}" for line in lines), repeat])) from None


@pytest.fixture
def code_checker(request: pytest.FixtureRequest) -> CodeChecker:
    """The checks of code, which need no device."""
    return CodeChecker(request.node)


def code_records(report: Any) -> list[CodeRecord]:
    """The records that the report of a test carries."""
    found = map(json.loads, carried_by_call(report, CODE_RECORD))
    return [CodeRecord(**{**record, "key": tuple(record["key"])}) for record in found]


def _outdated(entry: Known, breaches: Mapping[str, str | None]) -> str:
    if entry.landmark in breaches:
        return f"{entry.landmark}: now holds; remove its entry, or end it ({entry.source})"
    return f"{entry.landmark}: known to be missing, and never promised; there are {', '.join(breaches)}"


def _by_severity(found: Iterable[changes.Change]) -> Iterator[str]:
    found = tuple(found)
    for severity, called in (("regression", "worse"), ("improvement", "better"), ("neutral", "other")):
        if of_it := [change for change in found if change.severity == severity]:
            yield f"{called}: {changes.in_words(of_it)}"


def _fail_as_expected(reason: str) -> NoReturn:
    __tracebackhide__ = True
    pytest.xfail(reason)
    raise AssertionError(reason)  # with --runxfail it comes back
