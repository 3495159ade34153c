"""The two sides of a comparison: where their kernels come from, and the processes that time them."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tilecheck.git import checked_out
from tilecheck.versions import environment_with, variables_of

TILELANG = "tilelang=="
"""Before the version, a side that is another TileLang under the same kernels."""

INSTALLED = "installed"
"""The side that is the working tree under the TileLang that is installed."""


# Kernels come from the project's folder, which may have a tilecheck of its own, as of its commit: the harness
# is this one for both sides.
_BENCH = "import sys; del sys.path[0]; from tilecheck.ab.bench import main; main(sys.argv[1])"


class SideError(RuntimeError):
    """A side that is not there or does not work; the text is one line."""


class RowError(SideError):
    """One row could not be checked or timed; the side answers on for others."""


class Side:
    """A process with a bench of its own; a context manager.

    label: for people.  python: that runs it.  root: the project's folder.
    """

    def __init__(self, label: str, python: Path, root: Path) -> None:
        self.label = label
        self._command = [str(python), "-c", _BENCH, str(root)]
        self._root = root
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Side":
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._root,
            env=variables_of(self._command[0]),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def rows(self) -> list[str]:
        """The rows that this side can time."""
        return list(self._ask(do="rows")["rows"])

    def prepare(self, rows: Sequence[str]) -> dict[str, str]:
        """Compiles `rows`; what does not compile, with the reason."""
        return dict(self._ask(do="prepare", rows=list(rows))["errors"])

    def check(self, row: str) -> str | None:
        """What is wrong with the row's output; None: nothing."""
        wrong: str | None = self._ask(do="check", row=row)["wrong"]
        return wrong

    def time(self, row: str, method: str | None = None) -> dict[str, Any]:
        """A block of samples: "seconds" (their median), "clock_mhz", "method"."""
        return self._ask(do="time", row=row, method=method)

    def _ask(self, **request: Any) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise SideError(f"{self.label}: its process ended with exit code {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise (RowError if "row" in request else SideError)(f"{self.label}: {answer['error']}")
        return answer


@contextmanager
def side(name: str | None, root: Path, told: Callable[[str], None]) -> Iterator[Side]:
    """The side called `name`: a git ref of the repository that `root` is in, "tilelang==VERSION" for another
    TileLang under the kernels as they are, or None or "installed" for those under the TileLang that is
    installed.

    root: the project's folder, in the working tree.  told: see `environment_with`.
    Raises GitError, in one line, where there is no such ref, and NoEnvironment for a version that cannot be
    had.
    """
    if name is None or name == INSTALLED:
        with Side("working tree", Path(sys.executable), root) as made:
            yield made
    elif name.startswith(TILELANG):
        environment = environment_with(name.removeprefix(TILELANG), told)
        with Side(name, environment.python, root) as made:
            yield made
    else:
        with checked_out(name, root) as folder, Side(name, Path(sys.executable), folder) as made:
            yield made
