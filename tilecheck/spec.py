"""What a kernel author hands to the suite: a spec, its cases, its reference and its cost.

Nothing here imports torch or TileLang, so that specs can be listed on any machine. Everything is validated
where it is made: a wrong spec is a SpecError that carries the values, never a strange failure of a later
check.

**One calling rule.** Every function an author gives (`program`, `reference`, `cost`, `default_schedule`,
`legal`, a draw, a vendor, an element type) is called by *parameter name*. It may ask for each of the case's
dims and flags by its name, for `dtype`, `case`, `arch`, `schedule`, for each field of the schedule, and for
`pass_configs`, the options of TileLang's passes that the spec and the check set; `reference`, draws and
vendors also for the kernel's tensors, by the names they have in the program. What it does not ask for, it
does not get.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from tilecheck.arches import ARCHES, Arch, arch
from tilecheck.dtypes import dtype as _dtype
from tilecheck.landmarks import Landmark, common
from tilecheck.tiling import Tiling

Scalar = bool | int | float | str

_CASE_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_KERNEL_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_RESERVED = frozenset({"dtype", "case", "arch", "schedule", "pass_configs"})

PASS_CONFIGS = "pass_configs"
"""The knob of a grid that is no field of the schedule: its values are options of TileLang's passes."""


class SpecError(ValueError):
    """A spec is wrong, or does not fit its program; the message says all that its author has to know."""


@dataclass(frozen=True)
class Case:
    """One row of a kernel's table: sizes, element type, modes, and the reason the row exists.

    id: lower-kebab and for ever, since baselines match on it.  dims: name -> size, zero allowed.
    dtype: a name of `tilecheck.dtypes`.  flags: further modes by name (`causal=True`).
    why: the branch this row is there for.  draw: how inputs are drawn (see `tilecheck.inputs`,
    `KernelSpec.draws`).
    Raises ValueError where one of them is malformed.
    """

    id: str
    dims: Mapping[str, int]
    dtype: str
    flags: Mapping[str, Scalar] = field(default_factory=dict)
    why: str = ""
    draw: str = "normal"

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _CASE_ID.fullmatch(self.id):
            raise SpecError(f"case id {self.id!r} is not lower-kebab (like 'llama8b-up-bf16')")
        where = f"case {self.id!r}"
        for name, size in self.dims.items():
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise SpecError(f"{where}: dim {name} = {size!r} is not an integer >= 0")
        for name, flag in self.flags.items():
            if not isinstance(flag, (bool, int, float, str)):
                raise SpecError(f"{where}: flag {name} = {flag!r} is not a bool, number or string")
        if clash := sorted((set(self.dims) & set(self.flags)) | (_RESERVED & ({*self.dims} | {*self.flags}))):
            raise SpecError(f"{where}: {', '.join(clash)} is reserved, or both a dim and a flag")
        try:
            _dtype(self.dtype)
        except ValueError as error:
            raise SpecError(f"{where}: {error}") from None
        if not isinstance(self.why, str) or not self.why.strip():
            raise SpecError(f"{where}: `why` is empty; name the branch this row is there for")
        object.__setattr__(self, "dims", MappingProxyType(dict(self.dims)))
        object.__setattr__(self, "flags", MappingProxyType(dict(self.flags)))

    @classmethod
    def per_dtype(
        cls,
        dtypes: Iterable[str],
        id: str,
        dims: Mapping[str, int],
        why: str,
        flags: Mapping[str, Scalar] | None = None,
        draw: str = "normal",
    ) -> tuple["Case", ...]:
        """The same row for several element types: `tail-m` becomes `tail-m-fp16`, `tail-m-bf16`."""
        return tuple(cls(f"{id}-{_dtype(d).short}", dims, d, flags or {}, why, draw) for d in dtypes)

    def __str__(self) -> str:
        return self._words

    @cached_property
    def _words(self) -> str:
        # A grid is told of ten thousands of schedules why they are not legal for a case.
        sizes = " ".join(f"{name}={value}" for name, value in (*self.dims.items(), *self.flags.items()))
        return f"{self.id} ({sizes} {self.dtype})"

    def __hash__(self) -> int:
        return hash((self.id, self.dtype))

    def __reduce__(self) -> tuple[Any, ...]:  # mapping proxies do not pickle, and xdist workers want cases
        return type(self), (self.id, dict(self.dims), self.dtype, dict(self.flags), self.why, self.draw)


@dataclass(frozen=True)
class Cost:
    """The least a kernel must do, for the roofline: floating point operations, and bytes through device
    memory (each input read once, each output written once).
    """

    flops: float
    bytes: float

    def __post_init__(self) -> None:
        if not (self.flops >= 0 and self.bytes >= 0):
            raise SpecError(f"cost must not be negative: flops={self.flops!r} bytes={self.bytes!r}")


