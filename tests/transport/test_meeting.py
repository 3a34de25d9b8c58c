"""The start that follows from words: the same at everybody, and what one liar can make of it."""

from __future__ import annotations

import secrets
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from admmnet.graph.simple import Graph
from admmnet.transport.zmq import meeting
from admmnet.transport.zmq.meeting import Call, Here, choose, form, read_here, shape_of, sign_here
from admmnet.transport.zmq.wire import BadFrame, Word, packed, read_word, unpacked
from admmnet.types import NEVER
from tests.transport.starts import IDENTITIES, KEYS, LOCAL, MASKED, call_of, formed, here, path, ring, star, word

RING = ring(5)
P = 2**255 - 19
EIGHT = 325606250916557431795983626356110631294008115727848805560023387167927233504
LOW_ORDER = [0, 1, EIGHT, pow(EIGHT, -1, P), P - 1, P, P + 1]
"""u-coordinates of all points of order 1, 2, 4 and 8 on curve and twist, and those of them that have two encodings."""


# HERE and START


@pytest.mark.parametrize("top", [0, 2**255])
@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_key_of_low_order_seals_nothing_others_do(point: int, top: int) -> None:
    epk = (point | top).to_bytes(32, "little")
    assert not meeting.seals(epk)
    with pytest.raises(BadFrame):
        formed(RING, [here(i, epk=epk) if i == 3 else here(i) for i in range(5)])
    assert all(
        meeting.seals(x) for x in ((9).to_bytes(32, "little"), (P + 9).to_bytes(32, "little"), secrets.token_bytes(32))
    )


def test_a_word_is_its_agents() -> None:
    one = here(1, staged="end")
    data = sign_here(one, IDENTITIES[1])
    assert read_here(data, KEYS) == one
    bad = [b"", data[:64], data[:-1], data[1:], data + b"x", sign_here(one, IDENTITIES[2])]
    bad += [data[:64] + packed(replace(one, c=8)), data[:64] + packed(replace(one, agent=2))]
    bad += [sign_here(one, IDENTITIES[1])[:64] + data[64:-1] + bytes([data[-1] ^ 1])]
    for wrong in bad:
        with pytest.raises(BadFrame):
            read_here(wrong, KEYS)
    with pytest.raises(BadFrame):
        read_here(data, KEYS[:1])


@pytest.mark.parametrize("change", [{"staged": "another"}, {"run": "another"}, {"network": "another"}, {"agent": 2}])
def test_a_staged_end_is_signed_by_its_agent_for_this_run(change: dict[str, Any]) -> None:
    one = replace(here(1, staged="end"), **change)
    with pytest.raises(BadFrame):
        read_here(sign_here(one, IDENTITIES[one.agent]), KEYS)


C = some.integers(NEVER, 12)
VALUES: dict[str, list[Any]] = {
    "agent": [-1, 2**53, "1", 1.5],
    "epk": [b"x" * 31, b"x" * 33],
    "c": [NEVER - 1, 2**31, 1.5, None],
    "at": [NEVER - 1, 2**31],
    "first": [NEVER - 1, 2**31],
    "rounds": [-1, 2**53],
    "lines": [-1, 2**53],
    "run": ["x" * 65, 1],
    "settings": [{"x" * 65: "y"}, {"x": 1}, []],
    "signature": [bytes(65)],
    "least": [-1],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in VALUES for value in VALUES[name]])
def test_values_out_of_range_are_refused(name: str, value: Any) -> None:
    one = {**unpacked(packed(here(1)), dict[str, Any]), name: value}
    with pytest.raises(BadFrame):
        unpacked(packed(one), Here)


def test_no_two_starts_bear_one_name() -> None:
    heres, words = [here(i) for i in range(5)], [word(1, 3), word(4, 5)]
    calls = [call_of(heres, words)]
    calls += [call_of([replace(one, lines=9) if i == one.agent else one for one in heres], words) for i in range(5)]
    calls += [call_of(heres, other) for other in ([], words[:1], words[1:], [word(1, 4), words[1]])]
    calls += [call_of(heres, words, cut) for cut in ([(0, 1)], [(1, 2)])]
    calls += [call_of(heres[:4], words), call_of([here(0), *heres[1:]], words)]
    assert len({form(call, KEYS, RING, 3).name for call in calls}) == len(calls)
    assert form(calls[0], KEYS, RING, 3) == form(unpacked(packed(calls[0]), Call), KEYS, RING, 3)


