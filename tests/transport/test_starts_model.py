"""Runs of many starts by the real rule, of agents without vectors: crashes, losses for good, and one that lies.

Agents crash at random steps or are gone for good, the relay loses its folder, one agent lies about its rounds and its
run. Whatever happens there are never two models, no round is charged twice, and no honest agent breaks the order of
turns. `ADMMNET_START_TRIALS` says how many runs of each kind are tried.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from admmnet.graph.simple import Graph, parts_of
from admmnet.transport.zmq.meeting import Call, Here, Standing, Start, choose, diameter, form, most, shape_of, sign_here
from admmnet.transport.zmq.turns import Turns
from admmnet.transport.zmq.wire import Kind, Word, packed, sign_word, unpacked
from admmnet.types import NEVER
from tests.transport.starts import IDENTITIES, KEYS, MASKED, here, path, ring

TRIALS = int(os.environ.get("ADMMNET_START_TRIALS", "300"))
CALM, LONGEST = 20, 60
"""Starts after which nothing fails any more, and after which a run counts as stuck."""


@dataclass
class Agent:
    """What an agent has on its disk: what it brings into a start, and more."""

    number: int
    disk: Standing = field(default_factory=Standing)
    staged: str = ""
    words: dict[int, Word] = field(default_factory=dict)
    charged: Counter[int] = field(default_factory=Counter)
    gone: bool = False
    end: str = ""

    @property
    def waits(self) -> bool:
        return not self.gone and not self.end

    def write(self, **values: Any) -> None:
        self.disk = replace(self.disk, **values)


@cache
def signed(word: Word) -> bytes:
    return sign_word(word, IDENTITIES[word.agent])


class Run:
    """A run of some agents, and the relay's memory of it."""

    def __init__(self, seed: int, liar: int | None) -> None:
        self.draw = draw = random.Random(seed)
        size, self.liar = draw.randint(2 if liar is None else 3, 6), liar
        complete = Graph(size, [(i, j) for j in range(size) for i in range(j)])
        self.graph = draw.choice([path(size), ring(size) if size > 2 else path(size), complete])
        self.quorum, self.rounds = size // 2 + 1, draw.choice([3, 6, 10])
        self.spoken, self.masked, self.unrest = draw.random() < 0.5, draw.random() < 0.3, draw.choice([0.3, 0.6, 0.9])
        self.agents = [Agent(i) for i in self.graph]
        self.words, self.signed, self.end = dict[int, Word](), dict[str, set[int]](), ""
        self.signers, self.calm, self.starts = dict[str, set[int]](), False, 0  # `signed` is what the relay knows

    def lie(self, one: Here) -> Here:
        """HERE as a liar says it."""
        lies: dict[str, Any] = {
            "c": self.draw.choice([NEVER, 0, self.rounds - 1, 10**6]),
            "first": self.draw.choice([NEVER, 0, 10**6]),
            "at": self.draw.choice([NEVER, 0, self.rounds - 1, 10**6]),
            "plan": self.draw.choice(["", "other"]),
        }
        if not one.staged:  # else the signature is for another run
            lies["run"] = self.draw.choice(["", "other"])
        chosen = self.draw.sample(sorted(lies), self.draw.randint(0, len(lies)))
        return replace(one, **{name: lies[name] for name in chosen})

    def hear(self, known: dict[int, Word], agent: Agent) -> None:
        """Keep an agent's newest word; a liar says any round in it."""
        c = agent.disk.c
        round = c if agent.number != self.liar else self.draw.choice([NEVER, c, 10**6])
        said = Word(agent.disk.run, "start", agent.number, -1, 0, round, agent.disk.lines, "", bytes(32))
        before = known.get(agent.number)
        if before is None or before.age < said.age or before.run != said.run:
            known[agent.number] = said

    def meet(self) -> Start | None:
        """Form a start of agents that are there, as a relay does."""
        there = [one for one in self.agents if one.waits and (self.calm or self.draw.random() < 0.8)]
        if self.end:
            for one in there:
                one.end = self.end
            return None
        said = dict[int, Here]()
        for one in there:
            mode = {"settings": MASKED} if self.masked else {}
            known = here(one.number, **asdict(one.disk), staged=one.staged, **mode)
            said[one.number] = self.lie(known) if one.number == self.liar else known
            if one.staged:
                self.sign(one)
            for agent, word in one.words.items():
                if agent not in self.words or self.words[agent].age < word.age:
                    self.words[agent] = word
        if not most([one.run for one in said.values()], len(said)) and len(said) < len(self.agents):
            return None
        words = {i: signed(one) for i, one in self.words.items()}
        heres = {i: sign_here(one, IDENTITIES[i]) for i, one in said.items()}
        call = choose(heres, words, [], self.graph)
        if self.end or len(call.here) < self.quorum:
            return None
        keys = KEYS[: len(self.agents)]
        start = form(call, keys, self.graph, self.quorum)  # whatever the liar says: nobody's words are refused
        if self.draw.random() < 0.1:
            assert form(unpacked(packed(call), Call), keys, self.graph, self.quorum) == start
        self.check(start)
        return start

    def check(self, start: Start) -> None:
        """What one liar cannot change."""
        honest = [one for one in self.agents if one.number != self.liar]
        inside = [one for one in honest if one.number in start.members]
        assert all(one.disk.run == start.run for one in inside if one.disk.c > NEVER)
        if start.rule == "replay":
            plans = [one.disk for one in inside]
            assert all(one.plan == start.plan and one.first <= start.round <= one.at for one in plans)
            return
        c = sorted(one.disk.c for one in honest)
        assert start.round <= max(0, 2 + c[-1])
        if inside == honest and c[-1] - c[-2] <= 1 and NEVER < c[-1] <= c[0] + diameter(self.graph):
            assert start.round >= 1 + c[-1]  # no charged round is thrown away

    def sign(self, agent: Agent) -> None:
        """Give the relay an agent's signature of an end."""
        signers = self.signed.setdefault(agent.staged, set())
        signers.add(agent.number)
        if len(signers) >= self.quorum:
            self.end = agent.staged

    def hold(self, start: Start) -> None:
        """Have the members of a start take steps, one at a time, until all are done or something fails.

        Steps are: 1 the name of the run is on the disk, and the first word leaves; 2 the plan is on the disk; 3 and
        more a round, or the last an end, is on the disk, and its message leaves.
        """
        draw, around = self.draw, {i: set(self.graph[i]) & {*start.members} for i in start.members}
        finish, turns = start.rule == "finish", Turns(start, [str(i) for i in self.graph], 0.0)
        first = max(0, start.round)
        last, done = 3 + (0 if finish else max(0, self.rounds - first)), dict.fromkeys(start.members, 0)
        steps = len(done) * last if self.calm or draw.random() > self.unrest else draw.randint(0, len(done) * last)
        for _ in range(steps):
            can = [
                i
                for i, step in done.items()
                if step < last
                and (
                    step in (0, 2)
                    or all(done[j] >= step for j in (done if step == 1 or self.spoken or step == last else around[i]))
                )
            ]
            i = draw.choice(can)
            done[i] += 1
            self.step(start, self.agents[i], done[i], first, last)
            if done[i] != 2:
                self.send(turns, i, max(0, done[i] - 2), spoken=done[i] in (1, last) or self.spoken)
            for j in done if self.spoken or done[i] in (1, last) else around[i]:
                self.hear(self.agents[j].words, self.agents[i])
            if self.spoken or done[i] == 1:
                self.hear(self.words, self.agents[i])
        if self.end:
            for i in done:
                if draw.random() < 0.4:
                    self.agents[i].end = self.end

    def step(self, start: Start, agent: Agent, step: int, first: int, last: int) -> None:
        if step == 1:
            agent.write(run=start.run)
        elif step == 2 and start.rule == "go on":
            shape = shape_of(start.members, start.edges)
            agent.write(plan=start.plan, shape=shape, rounds=self.rounds, first=first, at=first)
        elif step == last:
            agent.staged = agent.staged or start.end or start.plan
            self.signers.setdefault(agent.staged, set()).add(agent.number)
            if self.draw.random() < 0.7:
                self.sign(agent)
        elif step > 2:
            round = first + step - 3  # with it what was heard in the one before
            if round > agent.disk.c:
                agent.charged[round] += 1
                agent.write(c=round, lines=round + 1)
            agent.write(at=max(agent.disk.at, round))

    def send(self, turns: Turns, agent: int, turn: int, *, spoken: bool) -> None:
        """Pass on what an agent sends in a turn: nobody is struck for it."""
        kind = Kind.SAY if spoken else Kind.PART
        for to in [-1] if spoken else sorted(turns.around[agent]):
            assert turns.take(agent, turn, kind, to, 0.0) is None
            if spoken and len(turns._turns[turn].kinds) == len(turns.members):
                turns.passed_on(turn, 0.0)

    def go(self) -> str:
        """How the run ends: with one model, or why with none."""
        while any(one.waits for one in self.agents):
            self.starts += 1
            self.calm = self.starts > CALM
            if self.starts > LONGEST:
                return self.excuse()
            start = self.meet()
            if start is not None:
                self.hold(start)
            if not self.calm and self.draw.random() < 0.2:
                self.words, self.signed, self.end = {}, {}, ""  # the relay has lost its folder
            if not self.calm and self.draw.random() < 0.1:
                lost = self.draw.choice(self.agents)
                lost.gone = lost.gone or sum(one.gone for one in self.agents) < len(self.agents) - self.quorum
            if self.calm and not self.end:  # somebody copies the files of an agent that has finished
                self.end = next((one.end for one in self.agents if one.end), "")
        return "one model" if any(one.end for one in self.agents) else "all gone"

    def excuse(self) -> str:
        """Why no end was found, if that is no fault."""
        living = {one.number for one in self.agents if not one.gone and one.number != self.liar}
        if max((len(part) for part in parts_of(self.graph, living)), default=0) < self.quorum:
            return "too few"
        if any(not one.disk.run or one.disk.c == NEVER for one in self.agents) and len(living) < len(self.agents):
            return "no name"
        return "two ends" if len(self.signers) > 1 else "STUCK"


@pytest.mark.parametrize("liar", [None, 0], ids=["honest", "liar"])
def test_never_two_models_and_no_round_charged_twice(liar: int | None) -> None:
    found = Counter[str]()
    for seed in range(TRIALS):
        run = Run(seed, liar)
        found[ended := run.go()] += 1
        about = f"seed {seed}: {ended}"
        assert ended != "STUCK", about
        assert len({one.end for one in run.agents if one.end}) <= 1, about
        assert sum(len(signers) >= run.quorum for signers in run.signers.values()) <= 1, about
        assert all(set(one.charged.values()) <= {1} for one in run.agents), about
    assert found["one model"] > 0.7 * TRIALS, found
