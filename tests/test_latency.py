"""How long does every kernel take, and longer than before?"""

from typing import Any

import pytest

from tilecheck.plugin import KernelCase, RowStopwatch

pytestmark = pytest.mark.latency


def test_latency(latency_case: KernelCase, stopwatch: RowStopwatch, benchmark: Any) -> None:
    stopwatch.measure(latency_case, benchmark)
