"""Frames to and from the neighbours of one process: greeted, numbered, sent again where a line was cut.

What is judged good goes to ``obey``; what it means is ``membership``'s business.
"""

from __future__ import annotations

import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from typing import Any

from msgspec.structs import replace

from admmnet.errors import RequestError
from admmnet.identity.keys import Identity
from admmnet.log import Waiting, say
from admmnet.transport.hosts.keys import Keys
from admmnet.transport.hosts.network import Network
from admmnet.transport.zmq import wire
from admmnet.transport.zmq.linger import is_question
from admmnet.transport.zmq.link_state import Link, difference, link_id
from admmnet.transport.zmq.mailbox import ROOM, Fate, Mailbox, topic_of
from admmnet.transport.zmq.sockets import Deadlines, LineNews, Sockets
from admmnet.transport.zmq.wire import NO_LINK, BadFrame, Excuse, Frame, Hello, Kind, as_json, content, decode, encode
from admmnet.transport.zmq.words import SignedWords

BURST = 1000
"""Frames that are taken in before lines and clock are looked at."""
IDLE, FORGIVEN = 10_000, 100
"""Frames of a neighbour that bring nothing until it counts as lost, and how many are forgotten each pulse."""
PATIENCE = 8
"""Unreadable frames under one neighbour's key before it counts as lost."""
NAMED = 1000
"""Most processes that an excuse names."""
_PARSED = (Kind.WAITING, Kind.ABORT)


