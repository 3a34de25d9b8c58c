"""Forming starts beside agents that lie about signatures and charges: none holds the others up, or puts one out."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from admmnet.graph.simple import Graph
from admmnet.transport.choice import Words, diameter
from admmnet.transport.starts import Agree, Here, Propose, Rules, Signed, name_of, written

from .regroup_crew import TRIANGLE, A, Crew, signed

COMPLETE = Graph(5, [(i, j) for j in range(5) for i in range(j)])


@pytest.mark.parametrize(("lie", "liars"), [("silent", 2), ("garbage", 2), ("own", 1), ("vouch", 2), ("accuse", 2)])
def test_who_signs_no_start_holds_nobody_up(lie: str, liars: int) -> None:
    """Liars say HERE in every number, and what makes them seem to sign, or others not to."""
    crew, honest, wrong = Crew(COMPLETE), range(5 - liars), range(5 - liars, 5)
    crew.cut = {(i, j) for i in COMPLETE for j in COMPLETE if i in wrong or j in wrong}
    spoken = set[int]()

    def speak() -> None:
        for number in {crew.machines[i].number for i in honest} - spoken:
            spoken.add(number)
            before, asked = range(max(1, number - 4), number), list(COMPLETE)
            lists = {
                "vouch": [Signed(k, asked, [*wrong]) for k in before],
                "accuse": [Signed(k, asked, []) for k in before[-2:]] * 2,
            }
            for i in wrong:
                words: list[Any] = [Here(i, number, f"{number}", sorted({*COMPLETE} - {i}), signed=lists.get(lie, []))]
                propose = Propose(i, number, [], asked, [], "go on", 0, 0)
                words += [Agree(i, number, A)] if lie == "garbage" else []
                words += [propose, Agree(i, number, name_of(written(propose)))] if lie == "own" else []
                for said, j in product(words, honest):
                    crew.put(j, crew.machines[j].hear(signed(said, crew.rules), i))

    for i in honest:
        crew.begin(i, "down", whom=[4])
        speak()
    for _ in range(60):
        for i in honest:
            crew.put(i, crew.machines[i].pulse())
            speak()
    assert {tuple(crew.start(i).members) for i in honest} == {tuple(honest)}
    assert not any(crew.machines[i].regrouping for i in honest)


def test_nobody_is_left_out_on_one_agents_word() -> None:
    """A liar says twice of each of two numbers that agent 0 was asked for AGREE in vain."""
    rules = Rules(TRIANGLE, 2, 5, b"by hand")
    said = {str(i): Here(i, 9, "", [j for j in TRIANGLE if j != i]) for i in TRIANGLE}
    said["2"] = replace(said["2"], signed=[Signed(number, [0], []) for number in (7, 7, 8, 8)])
    assert not Words(rules, said, {}).mute


@pytest.mark.parametrize("agents", [3, 5])
def test_a_lie_about_the_last_charge_moves_the_next_start_by_the_diameter_at_most(agents: int) -> None:
    edges = [(i, i + 1) for i in range(agents - 1)]
    rules, members = Rules(Graph(agents, edges), agents // 2 + 1, 5, b"by hand"), [*range(agents)]
    base = Propose(0, 2, [], members, edges, "go on", 0, 2)
    true = [3 + i % 2 for i in members]
    for liar in members:
        highest = max(true[:liar] + true[liar + 1 :])
        for lie in (10**6, -1):
            said = {str(i): Here(i, 3, "", charged=lie if i == liar else true[i]) for i in members}
            rule, first, _ = Words(rules, said, dict.fromkeys(said, base)).rule(members, edges)
            assert rule == "go on"
            assert highest + 1 <= first <= highest + 1 + diameter(members, edges)
