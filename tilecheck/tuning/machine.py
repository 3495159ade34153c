"""What a search needs of this machine: its GPU, or one that stands for another; processes and folders."""

import hashlib
import json
from pathlib import Path

from tilecheck.arches import Arch
from tilecheck.latency.chips import CHIPS
from tilecheck.launch import arch_here, compile_target
from tilecheck.spec import Case, KernelSpec
from tilecheck.tuning.bench import ProcessBench
from tilecheck.tuning.identity import versions_here
from tilecheck.tuning.outcomes import BenchError
from tilecheck.tuning.private import private_folder
from tilecheck.tuning.tune import Goal
from tilecheck.tuning.worker import Task


def goal_here(spec: KernelSpec, case: Case, older: str | None = None) -> Goal:
    """A search on torch's current GPU; raises BenchError where NVML cannot be used.

    older: name of an architecture whose code is tried, translated for the GPU; see `launch.compile_target`.
    """
    import torch

    from tilecheck.latency.monitor import Monitor

    index = torch.cuda.current_device()
    capability = torch.cuda.get_device_capability(index)
    try:
        with Monitor(index) as monitor:
            facts = monitor.facts()
    except RuntimeError as error:
        raise BenchError(str(error)) from error
    found = arch_here(capability, facts.name, older)
    return Goal(spec, case, found, facts, compile_target(*capability, older), versions_here(facts.driver))


def goal_for(spec: KernelSpec, case: Case, arch: Arch) -> Goal:
    """A search that times nothing, for an architecture by its name."""
    return Goal(spec, case, arch, CHIPS[arch.name], {"kind": "cuda", "arch": arch.name}, versions_here())


def journals_folder(root: Path) -> Path:
    """Where journals are. root: the project's, which it must not be in."""
    return private_folder("journals", inside=root)


def bench_for(goal: Goal, modules: tuple[str, ...], root: Path, jobs: int, seed: int = 0) -> ProcessBench:
    """The processes that compile and time; raises PermissionError where TileLang's cache could be another's.

    modules: that hold the specs, as the ini option `tilecheck_specs` names them.
    jobs: processes that compile.
    """
    # TileLang's own keys leave out the CUDA toolchain.
    toolchain = hashlib.sha256(json.dumps(dict(goal.versions), sort_keys=True).encode()).hexdigest()[:16]
    kernels = private_folder("kernels", toolchain, inside=root)
    task = Task(
        modules=modules,
        kernel=goal.spec.name,
        case=goal.case.id,
        arch=goal.arch.name,
        gpu=goal.arch.gpu,
        target=dict(goal.target),
        nvcc=goal.versions.get("nvcc", ""),
        seed=seed,
    )
    return ProcessBench(task, jobs, kernels)
