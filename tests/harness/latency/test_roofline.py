import pytest

from tilecheck.arches import arch
from tilecheck.latency.monitor import GpuFacts
from tilecheck.latency.roofline import Roof, roof
from tilecheck.spec import Cost

H200 = GpuFacts("NVIDIA H200", 132, 1.98e9, 4.9e12, 60 << 20, "580.0")


def test_roof_of_a_gpu() -> None:
    # 989.4 TFLOP/s is at 1830 MHz; at 1980 it is 1070.5.
    assert roof(H200, arch("sm_90a"), "bfloat16").flops == pytest.approx(989.4e12 * 1980 / 1830, rel=1e-3)
    assert roof(H200, arch("sm_90a"), "float32").flops == pytest.approx(989.4e12 * 1980 / 1830 / 2, rel=1e-3)
    assert roof(H200, arch("sm_90a"), "float8_e4m3fn").flops == pytest.approx(2 * 1070.5e12, rel=1e-3)


def test_no_roof_for_what_is_not_rated() -> None:
    with pytest.raises(ValueError, match="no roof for float64"):
        roof(H200, arch("sm_90a"), "float64")


ROOF = Roof(flops=1000e12, bytes=5e12, cache=50_000_000)


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [
        (Cost(flops=2e12, bytes=1e9), 2e-3),  # bound by tensor cores
        (Cost(flops=1e12, bytes=10e9), 2e-3),  # bound by memory
    ],
)
def test_share_is_least_time_over_time(cost: Cost, seconds: float) -> None:
    assert ROOF.share(cost, seconds) == pytest.approx(1.0)
    assert ROOF.share(cost, 2 * seconds) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("cost", "seconds", "said"),
    [
        (Cost(flops=2e12, bytes=0), 2.01e-3, None),
        (Cost(flops=2e12, bytes=0), 1.99e-3, r"^1005 TFLOP/s are over the peak of 1000$"),
        (Cost(flops=0, bytes=1.05e9), 0.2e-3, None),  # L2 keeps 50 MB of it
        (Cost(flops=0, bytes=1.05e9), 0.19e-3, r"^5263 GB/s past L2 are over the peak of 5000$"),
    ],
)
def test_impossible_times(cost: Cost, seconds: float, said: str | None) -> None:
    if said is None:
        assert ROOF.impossible(cost, seconds) is None
    else:
        assert (ROOF.impossible(cost, seconds) or "") == said.strip("^$")
