"""A folder that xdist's controller and its workers share for the length of a run."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tilecheck.plugin.selection import active

_INPUT = "tilecheck_folder"  # key of what the controller hands to a worker

_key = pytest.StashKey[Path]()


def run_folder(config: Any) -> Path | None:
    """The folder of this run. None without xdist, and for a worker on another machine than the controller."""
    if is_worker(config):
        folder = Path(config.workerinput.get(_INPUT, ""))
        return folder if _INPUT in config.workerinput and folder.is_dir() else None
    found: Path | None = config.stash.get(_key, None)
    return found


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is one of xdist's workers, which is replaced when it dies."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    config = node.config
    if active(config):
        if _key not in config.stash:
            config.stash[_key] = Path(tempfile.mkdtemp(prefix="tilecheck-"))
        node.workerinput[_INPUT] = str(config.stash[_key])


def pytest_unconfigure(config: pytest.Config) -> None:
    if _key in config.stash:
        shutil.rmtree(config.stash[_key], ignore_errors=True)
