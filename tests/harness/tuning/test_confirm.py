"""A winner is kept only if it is faster than the default beyond noise."""

from collections.abc import Sequence

import pytest

from tests.harness.tuning.fakes import timing
from tilecheck.tuning.confirm import LEAST_GAIN, confirmed
from tilecheck.tuning.outcomes import Failure, Timing


def turns(**times: Sequence[float]) -> list[dict[str, Timing]]:
    """Microseconds by name, one for each turn."""
    count = len(next(iter(times.values())))
    return [{name: timing(given[i] * 1e-6) for name, given in times.items()} for i in range(count)]


def test_a_faster_one_is_kept_with_its_gain() -> None:
    found = confirmed(turns(default=[100, 100.2, 99.9], a=[95, 95.1, 94.9], b=[98, 98, 98]), "default")
    assert found.kept and found.winner == "a"
    assert found.median == pytest.approx(95e-6) and found.default == pytest.approx(100e-6)
    assert found.gain == pytest.approx(0.05, abs=0.001) and found.noise == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"default": [100] * 3, "a": [99.8] * 3}, r"\+0.20% is within noise, 0.50%"),
        ({"default": [100, 103, 97], "a": [98, 98, 98]}, r"is within noise, 3.00%"),
        ({"default": [100] * 3, "a": [95, 95, 101]}, r"but not in every turn: -1.00% in one"),
        ({"default": [100] * 3, "a": [110] * 3}, r"-10.00%: slower"),
        ({"default": [100] * 3}, "nothing else is right and has a time"),
    ],
)
def test_one_that_is_not_stays_out(given: dict[str, list[float]], reason: str) -> None:
    found = confirmed(turns(**given), "default")
    assert not found.kept
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.reason)


def test_the_least_gain_is_that_of_two_processes() -> None:
    gain = LEAST_GAIN * 1.1
    assert confirmed(turns(default=[100] * 3, a=[100 * (1 - gain)] * 3), "default").kept


def test_times_taken_differently_are_not_compared() -> None:
    mixed = [{"default": timing(21e-6), "a": timing(17e-6, "graph64")}] * 3
    found = confirmed(mixed, "default")
    assert not found.kept and found.reason == "times taken by events and by graph64 are not compared"


def test_where_the_default_has_no_time_whatever_is_right_is_kept() -> None:
    found = confirmed(turns(a=[95] * 3), "default")
    assert found.kept and found.default is None and found.gain is None


def test_a_default_that_had_a_time_and_fails_in_turn_stays() -> None:
    wrong = Failure("wrong", "it is wrong for long\nY: 3 of 9 elements wrong, at [1]\nrepeat: no")
    found = confirmed(turns(a=[95] * 3), "default", wrong)
    assert not found.kept
    assert found.reason == "the default had a time, and none in turn: wrong: Y: 3 of 9 elements wrong, at [1]"


@pytest.mark.parametrize("given", [[], [{}]])
def test_without_any_time_there_is_no_verdict(given: list[dict[str, Timing]]) -> None:
    with pytest.raises(ValueError, match="nothing was timed in turn"):
        confirmed(given, "default")
