"""Spreads xdist's workers over the GPUs: each sees one, and -n auto starts as many as memory and cores carry.

The controller numbers the workers; a worker picks its GPU when this module is imported, which is before
anything can have used CUDA. One that takes a dead worker's place has its number, and so its GPU.
"""

import os
from typing import Any

import pytest

from tilecheck import gpus
from tilecheck.plugin.options import option
from tilecheck.plugin.selection import active

NUMBER = "TILECHECK_WORKER"
"""Environment variable by which the controller hands a worker its number."""

MEMORY = "tilecheck_worker_memory"
"""Ini option: GiB of GPU memory that -n auto sets aside for each worker."""

if NUMBER in os.environ and "PYTEST_XDIST_WORKER" in os.environ:
    gpus.show_one(int(os.environ[NUMBER]), os.environ, gpus.installed_gpus())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(MEMORY, "GiB of GPU memory for each worker that -n auto starts (default: 8)", default="8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    # None: xdist's own answer, which is its variable, or else one worker a core.
    if not _on_gpus(config) or "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    visible = gpus.visible_gpus(os.environ.get(gpus.VARIABLE), gpus.installed_gpus())
    if not visible:
        return None
    return gpus.workers_for(visible, gpus.cores(), round(float(config.getini(MEMORY)) * 2**30))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    if not active(config):
        return
    for number, spec in enumerate(specs):
        if _on_gpus(config):
            spec.env[NUMBER] = str(number)
        # Else torch starts a thread for each core in each worker, and they get in each other's way.
        if "OMP_NUM_THREADS" not in os.environ:
            spec.env["OMP_NUM_THREADS"] = str(max(1, gpus.cores() // len(specs)))


def _on_gpus(config: pytest.Config) -> bool:
    return active(config) and option(config, "device") != "simulator"
