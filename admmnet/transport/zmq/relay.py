"""The relay: where all agents of a network dial, and the only one that listens (docs/protocol.md).

It holds no records and no secret of an agent. It passes on parts of turns, gives all members what all have said, forms
starts, ends them where somebody fails, and keeps the files of the end for whoever comes late. What it could forge, it
cannot sign: agents check each other's words, and an end needs the signatures of most.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import parse_monitor_message

from admmnet.errors import RequestError, RunError, printable, short
from admmnet.log import say
from admmnet.transport.hosts.keys import Keys
from admmnet.transport.hosts.network import Network
from admmnet.transport.zmq.meeting import Call, Edge, Here, Start, form, read
from admmnet.transport.zmq.wire import (
    LIMIT,
    LOG,
    BadFrame,
    End,
    Frame,
    Hello,
    Kind,
    Over,
    Stop,
    Wait,
    decode,
    encode,
    packed,
    unpacked,
)

PULSE = 0.2
"""Seconds between two looks at the clock."""
FIRST, LEAST, LONGER = 600.0, 60.0, 20.0
"""Of an automatic round deadline: seconds in the first round, the least afterwards, and how many longest rounds."""
APART = 10
"""Rounds of a start before it ends for an agent from outside."""
USELESS = 10_000
"""Frames that belong nowhere until their sender is heard no more."""
LATER = 5.0
"""Seconds in which agents that come too late hear why the others have ended."""
OPEN = 4
"""Turns of which a member may have said its part before all have."""


class Terms(NamedTuple):
    """When starts are formed and ended; seconds."""

    quorum: int
    """Fewest members of a start."""
    strikes: int = 5
    """Faults of an agent, or between two, until it takes part no more, or they have no edge."""
    connect: float = 60.0
    heartbeat: float = 10.0
    round: float | None = None
    regroup: float = 600.0
    shared: bool = False
    """Whether one command has started all agents: then the first fault ends the run."""


class Ends(Protocol):
    """What is known of the end of a run (``record.finish.Ends``)."""

    end: End | None
    """The one that most agents have signed."""

    def take(self, run: str, agent: int, end: End, signature: bytes) -> bool:
        """Take in an agent's signature; whether it is good."""

    def open(self, here: Collection[int]) -> tuple[End, Collection[int]] | None:
        """An end that some, of these agents too, have signed, and who has."""


@dataclass
class Site:
    """What the relay knows of an agent."""

    route: bytes = b""
    line: int = -1
    """Descriptor of its connection, as long as that stands."""
    session: str = ""
    hello: Hello | None = None
    sent: int = 0
    got: int = 0
    log: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=LOG))
    """The last frames that it was sent, by their numbers."""
    down: float | None = None
    """Since when its line is cut."""
    word: bytes = b""
    here: Here | None = None
    """Its word HERE for the next start, and what that says."""
    since: float = 0.0
    """When it has said that."""
    wait: tuple[float, str, int, Wait] | None = None
    """When it said last that it waits, and in which turn."""
    given: dict[tuple[int, str], int] = field(default_factory=dict)
    """Last turn of a topic of which it was given an agent's part."""
    asked: str = ""
    """Digest of the end that it was asked to sign."""
    left: bool = False
    useless: int = 0


