"""What a relay that lies can do: end starts. It cannot speak for an agent, form a start of old words, make an end."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RunError, StartEnded
from admmnet.identity.keys import Identity, statement
from admmnet.masking import StartKey
from admmnet.record.receipts import Receipts
from admmnet.running.topics import TOPICS
from admmnet.transport.collective import as_one
from admmnet.transport.hosts import Peer, make_network
from admmnet.transport.zmq.meeting import Call, Here, sign_here
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.wire import Frame, Kind, Said, Word, digest_of, packed, sign_word
from admmnet.types import NEVER

IDENTITIES = [Identity.fresh() for _ in range(3)]


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Member]]:
    """Three agents in a start; no relay is there, what it says is put into their hands."""
    peers = [Peer(i, one.public) for i, one in enumerate(IDENTITIES)]
    network = make_network("complete:3", [(0, 1), (0, 2), (1, 2)], peers, f"ipc://{tmp_path}/relay")
    journal = SimpleNamespace(charged=lambda: (NEVER, 0, ""), staged=lambda: None)
    own: Any = {"keys": None, "topics": TOPICS, "connect": 9.0, "heartbeat": 9.0, "quorum": 2, "journal": journal}
    found = [Member(network, i, settings={}, identity=one, **own) for i, one in enumerate(IDENTITIES)]
    for member in found:
        member._secret = StartKey()
    call = Call([word_of(member) for member in found])
    assert all(member._formed(call) for member in found)
    yield found
    for member in found:
        member.close()


def word_of(member: Member, **more: Any) -> bytes:
    """HERE of a member, with its key of this start."""
    assert member._secret is not None
    key = member._secret.public
    own: dict[str, Any] = {"agent": member.rank, "network": member.network.digest, "settings": {}, "least": 2}
    return sign_here(Here(epk=key, **own, **more), member.identity)


def sealed(sender: Member, to: int, payload: bytes) -> bytes:
    """The frame of a part, as the relay gets it."""
    sender._sealed.clear()
    sender._seal(Kind.PART, to, 0, payload)
    return bytes(sender._line._log[-1][2][1])


def give(member: Member, kind: Kind, body: bytes, *, who: int = -1, turn: int = 0) -> None:
    member._obey(Frame(kind, 1, member._name, who, turn), body)


def said(member: Member, signers: list[int], topic: str = "ready", start: str | None = None) -> None:
    """The relay gives the words of the first gather, as signed by these agents."""
    assert member.start is not None
    parts = []
    for i in signers:
        place = member.start.run, start or member.start.name, i, -1, 0
        word = Word(*place, NEVER, 0, "", digest_of("ready", b"null"))
        parts.append(Said(topic, b"null", sign_word(word, IDENTITIES[i])))
    give(member, Kind.SAY, packed(parts))


def test_what_all_have_signed_is_taken(members: list[Member]) -> None:
    said(members[0], [0, 1, 2])
    assert members[0].gather(None) == [None] * 3


@pytest.mark.parametrize(
    ("signers", "topic", "start"),
    [([0, 2, 2], "ready", None), ([0, 1, 2], "pooled", None), ([0, 1, 2], "ready", "ab" * 32), ([0, 1], "ready", None)],
    ids=["another's name", "other words", "an earlier start", "left out"],
)
def test_words_that_agents_have_not_signed_end_the_start(
    signers: list[int], topic: str, start: str | None, members: list[Member]
) -> None:
    said(members[0], signers, topic, start)
    with pytest.raises(StartEnded, match="the relay gave words of turn 0 that agents have not signed"):
        members[0].gather(None)


@pytest.mark.parametrize("words", [(1, 2), (0,), (0, 1, 1)])
def test_a_start_of_too_few_or_without_this_agent_is_none(words: tuple[int, ...], members: list[Member]) -> None:
    before = members[0].start
    assert not members[0]._formed(Call([word_of(members[i]) for i in words]))
    assert members[0].start == before


def test_a_part_is_for_one_neighbour_in_one_turn_of_one_direction(members: list[Member]) -> None:
    """Given to somebody else, sent back to its sender, given as another turn's, or changed, it does not open."""
    one, other, third = members
    body = sealed(one, 1, b"a vector")
    assert other._opened(Kind.PART, 0, 0, body) == b"a vector"
    changed, start = body[:-1] + bytes([body[-1] ^ 1]), one.start
    wrong = ((third, 0, 0, body), (one, 1, 0, body), (other, 2, 0, body), (other, 0, 1, body), (other, 0, 0, changed))
    for reader, sender, turn, part in wrong:
        reader.start, reader.ended = start, None
        with pytest.raises(StartEnded, match="not sealed by it for this place"):
            reader._opened(Kind.PART, sender, turn, part)


