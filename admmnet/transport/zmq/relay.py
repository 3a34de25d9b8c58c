"""The relay: where all agents of a network dial, and the only one that listens (docs/protocol.md).

It holds no records and no secret of an agent. It passes on parts of turns, gives all members the words of all, forms
starts, ends them where somebody fails, and keeps the files of the end for agents that come late. It cannot sign for
anybody: agents check each other's words, and an end needs the signatures of most.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import zmq
from msgspec import Struct
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import parse_monitor_message

from admmnet.errors import RequestError, RunError, printable, says
from admmnet.files import write_whole
from admmnet.forms import encode, read_form
from admmnet.identity.keys import verify
from admmnet.log import say
from admmnet.transport.hosts import Keys, Network
from admmnet.transport.zmq.meeting import (
    Edge,
    Hail,
    Here,
    Strikes,
    charged,
    choose,
    end_statement,
    form,
    largest,
    most,
    outdated,
    read_here,
)
from admmnet.transport.zmq.turns import Turns
from admmnet.transport.zmq.wire import (
    ERROR,
    FILES_LIMIT,
    LARGEST,
    LONG,
    PIECE,
    SHORT,
    TOTAL,
    BadFrame,
    End,
    Failed,
    Frame,
    Hello,
    Kind,
    Line,
    Lost,
    Message,
    Said,
    Signature,
    Topics,
    Word,
    contradict,
    digest_of,
    packed,
    read_word,
    unpacked,
)
from admmnet.types import NEVER

PULSE = 0.2
"""Seconds between two looks at the clock."""
APART = 20
"""Turns of a start before it ends for an agent from outside."""
USELESS = 10_000
"""Frames that belong nowhere until their sender is heard no more."""
RUNS = 4
"""Runs of which the words of an agent are kept, as long as the relay knows of none."""
LIMITS = {Kind.HERE: 2 * LONG, Kind.SAY: LARGEST + LONG, Kind.PART: LARGEST + LONG, Kind.SUM: LARGEST + LONG}
"""Most bytes of a body; FILES are taken from the one agent that was asked for them, all others are `SHORT`."""


class Terms(NamedTuple):
    """When starts are formed and ended; seconds."""

    quorum: int
    """Fewest members of a start."""
    strikes: int = 5
    """Faults of an agent until it is out of the run."""
    connect: float = 60.0
    heartbeat: float = 10.0
    round: float | None = None
    regroup: float = 600.0
    quiet: bool = False
    """Whether it tells of no event, as the agents of one command do."""


class Memory(Struct, forbid_unknown_fields=True):
    """Content of relay.json: what a relay that is started again must know."""

    network: str
    out: dict[int, str]
    cut: list[tuple[int, int, str]]
    words: list[bytes]
    evidence: list[bytes] = []
    """Pairs of words with which agents have contradicted themselves."""


@dataclass
class Site:
    """What the relay knows of an agent."""

    route: bytes = b""
    descriptor: int = -1
    """Of its connection, as long as that stands."""
    session: str = ""
    line: Line = field(default_factory=Line)
    down: float | None = None
    """Since when its line is cut."""
    word: bytes = b""
    here: Here | None = None
    """Its word HERE for the next start."""
    giver: bool = False
    """Whether it may give the files of the end: its start is over when it says HERE again."""
    cut: bool = False
    """Whether its line was cut since the last start began."""
    dismissed: bool = False
    """Whether its process has been told to end, or knows the end."""
    finished: bool = False
    """Whether it has the end of the run."""
    useless: int = 0


class Relay:
    """Relay of one network; ``serve`` does its work, until ``done``.

    ``keys`` are its CURVE keys, None where all agents are on this machine; ``folder`` keeps what it must know again.
    ``take`` makes the end of a run of files that agents have signed, None if they are not what was signed; ``end`` is
    one that it has made before.
    """

    def __init__(
        self,
        network: Network,
        terms: Terms,
        topics: Topics,
        keys: Keys | None = None,
        folder: Path | None = None,
        take: Callable[[str, End, Mapping[int, bytes]], End | None] = lambda run, end, signed: None,
        end: End | None = None,
    ) -> None:
        self.network, self.terms, self._topics, self._make_end, self._end = network, terms, topics, take, end
        self.graph, self.names = network.graph(), [peer.called for peer in network.peers]
        self._identities = [str(peer.identity) for peer in network.peers]
        self.sites = [Site() for _ in network.peers]
        self.turns: Turns | None = None  # of the present start
        self.run, self.frames = "", 0
        self.reason = ""  # of the first fault
        self.deaths: list[tuple[int, str]] = []  # of processes, and how, as their starter says; any thread may add
        self._path = None if folder is None else folder / "relay.json"
        kept = self._remembered()
        self.strikes = Strikes(terms.strikes, kept.out, {(i, j): text for i, j, text in kept.cut})
        self._words: dict[tuple[int, str], tuple[Word, bytes]] = {}
        self._evidence = list(kept.evidence)
        for word in kept.words:
            self._note(word)
        self._parts: dict[int, dict[int, tuple[Said, Any]]] = {}
        self._signed: dict[str, dict[int, bytes]] = {}
        self._void = set[str]()
        self._files: End | None = None  # those of the end of this start
        self._done_turns, self._vain = 0, 0
        self._before: dict[int, int] = {}
        self._expected, self._refused = set(self.graph), set[int]()
        self.now = 0.0  # moves by at most a second a pass: a relay that was stopped holds nothing against anybody
        self._looked = time.monotonic()
        self._forming = self._came = self._calm = 0.0
        self._beat = 0.0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._auth = None
        self._shaken = set[int]()  # agents whose lines were accepted since they were cut
        self._by_key = {str(peer.public_key): i for i, peer in enumerate(network.peers)} if keys else None
        if keys is not None:
            self._auth = ThreadAuthenticator(self._context)
            self._auth.start()
            self._auth.configure_curve_callback("*", self)
        self._router = self._context.socket(zmq.ROUTER)
        self._listen(keys)
        self._monitor = self._router.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._poller = zmq.Poller()
        for socket in (self._router, self._monitor):
            self._poller.register(socket, zmq.POLLIN)

    def _listen(self, keys: Keys | None) -> None:
        router, beat = self._router, int(100 * self.terms.heartbeat)
        router.linger, router.router_mandatory, router.sndhwm, router.rcvhwm = 0, True, 0, 10
        router.maxmsgsize, router.handshake_ivl = 2 * PIECE, 4 * beat
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
        """Whether a key may come in, as the authenticator asks, in a thread of its own."""
        agent = None if self._by_key is None else self._by_key.get(key.decode())
        if agent is not None:
            self._shaken.add(agent)
        return agent is not None

    @property
    def done(self) -> bool:
        """Whether nobody needs it any more."""
        return self._end is not None and all(s.finished or i in self.strikes.out for i, s in enumerate(self.sites))

    def figures(self) -> dict[str, Any]:
        """Lines and frames until now, and members of the start; another thread may ask."""
        turns, up = self.turns, sum(site.descriptor >= 0 for site in self.sites)
        figures = {"lines": len(self.sites), "lines_up": up, "members": 0 if turns is None else len(turns.members)}
        return figures | {"frames": {"taken": self.frames}}

    def _remembered(self) -> Memory:
        new = Memory(self.network.digest, {}, [], [])
        found = new if self._path is None or not self._path.exists() else read_form(Memory, self._path)
        if found.network != self.network.digest:
            raise RequestError(f"{self._path} is of another network: name another folder with --out")
        return found

    def _keep(self) -> None:
        if self._path is not None:
            cut = [(i, j, text) for (i, j), text in self.strikes.cut.items()]
            words = [data for _, data in self._words.values()]
            memory = Memory(self.network.digest, self.strikes.out, cut, words, self._evidence)
            try:
                write_whole({self._path: encode(memory, indent=2)})
            except (OSError, RunError) as error:  # it goes on with what it knows
                self._tell("refused", f"{self._path} cannot be written: {error}", "error")

    # in

    def serve(self, seconds: float) -> None:
        """Take what arrives within some time."""
        self._poller.poll(int(1000 * max(0.0, min(seconds, self._beat - time.monotonic()))))
        real = time.monotonic()
        if real - self._looked > 0.5 * self.terms.heartbeat:
            self._spare()
        self.now, self._looked = self.now + min(1.0, real - self._looked), real
        while self._monitor.poll(0):  # first: a new line may have the number of an old one
            line = int(parse_monitor_message(self._monitor.recv_multipart())["value"])
            for i, site in enumerate(self.sites):
                if site.descriptor == line:
                    site.descriptor, site.down, site.cut = -1, self.now, True
                    self._shaken.discard(i)
        with suppress(zmq.Again):
            for _ in range(1000):
                route, *parts = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
                if len(parts) == 2:
                    self._take(route.bytes, parts[0], parts[1].bytes)
        while self.deaths:
            self._gone(*self.deaths.pop(0))
        if real >= self._beat:
            self._beat = real + PULSE
            try:
                self._pulse()
            except (OSError, RunError) as error:  # of a disk: it is tried again
                self._tell("refused", f"the relay cannot go on for now: {error}", "error")

    def _take(self, route: bytes, data: zmq.Frame, body: bytes) -> None:
        """Take a frame; whatever is wrong with it is its sender's affair alone."""
        agent = next((i for i, site in enumerate(self.sites) if site.route == route), None)
        if agent is not None and self.sites[agent].useless >= USELESS:
            return
        self.frames += 1
        try:
            frame: Frame = unpacked(data.bytes, Frame)
            if frame.kind is Kind.HELLO:
                if len(body) > SHORT or frame.more:
                    raise BadFrame
                self._greeted(route, data, unpacked(body, Hello))
            elif agent is not None:
                self._heard(agent, frame, body)
        except BadFrame:
            if agent is not None:
                self.sites[agent].useless += 1
        except Exception as error:  # no word of an agent ends the relay
            self._tell("refused", f"a frame of {agent} led to {type(error).__name__}: {error}", "error")
            if agent is not None:
                self.sites[agent].useless += USELESS // 10

    def _heard(self, agent: int, frame: Frame, body: bytes) -> None:
        """Take a frame of an agent's line; one that is no good is evidence against it."""
        if agent in self.strikes.out:
            self._dismiss(agent)
            return
        limit = LIMITS.get(frame.kind, SHORT)
        if frame.kind is Kind.FILES and self.sites[agent].giver:
            limit = FILES_LIMIT
        try:
            whole = self.sites[agent].line.take(frame, body, limit)
        except Lost:
            self._fault(f"frames of {self.names[agent]} were lost on the way", agent)
            return
        except BadFrame:
            self._expel(agent, f"it sent more than {limit} bytes as {frame.kind.name}")
            return
        if whole is None:
            return
        try:
            self._obey(agent, frame, whole)
        except BadFrame:
            self._expel(agent, f"its word {frame.kind.name} is out of form, or not signed by it")

    def _greeted(self, route: bytes, data: zmq.Frame, hello: Hello) -> None:
        if hello.agent >= len(self.sites):
            raise BadFrame
        if self._by_key is not None and self._by_key.get(str(data.get("User-Id"))) != hello.agent:
            raise BadFrame
        site, name, same = self.sites[hello.agent], self.names[hello.agent], False
        if site.session == hello.session:
            if site.route == route:
                return  # once a connection
            same = bool(site.session)
        missing = site.line.after(hello.got) if same else None
        if missing is None:
            self._fault(f"the process of {name} has ended, or its line lost frames", hello.agent, cable=same)
            if site.descriptor >= 0 and site.route != route:  # its other process, if it is there, has no line any more
                self._send(hello.agent, Kind.STOP, packed(Failed(3, f"another process of {name} has come")))
            self.sites[hello.agent] = site = Site(session=hello.session, line=Line(hello.got, hello.sent))
        site.route, site.descriptor, site.down = route, int(data.get(zmq.SRCFD)), None
        self._tell("line-up", f"the line of {name} stands", peer=hello.agent)
        self._pass(site, (packed(Frame(Kind.HELLO, turn=site.line.got)), b""))  # it sends again what came after
        for message in missing or ():
            self._pass(site, message)
        if missing is None and hello.sent:  # frames of its start are lost, or this relay knows nothing
            self._send(hello.agent, Kind.OVER, packed(Failed(3, "its line was cut for long, or the relay is new")))

    def _obey(self, agent: int, frame: Frame, body: bytes) -> None:
        site, turns = self.sites[agent], self.turns
        if frame.kind is Kind.HERE:
            self._arrived(agent, unpacked(body, Hail))
        elif frame.kind is Kind.BYE:
            site.finished = True
        elif frame.kind is Kind.STOP:  # a fault of its own
            stop, name, site.here = unpacked(body, Failed), self.names[agent], None
            own = f"{name} has ended the run: its own output says why"
            self._fault(says(name, stop.text) if stop.text else own, agent)
        elif turns is None or frame.start != bytes.fromhex(turns.start.name) or agent not in turns.members:
            site.useless += 1
            if frame.kind in (Kind.PART, Kind.SUM, Kind.SAY):  # it may not have heard
                self._send(agent, Kind.OVER, packed(Failed(3, "this start is over")), start=frame.start)
        elif frame.kind in (Kind.PART, Kind.SUM):
            self._part(turns, agent, frame, body)
        elif frame.kind is Kind.SAY:
            self._said(turns, agent, frame.turn, unpacked(body, Said))
        elif frame.kind is Kind.FILES:
            self._given(turns, agent, unpacked(body, End))
        elif frame.kind is Kind.OVER:
            self._left(turns, agent, unpacked(body, Failed))
        else:
            raise BadFrame

    def _arrived(self, agent: int, hail: Hail) -> None:
        site = self.sites[agent]
        if hail.here == site.word or site.dismissed:
            return  # it says so again, as its line was cut; or it has the end
        here = read_here(hail.here, self._identities)
        if here.agent != agent or len(hail.words) > 3 * len(self.graph):
            raise BadFrame
        for word in hail.words:
            with suppress(BadFrame):
                self._note(word)
        if self._end is None:
            self._fault(f"{self.names[agent]} has left this start", agent, cable=site.cut)
        if agent in self.strikes.out:  # it may be for this
            return
        site.word, site.here, site.giver = hail.here, here, False
        self._refused.discard(agent)
        self._came = self.now
        if here.staged and self.run and here.run == self.run:
            self._sign(agent, Signature(here.staged, here.signature))

    def _note(self, data: bytes) -> None:
        """Keep the newest word of each agent in this run; two that contradict each other put their agent out."""
        if any(data == known for _, known in self._words.values()):
            return
        word = read_word(data, self._identities)
        if self.run and word.run != self.run:
            return
        place = word.agent, word.run
        known = self._words.get(place)
        if known is None and sum(agent == word.agent for agent, _ in self._words) >= RUNS:
            return
        if known is not None and contradict(known[0], word) and word.agent not in self.strikes.out:
            self._evidence += [known[1], data]
            self._expel(word.agent, f"it has signed two words for turn {word.turn} of one start")
        if known is None or known[0].age < word.age:
            self._words[place] = word, data

    def _part(self, turns: Turns, agent: int, frame: Frame, body: bytes) -> None:
        if frame.who < 0:
            raise BadFrame  # what goes to all is a word
        fault = turns.take(agent, frame.turn, frame.kind, frame.who, self.now)
        if fault is not None:
            self._expel(*fault)
            return
        self._send(frame.who, frame.kind, body, start=frame.start, who=agent, turn=frame.turn)
        self.sites[agent].line.forget(frame.turn - 1)

    def _said(self, turns: Turns, agent: int, turn: int, said: Said) -> None:
        start = turns.start
        where = {"run": start.run, "start": start.name, "agent": agent, "to": -1, "turn": turn}
        read_word(said.word, self._identities, **where, said=digest_of(said.topic, said.payload))
        total = said.topic == TOTAL
        value = self._topics.read(said.topic, said.payload, self.network.peers[agent])
        fault = turns.take(agent, turn, Kind.SUM if total else Kind.SAY, -1, self.now)
        if fault is not None:
            self._expel(*fault)
            return
        self._note(said.word)
        if isinstance(value, Signature) and value.digest:  # else it does not sign the end of others
            ended = end_statement(self.network.digest, start.run, value.digest)
            if not verify(self._identities[agent], value.signature, ended):
                raise BadFrame
            self._sign(agent, value)
            if agent == start.giver and self._files is None:
                self._fault(f"{self.names[agent]} gives no files of the end that it has signed", agent)
        parts = self._parts.setdefault(turn, {})
        parts[agent] = said, value
        if self.turns is not turns or not (total or len(parts) == len(turns.members)):
            return
        del self._parts[turn]
        topics = Counter(one.topic for one, _ in parts.values() if one.topic != ERROR)
        if len(topics) > 1:
            (usual, count), *_ = topics.most_common()
            odd, topic = next((i, one.topic) for i, (one, _) in parts.items() if one.topic not in (usual, ERROR))
            if 2 * count > len(turns.members):
                self._expel(odd, f"it said {topic!r} in turn {turn}, most {usual!r}")
            else:
                self._fault(f"agents said {' and '.join(topics)} in turn {turn}, and neither was most")
            return
        everything = packed([parts[i][0] for i in sorted(parts)])
        for i in turns.members:
            self._send(i, Kind.SAY, everything, start=bytes.fromhex(start.name), turn=turn)
            self.sites[i].line.forget(turn - 1)
        turns.passed_on(turn, self.now)
        self._weigh(turns, {i: value for i, (_, value) in parts.items()})

    def _weigh(self, turns: Turns, said: Mapping[int, Any]) -> None:
        """End a start in which some have said an error that most have not, or one that names another agent."""
        errors = {i: one for i, one in said.items() if isinstance(one, Failed)}
        if not errors:
            ends = {one.digest for one in said.values() if isinstance(one, Signature)}
            if ends and all(len(self._signed.get(end, ())) < self.terms.quorum for end in ends):
                self._void |= {turns.start.end} - {""}
                self._fault("no end of the run has the signatures of enough agents")
            return
        (_, whom), count = Counter((one.code, one.whom) for one in errors.values()).most_common(1)[0]
        agent, error = next(iter(errors.items()))
        if 2 * count > len(turns.members):
            if whom is not None and whom < len(self.names):
                self._expel(whom, next(one.text for one in errors.values() if one.whom == whom))
        else:
            text = says(self.names[agent], error.text)
            for other in [i for i in errors if i != agent]:
                self.strikes.strike(other, text, self._done_turns + turns.count)
            self._fault(text, agent)

    # out

    def _send(self, agent: int, kind: Kind, body: bytes = b"", **fields: Any) -> None:
        site = self.sites[agent]
        for message in site.line.frames(kind, body, **fields):
            self._pass(site, message)

    def _pass(self, site: Site, message: Message) -> None:
        if site.descriptor >= 0:
            with suppress(zmq.ZMQError):  # the line is cut: it is sent again after the next HELLO
                self._router.send_multipart([site.route, *message], zmq.NOBLOCK, copy=len(message[1]) < 2**16)

    def _tell(self, event: str, text: str, level: str = "info", **more: Any) -> None:
        if not self.terms.quiet:
            say(event, text, level, **more)

    # starts

    def _pulse(self) -> None:
        turns = self.turns
        if turns is None:
            self._form()
            return
        members, grace = turns.members, 0.5 * self.terms.heartbeat
        down = dict[int, float]()
        for i in members:  # of a line that stands again its agent greets when it has computed
            if (since := self.sites[i].down) is not None and i not in self._shaken:
                down[i] = self.now - since
        if 2 * len(down) > len(members):
            self._spare()
        worst = max(down, key=lambda i: down[i], default=-1)
        if worst >= 0 and down[worst] > grace and (2 * len(down) <= len(members) or down[worst] > 2 * grace):
            self._fault(
                f"the process or host of {self.names[worst]} has ended, or cannot be reached", worst, cable=True
            )
            return
        self._conclude()
        if self._give_end() or self.turns is not turns:
            return
        outside = [i for i, one in self._here.items() if self._fits(turns, i, one)]
        if outside and max(turns.turn.values()) >= APART:
            self._fault(f"{', '.join(self.names[i] for i in outside)} has come back")
            self._vain = 0
            return
        late = turns.late(self.now, self.terms.round, self.terms.connect)
        if late is not None:
            self._fault(late.text, late.agent)
        elif turns.stuck and self.now - turns.moved > (self.terms.round or 60.0):
            self._fault("agents take a turn for one of another kind, and none of them are most")

    def _fits(self, turns: Turns, agent: int, here: Here) -> bool:
        """Whether an agent that is no member could be one in another start."""
        member, there = turns.start.here[turns.members[0]], {agent, *turns.members}
        alike = (here.settings, here.network) == (member.settings, member.network) and here.run in ("", self.run)
        return alike and agent not in self.strikes.out and agent in largest(there, self.strikes.cut, self.graph)

    def _spare(self) -> None:
        """Hold no cut line against anybody for a while: most are cut, or this process was stopped."""
        self._calm = self.now + 2.0 * self.terms.heartbeat

    def _expel(self, agent: int, text: str) -> None:
        """Put an agent out of the run at once: there is evidence against it."""
        if agent in self.strikes.out:
            return
        self.strikes.out[agent], said = text, f"{self.names[agent]} is out of the run: {text}"
        self._tell("out", said, peer=agent)
        self._dismiss(agent)
        self._fault(said, agent, struck=True)
        self._keep()

    def _dismiss(self, agent: int) -> None:
        """Tell an agent that is out why, once a session; nothing that it says is taken."""
        site = self.sites[agent]
        if not site.dismissed:
            site.dismissed, site.here = True, None
            text = f"the others go on without {self.names[agent]}: {self.strikes.out[agent]}"
            self._send(agent, Kind.STOP, packed(Failed(3, text[:1000])))

    def _left(self, turns: Turns, agent: int, over: Failed) -> None:
        """A member has left the start: a neighbour's part was none, or it says no neighbour."""
        text = says(self.names[agent], over.text)
        if over.whom is not None and _pair(agent, over.whom) in turns.start.edges:
            self.strikes.cut[_pair(agent, over.whom)] = over.text
            self._fault(text, over.whom, struck=True)
        else:
            self._fault(text, agent)

    def _fault(self, text: str, agent: int | None = None, *, cable: bool = False, struck: bool = False) -> None:
        """End the start, of which an agent is a member if one is named.

        If nobody was ``struck`` for it, the agent gets a strike: not for its line in a calm.
        """
        turns = self.turns
        if turns is None or (agent is not None and agent not in turns.members):
            return
        self.turns, self.reason, calm = None, self.reason or text, cable and self.now < self._calm
        self._done_turns += turns.count
        if agent is not None and not struck and not calm:
            self.strikes.strike(agent, text, self._done_turns)
            if agent in self.strikes.out:
                self._tell("out", self.strikes.out[agent], peer=agent)
                self._dismiss(agent)
        elif agent is None and not struck:
            self._vain += 1
        self._forming = self._came = self.now
        self._tell("start-ended", text, "warning")
        over = packed(Failed(RunError.exit_code, text[:1000], agent))
        for i in turns.members:
            self._send(i, Kind.OVER, over, start=bytes.fromhex(turns.start.name))
        self._keep()

    def _form(self) -> None:
        """Form the next start if all are there that can be, or time is over; give the end to whoever is here."""
        if self._give_end():
            return
        possible = {i for i in self.graph if i not in self.strikes.out}
        self._alike(len(possible))
        if len(largest(possible, self.strikes.cut, self.graph)) < self.terms.quorum:
            reasons = [f"{self.names[i]}: {text}" for i, text in self.strikes.out.items()]
            reasons += [f"agents {i} and {j}: {text}" for (i, j), text in self.strikes.cut.items()]
            self._stop(3, f"fewer than {self.terms.quorum} agents are left: {'; '.join(reasons)}")
            return
        run, here = self._named(), self._here
        missing = possible - here.keys()
        if not run:
            first = not any(one.run for one in here.values())
            over = first and self.now > self._came + self.terms.connect
            if missing and not (over and missing <= self._refused):
                if here and over:
                    away = ", ".join(self.names[i] for i in sorted(missing))
                    deadline = f"{self.terms.connect:g} s (connection deadline)"
                    self._stop(3, f"not connected within {deadline}: {away} has not come")
                return
        elif self._expected & missing and self.now <= self._forming + self.terms.regroup:
            return
        if len(here) >= self.terms.quorum:
            self._alike(len(here))
            self._begin(self._here)

    @property
    def _here(self) -> dict[int, Here]:
        """Words of the agents that would take part in the next start."""
        return {i: site.here for i, site in enumerate(self.sites) if site.here is not None}

    def _alike(self, of: int) -> None:
        """Refuse agents whose settings are not those of most of so many; all, if none are most."""
        given = {i: {**one.settings, "network file": one.network} for i, one in self._here.items()}
        values = list(given.values())
        common = max(values, key=values.count, default={})
        count = values.count(common)
        if 2 * count <= of and (len(given) < of or of < self.terms.quorum):
            return  # most may still come
        for i, one in given.items():
            if 2 * count <= of or one != common:
                other = common if one != common else next(o for o in given.values() if o != one)
                differ = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
                names = ", ".join(printable(name, 60) for name in differ[:5])
                text = f"{self.names[i]} was given another {names} than {'most' if 2 * count > of else 'others'}"
                self._stop(RequestError.exit_code, f"{text}: start all agents with the same settings", [i])
                self._refused.add(i)

    def _named(self) -> str:
        """Name that most agents here give their run; others that have charged for another one are sent away."""
        here = self._here
        run = most([one.run for one in here.values()], max(len(here), self.terms.quorum))
        for i, one in here.items():
            word, data = self._words.get((i, run), (None, b""))
            other = run and one.run not in ("", run) and one.c > NEVER
            if other or (word is not None and outdated(one, word)):
                said = "goes on with another run than most" if other else "has an older copy of its run folder"
                text = f"{self.names[i]} {said}: give it the newest folder of this run, and its account"
                self._stop(2, text, [i], b"" if other else data)
        return run

    def _begin(self, here: Mapping[int, Here]) -> None:
        """Form a start of agents that are here, if they are enough."""
        run = most([one.run for one in here.values()], len(here))
        words = {i: data for (i, of), (_, data) in self._words.items() if of == run}
        said = {i: self.sites[i].word for i in here}
        quorum = max(self.terms.quorum, int(most([str(one.least) for one in here.values()], len(here)) or 0))
        call = choose(said, words, self.strikes.cut, self.graph, self._void)
        try:
            start = form(call, self._identities, self.graph, quorum)
        except BadFrame:
            return
        known = charged(start.here.values(), (word for word, _ in self._words.values()))
        if any(known[i] > self._before.get(i, NEVER) for i in known):
            self._vain = 0
        self._before = known
        if self._vain >= max(self.terms.strikes, 2):
            text = f"{self._vain} starts in a row have ended by words of their members, and no round was gained"
            self._vain = 0
            self._stop(3, text)
            return
        self.turns, self.run, self._expected = Turns(start, self.names, self.now), start.run, set(start.members)
        self._parts, self._files = {}, None
        self._words = {place: word for place, word in self._words.items() if place[1] == self.run}
        self._tell("start", f"a start has {len(start.members)} members ({start.rule})", members=len(start.members))
        everything = packed(call)
        for i in start.members:
            self.sites[i].here, self.sites[i].useless, self.sites[i].cut = None, 0, False
            self.sites[i].line.forget(2**53)
            self._send(i, Kind.START, everything)
        self.sites[start.giver].giver = True
        for i, one in start.here.items():
            if one.staged and one.run == self.run and self.turns is not None:
                self._sign(i, Signature(one.staged, one.signature))
            elif start.rule == "finish" and not one.staged and self.turns is not None:
                self.turns.since[i] = math.inf  # until the files are there

    # the end

    def _sign(self, agent: int, said: Signature) -> None:
        """Take in an agent's signature of an end of this run; two of them put it out."""
        for digest, signed in self._signed.items():
            if agent in signed and digest != said.digest:
                self._evidence += [packed(Signature(digest, signed[agent])), packed(said)]
                self._expel(agent, "it has signed two ends of the run")
                return
        self._signed.setdefault(said.digest, {})[agent] = said.signature
        self._conclude()

    def _given(self, turns: Turns, agent: int, end: End) -> None:
        """Take the files of an end from the member that gives them in this start."""
        start = turns.start
        if agent != start.giver or self._files is not None:
            raise BadFrame
        self._files = end
        turns.since = dict.fromkeys(turns.members, self.now)
        for i in start.members if start.rule == "finish" else ():
            if not start.here[i].staged:
                self._send(i, Kind.FILES, packed(end), start=bytes.fromhex(start.name))
        self._conclude()

    def _conclude(self) -> None:
        """Take the end if enough agents have signed it, and its files are here."""
        found = next((one for one, signed in self._signed.items() if len(signed) >= self.terms.quorum), None)
        if found is None or self._files is None or self.turns is None:
            return
        giver, own = self.turns.start.giver, self._files.digest
        if own == found:
            self._end = self._make_end(self.run, self._files, self._signed[found])
        if self._end is not None:
            self._tell("finished", "most agents have signed the end of the run")
            self._give_end()
        elif own != found and giver in self._signed.get(own, {}):
            self._fault(f"most agents have signed another end than {self.names[giver]}, which gives its files")
        else:
            self._expel(giver, "the files of its end are not those that it has signed")

    def _give_end(self) -> bool:
        """Give the end to members that wait for it, and to agents that are here; whether there is one."""
        end = self._end
        if end is None:
            return False
        members = () if self.turns is None else self.turns.members
        self.turns = None
        for i, site in enumerate(self.sites):
            if (site.here is not None or i in members) and not site.dismissed:
                site.dismissed = True
                own = i in self._signed.get(end.digest, {})
                site.here = None
                self._send(i, Kind.END, packed(End(end.digest, {} if own else end.files, end.finish)))
        return True

    # ends of processes

    def _stop(self, code: int, text: str, whom: list[int] | None = None, word: bytes = b"") -> None:
        """End the run for some agents, or all that are here; a ``word`` of theirs shows why."""
        told, self.reason = [i for i in whom or self.graph if self.sites[i].here is not None], self.reason or text
        for i in told:
            self._send(i, Kind.STOP, packed(Failed(code, text[:1000], word=word)))
            self.sites[i].here, self.sites[i].dismissed = None, True  # no start waits for a process that is to end
        if told:
            self._tell("stopped", text, code=code)
        if whom is None:
            self._came = self.now

    def _gone(self, agent: int, how: str) -> None:
        """A process has ended, as its starter says."""
        if not self.sites[agent].finished and agent not in self.strikes.out:
            self.strikes.out[agent] = text = f"the process of {self.names[agent]} {how}"
            self.reason = self.reason or text
            self._fault(text, agent, struck=True)

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


def _pair(agent: int, other: int) -> Edge:
    return min(agent, other), max(agent, other)
