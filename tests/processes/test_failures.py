"""A process that fails, is lost, or lies ends all the others, quickly, with one message and ledgers that still hold.

On hosts of their own others go on: test_relay.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from tests.people_runs import write_people

from .launch import Ended, mpirun
from .places import Place
from .test_everywhere import assert_same

pytestmark = pytest.mark.processes
PATIENT = ("--heartbeat-deadline", "1000", "--connect-deadline", "1000")
"""Only the starter's word of a death comes within the tests' own deadline."""
SOON = ("--heartbeat-deadline", "1", "--shutdown-deadline", "3")
WAITED = r"rank [02] on \S+ ends: it has waited in MPI for 2 s;"
LIES = "neighbour 1 sent numbers that are not finite or beyond 2\\^40"
TREE = ("--algorithm", "tests.tree_sum:TreeSum", "--topology", "ring:4")


def place_of(folder: Path, transport: str, *words: str) -> Place:
    plain = ("--algorithm", "pp-admm", "--topology", "path:3", "--rounds", "4", "--seed", "3")
    people = write_people(folder / "people.npz")
    return Place(folder, "run", *plain, "--data", people, *words, transport=transport)


@pytest.mark.parametrize(
    ("transport", "fault", "words", "code", "message"),
    [
        ("mpi", "fail:1:2", (), 3, "the cable is cut"),
        ("mpi", "bug:1:2", (), 3, "internal error: ValueError: an odd number"),
        ("mpi", "load:0:0", (), 3, "internal error: ValueError: an odd number"),
        ("mpi", "interrupt:1:2", (), 130, "interrupted"),
        ("mpi", "kill:1:2", (), None, None),
        ("mpi", "hang:1:2", ("--round-deadline", "2"), None, WAITED),
        ("mpi", "model:0:1", (), 3, "agent 0: among its figures it sent numbers that are not finite"),
        ("mpi", "wrong=nan:1:0", (), 3, f"agent [02]: {LIES}"),
        ("zmq", "wrong=1e300:1:0", SOON, 3, f".*{LIES}"),
        ("zmq", "start:1:0", PATIENT, 3, "the process of agent 1 was ended by SIGKILL"),
        ("zmq", "kill:1:2", PATIENT, 3, "the process of agent 1 was ended by SIGKILL"),
        ("zmq", "stop:1:2", SOON, 3, "the process or host of agent 1 has ended, or cannot be reached"),
        ("zmq", "hang:1:2", (*SOON, "--round-deadline", "2"), 3, "the part of agent 1 did not come within 2 s"),
        ("zmq", "full:1:2", SOON, 3, "cannot write the ledger"),
    ],
)
def test_a_lost_agent_ends_all(
    transport: str, fault: str, words: tuple[str, ...], code: int | None, message: str | None, tmp_path: Path
) -> None:
    """Where a rank of MPI is killed, or ends by itself, the launcher chooses the exit code.

    The first rank reads the records for all, who wait for them; there is no folder until all have met.
    """
    place = place_of(tmp_path, transport, *words)
    ended = place.run(fault=fault)
    assert ended.code == code if code is not None else ended.code, ended.err
    if message is not None:
        assert ended.messages
        assert len(set(ended.messages)) == 1 or fault.startswith(("hang", "wrong")), ended.err
        assert all(re.match(f"admmnet: {message}", said) for said in ended.messages), ended.err
    if fault.startswith(("start", "load")):
        assert not place.folder.exists()
    else:
        assert_unfinished_but_sound(place.folder)


def assert_unfinished_but_sound(folder: Path) -> None:
    assert not (folder / "summary.json").exists()
    assert run_command_line(["ledger", "verify", str(folder)]) == 0
    assert not all(account.finished for account in read_run(folder).ledgers.values())


AWAY = """
import sys
import numpy as np
from mpi4py import MPI
from admmnet import run
rank = MPI.COMM_WORLD.rank
if rank == 1:
    raise FileNotFoundError("site-1.csv")
X = np.random.default_rng(rank).standard_normal((50, 2))
shards, deadline = {rank: (X, (X[:, 0] > 0).astype(int))}, 2.0 if rank else "auto"
run(shards=shards, algorithm="noisy-gd", seed=0, no_test=True, round_deadline=deadline)
"""


def test_a_rank_that_fails_before_it_calls_run_holds_the_others_up_to_their_deadline() -> None:
    """One of them that has a deadline is enough; the launcher chooses the exit code."""
    ended = mpirun(3, "-c", AWAY)
    assert ended.code != 0
    assert "FileNotFoundError: site-1.csv" in ended.err
    (said,) = ended.messages
    assert re.match(rf"admmnet: {WAITED}", said)


def test_only_monotonic_clocks_matter(tmp_path: Path) -> None:
    place = place_of(tmp_path, "zmq")
    assert place.run(fault="clock:1:1") == Ended(0, "", "")
    assert_same(whole(tmp_path), place.folder)


def whole(folder: Path, *words: str) -> Path:
    """Folder of such a run in one process, without a fault."""
    (folder / "whole").mkdir()
    place = place_of(folder / "whole", "local", *words)
    assert place.run() == Ended(0, "", "")
    return place.folder


def test_a_lost_agent_ends_sums_too_and_they_are_resumed(tmp_path: Path) -> None:
    place = place_of(tmp_path, "zmq", *TREE)
    ended = place.run(fault="kill:1:3")
    assert (ended.code, ended.messages[0].count("agent 1 was ended by SIGKILL")) == (3, 1), ended.err
    assert_unfinished_but_sound(place.folder)
    place.transport = "local"
    assert place.run().code == 0
    assert_same(whole(tmp_path, *TREE), place.folder)
