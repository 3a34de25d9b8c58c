"""An agent's place in a network: one line to the relay, over which it takes part in starts (docs/protocol.md).

No thread: everything happens while the process waits for something, and every wait is one poll.
"""

from __future__ import annotations

import atexit
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import zmq
from msgspec.structs import replace
from zmq.utils.monitor import parse_monitor_message

from admmnet.errors import AdmmnetError, RequestError, RunError, StartEnded, says
from admmnet.identity.keys import Identity, statement, verify
from admmnet.log import Waiting, say
from admmnet.transport.hosts.keys import Keys, pair_of
from admmnet.transport.hosts.network import Network
from admmnet.transport.zmq.meeting import Call, Here, Last, Start, end_statement, form, signed
from admmnet.transport.zmq.wire import (
    LIMIT,
    LOG,
    BadFrame,
    End,
    Frame,
    Hello,
    Kind,
    Over,
    Parts,
    Stop,
    Wait,
    decode,
    encode,
    packed,
    unpacked,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

PULSE = 0.2
"""Seconds between two looks at the clock."""
_LINE = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH


class Standing(NamedTuple):
    """What an agent brings into the next start, as ``Here`` has it."""

    run: str = ""
    last: Last | None = None
    lineage: int = 0
    charged: int = -1
    states: tuple[int, ...] = ()
    begun: bool = False
    away: Mapping[int, int] = {}


class Deadlines(NamedTuple):
    """How long an agent waits, in seconds."""

    connect: float
    """For the relay, at the start."""
    heartbeat: float
    """Without a sign of life of the relay."""
    give_up: float
    """For a start, after a fault."""
    shutdown: float
    """For last frames to leave."""


class RunEnded(StartEnded):
    """The run has been ended elsewhere, with an exit code of its own; ``told``: whoever has tells the user."""

    told = False

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


class Finished(RunError):
    """Most agents have signed the ``end`` of the run."""

    def __init__(self, end: End) -> None:
        super().__init__("the run has ended without this process")
        self.end = end


class Member:
    """A process in the starts of a run.

    ``settings`` are public JSON values that must be the same at every process. Where one command has started all,
    ``shared_folder``, it speaks for them. ``sign`` returns whether this agent signs an end that others have, ``staged``
    is one that it has signed.
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
        quorum: int,
        begun: bool = False,
        shared_folder: bool = False,
    ) -> None:
        self.network, self.rank, self.identity, self.deadlines = network, rank, identity, deadlines
        self.graph, self.size, self.shared_folder = network.graph(), len(network.peers), shared_folder
        self.names = {place: f"agent {peer.agent}" for place, peer in enumerate(network.peers)}
        self._identities, self._quorum = [str(peer.identity) for peer in network.peers], quorum
        self._hello = Hello(rank, secrets.token_hex(16), network.digest, dict(settings), begun)
        self.start: Start | None = None
        self.ended: AdmmnetError | None = None
        self.end: End | None = None
        self.sign: Callable[[End], bool] = lambda end: False
        self.staged: Callable[[], End | None] = lambda: None
        self.up, self.bytes_sent, self.dropped, self.waiting = False, 0, 0, Waiting()
        self._sent = self._got = 0
        self._log: deque[tuple[int, bytes]] = deque(maxlen=LOG)
        self._cause: tuple[str, int | None] | None = None
        self._boxes: dict[tuple[str, int], dict[int, Any]] = {}
        self._down = time.monotonic()
        self._name, self.run, self._told = b"", "", False
        self._keys, self._pairs, self._sealed = keys, dict[int, "ChaCha20Poly1305"](), Counter[int]()
        self._calls: list[Call] = []
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._dealer = self._context.socket(zmq.DEALER)
        self._dial(keys)
        self._monitor = self._dealer.get_monitor_socket(_LINE)
        self._poller = zmq.Poller()
        for socket in (self._dealer, self._monitor):
            self._poller.register(socket, zmq.POLLIN)
        self._dealer.connect(network.relay)
        atexit.register(self.close)

    def _dial(self, keys: Keys | None) -> None:
        dealer, beat = self._dealer, int(100 * self.deadlines.heartbeat)
        dealer.linger, dealer.immediate, dealer.sndhwm, dealer.rcvhwm, dealer.maxmsgsize = 0, True, 0, 0, 4 * LIMIT
        dealer.heartbeat_ivl, dealer.heartbeat_timeout, dealer.heartbeat_ttl = beat, 4 * beat, 5 * beat
        dealer.reconnect_ivl, dealer.reconnect_ivl_max, dealer.ipv6 = 50, 1000, "[" in self.network.relay
        if keys is not None:
            dealer.curve_publickey, dealer.curve_secretkey = keys.public.encode(), keys.secret.encode()
            dealer.curve_serverkey = str(self.network.relay_key).encode()

    # starts

    def meet(self, standing: Standing) -> Start:
        """Take part in the next start; Finished if the run has ended, RunError if there is none in time."""
        here = Here(self.rank, self.network.digest, secrets.token_hex(32), *standing[:5], standing.begun, standing.away)  # type: ignore[arg-type]
        word, begun, self._told = signed(here, self.identity), time.monotonic(), False
        self.start, self._name, self._cause, self._calls, self.run = None, b"", None, [], standing.run
        self.end = None
        patience = self.deadlines.give_up if standing.run else self.deadlines.connect
        while True:
            if self.up and not self._told:  # each time that the line stands anew: the relay may know nothing
                self._told = True
                if (end := self.staged()) is not None:
                    self._stage(end)
                self._send(Kind.HERE, payload=word)
            self.serve(PULSE)
            if self.ended is not None:
                raise self.ended
            if self.end is not None:
                raise Finished(self.end)
            for call in self._calls:
                if word in call.words and (start := self._formed(call)) is not None:
                    return start
            self._calls, now = [], time.monotonic()
            whom = "the others" if self.up else f"the relay at {self.network.relay}"
            self.waiting.look(begun, now, [whom])
            if now > (begun if not self.up or standing.run else now) + patience:
                self.fail(RunError(f"{whom} did not come within {patience:g} s; start the same command again"))

    def _formed(self, call: Call) -> Start | None:
        """The start that follows from some words; None where it is none, or without this agent."""
        try:
            start = form(call, self._identities, self.graph, self._quorum)
        except BadFrame:
            return None
        if start is None or self.rank not in start.members:
            return None
        self.start, self._name = start, bytes.fromhex(start.name)
        for known in (self._boxes, self._pairs, self._sealed):
            known.clear()
        return start

    # turns

    def send(self, to: int, topic: str, turn: int, payload: bytes) -> None:
        """Send a neighbour this process's part of a turn, which nobody else can read or change, also the relay."""
        self._sealed[to] += 1
        nonce = self._sealed[to].to_bytes(11, "big") + bytes([self.rank < to])  # of a start, pair and direction
        if (pair := self._pair(to)) is not None:
            payload = nonce + pair.encrypt(nonce, payload, statement("part", topic, turn))
        self._send(Kind.PART, start=self._name, who=to, topic=topic, turn=turn, payload=payload)

    def _opened(self, sender: int, topic: str, turn: int, payload: bytes) -> bytes | None:
        """What a neighbour has sealed; None if it has not sealed this for this place in this start."""
        from cryptography.exceptions import InvalidTag

        if (pair := self._pair(sender)) is None:
            return payload
        try:
            return pair.decrypt(payload[:12], payload[12:], statement("part", topic, turn))
        except (InvalidTag, ValueError):
            return None

    def _pair(self, other: int) -> ChaCha20Poly1305 | None:
        """Cipher that this agent and a neighbour alone know, of this start; None where lines have no keys."""
        if self._keys is not None and other not in self._pairs:
            self._pairs[other] = pair_of(self._keys, str(self.network.peers[other].public_key), self._name)
        return self._pairs.get(other)

    def take(self, topic: str, turn: int, whom: Set[int]) -> dict[int, bytes]:
        """Wait for what some neighbours send in a turn."""
        box = self._boxes.setdefault((topic, turn), {})
        self._wait(topic, turn, lambda: whom - box.keys())
        found: dict[int, bytes] = {}
        for sender in sorted(whom):
            opened = self._opened(sender, topic, turn, box[sender])
            if opened is None:
                self.lose(sender, f"what came as a part of {self.names[sender]} was not sealed by it for this place")
                self.check()
            else:
                found[sender] = opened
        del self._boxes[topic, turn]
        return found

    def say(self, topic: str, turn: int, payload: bytes) -> list[bytes | None]:
        """Say this process's part of a turn to all, and wait for what all say, by agent; None of no members."""
        assert self.start is not None
        said, place = self._statement(self.rank, topic, turn, payload), (topic, turn)
        words = self.identity.sign(said)
        self._send(Kind.SAY, start=self._name, topic=topic, turn=turn, payload=payload, words=words)
        members = set(self.start.members) - {self.rank}
        self._wait(topic, turn, lambda: set() if place in self._boxes else members)
        parts: Parts = self._boxes.pop(place)[-1]
        found: list[bytes | None] = [None] * self.size
        for i in self.start.members:
            part = parts[i] if i < len(parts) else None
            if part is None or not verify(self._identities[i], part[1], self._statement(i, topic, turn, part[0])):
                self.lose(None, f"the relay gave words of {self.names[i]} that it has not signed for this start")
                self.check()
            else:
                found[i] = part[0]
        return found

    def _statement(self, agent: int, topic: str, turn: int, payload: bytes) -> bytes:
        return statement("word", self._name, agent, topic, turn, payload)

    def _wait(self, topic: str, turn: int, missing: Callable[[], Set[int]]) -> None:
        """Serve until nothing is missing; raise what has ended the start or the run."""
        begun = look = time.monotonic()
        self.check()
        while absent := missing():
            self.serve(look - time.monotonic())
            if (now := time.monotonic()) >= look:
                whom = sorted(absent)
                self.waiting.look(begun, now, map(self.names.__getitem__, whom))
                wait = packed(Wait(now - begun, whom))
                self._send(Kind.WAIT, start=self._name, topic=topic, turn=turn, payload=wait)
                look = now + 5 * PULSE
            if missing():  # what is whole at one is whole at all
                self.check()
        self.waiting.since = None

    # ends of starts

    def lose(self, agent: int | None, reason: str) -> None:
        """Take the fault of an agent, or of the relay, for the end of the start; the next ``check`` raises it."""
        if self._cause is None and self.start is not None:
            self._cause = reason, agent

    def check(self) -> None:
        """Leave the start if something has ended it, or the run."""
        if self.ended is not None:
            raise self.ended
        if self._cause is None or self.start is None:
            return
        text, whom = self._cause
        self._send(Kind.OVER, start=self._name, payload=packed(Over(text, whom)))
        self.start = None
        error = StartEnded(text)
        error.shared = True
        raise error

    def quit(self, error: StartEnded) -> None:
        """Leave a start that something else has ended."""
        self.lose(error.process, str(error))
        with suppress(StartEnded):
            self.check()

    def stage(self, end: End) -> bytes:
        """Say that the files of an end are on the disk; finish.json, once most agents have signed the same one."""
        self._stage(end)
        while self.end is None:
            self.serve(PULSE)
            self.check()
        if self.end.digest != end.digest:
            raise Finished(self.end).of_all()
        return self.end.finish

    def _stage(self, end: End) -> None:
        words = self.identity.sign(end_statement(self.network.digest, self.run, end.digest))
        self._send(Kind.STAGED, payload=packed(end), words=words)

    # the line

    def _send(self, kind: Kind, **fields: Any) -> None:
        self._sent += 1
        data = encode(Frame(kind, self._sent, **fields))
        self.bytes_sent += len(data)
        self._log.append((self._sent, data))
        if self.up:
            with suppress(zmq.Again):  # the line is cut: it is sent again after the next HELLO
                self._dealer.send(data, zmq.NOBLOCK)

    def serve(self, seconds: float) -> None:
        """Take what arrives within some time."""
        self._poller.poll(int(1000 * max(0.0, seconds)))
        while self._monitor.poll(0):
            self._changed(int(parse_monitor_message(self._monitor.recv_multipart())["event"]))
        with suppress(zmq.Again):
            while True:
                self._arrived(self._dealer.recv(zmq.NOBLOCK))
        if not self.up and self.start is not None and time.monotonic() - self._down > self.deadlines.heartbeat:
            self.lose(None, f"the relay at {self.network.relay} cannot be reached")

    def _changed(self, event: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            hello = replace(self._hello, sent=self._sent, got=self._got)
            self._dealer.poll(1000, zmq.POLLOUT)  # it may take a moment until the line can be used
            self._dealer.send(encode(Frame(Kind.HELLO, payload=packed(hello))))
        elif event == zmq.EVENT_DISCONNECTED:
            if self.up:
                say("line-down", "the line to the relay was cut", "warning")
            self.up, self._down = False, time.monotonic()
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self.ended = RequestError("the relay does not admit this agent's key: compare network files and keys")

    def _stands(self, got: int) -> None:
        """The line can be used: send again what has not come."""
        self.up, self._told = True, False
        say("line-up", "the line to the relay stands")
        for _, data in (one for one in self._log if one[0] > got):
            self._dealer.send(data)

    def _arrived(self, data: bytes) -> None:
        try:
            frame = decode(data)
            if frame.kind is Kind.HELLO:
                self._stands(frame.turn)
                return
            self._got += 1
            if frame.number != self._got:
                self._got = frame.number
                self.lose(None, "frames of the relay were lost on the way")
            self._obey(frame)
        except BadFrame:
            self.dropped += 1

    def _obey(self, frame: Frame) -> None:
        if frame.kind is Kind.START:
            self._calls.append(unpacked(frame.payload, Call))
        elif frame.kind is Kind.SIGN:
            end: End = unpacked(frame.payload, End)
            own = self.staged() if self.start is None and self.sign(end) else None
            if own is not None:
                self._stage(own)
        elif frame.kind is Kind.END:
            self.end = unpacked(frame.payload, End)
        elif frame.kind is Kind.STOP:
            stop: Stop = unpacked(frame.payload, Stop)
            text = says("the relay", stop.text or "it gives no reason")
            self.ended = RunEnded(
                stop.text if self.shared_folder and stop.text else text, stop.code if stop.code in (2, 3, 4) else 3
            )
            self.ended.shared = True
            self.ended.told = self.shared_folder
        elif self.start is None or frame.start not in (self._name, b""):
            self.dropped += 1
        elif frame.kind is Kind.PART:
            self._boxes.setdefault((frame.topic, frame.turn), {})[frame.who] = frame.payload
        elif frame.kind is Kind.SAY:
            self._boxes[frame.topic, frame.turn] = {-1: unpacked(frame.payload, list[tuple[bytes, bytes] | None])}
        elif frame.kind is Kind.OVER:
            over: Over = unpacked(frame.payload, Over)
            self.lose(over.whom, over.text)

    # ends

    def abort(self, code: int, reason: str | None = None) -> None:
        """Tell all that this process ends with an exit code."""
        if self.ended is None:
            self._send(Kind.STOP, payload=packed(Stop(code, None if reason is None else reason[:1000])))

    def fail(self, error: AdmmnetError) -> NoReturn:
        """End this process, and tell everybody."""
        self.abort(error.exit_code, error.public)
        error.shared, self.ended = True, error
        self.close()
        raise error

    def close(self) -> None:
        """Take leave; safe to call twice."""
        atexit.unregister(self.close)
        if self._dealer.closed:
            return
        if self.ended is None:
            self._send(Kind.BYE)
        self._monitor.close(0)
        self._dealer.close(int(1000 * self.deadlines.shutdown) if self.up else 0)
        self._context.term()
