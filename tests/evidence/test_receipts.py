"""What words that others have signed show of run folders that somebody changed, also where all else was made to fit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet.errors import CheckFailed
from admmnet.forms import encode
from admmnet.identity.keys import SIGNATURE, Identity
from admmnet.privacy.ledger.lines import digest
from admmnet.record.reader import read_run
from admmnet.record.receipts import FILE, Keys, Receipts, read_keys, read_receipts
from admmnet.transport.hosts import read_network, read_secret, secret_path, write_network
from admmnet.transport.zmq.wire import Word, read_word, sign_word
from tests.command_runs import Admmnet
from tests.people_runs import put_summary, summary_of
from tests.processes.relayed import PRIVATE, QUIET, Hosts

pytestmark = pytest.mark.processes
ROUNDS = 4


@dataclass
class Ran:
    """Folders 0, 1, 2 of agents on a path, and their keys."""

    folder: Path
    keys: list[Identity]
    admmnet: Admmnet

    def __getitem__(self, agent: int) -> Path:
        return self.folder / str(agent)

    def verify(self, *agents: int, code: int = 1) -> str:
        """Verify the first one's folder against the others."""
        first, *others = (self[agent] for agent in agents)
        words = ("ledger", "verify", first, *(word for other in others for word in ("--against", other)))
        return self.admmnet.refused(*words, code=code) if code else self.admmnet.ok(*words).out

    def words(self, keeper: int) -> list[Word]:
        return [one.word for one in read_receipts(self[keeper])[1]]

    def say(self, keeper: int, agent: int, change: Callable[[Word], Word], turn: int) -> None:
        """An agent has told a keeper other words from a turn on, which it has signed; no manifest knows better."""
        keys, words = read_keys(self[keeper]), self.words(keeper)
        path = self[keeper] / FILE
        path.unlink()
        own = Receipts(self[keeper], read_network(self.folder / "net/network.toml"), keeper)
        own.begin(keys.run)
        for word in words:
            word = change(word) if word.agent == agent and word.turn >= turn else word
            own.take(word, sign_word(word, self.keys[word.agent]))
        own.write()
        self.unfinish(keeper)

    def unfinish(self, agent: int) -> None:
        for name in ("summary.json", "manifest.json", "model.npz", "finish.json"):
            (self[agent] / name).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    with Hosts(folder, ROUNDS, words=(*PRIVATE, *QUIET)) as hosts:
        hosts.start_all()
        assert [code for code, _ in hosts.all_ended()] == [0] * 3
    return folder


@pytest.fixture
def ran(made: Path, tmp_path: Path, admmnet: Admmnet) -> Ran:
    for name in ("0", "1", "2", "net"):
        shutil.copytree(made / name, tmp_path / name)
    return Ran(tmp_path, [read_secret(secret_path(made / "net", i), i) for i in range(3)], admmnet)


def test_honest_folders_agree(ran: Ran, admmnet: Admmnet) -> None:
    told = admmnet.json("ledger", "verify", ran[1], "--against", ran[0], "--against", ran[2])
    assert told["integrity"]["others"] == 2
    assert told["integrity"]["receipts"] == sum(len(ran.words(i)) for i in range(3))
    network = ("--network", ran.folder / "net/network.toml")
    assert "receipts agree" in admmnet.ok("ledger", "verify", ran[1], *network).out
    for keeper, around in enumerate(([1], [0, 2], [1])):
        parts = [word.agent for word in ran.words(keeper) if word.to == keeper]
        assert set(parts) == set(around)
        assert all(parts.count(j) >= ROUNDS for j in around)
        assert {word.agent for word in ran.words(keeper) if word.to < 0} == {0, 1, 2} - {keeper}
        assert {word.to for word in ran.words(keeper)} == {-1, keeper}


def test_a_ledger_that_was_rolled_back(ran: Ran) -> None:
    """By a line: by itself it is a run that was interrupted."""
    ran.unfinish(1)
    path = ran[1] / "ledger/agent-001.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    read_run(ran[1])
    told = ran.verify(1, 0)
    assert all(word in told for word in (f"{path}: has ", "agent 1 told ", "cut or rolled back"))


@pytest.mark.parametrize(
    ("keeper", "change", "turn", "verified", "code", "told"),
    [
        (2, {"said": bytes(32)}, 3, (0, 2), 1, "agent 1 has signed two different words in turn 3 of one start, vec"),
        (2, {"head": "ab" * 32}, 3, (0, 2), 1, "agent 1 has signed two different words in turn 3 of one start, led"),
        (2, {"start": "cd" * 32, "said": bytes(32)}, 3, (0, 2), 0, "receipts agree"),  # turns of two starts differ
        (0, {"start": "cd" * 32, "lines": 1, "head": "ab" * 32}, 3, (0,), 1, "agent 1 has told of two ledgers of 1 l"),
        (0, "anew", 0, (1, 0), 1, "agent-001.jsonl: line 1: is not the line that agent 1 told all ("),
    ],
)
def test_what_an_agent_has_signed(
    keeper: int, change: Any, turn: int, verified: tuple[int, ...], code: int, told: str, ran: Ran
) -> None:
    """Different words for different neighbours, or in two starts to one; a ledger that was made anew."""

    def other(word: Word) -> Word:
        anew = {"head": digest(b"%d" % word.lines) if word.lines else ""}
        return structs.replace(word, **anew if change == "anew" else change)

    ran.say(keeper, 1, other, turn)
    ran.unfinish(1)
    found = ran.verify(*verified, code=code)
    assert told in found
    assert code == 0 or all(str(ran[agent]) in found for agent in verified)
    assert change != "anew" or found.endswith("it was made anew\n")


