"""An agent that sends what is no number, or beyond the public radius, is named on every transport."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from admmnet.transport.local import LocalTransport
from tests.people_runs import one_by_one, write_people

from .launch import Ended, here, mpirun, start
from .wrong_run import wrong

pytestmark = pytest.mark.processes


def words_of(folder: Path, transport: str) -> list[str]:
    own = ["--data", write_people(folder / "people.npz"), "--seed", "0", "--rounds", "3", "--epsilon", "5"]
    own += ["--algorithm", "pp-admm", "--topology", "complete:4", "--transport", transport]
    own += ["--shutdown-deadline", "1"] if transport == "zmq" else []
    return ["run", *own, "-o", str(folder / "run")]


def started(transport: str, number: str, folder: Path, *more: str) -> Ended:
    words = ("-m", "tests.processes.wrong_run", number, *words_of(folder, transport), *more)
    return mpirun(4, *words) if transport == "mpi" else start(sys.executable, *words)


@pytest.mark.parametrize(("transport", "number"), [("mpi", "nan"), ("zmq", "1e300")])
def test_the_sender_is_named_by_other_processes(transport: str, number: str, tmp_path: Path) -> None:
    assert_named(started(transport, number, tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("number", "taken"), [("nan", False), ("-inf", False), ("1e300", False), ("1.2e12", False), ("1e12", True)]
)
def test_the_sender_is_named_if_its_number_is_beyond_the_radius(
    number: str, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one_by_one(monkeypatch)
    monkeypatch.setattr(LocalTransport, "exchange", wrong(LocalTransport.exchange, float(number)))
    ended = here(capsys, *words_of(tmp_path, "local"))
    assert (ended.code == 0) == taken
    if not taken:
        assert_named(ended, tmp_path)


def assert_named(ended: Ended, folder: Path) -> None:
    assert ended.code == 3, ended.err
    assert 1 <= len(ended.messages) <= 3  # with zmq several neighbours may find it in the same moment
    for message in ended.messages:
        assert "neighbour 1 sent numbers that are not finite or beyond 2^40" in message
        assert "beta" not in message
    assert not (folder / "run" / "summary.json").exists()
