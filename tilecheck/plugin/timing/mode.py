"""What a run does about latency: settled once, from the options, the GPU and what is stored of it.

It has to be settled when pytest is configured: pytest-benchmark reads its storage then. That storage becomes
`baselines/<gpu model>` in the root folder, and the file to compare with the one that is gated against.
"""

import ast
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from tilecheck import environment
from tilecheck.files import shown
from tilecheck.latency import bench
from tilecheck.latency.baselines import (
    BaselineError,
    Run,
    choose,
    model_folder,
    numbered,
    read_run,
    stored_models,
)
from tilecheck.latency.gate import Mode
from tilecheck.plugin.code.rows import baselines
from tilecheck.plugin.marks import evaluated
from tilecheck.plugin.options import option
from tilecheck.plugin.runfolder import is_worker
from tilecheck.plugin.selection import active, selection

ADVICE = "`tilecheck calibrate` records three runs; `tilecheck promote RUN.json...` makes a baseline of them"
"""To whoever has no baseline, or one that fits no more."""

_COMPARE = "--benchmark-compare"
_DEFAULT_STORAGE = "file://./.benchmarks"  # pytest-benchmark's
_LEAST = "5.3"
"""Of pytest-benchmark: earlier ones open the file of --benchmark-json when they read the option."""


@dataclass(frozen=True)
class LatencyRun:
    """wanted: rows are selected, else they are left out.  compared: a comparison was asked for.
    untimed: why no row can be timed; None: they can.  gpu: the model.
    folder: where its times are stored.  bar: what is compared with; None: nothing.
    mode: which verdicts fail.  limits: those of --benchmark-compare-fail, which fail a row besides.
    """

    wanted: bool = False
    compared: bool = False
    untimed: str | None = None
    gpu: str = ""
    folder: Path | None = None
    bar: Run | None = None
    mode: Mode = "normal"
    limits: tuple[Any, ...] = ()

    @property
    def timed(self) -> bool:
        return self.wanted and self.untimed is None

    @property
    def code_instead(self) -> bool:
        """Whether the rows of code stand in for those of latency, none of which can be timed."""
        return self.compared and not self.wanted

    @property
    def gates(self) -> bool:
        """Whether a row can fail for its time."""
        return self.bar is not None and self.mode != "off"


class _OfOthers:
    """A limit of --benchmark-compare-fail, for benchmarks that are no latency rows.

    These fail by it in their own test: pytest-benchmark raises when the run has ended, after its results.
    """

    def __init__(self, limit: Any) -> None:
        self._limit = limit

    def fails(self, current: Any, compared: Any) -> Any:
        return None if "kernel" in current.extra_info else self._limit.fails(current, compared)


_key = pytest.StashKey[LatencyRun]()


def latency_run(config: pytest.Config) -> LatencyRun:
    """What this run does about latency."""
    return config.stash.get(_key, LatencyRun())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "latency: how long each kernel takes, alone and against its baseline; needs a GPU"
    )
    if active(config):
        config.stash[_key] = _settled(config)
        if is_worker(config) or getattr(config.option, "dist", "no") != "no":
            config.option.benchmark_disable = True  # as pytest-benchmark does there, with a warning


def pytest_sessionstart(session: pytest.Session) -> None:
    # The documented override: pytest-benchmark has no hook for the folder by system and Python that it adds
    # below the storage where it saves.
    benchmarks: Any = session.config.pluginmanager.get_plugin("pytest-benchmark")
    if latency_run(session.config).timed and benchmarks is not None:
        benchmarks.storage.default_machine_id = None


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = latency_run(config).folder
    if folder is not None:  # which pytest-benchmark makes even where it stores nothing
        with suppress(OSError):
            folder.rmdir()
            folder.parent.rmdir()


def _settled(config: pytest.Config) -> LatencyRun:
    given, marks = getattr(config.option, "benchmark_compare", []), config.option.markexpr
    named = re.search(r"\blatency\b", marks) is not None and _selects(marks)
    compared = given != [] and (not marks or _selects(marks))
    only = getattr(config.option, "benchmark_only", False)
    if not (compared or named or only):
        return LatencyRun()
    mode: Mode = option(config, "gate")
    if compared and not is_worker(config):
        _refuse_a_path(config, given)
        _refuse_what_does_not_time(config)
    chosen = selection(config)
    if chosen.simulated:
        if compared:
            config.option.benchmark_compare = []
            config.option.markexpr = marks or "codegen"
            config.option.benchmark_only = only and bool(marks)  # it would skip the codegen gate
        why = chosen.no_gpu or "this run is on the simulator"
        wanted = named or (bool(marks) if compared else only)
        return LatencyRun(wanted=wanted, compared=compared, untimed=why, mode=mode)
    _refuse_what_does_not_time(config)
    _refuse_what_would_be_lost(config)
    gpu = bench.gpu_name()
    folder, ours = _storage(config, gpu)
    bar = _bar(config, folder, given, gpu, mode) if compared else None
    if compared:
        config.option.markexpr = marks or "latency"
        config.option.benchmark_compare = str(bar.path) if bar else []
    limits = _limits(config, bar)
    return LatencyRun(True, compared, None, gpu, folder if ours else None, bar, mode, limits)


