"""What ncu prints is read right; no counters are no traffic."""

from itertools import pairwise

import pytest

from tilecheck.single import LAUNCHED, ToolError
from tilecheck.traffic import OPTIONS, READ, WRITTEN, NoCounters, Traffic, measured

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
)


ONE, OTHER = "tilecheck_traffic_1", "tilecheck_traffic_10"


def row(id: int, metric: str, value: str, unit: str = "byte", symbol: str = ONE) -> str:
    launch = f'"77","python3.12","127.0.0.1","{symbol}_kernel","1","7","(128, 1, 1)","(65536, 1, 1)"'
    return f'"{id}",{launch},"0","9.0","Command line profiler metrics","{metric}","{unit}","{value}"\n'


OUTPUT = (
    "==PROF== Connected to process 77 (/usr/bin/python3.12)\n"
    '==PROF== Profiling "tilecheck_traffic_1_kernel" - 0: 0%....50%....100% - 1 pass\n'
    f"{LAUNCHED} vector-add-large\n"
    "==PROF== Disconnected from process 77\n"
    + HEADER
    + row(0, "dram__bytes_read.sum", "2,147,504,896")
    + row(0, "dram__bytes_write.sum", "1,069,318,144")
)


def test_bytes_are_read_and_written() -> None:
    assert measured(OUTPUT, 0, ONE) == Traffic(2147504896.0, 1069318144.0)
    assert measured(OUTPUT, 0, ONE).bytes == 3216823040.0


def test_kernels_of_one_launch_count_together() -> None:
    more = OUTPUT + row(1, "dram__bytes_read.sum", "1,000") + row(1, "dram__bytes_write.sum", "0")
    assert measured(more, 0, ONE) == Traffic(2147505896.0, 1069318144.0)


def test_counters_that_may_not_be_read_are_told_apart() -> None:
    text = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance"
    with pytest.raises(NoCounters, match="ERR_NVGPUCTRPERM"):
        measured(f"{LAUNCHED} vector-add-large\n{text}\n", 1, ONE)


@pytest.mark.parametrize(
    "output",
    [
        "",
        OUTPUT.replace(LAUNCHED, "Traceback"),
        OUTPUT.replace("dram__bytes_write.sum", "other"),
        OUTPUT.replace("1,069,318,144", "n/a"),
        OUTPUT.replace('"byte"', '"Mbyte"'),
        f"{LAUNCHED} x\n==WARNING== No kernels were profiled.\n",
    ],
    ids=["nothing", "not-launched", "one-metric", "no-number", "other-unit", "no-kernel"],
)
def test_output_without_both_numbers_is_an_error(output: str) -> None:
    with pytest.raises(ToolError, match=r"measured nothing|ncu gives"):
        measured(output, 0, ONE)


def test_launches_of_one_run_are_told_apart() -> None:
    both = OUTPUT + "".join(row(1, m, "1,000", symbol=OTHER) for m in (READ, WRITTEN))
    assert measured(both, 0, ONE) == Traffic(2147504896.0, 1069318144.0)
    assert measured(both, 0, OTHER) == Traffic(1000.0, 1000.0)
    with pytest.raises(ToolError, match="measured nothing"):
        measured(OUTPUT, 0, OTHER)


def test_only_the_programs_kernels_are_profiled_and_no_clock_is_held_down() -> None:
    given = dict(pairwise(OPTIONS))
    assert given["--kernel-name"] == "regex:^tilecheck_traffic_"
    assert given["--clock-control"] == "none"
