"""Which GPUs a process may use, and how many test processes they carry.

NVML tells, and no CUDA context comes into being.

`CUDA_VISIBLE_DEVICES` is read as CUDA does (CUDA C++ Programming Guide 13.0, "CUDA Environment Variables"):
numbers or UUIDs, the latter also shortened; the first entry that is none ends the list; an entry given twice
leaves none.
"""

import importlib
import os
import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

VARIABLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a part of one (MIG).  name: as CUDA_VISIBLE_DEVICES takes it.  free: bytes of its memory."""

    name: str
    free: int


def installed_gpus(nvml: Any = None) -> list[Gpu]:
    """What NVML finds, by UUID; a GPU split by MIG counts as its parts. None where there is no driver.

    nvml: the module pynvml, or what stands for it.
    """
    try:
        nvml = nvml or importlib.import_module("pynvml")
    except ImportError:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        parts = [part for handle in handles for part in _parts(nvml, handle)]
        return [Gpu(_uuid(nvml, part), int(nvml.nvmlDeviceGetMemoryInfo(part).free)) for part in parts]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _parts(nvml: Any, handle: Any) -> list[Any]:
    try:
        enabled = nvml.nvmlDeviceGetMigMode(handle)[0]
    except nvml.NVMLError:
        enabled = False  # not supported, as on all but the large GPUs
    if not enabled:
        return [handle]
    parts = []
    for i in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            parts.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, i))
        except nvml.NVMLError:
            continue  # a place without a part
    return parts


def _uuid(nvml: Any, part: Any) -> str:
    uuid: str | bytes = nvml.nvmlDeviceGetUUID(part)
    return uuid.decode() if isinstance(uuid, bytes) else uuid


def visible_gpus(setting: str | None, installed: Sequence[Gpu]) -> list[Gpu]:
    """Those of the installed GPUs that CUDA shows a process; each by the name that the setting gives it.

    setting: CUDA_VISIBLE_DEVICES; None: not set, all are visible.
    """
    if setting is None:
        return list(installed)
    seen: list[Gpu] = []
    for entry in (e.strip() for e in setting.split(",")):
        gpu = _numbered(entry, installed) if re.match(r"[+-]?\d", entry) else _with_uuid(entry, installed)
        if gpu is None:
            break
        if any(gpu.name == other.name for other in seen):
            return []
        seen.append(gpu)
    return seen


def _numbered(entry: str, installed: Sequence[Gpu]) -> Gpu | None:
    digits = re.match(r"\+?(\d+)", entry)
    if digits is None or int(digits[1]) >= len(installed):
        return None
    return replace(installed[int(digits[1])], name=digits[1])


def _with_uuid(entry: str, installed: Sequence[Gpu]) -> Gpu | None:
    found = [gpu for gpu in installed if entry and gpu.name.startswith(entry)]
    return replace(found[0], name=entry) if len(found) == 1 else None


def workers_for(gpus: Sequence[Gpu], cores: int, bytes_each: int) -> int:
    """How many processes test at the same time: as many as there are cores, if each finds `bytes_each` of
    memory free on its GPU; one at least. Processes are spread evenly, so the fullest GPU decides.
    """
    each = min((gpu.free // bytes_each for gpu in gpus), default=0)
    return max(1, min(cores, len(gpus) * each))


def show_one(worker: int, environment: MutableMapping[str, str], installed: Sequence[Gpu]) -> str | None:
    """Leaves worker number `worker` of a run one of the GPUs that its caller sees: the workers go round them.

    Changes `environment`, which CUDA reads when a process first uses it. Returns the GPU's name; None, and
    nothing is changed, where none is visible.
    """
    gpus = visible_gpus(environment.get(VARIABLE), installed)
    if not gpus:
        return None
    environment[VARIABLE] = gpus[worker % len(gpus)].name
    return environment[VARIABLE]


def cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0))