HERES, WORDS = [here(i) for i in range(5)], [word(i, 3) for i in range(5)]
NO_START: dict[str, Call] = {
    "in another order": call_of([HERES[1], HERES[0], *HERES[2:]]),
    "one twice": call_of([*HERES, HERES[4]]),
    "two of an agent": call_of([*HERES, here(4)]),
    "words in another order": call_of(HERES, WORDS[::-1]),
    "a word twice": call_of(HERES, [WORDS[0], WORDS[0]]),
    "two words of an agent": call_of(HERES, [WORDS[0], word(0, 4)]),
    "HERE of an outsider": call_of([*HERES, here(5)]),
    "a word of an outsider": call_of(HERES, [word(5, 1)]),
    "a forged word": call_of(HERES, [WORDS[1][:64] + WORDS[0][64:]]),
    "a word that is none": call_of(HERES, [bytes(80)]),
    "too few": call_of(HERES[:2]),
    "none": call_of([]),
    "members that are not connected": call_of([HERES[0], HERES[2], HERES[3]]),
    "members that an edge left out parts": call_of(HERES[:3], cut=[(0, 1)]),
    "edges in another order": call_of(HERES, cut=[(1, 2), (0, 1)]),
    "an edge twice": call_of(HERES, cut=[(0, 1), (0, 1)]),
    "an edge that is none": call_of(HERES, cut=[(0, 2)]),
    "an edge the wrong way round": call_of(HERES, cut=[(1, 0)]),
    "an older copy": call_of(HERES, [word(1, 3, lines=5)]),
    "another ledger of as many lines": call_of(HERES, [word(1, 3, head="cd" * 32)]),
    "another network": call_of([here(0, network="another"), *HERES[1:]]),
}


@pytest.mark.parametrize("case", NO_START)
def test_words_that_make_no_start(case: str) -> None:
    with pytest.raises(BadFrame):
        form(NO_START[case], KEYS[:5], RING, 3)


def test_what_a_relay_chooses_makes_a_start() -> None:
    said, words = {i: sign_here(here(i), IDENTITIES[i]) for i in (3, 0, 1, 4)}, {4: WORDS[4], 2: WORDS[2]}
    for cut, members in (
        ([], [0, 1, 3, 4]),
        ([(0, 4), (0, 1)], [3, 4]),
        ([(0, 1)], [0, 3, 4]),
        ([(2, 3)], [0, 1, 3, 4]),
    ):
        start = form(choose(said, words, cut, RING), KEYS, RING, 2)
        assert start.members == members
        assert start.edges == [e for e in RING.edges if {*e} <= {*members} and e not in cut]
    assert meeting.largest([0, 1, 3, 4], [(0, 4)], RING) == [0, 1]  # of equals that with the lowest agent


# the rules


def of_most(values: list[Any], of: int) -> Any:
    return next((value for value in values if value and 2 * values.count(value) > of), None)


