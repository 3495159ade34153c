"""The clock by which samples that were taken on a GPU enter pytest-benchmark.

It reads a clock before and after each call of its target. This one shows 0 before, and after it the sample
that the target has laid out, so that its statistics are those of the samples.
"""

from collections.abc import Callable, Iterable


class SampleClock:
    """A clock of two phases."""

    __name__ = "samples"  # by which pytest-benchmark stores it

    def __init__(self) -> None:
        self._laid_out = 0.0

    def __call__(self) -> float:
        shown, self._laid_out = self._laid_out, 0.0
        return shown

    def player(self, samples: Iterable[float]) -> Callable[[], None]:
        """A target that takes these times, in seconds, one a call, and no time in any call after these: of
        pytest-benchmark's profiler.
        """
        left = iter(samples)

        def play() -> None:
            self._laid_out = next(left, 0.0)

        return play


CLOCK = SampleClock()
