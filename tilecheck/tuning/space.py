"""The schedules to try for one case on one architecture: those of the spec's `tuning` that are legal and fit.

Pure: imports neither torch nor TileLang.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilecheck.arches import Arch
from tilecheck.schedules import Grid, fault
from tilecheck.spec import Case, KernelSpec, SpecError
from tilecheck.tiling import Tiling
from tilecheck.tuning.winners import FILE


@dataclass(frozen=True)
class Candidate:
    """A schedule to try.  id: short and unique in the space, "default" for the one in use now."""

    id: str
    schedule: Any

    @property
    def values(self) -> dict[str, Any]:
        """Every field of the schedule."""
        return values_of(self.schedule)

    @property
    def key(self) -> str:
        """See `key_of`."""
        return key_of(self.values)


@dataclass(frozen=True)
class Space:
    """What is tried for `case` of `spec` on `arch`, in the order of the knobs' values.

    default: the schedule in use now, which is among the candidates.
    product, legal: combinations of the knobs' values, and those that `legal` accepts.
    refused: reasons for which others do not fit, with how many each.
    """

    spec: KernelSpec
    case: Case
    arch: Arch
    default: Candidate
    candidates: tuple[Candidate, ...]
    product: int
    legal: int
    refused: Mapping[str, int]

    def __str__(self) -> str:
        knobs = " x ".join(str(len(values)) for values in self.spec.tuning.values())
        told = "".join(f", {count} {reason}" for reason, count in self.refused.items())
        tried = len(self.candidates)
        # Else more would be tried than there is.
        outside = ", the default with them" if tried + sum(self.refused.values()) > self.legal else ""
        return f"{knobs} = {self.product} combinations, {self.legal} legal{told}, {tried} to try{outside}"


def space_of(spec: KernelSpec, case: Case, arch: Arch) -> Space:
    """The space of `case`; ValueError for a kernel without one, and where it is too large or nothing is
    legal.
    """
    if not spec.tuning:
        raise ValueError(f"kernel {spec.name!r} has nothing to tune: its spec gives no `tuning`")
    default = spec.schedule_for(case, arch)
    _check_kept(spec, default)
    grid = Grid(spec, case, arch, knobs=spec.tuning)
    refused: Counter[str] = Counter()
    _taken(spec, case, arch, default)  # which may lie outside the grid
    candidates = {"": Candidate("default", default)}
    legal = grid.full()
    for variant in legal:
        candidate = Candidate(variant.id, variant.schedule)
        shared, tiling = _taken(spec, case, arch, variant.schedule)
        if candidate.schedule == default:
            continue  # it has its place
        if (reason := unfit(arch, shared or 0, tiling)) is None:
            candidates[candidate.key] = candidate
        else:
            refused[reason] += 1
    return Space(
        spec=spec,
        case=case,
        arch=arch,
        default=candidates[""],
        candidates=tuple(candidates.values()),
        product=grid.product,
        legal=len(legal),
        refused=dict(refused),
    )


def _taken(spec: KernelSpec, case: Case, arch: Arch, schedule: Any) -> tuple[int | None, Tiling | None]:
    """Shared memory and tiling; ValueError, in one line, where the spec cannot say."""
    asked = "shared_memory"
    try:
        shared = spec.shared_memory_of(case, arch, schedule)
        asked = "tiling"
        return shared, spec.tiling_of(case, arch, schedule)
    except SpecError:
        raise
    except Exception as error:
        raise ValueError(f"kernel {spec.name!r}: {asked} raised {fault(error, schedule)}") from error


def unfit(arch: Arch, shared: int, tiling: Tiling | None) -> str | None:
    """Why no multiprocessor of `arch` holds such a block, without numbers; None: it does, as far as known.

    Registers are the compiler's to share out: `tilecheck.tuning.worker` looks at the facts of its code.
    """
    if shared > arch.shared_per_block:
        return "over the shared memory of a block"
    if tiling is not None and tiling.threads > arch.max_threads:
        return "over the threads of a block"
    return None


def _check_kept(spec: KernelSpec, default: Any) -> None:
    """Raises ValueError where a value would not come back from JSON as it was, type and all."""
    for name, usual in values_of(default).items():
        for value in (usual, *spec.tuning.get(name, ())):
            try:
                kept = plain(json.loads(json.dumps(value)))
            except (TypeError, ValueError):
                kept = None
            if type(kept) is not type(value) or kept != value:
                raise ValueError(
                    f"kernel {spec.name!r}: {name}={value!r} of its schedule cannot be kept in {FILE}; let "
                    "it be a number, a text, True, False, None or a tuple of such"
                )


def values_of(schedule: Any) -> dict[str, Any]:
    """Fields that a schedule is made of, by name; none for None."""
    if schedule is None:
        return {}
    return {f.name: getattr(schedule, f.name) for f in dataclasses.fields(schedule) if f.init}


def key_of(values: Mapping[str, Any]) -> str:
    """The same for schedules with equal values, whatever they are called, before JSON and after it."""
    return json.dumps(values, sort_keys=True)


def plain(value: Any) -> Any:
    """A value of a schedule as it was before it went through JSON, which makes lists of tuples."""
    return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value


def schedule_of(
    values: Mapping[str, Any], like: Any, knobs: Mapping[str, Sequence[Any]] | None = None
) -> Any:
    """The schedule with these fields, of the same class as `like`.

    knobs: the spec's `tuning`, whose values may be of other types than those of `like`, as None and a number.
    Raises ValueError, in one line, where the fields are not those of the class, or not of their types.
    """
    usual = values_of(like)
    if missing := sorted(usual.keys() - values.keys()):
        raise ValueError(f"schedule {dict(values)} lacks {', '.join(missing)}")
    if unknown := sorted(values.keys() - usual.keys()):
        raise ValueError(f"schedule {dict(values)} has {', '.join(unknown)}; known: {', '.join(usual)}")
    values = {name: plain(value) for name, value in values.items()}
    for name, value in values.items():
        known = (usual[name], *(knobs or {}).get(name, ()))
        if type(value) not in map(type, known):
            raise ValueError(f"{name}={value!r} is not of the type of {name}={usual[name]!r}")
    return None if like is None else type(like)(**values)
