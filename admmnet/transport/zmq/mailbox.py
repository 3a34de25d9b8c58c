"""What becomes of a frame that arrived: the rules, without sockets (docs/protocol.md, "Rules for frames").

Two layers. On a link frames are numbered: what came already is a duplicate, what comes after a hole waits until
the hole is sent again, and a frame that belongs to no link of this process is foreign. Above it frames belong to
a topic (a network's rounds, the gathers) and a turn of it (one round, one gather): those of the turn that is
waited for count now, those of the next turn are kept, older ones are late. Nobody can be further, as every turn needs
this process's part. What travels from neighbour to neighbour is taken only with its origin's signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from admmnet.transport.zmq.wire import LIMIT, Frame, Kind
from admmnet.transport.zmq.words import SIGNED

ROOM = 2 * LIMIT
"""Bytes of one sender's frames that may wait here, beside what frames as large as this process's own would need."""
_FRAME = 2**9  # bytes that a frame needs besides its payload

Topic = tuple[str, int]
"""What turns are counted of: ("round", "up", "down", "collect" or "post", channel), or ("gather", 0)."""
Box = dict[tuple[int, int], Frame]
"""Frames of one turn, by (sender, origin); the sender of what travels from neighbour to neighbour is -1."""

_TOPICS = {Kind.VECTOR: "round", Kind.SILENCE: "round", Kind.ROWS: "collect", Kind.SHARE: "gather", Kind.POST: "post"}
_TOPICS |= {Kind.UP: "up", Kind.DOWN: "down"}
_PASSED_ON = (Kind.SHARE, Kind.ROWS, Kind.POST)
_TRAVELLING = tuple(_TOPICS[kind] for kind in _PASSED_ON)


class Fate(StrEnum):
    """What becomes of a frame."""

    NOW = "now"  # of the turn that is waited for, or for the links themselves
    EARLY = "early"  # kept for the next turn
    KNOWN = "known"  # travelled here by another way already; as it should be
    LATE = "late"  # of a turn or start that is over: dropped
    DUPLICATE = "duplicate"  # came already: dropped
    GAP = "gap"  # frames before it are missing: dropped, and asked for again
    FOREIGN = "foreign"  # of another session, of no neighbour, or under another process's name: dropped
    REFUSED = "refused"  # unreadable: dropped
    FULL = "full"  # more than may wait here: dropped
    AHEAD = "ahead"  # of a turn at which nobody can be yet: dropped
    FORGED = "forged"  # not signed by its origin: dropped
    TWICE = "twice"  # signed by its origin, which has said something else in this turn


COUNTED = tuple(fate for fate in Fate if fate not in (Fate.NOW, Fate.KNOWN))


def topic_of(frame: Frame) -> Topic | None:
    """Topic of a frame's turn; None for the frames of the links themselves."""
    name = _TOPICS.get(frame.kind)
    return None if name is None else (name, frame.channel)


