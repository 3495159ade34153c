"""Is this machine's environment sane, what can it run, and what mends it where it cannot?

lines      a finding, its verdict and its mend
software   Python, packages, torch, TileLang, the compiler and its cache, and the disassembler
imports    whether torch and TileLang can be imported, and what hides them
hardware   driver and GPUs, as NVML tells
trials     a small kernel, that of probe, simulated, compiled and launched
examining  all of them in turn
"""

from tilecheck.doctor.examining import Examination
from tilecheck.doctor.lines import Line

__all__ = ["Examination", "Line"]
