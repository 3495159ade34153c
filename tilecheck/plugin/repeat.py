"""The command that repeats one test, which every failure shows."""

import os
import re
import shlex
from collections.abc import Generator
from typing import Any

import pytest

from tilecheck.arches import DEFAULT_ARCH
from tilecheck.plugin.options import option, spelling
from tilecheck.plugin.rows import looks_at_code
from tilecheck.plugin.selection import active, selection


def repeat_command(config: pytest.Config, nodeid: str) -> str:
    """The command that repeats a test, on the same device and seed, from where this run was started."""
    chosen = selection(config)
    options = {"device": chosen.device, "seed": str(option(config, "seed"))}
    if chosen.simulated and chosen.arch.name != DEFAULT_ARCH:
        options["arch"] = chosen.arch.name
    given = [f"{spelling(config, name)}={value}" for name, value in options.items()]
    if option(config, "all-schedules"):
        given.append(spelling(config, "all-schedules"))
    return f"{test_command(config, nodeid)} {' '.join(given)}"


def command_of(item: pytest.Item) -> str:
    """The command that repeats a test, whatever it is about."""
    command = test_command if looks_at_code(item) else repeat_command
    marks = " -m latency" if item.get_closest_marker("latency") else ""  # without, it would be left out
    return f"{command(item.config, item.nodeid)}{marks}"


def test_command(config: pytest.Config, nodeid: str) -> str:
    """The command that runs a test, whatever the device, from where this run was started."""
    file, _, test = nodeid.partition("::")
    return f"pytest {quoted(f'{from_here(config, file)}::{test}')}"


def quoted(word: str) -> str:
    """A word as a shell takes it; in double quotes where these do, as brackets are in each test's id."""
    return shlex.quote(word) if re.search(r'["$`\\!]', word) else f'"{word}"'


def from_here(config: pytest.Config, file: str) -> str:
    """The path of a test's file, from where this run was started."""
    return os.path.relpath(config.rootpath / file, config.invocation_params.dir)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report: Any = yield
    if report.failed and active(item.config) and "repeat: pytest" not in report.longreprtext:
        report.sections.append(("repeat", f"repeat: {command_of(item)}"))
    return report
