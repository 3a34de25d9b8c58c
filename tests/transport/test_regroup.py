"""Forming starts: random trials on the real machine, and faults by hand, in which a wrong machine fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

import pytest
from msgspec.structs import replace

from admmnet.errors import CheckFailed
from admmnet.graph.simple import Graph
from admmnet.identity.keys import SIGNATURE
from admmnet.transport.choice import Words
from admmnet.transport.ends import RAISES
from admmnet.transport.regroup import JUMP, Regroup
from admmnet.transport.starts import (
    Dispute,
    Ended,
    Here,
    Patience,
    Promise,
    Propose,
    Rules,
    Signed,
    Staged,
    Standing,
    written,
)

from .regroup_trials import Unfit, World, genuine, signature

TRIALS = int(os.environ.get("ADMMNET_TRIALS", "300"))
"""Nightly 10,000."""


@pytest.mark.parametrize(
    ("share", "wrong"),
    [
        (0.4, {}),
        (0.40001, {}),
        (0.1, {"stall": 1}),
        (0.06, {"mute": 1}),
        (0.04, {"stall": 1, "mute": 1}),
        (0.03, {"lie": "files"}),
        (0.03, {"lie": "heard"}),
    ],
)
def test_whatever_fails_honest_agents_finish_with_one_model(
    share: float, wrong: Any, request: pytest.FixtureRequest
) -> None:
    first = 10**6 * int(request.node.callspec.indices["share"])
    for seed in range(first, first + int(share * TRIALS)):
        try:
            World(seed, **wrong).run()
        except Unfit as unfit:
            raise AssertionError(f"trial {seed}: {unfit}") from None


@pytest.mark.parametrize("wrong", [{"quorum": lambda agents: agents // 2}, {"overtaking": True}])
def test_trials_find_what_is_wrong(wrong: Any) -> None:
    """Half of the agents are no quorum; a word must not come before the frames that its signer has sent."""

    def trials() -> None:
        for seed in range(100):
            World(seed, **wrong).run()

    with pytest.raises(Unfit):
        trials()


class EndAlone(Regroup):
    """Takes one agent's word for an end."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.ends.quorum = 1


class StagesAfterHere(Regroup):
    """Breaks the promise of HERE."""

    def _may_stage(self, number: int) -> bool:
        return True


class AnyStart(Regroup):
    """Holds what was sent in one start against what is lacking of another."""

    @staticmethod
    def _same_start(own: Ended, other: Ended) -> bool:
        return True


