"""NVIDIA's compute-sanitizer over a kernel's launch: memory accesses, races in shared memory, barriers.

Three of its tools are used. `initcheck` is not: it takes what a bulk copy (TMA) stores for never written, as
its report of 65 536 uninitialised reads of a correct 256x256 matmul shows.

The kernel is compiled with the lines of its Python source, which the findings then name.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilecheck.single import LAUNCHED, Single, ToolError, find_tool, run_under

if TYPE_CHECKING:
    from tilecheck.program import Program

TOOLS = ("memcheck", "racecheck", "synccheck")

_SECONDS = 240  # a launch under racecheck takes up to a hundred times its own time, which is below 1 ms
_ERRORS = 86  # exit code for findings

# A finding begins one space behind the mark, and what belongs to it five.
_BEGIN = re.compile(r"^=+ (?P<text>\S.*)$")
_DETAIL = re.compile(r"^=+ {2,}(?P<text>\S.*)$")
_NO_FINDING = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "Target application",
    "Error: process",
)
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)(?! were not printed)")

# "at name(int *)+0x160 in file.cu:6" since 2023, "at 0x160 in file.cu:6:name(int *)" before.
_PLACE = re.compile(r" in (?P<file>[^\s:]+):(?P<line>\d+)")
_RACE = re.compile(r"(?P<level>\w+): Race reported between (?P<kind>\w+) access", re.IGNORECASE)
_RACE_WITH = re.compile(r"and (?P<kind>\w+) access at .*?(?:\[(?P<count>\d+) hazards?\])?$")


@dataclass(frozen=True)
class Finding:
    """what: in the tool's words.  places: kernel lines, as `matmul.py:112`.  count: how often."""

    what: str
    places: tuple[str, ...] = ()
    thread: str = ""
    count: int = 1

    def __str__(self) -> str:
        where = f" at {' and '.join(self.places)}" if self.places else ""
        thread = f", first by {self.thread}" if self.thread else ""
        times = f", {self.count} times" if self.count > 1 else ""
        return f"{self.what}{where}{thread}{times}"


def find_sanitizer() -> str | None:
    """The path of compute-sanitizer; None: there is none."""
    return find_tool("compute-sanitizer")


def sanitize(
    modules: Sequence[str], program: "Program", tool: str, *, seed: int, executable: str | None = None
) -> list[Finding]:
    """Launches `program` once under one of `TOOLS` and returns what it finds.

    modules: that hold the program's spec, as the ini option `tilecheck_specs` names them.
    Raises ToolError where nothing was checked.
    """
    executable = executable or find_sanitizer()
    if executable is None:
        raise ToolError("compute-sanitizer is not on the path, nor in a CUDA toolkit")
    single = Single(
        tuple(modules),
        program.spec.name,
        program.case,
        program.schedule,
        {**program.pass_configs, "tl.emit_line_directives": True},
        seed,
    )
    # Each tensor in memory of its own: an access past the end of one hits no other.
    apart = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    code, output = run_under([executable, *options(tool, program)], [single], _SECONDS, apart)
    return judged(output, code)


def options(tool: str, program: "Program") -> list[str]:
    """The tool's options. Only the program's own kernels are checked, not torch's."""
    name = program.prim_func.attrs["global_symbol"]  # to which TileLang adds `_kernel`
    return [
        *("--tool", tool),
        *("--kernel-name", f"kns={name}_kernel"),
        *("--target-processes", "application-only"),  # not the compiler's
        *("--error-exitcode", str(_ERRORS)),
        *("--show-backtrace", "no"),
        *("--print-limit", "1000"),
        *("--report-api-errors", "no"),  # torch and TileLang try calls that may fail
        *("--launch-timeout", "60"),
    ]


def judged(output: str, code: int) -> list[Finding]:
    """The findings in a tool's output; ToolError where it did not run to its end."""
    findings = parse(output)
    counts = [int(count) for count in _SUMMARY.findall(output)]
    if findings:
        return findings
    if not counts or (LAUNCHED not in output and not any(counts)):
        raise ToolError(f"nothing was checked (exit code {code}):\n{output[-3000:]}")
    if any(counts) or code == _ERRORS:
        return [Finding(f"{max(counts)} errors that the report does not name:\n{output[-1000:]}")]
    return []


def parse(output: str) -> list[Finding]:
    """The findings in a tool's output, equal ones together."""
    found: list[Finding] = []
    for line in output.splitlines():
        if begin := _BEGIN.match(line):
            if not begin["text"].startswith(_NO_FINDING):
                found.append(_begun(begin["text"]))
        elif found and (detail := _DETAIL.match(line)):
            found[-1] = _with_detail(found[-1], detail["text"])
    return _merged(found)


def _begun(text: str) -> Finding:
    if race := _RACE.match(text):
        return Finding(f"{race['level'].lower()}: race of a {race['kind'].lower()}", _places(text), count=0)
    return Finding(text.rstrip("."), _places(text))


def _with_detail(finding: Finding, text: str) -> Finding:
    if race := _RACE_WITH.match(text):
        return replace(
            finding,
            what=f"{finding.what} and a {race['kind'].lower()}",
            places=(*finding.places, *_places(text)),
            count=finding.count + int(race["count"] or 0),
        )
    if text.startswith("by thread"):
        return replace(finding, thread=finding.thread or text.removeprefix("by "))
    if text.startswith("at ") and not finding.places:
        return replace(finding, places=_places(text))
    if text.startswith(("Address ", "and is ", "Barrier is ")):
        # An address differs from run to run, and would keep equal findings apart.
        return replace(finding, what=f"{finding.what}; {re.sub(r' *0x[0-9a-f]+', '', text)}")
    return finding


def _places(text: str) -> tuple[str, ...]:
    return tuple(f"{place['file'].rpartition('/')[2]}:{place['line']}" for place in _PLACE.finditer(text))


def _merged(found: Iterable[Finding]) -> list[Finding]:
    merged: dict[tuple[str, tuple[str, ...]], Finding] = {}
    for finding in found:
        key = (finding.what, finding.places)
        known = merged.get(key)
        merged[key] = replace(known, count=known.count + finding.count) if known else finding
    return [replace(finding, count=max(1, finding.count)) for finding in merged.values()]
