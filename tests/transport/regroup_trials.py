"""A network of real regroup machines on a simulated clock: lines that are cut, agents that crash, stall or are mute."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from admmnet.graph.simple import Graph, parts_of
from admmnet.identity.keys import SIGNATURE
from admmnet.record.finish import quorum
from admmnet.transport.choice import diameter
from admmnet.transport.regroup import Regroup, Sent
from admmnet.transport.starts import Dispute, Ended, Here, Patience, Promise, Rules, Standing, Start

from .regroup_crew import Above, genuine, signature

ROUNDS, LATE, NOTICE = 14, 24, 3.0
PATIENCE = Patience(regroup=40, give_up=3000)
LIMIT = 1200.0
"""Pulses in which every honest agent must have finished."""


class Unfit(AssertionError):
    """A trial has ended as none may."""


FILES = "f" * 64
"""Digest of an end that a liar says it has, and nobody has."""
FAR = 10**6
"""Last round that a liar says it has charged."""


class Host:
    """One agent: its disk, which a crash leaves, and its process, which a crash ends."""

    def __init__(self, world: World, me: int) -> None:
        self.world, self.me = world, me
        self.promise, self.charged, self.lineage, self.model = Promise(), -1, 0, ""
        self.states: list[int] = []
        self.life, self.alive, self.finished = 0, False, ""

    def boot(self) -> None:
        self.life, self.alive = self.life + 1, True
        self.machine = self.world.machine(self)
        self.start: Start | None = None
        self.round, self.waited, self.late_for = 0, 0, 0
        self.sent: dict[int, int] = {}
        self.came: dict[tuple[int, int], set[int]] = defaultdict(set)
        last = self.machine.promise.last
        number = None if last is None else self.machine.rules.read(last.propose)[0].number
        self.begin(None if number is None else Ended(number, "anew"))

    def keep(self, promise: Promise) -> None:
        self.promise = promise

    def begin(self, ended: Ended | None) -> None:
        self.start = None
        states = tuple(self.states)
        if self.me in self.world.lying and ended is not None:
            ended = Ended(ended.start, "heard", whom=[self.world.graph[self.me][0]])
            if self.world.lie == "files":
                self.machine.promise = replace(self.machine.promise, staged=(ended.start, FILES))
        charged = FAR if self.me in self.world.lying and self.world.lie == "charged" else self.charged
        self.put(self.machine.begin(Standing(ended, self.lineage, charged, states)))

    def put(self, sent: list[Sent]) -> None:
        """Send words, and do what follows from the machine's state."""
        for j, data in sent:
            said = data[SIGNATURE : SIGNATURE + 20]
            if b'"dispute"' in said:
                self.world.disputed(data)
            if not (self.me in self.world.mute and b'"agree"' in said):
                self.world.send(self.me, j, ("word", data))
        machine = self.machine
        if machine.ends.named is not None and not self.finished:
            self.finished = machine.ends.named.digest
            self.world.finish(self)
        elif machine.over is not None and not self.finished:
            self.leave(machine.over)
        elif not machine.regrouping and machine.start is not self.start and not self.finished:
            self.enter(machine.start)

    def leave(self, over: Ended) -> None:
        assert self.start is not None
        propose = self.start.propose
        lacks = {j: self.round for j in self.around if j not in self.came[propose.number, self.round]}
        lacks = {} if self.owes else lacks
        late = sorted(lacks) if self.waited >= LATE / 2 else []
        busy = not lacks and self.late_for >= LATE / 2
        if self.me in self.world.stalling:
            j = self.world.random.choice(self.around)
            lacks, late, busy = {j: max(0, self.round - 1)}, [j], False  # a lie
        vain = propose.digest == FILES and over.cause == "heard"  # all know before they hear of the end
        cause = "failed" if vain else over.cause
        self.begin(
            Ended(propose.number, cause, sent=dict(self.sent), lacks=lacks, late=late, whom=over.whom, busy=busy)
        )

    def end(self, cause: Any, *whom: int) -> None:
        if self.start is not None and not self.finished:
            self.leave(Ended(self.start.propose.number, cause, whom=list(whom)))

    def enter(self, start: Start | None) -> None:
        assert start is not None
        self.start, propose = start, start.propose
        self.world.triggered("enter", self)
        self.world.starts += 1
        self.around = [i + j - self.me for i, j in propose.edges if self.me in (i, j)]
        self.sent, self.waited, self.late_for = {}, 0, 0
        if propose.rule == "finish":
            if propose.digest == FILES:
                self.later(self.end, "failed")
            else:
                self.later(self.stage, propose.number, propose.digest)
            return
        self.round = self.first = propose.round
        if propose.round > max(self.world.hosts[i].charged for i in self.world.honest) + self.world.size:
            raise Unfit("a start begins in a round that no honest agent has come near to")
        if propose.rule == "go on":
            self.lineage, self.model, self.states = propose.lineage, hashlib.sha256(start.name.encode()).hexdigest(), []
        if self.world.models.setdefault(propose.lineage, self.model) != self.model:
            raise Unfit("members of one start hold different models")
        self.states = [*(c for c in self.states if c < self.round), self.round]
        self.later(self.step)

    @property
    def owes(self) -> bool:
        return any(self.sent.get(j, -1) < self.round for j in self.around)

    def later(self, act: Callable[..., None], *given: Any) -> None:
        life, start = self.life, self.start

        def due() -> None:  # whether files may still be staged the machine says
            if self.alive and self.life == life and (self.start is start or act == self.stage):
                act(*given)

        self.world.at(self.world.random.choice((0.8, 0.8, 5.0)) * self.world.random.random() ** 2, due)

    def step(self) -> None:
        assert self.start is not None
        number = self.start.propose.number
        if self.round >= ROUNDS:
            self.later(self.stage, number, self.model)
        elif self.me in self.world.lying and self.world.lie == "heard" and self.round > self.first:
            self.end_by_word()
        elif not (self.me in self.world.stalling and self.round >= self.world.stalling[self.me]):
            self.charged = max(self.charged, self.round)
            for j in self.around:
                self.sent[j] = self.round
                self.world.send(self.me, j, ("turn", number, self.round))
            self.waited = self.late_for = 0
            self.look()

    def end_by_word(self) -> None:
        """Give another cause than this agent does when the next start is formed."""
        machine, j = self.machine, self.around[0]
        assert self.start is not None
        ended = Ended(self.start.propose.number, "late", lacks={j: 0}, late=[j])
        here = Here(self.me, machine.number + 1, "", sorted(machine.live), machine.promise.last, ended)
        for j in sorted(machine.live):
            self.world.send(self.me, j, ("word", machine._as_signed(here)))
        self.end("heard", self.around[0])

    def stage(self, number: int, digest: str) -> None:
        if not self.finished:
            self.world.triggered("stage", self)
            self.put(self.machine.stage(number, digest))

    def look(self) -> None:
        if self.start is None or self.finished or self.round >= ROUNDS or self.start.propose.rule == "finish":
            return
        propose = self.start.propose
        if not self.owes and self.came[propose.number, self.round] >= set(self.around):
            self.round += 1
            keep = diameter(propose.members, propose.edges) + 2
            self.states = [*self.states, self.round][-keep:]
            self.waited = self.late_for = 0
            self.later(self.step)
            self.machine.progress(self.round - self.first)
            self.put([])

    def hear(self, j: int, what: tuple[Any, ...]) -> None:
        if what[0] == "word":
            self.put(self.machine.hear(what[1], j))
        elif what[0] == "line":
            self.put(self.machine.line(j, up=what[1]))
            if not what[1] and self.start is not None and j in self.around:
                self.end("down", j)
        else:
            _, number, turn = what
            self.came[number, turn].add(j)
            ended = self.machine._standing.ended
            if ended is not None and ended.start == number:
                self.machine.got(j, turn)
            self.look()

    def pulse(self) -> None:
        self.put(self.machine.pulse())
        if self.start is not None and not self.finished and self.start.propose.rule != "finish":
            lacks = [j for j in self.around if j not in self.came[self.start.propose.number, self.round]]
            self.late_for += self.owes
            self.waited += bool(lacks) and not self.owes
            if self.waited >= LATE and self.round < ROUNDS:
                self.end("late")