class Relay:
    """Relay of one network; ``serve`` does its work, until ``done``.

    ``keys`` are its CURVE keys, None where all agents are on this machine; ``ends`` keeps the end.
    """

    def __init__(self, network: Network, terms: Terms, ends: Ends | None = None, keys: Keys | None = None) -> None:
        self.network, self.terms, self.ends = network, terms, ends
        self.graph, self.names = network.graph(), [f"agent {peer.agent}" for peer in network.peers]
        self._identities = [str(peer.identity) for peer in network.peers]
        self.sites = [Site() for _ in network.peers]
        self.start: Start | None = None
        self.rounds, self.run = 0, ""
        self.stopped: Stop | None = None  # how a run has ended for all; of hosts, who come within `LATER` hear of it
        self._stopped_at = 0.0
        self.deaths: list[tuple[int, str]] = []  # of processes, and how, as their starter says; any thread may add
        self._parts: dict[tuple[str, int], dict[int, tuple[bytes, bytes]]] = {}
        self._strikes = Counter[Edge]()
        self._forming = self._came = self._formed = self._round_at = time.monotonic()
        self._longest = self._beat = 0.0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._auth = None
        self._by_key = {str(peer.public_key): i for i, peer in enumerate(network.peers)} if keys else None
        if keys is not None:
            self._auth = ThreadAuthenticator(self._context)
            self._auth.start()
            self._auth.configure_curve_callback("*", self)
        self._router = self._context.socket(zmq.ROUTER)
        self._listen(keys)
        self._monitor = self._router.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self.poller = zmq.Poller()
        for socket in (self._router, self._monitor):
            self.poller.register(socket, zmq.POLLIN)

    def _listen(self, keys: Keys | None) -> None:
        router, beat = self._router, int(100 * self.terms.heartbeat)
        router.linger, router.router_mandatory, router.sndhwm, router.rcvhwm = 0, True, 0, 10
        router.maxmsgsize, router.handshake_ivl = LIMIT, 4 * beat
        router.heartbeat_ivl, router.heartbeat_timeout, router.heartbeat_ttl = beat, 4 * beat, 5 * beat
        if keys is not None:
            router.curve_server, router.curve_secretkey = True, keys.secret.encode()
        where = self.network.relay
        router.ipv6 = "[" in where
        try:
            router.bind(self.network.listens_at())
        except zmq.ZMQError as error:
            self.close()
            raise RequestError(f"the relay cannot listen at {where}: {error.strerror}") from None

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a key may come in, as the authenticator asks."""
        return self._by_key is not None and key.decode() in self._by_key

    @property
    def done(self) -> bool:
        """Whether nobody needs it any more."""
        return self._end is not None and all(site.left for site in self.sites)

    @property
    def _end(self) -> End | None:
        return None if self.ends is None else self.ends.end

    def _tell(self, event: str, text: str, **more: Any) -> None:
        """Say what a relay of its own has seen; where one command has started all, agents say it."""
        if not self.terms.shared:
            say(event, text, **more)

    # in

    def serve(self, seconds: float) -> list[Any]:
        """Take what arrives within some time; return other things of the ``poller`` that are ready."""
        ready = dict(self.poller.poll(int(1000 * max(0.0, min(seconds, self._beat - time.monotonic())))))
        while self._monitor.poll(0):  # first: a new line may have the number of an old one
            line = int(parse_monitor_message(self._monitor.recv_multipart())["value"])
            for site in self.sites:
                if site.line == line:
                    site.line, site.down = -1, time.monotonic()
        with suppress(zmq.Again):
            for _ in range(1000):
                route, *parts = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
                if len(parts) == 1:
                    self._take(route.bytes, parts[0])
        while self.deaths:
            self._gone(*self.deaths.pop(0))
        now = time.monotonic()
        if now >= self._beat:
            self._beat = now + PULSE
            self._pulse(now)
        return [fd for fd in ready if fd not in (self._router, self._monitor)]

    def _take(self, route: bytes, data: zmq.Frame) -> None:
        agent = next((i for i, site in enumerate(self.sites) if site.route == route), None)
        if agent is not None and self.sites[agent].useless >= USELESS:
            return
        try:
            frame = decode(data.bytes)
            if frame.kind is Kind.HELLO:
                self._greeted(route, data, unpacked(frame.payload, Hello))
            elif agent is not None and frame.number == self.sites[agent].got + 1:
                self.sites[agent].got += 1
                self._obey(agent, frame)
            elif agent is not None:
                self._fault(f"frames of {self.names[agent]} were lost on the way", agent)
        except BadFrame:
            if agent is not None:
                self.sites[agent].useless += 1

    def _greeted(self, route: bytes, data: zmq.Frame, hello: Hello) -> None:
        if hello.agent >= len(self.sites):
            raise BadFrame
        if self._by_key is not None and self._by_key.get(str(data.get("User-Id"))) != hello.agent:
            raise BadFrame
        site, name = self.sites[hello.agent], self.names[hello.agent]
        again = site.session == hello.session and site.sent - hello.got <= len(site.log)
        if not again and self.start is not None and hello.agent in self.start.members:
            self._fault(f"the process of {name} has ended, or its line lost what was sent", hello.agent)
        if not again:
            self.sites[hello.agent] = site = Site(session=hello.session, got=hello.sent, sent=hello.got)
        site.route, site.line, site.down, site.hello = route, int(data.get(zmq.SRCFD)), None, hello
        self._came = time.monotonic()
        self._tell("line-up", f"the line of {name} stands", peer=hello.agent)
        self._router.send_multipart([route, encode(Frame(Kind.HELLO, turn=site.got))])  # it sends again what came after
        for _, sent in (one for one in site.log if one[0] > hello.got):
            self._router.send_multipart([route, sent])
        if not again and hello.sent:  # of a start that it is in it has lost something, or this relay knows nothing
            self._send(hello.agent, Kind.OVER, payload=packed(Over("its line was cut for long, or the relay is new")))
        if self.stopped is not None and (self.terms.shared or time.monotonic() < self._stopped_at + LATER):
            self._send(hello.agent, Kind.STOP, payload=packed(self.stopped))
        other = next((s.hello for s in self.sites if s.hello is not None and s is not site), None)
        wrong = None if other is None else difference(other, hello, self.names[other.agent], name)
        if wrong is not None:
            self._stop(RequestError.exit_code, wrong, None if not self.run else [hello.agent])

    def _obey(self, agent: int, frame: Frame) -> None:
        site, start = self.sites[agent], self.start
        ours = start is not None and frame.start == bytes.fromhex(start.name) and agent in start.members
        if frame.kind is Kind.HERE:
            here = read(frame.payload, self._identities)
            if here.agent != agent:
                raise BadFrame
            if frame.payload == site.word:
                return  # it says so again, as its line was cut
            if ours or (start is not None and agent in start.members):
                self._fault(f"{self.names[agent]} has left this start", agent)
            site.word, site.here, site.wait = frame.payload, here, None
            site.since = self._came = time.monotonic()
        elif frame.kind is Kind.STAGED:
            self._staged(agent, unpacked(frame.payload, End), frame.words)
        elif frame.kind is Kind.BYE:
            site.left = True
        elif frame.kind is Kind.STOP:
            self._ended(agent, unpacked(frame.payload, Stop))
        elif not ours:
            site.useless += 1
            if frame.kind is Kind.WAIT:  # it has not heard that its start is over
                self._send(agent, Kind.OVER, start=frame.start, payload=packed(Over("this start is over")))
        elif frame.kind is Kind.PART:
            self._part(agent, frame)
        elif frame.kind is Kind.SAY:
            self._said(agent, frame)
        elif frame.kind is Kind.WAIT:
            site.wait = time.monotonic(), frame.topic, frame.turn, unpacked(frame.payload, Wait)
        elif frame.kind is Kind.OVER:
            over = unpacked(frame.payload, Over)
            known = over.whom is not None and self.graph.has_edge(agent, over.whom)
            self._fault(over.text, agent, over.whom if known else None)

    def _part(self, agent: int, frame: Frame) -> None:
        assert self.start is not None
        to = frame.who
        if (min(agent, to), max(agent, to)) not in self.start.edges:
            raise BadFrame
        self._began(frame)
        self.sites[to].given[agent, frame.topic] = frame.turn
        part = {"topic": frame.topic, "turn": frame.turn, "payload": frame.payload}
        self._send(to, Kind.PART, start=frame.start, who=agent, **part)

    def _said(self, agent: int, frame: Frame) -> None:
        assert self.start is not None
        place = frame.topic, frame.turn
        if sum(agent in said for key, said in self._parts.items() if key != place) >= OPEN:
            raise BadFrame
        said = self._parts.setdefault(place, {})
        said.setdefault(agent, (frame.payload, frame.words))
        if len(said) == len(self.start.members):
            del self._parts[place]
            self._began(frame)
            everything = packed([said.get(i) for i in range(len(self.sites))])
            for i in self.start.members:
                self.sites[i].given |= dict.fromkeys(((j, frame.topic) for j in said), frame.turn)
                self._send(i, Kind.SAY, start=frame.start, topic=frame.topic, turn=frame.turn, payload=everything)

    def _began(self, frame: Frame) -> None:
        if frame.topic.startswith(("round", "sum")) and frame.turn >= self.rounds:
            now = time.monotonic()
            self._longest = max(self._longest, now - self._round_at) if self.rounds else 0.0
            self.rounds, self._round_at = frame.turn + 1, now

    # out

    def _send(self, agent: int, kind: Kind, **fields: Any) -> None:
        site = self.sites[agent]
        site.sent += 1
        data = encode(Frame(kind, site.sent, **fields))
        site.log.append((site.sent, data))
        if site.line >= 0:
            with suppress(zmq.ZMQError):  # the line is cut: it is sent again after the next HELLO
                self._router.send_multipart([site.route, data], zmq.NOBLOCK)

    # starts

    def _pulse(self, now: float) -> None:
        grace = 0.5 * self.terms.heartbeat
        if self.start is None:
            self._form(now)
            return
        for agent in self.start.members:
            site = self.sites[agent]
            if site.down is not None and now - site.down > grace:
                self._fault(f"the process or host of {self.names[agent]} has ended, or cannot be reached", agent)
                return
        came = [i for i, site in enumerate(self.sites) if site.here is not None and site.since > self._formed]
        outside = [i for i in came if not self._out(i)]
        if self._end is None and outside and self.rounds >= APART:
            whom = ", ".join(self.names[i] for i in outside)
            self._fault(f"{whom} has come back", outside[0])
        elif self.start is not None:
            self._look_for_late(now)
        self._give_end()

    def _look_for_late(self, now: float) -> None:
        """End the start where members wait for too long for one that does not wait itself."""
        assert self.start is not None
        automatic = max(LEAST, LONGER * self._longest) if self.rounds > 1 else FIRST
        deadline = self.terms.round or automatic
        waiting = {
            i: w for i in self.start.members if (w := self.sites[i].wait) is not None and now - w[0] < 10 * PULSE
        }
        late = [i for i, (_, _, _, wait) in waiting.items() if wait.seconds > deadline]
        if not late:
            return
        seen, agent = {late[0]}, late[0]
        while agent in waiting:
            _, topic, turn, wait = waiting[agent]
            given, lacks = self.sites[agent].given, [j for j in wait.whom if j < len(self.sites)]
            lacks = [j for j in lacks if given.get((j, topic), -1) < turn]
            lacks = sorted(lacks, key=lambda j: j in waiting)  # who does not wait owes it
            if not lacks or lacks[0] in seen:  # it has all for which it says that it waits
                break
            agent = lacks[0]
            seen.add(agent)
        self._fault(
            f"the part of {self.names[agent]} did not come within {deadline:g} s (round deadline), though its line "
            "stands: it hangs, or needs a longer --round-deadline",
            agent,
        )

    def _fault(self, text: str, agent: int | None = None, other: int | None = None) -> None:
        """End the start; the strike is an agent's, or that of an edge."""
        start, self.start = self.start, None
        if start is None:
            return
        if agent is not None:
            self._strikes[_pair(agent, other)] += 1
        if self.terms.shared:
            self._stop(RunError.exit_code, text)
            return
        self._forming = self._came = time.monotonic()
        self._parts.clear()
        say("start-ended", text, "warning")
        for i in start.members:
            self.sites[i].given.clear()
            self.sites[i].wait = None
            self._send(i, Kind.OVER, start=bytes.fromhex(start.name), payload=packed(Over(text, agent)))

    def _out(self, agent: int, other: int | None = None) -> bool:
        return self._strikes[_pair(agent, other)] >= self.terms.strikes > 0

    def _form(self, now: float) -> None:
        """Form the next start if all are there that can be, or time is over; give the end to whoever is here."""
        if self._give_end():
            return
        here = {i: site for i, site in enumerate(self.sites) if site.here is not None}
        for i in [i for i in here if self._out(i)]:
            site = here.pop(i)
            self._stop(3, f"the others go on without {self.names[i]}: it ended {self.terms.strikes} starts", [i])
        runs = Counter(site.here.run for site in here.values() if site.here.run)  # type: ignore[union-attr]
        self.run = self.run or next(iter(runs), "")
        charged = any(site.here.charged >= 0 for site in here.values())  # type: ignore[union-attr]
        for i, site in list(here.items()):
            run = site.here.run  # type: ignore[union-attr]
            if run != self.run and (run or charged):
                self._stop(2, f"{self.names[i]} goes on with another run, or has lost its run folder", [i])
                del here[i]
        if self._to_be_signed(here, now):
            return
        everybody = len(self.sites) - sum(self._out(i) for i in range(len(self.sites)))
        if not self.run and len(here) < len(self.sites):
            if now > self._came + self.terms.connect:
                away = ", ".join(name for name, site in zip(self.names, self.sites, strict=True) if site.here is None)
                self._stop(
                    3, f"not connected within {self.terms.connect:g} s (connection deadline): {away} has not come"
                )
            return
        if len(here) < everybody and now < self._forming + self.terms.regroup:
            return
        out = [pair for pair, count in self._strikes.items() if pair[0] != pair[1] and self._out(*pair)]
        call = Call([site.word for site in here.values()], out)
        start = form(call, self._identities, self.graph, self.terms.quorum)
        if start is None:
            return
        self.start, self.run, self.rounds, self._longest = start, self.run or start.name, 0, 0.0
        self._formed = self._round_at = now
        self._tell("start", f"start {start.number} has {len(start.members)} members", members=len(start.members))
        for i in start.members:
            self.sites[i].here, self.sites[i].useless = None, 0
            self._send(i, Kind.START, payload=packed(call))

    # the end

    def _staged(self, agent: int, end: End, signature: bytes) -> None:
        if self.ends is None or not self.ends.take(self.run, agent, end, signature):
            raise BadFrame
        for i in self.start.members if self.start is not None and self._end is not None else ():
            self._send(i, Kind.END, payload=packed(self._end))

    def _give_end(self) -> bool:
        """Give the end to agents that are here; whether there is one."""
        for i, site in enumerate(self.sites) if self._end is not None else ():
            if site.here is not None:
                site.here = None
                self._send(i, Kind.END, payload=packed(self._end))
        return self._end is not None

    def _to_be_signed(self, here: dict[int, Site], now: float) -> bool:
        """Ask agents to sign an end that others have signed; whether to wait for that."""
        found = None if self.ends is None else self.ends.open(here.keys())
        if found is None:
            return False
        end, signed = found
        for i in here.keys() - signed:
            if here[i].asked != end.digest:
                here[i].asked = end.digest
                self._send(i, Kind.SIGN, payload=packed(end))
        return now < max(self._came, self._forming) + self.terms.connect

    # ends

    def _ended(self, agent: int, stop: Stop) -> None:
        """An agent has ended by a fault of its own."""
        reason = "its own output says why" if stop.text is None else stop.text
        text = f"{self.names[agent]} has ended the run: {reason}"
        self.sites[agent].left = self.terms.shared
        early = not self.rounds and (self.start is None or self.start.number == 0) and stop.code != RunError.exit_code
        if self.terms.shared or early:
            self._stop(
                stop.code if stop.code in (2, 3, 4) else 3, text, [i for i in range(len(self.sites)) if i != agent]
            )
        else:
            self._fault(text, agent)

    def _stop(self, code: int, text: str, whom: list[int] | None = None) -> None:
        """End the run for some agents, or all."""
        for i in range(len(self.sites)) if whom is None else whom:
            self._send(i, Kind.STOP, payload=packed(Stop(code, text)))
            self.sites[i].here = None
        if self.terms.shared or whom is None:
            first = self.stopped if self.terms.shared else None
            self.stopped, self._stopped_at, self.start = first or Stop(code, text), time.monotonic(), None
        for site in self.sites if whom is None else ():
            site.hello = None

    def _gone(self, agent: int, how: str) -> None:
        """A process has ended, as its starter says."""
        if not self.sites[agent].left:
            before = self.start is None and not self.run
            more = " before the first round: nothing was charged; start again" if before else ""
            text = f"the process of {self.names[agent]} {how}{more}"
            self.sites[agent].left = True
            if self.start is not None:
                self._fault(text, agent)
            elif self.stopped is None:
                self._stop(RunError.exit_code, text)

    def close(self) -> None:
        """Close the sockets; what was sent may leave within a second."""
        for socket in (getattr(self, "_monitor", None), self._router):
            if socket is not None:
                socket.close(1000)
        if self._auth is not None:
            self._auth.stop()
        self._context.term()


