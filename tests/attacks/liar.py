"""An agent with a right key that runs the real program but for one lie (``lies.LIES``).

A lie changes frames on their way out, or is a word that is sent in round ``WHEN`` beside the true ones. Whatever the
liar can sign with its own key is signed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from admmnet.evidence.members import Members, agree
from admmnet.running import loop
from admmnet.transport.zmq.membership import Membership
from admmnet.transport.zmq.session import Session
from admmnet.transport.zmq.transport import ZmqTransport, ZmqWorld
from admmnet.transport.zmq.wire import Frame, Kind, encode
from admmnet.transport.zmq.words import SIGNED

WHEN = 2
"""Round of the lie."""
Fields = dict[str, Any]


class Liar:
    """Process 0, neighbour of 1 and 3."""

    def __init__(self, member: Membership) -> None:
        self.member, self.round = member, -1
        self.said: set[tuple[int, Kind, int, int]] = set()
        self.kept: dict[int, bytes] = {}  # what a lie remembers of each neighbour
        self.run = ""  # name of the start, which is in what it signs

    def word(self, kind: Kind, value: Any, *, origin: int = 0, round: int = 0, channel: int = 0) -> None:
        """Send both neighbours a frame of ``origin``'s, signed as well as this process can."""
        payload = value if isinstance(value, bytes) else json.dumps(value).encode()
        place: Fields = {"channel": channel, "origin": origin, "round": round}
        words = self.signature(kind, channel, round, payload, origin) if kind in SIGNED else b""
        for peer in (1, 3):
            self.member.send(peer, kind, **place, payload=payload, words=words)

    def signature(self, kind: Kind, channel: int, round: int, payload: bytes, origin: int = 0) -> bytes:
        """Signature of this process, whosever word it pretends to be."""
        return self.member.words.sign(kind, channel, origin, round, payload)

    def frames(self, data: Callable[[int], bytes], times: int = 1) -> None:
        """Send both neighbours bytes past all numbers and rules."""
        for peer in (1, 3):
            for _ in range(times):
                self.member.sockets.send(peer, data(peer))

    def unnumbered(self, kind: Kind, **fields: Any) -> Callable[[int], bytes]:
        """Bytes of a frame that has no place among the numbered ones."""
        return lambda peer: encode(Frame(kind, self.member.links[peer].id, 0, **fields))


def _unchanged(me: Liar, peer: int, kind: Kind, fields: Fields) -> Fields | None:
    return fields


@dataclass(frozen=True)
class Lie:
    """What it is, in words; ``tell`` is called in round WHEN, ``change`` with every frame before it is sent.

    ``change`` returns None where it keeps the frame back; ``claim`` changes what is said in gathers.
    ``records`` are what the network file lets everybody claim to have.
    """

    what: str
    tell: Callable[[Liar], None] = lambda me: None
    change: Callable[[Liar, int, Kind, Fields], Fields | None] = _unchanged
    claim: Callable[[Any], Any] = lambda value: value
    settings: Mapping[str, Any] = field(default_factory=dict)
    records: int | None = None


def arm(lie: Lie) -> None:
    """Make this process tell a lie."""
    found: dict[int, Liar] = {}

    def liar(member: Any) -> Liar:
        return found.setdefault(id(member), Liar(member))

    send, gather = Session.send, ZmqWorld.gather

    def sending(self: Session, peer: int, kind: Kind, *, numbered: bool = True, **fields: Any) -> None:
        changed = lie.change(liar(self), peer, kind, fields)
        if changed is not None:
            send(self, peer, kind, numbered=numbered, **changed)

    def in_round(method: Callable[..., Any]) -> Callable[..., Any]:
        def telling(self: ZmqTransport, *given: Any, **more: Any) -> Any:
            me = liar(self._member)
            me.round += 1
            if me.round == WHEN:
                lie.tell(me)
            return method(self, *given, **more)

        return telling

    patched: Any = ZmqTransport
    patched.exchange, patched.reduce = in_round(ZmqTransport.exchange), in_round(ZmqTransport.reduce)

    def agreeing(world: ZmqWorld, *given: Any) -> Members:
        members = agree(world, *given)
        liar(world.member).run = members.run
        return members

    patched = loop
    patched.agree = agreeing
    patched = Session
    patched.send = sending
    patched = ZmqWorld
    patched.gather = lambda self, value: gather(self, lie.claim(value))
