"""Makes a wrong kernel out of a right one by a small edit of its source file, and sees whether the suite
notices.

A `Mutant` is data: a kernel, an edit (old text -> new text), and why that is wrong. The edited file is
loaded as a module of its own, from a file, since TileLang's tracer reads source from there; its spec then has
the edited program and everything else as it was.
"""

import ast
import importlib.util
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

from tilecheck.arches import Arch
from tilecheck.conformance import Mismatch, check
from tilecheck.device import Device, DeviceError
from tilecheck.fields import changed_fields
from tilecheck.plugin.limits import too_large
from tilecheck.program import WrongDType
from tilecheck.schedules import Grid, Variant
from tilecheck.simulator import SimulationError, Unsupported
from tilecheck.spec import Case, KernelSpec

KERNELS = Path(__file__).parents[3] / "kernels"


@dataclass(frozen=True)
class Edit:
    """A kernel of this repository, changed.

    id: lower-kebab, unique within the kernel.  kernel: the module in `kernels/`.
    changes: old text -> new text, all at once. Old text occurs exactly once in the function `within`; of
        several lines, it gives them without the indentation that they share. New text is indented like it.
    within: name of the function or class whose source is edited.
    options: of TileLang's compiler passes, on top of the kernel's own.
    default_schedule: in place of the spec's own, where the edit is in a form of the kernel that this does not
        choose.
    why: what is wrong with it; of an equivalent, why it is right.
    """

    id: str
    kernel: str
    why: str
    changes: Mapping[str, str]
    within: str = "program"
    options: Mapping[str, object] = field(default_factory=dict)
    default_schedule: Callable[..., object] | None = None

    @property
    def name(self) -> str:
        return f"{self.kernel}/{self.id}"


@dataclass(frozen=True)
class Mutant(Edit):
    """A wrong kernel.

    first: ids of the cases that are to show it, tried before the others.
    unseen: why the simulator cannot see it; empty for those that it has to reject.
    """

    first: tuple[str, ...] = field(kw_only=True)
    unseen: str = field(default="", kw_only=True)

    @property
    def tier(self) -> str:
        return "gpu" if self.unseen else "simulator"


def source_of(kernel: str) -> str:
    return (KERNELS / f"{kernel}.py").read_text()


def edited(edit: Edit, source: str) -> str:
    """`source` with the edit in it; ValueError where an old text does not occur exactly once."""
    start, end = _extent(source, edit.within)
    places = []
    for old, new in edit.changes.items():
        found = list(_pattern(old).finditer(source[start:end]))
        if len(found) != 1:
            raise ValueError(
                f"{edit.kernel}/{edit.id}: {len(found)} times in {edit.within}, not once:\n{old}"
            )
        first, last = (start + at for at in found[0].span("text"))
        places.append((first, last, new))
    for first, last, new in sorted(places, reverse=True):  # from the end, so that places stay where they are
        line = source[source.rfind("\n", 0, first) + 1 :]
        indent = line[: len(line) - len(line.lstrip(" "))]
        source = source[:first] + new.replace("\n", "\n" + indent) + source[last:]
    return source


def _extent(source: str, name: str) -> tuple[int, int]:
    """First and past the last character of the function or class `name`."""
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            assert node.end_lineno is not None
            return len("".join(lines[: node.lineno - 1])), len("".join(lines[: node.end_lineno]))
    raise ValueError(f"no function or class {name!r} at module level")


def _pattern(old: str) -> re.Pattern[str]:
    first, *rest = old.split("\n")
    if not rest:
        return re.compile(f"(?P<text>{re.escape(first)})")
    # Whole lines: from the first one's text on, the others as far to the right as it.
    lines = "".join(rf"\n(?P=indent){re.escape(line)}" if line else "\n" for line in rest)
    return re.compile(rf"^(?P<indent> *)(?P<text>{re.escape(first)}{lines})$", re.MULTILINE)


@contextmanager
def spec_of(edit: Edit) -> Iterator[KernelSpec]:
    """The kernel's spec with the edit in its program, as long as the context lasts."""
    source = edited(edit, source_of(edit.kernel))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{edit.kernel}.py"
        path.write_text(source)
        name = f"mutant_{edit.kernel}_{edit.id.replace('-', '_')}"
        try:
            spec: KernelSpec = _load(name, path).SPEC
            if edit.options:
                spec = replace(spec, pass_configs={**spec.pass_configs, **edit.options})
            if edit.default_schedule is not None:
                spec = replace(spec, default_schedule=edit.default_schedule)
            yield spec
        finally:
            sys.modules.pop(name, None)


def _load(name: str, path: Path) -> ModuleType:
    located = importlib.util.spec_from_file_location(name, path)
    assert located is not None and located.loader is not None
    module = importlib.util.module_from_spec(located)
    sys.modules[name] = module  # dataclasses look their module up
    located.loader.exec_module(module)
    return module


