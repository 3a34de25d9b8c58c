"""What agents are told while a start is formed: words that nobody can have said, liars, floods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from admmnet.errors import CheckFailed
from admmnet.graph.simple import Graph
from admmnet.identity.keys import SIGNATURE
from admmnet.transport.ends import RAISES
from admmnet.transport.regroup import JUMP
from admmnet.transport.starts import Dispute, Ended, Here, Signed, Staged, Standing, written

from .regroup_crew import TRIANGLE, A, B, Crew, signature, signed


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
