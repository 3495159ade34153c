"""Compiles candidates in several processes, checks and times them in one, which is ended when it hangs."""

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilecheck.tuning.autotuner import Stopped
from tilecheck.tuning.child import Child, Died, Hung
from tilecheck.tuning.outcomes import BenchError, Failure, Timing
from tilecheck.tuning.space import Candidate
from tilecheck.tuning.worker import Task

if TYPE_CHECKING:
    from tilecheck.codegen import Facts

COMPILE_SECONDS = 120.0
MEASURE_SECONDS = 60.0
"""For inputs, reference, launch and times."""

START_SECONDS = 120.0
"""For imports and the CUDA context."""

IN_TURN_SECONDS = 600.0
BUDGET = 0.3
"""Seconds of samples for one candidate."""


class ProcessBench:
    """Candidates of one task; a context manager, which ends all processes.

    compilers: how many processes compile.  kernels: TileLang's cache for them, a private folder: what lies
    there is run.
    """

    def __init__(self, task: Task, compilers: int, kernels: Path) -> None:
        environment = {
            "TILELANG_CACHE_DIR": str(kernels),
            "TILELANG_AUTO_TUNING_DISABLE_CACHE": "1",
            "TILELANG_PRINT_ON_COMPILATION": "0",
        }

        def child() -> Child:
            return Child("tilecheck.tuning.serve", task.as_text(), environment)

        self._compilers = [child() for _ in range(compilers)]
        self._free: queue.Queue[Child] = queue.Queue()
        for each in self._compilers:
            self._free.put(each)
        self._threads = ThreadPoolExecutor(compilers)
        self._ahead: dict[str, Future[Failure | None]] = {}
        self._timer = child()
        self._started: set[Child] = set()
        self._killed: set[Child] = set()
        self._preparing: threading.Thread | None = None
        self._stopped = threading.Event()
        self._broken: str | None = None

    def __enter__(self) -> "ProcessBench":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._prepared()
        self._threads.shutdown(cancel_futures=True)
        for each in (*self._compilers, self._timer):
            each.end()

    def prepare(self) -> None:
        """Starts the process that times, beside the first compiles; if it does not start, whoever asks it
        first is told.
        """

        def start() -> None:
            with suppress(BenchError, Stopped):
                self._start(self._timer)

        self._preparing = threading.Thread(target=start, daemon=True)
        self._preparing.start()

    def _prepared(self) -> None:
        """Once `prepare` is through: one thread at a time may ask a process."""
        while (thread := self._preparing) is not None:
            if self._stopped.is_set():
                self._timer.kill()
            thread.join(0.1)
            if not thread.is_alive():
                self._preparing = None

    def compile(self, candidate: Candidate) -> Failure | None:
        """None where it compiles; threads may ask at the same time."""
        begun = self._ahead.pop(candidate.key, None)
        return self._compile(candidate) if begun is None or begun.cancel() else begun.result()

    def compile_ahead(self, candidates: Sequence[Candidate]) -> None:
        """Begins to compile what will be asked for next, beside what is timed, and returns at once."""
        for candidate in candidates:
            if candidate.key not in self._ahead:
                self._ahead[candidate.key] = self._threads.submit(self._compile, candidate)

    def _compile(self, candidate: Candidate) -> Failure | None:
        with self._compiler() as child:
            answer = self._ask(child, {"do": "compile", "values": candidate.values}, COMPILE_SECONDS)
        return answer if isinstance(answer, Failure) else None

    def facts(self, candidate: Candidate) -> "Facts | Failure":
        """What the compiler makes of a candidate; threads may ask at the same time. Raises NoToolchain."""
        from tilecheck.codegen import Facts, NoToolchain

        with self._compiler() as child:
            answer = self._ask(child, {"do": "facts", "values": candidate.values}, COMPILE_SECONDS)
        if isinstance(answer, Failure):
            return answer
        if "none" in answer:
            raise NoToolchain(answer["none"])
        return Facts(**answer["facts"])

    def measure(self, candidate: Candidate) -> Timing | Failure:
        """The time of a candidate that is right."""
        request = {"do": "measure", "values": candidate.values, "budget": BUDGET}
        answer = self._ask(self._timer, request, MEASURE_SECONDS)
        if isinstance(answer, Failure):
            if answer.kind != "not timed":
                self._end(self._timer)  # who knows what it wrote, and where
            return answer
        return Timing(**answer["timing"])

    def in_turn(
        self, candidates: Sequence[Candidate], repeats: int, budget: float, seeds: Sequence[int]
    ) -> "tuple[list[dict[str, Timing]], dict[str, Failure]]":
        """Times in turn, by id, `repeats` times; and the candidates that are wrong under one of the seeds."""
        failed: dict[str, Failure] = {}
        for candidate in candidates:
            for seed in seeds:
                request = {"do": "check", "values": candidate.values, "seed": seed}
                answer = self._ask(self._timer, request, MEASURE_SECONDS)
                if isinstance(answer, Failure):
                    self._end(self._timer)
                    failed[candidate.id] = answer
                    break
        lasting = {c.id: c.values for c in candidates if c.id not in failed}
        if not lasting:
            return [], failed
        request = {"do": "in turn", "values": lasting, "repeats": repeats, "budget": budget}
        answer = self._ask(self._timer, request, IN_TURN_SECONDS)
        if isinstance(answer, Failure):  # of whom, nobody can say
            raise BenchError(f"{', '.join(lasting)} in turn: {answer.kind}: {answer.reason}")
        turns = [{name: Timing(**timing) for name, timing in turn.items()} for turn in answer["turns"]]
        return turns, failed

    def stop(self) -> None:
        """Ends what is going on, from any thread; whoever asks then gets `Stopped`, until `reopen`."""
        self._stopped.set()
        for each in (*self._compilers, self._timer):
            each.kill()
            self._killed.add(each)

    def reopen(self) -> None:
        """After `stop`, or a search that ended by itself; what was begun ahead is given up."""
        ahead, self._ahead = self._ahead, {}
        # One that runs cannot be cancelled; `stop` ends it, and whatever comes after it here.
        if not all(begun.cancel() or begun.done() for begun in ahead.values()):
            self.stop()
            wait(ahead.values())
        if self._stopped.is_set():
            self._prepared()
        self._stopped.clear()

    @contextmanager
    def _compiler(self) -> Iterator[Child]:
        child = self._free.get()
        try:
            yield child
        finally:
            self._free.put(child)

    def _ask(self, child: Child, request: Mapping[str, Any], seconds: float) -> Any:
        """The answer, or a Failure; raises Stopped and BenchError."""
        if child is self._timer:
            self._prepared()
        self._check()
        if child in self._killed:  # by `stop`: no candidate's fault, least of all of the one that is next
            self._killed.discard(child)
            self._end(child)
        if child not in self._started:
            self._start(child)
        try:
            answer = child.ask(request, seconds)
        except Hung:
            self._end(child)
            step = "compile" if child in self._compilers else "launch"
            return Failure("timeout", f"no end of the {step} within {seconds:g} s")
        except Died as error:
            self._end(child)
            self._check()
            return Failure("died", str(error))
        return Failure(**answer["failure"]) if "failure" in answer else self._whole(answer)

    def _start(self, child: Child) -> None:
        """So that what keeps a process from starting is not taken for a candidate's fault."""
        try:
            self._whole(child.ask({"do": "open", "stand": child is self._timer}, START_SECONDS))
        except (Hung, Died) as error:
            self._end(child)
            self._check()
            self._broken = f"the process that would try schedules does not start: {error}"
            raise BenchError(self._broken) from error
        self._started.add(child)

    def _whole(self, answer: Any) -> Any:
        if "broken" in answer:
            self._broken = answer["broken"]
            raise BenchError(self._broken)
        return answer

    def _end(self, child: Child) -> None:
        child.end()
        self._started.discard(child)

    def _check(self) -> None:
        if self._broken is not None:
            raise BenchError(self._broken)
        if self._stopped.is_set():
            raise Stopped
