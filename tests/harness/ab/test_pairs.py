import numpy as np
import pytest

from tilecheck.ab.pairs import PAIRS, Pairs, order
from tilecheck.latency.gate import Verdict


def drawn(rng: np.random.Generator, slowdown: float, noise: float, drift: float) -> Pairs:
    """Times of both sides on a machine that drifts from pair to pair, with noise in each block."""
    machine = 1 + drift * rng.standard_normal(PAIRS)
    old = 1e-3 * machine * (1 + noise * rng.standard_normal(PAIRS))
    new = 1e-3 * (1 + slowdown) * machine * (1 + noise * rng.standard_normal(PAIRS))
    return Pairs(tuple(old), tuple(new))


def share(verdict: Verdict, slowdown: float, noise: float, drift: float = 0.0) -> float:
    rng = np.random.default_rng(0)
    found = [drawn(rng, slowdown, noise, drift).verdict for _ in range(4000)]
    return found.count(verdict) / len(found)


def test_no_false_alarm() -> None:
    # Both sides alike: all eight ratios above 1 happens once in 256, and above 1.01 hardly ever.
    assert share(Verdict.SLOWER, 0.0, noise=0.003) < 1e-3
    assert share(Verdict.SAME, 0.0, noise=0.003) > 0.98


def test_a_drift_of_the_machine_is_none_of_the_kernel() -> None:
    assert share(Verdict.SAME, 0.0, noise=0.003, drift=0.1) > 0.98


@pytest.mark.parametrize("offset", [-0.0075, -0.005, 0.005, 0.0075])
def test_a_process_is_none_of_the_kernel(offset: float) -> None:
    """The same code in two processes differs steadily, in every pair: pairs do not average it out."""
    assert share(Verdict.SLOWER, offset, noise=0.0005) == share(Verdict.FASTER, offset, noise=0.0005) == 0
    assert share(Verdict.SAME, offset, noise=0.0005) == 1


@pytest.mark.parametrize("slowdown", [0.025, 0.03, 0.1])
def test_slowdowns_are_found(slowdown: float) -> None:
    assert share(Verdict.SLOWER, slowdown, noise=0.003, drift=0.1) > 0.97
    assert share(Verdict.FASTER, -slowdown, noise=0.003, drift=0.1) > 0.97


def test_noise_is_no_verdict() -> None:
    assert share(Verdict.INCONCLUSIVE, 0.0, noise=0.05) > 0.95


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.009, Verdict.SAME), (1.011, Verdict.SLOWER), (0.989, Verdict.FASTER)]
)
def test_one_percent_is_the_least(ratio: float, verdict: Verdict) -> None:
    assert Pairs((1.0,) * 8, (ratio,) * 8).verdict is verdict


def test_ratio_is_the_median_of_the_pairs() -> None:
    assert Pairs((1.0, 2.0, 4.0), (1.1, 2.4, 4.2)).ratio == pytest.approx(1.1)


def test_blocks_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="2 blocks of the old side and 1 of the new"):
        Pairs((1.0, 2.0), (1.0,))


def test_sides_take_turns_at_going_first() -> None:
    assert [tuple(order(pair)) for pair in range(4)] == [(0, 1), (1, 0), (0, 1), (1, 0)]
