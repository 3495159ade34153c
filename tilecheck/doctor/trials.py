"""A small kernel, tried: on the simulator, through the compiler, and on a GPU."""

import time
from typing import Literal

from tilecheck.doctor.lines import Line
from tilecheck.doctor.probe import SPEC
from tilecheck.gist import gist

_CASE = SPEC.cases[0]


def launch_line(device: Literal["cuda", "simulator"]) -> Line:
    """The probe on a device, its result compared; in a process of its own, which may hang or die."""
    from tilecheck.isolation import run_isolated

    name = "launch" if device == "cuda" else "simulator"
    started = time.monotonic()
    report = run_isolated(["tilecheck.doctor.probe"], SPEC.test_id(_CASE), device=device)
    if report.symptom is None:
        what = "compiled and launched" if device == "cuda" else "simulated"
        seconds = time.monotonic() - started
        return Line(name, "ok", f"vector add {what}, right in every bit, in {seconds:.0f} s")
    mend = (
        "mend the lines above that are not ok first; then try TileLang's nightly build, or another release"
        if report.symptom != "wrong"
        else "right code gives wrong values: run `pytest -m correctness -x`, and report it to TileLang"
    )
    return Line(name, "bad", f"vector add: {report.symptom}: {_said(report.message)}", mend)


def _said(message: str) -> str:
    """The first line; where that leads to what a process wrote before it died, with the last of it."""
    first, *more = [line.strip() for line in message.splitlines() if line.strip()] or ["it says nothing"]
    return f"{first} {more[-1] if more else 'nothing'}" if first.endswith(":") else first


def compile_line() -> Line:
    """The probe through TileLang and nvcc, for an architecture that need not be this machine's."""
    from tilecheck.arches import DEFAULT_ARCH, arch
    from tilecheck.codegen import CodegenError, facts_of
    from tilecheck.program import build_program

    try:
        facts = facts_of(build_program(SPEC, _CASE, arch(DEFAULT_ARCH)))
    except Exception as error:  # whatever it is, it is what the doctor was asked for
        mend = "nvcc, its headers and g++ have to fit: pip install -e '.[codegen]' brings one set"
        said = str(error) if isinstance(error, CodegenError) else gist(error)
        return Line("compiler", "bad", said, mend)
    made = f"vector add compiles for {DEFAULT_ARCH}: {facts.registers} registers, no GPU"
    return Line("compiler", "ok", made)
