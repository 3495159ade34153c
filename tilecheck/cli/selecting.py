"""What a command is about: options that name project, kernels, cases, architectures and schedules."""

import argparse
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from tilecheck.arches import ARCHES, Arch
from tilecheck.cli.failing import BadInput, did_you_mean

if TYPE_CHECKING:
    from tilecheck.project import Project
    from tilecheck.spec import Case, KernelSpec

DEFAULT_ARCH = "sm_90a"


def add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        default=Path(),
        help="the project's folder, or one in it (default: the current folder)",
    )


def add_schedule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--schedule",
        metavar="FIELD=VALUE,...",
        default="",
        help="fields that differ from the default schedule, as in stages=2,threads=256",
    )


def add_several(parser: argparse.ArgumentParser) -> None:
    """Kernels, cases and architectures, any number of each."""
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="names of kernels (default: all)")
    parser.add_argument(
        "--case",
        nargs="+",
        action="extend",
        default=[],
        metavar="ID",
        help="cases, or patterns as in 'tail-*' (default: those whose code the suite looks at)",
    )
    parser.add_argument(
        "--arch",
        nargs="+",
        action="extend",
        default=[],
        metavar="ARCH",
        help=f"architectures, or `all` (default: {DEFAULT_ARCH}); known: {', '.join(ARCHES)}",
    )


def project_of(arguments: argparse.Namespace) -> "Project":
    from tilecheck.project import find_project

    try:
        return find_project(arguments.root)
    except ValueError as error:
        raise BadInput(str(error)) from error


def specs_of(project: "Project") -> "tuple[KernelSpec, ...]":
    try:
        return project.specs()
    except ValueError as error:
        raise BadInput(str(error)) from error


def kernel_named(name: str, specs: "Iterable[KernelSpec]") -> "KernelSpec":
    """The kernel of this name, spelt with underscores or hyphens."""
    named = {spec.name: spec for spec in specs}
    try:
        return named[name.replace("-", "_")]
    except KeyError:
        raise BadInput(f"no kernel {name!r}{did_you_mean(name.replace('-', '_'), named)}") from None


def case_named(id: str, spec: "KernelSpec") -> "Case":
    named = {case.id: case for case in spec.cases}
    if id not in named:
        raise BadInput(f"kernel {spec.name!r} has no case {id!r}{did_you_mean(id, named)}")
    return named[id]


def arch_named(name: str) -> Arch:
    if name not in ARCHES:
        raise BadInput(f"no architecture {name!r}{did_you_mean(name, ARCHES)}")
    return ARCHES[name]


def arches_named(names: Sequence[str]) -> tuple[Arch, ...]:
    """The architectures, each once; several may be joined by commas."""
    words = [word for name in names for word in name.split(",") if word] or [DEFAULT_ARCH]
    if "all" in words:
        return tuple(ARCHES.values())
    return tuple(arch_named(word) for word in dict.fromkeys(words))


def default_arch(spec: "KernelSpec") -> Arch:
    return ARCHES[DEFAULT_ARCH if DEFAULT_ARCH in spec.arches else spec.arches[0]]


def cases_matching(
    patterns: Sequence[str], specs: "Sequence[KernelSpec]"
) -> "list[tuple[KernelSpec, tuple[Case, ...]]]":
    """For each kernel its cases that any pattern fits, without patterns those whose code is looked at."""
    words = [word for pattern in patterns for word in pattern.split(",") if word]
    if not words:
        return [(spec, spec.cases_of_code) for spec in specs]
    for word in words:
        ids = list(dict.fromkeys(case.id for spec in specs for case in spec.cases))
        if not any(fnmatchcase(id, word) for id in ids):
            of = f"kernel {specs[0].name!r} has" if len(specs) == 1 else f"none of {len(specs)} kernels has a"
            raise BadInput(f"{of} no case {word!r}{did_you_mean(word, ids)}".replace("has a no", "has a"))
    chosen = [
        (spec, tuple(c for c in spec.cases if any(fnmatchcase(c.id, word) for word in words)))
        for spec in specs
    ]
    return [(spec, cases) for spec, cases in chosen if cases]
