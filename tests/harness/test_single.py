"""Whoever runs kernels under a tool holds the GPU while they run, and not while they are compiled."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tilecheck.single import ToolError, run_under

TOOL = """
import sys, time
from pathlib import Path

folder, held = Path(sys.argv[-1]).parent, Path(sys.argv[1])
print("compiles", held.exists())
(folder / "ready").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
print("runs", held.exists())
"""


def test_the_gpu_is_held_while_the_kernels_run(tmp_path: Path) -> None:
    held = tmp_path / "held"

    @contextmanager
    def alone() -> Iterator[None]:
        held.touch()
        yield
        held.unlink()

    tool = [sys.executable, "-c", TOOL, str(held)]
    assert run_under(tool, [], 60, alone=alone) == (0, "compiles False\nruns True\n")
    assert run_under(tool, [], 60) == (0, "compiles False\nruns False\n")


def test_a_process_that_dies_is_not_waited_for() -> None:
    assert run_under([sys.executable, "-c", "raise SystemExit('no GPU')"], [], 60) == (1, "no GPU\n")


@pytest.mark.parametrize(
    "says", ["", "(Path(sys.argv[-1]).parent / 'ready').touch()"], ids=["compiles", "runs"]
)
def test_a_process_that_hangs_is_ended(says: str) -> None:
    hangs = f"import sys, time; from pathlib import Path; {says or 'pass'}; time.sleep(60)"
    with pytest.raises(ToolError, match=r"took longer than 0\.5 s"):
        run_under([sys.executable, "-c", hangs], [], 0.5)