def _selects(marks: str) -> bool:
    """Whether `-m` with this expression selects a test that is marked `latency`, and nothing else."""

    try:
        return evaluated(marks, lambda part: isinstance(part, ast.Name) and part.id == "latency")
    except SyntaxError:
        return False  # which pytest refuses


def _refuse_a_path(config: pytest.Config, given: Any) -> None:
    """pytest-benchmark's option takes the word after it, as in `pytest --benchmark-compare tests/x.py`."""
    if not isinstance(given, str) or given.endswith(".json") or given.isdecimal() or not given:
        return
    here = config.invocation_params.dir / given.partition("::")[0]
    if "::" in given or "/" in given or given.endswith(".py") or here.exists():
        raise pytest.UsageError(
            f"{_COMPARE} took {given!r} for the number of a baseline; put it in front: "
            f"pytest {given} {_COMPARE}"
        )


def _refuse_what_does_not_time(config: pytest.Config) -> None:
    get = config.option
    if getattr(get, "dist", "no") != "no" or getattr(get, "numprocesses", None):
        raise pytest.UsageError("latency is timed one row after the other: leave out -n and --dist")
    if getattr(get, "benchmark_disable", False) and not getattr(get, "benchmark_enable", False):
        raise pytest.UsageError(
            "--benchmark-disable: nothing would be timed; leave it out, or the latency rows"
        )
    if getattr(get, "benchmark_skip", False) and not getattr(get, "benchmark_only", False):
        raise pytest.UsageError("--benchmark-skip: nothing would be timed; leave it out, or the latency rows")
    if not hasattr(get, "benchmark_compare"):
        raise pytest.UsageError("latency rows are stored by pytest-benchmark, which is not loaded here")
    installed = environment.version("pytest-benchmark")
    if installed is not None and Version(installed) < Version(_LEAST):
        raise pytest.UsageError(
            f"latency rows want pytest-benchmark {_LEAST} or later, and {installed} is installed: "
            f"pip install -U pytest-benchmark"
        )


def _refuse_what_would_be_lost(config: pytest.Config) -> None:
    """What pytest-benchmark would not store, or only fail to when all is timed."""
    if "PYTEST_XDIST_WORKER" in os.environ and not is_worker(config):
        raise pytest.UsageError(
            "PYTEST_XDIST_WORKER is set, by which pytest-benchmark takes this run for a worker's and stores "
            "nothing: unset it"
        )
    file: Path | None = config.option.benchmark_json
    if file is not None and not file.parent.is_dir():
        raise pytest.UsageError(f"--benchmark-json={file}: there is no folder {shown(file.parent)}")


def _limits(config: pytest.Config, bar: Run | None) -> tuple[Any, ...]:
    """The limits of --benchmark-compare-fail, which pytest-benchmark is left for what others time."""
    limits = config.option.benchmark_compare_fail or ()
    if limits and bar is None:
        raise pytest.UsageError(
            f"--benchmark-compare-fail: nothing is compared; it needs {_COMPARE} and stored times"
        )
    config.option.benchmark_compare_fail = [_OfOthers(limit) for limit in limits]
    return tuple(limits)


def _storage(config: pytest.Config, gpu: str) -> tuple[Path, bool]:
    """The folder of the times of a GPU model, and whether it is that of the project."""
    given = config.option.benchmark_storage
    if given == _DEFAULT_STORAGE:
        folder = baselines(config) / model_folder(gpu)
        config.option.benchmark_storage = f"file://{folder}"
        return folder, True
    if given.startswith("elasticsearch"):
        raise pytest.UsageError(f"--benchmark-storage={given}: latency is compared with files")
    folder = given.removeprefix("file://")
    if not folder:  # as of a variable that is not set; it must not mean the current folder
        raise pytest.UsageError("--benchmark-storage names no folder")
    return Path(folder).resolve(), False


def _bar(config: pytest.Config, folder: Path, given: Any, gpu: str, mode: Mode) -> Run | None:
    """What rows are compared with; UsageError, in one line, where there is nothing to be used."""
    file = Path(given) if isinstance(given, str) and given.endswith(".json") else None
    try:
        if file is not None and file.is_file():
            run = read_run(file.resolve())
        elif not numbered(folder):
            if mode == "off":
                return None
            raise pytest.UsageError(f"{_COMPARE}: {_nothing_stored(config, folder, gpu)}; {ADVICE}")
        else:
            run = read_run(choose(folder, None if given in (True, "") else given))
    except BaselineError as error:
        raise pytest.UsageError(f"{_COMPARE}: {error}") from error
    if run.gpu != gpu:
        raise pytest.UsageError(
            f"{_COMPARE}: {shown(run.path)} holds times of {run.gpu}, and this GPU is {gpu}; {ADVICE}"
        )
    return run


def _nothing_stored(config: pytest.Config, folder: Path, gpu: str) -> str:
    models = stored_models(baselines(config))
    there = ", ".join(f"{name} ({len(files)})" for name, files in models.items())
    others = f"there is {there}" if there else "nor of any other GPU"
    return f"no times of {gpu} are stored in {shown(folder)}, {others}"