def rule_of(here: list[Here], words: list[Word], graph: Graph, shape: str, void: list[str]) -> tuple[Any, ...]:
    """Run, rule, first round and end as docs/protocol.md has them; None for the name of the start itself."""
    run, said = of_most([one.run for one in here], len(here)), {one.agent: one.c for one in here}
    for one in words:  # of an agent that is away, or newer than HERE
        if one.run == run:
            said[one.agent] = max(said.get(one.agent, NEVER), one.round)
    c = sorted(said.get(i, NEVER) for i in graph)
    longest = nx.diameter(nx.Graph(graph.edges))
    round = 0 if c[-1] == NEVER else 1 + min(c[-1], c[-2] + 1, c[(len(c) - 1) // 2] + longest)
    rounds = of_most([one.rounds for one in here if one.rounds], sum(one.rounds != 0 for one in here))
    ends = [one.staged for one in here if one.staged and one.run == run and one.staged not in void]
    if rounds and round >= rounds and ends:
        return run, "finish", round, max(sorted({*ends}), key=ends.count)
    first = of_most([str(one.first) for one in here], len(here))
    at = max(int(first or NEVER), min(one.at for one in here))
    plans = {(one.run, one.plan, one.shape) for one in here}
    masked = of_most([str(one.settings) for one in here], len(here)) == str(MASKED)
    alike = all(one.at == at for one in here) or not (masked or at < 0)
    if (
        first
        and min(one.at for one in here) > NEVER
        and plans == {(run, here[0].plan, shape)}
        and here[0].plan
        and alike
    ):
        return run, "replay", at, ""
    return run, "go on", round, ""


VARIES: dict[str, list[Any]] = {
    "run": ["run", "run", "other", ""],
    "plan": ["plan", "plan", "other", ""],
    "shape": ["", "", "other"],  # "" of the start itself
    "first": [2, 2, 5, -3, NEVER],
    "at": [6, 5, 1, -2, NEVER],
    "c": [*range(-3, 12), NEVER],
    "rounds": [10, 10, 4, 0],
    "staged": ["", "", "a", "b", "c"],
    "settings": [LOCAL, MASKED],
}


@settings(max_examples=300, deadline=None)
@given(some.data(), some.sampled_from([path(5), ring(5), star(5), path(2), ring(4)]))
def test_the_rule_follows_from_words_as_the_protocol_has_it(draw: some.DataObject, graph: Graph) -> None:
    """Agents are alike but for up to three facts; one may be away, and words of some are known."""
    away = draw.draw(some.sampled_from([-1, len(graph) - 1] if len(graph) > 2 else [-1]))
    members = [i for i in graph if i != away]
    shape = shape_of(members, [edge for edge in graph.edges if away not in edge])
    common = {name: draw.draw(some.sampled_from(values)) for name, values in VARIES.items()}
    varied = draw.draw(some.lists(some.sampled_from(sorted(VARIES)), max_size=3))
    heres = []
    for i in members:
        own = common | {name: draw.draw(some.sampled_from(VARIES[name])) for name in varied}
        heres.append(here(i, **own | {"shape": own["shape"] or shape}))
    signers = draw.draw(some.lists(some.sampled_from([*graph]), unique=True, max_size=2).map(sorted))
    words = [word(i, draw.draw(C), run=draw.draw(some.sampled_from(["run", "run", "other"]))) for i in signers]
    void = draw.draw(some.sampled_from([[], [], ["a"], ["b", "c"]]))
    start = form(call_of(heres, words, void=void), KEYS[: len(graph)], graph, 2 if len(graph) > 2 else 1)
    run, rule, round, end = rule_of(heres, [read_word(one, KEYS) for one in words], graph, shape, void)
    assert (start.run, start.rule, start.round, start.end) == (run or start.name, rule, round, end)
    assert start.plan == (start.name if rule == "go on" else heres[0].plan)
    assert start.giver == next((one.agent for one in heres if one.staged == end), members[0])


# one liar


@settings(max_examples=150, deadline=None)
@given(some.data(), some.integers(3, 6), some.sampled_from([path, ring, star]))
def test_one_liar_moves_the_first_round_within_bounds_of_the_others_rounds(
    draw: some.DataObject, agents: int, shape: Any
) -> None:
    """Whatever one liar of N >= 3 says: r0 is at most one beyond the round after the highest charged one.

    With h the honest c in ascending order, D the diameter and m = (N - 1) // 2, and nothing narrower is true,
    1 + min(h[-1], h[-2] + 1, h[m - 1] + D) <= r0 <= 1 + min(h[-1] + 1, h[m] + D); r0 = 0 if nobody has been charged.
    So no charged round is thrown away if h[-1] <= h[-2] + 1 and h[-1] <= h[0] + D, as after every start of all.
    """
    graph = shape(agents)
    liar = draw.draw(some.integers(0, agents - 1))
    close = draw.draw(some.booleans())
    c = {i: draw.draw(some.integers(5, 6) if close else C) for i in graph if i != liar}
    heres = {i: here(i, c=said, rounds=10, plan="plan", at=4) for i, said in c.items()}
    lies: dict[str, Any] = {name: some.sampled_from(values) for name, values in VARIES.items() if name != "settings"}
    lies |= {name: lies[name] | some.sampled_from([10**6, 2**31 - 1]) for name in ("c", "at", "first", "rounds")}
    lies |= {"shape": some.sampled_from(["", shape_of(range(agents), graph.edges)])}
    lies |= {"lines": some.integers(5, 2**53 - 1)}  # of fewer than it has signed nobody takes its word
    said = [here(i, **draw.draw(some.fixed_dictionaries(lies))) if i == liar else heres[i] for i in graph]
    words = [word(liar, x) for x in [draw.draw(some.none() | C)] if x is not None]
    start = formed(graph, said, words)
    h, d, m = sorted(c.values()), meeting.diameter(graph), (agents - 1) // 2
    assert start.run == "run"
    nobody = h[-1] == NEVER and start.round == 0  # has been charged
    assert nobody or 1 + min(h[-1], h[-2] + 1, h[m - 1] + d) <= start.round <= 1 + min(h[-1] + 1, h[m] + d)
    assert not close or 1 + h[-1] - start.round in (0, -1)
    if start.rule == "finish":
        assert start.round >= 10


# strikes, and small functions


def test_strikes_lapse_after_many_turns_without_another() -> None:
    strikes = meeting.Strikes(3, {4: "earlier"})
    for turns in (0, meeting.LAPSE, 2 * meeting.LAPSE + 1, 2 * meeting.LAPSE + 2):
        strikes.strike(0, "late", turns)
        strikes.strike(1, "late", 0)
        assert 0 not in strikes.out
    assert strikes.out == {4: "earlier", 1: "late; it is its fault number 3"}
    strikes.strike(0, "gone", 2 * meeting.LAPSE + 2)
    assert strikes.out[0] == "gone; it is its fault number 3"
    often = meeting.Strikes(3)
    for turns in (0, meeting.LAPSE, 2 * meeting.LAPSE):
        often.strike(0, "late", turns)
    assert 0 in often.out
    once = meeting.Strikes(1)
    once.strike(2, "late", 5)
    assert [*once.out] == [2]


def test_most_is_more_than_half() -> None:
    assert meeting.most(["a", "a", "b"], 3) == "a"
    assert meeting.most(["a", "a"], 4) == meeting.most([], 0) == meeting.most(["", "", "a"], 3) == ""
    assert [meeting.diameter(graph) for graph in (Graph(1), Graph(4, [(0, 1), (2, 3)]), path(5))] == [0, 1, 4]