class Crew:
    """Machines whose words arrive at once, but over pairs (from, to) that are cut."""

    def __init__(self, graph: Graph, kind: type[Regroup] = Regroup, strikes: int = 5) -> None:
        self.rules = Rules(graph, len(graph) // 2 + 1, strikes, b"by hand")
        self.cut: set[tuple[int, int]] = set()
        self.kept: dict[int, list[Promise]] = {i: [] for i in graph}
        self.nonces = 0
        self.machines = [self.machine(i, kind) for i in graph]
        for i in graph:
            self.put(i, self.machines[i].begin(Standing()))
        for i, j in graph.edges:
            self.line(i, j, up=True)
        self.pulses(4)

    def machine(self, i: int, kind: type[Regroup] = Regroup) -> Regroup:
        return kind(
            i,
            self.rules,
            Patience(regroup=12, give_up=60),
            sign=lambda said: signature(i, said),
            genuine=genuine,
            keep=self.kept[i].append,
            nonce=self.nonce,
            promise=self.kept[i][-1] if self.kept[i] else Promise(),
        )

    def nonce(self) -> str:
        self.nonces += 1
        return str(self.nonces)

    def put(self, i: int, sent: list[tuple[int, bytes]]) -> None:
        waiting = [(i, j, data) for j, data in sent]
        while waiting:
            one, other, data = waiting.pop(0)
            if (one, other) not in self.cut:
                waiting += [(other, j, more) for j, more in self.machines[other].hear(data, one)]

    def line(self, i: int, j: int, *, up: bool) -> None:
        self.put(i, self.machines[i].line(j, up=up))
        self.put(j, self.machines[j].line(i, up=up))

    def part(self, away: Collection[int]) -> None:
        """Cut the lines between some and the others, which both notice."""
        for i, j in self.rules.graph.edges:
            if (i in away) != (j in away):
                self.cut |= {(i, j), (j, i)}
                self.line(i, j, up=False)

    def join(self) -> None:
        for i, j in self.rules.graph.edges:
            if (i, j) in self.cut:
                self.cut -= {(i, j), (j, i)}
                self.line(i, j, up=True)

    def begin(self, i: int, cause: Any = "heard", **more: Any) -> None:
        start = self.machines[i].start
        number = start.propose.number if start is not None else 0
        own = Standing(Ended(number, cause, **more), lineage=self.lineage(i), charged=3, states=(3, 4))
        self.put(i, self.machines[i].begin(own))

    def lineage(self, i: int) -> int:
        start = self.machines[i].start
        return 0 if start is None else start.propose.lineage

    def pulses(self, count: int, among: Collection[int] | None = None) -> None:
        for _ in range(count):
            for i in self.rules.graph if among is None else among:
                self.put(i, self.machines[i].pulse())

    def start(self, i: int) -> Propose:
        start = self.machines[i].start
        assert start is not None
        return start.propose

    def stage(self, i: int, digest: str) -> None:
        self.put(i, self.machines[i].stage(self.start(i).number, digest))

    def named(self) -> list[str | None]:
        return [None if (end := machine.ends.named) is None else end.digest for machine in self.machines]


A, B = "a" * 64, "b" * 64
TRIANGLE = Graph(3, [(0, 1), (0, 2), (1, 2)])
BRIDGE = Graph(5, [(0, 1), (0, 2), (2, 3), (2, 4), (3, 4)])


def end_of(crew: Crew, i: int) -> None:
    """Finish the start that an agent is in: as others have, or else with another model."""
    crew.stage(i, crew.start(i).digest or B)


def alone(kind: type[Regroup]) -> set[str | None]:
    """An agent has its files, and all its lines are cut; the others go on without it."""
    crew = Crew(TRIANGLE, kind)
    crew.cut = {(0, 1), (0, 2), (1, 0), (2, 0)}
    crew.stage(0, A)
    crew.part({0})
    for i in (1, 2):
        crew.begin(i, "down", whom=[0])
    crew.pulses(40, (1, 2))
    for i in (1, 2):
        end_of(crew, i)
    crew.join()
    return set(crew.named())


def half_told(kind: type[Regroup]) -> set[str | None]:
    """Two have the files, one of them knows it of both and is gone; the other one goes on with the third."""
    crew = Crew(TRIANGLE, kind)
    crew.cut = {(0, 1), (0, 2), (1, 2), (2, 0)}
    crew.stage(0, A)
    crew.stage(1, A)
    assert crew.named() == [A, None, None]
    crew.part({0})
    crew.cut -= {(1, 2)}
    for i in (1, 2):
        crew.begin(i, "down", whom=[0])
    crew.pulses(40, (1, 2))
    for i in (1, 2):
        end_of(crew, i)
    return set(crew.named())


def late_files(kind: type[Regroup]) -> set[str | None]:
    """An agent has said HERE when its files come to be on the disk, and two others wait for its word of them."""
    crew = Crew(BRIDGE, kind)
    crew.cut = {(0, 2), (2, 0)}
    crew.stage(0, A)
    crew.stage(1, A)
    crew.begin(2, "down", whom=[0])
    crew.cut = {(0, 2)}
    crew.stage(2, A)
    crew.cut = {(0, 2), (2, 0)}
    for i in (3, 4):
        crew.begin(i, whom=[2])
    crew.pulses(40, (2, 3, 4))
    for i in (2, 3, 4):
        end_of(crew, i)
    crew.part({0, 1})
    crew.join()
    return set(crew.named())


def other_start(kind: type[Regroup]) -> list[tuple[int, int, int]]:
    """An agent lacks a turn of the first start; the second begins without it, and ends."""
    crew = Crew(TRIANGLE, kind)
    crew.begin(0, "late", lacks={1: 3}, late=[1], sent={1: 3, 2: 3})
    for i in (1, 2):
        crew.begin(i, sent={0: 2}, whom=[0])
    crew.part({0})
    crew.pulses(40, (1, 2))
    assert crew.start(1).members == [1, 2]
    crew.join()
    for i in (1, 2):
        crew.begin(i, "returned", sent={0: 4}, whom=[0])
    crew.pulses(10)
    return crew.start(1).strikes


@pytest.mark.parametrize(
    ("play", "wrong", "right"), [(alone, EndAlone, {B}), (half_told, None, {A}), (late_files, StagesAfterHere, {B})]
)
def test_there_is_one_end(
    play: Callable[[type[Regroup]], set[str | None]],
    wrong: type[Regroup] | None,
    right: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wrong machines are: an end without a quorum, no rule "finish", a HERE that promises nothing."""
    assert play(Regroup) == right
    if wrong is None:
        monkeypatch.setattr(Words, "rule", lambda words, members, edges: ("go on", 4, ""))
    assert play(wrong or Regroup) == {A, B}


def test_what_an_agent_lacks_is_lacking_of_one_start() -> None:
    assert (0, 1, 5) not in other_start(Regroup)
    assert (0, 1, 5) in other_start(AnyStart)


def test_who_comes_back_is_let_in_after_some_rounds_and_who_is_struck_out_is_not() -> None:
    crew = Crew(TRIANGLE, strikes=2)
    for time in (1, 2):
        crew.part({0})
        for i in (1, 2):
            crew.begin(i, "down", whom=[0])
        crew.begin(0, "down", whom=[1, 2])
        crew.pulses(40)
        assert crew.start(1).members == [1, 2]
        crew.join()
        crew.pulses(4)
        crew.machines[1].progress(9)
        assert crew.machines[1].over is None
        crew.machines[1].progress(10)
        over = crew.machines[1].over
        assert over is not None
        assert (over.cause, over.whom) == ("returned", [0])
        crew.begin(1, "returned", whom=[0])
        crew.begin(2, whom=[1])
        crew.pulses(40)
        assert crew.start(1).members == ([0, 1, 2] if time == 1 else [1, 2])
    assert crew.machines[0].struck_out
    assert not crew.machines[1].struck_out


def test_same_members_and_edges_replay_and_others_go_on() -> None:
    crew = Crew(TRIANGLE)
    crew.begin(0, "late", lacks={1: 3}, late=[1])
    for i in (1, 2):
        crew.begin(i, whom=[0])
    crew.pulses(10)
    assert (crew.start(2).rule, crew.start(2).round) == ("replay", 4)
    assert crew.start(2).strikes == [(0, 1, 1)]
    crew.part({0})
    for i in (1, 2):
        crew.begin(i, "down", whom=[0])
    crew.pulses(40, (1, 2))
    assert (crew.start(2).rule, crew.start(2).round) == ("go on", 4)
    assert crew.start(2).lineage == crew.start(2).number


RING = Graph(5, [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)])


def struck(crew: Crew, *causes: Any, whom: int = 1) -> list[tuple[int, int, int]]:
    """End a start at agents 0, 1 and so on by these causes; strikes in the next one."""
    for i, cause in enumerate(causes):
        crew.begin(i, cause, whom=[whom] if cause == "heard" else [])
    crew.pulses(40)
    return crew.start(1).strikes


def test_what_most_fail_at_is_the_fault_of_nobody() -> None:
    assert struck(Crew(RING), "heard", "failed", "failed", "failed", "heard") == []
    assert struck(Crew(RING), "heard", "failed", "failed", "heard", "heard") == [(1, 1, 1), (2, 2, 1)]


def test_files_that_an_agent_only_says_it_has_cost_it_a_strike() -> None:
    crew = Crew(RING, strikes=2)
    for strikes, rule in (([], "finish"), ([(0, 0, 1)], "finish"), ([(0, 0, 2)], "go on")):
        machine = crew.machines[0]
        machine.promise = replace(machine.promise, staged=(crew.start(0).number, A))
        assert struck(crew, "heard", *["failed"] * 4) == strikes
        assert (crew.start(1).rule, 0 in crew.start(1).members) == (rule, rule == "finish")


@pytest.mark.parametrize("lie", [(8, B), (9, B), (2**53 - 1, B), (7, B), (6, B)])
def test_no_end_that_cannot_be_beats_a_true_one(lie: tuple[int, str]) -> None:
    """Start 8 takes over the end of start 7, which all but a liar have staged there."""
    edges = [(0, 1), (0, 2), (1, 2)]
    base = Propose(0, 8, [], [0, 1, 2], edges, "finish", 0, 0, A)
    said = {str(i): Here(i, 9, "", staged=(7, A) if i else lie) for i in range(3)}
    words = Words(Rules(TRIANGLE, 2, 5, b"by hand"), said, dict.fromkeys(said, base))
    assert words.rule([0, 1, 2], edges) == ("finish", 0, A)
    alone = Words(words.rules, {"0": said["0"]}, {"0": replace(base, members=[1, 2])})
    assert alone.rule([0], [])[0] == ("finish" if lie[0] < 8 else "go on")  # a start without the signer


def test_an_end_that_most_have_heard_of_an_agent_is_its_own() -> None:
    assert struck(Crew(RING), *["heard"] * 5, whom=2) == [(2, 2, 1)]
    assert struck(Crew(RING), "heard", "heard", "failed", "failed", "heard", whom=0) == [
        (0, 0, 1),
        (2, 2, 1),
        (3, 3, 1),
    ]


def test_a_later_start_begins_in_no_earlier_round() -> None:
    """Members say that they have charged less than they had before the start that ends."""
    rules = Rules(TRIANGLE, 2, 5, b"by hand")
    for rule, first in (("go on", 9), ("replay", 9), ("finish", 4)):
        base = Propose(0, 2, [], [0, 1, 2], [(0, 1), (0, 2), (1, 2)], rule, 9, 2)  # type: ignore[arg-type]
        said = {str(i): Here(i, 3, "", [1 - i], charged=3) for i in (0, 1)}
        words = Words(rules, said, dict.fromkeys(said, base))
        assert words.rule([0, 1], [(0, 1)]) == ("go on", first, "")


def test_the_smaller_side_gives_up() -> None:
    crew = Crew(TRIANGLE)
    crew.part({0})
    crew.begin(0, "down", whom=[1, 2])
    crew.pulses(59, (0,))
    assert not crew.machines[0].gave_up
    crew.pulses(1, (0,))
    assert crew.machines[0].gave_up


def test_a_promise_is_on_the_disk_before_its_word_is_out() -> None:
    crew = Crew(TRIANGLE)
    assert [promise.number for promise in crew.kept[0][:2]] == [1, 2]
    again = crew.machine(0)
    assert again.number == crew.machines[0].number
    said = [again.rules.read(data)[0] for _, data in (*again.line(1, up=True), *again.begin(Standing()))]
    assert [one.number for one in said] == [crew.machines[0].number + 1]


def signed(said: Any, rules: Rules) -> bytes:
    return signature(said.agent, rules.statement(written(said))) + written(said)


def test_words_that_nobody_can_have_said() -> None:
    crew = Crew(TRIANGLE)
    machine, number = crew.machines[0], crew.machines[0].number
    last = crew.machines[1].promise.last
    assert last is not None
    here = Here(1, number + 1, "1", [0, 2], last)
    data = signed(here, crew.rules)
    for wrong, told in [
        (data[:64] + data[64:].replace(b'"number":', b'"number": '), "spelt in another way"),
        (data[:64] + b"{}", "has another form than"),
        (data[:64] + written(replace(here, nonce="2")), "not signed by it"),
        (signature(2, b"") + written(Staged(1, number, A)), "not signed by it"),
        (signed(replace(here, last=replace(last, agrees=last.agrees[:2])), crew.rules), "have not signed"),
        (signed(replace(here, last=replace(last, agrees=last.agrees[:2] * 2)), crew.rules), "have not signed"),
        (signed(replace(here, last=replace(last, agrees=last.agrees * 2)), crew.rules), "have not signed"),
        (signed(replace(here, signed=[Signed(k, [], []) for k in range(5)]), crew.rules), "has another form than"),
        (signature(3, b"") + written(replace(here, agent=3)), "no agent 3"),
        (signed(Dispute(1, number, 1), crew.rules), "disputes an edge to agent 1, which there is not"),
    ]:
        with pytest.raises(CheckFailed, match=told):
            machine.hear(wrong, 1)
    assert machine.over is None
    machine.hear(data, 1)
    assert machine.over is not None


def test_two_words_of_one_number_put_their_signer_out_of_it() -> None:
    crew = Crew(TRIANGLE)
    for i in range(3):
        crew.begin(i, "failed")
    number = crew.machines[0].number
    other = signed(Here(2, number, "another", [0, 1], crew.machines[2].promise.last), crew.rules)
    crew.put(2, [(1, other)])
    crew.pulses(14)
    assert crew.start(0).number == number
    assert crew.start(0).members == [0, 1]


def test_an_end_needs_a_quorum_of_signers() -> None:
    crew = Crew(TRIANGLE)
    ends, right = crew.machines[0].ends, [Staged(i, 1, A) for i in range(3)]

    def hear(*said: Staged) -> None:
        for data in (signed(one, crew.rules) for one in said):
            crew.machines[0].hear(data, 1)
            crew.machines[0].hear(data, 2)

    hear(Staged(1, 2, A), Staged(1, 3, B), Staged(2, 3, A), right[1], Staged(1, 1, B))
    assert ends.named is None
    hear(right[2])
    assert ends.named == right[2]
    hear(*(Staged(1, number, A) for number in range(4, 8)), right[0])  # no later word takes one of these back
    assert ends.signed == {one.agent: signed(one, crew.rules)[:SIGNATURE].hex() for one in right}


def test_one_agent_cannot_fill_memory_and_lines_with_ends() -> None:
    crew = Crew(TRIANGLE)
    machine, sent = crew.machines[0], list[tuple[int, bytes]]()
    for number in range(1, 50):
        for digest in (A, B):
            sent += machine.hear(signed(Staged(1, number, digest), crew.rules), 1)
    assert [j for j, _ in sent] == [2] * RAISES
    kept = [data for _, data in machine.line(2, up=True) if b'"staged"' in data[64:90]]
    assert [machine.rules.read(data)[0] for data in kept] == [Staged(1, number, A) for number in range(5, 9)]


def test_words_of_ends_that_are_sent_again_silence_nobody() -> None:
    """Only the last ones of an agent are kept: whoever sends an older one again says nothing new."""
    crew = Crew(TRIANGLE)
    machine, old = crew.machines[0], [signed(Staged(1, number, A), crew.rules) for number in range(1, 7)]
    for data in old:
        machine.hear(data, 1)
    machine.ends.begin()
    assert [machine.hear(data, 2) for data in old[:2] * RAISES] == [[]] * 2 * RAISES
    for i in (1, 2):
        assert machine.hear(signed(Staged(i, 7, B), crew.rules), i)
    assert machine.ends.named is not None


def test_old_words_of_ends_do_not_keep_out_one_of_this_start() -> None:
    """Nor one of the last start, for an agent that forms the next one: it has to take over that end."""
    for leaves in (False, True):
        crew = Crew(TRIANGLE)
        machine = crew.machines[0]
        while crew.start(0).number <= 2 * RAISES:
            for i in range(3):
                crew.begin(i, "failed")
            crew.pulses(14)
        now = crew.start(0).number
        if leaves:
            machine.begin(Standing(Ended(now, "failed")))
        old = [signed(Staged(1, number, A), crew.rules) for number in range(1, now)]
        assert sum(bool(machine.hear(data, 2)) for data in old) == RAISES
        word = signed(Staged(1, now, B), crew.rules)
        assert (2, word) in machine.hear(word, 1)
        assert machine.hear(word, 1) == machine.hear(signed(Staged(1, now, A), crew.rules), 1) == []
        assert machine.hear(signed(Staged(2, now, B), crew.rules), 2)
        assert machine.ends.named is not None


def test_who_was_away_follows_to_numbers_that_a_liar_has_taken_the_others_to() -> None:
    crew = Crew(TRIANGLE, strikes=99)
    crew.part({0})
    for i in (1, 2):
        crew.begin(i, "down", whom=[0])
    for _ in range(40):
        machine = crew.machines[1]
        here = Here(2, machine.number + JUMP, "far", [1], machine.promise.last)
        crew.put(2, [(1, signed(here, crew.rules))])
        crew.pulses(20, (1, 2))
        for i in (1, 2) if crew.machines[1].number < 2 * JUMP else ():
            crew.begin(i, "failed")
    before = crew.machines[0].number
    assert crew.start(1).number > 2 * JUMP + before
    far = Here(1, crew.machines[1].number, "none", [0])
    assert crew.machines[0].hear(signed(far, crew.rules), 1) == []
    crew.join()
    crew.begin(0, "down", whom=[1, 2])
    crew.pulses(60)
    assert crew.machines[0].number > before + JUMP
    crew.machines[1].progress(10)
    crew.begin(1, "returned", whom=[0])
    crew.begin(2, whom=[1])
    crew.pulses(60)
    assert crew.start(1).members == [0, 1, 2]


@pytest.mark.parametrize("seed", [298, 367, 405])
def test_lines_that_have_often_come_and_gone_count_once_they_stand(seed: int) -> None:
    World(seed).run()


@pytest.mark.parametrize("every", [1, 2, 5, 9])
@pytest.mark.parametrize("speaks", [False, True])
def test_a_liar_whose_lines_come_and_go_keeps_nobody_from_a_start(speaks: bool, every: int) -> None:
    """Agent 3 of a ring cuts its lines and has them back, and says of every number that it has none."""
    crew = Crew(Graph(4, [(0, 1), (1, 2), (2, 3), (0, 3)]))
    crew.cut = {(3, j) for j in range(3)}  # its own machine says nothing
    last, said = crew.machines[0].promise.last, set[tuple[int, int]]()
    for i in range(3):
        crew.begin(i, *(("down",) if i != 1 else ()), **({"whom": [3]} if i != 1 else {}))
    for pulse in range(1, 30 if every < 3 else 120):
        for j in (0, 2):
            if pulse % every == 0:
                crew.put(j, crew.machines[j].line(3, up=pulse // every % 2 == 0))
            for number in {crew.machines[k].number for k in range(3)} if speaks else ():
                if (number, j) not in said:
                    said.add((number, j))
                    word = signed(Here(3, number, f"x{number}", [], last), crew.rules)
                    crew.put(j, crew.machines[j].hear(word, 3))
        for i in range(3):
            crew.put(i, crew.machines[i].pulse())
    assert not any(crew.machines[i].regrouping for i in range(3))
    assert crew.start(0).members == [0, 1, 2]
