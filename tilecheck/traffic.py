"""DRAM traffic of one launch, from the counters of NVIDIA's profiler (ncu)."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilecheck.single import LAUNCHED, Single, ToolError, find_tool, run_under

if TYPE_CHECKING:
    from tilecheck.program import Program

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"

_SECONDS = 240


class NoCounters(ToolError):
    """The driver lets only administrators read the counters."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that a launch reads from and writes to DRAM, all its kernels together."""

    read: float
    written: float

    @property
    def bytes(self) -> float:
        return self.read + self.written


def find_profiler() -> str | None:
    """The path of ncu; None: there is none."""
    return find_tool("ncu")


def traffic(
    modules: Sequence[str], program: "Program", *, seed: int = 0, executable: str | None = None
) -> Traffic:
    """The DRAM traffic of one launch of `program` that starts with empty caches.

    The counters are the whole GPU's: nothing else may run on it.
    modules: that hold the program's spec, as the ini option `tilecheck_specs` names them.
    Raises NoCounters where they may not be read, ToolError where nothing was measured.
    """
    executable = executable or find_profiler()
    if executable is None:
        raise ToolError("ncu is not on the path, nor in a CUDA toolkit")
    single = Single(
        tuple(modules),
        program.spec.name,
        program.case,
        program.schedule,
        program.pass_configs,
        seed,
        drawn_on_gpu=True,
    )
    code, output = run_under([executable, *options(program)], single, _SECONDS)
    return measured(output, code)


def options(program: "Program") -> list[str]:
    """ncu's options: only the program's own kernels, caches flushed before each, no clock held down."""
    name = program.prim_func.attrs["global_symbol"]
    return [
        *("--metrics", f"{READ},{WRITTEN}"),
        *("--kernel-name", f"regex:^{name}_kernel"),
        *("--cache-control", "all"),
        *("--clock-control", "none"),
        *("--target-processes", "application-only"),
        "--csv",
        *("--print-units", "base"),
    ]


def measured(output: str, code: int) -> Traffic:
    """The traffic in ncu's output, summed over the launch's kernels."""
    if "ERR_NVGPUCTRPERM" in output:
        raise NoCounters("ncu may not read the GPU's counters (ERR_NVGPUCTRPERM)")
    lines = output.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    sums = dict.fromkeys((READ, WRITTEN), 0.0)
    seen = set()
    for row in csv.DictReader(lines[header:] if header is not None else []):
        name, value = row.get("Metric Name"), row.get("Metric Value") or ""
        if name in sums:
            sums[name] += _bytes(value, row.get("Metric Unit") or "")
            seen.add(name)
    if seen != set(sums) or LAUNCHED not in output:
        raise ToolError(f"ncu measured nothing (exit code {code}):\n{output[-3000:]}")
    return Traffic(sums[READ], sums[WRITTEN])


def _bytes(value: str, unit: str) -> float:
    try:
        number = float(value.replace(",", ""))
    except ValueError:
        raise ToolError(f"ncu gives {value!r} {unit} for a number of bytes") from None
    if unit not in ("byte", "B"):
        raise ToolError(f"ncu gives bytes in {unit!r}")
    return number
