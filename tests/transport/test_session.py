"""What one process does for a neighbour that asks too much of it, without the other end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admmnet.errors import RequestError, RunError
from admmnet.identity.keys import Identity
from admmnet.transport.hosts.network import Network, Peer
from admmnet.transport.zmq.membership import Membership
from admmnet.transport.zmq.sockets import Deadlines
from admmnet.transport.zmq.wire import MOST, Abort, Frame, Kind, as_json, check_size, encode
from admmnet.transport.zmq.words import SignedWords

LINK = b"l" * 16
PLAIN: dict[str, Any] = {"quorum": 2, "strikes": 5, "regroup_deadline": 9.0, "give_up": 9.0}


class Alone(Membership):
    """Process 0, whose neighbours are nobody: what it would send and say of them is written down."""

    def __init__(self, folder: Path, settings: dict[str, Any] | None = None, neighbours: int = 1) -> None:
        own, *self.others = [Identity.fresh() for _ in range(1 + neighbours)]
        peers = [Peer(i, f"ipc://{folder}/{i}", None, who.public) for i, who in enumerate((own, *self.others))]
        limits = Deadlines(connect=5.0, heartbeat=100.0, round=100.0, shutdown=0.1)
        network = Network("star", tuple((0, peer.agent) for peer in peers[1:]), tuple(peers), curve=False)
        super().__init__(network, 0, settings=settings or {}, keys=None, identity=own, deadlines=limits, **PLAIN)
        self.blamed: list[str] = []
        self.again = 0
        for peer, link in self.links.items():
            link.id = LINK
            self.mailbox.open(peer, LINK)

    def lose(self, process: int, reason: str, cause: Any = "forged") -> None:
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


def test_who_sends_much_that_brings_nothing_is_cut_off(alone: Alone) -> None:
    alone._by_key["key"], alone.mailbox._identities[1] = 1, "key"
    useless = encode(Frame(Kind.BYE, b"o" * 16, 1, sequence=1))  # of another session
    for _ in range(alone._idle - 1):
        alone._arrive(useless, "key")
    assert not alone.blamed
    alone._arrive(useless, "key")
    assert alone.blamed == [f"it floods this process: {alone._idle} frames in short time brought nothing"]


def test_room_grows_with_what_this_process_sends(alone: Alone) -> None:
    before = alone.mailbox.room
    alone.send(1, Kind.VECTOR, payload=bytes(8000))
    assert alone.mailbox.room >= before + 2 * 2 * 8000  # two turns of everybody's


EXCUSE = {"for": [0], "sent": 1}


@pytest.mark.parametrize(
    ("value", "refused"), [(EXCUSE, 0), ({**EXCUSE, "x": [{}] * 3}, 1), ({"for": [0]}, 1), ({**EXCUSE, "for": [1]}, 1)]
)
def test_an_excuse_says_what_it_must_and_nothing_else(alone: Alone, value: Any, refused: int) -> None:
    alone._arrive(encode(Frame(Kind.WAITING, LINK, 1, payload=as_json(value))), None)
    assert alone.mailbox.counts["refused"] == refused


@pytest.mark.parametrize(
    "frame",
    [
        Frame(Kind.WAITING, bytes(16), 1),  # of another session
        Frame(Kind.HELLO, bytes(16), 7),  # of no neighbour
        Frame(Kind.ABORT, LINK, 1, sequence=9),  # after a hole
        Frame(Kind.ABORT, LINK, 1, origin=0, sequence=1),  # not signed
    ],
    ids=lambda frame: frame.kind.name,
)
def test_what_is_refused_anyhow_is_not_read(alone: Alone, frame: Frame, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Frame] = []
    monkeypatch.setattr("admmnet.transport.zmq.session.content", read.append)
    alone._arrive(encode(frame._replace(payload=b"{}")), None)
    assert not read


def test_an_honest_process_sends_nothing_that_is_too_long(tmp_path: Path, alone: Alone) -> None:
    sent: list[bytes] = []
    alone.links[1].up = True
    alone.sockets.send = lambda process, data, dialled=False: sent.append(data)  # type: ignore
    alone.words.start, alone.around = "ab" * 32, frozenset({1})
    alone.say_waiting(list(range(10**6)))
    alone.abort(3, "\U0001f600" * 10**6)
    assert len(sent) == 2
    assert max(map(len, sent)) < MOST[Kind.WAITING]
    with pytest.raises(RunError, match="2097153 bytes; a message carries at most 2097152"):
        check_size(2**21 + 1, "a value", Kind.SHARE)
    with pytest.raises(RequestError, match="agents compare at most 65536"):
        Alone(tmp_path, {"labels": "x" * 2**16})


def test_turns_of_another_start_are_late(alone: Alone) -> None:
    """What a neighbour sends belongs to the start that it has named on this link."""
    one, other = bytes(32), bytes(range(32))
    alone.mailbox.begin_start(one)
    for number, (name, fate) in enumerate(((one, "late"), (other, "late")), start=1):
        before = alone.mailbox.counts[fate]
        alone._arrive(encode(Frame(Kind.START, LINK, 1, sequence=2 * number - 1, payload=name)), None)
        alone._arrive(encode(Frame(Kind.VECTOR, LINK, 1, origin=1, sequence=2 * number)), None)
        assert alone.mailbox.counts[fate] - before == (name != one)


def test_a_word_that_is_none_is_counted_against_its_sender(alone: Alone) -> None:
    for number in range(1, 9):
        assert not alone.blamed
        alone._arrive(encode(Frame(Kind.WORD, LINK, 1, sequence=number, payload=b"x" * 80)), None)
    assert alone.blamed == ["an agent's word of a start has another form than such words"]


def test_who_asks_for_the_last_files_is_no_liar(alone: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(alone, "_garbled", lambda identity, reason: told.append(reason))
    for data in (b"want 3", b"have 3", b"what 3"):
        alone._arrive(data, None)
    assert len(told) == 1


def test_a_word_is_passed_on_to_those_alone_that_have_not_sent_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a reading, before this process's own next word; two words in one place go to all, with both."""
    alone = Alone(tmp_path, neighbours=3)
    sent: list[tuple[int, int, bytes]] = []
    monkeypatch.setattr(
        alone, "send", lambda peer, kind, **fields: sent.append((peer, fields["origin"], fields["payload"]))
    )
    alone.words.start, alone.around, alone.mailbox.ahead = "s", frozenset({1, 2, 3}), 9
    alone.mailbox.begin_start(b"")
    said = SignedWords(alone.others[0], ())
    said.start = "s"

    def hear(peer: int, sequence: int, round: int, payload: bytes) -> None:
        words = said.sign(Kind.POST, 0, 1, round, payload)
        place = {"origin": 1, "round": round, "sequence": sequence}
        alone._arrive(encode(Frame(Kind.POST, LINK, peer, **place, payload=payload, words=words)), None)

    one, other = bytes(8), bytes(16)
    hear(1, 1, 0, one)
    hear(2, 1, 0, one)
    assert sent == []
    alone.take(0.0)
    assert sent == [(3, 1, one)]
    sent.clear()
    hear(3, 1, 1, one)
    alone.say(Kind.POST, 0, 0, b"")
    assert sent == [(1, 1, one), (2, 1, one), (1, 0, b""), (2, 0, b""), (3, 0, b"")]
    sent.clear()
    hear(1, 2, 2, one)
    hear(2, 2, 2, other)
    alone.pass_all_on()
    assert sent == [(2, 1, one), (3, 1, one), (1, 1, other), (3, 1, other)]
    alone.leave()


def test_an_end_that_comes_again_by_another_way_is_not_passed_on_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it goes round for ever among those that form the next start."""
    alone, abort = Alone(tmp_path, neighbours=3), Abort(3, "its disk is full")
    alone.goes_on = True
    sent: list[int] = []
    monkeypatch.setattr(alone, "send", lambda peer, kind, **fields: sent.append(peer))
    alone.words.start, alone.around = "s", frozenset({1, 2, 3})
    said = SignedWords(alone.others[0], ())
    said.start = "s"
    words = said.sign(Kind.ABORT, 0, 1, 0, as_json(abort))
    for peer in (1, 2, 3, 1):
        alone.obey(Frame(Kind.ABORT, LINK, peer, origin=1, payload=as_json(abort), words=words), abort)
    assert sent == [2, 3]
    alone.leave()
