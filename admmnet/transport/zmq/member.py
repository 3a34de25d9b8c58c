"""Agents over ZeroMQ: one process an agent, on one machine or many; all messages go over the relay (docs/hosts.md).

An agent has one line to it, over which it takes part in starts (docs/protocol.md).

No thread: everything happens while the process waits for something, and every wait is one poll.
"""

from __future__ import annotations

import atexit
import hashlib
import hmac
import secrets
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import zmq
from msgspec.structs import asdict, replace
from zmq.utils.monitor import parse_monitor_message

from admmnet.errors import KINDS, AdmmnetError, BudgetError, RequestError, RunError, StartEnded, printable, says
from admmnet.graph.simple import Graph, Tree
from admmnet.identity.keys import Identity, statement
from admmnet.log import Waiting, say
from admmnet.masking import StartKey
from admmnet.transport import Inbox, Outgoing, Transport, World
from admmnet.transport.hosts import Keys, Network
from admmnet.transport.zmq.meeting import Call, Hail, Here, Standing, Start, end_statement, form, outdated, sign_here
from admmnet.transport.zmq.turns import tree_of
from admmnet.transport.zmq.wire import (
    END,
    ERROR,
    FILES_LIMIT,
    PIECE,
    ROWS,
    TOTAL,
    BadFrame,
    End,
    Failed,
    Frame,
    Hello,
    Kind,
    Line,
    Lost,
    Said,
    Signature,
    Topics,
    Word,
    contradict,
    digest_of,
    packed,
    read_word,
    sign_word,
    unpacked,
)
from admmnet.types import NEVER, Integers, Matrix

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

PULSE = 0.2
"""Seconds between two looks at the clock."""
PATIENCE = 3600.0
"""Seconds without a relay, or without a start after a fault, until an agent ends."""
SHUTDOWN = 10.0
"""Seconds for last frames to leave."""
_LINE = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH


class RunEnded(StartEnded):
    """The run has been ended elsewhere, with an exit code of its own; ``older``: the run folder is an older copy."""

    def __init__(self, message: str, code: int, *, older: bool = False) -> None:
        super().__init__(message)
        self.exit_code, self.older = code, older


class Finished(RunError):
    """Most agents have signed the ``end`` of the run."""

    def __init__(self, end: End) -> None:
        super().__init__("the run has ended without this process")
        self.end = end