class Mailbox:
    """Frames that arrived and are not yet taken.

    ``identities`` maps the process of every neighbour to the public key that its frames come under, None where
    links have no keys. ``counts`` has the frames that were not simply wanted, by what became of them, ``received``
    how far every neighbour's numbered frames have come. ``genuine`` says of a frame of a kind that travels whether its
    origin has signed it, ``room`` how many bytes of one neighbour's may wait here, ``ahead`` by how many turns more a
    post may be ahead, for which nobody waits.
    """

    def __init__(
        self, identities: Mapping[int, str | None], genuine: Callable[[Frame], bool] = lambda frame: True
    ) -> None:
        self._identities, self._genuine = dict(identities), genuine
        self._links: dict[int, bytes] = {}
        self.received = dict.fromkeys(identities, 0)
        self._start = b""  # name of the start whose turns are taken
        self._in = dict.fromkeys(identities, b"")  # of that whose turns a neighbour sends
        self.counts = {str(fate): 0 for fate in COUNTED}
        self._first: dict[Topic, int] = {}  # the oldest turn of a topic that is not over
        self._begun: dict[Topic, int] = {}
        self._boxes: dict[tuple[Topic, int], Box] = {}
        self.room, self.ahead = ROOM, 0
        # bytes kept of every topic and sender, by turn
        self._turns: dict[tuple[Topic, int], dict[int, int]] = {}
        self._kept = dict.fromkeys(identities, 0)

    def open(self, peer: int, link: bytes) -> None:
        """Take frames of a neighbour from now on, those that bear this link's id."""
        self._links[peer] = link

    def shut(self, peer: int) -> None:
        """Take nothing more of a neighbour, until a link is opened anew."""
        self._links.pop(peer, None)
        self.received[peer], self._in[peer] = 0, b""

    def begin_start(self, name: bytes) -> None:
        """Forget all turns, and take those of the start of this name from now on."""
        for kept in (self._first, self._begun, self._boxes, self._turns):
            kept.clear()
        self._kept = dict.fromkeys(self._kept, 0)
        self._start = name

    def belongs(self, frame: Frame, identity: str | None) -> bool:
        """Whether a frame comes from the neighbour that it names as its sender."""
        return frame.sender in self._identities and self._identities[frame.sender] == identity

    def count(self, fate: Fate) -> Fate:
        """Book a fate."""
        if fate in self.counts:
            self.counts[fate] += 1
        return fate

    def judge(self, frame: Frame, identity: str | None) -> Fate:
        """Decide on a frame, keep what it brings for its turn, and count it."""
        return self.count(self._judge(frame, identity))

    def _judge(self, frame: Frame, identity: str | None) -> Fate:
        peer = frame.sender
        if not self.belongs(frame, identity) or self._links.get(peer) != frame.link:
            return Fate.FOREIGN
        topic = topic_of(frame)
        if not frame.sequence:  # needs no place in the order
            return Fate.NOW if topic is None else Fate.REFUSED
        if frame.sequence <= self.received[peer]:
            return Fate.DUPLICATE
        if frame.sequence > self.received[peer] + 1:
            return Fate.GAP
        self.received[peer] = frame.sequence
        if frame.kind is Kind.START:
            self._in[peer] = frame.payload
        here = self._in[peer] == self._start
        if not here and (topic is not None or (frame.kind in SIGNED and frame.origin != peer)):
            return Fate.LATE
        if topic is not None:
            return self._keep(frame, topic)
        return Fate.NOW if frame.kind not in SIGNED or self._genuine(frame) else Fate.FORGED

    def _keep(self, frame: Frame, topic: Topic) -> Fate:
        peer, turn, travels = frame.sender, frame.round, frame.kind in _PASSED_ON
        # what travels has come from its origin, whoever passed it on
        key = (-1 if travels else peer, frame.origin)
        known = self._boxes.get((topic, turn), {}).get(key)
        if known is not None:
            if not travels or known.payload == frame.payload:
                return Fate.KNOWN if travels else Fate.DUPLICATE
            return Fate.TWICE if self._genuine(frame) else Fate.FORGED
        if turn < self._first.get(topic, 0):
            return Fate.KNOWN if travels else Fate.LATE
        ahead = self.ahead if frame.kind is Kind.POST else 0
        if turn > self.last(topic) + travels + ahead:  # one more, if who passes it on has begun what is next here
            return Fate.AHEAD
        size = _FRAME + len(frame.payload) + len(frame.words)
        if self._kept[peer] + size > self.room:
            return Fate.FULL
        if travels and not self._genuine(frame):
            return Fate.FORGED
        self._boxes.setdefault((topic, turn), {})[key] = frame
        turns = self._turns.setdefault((topic, peer), {})
        turns[turn] = turns.get(turn, 0) + size
        self._kept[peer] += size
        return Fate.NOW if self._begun.get(topic) == turn else Fate.EARLY

    def last(self, topic: Topic) -> int:
        """Last turn at which another process can be, which needs this one's part of every turn before."""
        return self._first.get(topic, 0) + (topic in self._begun)

    def kept(self, topic: Topic, turn: int) -> Box:
        """What has come of a turn."""
        return self._boxes.get((topic, turn), {})

    def begin(self, topic: Topic, turn: int) -> Box:
        """Wait for a turn from now on, later than every turn before it.

        What is returned fills with what comes.
        """
        self._advance(topic, turn)
        self._begun[topic] = turn
        return self._boxes.setdefault((topic, turn), {})

    def note(self, frame: Frame) -> None:
        """Keep a word of this process's own, which comes back by way of others."""
        if (topic := topic_of(frame)) is not None:
            self._boxes.setdefault((topic, frame.round), {})[-1, frame.origin] = frame

    def finish(self, topic: Topic, turn: int) -> None:
        """End a turn: what comes of it from now on is late."""
        self._begun.pop(topic, None)
        self._advance(topic, turn + 1)

    def forget(self, topic: Topic) -> None:
        """End a topic; nothing of it is taken any more."""
        self._begun.pop(topic, None)
        self._advance(topic, 2**31)

    def _advance(self, topic: Topic, first: int) -> None:
        self._first[topic] = first
        # of what travels the turn before stays, to be held against what comes by longer ways
        oldest = first - (topic[0] in _TRAVELLING)
        for key in [key for key in self._boxes if key[0] == topic and key[1] < oldest]:
            del self._boxes[key]
        for key in [key for key in self._turns if key[0] == topic]:
            turns = self._turns[key]
            for turn in [turn for turn in turns if turn < first]:
                self._kept[key[1]] -= turns.pop(turn)
            if not turns:
                del self._turns[key]
