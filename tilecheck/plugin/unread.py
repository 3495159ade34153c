"""Sees to it that pytest reads the project's configuration, whatever the options' values are.

Before it knows the options of plugins, pytest takes the value behind one, if there is such a file or folder,
for tests, and looks for its configuration from there. So it is with `--report ../out` the second time, and
with each worker of xdist, which begins when the folder is there, even the first time. The workers get
`--report=../out` instead; a run that has not read its configuration is refused.
"""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from tilecheck.plugin.options import spelling
from tilecheck.project import find_project


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    given = config.invocation_params
    words = [str(word) for word in given.args]
    if config.getini("tilecheck_specs"):
        joined = _joined(words, ("--tilecheck-report", spelling(config, "report")))
        if joined != words:
            config.invocation_params = type(given)(args=joined, plugins=given.plugins, dir=given.dir)
        return
    for option, value in pairwise(words):
        # The value of an option that nobody could know yet, or a test behind one that has none: who knows?
        if option.startswith("--") and "=" not in option and (given.dir / value).exists():
            try:
                project = find_project(given.dir)
            except ValueError:
                return
            raise pytest.UsageError(
                f"pytest took {value}, which is there, for tests, and did not read {project.config.name}; "
                f"write {option}={value}"
            )


def _joined(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The words of a command line, with those options and their values as one word each."""
    found: list[str] = []
    for word in words:
        if found and found[-1] in options:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found
