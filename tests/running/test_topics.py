"""What agents tell each other over ZeroMQ: each topic has a form, and nothing else is taken."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from admmnet.running.topics import MOST_RECORDS, TABLE, TOPICS, names
from admmnet.transport.hosts.network import Peer
from admmnet.transport.zmq.topics import END, ERROR, ROWS, TOTAL
from admmnet.transport.zmq.wire import LONG, BadFrame, Failure, Signature, packed

PEER = Peer(2, "key", records=100)
UNKNOWN = ["rho", "rho_proven", "rho_published", "epsilon_target", "delta", "epsilon_proven", "epsilon_spent"]
UNKNOWN += ["epsilon_published", "account_epsilon_spent", "refused_at", "test_error"]
ENTRY: dict[str, Any] = dict.fromkeys(UNKNOWN) | {"agent": 2, "records": 50, "degree": 2, "releases": 7}
FACTS: dict[str, Any] = {"machine": "host", "kernel": "c1", "account": True, "deltas": [[2, 1e-5]]}
FACTS |= {"counts": [[2, 50]], "width": [[2, 11]], "tests": [[2, 0]]}
FIGURES: dict[str, Any] = {"agents": [ENTRY], "digests": {"ledger/agent-002.jsonl": "ab" * 32}}
FIGURES |= {"seconds": [3.0, 0.0, 1.0], "frames": {"old": 2}}


def others(value: dict[str, Any], **changes: list[Any]) -> list[Any]:
    """The value with one of its parts changed."""
    return [value | {name: other} for name, several in changes.items() for other in several]


SAMPLES: dict[str, list[Any]] = {
    "ready": [None],
    "facts": [FACTS, *others(FACTS, deltas=[[], [[2, None]]])],
    "left": [{"values": [[2, 0.25]]}, {"values": []}],
    "ratio": [{"values": [[2, 0.25]]}],
    "masks": [{"values": [[2, ["ab" * 32, "cd" * 64]]]}],
    "answered": [[3, 4]],
    "found": ["ab" * 32, ""],
    "listens": [True, False],
    "verdict": [0.0, 1.5],
    "pooled": [0.25, None],
    "figures": [FIGURES],
}
MORE = MOST_RECORDS + 1
BAD: dict[str, list[Any]] = {
    "ready": [0, "", [], True],
    "facts": [
        *others(FACTS, counts=[[[1, 50]], [], [[2, 50], [2, 50]], [[2, 101]], [[2, 0]], [[2, 1.5]], [[2, MORE]]]),
        *others(FACTS, counts=[[[2, True]], [[2, "1"]]], width=[[[1, 11]], [], [[2, 0]]]),
        *others(FACTS, tests=[[[1, 3]], [[2, -1]], [[2, MORE]]], deltas=[[[1, 1e-5]], [[2, 0.0]], [[2, 1.0]]]),
        *others(FACTS, machine=["x" * 256], kernel=["x" * 17], account=[1], x=[1]),
        {},
    ],
    "left": [*({"values": [[2, x]]} for x in (0.0, -1.0, 1e301, "1", None)), {"values": [[1, 0.5]]}, {}],
    "ratio": [{"values": [[2, 0.0]]}, {"values": [[1, 0.5]]}, {"values": [[2, 0.5], [2, 0.5]]}, {"values": None}],
    "masks": [
        *({"values": [[2, bad]]} for bad in (["xy", ""], ["ab" * 65, ""], ["ab"], ["ab\n", "cd"])),
        {"values": [[1, ["ab", "cd"]]]},
    ],
    "answered": [[1], [1, 2, 3], ["1", 2], [1.5, 2], None, [-(10**30), 2], [0, 10**30]],
    "found": ["xy", "ab" * 65, None, 1, "ab\n"],
    "listens": [0, 1, None, "true"],
    "verdict": [-0.1, 9.1, None, "1", True],
    "pooled": ["1", True, []],
    "figures": [
        *others(FIGURES, agents=[[], [ENTRY | {"agent": 1}], [ENTRY, ENTRY], [ENTRY | {"rho": -1.0}]]),
        *others(FIGURES, agents=[[ENTRY | {"secret": 1}]], digests=[{"x": "ab"}, {}, {"x" * 65: "ab" * 32}]),
        *others(FIGURES, seconds=[[1.0, 2.0], [1.0, 2.0, -1.0]], frames=[{"x": -1}]),
        {k: v for k, v in FIGURES.items() if k != "frames"},
    ],
}


def refused(topic: str, data: bytes) -> bool:
    try:
        TOPICS.read(topic, data, PEER)
    except BadFrame:
        return True
    return False


@pytest.mark.parametrize("topic", TABLE)
def test_values_in_form_are_read_as_they_were_written_and_others_are_refused(topic: str) -> None:
    for value in SAMPLES[topic]:
        assert TOPICS.read(topic, TOPICS.write(topic, value), PEER) == value
    for value in BAD[topic]:
        assert refused(topic, json.dumps(value).encode()), value
    with pytest.raises(msgspec.ValidationError):
        TOPICS.write(topic, {"more": 1})


@pytest.mark.parametrize(("topic", "text"), [("pooled", "1" + "0" * 300), ("left", '{"values": [[2, 1]]}')])
def test_a_float_is_one_however_it_is_written(topic: str, text: str) -> None:
    value = TOPICS.read(topic, text.encode(), PEER)
    assert type(value if topic == "pooled" else value["values"][0][1]) is float


@pytest.mark.parametrize("topic", SAMPLES)
def test_numbers_that_are_none_are_refused_in_each_place(topic: str) -> None:
    for text in map(json.dumps, SAMPLES[topic]):
        for place in re.finditer(r"(?<=[\[ ])[0-9][-0-9.e]*(?=[],])", text):
            for number in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 400):
                bad = text[: place.start()] + number + text[place.end() :]
                assert refused(topic, bad.encode()), bad


@pytest.mark.parametrize("topic", [*TABLE, ERROR, END, "unknown"])
def test_garbage_is_refused(topic: str) -> None:
    for data in (b"", b"{", b"\xff", b"[" * 10**5, b"null x", b'"\\ud800"', b" " * LONG + b"null"):
        assert refused(topic, data), data[:9]


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(some.sampled_from([*TABLE, ERROR, END, ROWS, TOTAL, "unknown"]), JSON | some.binary(max_size=50))
def test_whatever_is_said_is_refused_or_in_form(topic: str, value: Any) -> None:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    try:
        found = TOPICS.read(topic, data, PEER)
    except BadFrame:
        return
    assert TOPICS.read(topic, TOPICS.write(topic, found), PEER) == found


def test_topics_of_every_run() -> None:
    failure, signature = Failure(3, "text", 1), Signature("end", bytes(64))
    values: list[tuple[str, Any]] = [(ERROR, failure), (END, signature), (ROWS, b"x" * 16), (TOTAL, b"")]
    for topic, value in values:
        assert TOPICS.read(topic, TOPICS.write(topic, value), PEER) == value
    for topic, data in [(ROWS, b"x" * 9), (TOTAL, b"x"), (ERROR, packed(signature)), (END, packed(failure))]:
        assert refused(topic, data)


def test_records_are_bounded_by_the_network_file_alone() -> None:
    many = json.dumps(FACTS | {"counts": [[2, MOST_RECORDS]]}).encode()
    assert TOPICS.read("facts", many, Peer(2, "key"))["counts"] == [[2, MOST_RECORDS]]


def test_all_names_are_listed() -> None:
    expected = list[str]()
    for topic, (value, *_) in SAMPLES.items():
        expected += [f"{topic}.{name}" for name in value] if isinstance(value, dict) else [topic]
    assert names() == expected
