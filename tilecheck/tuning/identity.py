"""What a result of the search holds for. Two searches share results only where all of it is equal."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilecheck.arches import Arch
from tilecheck.environment import version
from tilecheck.spec import Case, KernelSpec
from tilecheck.tuning.source import source_hash

_FORM = 1  # of the journal, and of how candidates are checked and timed


@dataclass(frozen=True)
class Identity:
    """gpu: model, as `arches.gpu_model` spells it.
    dims, flags, dtype: of the case, whose id might be used again.
    source: `source_hash` of the program.  pass_configs: of the spec.
    versions: of TileLang, torch, the CUDA toolchain and the driver.
    """

    kernel: str
    case: str
    dims: Mapping[str, int]
    flags: Mapping[str, Any]
    dtype: str
    gpu: str
    arch: str
    source: str
    pass_configs: Mapping[str, str]
    versions: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Only plain values."""
        plain = {**vars(self), "form": _FORM}
        return {name: dict(v) if isinstance(v, Mapping) else v for name, v in sorted(plain.items())}

    @property
    def key(self) -> str:
        """A hash of all of it, as a name for files."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]


def identity_of(spec: KernelSpec, case: Case, arch: Arch, versions: Mapping[str, str]) -> Identity:
    """Of a search for `case` on the GPU of `arch`; ValueError where the program has no source."""
    source = source_hash(spec.program)
    if source is None:
        raise ValueError(
            f"kernel {spec.name!r}: the source of its program cannot be found, so that nobody could tell "
            "when a tuned schedule is out of date"
        )
    return Identity(
        kernel=spec.name,
        case=case.id,
        dims=dict(case.dims),
        flags=dict(case.flags),
        dtype=case.dtype,
        gpu=arch.gpu,
        arch=arch.name,
        source=source,
        pass_configs={name: repr(value) for name, value in sorted(spec.pass_configs.items())},
        versions=dict(sorted(versions.items())),
    )


def versions_here(driver: str = "") -> dict[str, str]:
    """Of TileLang, tvm-ffi, torch and its CUDA, and the nvcc that TileLang compiles with; of the driver."""
    import torch

    found = {package: version(package) or "none" for package in ("tilelang", "apache-tvm-ffi", "torch")}
    found["cuda"] = str(torch.version.cuda or "none")
    found["nvcc"] = _nvcc()
    return {**found, "driver": driver} if driver else found


def _nvcc() -> str:
    """The release of TileLang's nvcc, with its build; "none" where it finds none."""
    import re
    import subprocess

    from tilelang.contrib import nvcc

    try:
        program = nvcc.get_nvcc_compiler()
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, RuntimeError, subprocess.SubprocessError):
        return "none"
    found = re.search(r"\bV(\d+(\.\d+)+)", told.stdout)
    return found.group(1) if found else "unknown"