class World:
    """A trial; ``kind`` is the machine, ``quorum`` how many agents make a start, so that they can be wrong ones."""

    def __init__(
        self,
        seed: int,
        *,
        stall: int = 0,
        mute: int = 0,
        lie: str = "",
        quorum: Callable[[int], int] = quorum,
        kind: type[Regroup] = Regroup,
        overtaking: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.lie = lie
        self.size = self.random.randint(5 if lie else 3 + stall + mute, 7)
        self.graph = self.connected()
        wrong = self.random.sample(range(self.size), self.size)
        self.stalling = dict.fromkeys(wrong[:stall], self.random.randrange(ROUNDS))
        self.mute = set(wrong[stall : stall + mute])
        self.lying = set(wrong[:1]) if lie else set[int]()
        self.honest = set(range(self.size)) - self.stalling.keys() - self.mute - self.lying
        if len(parts_of(self.graph, self.honest)) > 1:  # else some are at a liar's mercy
            self.graph = Graph(self.size, itertools.combinations(range(self.size), 2))
        self.rules = Rules(self.graph, quorum(self.size), 4 if stall or lie else 99, b"trial")
        self.kind, self.overtaking = kind, overtaking
        self.now, self.events, self.order = 0.0, list[Any](), itertools.count()
        self.held: dict[tuple[int, int], list[Any]] = defaultdict(list)
        self.cuts, self.down = Counter[tuple[int, int]](), set[frozenset[int]]()
        self.free_at: dict[tuple[int, int], float] = defaultdict(float)
        self.models: dict[int, str] = {}
        self.starts, self.ends, self.disputes = 0, dict[int, str](), set[tuple[int, int]]()
        self.hosts = [Host(self, i) for i in range(self.size)]
        for host in self.hosts:
            self.at(self.random.uniform(0, 2), self.boot, host)
            self.at(self.random.random(), self.beat, host)
        self.triggers = {} if stall or lie else {"stage": 0.5, "enter": 0.2}
        for _ in range(self.random.randint(0, 2) if stall or lie else self.random.randint(0, 3)):
            self.at(self.random.uniform(0, 15), self.fault)

    def connected(self) -> Graph:
        pairs = list(itertools.combinations(range(self.size), 2))
        while True:
            graph = Graph(self.size, [pair for pair in pairs if self.random.random() < 0.5])
            if len(parts_of(graph)) == 1:
                return graph

    def machine(self, host: Host) -> Regroup:
        kind = Above if self.lie == "heard" and host.me in self.lying else self.kind
        return kind(
            host.me,
            self.rules,
            PATIENCE,
            sign=lambda said: signature(host.me, said),
            genuine=genuine,
            keep=host.keep,
            nonce=lambda: f"{self.random.getrandbits(128):032x}",
            promise=host.promise,
        )

    def disputed(self, data: bytes) -> None:
        said = self.rules.read(data)[0]
        assert isinstance(said, Dispute)
        self.disputes.add((said.agent, said.with_))
        if self.honest >= {said.agent, said.with_}:
            raise Unfit(f"agent {said.agent} disputes its edge to agent {said.with_}")

    def run(self) -> World:
        while not self.honest <= self.ends.keys():
            self.now, _, act, given = heapq.heappop(self.events)
            if self.now > LIMIT:
                raise Unfit(f"agents {sorted(self.honest - self.ends.keys())} have not finished")
            act(*given)
        return self

    def at(self, after: float, act: Callable[..., None], *given: Any) -> None:
        heapq.heappush(self.events, (self.now + after, next(self.order), act, given))

    def beat(self, host: Host) -> None:
        if host.alive:
            host.pulse()
        self.at(1.0, self.beat, host)

    def finish(self, host: Host) -> None:
        if host.me in self.honest:
            self.ends[host.me] = host.finished
            if len(set(self.ends.values())) > 1:
                raise Unfit("agents have finished with two models")

    # lines: what is sent comes in order, however often a line is cut, as long as both processes live

    def send(self, i: int, j: int, what: tuple[Any, ...]) -> None:
        one, other = self.hosts[i], self.hosts[j]
        self._carry(i, j, (one.life, other.life, what))

    def _carry(self, i: int, j: int, message: Any) -> None:
        if self.cuts[i, j]:
            self.held[i, j].append(message)
            return
        due = self.now + self.random.uniform(0.01, 0.12)
        if self.overtaking and message[2][0] == "turn":
            due += self.random.uniform(0.0, 2.0)
        else:
            due = self.free_at[i, j] = max(due, self.free_at[i, j] + 1e-6)
        self.at(due - self.now, self.deliver, i, j, message)

    def deliver(self, i: int, j: int, message: Any) -> None:
        life, other, what = message
        receiver = self.hosts[j]
        if receiver.alive and (self.hosts[i].life, receiver.life) == (life, other):
            receiver.hear(i, what)

    def connect(self, i: int, j: int) -> None:
        if self.hosts[i].alive and self.hosts[j].alive and not self.cuts[i, j] and not self.cuts[j, i]:
            self.down.discard(frozenset((i, j)))
            self.send(i, j, ("line", True))
            self.send(j, i, ("line", True))

    def lose(self, i: int, j: int) -> None:
        """Both ends notice that a line is cut, or one that the other process has ended."""
        self.down.add(frozenset((i, j)))
        for one, other in ((i, j), (j, i)):
            if self.hosts[one].alive:
                self.hosts[one].hear(other, ("line", False))

    def boot(self, host: Host) -> None:
        host.boot()
        for j in self.graph[host.me]:
            self.lose(host.me, j)
            self.connect(host.me, j)

    def fault(self) -> None:
        edges, for_how_long = self.graph.edges, self.random.choice((2.0, 10.0, 30.0, 90.0)) * self.random.random()
        kind = self.random.randrange(4)
        if kind == 0:
            side = {i for i in range(self.size) if self.random.random() < 0.5}
            self.cut([pair for i, j in edges if (i in side) != (j in side) for pair in ((i, j), (j, i))], for_how_long)
        elif kind == 1:
            i, j = self.random.choice(edges)
            self.cut(self.random.choice([[(i, j)], [(j, i)], [(i, j), (j, i)]]), for_how_long)
        else:
            self.crash(self.random.choice(self.hosts), for_how_long)

    def triggered(self, when: str, host: Host) -> None:
        """Let a fault strike at one of the moments in which it hurts most."""
        if self.random.random() >= self.triggers.get(when, 0.0):
            return
        del self.triggers[when]
        own = [pair for j in self.graph[host.me] for pair in ((host.me, j), (j, host.me))]
        for_how_long, after = 90.0 * self.random.random(), 0.3 * self.random.random()
        if self.random.random() < 0.7:
            self.at(after, self.cut, own if self.random.random() < 0.5 else own[:2], for_how_long)
        else:
            self.at(after, self.crash, host, for_how_long)

    def cut(self, pairs: list[tuple[int, int]], for_how_long: float) -> None:
        self.cuts.update(pairs)
        self.at(NOTICE, self.notice, pairs)
        self.at(for_how_long, self.mend, pairs)

    def notice(self, pairs: list[tuple[int, int]]) -> None:
        for i, j in pairs:
            if self.cuts[i, j] and frozenset((i, j)) not in self.down:
                self.lose(i, j)

    def mend(self, pairs: list[tuple[int, int]]) -> None:
        self.cuts.subtract(pairs)
        for i, j in pairs:
            if not self.cuts[i, j]:
                held, self.held[i, j] = self.held[i, j], []
                for message in held:
                    self._carry(i, j, message)
        for i, j in pairs:
            if frozenset((i, j)) in self.down:
                self.connect(i, j)

    def crash(self, host: Host, for_how_long: float) -> None:
        if not host.alive or host.finished:
            return
        host.alive = False
        for j in self.graph[host.me]:
            self.held[host.me, j], self.held[j, host.me] = [], []
        life = host.life

        def missed() -> None:
            for j in self.graph[host.me] if host.life == life else ():
                self.lose(host.me, j)

        self.at(self.random.uniform(0.2, NOTICE), missed)
        self.at(for_how_long, self.boot, host)
