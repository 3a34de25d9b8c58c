"""Run folders and accounts that were put back from older copies: the relay refuses them, and so do ranks.

In one process: tests/running/test_resumed.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from admmnet.privacy.ledger import audit
from tests.people_runs import write_people

from .places import FEW, METHODS, Place
from .relayed import NONE, PRIVATE, Hosts

pytestmark = pytest.mark.processes
WORDS = PRIVATE[:-1]  # each start says which account


def keep(copy: Path, *places: Path) -> None:
    for place in places:
        shutil.copytree(place, copy / place.name)


def put_back(copy: Path, *places: Path) -> None:
    for place in places:
        shutil.rmtree(place)
        shutil.copytree(copy / place.name, place)


def charged(folder: Path) -> int:
    """Last round that its ledger charges, and one."""
    path = folder / "ledger/agent-001.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    rounds = [json.loads(line)["round"] for line in lines if line.endswith(b"}") and b'"round":' in line]
    return 1 + max(rounds, default=-1)


def restored(account: Path) -> int:
    """Lines that count the rest of a run as spent, of which the last is one; the account is spent then."""
    kinds = [json.loads(line)["kind"] for line in account.read_bytes().splitlines()]
    assert kinds[-1] == "restored"
    book = audit.read(account, account=True)
    assert book.contract.account is not None
    assert book.totals.mu_squared == book.contract.account.limit
    return kinds.count("restored")


@pytest.mark.parametrize(("what", "rounds"), [("folder", 1), ("host", 4)])
def test_an_older_copy_is_refused_and_the_newest_goes_on(what: str, rounds: int, tmp_path: Path) -> None:
    """The folder alone by exactly one round, or with its account; the account then counts all as spent."""

    def begin(agent: int) -> None:
        hosts.start(agent, NONE, "--no-test", "--account", str(tmp_path / f"account-{agent}"))

    with Hosts(tmp_path, 14, words=WORDS, own=("--quiet",), delay=0.02) as hosts:
        for agent in (0, 2):
            begin(agent)
        both, before = (tmp_path / "1", tmp_path / "account-1"), 0
        for name, done in (("old", 3), ("new", rounds)):
            begin(1)
            hosts.until(lambda: charged(both[0]) >= before + done)  # noqa: B023 (used at once)
            hosts.kill(1)
            before = charged(both[0])
            keep(tmp_path / name, *both)
        put_back(tmp_path / "old", *(both if what == "host" else both[:1]))
        for _ in range(2):
            begin(1)
            code, told = hosts.ended(1)
            # it may have died before the word of its last charge left: its account alone knows then
            signed, behind = (
                "this agent has signed another one, of ",
                "put back from an older copy; put back the newest of",
            )
            assert (code, signed in told or (what == "folder" and behind in told)) == (2, True)
            assert "ut back the newest " in told
            assert restored(both[1] / "agent-001.jsonl") == 1
        put_back(tmp_path / "new", *both)  # the remedy that it has named
        begin(1)
        assert hosts.codes() == [0] * 3
        assert hosts.summaries().keys() == {0, 1, 2}


def test_ranks_refuse_an_older_copy_with_one_message(tmp_path: Path) -> None:
    people = ("--data", write_people(tmp_path / "people.npz"))
    place = Place(tmp_path, "run", *METHODS["pp-admm"], *FEW, "--rounds", "8", *people, transport="mpi", ranks=2)
    assert place.account is not None
    for name, round in (("old", 2), ("new", 5)):
        assert place.run(fault=f"kill:1:{round}").code != 0
        keep(tmp_path / name, place.folder, place.account)
    put_back(tmp_path / "old", place.folder)
    refused = place.run()
    assert (refused.code, len(refused.messages)) == (2, 1), refused.err
    assert "the folder was put back" in refused.messages[0]
    assert [restored(file) for file in sorted(place.account.glob("*.jsonl"))] == [1] * 3
    put_back(tmp_path / "new", place.folder, place.account)
    assert place.run().code == 0
    place.check()
