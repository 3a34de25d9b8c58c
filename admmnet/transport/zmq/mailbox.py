"""What becomes of a frame that arrived: the rules, without sockets (docs/hosts.md, "Rules for frames").

Two layers. On a link frames are numbered: what came already is a duplicate, what comes after a hole waits until
the hole is sent again, and a frame that belongs to no link of this process is foreign. Above it frames belong to
a topic (a network's rounds, the gathers) and a turn of it (one round, one gather): those of the turn that is
waited for count now, those of the next turn are kept, older ones are late.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from admmnet.transport.zmq.wire import Frame, Kind

WINDOW = 2
"""Turns of a topic that one sender may have here: the one waited for and the next; no honest one is further."""
MOST = 50_000
"""Frames of one sender that may wait here."""

Topic = tuple[str, int]
"""What turns are counted of: ("round", "up", "down" or "collect", channel), or ("gather", 0)."""
Box = dict[tuple[int, int], Frame]
"""Frames of one turn, by (sender, origin); the sender of what travels from neighbour to neighbour is -1."""

_TOPICS = {Kind.VECTOR: "round", Kind.SILENCE: "round", Kind.ROWS: "collect", Kind.SHARE: "gather"}
_TOPICS |= {Kind.UP: "up", Kind.DOWN: "down"}
_PASSED_ON = (Kind.SHARE, Kind.ROWS)


class Verdict(StrEnum):
    """What becomes of a frame."""

    NOW = "now"  # of the turn that is waited for, or for the links themselves
    EARLY = "early"  # kept for the next turn
    KNOWN = "known"  # travelled here by another way already; as it should be
    LATE = "late"  # of a turn that is over: dropped
    DUPLICATE = "duplicate"  # came already: dropped
    GAP = "gap"  # frames before it are missing: dropped, and asked for again
    FOREIGN = "foreign"  # of another session, of no neighbour, or under another process's name: dropped
    REFUSED = "refused"  # unreadable, or too far ahead: dropped


COUNTED = tuple(verdict for verdict in Verdict if verdict not in (Verdict.NOW, Verdict.KNOWN))


def topic_of(frame: Frame) -> Topic | None:
    """Topic of a frame's turn; None for the frames of the links themselves."""
    name = _TOPICS.get(frame.kind)
    return None if name is None else (name, frame.channel)


class Mailbox:
    """Frames that arrived and are not yet taken.

    ``identities`` maps the process of every neighbour to the public key that its frames come under, None where
    links have no keys. ``counts`` has the frames that were not simply wanted, by what became of them, ``received``
    how far every neighbour's numbered frames have come.
    """

    def __init__(self, identities: Mapping[int, str | None]) -> None:
        self._identities = dict(identities)
        self._links: dict[int, bytes] = {}
        self.received = dict.fromkeys(identities, 0)
        self.counts = {str(verdict): 0 for verdict in COUNTED}
        self._first: dict[Topic, int] = {}  # the oldest turn of a topic that is not over
        self._begun: dict[Topic, int] = {}
        self._boxes: dict[tuple[Topic, int], Box] = {}
        # of every topic and sender: turn to the number of frames kept
        self._turns: dict[tuple[Topic, int], dict[int, int]] = {}
        self._kept = dict.fromkeys(identities, 0)

    def open(self, peer: int, link: bytes) -> None:
        """Take frames of a neighbour from now on, those that bear this link's id."""
        self._links[peer] = link

    def shut(self, peer: int) -> None:
        """Take nothing more of a neighbour."""
        self._links.pop(peer, None)

    def belongs(self, frame: Frame, identity: str | None) -> bool:
        """Whether a frame comes from the neighbour that it names as its sender."""
        return frame.sender in self._identities and self._identities[frame.sender] == identity

    def count(self, verdict: Verdict) -> Verdict:
        """Book a verdict."""
        if verdict in self.counts:
            self.counts[verdict] += 1
        return verdict

    def judge(self, frame: Frame, identity: str | None) -> Verdict:
        """Decide on a frame, keep what it brings for its turn, and count it."""
        return self.count(self._judge(frame, identity))

    def _judge(self, frame: Frame, identity: str | None) -> Verdict:
        peer = frame.sender
        if not self.belongs(frame, identity) or self._links.get(peer) != frame.link:
            return Verdict.FOREIGN
        topic = topic_of(frame)
        if not frame.sequence:  # needs no place in the order
            return Verdict.NOW if topic is None else Verdict.REFUSED
        if frame.sequence <= self.received[peer]:
            return Verdict.DUPLICATE
        if frame.sequence > self.received[peer] + 1:
            return Verdict.GAP
        self.received[peer] = frame.sequence
        return Verdict.NOW if topic is None else self._keep(frame, topic)

    def _keep(self, frame: Frame, topic: Topic) -> Verdict:
        peer, turn, travels = frame.sender, frame.round, frame.kind in _PASSED_ON
        if topic in self._first and turn < self._first[topic]:
            return Verdict.KNOWN if travels else Verdict.LATE
        turns = self._turns.setdefault((topic, peer), {})
        if (turn not in turns and len(turns) == WINDOW) or self._kept[peer] >= MOST:
            return Verdict.REFUSED
        box = self._boxes.setdefault((topic, turn), {})
        # what travels has come from its origin, whoever passed it on
        key = (-1 if travels else peer, frame.origin)
        if key in box and frame.kind is Kind.UP:  # of a later attempt at the same sum
            box[key] = frame
            return Verdict.EARLY if self._begun.get(topic) != turn else Verdict.NOW
        if key in box:
            return Verdict.KNOWN if travels else Verdict.DUPLICATE
        box[key] = frame
        turns[turn] = turns.get(turn, 0) + 1
        self._kept[peer] += 1
        return Verdict.NOW if self._begun.get(topic) == turn else Verdict.EARLY

    def begin(self, topic: Topic, turn: int) -> Box:
        """Wait for a turn from now on, later than every turn before it.

        What is returned fills with what comes.
        """
        self._advance(topic, turn)
        self._begun[topic] = turn
        return self._boxes.setdefault((topic, turn), {})

    def finish(self, topic: Topic, turn: int) -> None:
        """End a turn: what comes of it from now on is late."""
        del self._begun[topic]
        self._advance(topic, turn + 1)

    def forget(self, topic: Topic) -> None:
        """End a topic; nothing of it is taken any more."""
        self._begun.pop(topic, None)
        self._advance(topic, 2**31)

    def _advance(self, topic: Topic, first: int) -> None:
        self._first[topic] = first
        for key in [key for key in self._boxes if key[0] == topic and key[1] < first]:
            del self._boxes[key]
        for key in [key for key in self._turns if key[0] == topic]:
            turns = self._turns[key]
            for turn in [turn for turn in turns if turn < first]:
                self._kept[key[1]] -= turns.pop(turn)
            if not turns:
                del self._turns[key]
