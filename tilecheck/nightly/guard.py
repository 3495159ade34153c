"""May what this GPU says be trusted tonight? It fails closed: what cannot be read is an objection.

`python -m tilecheck.nightly.guard MODEL FILE` looks at the GPUs that CUDA_VISIBLE_DEVICES shows, before
anything of ours uses them, and writes what it found into FILE, as JSON.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilecheck.arches import arch_of_capability
from tilecheck.files import replace
from tilecheck.latency.baselines import model_folder
from tilecheck.latency.monitor import Condition, conditions

MIB = 2**20


@dataclass(frozen=True)
class Policy:
    """memory: bytes that may be in use while nothing runs: what the driver keeps for itself is under 1 GiB on
    the largest GPUs, and a process that is not shown, in another container, takes more.
    coolest, hottest: degrees Celsius between which an idle GPU is believed, and cool enough to be timed.
    """

    memory: int = 2048 * MIB
    coolest: float = 5.0
    hottest: float = 65.0


POLICY = Policy()


def objections(found: Sequence[Condition], expected: str, policy: Policy = POLICY) -> list[str]:
    """Why these GPUs are not to be used, a line each; none: they are.

    expected: the model, as its driver names it, or as its folder in the baselines is named.
    """
    if not found:
        return ["no GPU is visible: is CUDA_VISIBLE_DEVICES right?"]
    return [
        f"GPU {number}: {line}"
        for number, each in enumerate(found)
        for line in _of_one(each, expected, policy)
    ]


def _of_one(gpu: Condition, expected: str, policy: Policy) -> list[str]:
    unread = [
        field.name.replace("_", " ")
        for field in dataclasses.fields(gpu)
        if field.name not in ("memory_total", "uuid") and getattr(gpu, field.name) is None
    ]
    lines = [f"cannot be read: {', '.join(unread)}"] if unread else []
    if gpu.name is not None and model_folder(gpu.name) != model_folder(expected):
        lines.append(f"is a {gpu.name}, and a {expected} is expected")
    if gpu.split:
        lines.append("is split into parts (MIG): times of a part depend on the others")
    if gpu.strangers:
        lines.append(f"is not alone: processes {', '.join(map(str, gpu.strangers))} use it")
    if gpu.memory is not None and gpu.memory > policy.memory:
        lines.append(
            f"{gpu.memory / MIB:.0f} MiB of its memory are in use, and {policy.memory / MIB:.0f} may be: "
            "another process, perhaps of another container"
        )
    if gpu.clock is not None and gpu.max_clock is not None and not 0 < gpu.clock <= gpu.max_clock * 1.01:
        lines.append(f"says that its clock is {gpu.clock / 1e6:.0f} of {gpu.max_clock / 1e6:.0f} MHz")
    if gpu.temperature is not None and not policy.coolest <= gpu.temperature <= policy.hottest:
        lines.append(
            f"is at {gpu.temperature:.0f} °C, and an idle one is between {policy.coolest:.0f} and "
            f"{policy.hottest:.0f}"
        )
    if gpu.reasons:
        lines.append(f"its clock is lowered, with nothing to do: {', '.join(gpu.reasons)}")
    return lines


def arch_of(found: Sequence[Condition]) -> str:
    """The architecture whose code runs on these GPUs; "" if it is unknown."""
    try:
        return arch_of_capability(*found[0].capability).name if found and found[0].capability else ""
    except ValueError:
        return ""


def lacking(toolchain: Mapping[str, str]) -> list[str]:
    """What should be known of the toolchain and is not, a line each."""
    missing = [name for name in ("tilelang", "torch", "cuda", "driver") if not toolchain.get(name)]
    return [f"toolchain: no version of {', '.join(missing)} could be read"] if missing else []


def toolchain() -> dict[str, str]:
    """Versions of all that results depend on, by name."""
    import platform

    from tilecheck import __version__
    from tilecheck.codegen import NoToolchain, find_toolchain
    from tilecheck.latency import bench

    found = {"python": platform.python_version(), "tilecheck": __version__, **bench.toolchain()}
    try:
        compilers = find_toolchain().fingerprint
    except NoToolchain:
        compilers = {}
    return {**found, **{name: version for name, version in compilers.items() if name not in found}}


def examine(expected: str, nvml: Any = None) -> dict[str, Any]:
    """All that the guard finds, as JSON has it; "objections" is empty where the GPUs may be used."""
    try:
        found = conditions(os.environ.get("CUDA_VISIBLE_DEVICES"), nvml)
        lines = objections(found, expected)
    except RuntimeError as error:
        found, lines = [], [str(error)]
    versions: dict[str, str] = {}
    try:
        from tilecheck.environment import machine, why_no_gpu

        versions = toolchain()
        reason = why_no_gpu(machine())
        if reason and not found and machine().torch is not None:
            # Which tells what NVML said, and why versions are not known.
            lines = [f"no kernel can run on a GPU here: {reason}; --simulate goes on without one"]
        else:
            lines += [f"no kernel can run on it: {reason}"] if reason else []
            lines += lacking(versions)
    except Exception as error:
        # Whatever a broken installation raises: the guard is there to say so.
        lines.append(f"toolchain cannot be read: {type(error).__name__}: {error}")
    return {
        "expected": expected,
        "gpus": [dataclasses.asdict(each) for each in found],
        "arch": arch_of(found),
        "toolchain": versions,
        "objections": lines,
    }


def main(expected: str, path: Path) -> int:
    """The process; its exit code is 1 where the GPUs are not to be used."""
    found = examine(expected)
    replace(path, json.dumps(found, indent=1) + "\n")
    for line in found["objections"]:
        sys.stdout.write(f"guard: {line}\n")
    for gpu in found["gpus"]:
        sys.stdout.write(f"guard: {json.dumps(gpu)}\n")
    sys.stdout.write(f"guard: {json.dumps(found['toolchain'])}\n")
    return 1 if found["objections"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
