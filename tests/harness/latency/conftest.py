"""Files of times as pytest-benchmark writes them, made up."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

TOOLCHAIN = {"tilelang": "0.1.15", "torch": "2.11.0", "cuda": "12.8", "driver": "580.65"}

RunFile = Callable[..., Path]


def benchmark(id: str, median: float, vendor: float | None, extra: Mapping[str, Any]) -> dict[str, Any]:
    """One row. id: kernel and case, joined by a colon."""
    kernel, _, case = id.partition(":")
    row = f"{kernel.replace('_', '-')}-{case}"
    return {
        "group": kernel,
        "name": f"test_latency[{row}]",
        "fullname": f"tests/test_latency.py::test_latency[{row}]",
        "params": {"latency_case": row},
        "param": row,
        "extra_info": {
            "kernel": kernel,
            "case": case,
            "method": "events",
            "clock_mhz": 1980.0,
            "toolchain": TOOLCHAIN,
            "vendors": {} if vendor is None else {"cublas": vendor},
            "throttled": [],
            "schedule": "Schedule(stages=2)",
            "source_hash": "abc",
            **extra,
        },
        "options": {},
        "stats": {
            "min": median * 0.99,
            "max": median * 1.1,
            "mean": median,
            "stddev": median * 0.001,
            "rounds": 100,
            "median": median,
            "iqr": median * 0.002,
            "q1": median * 0.999,
            "q3": median * 1.001,
            "iqr_outliers": 1,
            "stddev_outliers": 2,
            "outliers": "2;1",
            "ld15iqr": median * 0.995,
            "hd15iqr": median * 1.005,
            "ops": 1 / median,
            "total": 100 * median,
            "data": [median] * 3,
            "iterations": 1,
        },
    }


@pytest.fixture
def run_file(tmp_path: Path) -> RunFile:
    """Writes a file of times: name, then medians by row, as kernel:case; further keys replace its parts."""
    taken = iter(range(10, 60))

    def write(
        name: str,
        rows: Mapping[str, float],
        *,
        gpu: str = "NVIDIA H200",
        vendor: float | None = 90e-6,
        extra: Mapping[str, Any] = {},
        **parts: Any,
    ) -> Path:
        content = {
            "machine_info": {"gpu": gpu},
            "commit_info": {"id": "0123456789abcdef", "time": "2026-01-01", "dirty": False},
            "benchmarks": [benchmark(id, median, vendor, extra) for id, median in rows.items()],
            "datetime": f"2026-01-01T00:00:{next(taken)}+00:00",
            "version": "5.3.1",
            "tilecheck": {"failed": [], "strangers": 0},
            **parts,
        }
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
        return path

    return write
