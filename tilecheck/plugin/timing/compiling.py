"""Compiles all rows before the first is timed, so that nothing but kernels runs meanwhile."""

from contextlib import nullcontext

import pytest

from tilecheck.plugin.rows import row_of
from tilecheck.plugin.selection import selection
from tilecheck.plugin.timing.mode import latency_run
from tilecheck.plugin.timing.rows import of_latency
from tilecheck.progress import Progress


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    config = session.config
    rows = [row for item in session.items if of_latency(item) and (row := row_of(item))]
    if not rows or not latency_run(config).timed or config.option.collectonly or session.testsfailed:
        return
    from tilecheck import environment, gpus, launch, precompile

    capability = environment.machine().capability
    assert capability is not None
    jobs = [precompile.Job(row.spec.name, row.case.id) for row in rows]
    target = launch.compile_target(*capability)
    modules = config.getini("tilecheck_specs")
    capture = config.pluginmanager.get_plugin("capturemanager")
    with (
        capture.global_and_fixture_disabled() if capture else nullcontext(),
        Progress("compiling", len(jobs), "kernel", at_once=gpus.cores()) as progress,
    ):
        # What does not compile fails in its own test.
        for job, _ in precompile.precompile(modules, jobs, selection(config).arch.name, target):
            progress.step(f"{job.kernel} {job.case}")
