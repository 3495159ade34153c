"""Which schedules of a kernel are tested: every pair of values that its grid names, or the full product.

Most faults of a schedule show when two of its values meet (a depth of the pipeline and a number of trips, a
width of the tile and a number of warps), so a set in which every pair of values occurs finds what the full
product finds, with about as many schedules as the two longest knobs have pairs.

The whole product is asked of `legal`, so that it is known, and not guessed, which pairs cannot occur.
Pure: imports neither torch nor TileLang.
"""

import itertools
import math
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilecheck.arches import Arch
from tilecheck.fields import fields_of
from tilecheck.gist import gist
from tilecheck.spec import PASS_CONFIGS, Case, KernelSpec, SpecError

MOST = 150
"""Schedules that `pairwise` gives for a case at most: compiled one after the other, they take ten minutes."""

LARGEST_PRODUCT = 200_000
"""Combinations of a grid, legal or not; `legal` judges as many in a few seconds."""

_WORD = re.compile(r"\w+")

Pair = tuple[tuple[str, Any], tuple[str, Any]]
"""Two knobs, each with a value."""


@dataclass(frozen=True)
class Variant:
    """A schedule under test.

    id: short, and unique in the grid: a letter for each knob, with its value (`m64-n128-k32-s2-t128-w0`).
    schedule: the default one with the grid's values in it; None for a kernel without schedules.
    pass_configs: options of TileLang's passes, set beside those of the spec.
    """

    id: str
    schedule: Any
    pass_configs: Mapping[str, Any]


def fault(error: BaseException, schedule: Any) -> str:
    """What a function of a spec should not have raised, in one line: with where, and for which schedule."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{gist(error)} ({Path(frame.filename).name}:{frame.lineno}) for {schedule}"


class Grid:
    """The grid of `spec` for one of its cases on `arch`; ValueError where it has too many combinations, and
    where it is judged, as `legal` raises anything else.

    knobs: values of each, where they are not those of the spec's `grid`.
    """

    def __init__(
        self, spec: KernelSpec, case: Case, arch: Arch, knobs: Mapping[str, tuple[Any, ...]] | None = None
    ) -> None:
        self.spec, self.case, self.arch = spec, case, arch
        knobs = spec.grid if knobs is None else knobs
        self.knobs = tuple(knobs)
        self._values = tuple(knobs.values())
        self._default = spec.schedule_for(case, arch)
        self._usual = {f.name: getattr(self._default, f.name) for f in fields_of(self._default) if f.init}
        self._judge = spec.judge(case, arch, self._default)
        self._texts = _texts(knobs)
        sizes = [len(values) for values in self._values]
        self._starts = np.cumsum([0, *sizes])  # a value's number among those of all knobs
        self.product = math.prod(sizes)  # numpy's would come round to 0
        if self.product > LARGEST_PRODUCT:
            raise ValueError(
                f"kernel {spec.name!r}: the grid has {' x '.join(map(str, sizes))} = {self.product} "
                f"combinations, more than {LARGEST_PRODUCT}; give its knobs fewer values"
            )

    def full(self) -> tuple[Variant, ...]:
        """Every legal combination, in the grid's order."""
        return tuple(map(self._variant, self._legal))

    def rejected(self) -> Iterator[tuple[Variant, ValueError]]:
        """Every other combination, with what `legal` says to it."""
        yield from ((self._variant(numbers), error) for numbers, error in self._rejected())

    def unexplained(self) -> list[str]:
        """What `legal` says to combinations that it rejects without naming one of their values."""
        named = [knob != PASS_CONFIGS for knob in self.knobs]
        texts = [list(map(str, values)) for values in self._values]
        lines = []
        for numbers, error in self._rejected():
            words = set(_WORD.findall(str(error)))
            if not any(texts[knob][n] in words for knob, n in enumerate(numbers) if named[knob]):
                lines.append(f"{self._variant(numbers).id}: {error}")
        return lines

    def pairwise(self) -> tuple[Variant, ...]:
        """Few legal combinations, with every pair that any legal one has; in the grid's order.

        Raises ValueError where none is legal, and where the pairs take more than `MOST`.
        """
        legal = self._legal
        if not legal:
            raise ValueError(f"{self._where}: no combination of its grid is legal")
        chosen = _cover(self._pairs(legal), int(self._starts[-1]) ** 2)
        if len(chosen) > MOST:
            raise ValueError(
                f"{self._where}: the pairs of its grid take {len(chosen)} schedules, more than {MOST}; "
                "give its knobs fewer values"
            )
        return tuple(self._variant(legal[row]) for row in sorted(chosen))

    def impossible(self) -> tuple[Pair, ...]:
        """Every pair that no legal combination has; a value that is never legal forms one with each other."""
        possible = set(self._pairs(self._legal).ravel().tolist())
        pairs = []
        for (a, knob_a), (b, knob_b) in itertools.combinations(enumerate(self.knobs), 2):
            for (i, x), (j, y) in itertools.product(enumerate(self._values[a]), enumerate(self._values[b])):
                if self._pair_number(a, i, b, j) not in possible:
                    pairs.append(((knob_a, x), (knob_b, y)))
        return tuple(pairs)

    @property
    def _where(self) -> str:
        return f"kernel {self.spec.name!r}, case {self.case.id!r} on {self.arch.name}"

    @cached_property
    def _legal(self) -> list[tuple[int, ...]]:
        return [numbers for numbers in self._combinations() if self._error(numbers) is None]

    def _rejected(self) -> Iterator[tuple[tuple[int, ...], ValueError]]:
        for numbers in self._combinations():
            if error := self._error(numbers):
                yield numbers, error

    def _combinations(self) -> Iterator[tuple[int, ...]]:
        """Each combination, as the numbers of its values among those of their knobs."""
        return itertools.product(*(range(len(values)) for values in self._values))

    def _error(self, numbers: tuple[int, ...]) -> ValueError | None:
        try:
            self._judge(*self._made(numbers))
        except ValueError as error:
            return error
        except Exception as error:
            reason = fault(error, self._made(numbers)[0])
            raise SpecError(
                f"{self._where}: legal raised {reason}; what is not legal it has to reject by ValueError"
            ) from error
        return None

    def _made(self, numbers: tuple[int, ...]) -> tuple[Any, Mapping[str, Any]]:
        given = {k: v[n] for k, v, n in zip(self.knobs, self._values, numbers, strict=True)}
        pass_configs = given.pop(PASS_CONFIGS, {})
        # As `dataclasses.replace` does, which looks the fields up for each.
        return type(self._default)(**{**self._usual, **given}) if given else self._default, pass_configs

    def _variant(self, numbers: tuple[int, ...]) -> Variant:
        words = [texts[n] for texts, n in zip(self._texts, numbers, strict=True)]
        return Variant("-".join(filter(None, words)) or "default", *self._made(numbers))

    def _pair_number(self, knob_a: int, value_a: Any, knob_b: int, value_b: Any) -> Any:
        starts = self._starts
        return (starts[knob_a] + value_a) * starts[-1] + starts[knob_b] + value_b

    def _pairs(self, combinations: list[tuple[int, ...]]) -> NDArray[np.int64]:
        """(combination, two knobs) -> number of the pair of values; a single knob pairs with itself."""
        numbers = np.array(combinations, dtype=np.int64).reshape(len(combinations), len(self.knobs))
        knobs = range(len(self.knobs))
        two = list(itertools.combinations(knobs, 2)) if len(knobs) > 1 else [(0, 0) for _ in knobs]
        columns = [self._pair_number(a, numbers[:, a], b, numbers[:, b]) for a, b in two]
        return np.stack(columns, axis=1) if columns else np.zeros((len(combinations), 1), np.int64)


