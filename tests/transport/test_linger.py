"""Files of a finished run, asked of neighbours: the first to answer may be a liar."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from admmnet.transport.zmq.linger import Asker, give
from admmnet.transport.zmq.link_state import Link
from admmnet.transport.zmq.membership import Membership

RIGHT, WRONG = {"model.npz": b"right"}, {"model.npz": b"wrong"}
ASKER, LIAR, HONEST = range(3)
GONE = 2.0
"""Seconds without a word after which a neighbour that has taken leave has gone."""


@pytest.mark.parametrize("honest", [True, False])
def test_a_liar_does_not_end_the_search(honest: bool, tmp_path: Path) -> None:
    """The honest one begins to give once the liar has answered; without it nothing is taken."""
    addresses = [f"ipc://{tmp_path}/{agent}" for agent in range(3 if honest else 2)]
    peers = [SimpleNamespace(address=own, listens_at=lambda own=own: own) for own in addresses]
    for peer in peers:
        peer.public_key = None
    network: Any = SimpleNamespace(peers=peers, neighbours=lambda rank: {*range(len(peers))} - {rank})
    giving: list[threading.Thread] = []

    def begin(agent: int, files: Mapping[str, bytes], seconds: float = 60.0) -> None:
        giving.append(threading.Thread(target=give, args=(network, agent, None, files, {ASKER: False}, seconds, GONE)))
        giving[-1].start()

    seen = []

    def take(files: Mapping[str, bytes]) -> bool:
        seen.append(files)
        if files == WRONG and honest:
            begin(HONEST, RIGHT)
        return files == RIGHT

    begin(LIAR, WRONG, 60.0 if honest else 2.0)
    asker, until = Asker(network, ASKER, None, take), time.monotonic() + 60.0
    taken = False
    while not taken and (honest or not seen) and time.monotonic() < until:
        taken = asker.taken()
    asker.close()
    if taken:  # it says so to both
        give(network, ASKER, None, RIGHT, {LIAR: False, HONEST: False}, 60.0, GONE)
    assert taken is honest
    assert seen == [WRONG, RIGHT][: len(addresses) - 1]
    for thread in giving:
        thread.join(30.0)
        assert not thread.is_alive(), "told that the files are there"


@pytest.mark.parametrize(
    ("link", "waited_for"),
    [
        (Link(farewell=True, parted=True), {}),
        (Link(farewell=True), {1: True}),  # started anew while this process took leave: it waits to hear of it
        (Link(parted=True), {1: False}),
    ],
)
def test_who_is_waited_for(link: Link, waited_for: dict[int, bool]) -> None:
    """Who has left, as long as it is there, but may not know that this process has; else who may need files."""
    network = SimpleNamespace(peers=[SimpleNamespace(address="tcp://127.0.0.1:1")])
    member: Any = SimpleNamespace(network=network, rank=0, links={1: link}, start="one", around={1})
    assert Membership.lingers_for(member) == waited_for
    member.around = set()  # not in this start
    assert Membership.lingers_for(member) == {}
    member.start = None  # it has waited for no farewell: any neighbour may not know that it has left
    assert Membership.lingers_for(member) == {1: link.farewell}
    network.peers[0].address = ""  # nobody can ask it
    assert Membership.lingers_for(member) == {1: True}


def pair(folder: Path, other: str) -> Any:
    """Two neighbours, of which the second one is reached there."""
    own = f"ipc://{folder}/0"
    peers = [SimpleNamespace(address=where, listens_at=lambda: own, public_key=None) for where in (own, other)]
    return SimpleNamespace(peers=peers, neighbours=lambda rank: {1 - rank})


@pytest.mark.parametrize("other", ["nobody", "", "tcp://127.0.0.1:1"])
def test_who_has_finished_and_gone_is_not_waited_for(other: str, tmp_path: Path) -> None:
    """Nobody answers there, or it only dials and does not come: this agent leaves much before its time."""
    where = f"ipc://{tmp_path}/1" if other == "nobody" else other
    giver = threading.Thread(
        target=give, args=(pair(tmp_path, where), 0, None, RIGHT, {1: True}, 600.0, GONE), daemon=True
    )
    giver.start()
    giver.join(30.0)
    assert not giver.is_alive()


def test_who_has_finished_and_is_there_is_waited_for(tmp_path: Path) -> None:
    """It is still taking leave, and hears only later: as long as its line stands, it is told again."""
    where = f"ipc://{tmp_path}/1"
    giver = threading.Thread(
        target=give, args=(pair(tmp_path, where), 0, None, RIGHT, {1: True}, 600.0, GONE), daemon=True
    )
    with zmq.Context() as context, context.socket(zmq.ROUTER) as there:
        there.linger = 0
        there.bind(where)
        giver.start()
        begun = time.monotonic()
        while time.monotonic() < begun + 2 * GONE:
            assert there.poll(10_000)
            who, *said = there.recv_multipart()
            assert said == [b"", b"have 0"]
            assert giver.is_alive()
        there.send_multipart([who, b"", b"heard"])
        giver.join(30.0)
        assert not giver.is_alive()


def test_a_word_of_the_run_holds_nobody_up(tmp_path: Path) -> None:
    """A neighbour that is still at work says words to which there is no answer: the time that is given counts."""
    network = pair(tmp_path, "")
    peer = network.peers[0]
    giver = threading.Thread(target=give, args=(network, 0, None, RIGHT, {1: False}, 1.0, GONE), daemon=True)
    with zmq.Context() as context, context.socket(zmq.DEALER) as line:
        line.linger = 0
        line.connect(peer.address)
        line.send(b"a word")
        giver.start()
        giver.join(30.0)
        assert not giver.is_alive()
