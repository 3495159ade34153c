"""The search finds the first bad one, asks few, and says when those that cannot be asked hide it."""

import math
from typing import Any

import pytest

from tilecheck.bisecting.search import Answer, first_bad

hypothesis = pytest.importorskip("hypothesis", reason="pip install -e '.[test]'")
given, st = hypothesis.given, hypothesis.strategies


@given(count=st.integers(2, 300), data=st.data())
def test_first_bad_is_found_in_few_questions(count: int, data: Any) -> None:
    first = data.draw(st.integers(1, count - 1))
    asked: list[int] = []

    def ask(number: int) -> Answer:
        asked.append(number)
        return "bad" if number >= first else "good"

    found = first_bad(count, ask)
    assert found.suspects == (first,)
    assert len(asked) == found.asked <= math.ceil(math.log2(count))
    assert not {0, count - 1} & set(asked)


@given(count=st.integers(2, 40), data=st.data())
def test_skipped_ones_never_hide_a_lie(count: int, data: Any) -> None:
    first = data.draw(st.integers(1, count - 1))
    broken = data.draw(st.sets(st.integers(1, count - 1)))
    asked: list[int] = []

    def ask(number: int) -> Answer:
        asked.append(number)
        return "skip" if number in broken else "bad" if number >= first else "good"

    found = first_bad(count, ask)
    assert first in found.suspects
    assert set(found.suspects[:-1]) <= broken
    assert len(set(asked)) == len(asked)


def test_ends_alone() -> None:
    assert first_bad(2, lambda number: pytest.fail("nothing to ask")).suspects == (1,)
    with pytest.raises(ValueError, match="1 candidates"):
        first_bad(1, lambda number: "good")