def test_folders_of_different_runs_are_not_compared(ran: Ran) -> None:
    path = ran[0] / FILE
    first, *_ = path.read_bytes().splitlines()
    path.write_bytes(first.replace(read_keys(ran[0]).run.encode(), b"ab" * 32) + b"\n")
    ran.unfinish(0)
    assert "are not of one run" in ran.verify(1, 0, code=2)


def test_keys_are_held_against_words_others_and_a_network_file(ran: Ran, admmnet: Admmnet) -> None:
    network = read_network(ran.folder / "net/network.toml")
    peers = [structs.replace(peer, identity=Identity.fresh().public) for peer in network.peers[:1]]
    write_network(structs.replace(network, peers=(*peers, *network.peers[1:])), ran.folder / "other.toml")
    told = admmnet.refused("ledger", "verify", ran[1], "--network", ran.folder / "other.toml", code=1)
    assert "words.jsonl: the key of agent 0 is none that" in told
    ran.unfinish(0)
    path, keys = ran[0] / FILE, read_keys(ran[0])
    first = encode(Keys(run=keys.run, keys=keys.keys | {"1": peers[0].identity})) + b"\n"
    path.write_bytes(first + b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    assert "is not signed by agent 1" in ran.verify(0)
    path.write_bytes(first)
    assert "list different keys of agent 1" in ran.verify(0, 1)


def test_every_single_edit_of_receipts_is_found(ran: Ran) -> None:
    """Without the manifest: signatures leave no byte free; a last line without its end counts for nothing."""
    path = ran[1] / FILE
    good, stream = path.read_bytes(), np.random.default_rng(0)
    first = good.index(b"\n")  # its own key is before that, and no word of its own is here
    for place in [0, first, len(good) - 2, *stream.integers(first, len(good) - 1, 60).tolist()]:
        for edited in (
            good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :],
            good[:place] + good[place + 1 :],
            good[:place] + good[place : place + 1] + good[place:],
        ):
            if edited != good:
                path.write_bytes(edited)
                with pytest.raises(CheckFailed, match=r"words\.jsonl: line \d+: "):
                    read_receipts(ran[1])
    path.write_bytes(good[:-1])
    assert len(read_receipts(ran[1])[1]) == len(good.splitlines()) - 2


def test_a_folder_without_words_of_others(tmp_path: Path, admmnet: Admmnet) -> None:
    admmnet.ok("run", "--seed", "1", "--rounds", "2", "--quiet", "-o", tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    told = admmnet.refused("ledger", "verify", tmp_path / "one", "--against", tmp_path / "two")
    assert "keeps no receipts: agents on hosts of their own do" in told


def test_a_summary_is_held_against_the_ledgers_in_other_folders(ran: Ran, admmnet: Admmnet) -> None:
    """Also where its manifest was made anew, and the signed end is gone."""
    verify, good = ("ledger", "verify", ran[1]), summary_of(ran[1])
    assert "name folders to compare with behind --against" in admmnet.refused(*verify, ran[0], ran[2])
    assert "is the folder itself" in admmnet.refused(*verify, "--against", ran[1])
    (ran[1] / "finish.json").unlink()
    last = f"rounds is 2, the ledger of agent 1 has a charge of round {ROUNDS - 1}"
    for place, key, value, fault in (
        (good["per_agent"][0], "epsilon_target", 0.1, "agent 0: epsilon_target is 0.1"),
        (good["per_agent"][2], "records", 99999, "agent 2: records is 99999"),
        (good, "rounds", 2, last),
    ):
        before, place[key] = place[key], value
        put_summary(ran[1], good)
        assert f"{ran[1] / 'summary.json'}: {fault}" in ran.verify(1, 0, 2)
        place[key] = before
    put_summary(ran[1], good)
    assert "1 ledger, " in ran.verify(1, 0, 2, code=0)


def test_a_file_goes_on_behind_its_last_whole_line(ran: Ran) -> None:
    """After a crash; the newest word of each agent is known again, unless that agent has not signed it."""
    path, keys = ran[1] / FILE, read_keys(ran[1])
    lines, words = path.read_bytes().splitlines(keepends=True), ran.words(1)
    newest = {i: max((word for word in words if word.agent == i), key=lambda word: word.age) for i in (0, 2)}
    forged = lines[-1].replace(b'"agent":0', b'"agent":2').replace(b'"lines":', b'"lines":9')
    path.write_bytes(b"".join(lines) + forged + lines[-1][:-9])
    network = read_network(ran.folder / "net/network.toml")
    own, known = Receipts(ran[1], network, 1), [str(peer.identity) for peer in network.peers]
    found = {word.agent: word for word in (read_word(data, known) for data in own.begin(keys.run))}
    assert {i: word.age for i, word in found.items()} == {i: word.age for i, word in newest.items()}
    own.take(newest[0], sign_word(newest[0], ran.keys[0]))
    own.take(structs.replace(newest[0], agent=1), bytes(SIGNATURE))  # its own are not kept
    own.write(durable=True)
    *before, last = path.read_bytes().splitlines(keepends=True)
    assert before == [*lines, forged]
    assert last in lines
    other = Receipts(ran[1], network, 1)
    assert other.begin("cd" * 32) == []  # another run
    other.write(durable=True)
    assert path.read_bytes().count(b"\n") == 1
