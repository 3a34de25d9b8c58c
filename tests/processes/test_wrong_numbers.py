"""An agent that sends what is no number, or beyond the public radius, is named on every transport."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.people_runs import write_people

from .launch import Ended, mpirun, start

pytestmark = pytest.mark.processes


def wrong(transport: str, number: str, folder: Path, *words: str) -> Ended:
    own = ["--data", write_people(folder / "people.npz"), "--seed", "0", "--rounds", "3", "--epsilon", "5"]
    own += ["--algorithm", "pp-admm", "--topology", "complete:4", "--transport", transport]
    own += ["--shutdown-deadline", "1"] if transport == "zmq" else []
    words = ("-m", "tests.processes.wrong_run", number, "run", *own, "-o", str(folder / "run"), *words)
    return mpirun(4, *words) if transport == "mpi" else start(sys.executable, *words)


@pytest.mark.parametrize(
    ("transport", "number"),
    [("local", "nan"), ("local", "-inf"), ("local", "1e300"), ("local", "1.2e12"), ("mpi", "nan"), ("zmq", "1e300")],
)
def test_the_sender_is_named(transport: str, number: str, tmp_path: Path) -> None:
    ended = wrong(transport, number, tmp_path)
    assert ended.code == 3, ended.err
    assert 1 <= len(ended.messages) <= 3  # with zmq several neighbours may find it in the same moment
    for message in ended.messages:
        assert "neighbour 1 sent numbers that are not finite or beyond 2^40" in message
        assert "beta" not in message
    assert not (tmp_path / "run" / "summary.json").exists()


def test_the_others_may_go_on_without_it(tmp_path: Path) -> None:
    ended = wrong("zmq", "nan", tmp_path, "--on-loss", "continue")
    assert ended.code == 5, ended.err
    summary = json.loads((tmp_path / "run" / "summary.json").read_bytes())
    assert [entry["lost_at"] for entry in summary["per_agent"]] == [None, 0, None, None]


def test_the_largest_number_within_the_radius_is_taken(tmp_path: Path) -> None:
    assert wrong("local", "1e12", tmp_path).code == 0
