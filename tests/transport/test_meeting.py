"""The start that follows from words: the same at everybody, and what one liar can make of it."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from admmnet.graph.simple import Graph
from admmnet.transport.begun import NEVER
from admmnet.transport.zmq.meeting import (
    LAPSE,
    Call,
    Here,
    Strikes,
    charged,
    choose,
    diameter,
    differing,
    form,
    largest,
    most,
    read_here,
    seals,
    shape_of,
    sign_here,
)
from admmnet.transport.zmq.wire import BadFrame, packed, read_word, unpacked
from tests.transport.starts import IDENTITIES, KEYS, MASKED, call_of, formed, here, path, ring, star, word

RING = ring(5)
PLAN: dict[str, Any] = {"plan": "plan", "shape": shape_of(range(5), RING.edges), "first": 2, "at": 6, "c": 7}
P = 2**255 - 19
LOW_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    *(P - 1, P, P + 1),
]
"""u-coordinates of all points of order 1, 2, 4 and 8 on curve and twist, and those of them that have two encodings."""


# HERE and START


@pytest.mark.parametrize("top", [0, 2**255])
@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_key_of_low_order_seals_nothing(point: int, top: int) -> None:
    epk = (point | top).to_bytes(32, "little")
    assert not seals(epk)
    with pytest.raises(BadFrame):
        formed(RING, [here(i, epk=epk) if i == 3 else here(i) for i in range(5)])


def test_other_keys_seal() -> None:
    assert all(seals(x) for x in ((9).to_bytes(32, "little"), (P + 9).to_bytes(32, "little"), secrets.token_bytes(32)))


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
    for cut, members in (([], [0, 1, 3, 4]), ([(0, 4), (0, 1)], []), ([(0, 1)], [0, 3, 4]), ([(2, 3)], [0, 1, 3, 4])):
        call = choose(said, words, cut, RING, 3)
        assert (call is None) == (not members)
        if call is not None:
            start = form(call, KEYS, RING, 3)
            assert start.members == members
            assert start.edges == [e for e in RING.edges if {*e} <= {*members} and e not in cut]
    assert largest([0, 1, 3, 4], [(0, 4)], RING) == [0, 1]  # of equals that with the lowest agent


# the rules


def test_the_first_start() -> None:
    start = formed(RING, [here(i, run="") for i in range(5)])
    assert (start.run, start.plan, start.rule, start.round) == (start.name, start.name, "go on", 0)
    assert (start.members, start.edges, start.end) == ([*range(5)], [*RING.edges], "")


@pytest.mark.parametrize(
    ("runs", "run"), [("aaabb", "a"), ("aa   ", ""), ("aabb ", ""), ("aaab ", "a"), ("aaa  ", "a"), ("abcde", "")]
)
def test_the_run_has_the_name_that_most_say(runs: str, run: str) -> None:
    start = formed(RING, [here(i, run=name.strip()) for i, name in enumerate(runs)])
    assert start.run == (run or start.name)


REPLAYS: dict[str, tuple[dict[int, dict[str, Any]], str]] = {
    "all alike": ({}, "replay 6"),
    "one is behind": ({2: {"at": 4}}, "replay 4"),
    "one has nothing to play again": ({2: {"at": NEVER}}, "go on 8"),
    "one says a round before its plan": ({2: {"at": 1}, 3: {"first": NEVER}}, "replay 2"),
    "another plan": ({2: {"plan": "other"}}, "go on 8"),
    "no plan": ({i: {"plan": ""} for i in range(5)}, "go on 8"),
    "another shape": ({4: {"shape": "other"}}, "go on 8"),
    "another run": ({4: {"run": "other"}}, "go on 8"),
    "masked, all alike": ({i: {"settings": MASKED} for i in range(5)}, "replay 6"),
    "masked, one is behind": ({i: {"settings": MASKED, "at": 6 - (i == 1)} for i in range(5)}, "go on 8"),
    "one says masked": ({1: {"settings": MASKED, "at": 5}}, "replay 5"),
}


@pytest.mark.parametrize("case", REPLAYS)
def test_the_same_members_replay_what_all_have(case: str) -> None:
    changes, expected = REPLAYS[case]
    start = formed(RING, [here(i, **{**PLAN, **changes.get(i, {})}) for i in range(5)])
    assert f"{start.rule} {start.round}" == expected
    assert start.plan == ("plan" if start.rule == "replay" else start.name)


def test_other_members_or_edges_do_not_replay() -> None:
    heres = [here(i, **PLAN) for i in range(5)]
    assert formed(RING, heres[:4]).rule == formed(RING, heres, cut=[(0, 1)]).rule == "go on"


ROUNDS: dict[str, tuple[Graph, list[int | None], dict[int, int], int]] = {
    # c in HERE (None: away), rounds of words, first round
    "nobody has charged": (path(3), [NEVER] * 3, {}, 0),
    "a stage before round 0": (path(3), [-3] * 3, {}, -2),
    "all alike": (path(3), [4, 4, 4], {}, 5),
    "max c": (path(3), [3, 4, 4], {}, 5),
    "second + 1": (path(3), [4, 4, 9], {}, 6),
    "median + D": (path(5), [0, 0, 1, 9, 9], {}, 1 + 1 + 4),
    "lower median": (path(4), [0, 0, 9, 9], {}, 1 + 0 + 3),
    "D is that of the network, not of those here": (ring(5), [0, 0, 0, 9, 9], {}, 1 + 0 + 2),
    "an agent that is away and has charged": (path(3), [4, 4, None], {2: 5}, 6),
    "an agent that is away and unknown": (path(3), [4, 4, None], {}, 5),
    "a word that is newer than HERE": (path(3), [4, 4, 3], {2: 5}, 6),
    "a word that is older than HERE": (path(3), [4, 4, 5], {2: 3}, 6),
    "two": (path(2), [4, 8], {}, 6),
}


@pytest.mark.parametrize("case", ROUNDS)
def test_the_first_round(case: str) -> None:
    graph, c, rounds, expected = ROUNDS[case]
    heres = [here(i, c=said) for i, said in enumerate(c) if said is not None]
    words = [word(i, round) for i, round in rounds.items()]
    start = formed(graph, heres, words)
    assert (start.rule, start.round) == ("go on", expected)
    if rounds:
        others = [word(i, 2**31 - 1, run="other") for i in range(len(graph))]  # they count for nothing
        assert formed(graph, heres, others).round == formed(graph, heres).round


ENDS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "nobody has staged one": ([{"c": 9}] * 5, ""),
    "one has": ([{"c": 9}] * 4 + [{"c": 9, "staged": "b"}], "b"),
    "most": ([{"c": 9, "staged": x} for x in "bbacc"[:4]] + [{"c": 9, "staged": "b"}], "b"),
    "of equals the lowest": ([{"c": 9, "staged": x} if x != "-" else {"c": 9} for x in "b-bcc"], "b"),
    "at an early round": ([{"c": 8, "staged": "b"}] * 5, ""),
    "one liar is beyond the last round": ([{"c": 7, "staged": "b"}] * 4 + [{"c": 10**6, "staged": "b"}], ""),
    "of another run": ([{"c": 9}] * 4 + [{"c": 9, "run": "other", "staged": "b"}], ""),
    "one liar about the rounds": ([{"c": 3}] * 4 + [{"c": 3, "rounds": 1, "staged": "b"}], ""),
    "most do not know the rounds": ([{"c": 9, "staged": "b"}] * 3 + [{"rounds": 0}] * 2, "b"),
    "half do not know the rounds": ([{"c": 9, "staged": "b"}] * 2 + [{"rounds": 0, "c": 9}] * 3, "b"),
}


@pytest.mark.parametrize("case", ENDS)
def test_an_end_is_finished_only_beyond_the_last_round(case: str) -> None:
    said, end = ENDS[case]
    start = formed(RING, [here(i, **{"rounds": 10, **one}) for i, one in enumerate(said)])
    assert start.end == end
    assert start.rule == ("finish" if end else "go on")


def test_an_end_that_most_have_not_signed_is_void() -> None:
    heres = [here(i, c=9, rounds=10, staged="cb"[i > 1]) for i in range(5)]
    ends = [form(call_of(heres, void=void), KEYS[:5], RING, 3).end for void in ([], ["b"], ["b", "c"])]
    assert ends == ["b", "c", ""]


def test_a_finish_goes_before_a_replay_which_would_write_to_ledgers_that_an_end_lists() -> None:
    said = PLAN | {"c": 9, "rounds": 10}
    assert formed(RING, [here(i, **said, staged="b" if i == 2 else "") for i in range(5)]).rule == "finish"
    assert formed(RING, [here(i, **said) for i in range(5)]).rule == "replay"
    assert formed(RING, [here(i, **said | {"at": NEVER}) for i in range(5)]).rule == "go on"


# one liar

C = some.integers(NEVER, 12)


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
    lies: dict[str, Any] = {
        "c": C | some.sampled_from([2**31 - 1, 10**6]),
        "at": C | some.just(2**31 - 1),
        "first": C | some.just(2**31 - 1),
        "run": some.sampled_from(["run", "", "other"]),
        "plan": some.sampled_from(["plan", "", "other"]),
        "shape": some.sampled_from(["", shape_of(range(agents), graph.edges)]),
        "rounds": some.integers(0, 12) | some.just(2**53 - 1),
        "staged": some.sampled_from(["", "end"]),
        "lines": some.integers(5, 2**53 - 1),  # of fewer than it has signed nobody takes its word
    }
    said = [here(i, **draw.draw(some.fixed_dictionaries(lies))) if i == liar else heres[i] for i in graph]
    words = [word(liar, x) for x in [draw.draw(some.none() | C)] if x is not None]
    start = formed(graph, said, words)
    h, d, m = sorted(c.values()), diameter(graph), (agents - 1) // 2
    assert start.run == "run"
    nobody = h[-1] == NEVER and start.round == 0  # has been charged
    assert nobody or 1 + min(h[-1], h[-2] + 1, h[m - 1] + d) <= start.round <= 1 + min(h[-1] + 1, h[m] + d)
    assert not close or 1 + h[-1] - start.round in (0, -1)
    if start.rule == "finish":
        assert start.round >= 10


def test_the_bounds_are_reached() -> None:
    """One honest agent was away from round 0 on: a liar that denies its rounds throws away nine of another."""
    rounds = [formed(path(3), [here(0, c=0), here(1, c=10), here(2, c=c)]).round for c in (NEVER, 0, 10, 10**6)]
    assert rounds == [2, 2, 11, 12]
    own = formed(path(3), [here(0, c=0), here(1, c=10), here(2, c=NEVER)], [word(2, 10)])
    assert own.round == 11, "the liar's own word holds it to its rounds"


def test_charged_is_the_highest_that_an_agent_has_signed() -> None:
    words = [read_word(data, KEYS) for data in (word(0, 3), word(1, 9), word(4, 2))]
    assert charged([here(0, c=5), here(1, c=5), here(2)], words) == {0: 5, 1: 9, 2: NEVER, 4: 2}


# strikes, and small functions


def test_strikes_lapse_after_many_turns_without_another() -> None:
    strikes = Strikes(3, {4: "earlier"})
    for turns in (0, LAPSE, 2 * LAPSE + 1, 2 * LAPSE + 2):
        strikes.strike(0, "late", turns)
        strikes.strike(1, "late", 0)
        assert 0 not in strikes.out
    assert strikes.out == {4: "earlier", 1: "late; it is its fault number 3"}
    strikes.strike(0, "gone", 2 * LAPSE + 2)
    assert strikes.out[0] == "gone; it is its fault number 3"
    often = Strikes(3)
    for turns in (0, LAPSE, 2 * LAPSE):
        often.strike(0, "late", turns)
    assert 0 in often.out
    once = Strikes(1)
    once.strike(2, "late", 5)
    assert [*once.out] == [2]


def test_most_is_more_than_half() -> None:
    assert most(["a", "a", "b"], 3) == "a"
    assert most(["a", "a"], 4) == most([], 0) == most(["", "", "a"], 3) == ""
    assert differing({"a": "1", "b": "2", "d": "4"}, {"b": "3", "c": "4", "d": "4"}) == ["a", "b", "c"]


def test_the_diameter() -> None:
    assert [diameter(g) for g in (path(5), ring(5), star(5), Graph(1), Graph(4, [(0, 1), (2, 3)]))] == [4, 2, 2, 0, 1]
