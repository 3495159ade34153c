"""The noise of a row between runs, of which there are few."""

import numpy as np
import pytest

from tilecheck.latency.noise import Noise, machine_noise, noise_between, noise_of


def test_noise_is_unbiased_for_few_runs() -> None:
    rng = np.random.default_rng(7)
    for runs in (2, 3, 5):
        found = [noise_between(list(rng.normal(1, 0.01, runs))) for _ in range(4000)]
        assert np.mean(found) == pytest.approx(0.01, rel=0.03)


def test_the_noise_of_one_run_is_none() -> None:
    with pytest.raises(ValueError, match="needs two of them, and there is 1"):
        noise_between([1.0])


def test_the_vendor_is_the_one_whose_time_the_rows_follows() -> None:
    medians = [100e-6, 102e-6, 101e-6]
    vendors = [
        {"fast": 50e-6, "like it": 200e-6, "gone": 1e-6},
        {"fast": 50e-6, "like it": 204e-6, "gone": 1e-6},
        {"fast": 50e-6, "like it": 202e-6},
    ]
    found = noise_of(medians, vendors)
    assert found.vendor == "like it"
    assert found.ratio == pytest.approx(0, abs=1e-12)
    assert found.time == found.vendors_time == pytest.approx(noise_between([100, 102, 101]))


@pytest.mark.parametrize("vendors", [[{}, {}], [{"then": 1e-6}, {"now": 1e-6}]])
def test_without_a_vendor_in_all_runs_there_is_the_time(vendors: list[dict[str, float]]) -> None:
    found = noise_of([100e-6, 101e-6], vendors)
    assert (found.vendor, found.ratio, found.vendors_time) == ("", None, None)


def test_machines_differ_by_what_nine_of_ten_rows_stay_below() -> None:
    assert machine_noise([Noise(0.001)]) == 0.001
    assert machine_noise([Noise(0.001), Noise(0.003), Noise(0.002)]) == 0.003
    assert machine_noise([Noise(n / 1000) for n in (9, 1, 8, 2, 7, 3, 6, 4, 5, 50)]) == 0.009
