"""Tasks over any ``concurrent.futures`` engine: processes of this machine, ranks of mpirun, or what a caller brings.

They write into a folder, which an earlier call may have begun.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape, glob
from itertools import islice
from multiprocessing import get_all_start_methods, get_context, parent_process
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any
from uuid import uuid4

from admmnet.data.settings import AGENT
from admmnet.errors import KINDS, AdmmnetError, RequestError, RunError
from admmnet.experiments import Watch
from admmnet.experiments.tasks import forget
from admmnet.files import load_json, refusing, write_whole
from admmnet.record.folder import sha256
from admmnet.transport.collective import describe_error
from admmnet.version import __version__

NEEDED = "admmnet.experiments.tasks"
LOST = (
    "a process was ended from outside, or left by itself, at {}; if memory ran out, take fewer --jobs; a script must "
    "call this under `if __name__ == '__main__'`; finished runs are kept, and the same call goes on with the others"
)
POLL = 0.2
"""Seconds after which the keyboard is asked, and the watch is told."""
_NAME = [""]
"""Name of the pool that this process works for."""


def begin(path: Path, check: Callable[[dict[str, Any]], None]) -> None:
    """Make the folder of a JSON file in which calls say what they make, and ``check`` what an earlier one has said.

    RequestError if it cannot be made, holds something else, or the file is damaged.
    """
    folder, another = path.parent, "name another one with -o"
    with refusing(f"make the folder {folder}", f"; {another}"):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        content: dict[str, Any] = load_json(path.read_bytes())
        check(content)
    except FileNotFoundError:
        if not all(found.name.startswith(f".{path.name}") for found in folder.iterdir()):
            raise RequestError(f"the folder {folder} is not empty and holds no {path.name}: {another}") from None
    except RequestError:  # is a ValueError, too
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RequestError(f"cannot read {path}: {error}; name another folder with -o") from None


def sums_of(names: Iterable[str]) -> list[list[str]]:
    """Name and sha256 of every file that texts of settings name: a path, also with ``{agent}``, or KIND:FILE."""
    texts = [text for name in names for text in (name, name.partition(":")[2]) if text]
    found = [path for text in texts for path in map(Path, sorted(glob("*".join(map(escape, text.split(AGENT))))))]
    return [[path.name, sha256(path)] for path in found if path.is_file()]


def refuse_others(folder: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with a folder of which a setting was another one."""
    for name in dict.fromkeys((*now, *then)):
        if then.get(name) != now.get(name):
            raise RequestError(
                f"{folder} was made with other settings: {name} was {json.dumps(then.get(name))}, this call has "
                f"{json.dumps(now.get(name))}; repeat the call with the former, or name another folder with -o"
            )


@dataclass(frozen=True)
class Call:
    """A task: ``function(*given)``, all of it and its answer picklable; ``words`` say in messages what it is.

    ``files`` are texts that name what it is made of.
    """

    words: str
    function: Callable[..., Any]
    given: tuple[Any, ...]
    files: tuple[str, ...] = ()

    def digest(self, answer: str) -> str:
        """sha256 of an answer with what it was asked of."""
        function = self.function.__module__, self.function.__qualname__
        asked = __version__, *function, self.given, sums_of(self.files), answer
        return hashlib.sha256(repr(asked).encode()).hexdigest()


def at(words: str, error: AdmmnetError) -> AdmmnetError:
    """The same error, which begins with these words."""
    found = KINDS.get(error.exit_code, RunError)(f"{words}: {error}")
    for note in getattr(error, "__notes__", ()):
        found.add_note(note)
    return found


