"""Work that stops in the middle and goes on later, so that several pieces of it can take turns."""

from collections.abc import Callable
from threading import Semaphore, Thread

import torch


class _Abandoned(BaseException):
    """Ends work that nobody is going to resume."""


class Strand:
    """A thread that runs only while `resume` waits for it: at no time do two of a program's strands run."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.ended = False
        self._work = work
        self._go, self._back = Semaphore(0), Semaphore(0)
        self._abandoned = False
        self._error: BaseException | None = None
        # A daemon: one that is interrupted in the middle of a long loop must not keep the process alive.
        Thread(target=self._run, daemon=True).start()

    def resume(self) -> None:
        """Runs the work until it pauses or ends; raises what it raises."""
        self._go.release()
        self._back.acquire()
        if self._error is not None:
            raise self._error

    def pause(self) -> None:
        """Called by the work: lets `resume` return, and comes back with the next one."""
        self._back.release()
        self._wait()

    def abandon(self) -> None:
        """Has work that pauses, or will, unwind instead of going on."""
        self._abandoned = True
        self._go.release()

    def _wait(self) -> None:
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned

    def _run(self) -> None:
        try:
            self._wait()
            with torch.no_grad():  # which torch keeps by thread
                self._work()
        except _Abandoned:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self.ended = True
            self._back.release()