class _Watched:
    """A device that remembers what the simulator found in the last run."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.found: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._device, name)

    def run(self, *arguments: object) -> None:
        self.found = []
        try:
            self._device.run(*arguments)  # type: ignore[arg-type]
        except SimulationError as error:
            self.found = [finding.kind for finding in error.findings]
            raise


@dataclass(frozen=True)
class Row:
    """A case, under the default schedule or under one of the grid's.

    id: the case's, with "/" and the schedule's where there is one.
    """

    id: str
    case: Case
    variant: Variant | None = None


def rows_of(spec: KernelSpec, arch: Arch, first: tuple[str, ...] = ()) -> Iterator[Row]:
    """The rows that the simulator runs: cases, then the grid's schedules; those that `first` names come
    before the others.
    """
    yield from named_rows(spec, arch, first)
    yield from (row for row in default_rows(spec) if row.id not in first)
    for id in spec.grid_cases:
        yield from _scheduled(spec, spec.case(id), arch)


def named_rows(spec: KernelSpec, arch: Arch, names: tuple[str, ...]) -> Iterator[Row]:
    """Rows by name: the id of a case, with `/block_m=64,stages=2` where its schedule is not the default."""
    for name in names:
        id, slash, fields = name.partition("/")
        case = spec.case(id)
        schedule = changed_fields(spec.schedule_for(case, arch), fields)
        yield Row(name, case, Variant(fields, schedule, {}) if slash else None)


def default_rows(spec: KernelSpec, most_flops: float = math.inf) -> Iterator[Row]:
    """The cases that the simulator runs, of up to `most_flops` operations, under the default schedule."""
    for case in spec.cases:
        cost = spec.cost_of(case)
        if too_large(spec, case) is None and (cost is None or cost.flops <= most_flops):
            yield Row(case.id, case)


def _scheduled(spec: KernelSpec, case: Case, arch: Arch) -> Iterator[Row]:
    # Options of compiler passes make no difference to the simulator.
    variants = {repr(v.schedule): v for v in reversed(Grid(spec, case, arch).pairwise())}
    return (Row(f"{case.id}/{v.id}", case, v) for v in reversed(variants.values()))


@dataclass(frozen=True)
class Result:
    """What one row says of a kernel.

    caught_by: the checks that reject it: "value", "NaN pattern", "unwritten", "guard band", "input changed",
        "dtype", "launch" (it failed on the GPU), or the kinds of the simulator's findings. Empty: it passes.
    unusable: why there is no verdict: the program does not trace, compile, or simulate.
    """

    row: str
    caught_by: tuple[str, ...] = ()
    message: str = ""
    unusable: str = ""


def try_row(spec: KernelSpec, row: Row, device: Device, seed: int = 0) -> Result:
    """One conformance check."""
    watched = _Watched(device)
    schedule, pass_configs = (row.variant.schedule, row.variant.pass_configs) if row.variant else (None, {})
    try:
        check(spec, row.case, watched, seed=seed, schedule=schedule, pass_configs=pass_configs)  # type: ignore[arg-type]
    except Mismatch as mismatch:
        kinds = dict.fromkeys(watched.found or _reasons(mismatch))
        return Result(row.id, tuple(kinds), str(mismatch))
    except WrongDType as error:
        return Result(row.id, ("dtype",), str(error))
    except Unsupported as error:
        return Result(row.id, unusable=str(error))
    except DeviceError as error:
        if device.lost:
            return Result(row.id, ("launch",), str(error))
        return Result(row.id, unusable=str(error))
    except Exception as error:
        # TileLang's tracer and compiler raise errors of many types.
        return Result(row.id, unusable=f"{type(error).__name__}: {error}")
    return Result(row.id)


_FAULTS = {
    "never written": "unwritten",
    "of an input changed": "input changed",
    "written before its start": "guard band",
    "written past its end": "guard band",
    "written between its rows": "guard band",
}


def _reasons(mismatch: Mismatch) -> Iterator[str]:
    yield from {
        kind: None for line in mismatch.outcome.faults for text, kind in _FAULTS.items() if text in line
    }
    for verdict in mismatch.outcome.verdicts.values():
        if not verdict.ok:
            yield "value" if verdict.exact or math.isfinite(verdict.budget_used) else "NaN pattern"


def first_rejection(
    edit: Edit, device: Device, seeds: Sequence[int] = (0,)
) -> tuple[Result | None, list[Result]]:
    """(the first result that rejects it, those before); a mutant that a GPU has to reject is tried on the
    rows it names, with all `seeds`, since a race may not show at once; others on every row.
    """
    first: tuple[str, ...] = getattr(edit, "first", ())
    before: list[Result] = []
    with spec_of(edit) as spec:
        rows: Iterable[Row] = rows_of(spec, device.arch, first)
        if getattr(edit, "unseen", ""):
            rows = [Row(id, spec.case(id)) for id in first]
        # One after the other: to name all rows of a grid takes longer than to try the first ones.
        for row, seed in ((row, seed) for row in rows for seed in seeds):
            result = try_row(spec, row, device, seed)
            if result.caught_by:
                return result, before
            before.append(result)
    return None, before
