"""What a relay that lies can do: end starts. It cannot speak for an agent, form a start of old words, make an end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admmnet.errors import StartEnded
from admmnet.identity.keys import Identity, statement
from admmnet.transport.hosts.network import Peer, make_network
from admmnet.transport.zmq.meeting import Call, Here, signed
from admmnet.transport.zmq.member import Deadlines, Member
from admmnet.transport.zmq.wire import Frame, Kind, packed

IDENTITIES = [Identity.fresh() for _ in range(3)]


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    """Agent 0 in a start with agents 1 and 2; no relay is there, what it says is put into its hands."""
    peers = [Peer(i, one.public) for i, one in enumerate(IDENTITIES)]
    network = make_network("complete:3", [(0, 1), (0, 2), (1, 2)], peers, f"ipc://{tmp_path}/relay")
    own: Any = {"identity": IDENTITIES[0], "keys": None, "deadlines": Deadlines(9.0, 9.0, 9.0, 0.0), "quorum": 2}
    found = Member(network, 0, settings={}, **own)
    words = [signed(Here(i, network.digest, "ab" * 32), one) for i, one in enumerate(IDENTITIES)]
    assert found._formed(Call(words)) is not None
    yield found
    found.close()


def said(member: Member, signers: list[int], payload: bytes = b"x", start: bytes | None = None) -> None:
    """The relay gives all parts of the first gather, as signed by these agents."""
    name = member._name if start is None else start
    parts = [
        (payload, IDENTITIES[j].sign(statement("word", name, i, "gather", 0, b"x"))) for i, j in enumerate(signers)
    ]
    member._obey(Frame(Kind.SAY, 1, member._name, topic="gather", payload=packed(parts)))


def test_what_all_have_signed_is_taken(member: Member) -> None:
    said(member, [0, 1, 2])
    assert member.say("gather", 0, b"x") == [b"x"] * 3


@pytest.mark.parametrize(
    ("signers", "payload", "start"),
    [([0, 2, 2], b"x", None), ([0, 1, 2], b"y", None), ([0, 1, 2], b"x", bytes(32)), ([0, 1], b"x", None)],
    ids=["another's name", "other words", "an earlier start", "left out"],
)
def test_words_that_their_origin_has_not_signed_end_the_start(
    signers: list[int], payload: bytes, start: bytes | None, member: Member
) -> None:
    said(member, signers, payload, start)
    with pytest.raises(StartEnded, match=r"the relay gave words of agent . that it has not signed for this start"):
        member.say("gather", 0, b"x")


@pytest.mark.parametrize("words", [(1, 2), (0,), (0, 1, 1)])
def test_a_start_of_too_few_or_without_this_agent_is_none(words: tuple[int, ...], member: Member) -> None:
    digest = member.network.digest
    said = [signed(Here(i, digest, "cd" * 32), IDENTITIES[2 if i == 1 else i]) for i in words]
    before = member.start
    assert member._formed(Call(said)) is None
    assert member.start == before
