"""What the compiler makes of a program, for any architecture, without a GPU.

toolchain   which nvcc and nvdisasm, and their versions
lowering    TileLang: from a program to CUDA source
compiling   nvcc and ptxas: from source to a cubin, with its registers and spills
sass        counts of instructions in the disassembly
facts       all of it as numbers
artifacts   the above, kept on disk
installed   marks of the files that have a say in it, for the keys of what is kept
kept        a folder of entries by key
batch       many rows, compiled side by side
store       facts of last time, a file for each architecture; collection is of what is at hand
changes     what differs between two of them, in words; report is on two collections
table       facts, as a table for people
sharedmemory  what `legal` reckons against what TileLang lays out
"""

from tilecheck.codegen.artifacts import Artifacts, artifacts_of, cache_trouble, facts_of, kept_facts
from tilecheck.codegen.facts import Facts
from tilecheck.codegen.lowering import CodegenError, Lowered, lower
from tilecheck.codegen.toolchain import NoToolchain, Toolchain, find_toolchain

__all__ = [
    "Artifacts",
    "CodegenError",
    "Facts",
    "Lowered",
    "NoToolchain",
    "Toolchain",
    "artifacts_of",
    "cache_trouble",
    "facts_of",
    "find_toolchain",
    "kept_facts",
    "lower",
]
