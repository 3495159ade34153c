"""Expected failures: a test that an entry of the ledger fits must fail, and in the way that it says.

So a fix shows itself, as a strict expected failure that passes. Only where the entry names a race may the
test pass as well: it comes out right by luck. The ini option `tilecheck_known_issues` names
the ledger (`tilecheck.ledger`). A run that collects all tests says which entries fit none of them.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tilecheck import environment
from tilecheck.ledger import CODEGEN, Known, place_of, read_ledger
from tilecheck.plugin.options import option
from tilecheck.plugin.rows import CodeRow, KernelCase, code_row_of, row_of
from tilecheck.plugin.runfolder import is_worker
from tilecheck.plugin.selection import active, selection

_key = pytest.StashKey[tuple[Known, ...]]()
_entry_key = pytest.StashKey[Known]()
_idle_key = pytest.StashKey[list[str]]()
_WHOLE, _IDLE = "tilecheck-whole", "tilecheck-idle-entries"


def known_of(item: pytest.Item) -> Known | None:
    """The entry that says how this test is expected to fail; None: it is not."""
    return item.stash.get(_entry_key, None)


def known_of_code(config: pytest.Config, row: CodeRow, tilelang: str) -> tuple[Known, ...]:
    """The entries that say what is expected of a row of code, with a version of TileLang."""
    return tuple(e for e in _ledger(config) if e.fits(row.id, CODEGEN, row.arch.name, tilelang))


def reason_of(entry: Known, tilelang: str) -> str:
    """An expected failure in one line."""
    reason = f"{entry.source}, TileLang {tilelang}: {entry.symptom}"
    return f"{reason}, or right by luck: {entry.race}" if entry.race else reason


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "tilecheck_known_issues", "TOML file of expected failures, relative to the root", default=""
    )


def _ledger(config: pytest.Config) -> tuple[Known, ...]:
    if _key not in config.stash:
        name = config.getini("tilecheck_known_issues")
        try:
            config.stash[_key] = read_ledger(config.rootpath / name) if name else ()
        except ValueError as error:
            raise pytest.UsageError(f"tilecheck_known_issues: {error}") from error
    return config.stash[_key]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    _ledger(session.config)


@pytest.hookimpl(tryfirst=True)  # before -k and -m leave any out
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    tilelang = environment.version("tilelang")
    if not active(config) or not _ledger(config) or tilelang is None:
        return
    chosen = selection(config)
    for item in items:
        row = row_of(item)
        entry = row and next(
            (e for e in _ledger(config) if e.fits(row.id, chosen.device, chosen.arch.name, tilelang)), None
        )
        if entry:
            item.stash[_entry_key] = entry
            item.add_marker(_expected(entry, tilelang))
    if _collects_all(config) and not session.testsfailed:
        config.stash[_idle_key] = list(_idle(config, items, tilelang))


def _collects_all(config: pytest.Config) -> bool:
    """Whether the run collects all tests that there are, whichever of them it selects."""
    if is_worker(config):
        whole: bool = getattr(config, "workerinput", {}).get(_WHOLE, False)
        return whole
    sources, given = pytest.Config.ArgsSource, config.option
    everywhere = config.args_source is sources.TESTPATHS or (
        config.args_source is sources.INVOCATION_DIR and config.invocation_params.dir == config.rootpath
    )
    return everywhere and not (given.ignore or given.ignore_glob or getattr(given, "lf", False))


def _idle(config: pytest.Config, items: Sequence[pytest.Item], tilelang: str) -> Iterator[str]:
    """A line for each entry that is in force and fits no test, or names a landmark that none promises."""
    chosen, every = selection(config), option(config, "all-schedules")
    rows = [row for item in items if (row := row_of(item))]
    code_rows = [code_row for item in items if (code_row := code_row_of(item))]
    for number, entry in enumerate(_ledger(config), 1):
        place = f"{config.getini('tilecheck_known_issues')}: {place_of(number, entry.test)}"
        if entry.devices == (CODEGEN,):
            fitting = [row for row in code_rows if entry.fits(row.id, CODEGEN, row.arch.name, tilelang)]
            promised = sorted({m.id for row in fitting for m in row.spec.landmarks_of(row.case, row.arch)})
            if entry.fails_with(tilelang) and not fitting:
                yield f"{place} fits no row of code: mend its pattern, or remove it"
            elif fitting and entry.landmark and entry.landmark not in promised:
                there = ", ".join(promised) or "none"
                yield f"{place}: its rows promise no {entry.landmark!r}; their landmarks: {there}"
        elif entry.in_force(chosen.device, chosen.arch.name, tilelang) and not any(
            _may_fit(entry, row, every) for row in rows
        ):
            yield f"{place} fits no test: mend its pattern, or remove it"


def _may_fit(entry: Known, row: KernelCase, every: bool) -> bool:
    """Whether an entry fits the row, or a schedule of it that only a run of every one has."""
    return fnmatchcase(row.id, entry.test) or (not every and entry.test.startswith(f"{row.id}-"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[_WHOLE] = _collects_all(node.config)  # which is given the paths by name


def pytest_sessionfinish(session: pytest.Session) -> None:
    config: Any = session.config
    if is_worker(config):
        config.workeroutput[_IDLE] = config.stash.get(_idle_key, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if lines := getattr(node, "workeroutput", {}).get(_IDLE):  # of each worker the same
        node.config.stash[_idle_key] = lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(_idle_key, []):
        terminalreporter.section("tilecheck: known issues")
        for line in lines:
            terminalreporter.write_line(line, red=True)


def _expected(entry: Known, tilelang: str) -> pytest.MarkDecorator:
    from tilecheck.isolation import errors_of

    return pytest.mark.xfail(
        strict=entry.strict, raises=errors_of(entry.symptom), reason=reason_of(entry, tilelang)
    )
