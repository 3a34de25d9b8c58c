"""Run folders and accounts that were put back from older copies: the relay, or all ranks, refuse them, and say so.

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
from .relayed import Hosts

pytestmark = pytest.mark.processes
WORDS = ("--algorithm", "pp-admm", "--features", "4", "--whiten", "off", "--epsilon", "20", "--delta", "1e-4")
TOLD = "this agent has signed another one, of "


class Paid(Hosts):
    def begin(self, agent: int) -> None:
        self.start(agent, "none:9:0", "--no-test", "--account", str(self.folder / f"account-{agent}"))


def charged(folder: Path) -> int:
    """Last round that its ledger charges, and one."""
    path = folder / "ledger/agent-001.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    rounds = [json.loads(line)["round"] for line in lines if line.endswith(b"}") and b'"round":' in line]
    return 1 + max(rounds, default=-1)


def put_back(copy: Path, place: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(copy, place)


def restored(account: Path) -> int:
    """Lines that count the rest of a run as spent, of which the last is one; the account is spent then."""
    kinds = [json.loads(line)["kind"] for line in account.read_bytes().splitlines()]
    assert kinds[-1] == "restored"
    book = audit.read(account, account=True)
    filter = book.contract.account
    assert filter is not None
    assert book.totals.mu_squared == filter.limit
    return kinds.count("restored")


@pytest.mark.parametrize(("what", "rounds"), [("folder", 1), ("host", 4)])
def test_an_older_copy_is_refused_and_the_newest_goes_on(what: str, rounds: int, tmp_path: Path) -> None:
    """The folder alone by exactly one round, or with its account; the account then counts all as spent."""
    with Paid(tmp_path, 14, words=WORDS, own=("--quiet",), delay=0.02) as hosts:
        for agent in range(3):
            hosts.begin(agent)
        folder, account = tmp_path / "1", tmp_path / "account-1"
        before = 0
        for name, done in (("old", 3), ("new", rounds)):
            hosts.until(lambda: charged(folder) >= before + done)  # noqa: B023 (used at once)
            hosts.kill(1)
            before = charged(folder)
            shutil.copytree(folder, tmp_path / name / "folder")
            shutil.copytree(account, tmp_path / name / "account")
            if name == "old":
                hosts.begin(1)
        put_back(tmp_path / "old/folder", folder)
        if what == "host":
            put_back(tmp_path / "old/account", account)
        for _ in range(2):
            hosts.begin(1)
            code, told = hosts.ended(1)
            assert (code, TOLD in told, "Put back the newest folder and account, both" in told) == (2, True, True)
            assert restored(account / "agent-001.jsonl") == 1
        put_back(tmp_path / "new/folder", folder)  # the remedy that it has named
        put_back(tmp_path / "new/account", account)
        hosts.begin(1)
        assert [code for code, _ in hosts.all_ended()] == [0] * 3
        assert hosts.summaries().keys() == {0, 1, 2}


def test_ranks_refuse_an_older_copy_with_one_message(tmp_path: Path) -> None:
    people = ("--data", write_people(tmp_path / "people.npz"))
    place = Place(tmp_path, "run", *METHODS["pp-admm"], *FEW, "--rounds", "8", *people, transport="mpi", ranks=2)
    assert place.account is not None
    for name, round in (("old", 2), ("new", 5)):
        assert place.run(fault=f"kill:1:{round}").code != 0
        shutil.copytree(place.folder, tmp_path / name / "folder")
        shutil.copytree(place.account, tmp_path / name / "account")
    put_back(tmp_path / "old/folder", place.folder)
    refused = place.run()
    assert (refused.code, len(refused.messages)) == (2, 1), refused.err
    assert "the folder was put back" in refused.messages[0]
    assert [restored(file) for file in sorted(place.account.glob("*.jsonl"))] == [1] * 3
    put_back(tmp_path / "new/folder", place.folder)
    put_back(tmp_path / "new/account", place.account)
    assert place.run().code == 0
    place.check()
