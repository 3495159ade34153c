"""Expected failures: a test that an entry of the ledger fits must fail, and in the way that it says.

So a fix shows itself, as a strict expected failure that passes. Only where the entry names a race may the
test pass as well: it comes out right by luck. The ini option `tilecheck_known_issues` names
the ledger (`tilecheck.ledger`).
"""

import pytest

from tilecheck import environment
from tilecheck.ledger import CODEGEN, Known, read_ledger
from tilecheck.plugin.rows import CodeRow, row_of
from tilecheck.plugin.selection import active, selection

_key = pytest.StashKey[tuple[Known, ...]]()
_entry_key = pytest.StashKey[Known]()


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
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


def _expected(entry: Known, tilelang: str) -> pytest.MarkDecorator:
    from tilecheck.isolation import errors_of

    return pytest.mark.xfail(
        strict=entry.strict, raises=errors_of(entry.symptom), reason=reason_of(entry, tilelang)
    )
