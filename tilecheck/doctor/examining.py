"""The whole examination, in an order in which a line needs only those above it."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from tilecheck import environment
from tilecheck.doctor import hardware, imports, software, trials
from tilecheck.doctor.lines import Ability, Line

_OWN_LINES = ("torch", "tilelang")

_NOT_TRIED = Line("launch", "note", "not tried, as nothing is to be launched", "leave out --no-launch")


@dataclass
class Examination:
    """Looks at this machine.  lines: what has been found so far.  launches: whether a GPU is tried, too."""

    lines: list[Line] = field(default_factory=list)
    launches: bool = True

    def run(self) -> Iterator[Line]:
        """The lines, each as soon as it is known."""
        for line in self._steps():
            self.lines.append(line)
            yield line

    @property
    def broken(self) -> bool:
        """Whether something that should work does not."""
        return any(line.state == "bad" for line in self.lines)

    def abilities(self) -> list[Ability]:
        """What can be run here, after `run`."""
        return [
            Ability("simulator", "pytest -m correctness", self._lacking("simulator", "torch", "TileLang")),
            Ability("codegen", "pytest -m codegen", self._lacking("compiler", "nvcc", "torch", "TileLang")),
            Ability(
                "GPU",
                "pytest -m correctness --require-gpu",
                self._lacking("launch", "GPU", "driver", "torch", "TileLang"),
            ),
        ]

    def _lacking(self, trial: str, *before: str) -> str:
        """Why what is tried as `trial` does not work: it went wrong, or one of those before it did."""
        tried = [line for line in self.lines if line.name == trial]
        if tried and tried[0].state == "ok":
            return ""
        unwell = [line for line in (*tried, *self.lines) if line.state != "ok"]
        for name in (trial, *before):
            for line in unwell:
                if line.name.split()[0] == name:
                    return f"{line.name}: {line.found}"
        return "not tried"

    def _steps(self) -> Iterator[Line]:
        yield software.python_line(sys.version_info[:3])
        yield software.packages_line(software.requirements(), environment.version, _OWN_LINES)

        faults = {}
        for name in _OWN_LINES:
            there = environment.version(name) is not None
            faults[name] = imports.import_fault(name) if there else "not installed"
        machine = environment.machine() if faults["torch"] is None else environment.driver_alone()
        torch = software.torch_line(environment.version("torch"), faults["torch"], machine)
        yield _unless_hidden("torch", faults["torch"], torch)
        of_torch = faults["torch"] is not None and faults["torch"] == faults["tilelang"]
        tilelang = software.tilelang_line(environment.version("tilelang"), faults["tilelang"], of_torch)
        yield tilelang if of_torch else _unless_hidden("tilelang", faults["tilelang"], tilelang)

        yield hardware.driver_line(machine)
        if line := software.cuda_line(machine):
            yield line
        yield from hardware.gpu_lines(hardware.installed_gpus(), machine)

        toolchain = software.toolchain_lines()
        yield from toolchain
        if line := software.cache_line():
            yield line
        if any(faults.values()):
            return  # there is nothing to try
        yield trials.launch_line("simulator")
        if all(line.state == "ok" for line in toolchain):
            yield trials.compile_line()
        if environment.why_no_gpu(machine) is None:
            yield trials.launch_line("cuda") if self.launches else _NOT_TRIED
        elif machine.gpu is not None:
            yield Line("launch", "bad", str(environment.why_no_gpu(machine)), "see the lines above")


def _unless_hidden(package: str, fault: str | None, line: Line) -> Line:
    """The line of a package, or that another one hides it: what it then says of the installed one is idle."""
    by = imports.hidden_by(package)
    return line if by is None else imports.hidden_line(line.name, environment.version(package), fault, by)