class Session(ABC):
    """Links of one process, peer ``rank`` of a network, to its neighbours.

    ``settings`` are public JSON values that must be the same at every process; ``fault`` is what a neighbour has
    otherwise than this one. ``begun`` says that this process goes on with a run; ``run`` is its name, once it has
    charged something. ``parent`` is a pipe's file
    descriptor, whose end of file means that the starter has died. ``keys`` are None where the network is without CURVE.
    Keys and ``identity``, which signs what travels beyond a hop, are refused where they are not those of the network
    file.
    """

    def __init__(
        self,
        network: Network,
        rank: int,
        *,
        settings: Mapping[str, Any],
        keys: Keys | None,
        identity: Identity,
        deadlines: Deadlines,
        parent: int | None = None,
        begun: bool = False,
        run: str = "",
    ) -> None:
        own = network.peers[rank]
        right = (keys is None or keys.public == own.public_key) and identity.public == own.identity
        if network.curve != (keys is not None) or not right:
            raise RequestError(
                f"agent {own.agent}: its key file and the network file, curve = {str(network.curve).lower()}, do not "
                "belong together; copy network file and key of one `admmnet network init`"
            )
        self.network, self.rank, self.identity, self.deadlines = network, rank, identity, deadlines
        self.names = {place: f"agent {peer.agent}" for place, peer in enumerate(network.peers)}
        self.peers = {place: network.peers[place] for place in network.neighbours(rank)}
        self.links = {place: Link() for place in self.peers}
        identities = {place: peer.public_key if keys else None for place, peer in self.peers.items()}
        self._by_key = {key: place for place, key in identities.items() if key is not None}
        self.words = SignedWords(identity, [str(peer.identity) for peer in network.peers])
        self.mailbox = Mailbox(identities, self._genuine)
        self._closed: set[int] = set()  # neighbours to which nothing is sent any more
        self.later: dict[tuple[int, ...], tuple[Frame, set[int]]] = {}  # words, and who has them
        self.fault: str | None = None
        self.waiting = Waiting()
        plain = json.loads(json.dumps(dict(settings)))
        self.nonce = secrets.token_hex(16)
        self._greeting = Hello(self.nonce, "", False, network.digest, plain, begun, run)
        size, most = len(as_json(self._greeting)) + len(self.nonce), wire.MOST[Kind.HELLO]
        if size > most:
            raise RequestError(
                f"the public settings have {size} bytes, and agents compare at most {most}; shorten the longest list"
            )
        self._relieved, self._widest = 0.0, 0
        # an honest one sends an excuse each pulse, and all may be read at once
        self._idle = IDLE + int(2 * deadlines.round / deadlines.pulse)
        self.sockets = Sockets(own, self.peers, keys, deadlines, parent)

    @abstractmethod
    def obey(self, frame: Frame, value: Any) -> None:
        """Act upon a good frame; ``value`` is its JSON content where it is for the links themselves."""

    @abstractmethod
    def lose(self, process: int, reason: str, cause: Any = "forged") -> None:
        """Take the fault of a neighbour, or of whoever has told something wrong, for the end of a start."""

    @abstractmethod
    def line(self, peer: int, *, up: bool) -> None:
        """Note that a link stands, with all that was sent on it before, or does no more."""

    def fits(self, peer: int, theirs: Hello) -> bool:
        """Whether a neighbour may take part: it has the same network file and settings."""
        wrong = difference(self._greeting, theirs, self.names[peer])
        self.fault = self.fault or wrong
        return True

    @abstractmethod
    def contradicted(self, frame: Frame) -> None:
        """Act upon a word of a process that has signed another one in its place."""

    def forged(self, frame: Frame) -> None:
        """Blame a neighbour that has passed on as words of a process what that has not signed."""
        whose = self.names.get(frame.origin, f"process {frame.origin}")
        reason = f"it sent words of {whose} without a signature of {whose} for this start ({frame.kind.name})"
        self.lose(frame.sender, reason)

    # out

    def send(self, peer: int, kind: Kind, *, numbered: bool = True, **fields: Any) -> None:
        """Send a frame to a neighbour; a numbered one again when its line was cut meanwhile."""
        link = self.links[peer]
        if peer in self._closed:
            return
        if not link.ready:
            return
        link.sent += numbered
        number = link.sent if numbered else 0
        received = self.mailbox.received[peer]
        data = encode(Frame(kind, link.id, self.rank, sequence=number, acknowledged=received, **fields))
        if len(data) > self._widest:  # others may send as much, and pass on as much of everybody
            self._widest = len(data)
            self.mailbox.room = ROOM + (4 + self.mailbox.ahead) * len(self.names) * len(data)
        if numbered:
            link.log.append((number, data))
            link.unconfirmed += len(data)
        if link.up:
            self.sockets.send(peer, data)
        if link.unconfirmed > self.mailbox.room:
            self.lose(peer, f"it takes part, but has not confirmed {link.unconfirmed} bytes that it was sent")

    def spread(self, kind: Kind, *, besides: Set[int] = frozenset(), **fields: Any) -> None:
        """Send a frame to all neighbours, or all but some."""
        for peer in self.links:
            if peer not in besides:
                self.send(peer, kind, **fields)

    def pass_on(self, frame: Frame) -> None:
        """Send a word to all neighbours that have not sent it, once all that has arrived is read."""
        self.later[_place(frame)] = frame, {frame.sender}

    def pass_all_on(self) -> None:
        """Send the words that are to be passed on."""
        later, self.later = self.later, {}
        for frame, besides in later.values():
            place = {"channel": frame.channel, "origin": frame.origin, "round": frame.round}
            self.spread(frame.kind, besides=besides, **place, payload=frame.payload, words=frame.words)

    def greet(self, peer: int, *, dialled: bool = False) -> None:
        """Introduce this process to a neighbour; over a line that it has dialled, so that the neighbour knows it."""
        link = self.links[peer]
        value = replace(self._greeting, echo=link.theirs or "", ready=link.ready)
        hello = Frame(Kind.HELLO, NO_LINK, self.rank, payload=as_json(value))
        self.sockets.send(peer, encode(hello), dialled=dialled)

    def resend(self, peer: int, after: int = 0) -> None:
        """Send again messages that a neighbour may not have."""
        for number, data in self.links[peer].log:
            if number > after:
                self.sockets.send(peer, data)

    def say(self, kind: Kind, channel: int, round: int, payload: bytes) -> Frame:
        """Send all neighbours, which pass it on, a word of this process, signed."""
        self.pass_all_on()
        words = self.words.sign(kind, channel, self.rank, round, payload)
        place: dict[str, Any] = {"channel": channel, "origin": self.rank, "round": round}
        self.spread(kind, **place, payload=payload, words=words)
        return Frame(kind, NO_LINK, self.rank, **place, payload=payload, words=words)

    def say_waiting(self, absent: list[int]) -> None:
        """Tell the neighbours whom this process waits for, and how much it has sent them: they see what is missing."""
        for peer, link in self.links.items():
            self.send(peer, Kind.WAITING, numbered=False, payload=as_json(Excuse(absent[:NAMED], link.sent)))

    # in

    def take(self, seconds: float) -> None:
        """Wait until something arrives or happens, or the time is over, and take it."""
        self.pass_all_on()
        if time.monotonic() >= self._relieved + self.deadlines.pulse:
            self._relieved = time.monotonic()
            for link in self.links.values():
                link.idle = max(0, link.idle - FORGIVEN)
        for peer, line in self.sockets.wait(seconds):  # first: what arrived may have come over a new line
            self._happened(peer, line)
        for _ in range(BURST):
            arrived = self.sockets.receive()
            if arrived is None:
                break
            self._arrive(*arrived)
        self.pass_all_on()

    def _happened(self, peer: int, line: LineNews) -> None:
        link = self.links[peer]
        if line is LineNews.DIALLED:
            self.greet(peer, dialled=True)
        elif line is LineNews.UP:
            if not link.up:
                say("line-up", f"the line to {self.names[peer]} stands", peer=peer)
            link.up, link.down_since, link.fault = True, None, ""
            self.resend(peer)
            self.line(peer, up=link.ready)
        elif line is LineNews.DOWN:
            if link.up:
                say("line-down", f"the line to {self.names[peer]} was cut", "warning", peer=peer)
                link.up, link.down_since = False, time.monotonic()
        elif line is LineNews.FLOODS:
            self._cut(peer, str(line))
        elif not link.up:
            if link.fault != line:
                text = f"the line to {self.names[peer]} does not come up: {line}"
                say("line-down", text, "warning", peer=peer)
            link.fault = str(line)

    def _arrive(self, data: bytes, identity: str | None) -> None:
        brought = False
        try:
            frame = decode(data)
            if frame.kind is Kind.HELLO:
                self._greeted(frame, identity)
            else:
                brought = self._judge(frame, identity)
        except BadFrame as bad:
            if not is_question(data):  # a neighbour that comes late asks for the last files
                self._garbled(identity, bad.reason)
        except RecursionError:  # brackets in brackets
            self._garbled(identity, "payload")
        peer = None if brought or identity is None else self._by_key.get(identity)
        if peer is not None and peer not in self._closed:
            self.links[peer].idle += 1
            if self.links[peer].idle == self._idle:
                self._cut(peer, f"it floods this process: {self._idle} frames in short time brought nothing")

    def _cut(self, peer: int, reason: str) -> None:
        """Hear no more of a neighbour that floods."""
        self.lose(peer, reason)
        self.shut(peer)

    def _genuine(self, frame: Frame) -> bool:
        """Whether a frame's origin has said it: it has signed that, or it ends, and the link is its own."""
        return (frame.kind is Kind.ABORT and frame.origin == frame.sender) or self.words.genuine(frame)

    def _judge(self, frame: Frame, identity: str | None) -> bool:
        """Act upon a frame; whether it brought what belongs to a turn."""
        fate, peer = self.mailbox.judge(frame, identity), frame.sender
        if fate in (Fate.FOREIGN, Fate.REFUSED):
            return False
        link = self.links[peer]
        self.sockets.heard(peer)
        value = content(frame) if fate is Fate.NOW and frame.kind in _PARSED else None
        link.acknowledge(min(frame.acknowledged, link.sent))
        if frame.kind is Kind.WAITING:
            if value is None or not set(value.absent) <= self.names.keys() - {peer}:
                raise BadFrame("payload")
            link.gap = value.sent > self.mailbox.received[peer]
            if link.gap:
                self.send(peer, Kind.AGAIN, numbered=False)
        if fate is Fate.GAP:
            if not link.gap:  # else it has been asked already
                self.send(peer, Kind.AGAIN, numbered=False)
            link.gap = True
        elif fate in (Fate.NOW, Fate.EARLY):
            link.gap = link.gap and not frame.sequence
            self.obey(frame, value)
        elif fate is Fate.KNOWN and (later := self.later.get(_place(frame))):
            later[1].add(peer)
        elif fate is Fate.TWICE:
            self.contradicted(frame)
        elif fate is Fate.FORGED:
            self.forged(frame)
        elif fate is Fate.FULL:
            self._cut(peer, f"it sent more than {self.mailbox.room} bytes before their turn")
        elif fate is Fate.AHEAD:
            self.lose(peer, f"it sent a frame of turn {frame.round}, which has not come yet ({frame.kind.name})")
        return fate in (Fate.NOW, Fate.EARLY, Fate.KNOWN) and topic_of(frame) is not None

    def _greeted(self, frame: Frame, identity: str | None) -> None:
        peer = frame.sender
        if not self.mailbox.belongs(frame, identity) or peer in self._closed:
            self.mailbox.count(Fate.FOREIGN)
            return
        link, mine, theirs = self.links[peer], self._greeting.nonce, content(frame)
        if link.ready and theirs.nonce != link.theirs:  # a new process under an old name, or an old recording
            if theirs.echo != mine:
                self.mailbox.count(Fate.FOREIGN)
                self.greet(peer)
                return
            self.renewed(peer)  # no recording: the process that was here is dead
        self.sockets.heard(peer, anew=True)
        news = theirs.nonce != link.theirs
        link.theirs = theirs.nonce
        if theirs.echo == mine and not link.ready and self.fits(peer, theirs):  # no recording can have received this
            link.id = link_id(mine, theirs.nonce)
            self.mailbox.open(peer, link.id)
            self.line(peer, up=True)
        if news or not theirs.ready:
            self.greet(peer)

    def renewed(self, peer: int) -> None:
        """Begin a link anew, as the process of a neighbour has ended and another one speaks."""
        up = self.links[peer].up
        self.mailbox.shut(peer)
        self.links[peer] = Link(up=up)
        self.line(peer, up=False)

    def _garbled(self, identity: str | None, reason: str) -> None:
        self.mailbox.count(Fate.REFUSED)
        peer = None if identity is None else self._by_key.get(identity)
        if peer is None or peer in self._closed:  # anybody could have sent it
            return
        link = self.links[peer]
        link.garbled += 1
        if link.garbled >= PATIENCE:
            self.lose(peer, f"{link.garbled} frames from it could not be read (the last one: {reason})")
        else:
            self.send(peer, Kind.AGAIN, numbered=False)

    def shut(self, peer: int) -> None:
        """Neither take anything more of a neighbour, while this process lives, nor send it anything."""
        self._closed.add(peer)
        self.mailbox.shut(peer)
        self.sockets.ban(peer)
        self.line(peer, up=False)

    def close_sockets(self) -> None:
        """Close the sockets; what was sent may still leave within the shutdown deadline."""
        for peer, line in self.sockets.wait(0.0):  # lines that were cut while this process looked elsewhere
            self.links[peer].up = self.links[peer].up and line is not LineNews.DOWN
        hopeless = frozenset(peer for peer, link in self.links.items() if not link.up)
        self.sockets.close(self.deadlines.shutdown, hopeless)


def _place(frame: Frame) -> tuple[int, ...]:
    """Whose word a frame is, and of which turn."""
    return frame.kind, frame.channel, frame.origin, frame.round
