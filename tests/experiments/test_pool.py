"""Processes: the same answers as in one process, one clear error if one is ended, and none left behind.

As a script: ``test_pool.py COMMAND...`` runs the command line with a grid that tells of every step.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from admmnet import read_run
from admmnet.data import DataSettings
from admmnet.errors import BudgetError, RunError
from admmnet.experiments.holdout import loader_of
from admmnet.experiments.pool import Call, Pool

from .conftest import COMMON, METHODS

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 60.0
"""Seconds; what is waited for takes one or two."""


def no_records(*asked: Any) -> Any:
    """Records of nobody, new ones every time."""
    return SimpleNamespace(shards={}, X_test=np.zeros((0, 1)), y_test=np.zeros(0))


def work(words: str, does: str) -> Any:
    """A task that answers, fails or ends its process."""
    if does == "refuse":
        raise BudgetError("nothing is left")
    if does == "break":
        raise ZeroDivisionError("oh")
    if does == "last":
        time.sleep(1.0)
    if does == "tell":
        return os.getppid(), os.environ.get("ADMMNET_TOLD")
    if does == "load":
        return loader_of(no_records, held=False)(DataSettings(), 1, [0])
    return words, os.getpid(), os.getcwd()


def Work(words: str, does: str = "answer") -> Call:
    return Call(words, work, (words, does))


@pytest.mark.parametrize("jobs", [1, 2])
def test_answers_and_failures_of_every_task(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tasks = [Work("a"), Work("b", "refuse"), Work("c"), Work("d", "break"), Work("e")]
    with Pool(jobs) as pool:
        answers = dict(pool.run(tasks))
        answers |= {number + 5: answer for number, answer in pool.run(tasks[:1])}
    assert sorted(answers) == [0, 1, 2, 3, 4, 5]
    plain = [answers[number] for number in (0, 2, 4, 5)]
    assert [answer[0] for answer in plain] == ["a", "c", "e", "a"]
    assert {answer[2] for answer in plain} == {str(tmp_path)}  # relative paths mean the same there
    assert ({answer[1] for answer in plain} == {os.getpid()}) == (jobs == 1)
    refused, broken = answers[1], answers[3]
    assert isinstance(refused, BudgetError)
    assert str(refused) == "nothing is left"
    assert isinstance(broken, RunError)
    assert "internal error: ZeroDivisionError: oh" in str(broken)
    assert "ZeroDivisionError" in "".join(broken.__notes__)
    assert multiprocessing.active_children() == []


class Here(Executor):
    """Work in this process, as soon as it is asked for; what is ``held`` never begins."""

    def __init__(self, held: int = 0) -> None:
        self.held, self.futures = held, list[Future[Any]]()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if len(self.futures) >= self.held:
            future.set_result(fn(*args, **kwargs))
        self.futures.append(future)
        return future


def test_an_executor_of_the_caller_does_the_work_and_keeps_no_records_for_the_next_pool() -> None:
    executor = Here()
    loaded = []
    for _ in range(2):
        with Pool(2, executor=executor) as pool:
            loaded += [dict(pool.run([Work("a", "load"), Work("b", "load")])) for _ in range(2)]
    one, same, other, _ = [set(map(id, found.values())) for found in loaded]
    assert len(one) == 1
    assert one == same != other


def fail_after_one(pool: Pool) -> None:
    next(pool.run([Work("a"), Work("b", "last")]))
    raise KeyError


def test_after_an_error_nothing_more_is_begun_and_others_processes_live() -> None:
    executor, bystander = Here(held=1), multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60.0,))
    bystander.start()
    with pytest.raises(KeyError), Pool(2, executor=executor) as pool:
        fail_after_one(pool)
    assert executor.futures[0].cancelled()
    with pytest.raises(KeyError), Pool(2) as pool:
        fail_after_one(pool)
    assert multiprocessing.active_children() == [bystander]
    bystander.kill()
    bystander.join()


def command(people: str, out: Path) -> list[str]:
    given = [(f"--{name}", () if value is True else (str(value),)) for name, value in COMMON.items()]
    flags = [word for name, value in given for word in (name, *value)]
    grid = ["--algorithms", ",".join(METHODS), "--epsilons", "5,50", "--seeds", "0:200"]
    return ["compare", *grid, *flags, "--data", people, "--jobs", "2", "-o", str(out)]


@contextmanager
def telling(people: str, out: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A long grid in a process group of its own that has finished a run, and the numbers of its processes."""
    module = [sys.executable, "-m", "tests.experiments.test_pool", *command(people, out)]
    process = subprocess.Popen(
        module, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], DEADLINE)[0], "no run has finished"
        yield process, json.loads(process.stdout.readline() or "[]")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=DEADLINE)


