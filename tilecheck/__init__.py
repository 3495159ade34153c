"""Checks TileLang kernels: is every one right, is it still as fast, and if not, why.

A kernel, as its author gives it
    spec          kernel, cases, reference, cost; loading and project find those of a repository
    program       the TileLang program of a case; tracing, accesses and arguments are about it
    schedules     which of a kernel's are tested; fields spells one; tiling says what it does
    landmarks     what it promises of its code; dtypes and arches are what it may be about

Is it right?
    conformance   one check: inputs or hostile draws, guards around them, oracle and float8 as the judge
    device        where it runs: simulator, or launch; arguments are checked before
    determinism, differential, sanitizer, traffic    other questions about a launch
    isolation, single, survey, watch, processes      in a process of its own, which may hang or die
    ledger        what is known to fail

Is it as fast, what did the compiler make of it, and what would be better?
    latency       times, and the gate against stored ones; ab sets two states side by side in turn
    codegen       the code for any GPU, as facts that are compared; occupancy reckons with them
    tuning        the search for schedules
    explain       why a kernel is as fast as it is

Around these
    plugin        what pytest gets to see; cli, the commands
    report        a run as a page; tutorial, the course; scaffold, files for another repository
    nightly       all of it, each night; bisecting finds the change that broke something
    doctor        what this machine lacks; environment, gpus and versions know what it has

Small tools: activity, askpip, broken, counting, family, files, gist, git, near, precompile, progress,
regions, strictjson, tables, unlogged.
"""

__version__ = "0.1.0"
