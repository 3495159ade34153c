"""DRAM traffic of launches, from the counters of NVIDIA's profiler (ncu)."""

import csv
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    modules: Sequence[str],
    programs: Sequence["Program"],
    *,
    seed: int = 0,
    executable: str | None = None,
    alone: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> list[Traffic]:
    """The DRAM traffic of one launch of each of `programs` that starts with empty caches.

    modules: that hold the programs' specs, as the ini option `tilecheck_specs` names them.
    alone: what to hold while they run. The counters are the whole GPU's: nothing else may run on it then.
    Raises NoCounters where they may not be read, ToolError where nothing was measured.
    """
    executable = executable or find_profiler()
    if executable is None:
        raise ToolError("ncu is not on the path, nor in a CUDA toolkit")
    symbols = [f"{_SYMBOL}{number}" for number in range(len(programs))]
    singles = [
        Single(
            tuple(modules),
            program.spec.name,
            program.case,
            program.schedule,
            program.pass_configs,
            seed,
            drawn_on_gpu=True,
            symbol=symbol,
        )
        for program, symbol in zip(programs, symbols, strict=True)
    ]
    code, output = run_under([executable, *OPTIONS], singles, _SECONDS, alone=alone)
    return [measured(output, code, symbol) for symbol in symbols]


_SYMBOL = "tilecheck_traffic_"
"""What the programs are called, with their number: two of one kernel are told apart by it."""

OPTIONS = (
    *("--metrics", f"{READ},{WRITTEN}"),
    *("--kernel-name", f"regex:^{_SYMBOL}"),
    *("--cache-control", "all"),
    *("--clock-control", "none"),
    *("--target-processes", "application-only"),
    "--csv",
    *("--print-units", "base"),
)
"""ncu's: only the programs' own kernels, caches flushed before each, no clock held down."""


def measured(output: str, code: int, symbol: str) -> Traffic:
    """The traffic of one launch in ncu's output, summed over the kernels of the program called `symbol`."""
    if "ERR_NVGPUCTRPERM" in output:
        raise NoCounters("ncu may not read the GPU's counters (ERR_NVGPUCTRPERM)")
    lines = output.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    sums = dict.fromkeys((READ, WRITTEN), 0.0)
    seen = set()
    for row in csv.DictReader(lines[header:] if header is not None else []):
        name, value = row.get("Metric Name"), row.get("Metric Value") or ""
        if name in sums and re.match(rf"{symbol}(?!\d)", row.get("Kernel Name") or ""):
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
