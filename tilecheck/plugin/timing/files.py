"""What pytest-benchmark writes of a run: nothing of the host, and what promotion has to know.

The GPU's model is all that `machine_info` says: pytest-benchmark compares it with the stored one, and the
toolchain, which may change, is with each row.
"""

import os
from pathlib import PurePosixPath
from typing import Any

import pytest

from tilecheck.git import git
from tilecheck.plugin.code.rows import baselines
from tilecheck.plugin.rows import KernelCase
from tilecheck.plugin.selection import selection
from tilecheck.plugin.timing.mode import latency_run
from tilecheck.plugin.timing.stopwatch import bench_in_use, failed_tests
from tilecheck.tuning.winners import FILE


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_benchmark_generate_machine_info(config: pytest.Config) -> dict[str, Any] | None:
    run = latency_run(config)
    return {"gpu": run.gpu} if run.timed else None


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_benchmark_generate_commit_info(config: pytest.Config) -> dict[str, Any] | None:
    # pytest-benchmark asks git in the current folder, and stores project, branch and error messages.
    return commit_of(config) if latency_run(config).timed else None


@pytest.hookimpl(optionalhook=True, trylast=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    if not latency_run(config).timed:
        return
    # A row that failed and was run again counts as of its last time.
    last = {benchmark["fullname"]: benchmark for benchmark in output_json["benchmarks"]}
    output_json["benchmarks"] = list(last.values())
    for benchmark in output_json["benchmarks"]:
        parameters = (benchmark.get("params") or {}).items()
        benchmark["params"] = {n: v.id if isinstance(v, KernelCase) else v for n, v in parameters}
    bench = bench_in_use(config)
    output_json["tilecheck"] = {
        "arch": selection(config).arch.name,
        "failed": failed_tests(config),
        "strangers": bench.strangers() if bench else 0,
    }


def commit_of(config: pytest.Config) -> dict[str, Any]:
    """The commit of the root folder, its time, and whether sources differ from it; empty without git.

    What is stored in baselines is no source, and nor are new files that are neither Python nor tuned
    schedules, or lie in a folder that nothing is imported from, as its name begins with a dot.
    """

    try:
        commit, time = git(config.rootpath, "show", "-s", "--format=%H %cI").split()
        folder = os.path.relpath(baselines(config), config.rootpath)
        without = [] if folder.startswith(os.pardir) else [f":(exclude){folder}"]
        # The root may lie below that of the repository.
        status = git(config.rootpath, "status", "--porcelain", "-uall", "--", ".", *without).splitlines()
    except ValueError:
        return {}
    dirty = any(not line.startswith("??") or _is_source(line) for line in status)
    return {"id": commit, "time": time, "dirty": dirty}


def _is_source(line: str) -> bool:
    """Whether git's line on a new file is on one that could be run, or that says what is run."""
    path = PurePosixPath(line.removeprefix("??").strip().strip('"'))
    read = path.suffix == ".py" or path.name == FILE
    return read and not any(part.startswith(".") for part in path.parent.parts)
