"""A process that may hang or die, and answers requests until then: lines of JSON in, lines of JSON out."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import IO, Any

from tilecheck.gist import telling_line
from tilecheck.watch import watched


class Hung(Exception):
    """No answer in time; the process has been ended."""


class Died(Exception):
    """The process ended; the text says how, and what it said last."""


class Child:
    """Starts `python -m MODULE FD ARGUMENT` when it is first asked, and again after it hung or died.

    environment: what is set besides the caller's.
    One thread at a time asks and ends it; any other may `kill` it, upon which the one that asks gets `Died`.
    """

    def __init__(self, module: str, argument: str, environment: Mapping[str, str] | None = None) -> None:
        self._command: Sequence[str] = (sys.executable, "-m", module)
        self._argument = argument
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: IO[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._watch = ExitStack()

    def ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        """The answer; raises Hung after `seconds`, and Died."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._line(time.monotonic() + seconds)
        except BrokenPipeError:
            line = b""  # it died since the last answer
        except Hung:
            self.end()
            raise
        if not line:
            how = self._ending()
            self.end()
            raise Died(how)
        return json.loads(line)

    def kill(self) -> None:
        """Ends the process, with all that it started."""
        if (process := self._process) is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Ends the process, and lets go of all that is left of it."""
        process, self._process = self._process, None
        if process is None:
            return
        self._watch.close()
        for stream in (process.stdin, self._answers, self._said):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _start(self) -> None:
        read, write = os.pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, closed by `end`
        with ExitStack() as left:
            start = left.enter_context(watched())
            self._process = start(
                [*self._command, str(write), self._argument],
                pass_fds=[write],
                stdin=subprocess.PIPE,
                stdout=self._said,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    **self._environment,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                },
            )
            self._watch = left.pop_all()  # which is left by `end`
        os.close(write)
        self._answers = os.fdopen(read, "rb", buffering=0)
        self._received = b""

    def _line(self, deadline: float) -> bytes:
        """One line of the answers; b"" at their end."""
        assert self._answers is not None
        while b"\n" not in self._received:
            if not select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Hung("it does not answer")
            chunk = self._answers.read(1 << 16)
            if not chunk:
                return b""
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _ending(self) -> str:
        process, said = self._process, self._said
        if process is None or said is None:
            return "it was ended"
        code = process.wait()
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        size = said.seek(0, os.SEEK_END)
        said.seek(max(0, size - 4000))
        last = said.read().decode(errors="replace").strip()
        return f"{how}: {telling_line(last)}" if last else how
