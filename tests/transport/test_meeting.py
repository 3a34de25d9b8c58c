"""The start that follows from words: the same at everybody, and what liars can make of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from admmnet.graph.simple import Graph
from admmnet.identity.keys import Identity
from admmnet.transport.zmq.meeting import Call, Here, Last, Start, diameter, form, read, signed
from admmnet.transport.zmq.wire import BadFrame, packed

RING = Graph(5, [(i, (i + 1) % 5) for i in range(5)])
IDENTITIES = [Identity.fresh() for _ in range(5)]
KEYS = [one.public for one in IDENTITIES]
NONCE = "ab" * 32
WHOLE = Last(3, [0, 1, 2, 3, 4], [*RING.edges], 4, 3)


def here(agent: int, **values: Any) -> Here:
    known: dict[str, Any] = {"run": "r", "last": WHOLE, "lineage": 3, "charged": 7, "states": [5, 6, 7]}
    return Here(agent, "net", NONCE, **(known | values))


def formed(words: Sequence[Here], out: Sequence[tuple[int, int]] = (), quorum: int = 3) -> Start | None:
    call = Call([signed(one, IDENTITIES[one.agent]) for one in words], list(out))
    found = form(call, KEYS, RING, quorum)
    random.shuffle(call.words)  # in any order
    assert form(call, KEYS, RING, quorum) == found
    return found


def known(start: Start | None) -> Start:
    assert start is not None
    return start


def test_the_first_start_has_all() -> None:
    start = known(formed([Here(i, "net", NONCE) for i in range(5)]))
    assert (start.number, start.members, start.edges) == (0, [0, 1, 2, 3, 4], [*RING.edges])
    assert (start.rule, start.round, start.lineage) == ("go on", 0, 0)


def test_the_same_members_repeat_from_the_last_state_that_all_have() -> None:
    words = [here(i, states=[4, 5, 6] if i == 2 else [5, 6, 7]) for i in range(5)]
    start = known(formed(words))
    assert (start.number, start.rule, start.round, start.lineage) == (4, "replay", 6, 3)
    start = known(formed([replace(one, states=[9] if one.agent == 2 else one.states) for one in words]))
    assert (start.rule, start.round, start.lineage) == ("go on", 8, 4)


def test_other_members_go_on_and_a_liar_cannot_end_the_run() -> None:
    start = known(formed([here(i, charged=10**6 if i == 1 else 7) for i in range(4)]))
    assert (start.members, start.rule) == ([0, 1, 2, 3], "go on")
    assert start.round == 1 + 7 + diameter(WHOLE.members, WHOLE.edges)


def test_what_is_struck_out_is_left_out() -> None:
    words = [here(i) for i in range(5)]
    assert known(formed(words, [(0, 1)])).members == [0, 1, 2, 3, 4]
    assert known(formed(words, [(0, 1), (0, 4)])).members == [1, 2, 3, 4]
    assert known(formed(words, [(2, 2)])).members == [0, 1, 3, 4]
    assert (0, 1) not in known(formed(words, [(0, 1)])).edges


def test_a_start_needs_a_quorum_that_is_connected() -> None:
    assert formed([here(i) for i in (0, 2)]) is None
    assert formed([here(i) for i in (0, 2, 3)], quorum=3) is None
    assert known(formed([here(i) for i in (0, 2, 3)], quorum=2)).members == [2, 3]


def test_no_two_starts_bear_one_name() -> None:
    words = [here(i) for i in range(5)]
    names = {known(formed(words)).name, known(formed(words, [(0, 1)])).name, known(formed(words[:4])).name}
    names.add(known(formed([replace(words[0], nonce="cd" * 32), *words[1:]])).name)
    assert len(names) == 4


@pytest.mark.parametrize(
    "words", [[here(0), here(1, run="another"), here(2)], [here(0), replace(here(1), network="another"), here(2)]]
)
def test_words_of_two_runs_make_no_start(words: list[Here]) -> None:
    with pytest.raises(BadFrame):
        formed(words)


def test_a_word_is_its_agents() -> None:
    word = signed(here(1), IDENTITIES[1])
    assert read(word, KEYS) == here(1)
    other = signed(here(1), IDENTITIES[2])
    edited = word[:64] + packed(here(1, charged=8))
    for bad in (other, edited, word[:-1], b"", word[:64], word + b"x", signed(here(1), IDENTITIES[1])[1:]):
        with pytest.raises(BadFrame):
            read(bad, KEYS)
    with pytest.raises(BadFrame):
        read(word, KEYS[:1])


def test_the_diameter() -> None:
    assert diameter(range(5), RING.edges) == 2
    assert diameter([0], []) == 0
