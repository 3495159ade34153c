"""What a program compiles to, kept on disk: the second time nothing is lowered and nothing compiled.

An entry's key is a hash of the traced program, its architecture and pass options, and of the toolchain, the
very files of TileLang included: TileLang's own cache leaves out the version of nvcc. Entries that nobody
asked for in `KEPT_DAYS` are removed.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from tilecheck.activity import doing
from tilecheck.codegen import compiling, sass
from tilecheck.codegen.facts import Facts
from tilecheck.codegen.lowering import Lowered, lower, plain
from tilecheck.codegen.toolchain import Toolchain, find_toolchain

if TYPE_CHECKING:
    from tilecheck.program import Program

KEPT_DAYS = 30

_FORM = 1  # of an entry; another number makes all entries anew
_RECORD = "facts.json"


@dataclass(frozen=True)
class Artifacts:
    """What one program compiles to.

    lowered: by TileLang.  usage: by ptxas.  cubin: by nvcc.  sass and ptx are made when asked for.
    """

    lowered: Lowered
    usage: compiling.Usage
    cubin: bytes
    facts: Facts
    arch: str
    pass_configs: Mapping[str, Any]
    toolchain: Toolchain = field(repr=False)

    @property
    def tir(self) -> str:
        """The lowered functions, as TVM prints them."""
        return self.lowered.tir

    @property
    def cuda(self) -> str:
        """The CUDA source, without line directives."""
        return self.lowered.cuda

    @cached_property
    def ptx(self) -> str:
        """The PTX that nvcc makes of the source."""
        return compiling.compile_ptx(self.cuda, self.arch, self.pass_configs, self.toolchain)

    @cached_property
    def sass(self) -> str:
        """The disassembled code."""
        return compiling.disassemble(self.cubin, self.toolchain)


def artifacts_of(program: "Program", toolchain: Toolchain | None = None) -> Artifacts:
    """What `program` compiles to, out of the cache if it is there.

    Raises CodegenError where it does not compile, NoToolchain where nothing could compile it.
    """
    toolchain = toolchain or find_toolchain()
    entry = cache_folder() / key_of(program, toolchain)
    if (kept := _read(entry, program, toolchain)) is not None:
        return kept
    entry.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{entry}.lock"):  # two workers want the same program: the second waits for the first
        if (kept := _read(entry, program, toolchain)) is None:
            kept = _make(program, toolchain)
            _write(entry, kept)
            _remove_old(entry.parent)
    return kept


def facts_of(program: "Program", toolchain: Toolchain | None = None) -> Facts:
    """The facts of what `program` compiles to; raises as `artifacts_of` does."""
    return artifacts_of(program, toolchain).facts


def kept_facts(program: "Program", toolchain: Toolchain | None = None) -> Facts | None:
    """The facts of `program` if the cache has them; nothing is compiled. Raises NoToolchain."""
    toolchain = toolchain or find_toolchain()
    kept = _read(cache_folder() / key_of(program, toolchain), program, toolchain)
    return None if kept is None else kept.facts


def cache_folder() -> Path:
    """Where artifacts are kept: below the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "tilecheck", "codegen")


def key_of(program: "Program", toolchain: Toolchain) -> str:
    """A hash of all that decides what a program compiles to."""
    parts = {
        "form": _FORM,
        "program": plain(program.prim_func).script(show_meta=True),
        "arch": program.arch.name,
        "pass_configs": {name: repr(value) for name, value in sorted(program.pass_configs.items())},
        "toolchain": toolchain.fingerprint,
        "tilelang": _files_of("tilelang"),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@cache
def _files_of(package: str) -> str:
    """A hash of a package's list of files with their hashes: builds of one version differ in it."""
    try:
        record = distribution(package).read_text("RECORD") or ""
    except PackageNotFoundError:
        record = ""
    return hashlib.sha256(record.encode()).hexdigest()


def _make(program: "Program", toolchain: Toolchain) -> Artifacts:
    arch, options = program.arch.name, dict(program.pass_configs)
    lowered = lower(program)
    with doing(f"compiling {program.spec.test_id(program.case)} for {arch} by {toolchain.nvcc}"):
        cubin, usage = compiling.compile_cubin(lowered.cuda, arch, options, toolchain)
        code = list(sass.instructions(compiling.disassemble(cubin, toolchain)))
    facts = Facts(
        schedule="" if program.schedule is None else str(program.schedule),
        kernels=len(lowered.kernels),
        threads=lowered.threads,
        registers=usage.registers,
        spill_stores=usage.spill_stores,
        spill_loads=usage.spill_loads,
        stack=usage.stack,
        static_shared=usage.static_shared,
        dynamic_shared=lowered.dynamic_shared,
        barriers=usage.barriers,
        cubin_bytes=len(cubin),
        source_hash=sass.digest([lowered.cuda]),
        sass_hash=sass.digest(code),
        instructions=sass.counts(code),
    )
    return Artifacts(lowered, usage, cubin, facts, arch, options, toolchain)


def _read(entry: Path, program: "Program", toolchain: Toolchain) -> Artifacts | None:
    """The entry; None where there is none or it cannot be read: it is made again then."""
    try:
        record = json.loads((entry / _RECORD).read_text())
        lowered = record["lowered"]
        kept = Artifacts(
            lowered=Lowered(**{**lowered, "kernels": tuple(lowered["kernels"])}),
            usage=compiling.Usage(**record["usage"]),
            cubin=(entry / "kernel.cubin").read_bytes(),
            facts=Facts(**record["facts"]),
            arch=program.arch.name,
            pass_configs=dict(program.pass_configs),
            toolchain=toolchain,
        )
        os.utime(entry / _RECORD)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Schedules may differ in what the program does not show.
    schedule = "" if program.schedule is None else str(program.schedule)
    return replace(kept, facts=replace(kept.facts, schedule=schedule))


def _write(entry: Path, made: Artifacts) -> None:
    record = {
        "lowered": made.lowered.as_json(),
        "usage": vars(made.usage),
        "facts": made.facts.as_json(),
    }
    folder = Path(tempfile.mkdtemp(prefix=".making-", dir=entry.parent))
    try:
        (folder / "kernel.cubin").write_bytes(made.cubin)
        (folder / _RECORD).write_text(json.dumps(record, indent=1))
        shutil.rmtree(entry, ignore_errors=True)  # what is there could not be read
        folder.rename(entry)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_old(folder: Path) -> None:
    """Removes what nobody asked for in a long time, at most once a day."""
    stamp, now = folder / ".cleaned", time.time()
    if stamp.exists() and now - stamp.stat().st_mtime < 24 * 3600:
        return
    stamp.touch()
    for path in folder.iterdir():
        asked = path / _RECORD if path.is_dir() else path
        try:
            old = now - asked.stat().st_mtime > KEPT_DAYS * 24 * 3600
        except OSError:
            continue
        if old and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif old:
            path.unlink(missing_ok=True)
