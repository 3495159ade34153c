"""Options, ini options and markers of the plugin."""

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from tilecheck.arches import ARCHES
from tilecheck.latency.gate import MODES

_OPTIONS: dict[str, dict[str, Any]] = {
    "device": {
        "metavar": "{auto,cuda,simulator}",
        "default": "auto",
        "help": "where kernels run; auto (the default): on the GPU if there is one, else on the simulator",
    },
    "require-gpu": {
        "action": "store_true",
        "default": False,
        "help": "refuse to run without a GPU, and fail a test that skips although the GPU is one it runs on",
    },
    "seed": {
        "type": int,
        "default": 0,
        "metavar": "N",
        "help": "seed of the run (default: 0); every test derives its own from it and from its id",
    },
    "all-schedules": {
        "action": "store_true",
        "default": False,
        "help": "try every legal schedule of the kernels' grids, not only enough for every pair of values",
    },
    "arch": {
        "metavar": f"{{{','.join(ARCHES)}}}",
        "default": None,
        "help": "architecture whose programs the simulator runs (default: sm_90a)",
    },
    "gate": {
        "metavar": f"{{{','.join(MODES)}}}",
        "default": "normal",
        "help": "latency verdicts that fail: slower (normal, the default), all but same (strict), none (off)",
    },
    "update-facts": {
        "action": "store_true",
        "default": False,
        "help": "store the facts of the selected rows of code as they are now, instead of comparing them",
    },
    "report": {
        "metavar": "DIR",
        "default": None,
        "help": "write a report of the run into DIR: index.html, summary.md, results.json",
    },
}

_CHOICES: dict[str, tuple[str, ...]] = {
    "device": ("auto", "cuda", "simulator"),
    "arch": tuple(ARCHES),
    "gate": MODES,
}
"""Values of options. Not argparse's `choices`, which refuses in four lines."""

_SHORT_FORMS = "tilecheck.short-forms"


class _ShortForms(frozenset[str]):
    """The options that have their short name; kept as a plugin, so that each run of pytest has its own."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    group = parser.getgroup("tilecheck", "conformance of TileLang kernels (tilecheck)")
    for name, attributes in _OPTIONS.items():
        group.addoption(f"--tilecheck-{name}", dest=_dest(name), **attributes)
    parser.addini(
        "tilecheck_specs",
        "modules that hold kernel specs: `module` (its SPECS, else its SPEC) or `module:NAME`",
        type="args",
        default=[],
    )
    parser.addini(
        "tilecheck_baselines",
        "folder of what later runs are compared with, relative to the root (default: baselines)",
        default="baselines",
    )
    if any(_is_conftest(plugin) for plugin in pluginmanager.get_plugins()):
        _add_short_forms(parser, pluginmanager)  # loaded by a conftest.py: too late for the hook below


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> Iterator[None]:
    # After all other plugins and the conftest files had their turn: one that adds `--device` itself must not
    # fail because ours came first.
    yield
    _add_short_forms(parser, early_config.pluginmanager)


@pytest.hookimpl(tryfirst=True)  # before others read the options
def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "correctness: every kernel and case against its reference, on a GPU or else on the CPU simulator",
        "codegen: what the compiler emits for each architecture, against stored facts; needs no GPU",
        "sanitizer: memory and race checkers, run over the kernels on a GPU",
        "debugging: TileLang's own debugging tools, run on the kernels",
        "gpu: needs an NVIDIA GPU; skipped with the reason where there is none",
        "alone: runs with the GPU to itself; the other workers on it hold still",
    ):
        config.addinivalue_line("markers", line)
    for name, choices in _CHOICES.items():
        given = option(config, name)
        if given is not None and given not in choices:
            raise pytest.UsageError(f"{spelling(config, name)}={given}: it is one of {', '.join(choices)}")


def option(config: pytest.Config, name: str) -> Any:
    """The value of `--tilecheck-NAME`, however it was spelt."""
    return getattr(config.option, _dest(name))


def spelling(config: pytest.Config, name: str) -> str:
    """`--NAME`, or `--tilecheck-NAME` where another plugin has the short form."""
    taken: _ShortForms = config.pluginmanager.get_plugin(_SHORT_FORMS) or _ShortForms()
    return f"--{name}" if name in taken else f"--tilecheck-{name}"


def _dest(name: str) -> str:
    return f"tilecheck_{name.replace('-', '_')}"


def _is_conftest(plugin: object) -> bool:
    return (getattr(plugin, "__file__", None) or "").endswith("conftest.py")


def _add_short_forms(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if pluginmanager.has_plugin(_SHORT_FORMS):
        return
    group, names = parser.getgroup("tilecheck"), []
    for name, attributes in _OPTIONS.items():
        try:
            group.addoption(
                f"--{name}", dest=_dest(name), **{**attributes, "help": f"short for --tilecheck-{name}"}
            )
        except (ValueError, argparse.ArgumentError):
            continue  # another plugin's
        names.append(name)
    pluginmanager.register(_ShortForms(names), _SHORT_FORMS)
