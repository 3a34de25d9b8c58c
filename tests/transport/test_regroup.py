"""Forming starts: random trials on the real machine, and faults by hand, in which a wrong machine fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from admmnet.graph.simple import Graph
from admmnet.identity.keys import SIGNATURE
from admmnet.transport.choice import Words
from admmnet.transport.regroup import Regroup
from admmnet.transport.starts import Agree, Certificate, Here, Patience, Promise, Propose, Rules, Standing, written

from .regroup_crew import TRIANGLE, A, AnyStart, B, Crew, EndAlone, StagesAfterHere
from .regroup_trials import Unfit, World

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
        (0.03, {"lie": "charged"}),
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


BRIDGE = Graph(5, [(0, 1), (0, 2), (2, 3), (2, 4), (3, 4)])


def test_the_first_start_is_agreed_to_before_it_is_proposed() -> None:
    crew = Crew(TRIANGLE)
    machines = crew.machines = [crew.machine(i) for i in TRIANGLE]  # new ones: all their lines stand already
    for machine in machines:
        machine.promise, machine.live = Promise(), set(TRIANGLE) - {machine.me}
    here = [data for machine in machines for j, data in machine.begin(Standing()) if j == (machine.me + 1) % 3]
    last = here[1]  # of agent 1, which proposes number 1
    machines[0].hear(here[2], 2)
    said = [crew.rules.read(data)[0] for _, data in machines[0].hear(last, 1)]
    assert {type(one) for one in said if one.agent == 0} == {Agree}
    assert crew.kept[0][-1].agreed
    # nobody has proposed anything yet, and no pulse has passed
    words = machines[1].hear(here[0], 0) + machines[1].hear(here[2], 2)
    assert {type(crew.rules.read(data)[0]) for _, data in words} == {Here, Propose, Agree}
    assert machines[0].start is None


@pytest.mark.parametrize("dead", range(3))
@pytest.mark.parametrize("gap", range(8))
def test_an_agent_that_is_started_anew_before_the_first_start_may_say_here_again(dead: int, gap: int) -> None:
    """Nothing of it is on the disk yet, and its lines come back before anybody notes that it was gone."""
    crew, others = Crew(TRIANGLE), set(TRIANGLE) - {dead}

    def anew(i: int) -> Regroup:
        machine = crew.machine(i)
        machine.promise, machine.patience = Promise(), Patience(2**40, 2**40)
        machine.live = set(TRIANGLE) - {i}
        return machine

    crew.machines = [anew(i) for i in TRIANGLE]
    crew.cut = {(i, dead) for i in others}
    for i in (dead, *others):
        crew.put(i, crew.machines[i].begin(Standing()))
    crew.pulses(gap, others)
    crew.machines[dead], crew.cut = anew(dead), set()
    crew.machines[dead].live = set()
    for i in others:
        crew.put(i, crew.machines[i].line(dead, up=False))
        crew.line(i, dead, up=True)
    crew.put(dead, crew.machines[dead].begin(Standing()))
    crew.pulses(40)
    assert len({crew.start(i).number for i in TRIANGLE}) == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
@pytest.mark.parametrize("gap", range(12))
def test_who_comes_back_before_the_deadline_is_left_out_of_no_start(gap: int, order: tuple[int, ...]) -> None:
    """Agent 1 has said HERE before its line to agent 2 stands: agent 0 must leave it the time to say so."""
    crew = Crew(Graph(3, [(0, 1), (1, 2)]))
    crew.part({2})
    crew.begin(1, "down", whom=[2])
    crew.begin(0)
    crew.pulses(gap, (0, 1))
    crew.machines[2], crew.cut = crew.machine(2), set()
    crew.line(1, 2, up=True)
    crew.put(2, crew.machines[2].begin(Standing()))
    crew.pulses(20, order)
    assert {tuple(crew.start(i).members) for i in order} == {(0, 1, 2)}
    assert len({crew.start(i).number for i in order}) == 1


def test_one_agent_alone_begins_at_once() -> None:
    crew = Crew(Graph(1))
    machine = crew.machine(0)
    machine.promise = Promise()
    machine.begin(Standing())
    assert machine.start is not None


def test_no_signature_gives_a_start_another_name() -> None:
    said = written(Propose(1, 1, [A], [0, 1, 2], [(0, 1), (1, 2)], "go on", 0, 1))
    one, other = (Certificate(bytes([k]) * SIGNATURE + said, (bytes([k]),)) for k in (1, 2))
    assert one.name == other.name


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


@pytest.mark.parametrize("seed", [298, 367, 405])
def test_lines_that_have_often_come_and_gone_count_once_they_stand(seed: int) -> None:
    World(seed).run()
