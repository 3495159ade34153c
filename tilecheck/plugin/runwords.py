"""What a run is, for its report: versions, device, commit, kernels, and the times stored of earlier ones.

Nothing here tells which machine it was: no host's name, no path.
"""

import inspect
import platform
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tilecheck import __version__, environment
from tilecheck.latency.baselines import BaselineError, model_folder, read_run, stored_models
from tilecheck.plugin.code.rows import baselines
from tilecheck.plugin.header import untested
from tilecheck.plugin.options import option
from tilecheck.plugin.selection import Selection, selection
from tilecheck.plugin.specs import specs
from tilecheck.plugin.timing.files import commit_of
from tilecheck.report.model import Case, History, Kernel, Run, Stored
from tilecheck.spec import KernelSpec


def head_of(config: pytest.Config, started: str) -> dict[str, Any]:
    """The values of the event "head" (`tilecheck.report.journal`)."""
    chosen = selection(config)
    gpu = "" if chosen.simulated else environment.machine().gpu or ""
    stored, faults = _history(config, gpu)
    warning = untested(environment.version("tilelang"))
    notes = [*([warning] if warning else []), *faults]
    if chosen.simulated:
        notes.append("simulated on the CPU, so no GPU conformance")
    run = Run(
        started=started,
        seconds=0.0,
        ended="",
        exit=None,
        command=tuple(map(str, config.invocation_params.args)),
        device=chosen.device,
        arch=chosen.arch.name,
        gpu=gpu,
        environment=dict(_environment(config, chosen)),
        notes=tuple(notes),
    )
    return {
        "tilecheck": __version__,
        "project": config.rootpath.name,
        "run": run,
        "kernels": [_kernel(spec) for spec in specs(config)],
        "history": stored,
    }


def rows_by_test_id(config: pytest.Config) -> Mapping[str, tuple[str, str]]:
    """Kernel and case by what tests call the two."""
    return {spec.test_id(case): (spec.name, case.id) for spec in specs(config) for case in spec.cases}


def _environment(config: pytest.Config, chosen: Selection) -> Iterator[tuple[str, str]]:
    yield "tilecheck", __version__
    for name, package in (("TileLang", "tilelang"), ("torch", "torch"), ("pytest", "pytest")):
        yield name, environment.version(package) or "not installed"
    yield "Python", platform.python_version()
    if chosen.simulated:
        yield "device", f"simulator on the CPU, as {chosen.arch.name}"
        if chosen.no_gpu:
            yield "no GPU", chosen.no_gpu
    else:
        machine = environment.machine()
        yield "device", f"{machine.gpu}, {chosen.arch.name}"
        yield "driver", f"{machine.driver} (CUDA {machine.driver_cuda})"
        yield "torch's CUDA", str(machine.torch_cuda)
    yield "seed", str(option(config, "seed"))
    workers = getattr(config.option, "numprocesses", None)
    if workers:
        yield "workers", str(workers)
    if commit := commit_of(config):
        changed = ", with changes" if commit["dirty"] else ""
        yield "commit", f"{commit['id'][:12]}{changed}"


def _kernel(spec: KernelSpec) -> Kernel:
    # A `@tilelang.jit` function is an object of TileLang's; the reference is the author's own.
    module = sys.modules.get(getattr(spec.reference, "__module__", ""))
    text = inspect.getdoc(module) if module else None
    cases = []
    for case in spec.cases:
        cost = spec.cost_of(case)
        sizes = " ".join(f"{name}={value}" for name, value in (*case.dims.items(), *case.flags.items()))
        cases.append(
            Case(
                id=case.id,
                dtype=case.dtype,
                sizes=sizes,
                why=case.why,
                flops=float(cost.flops) if cost else None,
                bytes=float(cost.bytes) if cost else None,
            )
        )
    return Kernel(spec.name, (text or "").strip().partition("\n")[0], tuple(cases))


def _history(config: pytest.Config, gpu: str) -> tuple[list[History], list[str]]:
    """Stored times of this run's GPU model, or of all where it has none; and what of them cannot be read."""
    found, faults = [], []
    for model, paths in stored_models(baselines(config)).items():
        if gpu and model != model_folder(gpu):
            continue
        rows, name = [], model
        for path in paths:
            try:
                run = read_run(path)
            except BaselineError as error:
                faults.append(str(error))
                continue
            name = run.gpu
            rows += [
                Stored(
                    file=path.name,
                    taken=run.taken,
                    row=row.id,
                    median=row.median,
                    tilelang=row.toolchain.get("tilelang", ""),
                    commit=run.commit[:12],
                )
                for row in run.rows.values()
            ]
        if rows:
            found.append(History(name, tuple(rows)))
    return found, faults
