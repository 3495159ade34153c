"""For tests that run pytest with `--report` in their own process: pytester forgets the modules that only its
runs import, and these do not load twice. Where they are not installed, `needed` skips.
"""

import importlib
from contextlib import suppress

import pytest

_MODULES = ("jinja2", "matplotlib.figure", "matplotlib.backends.backend_svg")

for name in _MODULES:
    with suppress(ImportError):
        importlib.import_module(name)


def needed() -> None:
    """Skips a test, or a module, where the pages of a report cannot be made."""
    for name in _MODULES:
        pytest.importorskip(name)
