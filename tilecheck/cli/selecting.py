"""What a command is about: options that name project, kernels, cases, architectures and schedules."""

import argparse
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilecheck.arches import ARCHES, DEFAULT_ARCH, Arch
from tilecheck.cli.failing import BadInput
from tilecheck.cli.paths import named
from tilecheck.near import did_you_mean

if TYPE_CHECKING:
    from tilecheck.codegen.batch import Row
    from tilecheck.project import Project
    from tilecheck.spec import Case, KernelSpec


def add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        type=named,
        metavar="DIR",
        default=Path(),
        help="the project's folder, or one in it (default: the current folder)",
    )


def add_kernel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kernel", metavar="KERNEL", help="name of the kernel; hyphens will do for underscores"
    )


def add_one(parser: argparse.ArgumentParser) -> None:
    """One kernel, on one case and architecture, under one schedule."""
    add_kernel(parser)
    parser.add_argument("--case", metavar="ID", help="the case (default: the first whose code is looked at)")
    parser.add_argument("--arch", help=f"the architecture (default: {DEFAULT_ARCH})")
    add_schedule(parser)


def add_schedule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--schedule",
        metavar="FIELD=VALUE,...",
        default="",
        help="fields that differ from the default schedule, as in stages=2,threads=256",
    )


def add_several(parser: argparse.ArgumentParser) -> None:
    """Kernels, cases and architectures, any number of each."""
    parser.add_argument(
        "kernels",
        nargs="*",
        default=[],  # without one, argparse calls it required where another argument is missing
        metavar="KERNEL",
        help="names of kernels (default: all)",
    )
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


def add_jobs(parser: argparse.ArgumentParser) -> None:
    from tilecheck.gpus import cores

    parser.add_argument(
        "--jobs",
        type=_positive,
        metavar="N",
        default=cores(),
        help="processes that compile (default: %(default)s)",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)


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
    return named[kernel_among(name, named)]


def kernel_among(name: str, known: Iterable[str]) -> str:
    """The name of `known` that is meant."""
    known, meant = list(known), name.replace("-", "_")
    if meant not in known:
        raise BadInput(f"no kernel {name!r}{did_you_mean(meant, known)}")
    return meant


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


def one_of(arguments: argparse.Namespace) -> "tuple[KernelSpec, Case, Arch, Any]":
    """The kernel, case, architecture and schedule that the options of `add_one` select."""
    spec = kernel_named(arguments.kernel, specs_of(project_of(arguments)))
    case = spec.cases_of_code[0] if arguments.case is None else case_named(arguments.case, spec)
    arch = default_arch(spec) if arguments.arch is None else arch_named(arguments.arch)
    return spec, case, arch, legal_schedule(arguments.schedule, spec, case, arch)


def rows_of(arguments: argparse.Namespace, specs: "Sequence[KernelSpec]") -> "list[Row]":
    """The rows that the options of `add_several` and `add_schedule` select, in the project's order."""
    from tilecheck.codegen.batch import Row

    try:
        arches = arches_named(arguments.arch)
    except BadInput as error:
        misplaced = any(word.replace("-", "_") in {s.name for s in specs} for word in arguments.arch)
        raise BadInput(f"{error}; kernels come before --arch") if misplaced else error from None
    chosen = [kernel_named(name, specs) for name in dict.fromkeys(arguments.kernels)] or list(specs)
    targets = [
        (spec, case, arch)
        for spec, cases in _cases_matching(arguments.case, chosen)
        for case in cases
        for arch in arches
        if arch.name in spec.arches
    ]
    if not targets:
        claimed = ", ".join(dict.fromkeys(name for spec in chosen for name in spec.arches))
        raise BadInput(f"no kernel here is for {', '.join(a.name for a in arches)}, only for {claimed}")
    if arguments.schedule:
        _check_schedules(arguments.schedule, targets)
    return [Row(spec.name, case.id, arch.name, arguments.schedule) for spec, case, arch in targets]


def _cases_matching(
    patterns: Sequence[str], specs: "Sequence[KernelSpec]"
) -> "list[tuple[KernelSpec, tuple[Case, ...]]]":
    """For each kernel its cases that any pattern fits, without patterns those whose code is looked at."""
    if not patterns:
        return [(spec, spec.cases_of_code) for spec in specs]
    ids = matching(patterns, dict.fromkeys(case.id for spec in specs for case in spec.cases))
    return [(spec, tuple(case for case in spec.cases if case.id in ids)) for spec in specs]


def matching(patterns: Sequence[str], ids: Iterable[str]) -> set[str]:
    """The ids of cases that any pattern fits, all without patterns; each pattern has to fit one."""
    ids = list(ids)
    words = [word for pattern in patterns for word in pattern.split(",") if word]
    for word in words:
        if not any(fnmatchcase(id, word) for id in ids):
            raise BadInput(f"no case {word!r}{did_you_mean(word, ids)}")
    return {id for id in ids if not words or any(fnmatchcase(id, word) for word in words)}


def _check_schedules(text: str, targets: "Sequence[tuple[KernelSpec, Case, Arch]]") -> None:
    """BadInput, with a reason, where the schedule is legal for none of them; a few say so in their row."""
    reason = ""
    for spec, case, arch in targets:
        try:
            legal_schedule(text, spec, case, arch)
        except BadInput as error:
            reason = str(error)
        else:
            return
    raise BadInput(reason)


def legal_schedule(text: str, spec: "KernelSpec", case: "Case", arch: Arch) -> Any:
    """The default schedule with the fields of `text`."""
    from tilecheck.fields import changed_fields

    try:
        schedule = changed_fields(spec.schedule_for(case, arch), text)
        spec.check_schedule(schedule, case, arch)
    except ValueError as error:
        raise BadInput(f"{spec.name}, case {case.id!r} on {arch.name}: {error}") from error
    return schedule
