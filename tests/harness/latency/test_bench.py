"""What is timed of a row, with a device, a compiler and a timer that are made up; the launches are real."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

from tilecheck import launch
from tilecheck.arches import ARCHES
from tilecheck.latency.bench import Bench
from tilecheck.latency.monitor import GpuFacts
from tilecheck.latency.timing import Samples, TimingError
from tilecheck.spec import Case, Cost, KernelSpec

H200 = GpuFacts("NVIDIA H200", 132, 1.98e9, 4.8e12, 60 << 20, "580.65")


class Device:
    name, arch, lost, target = "cuda", ARCHES["sm_90a"], None, {"kind": "cuda", "arch": "sm_90a"}
    torch_device = torch.device("cpu")


class Timer:
    """Launches each contender once, and says that it took `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.launched: dict[str, int] = {}
        self.method: str | None = None

    def time_in_turn(
        self, contenders: Mapping[str, Sequence[Callable[[], object]]], method: str | None = None
    ) -> dict[str, Samples]:
        self.method = method
        for name, launches in contenders.items():
            for each in launches:
                each()
            self.launched[name] = len(launches)
        return {name: Samples((self.seconds,) * 3, "events", 1980.0) for name in contenders}


def scaled(n: int, dtype: str) -> Any:
    import tilelang.language as T

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as b:
            for i in T.Parallel(128):
                Y[b * 128 + i] = 2 * X[b * 128 + i]

    return main


def spec(cost: Callable[..., Cost] | None) -> KernelSpec:
    cases = (Case("row-fp16", {"n": 4096}, "float16", why="a row"),)
    vendor = {"torch": lambda X: 2 * X}
    return KernelSpec("scaled", scaled, lambda X: 2 * X, cases, cost=cost, vendor=vendor)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], tuple[Bench, Timer]]:
    class Kernel:
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def __call__(self, X: torch.Tensor, Y: torch.Tensor) -> None:
            torch.mul(X, 2, out=Y)

        def get_kernel_source(self) -> str:
            return f'#line 3 "{self.folder}/scaled.py"\n__global__ void main_kernel() {{}}'

    folders = iter("abcdef")
    monkeypatch.setattr(launch, "compile_program", lambda program, target: Kernel(next(folders)))

    def make(seconds: float) -> tuple[Bench, Timer]:
        timer = Timer(seconds)
        return Bench(Device(), timer, H200, lambda: [7, 8]), timer  # type: ignore[arg-type]

    return make


def test_ours_and_the_vendors_are_timed_and_the_vendors_called_by_name(
    bench: Callable[[float], tuple[Bench, Timer]],
) -> None:
    made, timer = bench(10e-6)
    described = spec(lambda n: Cost(flops=n * 1e3, bytes=n * 4))
    timed = made.time(described, described.cases[0], 0, "graph64")
    assert timer.method == "graph64"
    assert set(timer.launched) == {"tilecheck", "torch"}
    assert list(timed.vendors) == ["torch"]
    assert timed.ours.median == timed.vendors["torch"].median == 10e-6
    assert timed.rates is not None
    assert timed.rates.tflops == pytest.approx(4096e3 / 10e-6 / 1e12)
    assert timed.rates.gbs == pytest.approx(4096 * 4 / 10e-6 / 1e9)
    assert timed.rates.roofline is not None and 0 < timed.rates.roofline < 1
    assert made.strangers() == 2


def test_the_hash_of_the_source_knows_no_paths(bench: Callable[[float], tuple[Bench, Timer]]) -> None:
    made, _ = bench(10e-6)
    described = spec(None)
    first, second = (made.time(described, described.cases[0], 0) for _ in range(2))
    assert first.source_hash == second.source_hash != ""
    assert first.rates is None


def test_a_time_above_the_peak_is_an_error(bench: Callable[[float], tuple[Bench, Timer]]) -> None:
    made, _ = bench(1e-6)
    described = spec(lambda n: Cost(flops=1e12, bytes=0))
    with pytest.raises(TimingError, match=r"an impossible time of 1 us: 1e\+06 TFLOP/s are over the peak"):
        made.time(described, described.cases[0], 0)