def forward(relay: Relay, stop: Callable[[], bool] = lambda: False) -> None:
    """Serve until nobody needs the relay, or ``stop``."""
    while not relay.done and not stop():
        relay.serve(PULSE)
    until = time.monotonic() + 1.0
    while time.monotonic() < until and not stop():
        relay.serve(PULSE)


def _pair(agent: int, other: int | None) -> Edge:
    return (agent, agent) if other is None else (min(agent, other), max(agent, other))


def difference(one: Hello, other: Hello, first: str, second: str) -> str | None:
    """What is not the same at two agents; None if everything is."""
    if one.network != other.network:
        return (
            f"{second} has another network file (digest {printable(other.network, 60)}, {first}: "
            f"{printable(one.network, 60)}): graph or keys differ; copy one network.toml to every host"
        )
    for key in sorted(one.settings.keys() | other.settings.keys()):
        here, there = one.settings.get(key), other.settings.get(key)
        if one.begun != other.begun and (here if other.begun else there) in ("auto", None):
            continue  # who begins with the run fills it in alike
        if json.dumps(here, sort_keys=True) != json.dumps(there, sort_keys=True):
            return (
                f"{second} runs with {printable(key, 60)} = {short(there, 60)}, {first} with {short(here, 60)}; start "
                "all agents with the same settings"
            )
    return None