class Pool:
    """Work over an ``executor``, or up to ``jobs`` processes of this machine; with one job it is done in this process.

    By default there are as many as this process may use processors; ``watch`` is told of progress. After an error
    nothing more is begun; the own processes are killed, tasks of an ``executor`` that have begun go on.
    """

    def __init__(self, jobs: int | None = None, watch: Watch | None = None, executor: Executor | None = None) -> None:
        if jobs is not None and jobs < 1:
            raise RequestError(f"--jobs {jobs} is not allowed: it must be a whole number, at least 1")
        mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self.jobs, self._watch = jobs or mine or 1, watch or Watch()
        self._executor, self._own = executor, executor is None
        self._name, self._first = uuid4().hex, True
        self._waiting: dict[Future[Any], int] = {}

    def run(self, tasks: Sequence[Call], phase: str = "", done: int = 0) -> Iterator[tuple[int, Any]]:
        """Work through the tasks of a phase, of which so many were done by earlier calls.

        A phase of runs has a name; what prepares them has none. Yields numbers of tasks, in the order in which they
        end, with an answer or the error, which has its trace as a note; RunError if a process was ended from outside.
        """
        self._watch.phase(phase, len(tasks) + done, done)
        here = self._executor is None and self.jobs == 1
        found = ((number, _answer(task, self._name)) for number, task in enumerate(tasks))
        for number, (answer, seconds, memory) in found if here else self._spread(tasks):
            if self._first and phase:
                self._watch.first(seconds, memory)
                self._first = False
            self._watch.step(tasks[number].words)
            yield number, answer

    def answers_in(self, folder: Path, calls: Mapping[str, Call]) -> dict[str, Any]:
        """Answers of calls by their names, each in a file NAME.json of a phase's folder: what is there is kept.

        Made again is what is damaged, or was asked otherwise, of other files, or of another version. What failed is
        raised, the first of all, once all others have ended.
        """
        found: dict[str, Any] = dict.fromkeys(calls)
        for name, call in calls.items():
            with suppress(OSError, ValueError, KeyError, TypeError):
                content = json.loads((folder / f"{name}.json").read_bytes())
                if content["digest"] == call.digest(json.dumps(content["answer"])):
                    found[name] = content["answer"]
        missing = [name for name, answer in found.items() if answer is None]
        with refusing(f"make the folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        failures: list[AdmmnetError] = []
        for number, answer in self.run([calls[name] for name in missing], folder.name, len(calls) - len(missing)):
            name = missing[number]
            if isinstance(answer, AdmmnetError):
                failures.append(at(calls[name].words, answer))
                continue
            text = json.dumps(answer)
            digest = calls[name].digest(text)
            write_whole({folder / f"{name}.json": json.dumps({"digest": digest, "answer": answer}).encode()})
            found[name] = json.loads(text)  # as a later call will read it
        if failures:
            raise failures[0]
        return found

    def _spread(self, tasks: Sequence[Call]) -> Iterator[tuple[int, Any]]:
        if self._executor is None:  # processes that a server forks, which has no thread of this one to hold a lock then
            context: Any = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
            if hasattr(context, "set_forkserver_preload"):
                context.set_forkserver_preload([NEEDED])
            self._executor = ProcessPoolExecutor(self.jobs, context, _begin, (os.getcwd(), dict(os.environ)))
        # own processes get a task each at a time: a lost one is known by what was at work
        most = self.jobs if self._own else len(tasks)
        left = iter(enumerate(tasks))
        with _held() as interrupted:
            try:
                while True:
                    for number, task in islice(left, most - len(self._waiting)):
                        self._waiting[self._executor.submit(_answer, task, self._name)] = number
                    if not self._waiting:
                        return
                    for future in wait(self._waiting, POLL, FIRST_COMPLETED).done:
                        answer = future.result()
                        yield self._waiting.pop(future), answer
                    if interrupted:
                        raise KeyboardInterrupt
                    self._watch.waiting()
            except BrokenExecutor:
                self._end()
                if interrupted:  # a process that was starting heard the keyboard, too
                    raise KeyboardInterrupt from None
                at_work = " or ".join(tasks[number].words for number in self._waiting.values())
                raise RunError(LOST.format(at_work)) from None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None:
            self._end()
        if self._own and self._executor is not None:
            self._executor.shutdown(wait=kind is None)  # after an error no task is waited for
        for future in () if self._own else self._waiting:
            future.cancel()
        forget()

    def _end(self) -> None:
        """End the own processes, also one that the executor was starting when it broke, and would wait for."""
        mine = [*(getattr(self._executor, "_processes", None) or {}).values()] if self._own else []
        for process in mine:
            process.kill()
        for process in mine:
            process.join()


@contextmanager
def _held() -> Iterator[list[int]]:
    """Keep the keyboard's interrupt: raised while a future's lock is taken, it would leave that locked for ever."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(folder: str, environment: dict[str, str]) -> None:
    """Begin a process: the keyboard's interrupt is its parent's to answer, and it ends with that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))  # the parent says why; a run here keeps this handler
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.chdir(folder)
    os.environ.clear()  # the server's may be an earlier one
    os.environ.update(environment)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(task: Call, pool: str) -> tuple[Any, float, int]:
    """Answer or error, its seconds, and the most bytes that this process has had."""
    if [pool] != _NAME:
        _NAME[:] = [pool]
        forget()
    begun = time.monotonic()
    try:
        answer = task.function(*task.given)
    except Exception as error:
        code = error.exit_code if isinstance(error, AdmmnetError) and error.exit_code in (2, 3, 4) else 3
        answer = KINDS.get(code, RunError)(describe_error(error))
        answer.add_note(traceback.format_exc())
    return answer, time.monotonic() - begun, getrusage(RUSAGE_SELF).ru_maxrss * 1024
