"""Finds the specs that the ini option `tilecheck_specs` names."""

import pytest

from tilecheck.loading import load_specs
from tilecheck.spec import KernelSpec

_key = pytest.StashKey[tuple[KernelSpec, ...]]()


def specs(config: pytest.Config) -> tuple[KernelSpec, ...]:
    """The specs of this run, in the configuration's order; UsageError, in one line, for a mistake there."""
    if _key not in config.stash:
        try:
            config.stash[_key] = load_specs(config.getini("tilecheck_specs"))
        except ValueError as error:
            raise pytest.UsageError(f"tilecheck_specs: {error}") from error
    return config.stash[_key]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    # Before collection: an error there would be a traceback, and under xdist a dead worker.
    specs(session.config)