@dataclass(frozen=True)
class Term:
    """One rounding that the algorithm makes: it may move an element by `coefficient * magnitude`.

    reason: for the report, as in "cast of P to fp16".  coefficient: a number >= 0.
    magnitude: tensor that broadcasts to the output, values >= 0.
    """

    reason: str
    coefficient: float
    magnitude: Any

    def __post_init__(self) -> None:
        if not self.coefficient >= 0:
            raise SpecError(f"term {self.reason!r}: coefficient {self.coefficient!r} is not >= 0")


@dataclass(frozen=True)
class Reference:
    """The right value of one output, and how far a right kernel may be from it.

    value: float64 tensor of the output's shape (any dtype if `exact`).
    terms: roundings besides the one into the output's dtype; None: not known, the bound is then empirical.
    exact: every bit must agree (copies, integers).
    open: boolean tensor, true where the algorithm leaves the result open (any value, NaN included); None:
    nowhere.
    """

    value: Any
    terms: tuple[Term, ...] | None = None
    exact: bool = False
    open: Any = None

    def __post_init__(self) -> None:
        if self.terms is not None:
            object.__setattr__(self, "terms", tuple(self.terms))
        if self.exact and self.terms:
            raise SpecError(f"an exact reference has no error terms, got {[t.reason for t in self.terms]}")


