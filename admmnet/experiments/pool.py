"""Processes that work through tasks: one task each at a time, answers as they come, no answer lost."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Protocol

from admmnet.errors import AdmmnetError, BudgetError, RequestError, RunError
from admmnet.experiments.holdout import Shelf
from admmnet.experiments.progress import Watch
from admmnet.experiments.workers import processors, ready
from admmnet.transport.collective import describe_error

GRACE = 5.0
"""Seconds that a process has to end."""
PATIENCE = 5.0
"""Seconds after which the watch is told that no task has ended."""
_KINDS = {kind.exit_code: kind for kind in (RequestError, RunError, BudgetError)}


class Task(Protocol):
    """A picklable call with a picklable answer; ``words`` say in messages what it is."""

    @property
    @abstractmethod
    def words(self) -> str:
        """Such as ``pp-admm at epsilon 1, seed 0``."""

    @abstractmethod
    def __call__(self, shelf: Shelf) -> Any:
        """Do it, with the records that its process has loaded."""


@dataclass(frozen=True)
class Call:
    """A task that calls ``function(shelf, *given)``."""

    words: str
    function: Callable[..., Any]
    given: tuple[Any, ...]

    def __call__(self, shelf: Shelf) -> Any:
        """Call it."""
        return self.function(shelf, *self.given)


@dataclass(frozen=True)
class Failure:
    """The error that ended a task."""

    code: int
    message: str
    trace: str

    def error(self) -> AdmmnetError:
        """Return it as an exception."""
        error = _KINDS[self.code](self.message)
        error.add_note(self.trace)
        return error


class Pool:
    """Up to ``jobs`` processes, started when there is work; with one job the work is done in this process.

    Processes are forked by a server (`ready`), not from here: a thread may hold a lock at a fork. They
    ignore the keyboard's interrupt, which their parent answers by ending them, and end with their parent.
    By default there are as many as this process may use processors; ``watch`` is told of progress.
    """

    def __init__(self, jobs: int | None = None, watch: Watch | None = None) -> None:
        if jobs is not None and jobs < 1:
            raise RequestError(f"--jobs {jobs} is not allowed: it must be a whole number, at least 1")
        self.jobs, self._watch = jobs or processors(), watch or Watch()
        self._workers: dict[Connection, BaseProcess] = {}
        self._shelf = Shelf()

    def run(self, tasks: Sequence[Task], phase: str = "", done: int = 0) -> Iterator[tuple[int, Any]]:
        """Work through the tasks of a phase, of which so many were done by earlier calls.

        Yields numbers of tasks, in the order in which they end, with an answer or a ``Failure``; RunError if a process
        was ended from outside.
        """
        self._watch.phase(phase, len(tasks) + done, done)
        here = ((number, _answer(task, self._shelf)) for number, task in enumerate(tasks))
        for number, answer in here if self.jobs == 1 else self._spread(tasks):
            self._watch.step(tasks[number].words)
            yield number, answer

    def _spread(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        waiting, busy = deque(enumerate(tasks)), dict[Connection, int]()
        while waiting or busy:
            while waiting and (free := self._free(busy)) is not None:
                number, task = waiting.popleft()
                busy[free] = number
                with suppress(OSError):  # a dead process is noticed below
                    free.send(task)
            while not (found := wait(list(busy), PATIENCE)):
                self._watch.waiting()
            for ended in found:
                assert isinstance(ended, Connection)
                number = busy.pop(ended)
                try:
                    answer = ended.recv()
                except (EOFError, OSError):
                    raise self._lost(ended, tasks[number].words) from None
                yield number, answer

    def _free(self, busy: dict[Connection, int]) -> Connection | None:
        for connection in self._workers:
            if connection not in busy:
                return connection
        return self._start() if len(self._workers) < self.jobs else None

    def _start(self) -> Connection:
        context = ready()
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, os.getcwd(), dict(os.environ)), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()  # inherits the blocked signal
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._workers[ours] = process
        return ours

    def _lost(self, connection: Connection, words: str) -> RunError:
        process = self._workers.pop(connection)
        process.join(GRACE)
        code = process.exitcode
        if code is None or code >= 0:
            return RunError(
                f"a process left by itself (exit code {code}) at {words}; a script must call compare under "
                "`if __name__ == '__main__'`, because processes import it; finished runs are kept"
            )
        return RunError(
            f"a process was ended from outside (signal {-code}) at {words}; if memory ran out, take fewer --jobs; "
            "finished runs are kept, and the same call goes on with the others"
        )

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection, process in self._workers.items():
            connection.close()  # an idle process ends by that
            if kind is not None:
                process.terminate()
        for process in self._workers.values():
            process.join(GRACE)
            if process.is_alive():
                process.kill()
                process.join(GRACE)
        self._workers.clear()


def _serve(connection: Connection, folder: str, environment: dict[str, str]) -> None:
    """Body of a process: tasks in, answers out, until the parent closes the line or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # the parent says why; a run here keeps this handler
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.chdir(folder)
    os.environ.clear()  # the server's may be an earlier one
    os.environ.update(environment)
    shelf = Shelf()
    with suppress(EOFError, OSError):
        while True:
            connection.send(_answer(connection.recv(), shelf))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(task: Task, shelf: Shelf) -> Any:
    try:
        return task(shelf)
    except Exception as error:
        code = error.exit_code if isinstance(error, AdmmnetError) and error.exit_code in _KINDS else 3
        return Failure(code, describe_error(error), traceback.format_exc())