class Member(World):
    """A process in the starts of a run, of which it is in ``start``.

    ``settings`` are digests of public values that must be the same at every process. Without a ``journal`` one command
    has started all, which speaks for them. ``receipts`` keep what others have signed (``record.receipts.Receipts``).
    ``round`` is that of the parts which it sends; with ``key``, which is in its journal alone, their digests are made.
    """

    name = "zmq"
    network: Network
    identity: Identity
    graph: Graph

    def __init__(
        self,
        network: Network,
        rank: int,
        *,
        settings: Mapping[str, str],
        keys: Keys | None,
        identity: Identity,
        topics: Topics,
        connect: float,
        heartbeat: float,
        quorum: int,
        journal: Any = None,
    ) -> None:
        super().__init__()
        self.network, self.rank, self.identity, self.topics = network, rank, identity, topics
        self.graph, self.size = network.graph(), len(network.peers)
        self.journal, self.shared_folder = journal, journal is None
        self.names = {place: peer.called for place, peer in enumerate(network.peers)}
        self.settings, self._connect, self._heartbeat = dict(settings), connect, heartbeat
        self._identities, self._quorum = [str(peer.identity) for peer in network.peers], quorum
        self._session, self._line = secrets.token_hex(16), Line()
        self.turn = self.round = 0
        self.key = secrets.token_bytes(32)
        self.ended: AdmmnetError | None = None  # what has ended the start, or the run
        self.end: End | None = None
        self.files: End | None = None
        self.receipts: Any = None
        self.up, self.bytes_sent, self.dropped, self.waiting = False, 0, 0, Waiting()
        self._parts: dict[int, dict[int, bytes]] = {}
        self._said: dict[int, list[Said]] = {}
        self._down = time.monotonic()
        self._name, self._announced = b"", False
        self._secret: StartKey | None = None
        self._ciphers: dict[tuple[int, int], ChaCha20Poly1305] = {}
        self._sealed: set[tuple[int, int]] = set()
        self._around: set[int] = set()
        self.tree: Tree | None = None
        self._below: list[int] = []  # its children in that
        self._words: dict[int, tuple[Word, bytes]] = {}
        self._proofs: dict[int, list[bytes]] = {}  # two words of an agent that contradict each other
        self._standing = Standing()
        self._here = b""  # its word HERE, as long as it waits for a start
        self._bound = ""  # run for which this agent has been charged: it gives that name up for no other
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
        dealer, beat = self._dealer, int(100 * self._heartbeat)
        dealer.linger, dealer.immediate, dealer.sndhwm, dealer.rcvhwm, dealer.maxmsgsize = 0, True, 0, 0, 2 * PIECE
        dealer.heartbeat_ivl, dealer.heartbeat_timeout, dealer.heartbeat_ttl = beat, 4 * beat, 5 * beat
        dealer.handshake_ivl = dealer.connect_timeout = 4 * beat
        dealer.reconnect_ivl, dealer.reconnect_ivl_max, dealer.ipv6 = 50, 1000, "[" in self.network.relay
        if keys is not None:
            dealer.curve_publickey, dealer.curve_secretkey = keys.public.encode(), keys.secret.encode()
            dealer.curve_serverkey = str(self.network.relay_key).encode()

    # starts

    def meet(self, standing: Standing) -> Start:
        """Take part in the next start; Finished if the run has ended, RunError if there is none in time."""
        self._settle(durable=True)
        self._secret, self._standing = StartKey(), standing
        own = None if self.journal is None else self.journal.staged()
        here = Here(
            **asdict(standing),
            agent=self.rank,
            network=self.network.digest,
            settings=self.settings,
            epk=self._secret.public,
            least=self._quorum,
            staged="" if own is None else own.digest,
            signature=b"" if own is None else self._signature(standing.run, own.digest),
        )
        word, begun, self._announced = sign_here(here, self.identity), time.monotonic(), False
        self.start, self._name, self._here, self.files = None, b"", word, None
        if type(self.ended) is StartEnded:
            self.ended = None
        self._bound = standing.run if standing.c > NEVER else ""
        self._recall(standing.run)
        while True:
            if self.up and not self._announced:  # each time that the line stands anew: the relay may know nothing
                self._announced = True
                words = [data for _, data in self._words.values()]
                self._send(Kind.HERE, packed(Hail(word, sum(self._proofs.values(), words))))
            self.serve(PULSE)
            if self.ended is not None and type(self.ended) is not StartEnded:
                raise self.ended
            if self.start is not None:
                return self.start
            if self.ended is not None:  # it has left one at once: another word is due
                return self.meet(standing)
            now = time.monotonic()
            whom = "the others" if self.up else f"the relay at {self.network.relay}"
            self.waiting.look(begun, now, [whom])
            patience = PATIENCE if standing.run else self._connect
            if now > (begun if not self.up or standing.run else now) + patience:
                self.fail(RunError(f"{whom} did not come within {patience:g} s; start the same command again"))

    def _formed(self, call: Call) -> bool:
        """Take part in the start that follows from some words; not in one that leaves out a newer word."""
        try:
            start = form(call, self._identities, self.graph, self._quorum)
            known = {one.agent: one for one in (read_word(data, self._identities) for data in call.words)}
        except BadFrame:
            return False
        if self.rank not in start.here:
            return False
        self._recall(start.run)
        self.start, self._name, self.turn = start, bytes.fromhex(start.name), 0
        self._line.forget(2**53)
        held = [(i, word) for i, (word, _) in self._words.items() if word.run == start.run]
        older = any(i not in known or known[i].age < word.age for i, word in held)
        if older or (self._bound and start.run != self._bound):
            self.lose(None, "the relay formed a start without the newest words, or of another run")
            self.start = None
            return False
        self._here = b""
        self._around = {i + j - self.rank for i, j in start.edges if self.rank in (i, j)}
        self.tree = tree_of(start, self.size)
        self._below = np.flatnonzero(self.tree.parent == self.rank).tolist()
        for known_before in (self._parts, self._said, self._ciphers, self._sealed):
            known_before.clear()
        return True

    # turns

    def exchange(self, part: bytes, whom: Collection[int]) -> dict[int, bytes]:
        """Send a part to some neighbours, silence to others in this start, and wait for theirs."""
        turn = self._next()
        for to in sorted(self._around):
            self._seal(Kind.PART, to, turn, part if to in whom else b"")
        return self._take(Kind.PART, turn, self._around)

    def _next(self) -> int:
        self.turn += 1
        self._line.forget(self.turn - 2)
        return self.turn - 1

    def sum_up(self, part: Callable[[dict[int, bytes]], bytes]) -> bytes:
        """Total of a sum: ``part`` makes this agent's part of those of its children in the tree."""
        assert self.tree is not None
        turn = self._next()
        payload = part(self._take(Kind.SUM, turn, {*self._below}))
        if self.rank != self.tree.root:
            self._seal(Kind.SUM, int(self.tree.parent[self.rank]), turn, payload)
        else:
            self._speak(TOTAL, turn, payload)
        total = self._heard(turn, {self.tree.root}, TOTAL)[self.tree.root]
        return total if isinstance(total, bytes) else self._liar(turn)

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        """See ``World.gather``.

        If most say the same error it is raised. Else it comes back to its agent alone: to others the relay ends the
        start.
        """
        assert self.start is not None
        turn = self._next()
        if isinstance(value, AdmmnetError):  # of an account others learn nothing
            own = isinstance(value, BudgetError) and not self.shared_folder
            value = Failed(value.exit_code, "its budget affords no round" if own else str(value)[:1000])
        failed = isinstance(value, Failed)  # whatever the others say
        self._speak(ERROR if failed else topic, turn, self.topics.write(ERROR if failed else topic, value))
        found = self._heard(turn, set(self.start.members), None if failed else topic)
        failures = {i: said for i, said in found.items() if isinstance(said, Failed)}
        own_error = failures.get(self.rank)
        for one in failures.values():
            same = sum((other.code, other.whom) == (one.code, one.whom) for other in failures.values())
            if one.whom is None and 2 * same > len(self.start.members):
                raise KINDS.get(one.code, RunError)(printable(one.text)).of_all()
        if failures and (own_error is None or own_error.whom is not None):
            self._wait(lambda: {-1})  # until the relay ends the start
        return [found.get(i) for i in range(self.size)]

    def connect(self, graph: Graph, block: int = 1) -> Transport:
        """Connect processes whose agents are neighbours; those of two processes without an edge cannot be."""
        return ZmqTransport(self, graph, block)

    def _speak(self, topic: str, turn: int, payload: bytes) -> None:
        word = self._word(-1, turn, digest_of(topic, payload))
        self._send(Kind.SAY, packed(Said(topic, payload, word)), start=self._name, turn=turn)

    def _word(self, to: int, turn: int, said: bytes) -> bytes:
        assert self.start is not None
        round, lines, head = (NEVER, 0, "") if self.journal is None else self.journal.charged()
        word = Word(self.start.run, self.start.name, self.rank, to, turn, round, lines, head, said)
        return sign_word(word, self.identity)

    def _seal(self, kind: Kind, to: int, turn: int, payload: bytes) -> None:
        """Send a neighbour a part that nobody else can read or change, also the relay; RunError of a second one."""
        if (to, turn) in self._sealed:
            raise RunError(f"a second part of turn {turn} for {self.names[to]}: this is a fault of admmnet")
        self._sealed.add((to, turn))
        assert self.start is not None
        # its numbers may be few: without the nonce nobody finds them by trying, and equal parts of a round have one
        nonce = hmac.digest(self.key, statement("part", self.start.run, self.round, payload), "sha256")
        word = self._word(to, turn, hashlib.sha256(statement("part", nonce, payload)).digest())
        content = packed((word, nonce, payload))
        sealed = self._cipher(self.rank, to).encrypt(
            turn.to_bytes(12, "big"), content, self._place(kind, self.rank, to, turn)
        )
        self._send(kind, sealed, start=self._name, who=to, turn=turn)

    def _place(self, kind: Kind, sender: int, to: int, turn: int) -> bytes:
        return statement("part", self._name, int(kind), sender, to, turn)

    def _cipher(self, sender: int, to: int) -> ChaCha20Poly1305:
        """Cipher of one direction between this agent and a neighbour, which they alone know, of this start."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        if (sender, to) not in self._ciphers:
            assert self.start is not None
            assert self._secret is not None
            other = self.start.here[sender + to - self.rank].epk
            key = self._secret.derive(other, self._name, statement("part", sender, to))
            self._ciphers[sender, to] = ChaCha20Poly1305(key)
        return self._ciphers[sender, to]

    def _take(self, kind: Kind, turn: int, whom: Set[int]) -> dict[int, bytes]:
        """Wait for parts of a turn from neighbours."""
        box = self._parts.setdefault(turn, {})
        self._wait(lambda: whom - box.keys())
        found = {sender: self._opened(kind, sender, turn, box[sender]) for sender in sorted(whom)}
        del self._parts[turn]
        self._settle()
        return found

    def _opened(self, kind: Kind, sender: int, turn: int, sealed: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        assert self.start is not None
        try:
            place = self._place(kind, sender, self.rank, turn)
            content = self._cipher(sender, self.rank).decrypt(turn.to_bytes(12, "big"), sealed, place)
            data, nonce, payload = unpacked(content, tuple[bytes, bytes, bytes])
            said = hashlib.sha256(statement("part", nonce, payload)).digest()
            where = {"run": self.start.run, "start": self.start.name, "agent": sender, "to": self.rank, "turn": turn}
            word = read_word(data, self._identities, **where, said=said)
        except (InvalidTag, ValueError, BadFrame):
            self.reject(sender, f"the part of {self.names[sender]} in turn {turn} was not sealed by it for this place")
        self._note(word, data)
        return bytes(payload)

    def _note(self, word: Word, data: bytes) -> None:
        known = self._words.get(word.agent)
        if known is not None and contradict(known[0], word):
            self._proofs[word.agent] = [known[1], data]
        if known is None or known[0].run != word.run or known[0].age <= word.age:
            self._words[word.agent] = word, data
        if self.receipts is not None:
            self.receipts.take(word, data)

    def _recall(self, run: str) -> None:
        """Know words that this agent has kept in a run: it takes part in no start that leaves them out."""
        for data in () if self.receipts is None else self.receipts.begin(run):
            word = read_word(data, self._identities)
            self._words[word.agent] = word, data

    def _settle(self, *, durable: bool = False) -> None:
        try:
            if self.receipts is not None:
                self.receipts.write(durable=durable)
        except RunError as error:  # its word of this turn was said: none comes in place of the next one
            raise error.of_all() from None

    def _heard(self, turn: int, whom: Set[int], topic: str | None) -> dict[int, Any]:
        """Wait for words to all; what the relay gives must be signed by these agents for this turn."""
        assert self.start is not None
        self._wait(lambda: set() if turn in self._said else whom - {self.rank} or whom)
        found: dict[int, Any] = {}
        for said in self._said.pop(turn):
            try:
                where = {"run": self.start.run, "start": self.start.name, "to": -1, "turn": turn}
                word = read_word(said.word, self._identities, **where, said=digest_of(said.topic, said.payload))
                if topic is not None and said.topic not in (topic, ERROR):
                    raise BadFrame
                found[word.agent] = self.topics.read(said.topic, said.payload, self.network.peers[word.agent])
                self._note(word, said.word)
            except BadFrame:
                self._liar(turn)
        if found.keys() != whom:
            self._liar(turn)
        self._settle()
        return found

    def _liar(self, turn: int) -> NoReturn:
        self.reject(None, f"the relay gave words of turn {turn} that agents have not signed for it")

    def _wait(self, missing: Callable[[], Set[int]]) -> None:
        """Serve until nothing is missing; raise what has ended the start or the run."""
        begun = look = time.monotonic()
        self.check()
        while absent := missing():
            self.serve(look - time.monotonic())
            if (now := time.monotonic()) >= look:
                self.waiting.look(begun, now, [self.names.get(i, "the relay") for i in sorted(absent)])
                look = now + 5 * PULSE
            if missing():  # what is whole at one is whole at all
                self.check()
        self.waiting.since = None

    # ends of starts

    def reject(self, agent: int | None, fault: str) -> NoReturn:
        """See ``World.reject``: the two have no edge from now on; None is the relay."""
        if self.shared_folder:
            raise RunError(fault)
        self.lose(agent, fault)
        self.check()
        raise StartEnded(fault).of_all()

    def blame(self, agent: int, fault: str, kind: type[AdmmnetError] = RequestError) -> NoReturn:
        """See ``World.blame``: if most say so, the agent is out of the run."""
        if self.shared_folder:
            raise kind(fault).of_all()
        self.gather(Failed(RunError.exit_code, fault[:1000], agent))
        raise StartEnded(fault).of_all()

    def lose(self, agent: int | None, reason: str) -> None:
        """Take the fault of a neighbour, or of the relay, for the end of the start; the next ``check`` raises it."""
        if self.ended is None and self.start is not None:
            self.ended = StartEnded(reason)
            self._send(Kind.OVER, packed(Failed(RunError.exit_code, reason[:1000], agent)), start=self._name)

    def check(self) -> None:
        """Leave the start if something has ended it, or the run."""
        if (error := self.ended) is None:
            return
        self._settle(durable=True)
        if type(error) is StartEnded:
            self.start = self.ended = None
        raise error.of_all()

    # the end

    def stage(self, end: End) -> bytes:
        """Sign an end whose files are on the disk, none if ``end`` has no digest; finish.json, once most have signed.

        Finished if most have signed another one.
        """
        assert self.start is not None
        self._settle(durable=True)
        self.give(end)
        said = Signature(end.digest, self._signature(self.start.run, end.digest))
        self._speak(END, self._next(), self.topics.write(END, said))
        self._wait(lambda: set() if self.end is not None else {-1})
        assert self.end is not None
        if self.end.digest != end.digest:
            raise Finished(self.end).of_all()
        return self.end.finish

    def end_with(self, end: End) -> NoReturn:
        """Raise Finished with an end of another start, once most have signed it, or another one."""
        raise Finished(replace(end, finish=self.stage(end))).of_all()

    def give(self, end: End) -> None:
        """Give the relay the files of an end, if that is this member's part in the start; once."""
        if self.start is not None and self.start.giver == self.rank:
            files = {name: data for name, data in end.files.items() if name != "noise.npy"}
            self._send(Kind.FILES, packed(replace(end, files=files)), start=self._name)

    def wanted(self) -> End:
        """Files of the end that this start is about."""
        self._wait(lambda: set() if self.files is not None else {-1})
        assert self.files is not None
        return self.files

    def _signature(self, run: str, digest: str) -> bytes:
        return self.identity.sign(end_statement(self.network.digest, run, digest))

    # the line

    def _send(self, kind: Kind, body: bytes = b"", **fields: Any) -> None:
        for head, piece in self._line.frames(kind, body, **fields):
            self.bytes_sent += len(head) + len(piece)
            if self.up:
                with suppress(zmq.Again):  # the line is cut: it is sent again after the next HELLO
                    self._dealer.send_multipart([head, piece], zmq.NOBLOCK)

    def serve(self, seconds: float) -> None:
        """Take what arrives within some time."""
        self._poller.poll(int(1000 * max(0.0, seconds)))
        while self._monitor.poll(0):
            self._changed(int(parse_monitor_message(self._monitor.recv_multipart())["event"]))
        with suppress(zmq.Again):
            while True:
                self._arrived(self._dealer.recv_multipart(zmq.NOBLOCK))
        if not self.up and self.start is not None and time.monotonic() - self._down > self._heartbeat:
            self.ended = self.ended or StartEnded(f"the relay at {self.network.relay} cannot be reached")

    def _changed(self, event: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._dealer.poll(1000, zmq.POLLOUT)  # it may take a moment until the line can be used
            self._greet()
        elif event == zmq.EVENT_DISCONNECTED:
            if self.up:
                say("line-down", "the line to the relay was cut", "warning")
            self.up, self._down = False, time.monotonic()
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self.ended = RequestError("the relay does not admit this agent's key: compare network files and keys")

    def _greet(self) -> None:
        hello = Hello(self.rank, self._session, self._line.sent, self._line.got)
        self._dealer.send_multipart([packed(Frame(Kind.HELLO)), packed(hello)])

    def _stands(self, got: int) -> None:
        """The line can be used: send again what has not come."""
        self.up, self._announced = True, False
        say("line-up", "the line to the relay stands")
        missing = self._line.after(got)
        if missing is None:  # some of them are gone: another session begins
            self._session = secrets.token_hex(16)
            self._greet()
        for message in missing or ():
            self._dealer.send_multipart(message)

    def _arrived(self, message: list[bytes]) -> None:
        try:
            if len(message) != 2:
                raise BadFrame
            frame: Frame = unpacked(message[0], Frame)
            if frame.kind is Kind.HELLO:
                self._stands(frame.turn)
                return
            try:
                body = self._line.take(frame, message[1], FILES_LIMIT)
            except Lost:
                self.ended = self.ended or StartEnded("frames of the relay were lost on the way")
                return
            if body is not None:
                self._obey(frame, body)
        except BadFrame:
            self.dropped += 1

    def _obey(self, frame: Frame, body: bytes) -> None:
        if frame.kind is Kind.START:
            call: Call = unpacked(body, Call)
            if self.start is None and self._here in call.here:
                self._formed(call)
        elif frame.kind is Kind.FILES:
            self.files = unpacked(body, End)
        elif frame.kind is Kind.END:
            self.end = unpacked(body, End)
            self.ended = Finished(self.end)
        elif frame.kind is Kind.STOP:
            stop: Failed = unpacked(body, Failed)
            said, code = stop.text or "it gives no reason", stop.code if stop.code in (2, 3, 4) else 3
            self.ended = self._older(stop) or RunEnded(says("the relay", said), code)
        elif self.start is None or frame.start not in (self._name, b""):
            self.dropped += 1
        elif frame.kind in (Kind.PART, Kind.SUM):
            self._parts.setdefault(frame.turn, {}).setdefault(frame.who, body)
        elif frame.kind is Kind.SAY:
            self._said.setdefault(frame.turn, unpacked(body, list[Said]))
        elif frame.kind is Kind.OVER:
            over: Failed = unpacked(body, Failed)
            self.ended = self.ended or StartEnded(printable(over.text))

    def _older(self, stop: Failed) -> RunEnded | None:
        """Whether this agent has signed more than it has, in its run: the relay shows it, and could not make it up."""
        own = self._standing
        try:
            word = read_word(stop.word, self._identities, agent=self.rank, run=own.run)
        except BadFrame:
            return None
        text = (
            f"the ledger here has {own.lines} lines, and this agent has signed another one, of {word.lines}: its run "
            "folder is an older copy. Put back the newest folder and account, both; else the others finish without it"
        )
        return RunEnded(text, RequestError.exit_code, older=True) if outdated(own, word) else None

    # ends of the process

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        """See ``World.abort``: the relay tells the others."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._stop(code, reason)
        self.close()
        sys.exit(code)

    def _stop(self, code: int, reason: str | None) -> None:
        """Tell the relay that this process ends with an exit code."""
        if not isinstance(self.ended, RunEnded | Finished):
            self._send(Kind.STOP, packed(Failed(code, (reason or "")[:1000])))

    def finish(self) -> None:
        """Take leave: this agent has the end of the run."""
        self._send(Kind.BYE)
        self.close()

    def fail(self, error: AdmmnetError) -> NoReturn:
        """End this process, and tell everybody."""
        self._settle(durable=True)
        self._stop(error.exit_code, error.public)
        error.shared, self.ended = True, error
        self.close()
        raise error

    def close(self) -> None:
        """Close the line; safe to call twice."""
        atexit.unregister(self.close)
        if self._dealer.closed:
            return
        self._monitor.close(0)
        self._dealer.close(int(1000 * SHUTDOWN) if self.up else 0)
        self._context.term()

    @property
    def figures(self) -> dict[str, Any]:
        """Line, bytes, frames and seconds of waiting until now; another thread may ask."""
        since = self.waiting.since
        waited = 0 if since is None else int(time.monotonic() - since)
        figures = {"lines": 1, "lines_up": int(self.up), "bytes_sent": self.bytes_sent, "waiting_seconds": waited}
        return figures | {"frames": {"dropped": self.dropped}}


class ZmqTransport(Transport):
    """One part to each neighbour and round: a vector, or nothing; every process has the agent of its own number."""

    world: Member

    def __init__(self, world: Member, graph: Graph, block: int) -> None:
        super().__init__(world, graph, block)
        self.away = {} if world.journal is None else dict(world.journal.away)
        for j in graph[world.rank]:
            if j not in world.graph[world.rank]:
                raise RequestError(
                    f"agents {world.rank} and {j} are neighbours in the graph, but not in the network file"
                )

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """See ``Transport.exchange``."""
        sent, near, vectors = outgoing[self.world.rank], self.graph[self.world.rank], Inbox()
        self.world.round = round
        for j, heard in self.world.exchange(b"" if sent is None else sent.astype("<f8").tobytes(), near).items():
            if len(heard) % 8 or (heard and j not in near):
                self.world.reject(j, f"agent {j} sent no vector in a part")
            if heard:
                vectors[j] = np.frombuffer(heard, "<f8").astype(np.float64)
        return vectors

    def _added(self, part: Integers, tree: Tree, round: int) -> Integers:
        """Add up along the tree of the start, whose root says the total to all (Theorem N1)."""
        world, carrying = self.world, self.world.tree
        assert carrying is not None

        def added(children: Mapping[int, bytes]) -> bytes:
            found = part
            for child, said in children.items():
                own = self._read(said, part.size, carrying.branches[child])
                if own is None:
                    world.reject(
                        child, f"it gives {len(said) // 8} numbers to a sum of {part.size}, or speaks for others"
                    )
                found = found + own
            return found.astype("<i8").tobytes()

        world.round = round
        said = world.sum_up(added)
        total = self._read(said, part.size, tree.agents)
        if total is None:
            world.blame(
                carrying.root, f"agent {carrying.root} gives {len(said)} bytes as a total, or speaks for others"
            )
        return total

    def _read(self, said: bytes, size: int, agents: Iterable[int]) -> Integers | None:
        """Part of a sum; None of another length, with somebody twice, or with agents that are none of these."""
        if len(said) != 8 * size:
            return None
        part = np.frombuffer(said, "<i8").astype(np.int64)
        heads = part[: len(self.graph)].copy()
        fits = np.isin(heads, (0, 1)).all()
        heads[list(agents)] = 0
        return None if heads.any() or not fits else part

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        everything = np.full((len(self.graph), rows.shape[1]), np.nan)
        for i, said in enumerate(self.world.gather(rows.astype("<f8").tobytes(), ROWS)):
            if said is not None and len(said) != 8 * rows.shape[1]:
                self.world.blame(i, f"agent {i} sent {len(said)} bytes of rows of {rows.shape[1]} numbers")
            if said is not None:
                everything[i] = np.frombuffer(said, "<f8")
        return everything