@dataclass(frozen=True)
class KernelSpec:
    """A kernel, and what it is checked against. The first four fields suffice.

    name: lower_snake.
    program: returns the TileLang program of a case, a PrimFunc; a `@tilelang.jit` function serves as it is.
    reference: returns the right value of the output from float64 inputs: a tensor, a `Reference`, or for
        several outputs a mapping from the output's name to either.
    cases: the rows.

    default_schedule: returns the schedule (a frozen dataclass) used unless a check names another.
    legal: raises ValueError, with the values, if a schedule cannot be used for a case on an architecture.
    cost: returns the `Cost` of a case.
    draws: ways to draw inputs beside those of `tilecheck.inputs`, by name; each returns name -> tensor for
        the inputs that it replaces.
    vendor: what a user would call instead, by name, each returning the output; one that raises
        NotImplementedError has nothing for the case, and is left out.
    outputs: names of the tensors that the kernel writes, so that a store to any other is a fault; without,
        those that the program stores to.
    zeroed: outputs that the caller has to clear before the launch (the target of atomics).
    dtypes: element types of the tensors that do not have the case's (an output kept in float32), by tensor:
        a name, or a function that returns one. A tensor of another type is an error, since its bound would
        be another; only integers and booleans beside a floating-point case (indices, masks) need no entry.
    arches: names of the architectures that the kernel claims.
    pass_configs: options of TileLang's compiler passes.
    grid: values to try for fields of the schedule, by name, and for "pass_configs", whose values are options
        set beside those of the spec; other fields keep their default. See `tilecheck.schedules`.
    grid_cases: ids of the cases that the grid is tried on; empty: the first case.
    landmarks: returns what a case's code promises on an architecture, `Landmark`s beside the common ones, or
        instead of the one with the same id.
    shared_memory: returns the bytes of dynamic shared memory that a block takes, as `legal` reckons them.
    code_cases: ids of the cases whose code is looked at; empty: the first four cases.
    latency_cases: ids of the cases that are timed; empty: none.
    tuning: values to search for fields of the schedule, by name; other fields keep their default. See
        `tilecheck.tuning`.
    tuning_cases: ids of the cases that schedules are searched for; empty: the first case.
    tiling: returns the `Tiling` of a schedule, by which the search begins with the likely ones.
    """

    name: str
    program: Callable[..., Any]
    reference: Callable[..., Any]
    cases: tuple[Case, ...]
    default_schedule: Callable[..., Any] | None = None
    legal: Callable[..., None] | None = None
    cost: Callable[..., Cost] | None = None
    draws: Mapping[str, Callable[..., Mapping[str, Any]]] = field(default_factory=dict)
    vendor: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = None
    zeroed: tuple[str, ...] = ()
    dtypes: Mapping[str, str | Callable[..., str]] = field(default_factory=dict)
    arches: tuple[str, ...] = tuple(ARCHES)
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    grid_cases: tuple[str, ...] = ()
    landmarks: Callable[..., Iterable[Landmark]] | None = None
    shared_memory: Callable[..., int] | None = None
    code_cases: tuple[str, ...] = ()
    latency_cases: tuple[str, ...] = ()
    tuning: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    tuning_cases: tuple[str, ...] = ()
    tiling: Callable[..., Tiling] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _KERNEL_NAME.fullmatch(self.name):
            raise SpecError(f"kernel name {self.name!r} is not lower_snake (like 'row_softmax')")
        where = f"kernel {self.name!r}"
        names = ("cases", "zeroed", "arches", "grid_cases", "code_cases", "latency_cases", "tuning_cases")
        for name in names:
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.outputs is not None:
            object.__setattr__(self, "outputs", tuple(self.outputs))
        for name in ("draws", "vendor", "dtypes", "pass_configs"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        self._check_functions(where)
        self._check_cases(where)
        self._check_defaults(where)
        self._check_grid(where)
        self._check_tuning(where)

    def _check_functions(self, where: str) -> None:
        given = {
            "program": self.program,
            "reference": self.reference,
            **{f"draw {name!r}": function for name, function in self.draws.items()},
            **{f"vendor {name!r}": function for name, function in self.vendor.items()},
        }
        for name in ("default_schedule", "legal", "cost", "landmarks", "shared_memory", "tiling"):
            if getattr(self, name) is not None:
                given[name] = getattr(self, name)
        for name, function in given.items():
            if not callable(function):
                raise SpecError(f"{where}: {name} is not callable: {function!r}")
        for name, dtype in self.dtypes.items():
            if not isinstance(dtype, str) and not callable(dtype):
                raise SpecError(f"{where}: dtype of {name} is {dtype!r}, no name and no function")
        if self.legal is not None and self.default_schedule is None:
            raise SpecError(f"{where}: `legal` judges schedules, but there is no `default_schedule`")

    def _check_cases(self, where: str) -> None:
        if not self.cases:
            raise SpecError(f"{where}: no cases")
        seen: dict[str, Case] = {}
        for case in self.cases:
            if not isinstance(case, Case):
                raise SpecError(f"{where}: {case!r} is not a Case")
            if case.id in seen:
                raise SpecError(f"{where}: case id {case.id!r} occurs twice: {seen[case.id]} and {case}")
            seen[case.id] = case
            if case.draw not in self.draws and case.draw not in COMMON_DRAWS:
                known = ", ".join((*self.draws, *COMMON_DRAWS))
                raise SpecError(
                    f"{where}: case {case.id!r} asks for the unknown draw {case.draw!r}; known: {known}"
                )

    def _check_defaults(self, where: str) -> None:
        if not self.arches:
            raise SpecError(f"{where}: no architectures")
        for case in self.cases:
            for name in self.arches:
                target = arch(name)
                try:
                    self.check_schedule(self.own_schedule(case, target), case, target)
                except ValueError as error:
                    raise SpecError(
                        f"{where}: the default schedule of case {case.id!r} on {name} is not legal: {error}"
                    ) from error
            self.cost_of(case)
        for name in ("code_cases", "latency_cases"):
            ids = getattr(self, name)
            if len(set(ids)) < len(ids):
                raise SpecError(f"{where}: a case of {name} occurs twice: {', '.join(ids)}")
            for id in ids:
                self.case(id)
        for case in self.cases_of_code:
            for name in self.arches:
                self.landmarks_of(case, arch(name), self.own_schedule(case, arch(name)))

    def _check_grid(self, where: str) -> None:
        self._check_knobs(where, "grid", (PASS_CONFIGS,))
        options = self.grid.get(PASS_CONFIGS, ())
        if not all(isinstance(value, Mapping) for value in options):
            raise SpecError(f"{where}: values of {PASS_CONFIGS} must map options to values: {options!r}")

    def _check_tuning(self, where: str) -> None:
        self._check_knobs(where, "tuning", ())
        if self.tuning and self.tiling is not None:
            self.tiling_of(self.cases_of_tuning[0], arch(self.arches[0]))

    def _check_knobs(self, where: str, kind: str, others: tuple[str, ...]) -> None:
        """Checks `grid` or `tuning`, whose knobs are fields of the schedule or `others`, and its cases."""
        given: Mapping[str, Any] = getattr(self, kind)
        for knob, values in given.items():
            if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
                raise SpecError(f"{where}: {kind} of {knob} is {values!r}, not several values")
        object.__setattr__(self, kind, MappingProxyType({k: tuple(v) for k, v in given.items()}))
        given, ids = getattr(self, kind), getattr(self, f"{kind}_cases")
        schedule = self.own_schedule(self.cases[0], arch(self.arches[0])) if given else None
        fields = dataclasses.fields(schedule) if dataclasses.is_dataclass(schedule) else ()
        known = {*others, *(f.name for f in fields)}
        for knob, values in given.items():
            if knob not in known:
                words = f"neither {' nor '.join(map(repr, others))} nor a" if others else "no"
                raise SpecError(f"{where}: the {kind}'s {knob!r} is {words} field of {schedule!r}")
            if not values or any(value in values[:i] for i, value in enumerate(values)):
                raise SpecError(f"{where}: {kind} of {knob} must hold values, each once: {values!r}")
        if ids and not given:
            raise SpecError(f"{where}: cases of a {kind}, {', '.join(ids)}, but no {kind}")
        if len(set(ids)) < len(ids):
            raise SpecError(f"{where}: a case of the {kind} occurs twice: {', '.join(ids)}")
        for id in ids:
            self.case(id)

    def schedule_for(self, case: Case, target: Arch) -> Any:
        """The schedule of `case` on `target`, unless a check names another: one that was tuned, if there is
        one (`tilecheck.tuning.lookup`), else the author's default. None for a kernel without schedules.
        """
        if self.default_schedule is None:
            return None
        if self.tuning:
            from tilecheck.tuning.lookup import tuned_schedule  # reads the spec

            if (found := tuned_schedule(self, case, target)) is not None:
                return found
        return self.own_schedule(case, target)

    def own_schedule(self, case: Case, target: Arch) -> Any:
        """The author's default schedule, whatever was tuned; None for a kernel without schedules."""
        if self.default_schedule is None:
            return None
        return call_by_name(self.default_schedule, self.names(case, target))

    def check_schedule(
        self, schedule: Any, case: Case, target: Arch, pass_configs: Mapping[str, Any] | None = None
    ) -> None:
        """Raises ValueError, with the reason and the values, if `schedule` is not legal for `case` on
        `target`, compiled with `pass_configs` beside those of the spec.
        """
        self.judge(case, target, schedule)(schedule, pass_configs or {})

    def judge(self, case: Case, target: Arch, example: Any) -> Callable[[Any, Mapping[str, Any]], None]:
        """`check_schedule` for very many schedules like `example`: what they share is looked up once."""
        if self.legal is None:
            return lambda *_: None
        legal, wanted = self.legal, _parameters(self.legal)
        names = self.names(case, target, example)
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        if not all(name in names and p.kind in kinds for name, p in wanted.items()):
            # Defaults, `**` or what is not known here: only the whole of the names says what is asked for.
            return lambda each, options: call_by_name(legal, self.names(case, target, each, options))
        knobs = {f.name for f in dataclasses.fields(example)} if dataclasses.is_dataclass(example) else set()
        shared = {name: names[name] for name in wanted if name not in {*knobs, "schedule", PASS_CONFIGS}}
        asked = [name for name in wanted if name in knobs]

        def check(schedule: Any, pass_configs: Mapping[str, Any]) -> None:
            given = {**shared, **{name: getattr(schedule, name) for name in asked}}
            if "schedule" in wanted:
                given["schedule"] = schedule
            if PASS_CONFIGS in wanted:
                given[PASS_CONFIGS] = {**self.pass_configs, **pass_configs}
            legal(**given)

        return check

    def cost_of(self, case: Case) -> Cost | None:
        """The cost model's word on `case`; None for a kernel without one."""
        if self.cost is None:
            return None
        cost = call_by_name(self.cost, self.names(case))
        if not isinstance(cost, Cost):
            raise SpecError(f"kernel {self.name!r}: cost of case {case.id!r} is {cost!r}, not a Cost")
        return cost

    @property
    def cases_of_code(self) -> tuple[Case, ...]:
        """The cases whose code is looked at."""
        return tuple(map(self.case, self.code_cases)) or self.cases[:4]

    @property
    def cases_of_grid(self) -> tuple[Case, ...]:
        """The cases that the grid is tried on."""
        return tuple(map(self.case, self.grid_cases)) or self.cases[:1]

    @property
    def cases_of_tuning(self) -> tuple[Case, ...]:
        """The cases that schedules are searched for."""
        return tuple(map(self.case, self.tuning_cases)) or self.cases[:1]

    @property
    def cases_of_latency(self) -> tuple[Case, ...]:
        """The cases that are timed."""
        return tuple(map(self.case, self.latency_cases))

    def landmarks_of(
        self, case: Case, target: Arch, schedule: Any = None, pass_configs: Mapping[str, Any] | None = None
    ) -> tuple[Landmark, ...]:
        """What the code of `case` promises on `target`, under `schedule` (None: the default one)."""
        if schedule is None:
            schedule = self.schedule_for(case, target)
        promised = {landmark.id: landmark for landmark in common(target)}
        if self.landmarks is not None:
            own = tuple(call_by_name(self.landmarks, self.names(case, target, schedule, pass_configs)))
            for landmark in own:
                if not isinstance(landmark, Landmark):
                    raise SpecError(f"kernel {self.name!r}: {landmark!r} of case {case.id!r} is no Landmark")
            if len({landmark.id for landmark in own}) < len(own):
                ids = ", ".join(landmark.id for landmark in own)
                raise SpecError(f"kernel {self.name!r}: case {case.id!r} has a landmark twice: {ids}")
            promised |= {landmark.id: landmark for landmark in own}
        return tuple(promised.values())

    def shared_memory_of(
        self, case: Case, target: Arch, schedule: Any = None, pass_configs: Mapping[str, Any] | None = None
    ) -> int | None:
        """The bytes of dynamic shared memory a block is said to take; None for a kernel that does not say."""
        if self.shared_memory is None:
            return None
        if schedule is None:
            schedule = self.schedule_for(case, target)
        return int(call_by_name(self.shared_memory, self.names(case, target, schedule, pass_configs)))

    def tiling_of(self, case: Case, target: Arch, schedule: Any = None) -> Tiling | None:
        """How a schedule (None: the default one) cuts `case` up; None for a kernel that does not say."""
        if self.tiling is None:
            return None
        if schedule is None:
            schedule = self.own_schedule(case, target)
        tiling = call_by_name(self.tiling, self.names(case, target, schedule))
        if not isinstance(tiling, Tiling):
            raise SpecError(f"kernel {self.name!r}: tiling of case {case.id!r} is {tiling!r}, not a Tiling")
        return tiling

    def names(
        self,
        case: Case,
        target: Arch | None = None,
        schedule: Any = None,
        pass_configs: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """What functions of this spec may ask for by parameter name (see the module's calling rule)."""
        names: dict[str, Any] = {**case.dims, **case.flags, "dtype": case.dtype, "case": case}
        names[PASS_CONFIGS] = {**self.pass_configs, **(pass_configs or {})}
        if target is not None:
            names["arch"] = target
        if schedule is not None:
            if dataclasses.is_dataclass(schedule):
                knobs = {f.name: getattr(schedule, f.name) for f in dataclasses.fields(schedule)}
                if clash := sorted(knobs.keys() & names.keys()):
                    raise SpecError(
                        f"kernel {self.name!r}: {', '.join(clash)} names both a field of {schedule!r} "
                        f"and a dim or flag of case {case.id!r}"
                    )
                names |= knobs
            names["schedule"] = schedule
        return names

    def case(self, id: str) -> Case:
        """The case with this id; SpecError, with the ids that there are, if there is none."""
        for case in self.cases:
            if case.id == id:
                return case
        raise SpecError(
            f"kernel {self.name!r} has no case {id!r}; it has {', '.join(c.id for c in self.cases)}"
        )

    def test_id(self, case: Case) -> str:
        """How tests name this kernel and case: `flash-attention-tail-q-fp16`."""
        return f"{self.name.replace('_', '-')}-{case.id}"


HOSTILE_DRAWS = (
    "infinite",
    "infinite-last",
    "nan",
    "nan-last",
    "denormal",
    "largest",
    "negative-zero",
    "equal",
    "alternating",
)
"""Draws of what tests forget; `tilecheck.hostile` makes them of normal ones."""

COMMON_DRAWS = ("normal", "integers", "one-hot", "cancelling", *HOSTILE_DRAWS)
"""Draws that every kernel has; `tilecheck.inputs` implements them."""


def call_by_name(function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """Calls `function` with those of `names` that its parameters ask for.

    Raises ValueError where a parameter without a default is not among them.
    """
    wanted = _parameters(function)
    if any(p.kind is p.VAR_KEYWORD for p in wanted.values()):
        return function(**names)
    missing = [
        name
        for name, p in wanted.items()
        if name not in names and p.default is p.empty and p.kind is not p.VAR_POSITIONAL
    ]
    if missing:
        called = getattr(function, "__qualname__", None) or getattr(function, "__name__", repr(function))
        raise SpecError(
            f"{called} asks for {', '.join(missing)}, which is not known here; known: {', '.join(names)}"
        )
    return function(**{name: names[name] for name in wanted if name in names})


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    # Taking a signature apart costs more than most calls of `legal`, of which a grid needs ten thousands.
    try:
        return _remembered_parameters(function)
    except TypeError:  # unhashable
        return inspect.signature(function).parameters


@lru_cache(maxsize=256)
def _remembered_parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters
