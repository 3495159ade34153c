"""Slow drift: the distributions are exact, flat histories stay quiet, and 1 % a night is found."""

import itertools

import numpy as np
import pytest

from tilecheck.nightly import drift
from tilecheck.nightly.drift import FALSE_ALARMS, drifts, kendall, kendall_chance, rank_sum, rank_sum_chance

ROWS = 20


def histories(
    seed: int, count: int, nights: int, noise: str = "normal", spread: float = 0.003
) -> list[np.ndarray]:
    """Times of `ROWS` rows that do not drift, in seconds."""
    rng = np.random.default_rng(seed)
    size = (count, ROWS, nights)
    drawn = rng.standard_t(2, size) if noise == "heavy tails" else rng.standard_normal(size)
    return list(1e-4 * np.exp(spread * drawn))


def found_in(times: np.ndarray, **given: float) -> list[drift.Drift]:
    return drifts({f"row-{number}": list(row) for number, row in enumerate(times)}, **given)


@pytest.mark.parametrize("nights", [3, 6])
def test_chances_of_the_slope_are_those_of_all_orders(nights: int) -> None:
    orders = np.array(list(itertools.permutations(range(nights))), float)
    statistics = kendall(orders)
    for value in np.unique(statistics):
        assert kendall_chance(nights, value) == pytest.approx((statistics >= value).mean())
    assert kendall_chance(nights, statistics.max() + 1) == 0.0


def test_chances_of_the_step_are_those_of_all_orders() -> None:
    orders = np.array(list(itertools.permutations(range(7))), float)
    statistics = rank_sum(orders[:, :4], orders[:, 4:])
    for value in np.unique(statistics):
        assert rank_sum_chance(4, 3, value) == pytest.approx((statistics >= value).mean())


@pytest.mark.parametrize("noise", ["normal", "heavy tails"])
def test_false_alarms_are_no_more_than_stated(noise: str) -> None:
    # At 1 in 20 in place of 1 in 1000, so that there are some to count; and with a spread that the least
    # change does not hide.
    stated, count = 0.05, 200
    alarms = sum(bool(found_in(times, false_alarms=stated)) for times in histories(1, count, 30, noise, 0.1))
    # Over 20 of 200 would come by chance once in 500 times if the rate were just as stated.
    assert 0 < alarms <= 20


def test_flat_histories_are_quiet() -> None:
    assert [len(found_in(times)) for times in histories(2, 50, 30)] == [0] * 50


@pytest.mark.parametrize("flat", [0, 5, 20], ids=["ten nights in all", "after five", "after twenty"])
def test_one_percent_a_night_for_ten_nights_is_found(flat: int) -> None:
    slope = np.concatenate([np.zeros(flat), 0.01 * np.arange(1, 11)])
    found = 0
    for times in histories(3, 40, flat + 10):
        times[7] *= np.exp(slope)
        rows = [each.row for each in found_in(times)]
        assert set(rows) <= {"row-7"}
        found += rows == ["row-7"]
    assert found >= 38


def test_what_is_said_of_a_slope() -> None:
    (times,) = histories(4, 1, 20)
    times[0] *= np.exp(0.003 * np.arange(20))
    (found,) = found_in(times)
    assert found.row == "row-0" and found.kind == "slope"
    assert found.total == pytest.approx(0.003 * (found.nights - 1), rel=0.3)
    assert found.chance < FALSE_ALARMS / ROWS
    assert str(found).startswith("+") and " % a night over " in str(found)


def test_small_step_is_found_as_one() -> None:
    (times,) = histories(5, 1, 30)
    times[3, 20:] *= 1.012  # inside the band of any single night
    (found,) = found_in(times)
    assert (found.row, found.kind) == ("row-3", "step")
    assert found.total == pytest.approx(0.012, abs=0.004)


def test_rows_that_become_faster_or_drift_by_next_to_nothing_are_no_finding() -> None:
    (times,) = histories(6, 1, 30)
    times[0] *= np.exp(-0.01 * np.arange(30))
    times[1] = 1e-4 * np.exp(0.0002 * np.arange(30))  # perfectly clear, and 0.6 % in a month
    assert found_in(times) == []


def test_few_nights_say_nothing() -> None:
    assert drifts({"row": [1e-4 * 1.1**night for night in range(9)]}) == []
    assert drifts({}) == []
