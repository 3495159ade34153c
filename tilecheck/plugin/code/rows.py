"""Gives tests the rows of code: one that asks for `code_row` runs for each kernel, case and architecture.

code_row   `KernelSpec.cases_of_code` on the architectures that the kernel claims
code_arch  the architectures that a kernel claims, or that facts are stored of

Compiling all of them takes minutes, so a run looks at a part, unless it asks for the marker `codegen`, or
names the test or its file.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilecheck.arches import ARCHES
from tilecheck.codegen.store import DEFAULT, Key, stored_arches
from tilecheck.plugin.expected import known_of_code
from tilecheck.plugin.parametrization import unconfigured
from tilecheck.plugin.rows import CODE_ARCH, CODE_ROW, CodeRow, code_arch_of, code_row_of
from tilecheck.plugin.specs import specs

PART = ("sm_80", "sm_90a")
"""The architectures of a part, which has the first case of each kernel: one generation of tensor cores and
copies each.
"""

_selected_key = pytest.StashKey[frozenset[str]]()
_selected_arches_key = pytest.StashKey[frozenset[str]]()


def code_rows(config: pytest.Config) -> Iterator[CodeRow]:
    """All rows of code, whichever are selected."""
    return (
        CodeRow(spec, case, ARCHES[name])
        for spec in specs(config)
        for case in spec.cases_of_code
        for name in spec.arches
    )


def rows_to_store(config: pytest.Config, arch: str, tilelang: str) -> dict[Key, CodeRow]:
    """The rows that facts have to be stored of: all that are not known to fail to compile."""
    return {
        key_of(row): row
        for row in code_rows(config)
        if row.arch.name == arch
        and not any(e.symptom == "compile error" for e in known_of_code(config, row, tilelang))
    }


def key_of(row: CodeRow) -> Key:
    """What the facts of a row are stored by."""
    return row.spec.name, row.case.id, DEFAULT


def baselines(config: pytest.Config) -> Path:
    """The folder of what is stored."""
    return config.rootpath / str(config.getini("tilecheck_baselines"))


def selected(config: pytest.Config) -> frozenset[str]:
    """Ids of the rows that this session has tests of."""
    return config.stash[_selected_key]


def selected_arches(config: pytest.Config) -> frozenset[str]:
    """The architectures that this session has a test of what is stored of."""
    return config.stash[_selected_arches_key]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if not specs(metafunc.config):
        return
    if CODE_ROW in metafunc.fixturenames:
        rows = list(code_rows(metafunc.config))
        # The scope puts the tests of a row side by side, else two workers would wait for one compiler.
        metafunc.parametrize(CODE_ROW, rows, ids=[row.id for row in rows], scope="module")
    if CODE_ARCH in metafunc.fixturenames:
        claimed = {name for spec in specs(metafunc.config) for name in spec.arches}
        stored = stored_arches(baselines(metafunc.config))
        names = [name for name in ARCHES if name in claimed or name in stored]
        metafunc.parametrize(CODE_ARCH, [*names, *(name for name in stored if name not in ARCHES)])


@pytest.hookimpl(trylast=True)  # after -k and -m, so that what they leave out is not counted twice
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "codegen" in re.findall(r"\w+", config.option.markexpr):
        return
    failed_last = config.cache.get("cache/lastfailed", {}) if getattr(config.option, "lf", False) else {}
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        row = code_row_of(item)
        wanted = row is None or _of_part(row) or item.nodeid in failed_last or _named(config, item)
        (kept if wanted else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    rows = (row for item in session.items if (row := code_row_of(item)))
    session.config.stash[_selected_key] = frozenset(row.id for row in rows)
    arches = (arch for item in session.items if (arch := code_arch_of(item)))
    session.config.stash[_selected_arches_key] = frozenset(arches)


def _of_part(row: CodeRow) -> bool:
    arches = [name for name in PART if name in row.spec.arches] or row.spec.arches[:1]
    return row.case.id == row.spec.cases_of_code[0].id and row.arch.name in arches


def _named(config: pytest.Config, item: pytest.Item) -> bool:
    """Whether the command line names this test, its function or its file."""
    test = item.nodeid.partition("::")[2]
    for argument in config.args:
        file, _, named = argument.partition("::")
        if (config.invocation_params.dir / file).resolve() != item.path.resolve():
            continue
        if not named or test == named or test.startswith((f"{named}::", f"{named}[")):
            return True
    return False


@pytest.fixture
def code_row() -> CodeRow:
    """The code of a kernel on one of its cases, for one architecture."""
    unconfigured()


@pytest.fixture
def code_arch() -> str:
    """Name of an architecture that a kernel claims, or that facts are stored of."""
    unconfigured()
