"""What does equality with the reference not say of vector_add? What it refuses: its sums are exact."""

import re

import pytest

from kernels.vector_add import SPEC, Schedule
from tilecheck.arches import arch
from tilecheck.spec import Case

pytestmark = pytest.mark.correctness


@pytest.mark.parametrize(
    ("schedule", "N", "reason"),
    [
        (Schedule(96, 48), 1000, "multiple of 32 up to 1024"),
        (Schedule(2048, 2048), 1000, "multiple of 32 up to 1024"),
        (Schedule(1024, 0), 1000, "multiple of 32 up to 1024"),
        (Schedule(160, 128), 1000, "positive multiple of threads"),
        (Schedule(0, 128), 1000, "positive multiple of threads"),
        (Schedule(128 * 65, 128), 1000, "65 elements a thread"),
        (Schedule(32, 32), 2**36 + 1, "2147483649 blocks"),
    ],
)
def test_what_would_not_compile_or_launch_is_refused(schedule: Schedule, N: int, reason: str) -> None:
    case = Case("any", {"N": N}, "float32", why="what is legal depends on N only")
    with pytest.raises(ValueError, match=f"{re.escape(reason)}.*{re.escape(str(schedule))}"):
        SPEC.check_schedule(schedule, case, arch("sm_90a"))