def _cover(pairs: NDArray[np.int64], largest: int) -> list[int]:
    """Rows of `pairs` in which every number of `pairs` occurs, all numbers below `largest`.

    Greedy: the row that adds most among those that have the pair with the fewest rows left to it.
    """
    rows_with = np.bincount(pairs.ravel(), minlength=largest)
    missing = rows_with > 0
    by_rarity = np.argsort(np.where(missing, rows_with, np.iinfo(np.int64).max), kind="stable")
    chosen = []
    for rarest in by_rarity[: np.count_nonzero(missing)]:
        if missing[rarest]:
            rows = np.nonzero((pairs == rarest).any(axis=1))[0]
            row = int(rows[np.argmax(missing[pairs[rows]].sum(axis=1))])
            missing[pairs[row]] = False
            chosen.append(row)
    return chosen


def _texts(grid: Mapping[str, tuple[Any, ...]]) -> list[list[str]]:
    """How ids spell each value of each knob; values of one knob are spelt differently, without a hyphen."""
    taken: set[str] = set()
    texts = []
    for knob, values in grid.items():
        if knob == PASS_CONFIGS:
            spelt = ["+".join(_option(*option) for option in value.items()) for value in values]
        else:
            letter = _letter(knob, taken)
            taken.add(letter)
            spelt = [letter + re.sub(r"[^A-Za-z0-9.]", "_", _plain(value)) for value in values]
        texts.append([text if text not in spelt[:i] else f"{text}.{i}" for i, text in enumerate(spelt)])
    return texts


def _letter(knob: str, taken: set[str]) -> str:
    """The first letter of the knob's last word that no knob before it has: stages s, swizzle w."""
    letters = (c for c in knob.rpartition("_")[2] if c.isalpha())
    return next((c for c in letters if c not in taken), knob)


def _plain(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _option(name: str, value: Any) -> str:
    """`tl.disable_tma_lower: True` is spelt no_tma_lower, `tl.enable_fast_math: True` fast_math."""
    name = name.removeprefix("tl.")
    for verb, negated in (("disable_", True), ("enable_", False)):
        if name.startswith(verb) and isinstance(value, bool):
            return f"{'no_' if value is negated else ''}{name.removeprefix(verb)}"
    return re.sub(r"[^A-Za-z0-9.=_]", "_", f"{name}={value}")