def test_a_second_part_of_a_turn_is_never_sealed(members: list[Member]) -> None:
    members[0]._seal(Kind.PART, 1, 0, b"one")
    with pytest.raises(RunError, match="a second part of turn 0"):
        members[0]._seal(Kind.PART, 1, 0, b"other")


GRID = [np.arange(k, k + 3.0).tobytes() for k in range(64)]
"""Vectors that a neighbour's may be: few enough to try them all."""


def test_what_was_said_is_found_by_the_senders_journal_alone(members: list[Member]) -> None:
    """Words are handed round: of a vector on a public grid a digest without a secret could be found by trying."""

    def word_of_part(payload: bytes, round: int) -> tuple[Word, bytes]:
        members[0].round = round
        members[1]._opened(Kind.PART, 0, 0, sealed(members[0], 1, payload))
        return members[1]._words[0]

    word, data = word_of_part(GRID[17], 3)

    def tried(key: bytes) -> list[bytes]:
        """Vectors whose digest, by a nonce made with this key, or with it for a nonce, is the word's."""
        found = []
        for payload in GRID:
            nonce = hmac.digest(key, statement("part", word.run, 3, payload), "sha256")
            digests = [hashlib.sha256(statement("part", one, payload)).digest() for one in (nonce, key)]
            if word.said in (*digests, hashlib.sha256(payload).digest()):
                found.append(payload)
        return found

    own = members[0].network
    public = [word.run, word.start, word.head, own.digest, *(str(peer.identity) for peer in own.peers)]
    known = [b"", bytes(32), data, data[:64], *(text.encode() for text in public), *map(bytes.fromhex, public[1:])]
    assert not any(tried(key) for key in known)
    assert tried(members[0].key) == [GRID[17]]
    assert word_of_part(GRID[17], 3)[0].said == word.said  # in a replay
    assert word_of_part(GRID[17], 4)[0].said != word.said  # nobody sees that a vector is that of another round
    members[0].key = bytes(32)
    assert word_of_part(GRID[17], 3)[0].said != word.said


def test_a_start_without_the_newest_word_is_left(members: list[Member], tmp_path: Path) -> None:
    member = members[0]
    assert member.start is not None
    word = Word(member.start.run, member.start.name, 1, 0, 7, 5, 9, "", bytes(32))
    held = sign_word(word, IDENTITIES[1])
    member._words[1] = word, held
    here = [word_of(one, run=word.run, lines=9) for one in members]
    assert not member._formed(Call(here))
    member.ended = None
    assert member._formed(Call(here, [held]))
    kept, again = Receipts(tmp_path, member.network, 0), members[2]  # as if its process had begun again
    (tmp_path / "config.toml").touch()
    kept.begin(word.run)
    kept.take(word, held)
    kept.write(durable=True)
    again.receipts = Receipts(tmp_path, member.network, 2)
    assert not again._formed(Call(here))
    again.ended = None
    assert again._formed(Call(here, [held]))


def test_an_agent_that_was_charged_gives_up_the_name_of_its_run_for_no_other(members: list[Member]) -> None:
    members[0]._bound = "ab" * 32
    assert not members[0]._formed(Call([word_of(one) for one in members]))


def test_a_disk_that_is_full_once_a_word_was_said_says_none_in_place_of_the_next(members: list[Member]) -> None:
    def full(*, durable: bool = False) -> None:
        raise RunError("no space left")

    own: Any = members[0]
    own.receipts = SimpleNamespace(take=lambda *given: None, write=full)
    said(own, [0, 1, 2])
    with pytest.raises(RunError, match="no space left"), as_one(own):
        own.gather(None)
    assert own._next() == 1
    own.receipts = None
