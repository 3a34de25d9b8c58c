"""What one process does for a neighbour that asks too much of it, without the other end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from admmnet.identity.keys import Identity
from admmnet.transport.hosts.network import Network, Peer
from admmnet.transport.zmq.membership import Membership
from admmnet.transport.zmq.sockets import Deadlines
from admmnet.transport.zmq.wire import Frame, Kind

LINK = b"l" * 16


class Alone(Membership):
    """Process 0, whose neighbour 1 is nobody: what it would send and say of it is written down."""

    def __init__(self, folder: Path) -> None:
        own, other = Identity.fresh(), Identity.fresh()
        peers = [Peer(i, f"ipc://{folder}/{i}", None, who.public) for i, who in enumerate((own, other))]
        limits = Deadlines(connect=5.0, heartbeat=100.0, round=100.0, shutdown=0.1)
        network = Network("path:2", ((0, 1),), tuple(peers), curve=False)
        super().__init__(network, 0, settings={}, keys=None, identity=own, deadlines=limits, on_loss="stop")
        self.blamed: list[str] = []
        self.again = 0
        self.links[1].id = LINK
        self.mailbox.open(1, LINK)

    def lose(self, process: int, reason: str) -> None:
        self.blamed.append(reason)

    def resend(self, peer: int, after: int = 0) -> None:
        self.again += 1


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    process = Alone(tmp_path)
    yield process
    process.leave()


def test_who_asks_for_everything_again_and_again_is_answered_once(alone: Alone) -> None:
    for _ in range(1000):
        alone.obey(Frame(Kind.AGAIN, LINK, 1), None)
    assert alone.again == 1
    alone.links[1].answered_at = 0.0  # half a pulse later
    alone.obey(Frame(Kind.AGAIN, LINK, 1), None)
    assert alone.again == 2


def test_who_confirms_nothing_is_given_up(alone: Alone) -> None:
    alone.send(1, Kind.VECTOR, payload=bytes(8000))
    alone.mailbox.room = 20_000
    for _ in range(2):
        alone.links[1].acknowledge(alone.links[1].sent)
        alone.send(1, Kind.VECTOR, payload=bytes(8000))
        alone.send(1, Kind.VECTOR, payload=bytes(8000))
    assert not alone.blamed
    alone.send(1, Kind.VECTOR, payload=bytes(8000))
    (reason,) = alone.blamed
    assert reason.startswith("it takes part, but has not confirmed 24")


def test_room_grows_with_what_this_process_sends(alone: Alone) -> None:
    before = alone.mailbox.room
    alone.send(1, Kind.VECTOR, payload=bytes(8000))
    assert alone.mailbox.room >= before + 2 * 2 * 8000  # two turns of everybody's
