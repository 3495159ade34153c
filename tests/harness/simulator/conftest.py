"""What tests of the simulator share: programs are traced with their lines, diagnostics are checked by line.

A line of a test that a program must be blamed for carries the comment `# blamed`.
"""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilecheck.simulator import SimulationError, Unsupported, simulate
from tilecheck.tracing import tracing


@pytest.fixture(autouse=True)
def _lines_recorded() -> Iterator[None]:
    with tracing():
        yield


@pytest.fixture
def blamed_lines(request: pytest.FixtureRequest) -> list[int]:
    lines, first = inspect.getsourcelines(request.function)
    return [first + i for i, line in enumerate(lines) if "# blamed" in line]


@pytest.fixture
def blames(request: pytest.FixtureRequest, blamed_lines: list[int]) -> Callable[..., str]:
    """Runs a program that must be at fault, at the blamed lines and nowhere else; returns the message."""

    def check(prim_func: Any, arguments: list[Any], kind: str, *words: str, **options: Any) -> str:
        with pytest.raises(SimulationError) as caught:
            simulate(prim_func, arguments, **options)
        findings = caught.value.findings
        assert {f.kind for f in findings} == {kind}, str(caught.value)
        assert sorted({f.location.line for f in findings}) == blamed_lines, str(caught.value)
        assert {Path(f.location.file).name for f in findings} == {request.path.name}
        for word in words:
            assert word in str(caught.value)
        return str(caught.value)

    return check


@pytest.fixture
def refuses(request: pytest.FixtureRequest, blamed_lines: list[int]) -> Callable[..., None]:
    """Runs a program that must be refused, naming `construct` and the blamed line."""

    def check(prim_func: Any, arguments: list[Any], *construct: str) -> None:
        with pytest.raises(Unsupported) as caught:
            simulate(prim_func, arguments)
        message = str(caught.value)
        for part in construct:
            assert part in message
        assert f"{request.path.name}:{blamed_lines[0]}:" in message, message

    return check
