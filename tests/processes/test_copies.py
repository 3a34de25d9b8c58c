"""Run folders and accounts that were put back from older copies: the relay refuses their agent, which says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from admmnet.privacy.ledger import audit

from .relayed import Hosts

pytestmark = pytest.mark.processes
WORDS = ("--algorithm", "pp-admm", "--features", "4", "--whiten", "off", "--epsilon", "20", "--delta", "1e-4")
TOLD = "this agent has signed another one, of "


def account(hosts: Hosts, agent: int) -> Path:
    return hosts.folder / f"account-{agent}"


def begin(hosts: Hosts, agent: int) -> None:
    hosts.start(agent, "none:9:0", "--no-test", "--account", str(account(hosts, agent)))


def charged(folder: Path) -> int:
    """Last round that its ledger charges, and one."""
    path = folder / "ledger/agent-001.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return 1 + max(
        (json.loads(line)["round"] for line in lines if line.endswith(b"}") and b'"round":' in line), default=-1
    )


def put_back(copy: Path, place: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(copy, place)


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("what", ["folder", "host"])
def test_an_older_copy_is_refused_and_the_newest_goes_on(what: str, rounds: int, tmp_path: Path) -> None:
    """The folder alone, or with its account, by exactly one round or more; the account then counts all as spent."""
    with Hosts(tmp_path, 14, words=WORDS, own=("--quiet",), delay=0.02) as hosts:
        for agent in range(3):
            begin(hosts, agent)
        folder, paid = tmp_path / "1", account(hosts, 1)
        before = 0
        for name, done in (("old", 3), ("new", rounds)):
            hosts.until(lambda: charged(folder) >= before + done)  # noqa: B023 (used at once)
            hosts.kill(1)
            before = charged(folder)
            shutil.copytree(folder, tmp_path / name / "folder")
            shutil.copytree(paid, tmp_path / name / "account")
            if name == "old":
                begin(hosts, 1)
        put_back(tmp_path / "old/folder", folder)
        if what == "host":
            put_back(tmp_path / "old/account", paid)
        for _ in range(2):
            begin(hosts, 1)
            code, told = hosts.ended(1)
            assert code == 2
            assert TOLD in told
            assert "Put back the newest folder and account, both" in told
            kinds = [json.loads(line)["kind"] for line in (paid / "agent-001.jsonl").read_bytes().splitlines()]
            assert (kinds[-1], kinds.count("restored")) == ("restored", 1)
        book = audit.read(paid / "agent-001.jsonl", account=True)
        filter = book.contract.account
        assert filter is not None
        assert book.totals.mu_squared == filter.limit
        put_back(tmp_path / "new/folder", folder)  # the remedy that it has named
        put_back(tmp_path / "new/account", paid)
        begin(hosts, 1)
        assert [code for code, _ in hosts.all_ended()] == [0] * 3
        assert hosts.summaries().keys() == {0, 1, 2}
