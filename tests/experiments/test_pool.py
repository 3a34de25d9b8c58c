"""Processes: the same answers as in one process, one clear error if one is ended, and none left behind."""

from __future__ import annotations

import multiprocessing
import os
import re
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from admmnet import read_run
from admmnet.data import DataSettings
from admmnet.errors import BudgetError, RunError
from admmnet.experiments.pool import Call, Pool
from admmnet.experiments.tasks import loaded

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
    if does == "touch":
        Path(words).touch()
    if does == "tell":
        return os.getppid(), os.environ.get("ADMMNET_TOLD")
    if does == "load":
        return loaded(no_records, False, DataSettings(), 1, [0])
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
    refused, broken = answers.pop(1), answers.pop(3)
    assert {number: answer[0] for number, answer in answers.items()} == {0: "a", 2: "c", 4: "e", 5: "a"}
    assert {answer[2] for answer in answers.values()} == {str(tmp_path)}  # relative paths mean the same there
    assert ({answer[1] for answer in answers.values()} == {os.getpid()}) == (jobs == 1)
    assert (type(refused), str(refused), type(broken)) == (BudgetError, "nothing is left", RunError)
    assert "internal error: ZeroDivisionError: oh" in str(broken)
    assert "ZeroDivisionError" in "".join(broken.__notes__)
    assert multiprocessing.active_children() == []


def test_an_executor_of_the_caller_does_the_work_and_keeps_no_records_for_the_next_pool() -> None:
    loaded = []
    with ThreadPoolExecutor(1) as executor:
        for _ in range(2):
            with Pool(2, executor=executor) as pool:
                loaded += [dict(pool.run([Work("a", "load"), Work("b", "load")])) for _ in range(2)]
    one, same, other, _ = [set(map(id, found.values())) for found in loaded]
    assert len(one) == 1
    assert one == same != other


def fail_after_one(pool: Pool, file: Path) -> None:
    next(pool.run([Work("a"), Work("b", "last"), Work(str(file), "touch")]))
    raise KeyError


def test_after_an_error_nothing_more_is_begun_and_others_processes_live(tmp_path: Path) -> None:
    bystander = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60.0,))
    bystander.start()
    with ThreadPoolExecutor(1) as executor, pytest.raises(KeyError), Pool(2, executor=executor) as pool:
        fail_after_one(pool, tmp_path / "begun")
    with pytest.raises(KeyError), Pool(2) as pool:
        fail_after_one(pool, tmp_path / "begun")
    assert multiprocessing.active_children() == [bystander]
    bystander.kill()
    bystander.join()
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize(("how", "code"), [("keyboard", 130), ("parent", -9), ("process", 3)])
def test_ended_from_outside_all_end_and_what_is_done_is_kept(how: str, code: int, people: str, tmp_path: Path) -> None:
    words = "--algorithms pp-admm,ipp-admm:published --epsilons 5,50 --seeds 0:200 --topology ring:4 --rounds 3"
    words += f" --jobs 2 --simulate --data {people} -o {tmp_path}"
    command, pipe = [sys.executable, "-m", "admmnet", "compare", *words.split()], subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        until = time.monotonic() + DEADLINE
        while not list(tmp_path.glob("runs/*/summary.json")):
            assert time.monotonic() < until, "no run has finished"
            time.sleep(0.02)
        numbers = [number for child in children(process.pid) for number in children(child)]
        assert len(numbers) == 2
        handles = [os.pidfd_open(number) for number in numbers]
        if how == "keyboard":
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        else:
            os.kill(process.pid if how == "parent" else numbers[0], signal.SIGKILL)
        _, err = process.communicate(timeout=DEADLINE)
        for handle in handles:
            assert select.select([handle], [], [], DEADLINE)[0], "a process is still there"
            os.close(handle)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert process.returncode == code, err
    assert "Traceback" not in err
    done = [path.parent for path in tmp_path.glob("runs/*/summary.json")]
    assert any(read_run(folder).summary is not None for folder in done[:3])
    if how == "keyboard":
        assert "\n\nadmmnet: interrupted; finished runs are kept" in err
        assert (tmp_path / "compare.csv").read_text().count("\n") > 1
    if how == "process":
        assert re.search(r"left by itself, at \S+ at epsilon \S+, seed \d+ or ", " ".join(err.split()))
        assert err.count("admmnet: ") == 1


def children(process: int) -> list[int]:
    """Processes that a process's first thread has started: the server and the tracker, or the server's workers."""
    return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]


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
    file, kept = tmp_path / "o'hara.csv", tmp_path / "passes/one.json"
    file.write_text("abc")

    def ask(factor: int = 2) -> Any:
        with Pool(1) as pool:
            call = Call("one", measured, (str(file), factor), files=(f"us:{file}",))
            return pool.answers_in(kept.parent, {"one": call})["one"]

    first = ask()
    assert first[0] == 6
    assert ask() == first  # not made again
    again = ask(3)
    assert again[0] == 9
    for damaged in (kept.read_text().replace("[9", "[8"), "{}"):
        kept.write_text(damaged)
        before, again = again, ask(3)
        assert (again[0], again[1] > before[1]) == (9, True)
    file.write_text("abcd")
    assert ask(3)[0] == 12
