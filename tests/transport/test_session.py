"""What one process does for a neighbour that asks too much of it, without the other end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.identity.keys import Identity, statement
from admmnet.transport.hosts.network import Network, Peer
from admmnet.transport.zmq.membership import Membership, check_size
from admmnet.transport.zmq.sockets import Deadlines
from admmnet.transport.zmq.start import DRAWN
from admmnet.transport.zmq.wire import MOST, Frame, Kind, as_json, encode
from admmnet.transport.zmq.words import NONCES, SignedWords

LINK = b"l" * 16


class Alone(Membership):
    """Process 0, whose neighbour 1 is nobody: what it would send and say of it is written down."""

    def __init__(self, folder: Path, settings: dict[str, Any] | None = None) -> None:
        own, other = Identity.fresh(), Identity.fresh()
        peers = [Peer(i, f"ipc://{folder}/{i}", None, who.public) for i, who in enumerate((own, other))]
        limits = Deadlines(connect=5.0, heartbeat=100.0, round=100.0, shutdown=0.1)
        network = Network("path:2", ((0, 1),), tuple(peers), curve=False)
        super().__init__(network, 0, settings=settings or {}, keys=None, identity=own, deadlines=limits, on_loss="stop")
        self.other = other
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
        Frame(Kind.OBITUARY, LINK, 1, origin=1, sequence=1),  # not signed
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
    alone.words.begin({0: b"0", 1: b"1"})
    alone.say_waiting(list(range(10**6)))
    alone.abort(3, "\U0001f600" * 10**6)
    assert len(sent) == 2
    assert max(map(len, sent)) < MOST[Kind.WAITING]
    with pytest.raises(RunError, match="2097153 bytes; a message carries at most 2097152"):
        check_size(2**21 + 1, "a value", Kind.SHARE)
    with pytest.raises(RequestError, match="agents compare at most 65536"):
        Alone(tmp_path, {"labels": "x" * 2**16})


class Ended(Exception):
    """What the process would end with."""


def number(who: Identity, nonce: str) -> Frame:
    """Frame with the number of process 1, signed for no run, as in every start."""
    payload = as_json(nonce)
    words = who.sign(statement("word", "SHARE", b"", NONCES, 1, 0, payload))
    return Frame(Kind.SHARE, LINK, 1, channel=NONCES, origin=1, payload=payload, words=words)


@pytest.mark.parametrize("after", [False, True], ids=["before the other's word", "after it"])
def test_who_repeats_an_old_number_ends_the_start_and_gets_nobody_blamed(alone: Alone, after: bool) -> None:
    """Process 0 has an old number of process 1, which has the true one."""

    def end(error: AdmmnetError) -> NoReturn:
        raise Ended(str(error))

    alone.end = end  # type: ignore[method-assign]
    drawn = alone.mailbox.begin(DRAWN, 0)
    drawn[-1, 0] = alone.say(Kind.SHARE, NONCES, 0, as_json("0"))
    alone._arrive(encode(number(alone.other, "old")._replace(sequence=1)), None)
    assert alone.words.run
    assert not alone.agreed
    if after:
        theirs = SignedWords(alone.other, [alone.identity.public, alone.other.public])
        theirs.begin({0: as_json("0"), 1: as_json("true")})
        word = theirs.sign(Kind.SHARE, NONCES, 1, 1, as_json(None))
        news = Frame(Kind.SHARE, LINK, 1, NONCES, origin=1, round=1, payload=as_json(None), words=word)
    else:
        news = number(alone.other, "true")
    with pytest.raises(Ended, match=r"as words of agent 1 show: .* nothing was charged; start again"):
        alone._arrive(encode(news._replace(sequence=2)), None)
    assert not alone.blamed


def test_a_start_is_agreed_once_all_have_signed_the_name_of_the_run(alone: Alone) -> None:
    theirs = SignedWords(alone.other, [alone.identity.public, alone.other.public])
    drawn = alone.mailbox.begin(DRAWN, 0)
    drawn[-1, 0] = alone.say(Kind.SHARE, NONCES, 0, as_json("0"))
    alone._arrive(encode(number(alone.other, "1")._replace(sequence=1)), None)
    assert alone._missing() == [1]
    theirs.begin({0: as_json("0"), 1: as_json("1")})
    assert theirs.run == alone.words.run
    word = theirs.sign(Kind.SHARE, NONCES, 1, 1, as_json(None))
    news = Frame(Kind.SHARE, LINK, 1, NONCES, origin=1, round=1, sequence=2, payload=as_json(None), words=word)
    alone._arrive(encode(news), None)
    assert alone._missing() == []
