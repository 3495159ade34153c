"""What a program compiles to, kept on disk: the second time nothing is lowered and nothing compiled.

There are two kinds of entries. The first has, for a traced program, its lowered one, and the key of the
second: what nvcc made of that source. So an edit of a pass of TileLang's lowers all programs anew, and
compiles those whose source came out another. Keys are hashes of all that decides: the program or its source,
the architecture, options, versions, and the very files of TileLang, its templates and the toolkit
(`tilecheck.codegen.installed`). TileLang's own cache leaves out the version of nvcc.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilecheck.activity import doing
from tilecheck.codegen import compiling, installed, sass
from tilecheck.codegen.facts import Facts
from tilecheck.codegen.kept import Kept
from tilecheck.codegen.lowering import Lowered, lower
from tilecheck.codegen.toolchain import Toolchain, find_toolchain
from tilecheck.files import user_cache

if TYPE_CHECKING:
    from tilecheck.program import Program

_FORM = 2  # of the entries; another number makes all of them anew


@dataclass(frozen=True)
class _Code:
    """What nvcc makes of a source.  instructions, sass_hash: of the cubin."""

    cubin: bytes
    usage: compiling.Usage
    instructions: Mapping[str, int]
    sass_hash: str


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
    cache, key = Kept(cache_folder()), key_of(program, toolchain)
    if (made := _read(cache, key)) is None:
        with cache.alone(key):  # two workers want the same program: the second waits for the first
            if (made := _read(cache, key)) is None:
                made = _make(cache, key, program, toolchain)
                cache.remove_old()
    return _artifacts(*made, program, toolchain)


def facts_of(program: "Program", toolchain: Toolchain | None = None) -> Facts:
    """The facts of what `program` compiles to; raises as `artifacts_of` does."""
    return artifacts_of(program, toolchain).facts


def kept_facts(program: "Program", toolchain: Toolchain | None = None) -> Facts | None:
    """The facts of `program` if the cache has them; nothing is compiled. Raises NoToolchain."""
    toolchain = toolchain or find_toolchain()
    made = _read(Kept(cache_folder()), key_of(program, toolchain))
    return None if made is None else _artifacts(*made, program, toolchain).facts


def cache_folder() -> Path:
    """Where artifacts are kept: below the user's cache folder."""
    return user_cache() / "codegen"


def cache_trouble() -> str:
    """In one line, that what is compiled cannot be kept, and why; "": it can."""
    trouble = Kept(cache_folder()).trouble()
    return trouble and f"what is compiled is not kept: {trouble}"


def key_of(program: "Program", toolchain: Toolchain) -> str:
    """A hash of all that decides what a program compiles to."""
    options = compiling.options_of(program.pass_configs)
    return _key(
        program=program.taking_outputs.script(show_meta=True),
        arch=program.arch.name,
        pass_configs={name: repr(value) for name, value in sorted(program.pass_configs.items())},
        versions=toolchain.fingerprint,
        lowering=installed.of_lowering(),
        compiling=installed.of_compiling(options, toolchain),
    )


def code_key_of(cuda: str, arch: str, pass_configs: Mapping[str, Any], toolchain: Toolchain) -> str:
    """A hash of all that decides what nvcc makes of a source: which TileLang wrote it does not."""
    options = compiling.options_of(pass_configs)
    return _key(
        cuda=cuda,
        arch=arch,
        versions=toolchain.versions_of_compilers,
        compiling=installed.of_compiling(options, toolchain),
    )


def _key(**parts: Any) -> str:
    return hashlib.sha256(json.dumps({"form": _FORM, **parts}, sort_keys=True).encode()).hexdigest()[:32]


def _make(cache: Kept, key: str, program: "Program", toolchain: Toolchain) -> tuple[Lowered, _Code]:
    lowered = lower(program)
    arch, options = program.arch.name, program.pass_configs
    code_key = code_key_of(lowered.cuda, arch, options, toolchain)
    if (code := _read_code(cache, code_key)) is None:
        with doing(f"compiling {program.spec.test_id(program.case)} for {arch} by {toolchain.nvcc}"):
            code = _compile(lowered.cuda, arch, options, toolchain)
        record = {**vars(code), "usage": vars(code.usage), "cubin": base64.b64encode(code.cubin).decode()}
        cache.write(code_key, record)
    cache.write(key, {"lowered": lowered.as_json(), "code": code_key})
    return lowered, code


def _compile(cuda: str, arch: str, pass_configs: Mapping[str, Any], toolchain: Toolchain) -> _Code:
    cubin, usage = compiling.compile_cubin(cuda, arch, pass_configs, toolchain)
    code = list(sass.instructions(compiling.disassemble(cubin, toolchain)))
    return _Code(cubin, usage, sass.counts(code), sass.digest(code))


def _read(cache: Kept, key: str) -> tuple[Lowered, _Code] | None:
    """Both entries of a program; None where one is not there, or is damaged."""
    entry = cache.read(key)
    if entry is None or (code := _read_code(cache, entry["code"])) is None:
        return None
    lowered = entry["lowered"]
    return Lowered(**{**lowered, "kernels": tuple(lowered["kernels"])}), code


def _read_code(cache: Kept, key: str) -> _Code | None:
    entry = cache.read(key)
    if entry is None:
        return None
    return _Code(
        **{**entry, "usage": compiling.Usage(**entry["usage"]), "cubin": base64.b64decode(entry["cubin"])}
    )


def _artifacts(lowered: Lowered, code: _Code, program: "Program", toolchain: Toolchain) -> Artifacts:
    usage = code.usage
    facts = Facts(
        # Not kept, as schedules may differ in what the program does not show.
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
        cubin_bytes=len(code.cubin),
        source_hash=sass.digest([lowered.cuda]),
        sass_hash=code.sass_hash,
        instructions=code.instructions,
    )
    options = dict(program.pass_configs)
    return Artifacts(lowered, usage, code.cubin, facts, program.arch.name, options, toolchain)