def wait_for_end(numbers: list[int]) -> None:
    """Return when these processes, not children of ours, have ended; fail after a deadline."""
    for number in numbers:
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(number)
            try:
                assert select.select([handle], [], [], DEADLINE)[0], f"process {number} is still there"
            finally:
                os.close(handle)


def finished(out: Path) -> int:
    folders = [path.parent for path in (out / "runs").glob("*/summary.json")]
    return sum(read_run(folder).summary is not None for folder in folders[:3])


@pytest.mark.parametrize("how", ["keyboard", "parent", "process"])
def test_ended_from_outside_all_end_and_what_is_done_is_kept(how: str, people: str, tmp_path: Path) -> None:
    with telling(people, tmp_path / "grid") as (process, numbers):
        if how == "keyboard":
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        else:
            os.kill(process.pid if how == "parent" else numbers[0], signal.SIGKILL)
        _, err = process.communicate(timeout=DEADLINE)
        wait_for_end(numbers)
    assert process.returncode == {"keyboard": 130, "parent": -9, "process": 3}[how], err
    assert len(numbers) == 2
    assert "Traceback" not in err
    assert finished(tmp_path / "grid") > 0
    if how == "keyboard":
        assert "\n\nadmmnet: interrupted; finished runs are kept" in err
        assert (tmp_path / "grid/compare.csv").read_text().count("\n") > 1
    if how == "process":
        assert re.search(r"left by itself, at \S+ at epsilon \S+, seed \d or ", " ".join(err.split()))
        assert err.count("admmnet: ") == 1


def tell() -> int:
    """Run the command line; after the first run print the numbers of the processes at work."""
    module: Any = import_module("admmnet.cli.compare")

    class Telling(module.GridProgress):  # type: ignore[misc]
        name = ""

        def phase(self, name: str, total: int, done: int) -> None:
            self.name = name

        def step(self, words: str) -> None:
            if self.name == "runs":
                children = multiprocessing.active_children()
                print(json.dumps([child.pid for child in children]), flush=True)  # noqa: T201
                self.name = "told"

    module.GridProgress = Telling
    from admmnet.cli import run_command_line

    return run_command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(tell())


@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="they are spawned here")
def test_processes_come_from_one_server_and_have_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = set()
    for told in ("once", "twice"):  # the server started with the environment of before
        monkeypatch.setenv("ADMMNET_TOLD", told)
        with Pool(2) as pool:
            for _, (parent, heard) in pool.run([Work(str(number), "tell") for number in range(4)]):
                assert heard == told
                parents.add(parent)
    assert len(parents) == 1
    assert parents != {os.getpid()}


def measured(file: str, factor: int) -> list[float]:
    """A task whose answer depends on a file."""
    return [factor * len(Path(file).read_bytes()), time.perf_counter()]


def test_an_answer_is_kept_for_the_same_words_files_and_bytes_alone(tmp_path: Path) -> None:
    file, folder = tmp_path / "o'hara.csv", tmp_path / "passes"
    file.write_text("abc")

    def ask(factor: int = 2) -> Any:
        with Pool(1) as pool:
            return pool.kept(
                folder, "passes", {"one": Call("one", measured, (str(file), factor), files=(f"us:{file}",))}
            )["one"]

    first = ask()
    assert first[0] == 6
    assert ask() == first  # not made again
    assert ask(3)[0] == 9
    again = ask(3)
    (folder / "one.json").write_text((folder / "one.json").read_text().replace("[9", "[8"))
    assert ask(3)[1] > again[1]
    (folder / "one.json").write_text("{}")
    assert ask(3)[0] == 9
    file.write_text("abcd")
    assert ask(3)[0] == 12
