"""The command that repeats one test."""

import os

import pytest

from tilecheck.plugin.options import option, spelling
from tilecheck.plugin.selection import DEFAULT_ARCH, selection


def repeat_command(config: pytest.Config, nodeid: str) -> str:
    """The command that repeats a test, on the same device and seed, from where this run was started."""
    chosen = selection(config)
    file, _, test = nodeid.partition("::")
    path = os.path.relpath(config.rootpath / file, config.invocation_params.dir)
    options = {"device": chosen.device, "seed": str(option(config, "seed"))}
    if chosen.simulated and chosen.arch.name != DEFAULT_ARCH:
        options["arch"] = chosen.arch.name
    given = [f"{spelling(config, name)}={value}" for name, value in options.items()]
    if option(config, "all-schedules"):
        given.append(spelling(config, "all-schedules"))
    return f'pytest "{path}::{test}" {" ".join(given)}'
