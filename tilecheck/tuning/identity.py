"""What a result of the search holds for. Two searches share results only where all of it is equal."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilecheck.arches import Arch
from tilecheck.environment import version
from tilecheck.spec import Case, KernelSpec
from tilecheck.tuning.source import source_file, source_hash

_FORM = 2  # of the journal, and of how candidates are checked and timed


@dataclass(frozen=True)
class Identity:
    """gpu: model, as `arches.gpu_model` spells it.
    dims, flags, dtype: of the case, whose id might be used again.
    source: `source_hash` of the program.  pass_configs: of the spec.
    judged: a hash of what says whether a schedule is right; one that was wrong by a faulty reference may be
    right by the one that is mended.
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
    judged: str
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
        judged=_judged(spec, case),
        pass_configs={name: repr(value) for name, value in sorted(spec.pass_configs.items())},
        versions=dict(sorted(versions.items())),
    )


def _judged(spec: KernelSpec, case: Case) -> str:
    """Of the reference and of how inputs are drawn."""
    functions = {"": spec.reference, **spec.draws}
    told = [case.draw, spec.outputs, spec.zeroed, {name: _source(f) for name, f in functions.items()}]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _source(function: Callable[..., Any]) -> str:
    """Of a function, or of its whole file where it has no name to be found by, as a lambda."""
    if (found := source_hash(function)) is not None:
        return found
    file = source_file(function)
    try:
        return "" if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


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
