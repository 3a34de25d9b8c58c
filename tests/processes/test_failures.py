"""A rank that fails ends all the others, quickly, with one message and a ledger that still holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from admmnet.cli import run_command_line
from tests.people_runs import write_people

from .launch import Ended, mpirun

pytestmark = pytest.mark.processes
QUICK = 15.0
"""Seconds within which all ranks must have ended; they take about one, a hang for ever."""


def failing(how: str, way: str, folder: Path, *ranks: int) -> Ended:
    words = (how, way, str(folder), write_people(folder.parent / "people.npz"), *map(str, ranks))
    return mpirun(3, "-m", "tests.processes.failing_run", *words, deadline=QUICK)


@pytest.mark.parametrize(
    ("how", "way", "ranks", "code", "message"),
    [
        ("run-error", "library", (), 3, "agent 1, round 2: the cable is cut"),
        ("run-error", "command", (0, 1, 2), 3, ""),
        ("value-error", "library", (), 3, "internal error: ValueError: an odd number"),
        ("value-error-in-loading", "command", (0,), 3, "internal error: ValueError: an odd number"),
        ("interrupt", "command", (), 130, "interrupted"),
        ("exit", "command", (), None, None),
        ("kill", "command", (), None, None),
    ],
)
def test_a_rank_that_fails_ends_all(
    how: str, way: str, ranks: tuple[int, ...], code: int | None, message: str | None, tmp_path: Path
) -> None:
    """A rank that exits or is killed can say nothing, and the launcher chooses the exit code.

    The first rank reads the records for all, who wait for them.
    """
    ended = failing(how, way, tmp_path / "run", *ranks)
    assert ended.code != 0
    if code is not None:
        assert ended.code == code, ended.err
        assert len(ended.messages) == 1, ended.err
        assert ended.messages[0].startswith(f"admmnet: {message}")
    if how == "value-error-in-loading":
        assert not (tmp_path / "run").exists()
        return
    assert not (tmp_path / "run" / "summary.json").exists()
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0


def test_ranks_that_wait_in_vain_end_by_themselves(tmp_path: Path) -> None:
    """As those on a host that was cut off do; the launcher chooses the exit code."""
    ended = failing("hang", "library", tmp_path / "run")
    assert ended.code != 0
    assert ended.messages
    for said in ended.messages:
        assert re.match(r"admmnet: rank [02] on \S+ ends: it has waited in MPI for 2 s;", said)
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0


AWAY = """
import sys
import numpy as np
from mpi4py import MPI
from admmnet import run
rank = MPI.COMM_WORLD.rank
if rank == 1:
    raise FileNotFoundError("site-1.csv")
X = np.random.default_rng(rank).standard_normal((50, 2))
shards, deadline = {rank: (X, (X[:, 0] > 0).astype(int))}, 2.0 if str(rank) in sys.argv else "auto"
run(shards=shards, algorithm="noisy-gd", seed=0, no_test=True, round_deadline=deadline)
"""


@pytest.mark.parametrize(("impatient", "speaks"), [("2", 2), ("02", 0)])
def test_a_rank_that_fails_before_it_calls_run_holds_the_others_up_to_their_deadline(
    impatient: str, speaks: int
) -> None:
    """One of them that has a deadline is enough, and one of them says so; the launcher chooses the exit code."""
    ended = mpirun(3, "-c", AWAY, *impatient)
    assert ended.code != 0
    assert "FileNotFoundError: site-1.csv" in ended.err
    (said,) = ended.messages
    assert re.match(rf"admmnet: rank {speaks} on \S+ ends: it has waited in MPI for 2 s;", said)


LYING = """
import sys
import numpy as np
from admmnet.cli import run_command_line
from admmnet.running.observer import Observer
from admmnet.transport import open_world
from admmnet.transport.mpi import MPITransport
models, collect = Observer.models, MPITransport.collect
if open_world("mpi").rank == int(sys.argv[1]):
    exec(sys.argv[2])
sys.exit(run_command_line(["run", *sys.argv[3:]]))
"""
NO_FIGURE = """
MPITransport.collect = lambda self, rows: collect(self, np.where(np.arange(rows.shape[1]) == 3, np.nan, rows))
"""
NO_MODEL = "Observer.models = lambda self: models(self) + (1e300 if getattr(self, '_round', 0) == 1 else 0.0)"
EXCHANGED = "--algorithm pp-admm --topology ring:3 --epsilon 5 --rounds 4"


def lying(rank: int, how: str, words: str, folder: Path) -> Ended:
    """Run three ranks, one of which does something else than the others."""
    words = f"{words} --data {write_people(folder / 'people.npz')} --seed 0 --quiet -o {folder / 'run'}"
    ended = mpirun(3, "-c", LYING, str(rank), how, *words.split(), deadline=QUICK)
    assert ended.code == 3
    return ended


def test_a_rank_whose_rows_are_no_numbers_is_named_once(tmp_path: Path) -> None:
    (said,) = lying(2, NO_FIGURE, EXCHANGED, tmp_path).messages
    assert said.startswith("admmnet: agent 2: among its figures it sent numbers that are not finite")


def test_the_writers_own_rows_are_checked_by_the_others(tmp_path: Path) -> None:
    (said,) = set(lying(0, NO_MODEL, EXCHANGED, tmp_path).messages)
    assert said.startswith("admmnet: agent 0: among its figures it sent numbers that are not finite")
