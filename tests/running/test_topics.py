"""What agents tell each other over ZeroMQ: each topic has a form, and nothing else is taken."""

from __future__ import annotations

import json
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
FACTS: dict[str, Any] = {
    **{"machine": "host", "kernel": "c1", "account": True, "deltas": [[2, 1e-5]]},
    **{"counts": [[2, 50]], "width": [[2, 11]], "tests": [[2, 0]]},
}
FIGURES: dict[str, Any] = {
    **{
        "agents": [ENTRY],
        "digests": {"ledger/agent-002.jsonl": "ab" * 32},
        "seconds": [3.0, 0.0, 1.0],
        "frames": {"old": 2},
    }
}
SAMPLES: dict[str, list[Any]] = {
    "ready": [None],
    "facts": [FACTS, FACTS | {"deltas": []}, FACTS | {"deltas": [[2, None]]}],
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
NAN, HUGE = "NaN", "9" * 400
BAD: dict[str, list[Any]] = {
    "ready": [0, "", [], True],
    "facts": [
        *(FACTS | {"counts": [[1, 50]]}, FACTS | {"counts": []}, FACTS | {"counts": [[2, 50], [2, 50]]}),
        *(FACTS | {"counts": [[2, 101]]}, FACTS | {"counts": [[2, 0]]}, FACTS | {"counts": [[2, 1.5]]}),
        *(FACTS | {"counts": [[2, MOST_RECORDS + 1]]}, FACTS | {"counts": [[2, True]]}, FACTS | {"counts": [[2, "1"]]}),
        *(FACTS | {"width": [[1, 11]]}, FACTS | {"width": []}, FACTS | {"width": [[2, 0]]}),
        *(FACTS | {"tests": [[1, 3]]}, FACTS | {"tests": [[2, -1]]}, FACTS | {"tests": [[2, MOST_RECORDS + 1]]}),
        *(FACTS | {"deltas": [[1, 1e-5]]}, FACTS | {"deltas": [[2, 0.0]]}, FACTS | {"deltas": [[2, 1.0]]}),
        *(FACTS | {"machine": "x" * 256}, FACTS | {"kernel": "x" * 17}, FACTS | {"account": 1}, FACTS | {"x": 1}, {}),
    ],
    "left": [{"values": [[2, x]]} for x in (0.0, -1.0, 1e301, "1", None)]
    + [{"values": [[1, 0.5]]}, {"values": [[2]]}, {}],
    "ratio": [{"values": [[2, 0.0]]}, {"values": [[1, 0.5]]}, {"values": [[2, 0.5], [2, 0.5]]}, {"values": None}],
    "masks": [
        *({"values": [[2, ["xy", ""]]]}, {"values": [[2, ["ab" * 65, ""]]]}, {"values": [[2, ["ab"]]]}),
        {"values": [[1, ["ab", "cd"]]]},
    ],
    "answered": [[1], [1, 2, 3], ["1", 2], [1.5, 2], None],
    "found": ["xy", "ab" * 65, None, 1],
    "listens": [0, 1, None, "true"],
    "verdict": [-0.1, 9.1, None, "1", True],
    "pooled": ["1", True, []],
    "figures": [
        *(FIGURES | {"agents": []}, FIGURES | {"agents": [ENTRY | {"agent": 1}]}, FIGURES | {"agents": [ENTRY, ENTRY]}),
        *(FIGURES | {"digests": {"x": "ab"}}, FIGURES | {"digests": {}}),
        *(FIGURES | {"seconds": [1.0, 2.0]}, FIGURES | {"seconds": [1.0, 2.0, -1.0]}, FIGURES | {"frames": {"x": -1}}),
        *(FIGURES | {"agents": [ENTRY | {"rho": -1.0}]}, FIGURES | {"agents": [ENTRY | {"secret": 1}]}),
        *(FIGURES | {"digests": {"x" * 65: "ab" * 32}}, {k: v for k, v in FIGURES.items() if k != "frames"}),
    ],
}
LOOSE: list[tuple[str, Any]] = [
    *(("answered", [-(10**30), 2]), ("answered", [0, 10**30])),
    *(("found", "ab\n"), ("masks", {"values": [[2, ["ab\n", "cd"]]]})),
]


@pytest.mark.parametrize(("topic", "value"), [(topic, value) for topic in SAMPLES for value in SAMPLES[topic]])
def test_a_value_is_read_as_it_was_written(topic: str, value: Any) -> None:
    assert TOPICS.read(topic, TOPICS.write(topic, value), PEER) == value


def test_there_is_a_sample_of_each_topic() -> None:
    assert SAMPLES.keys() == BAD.keys() == TABLE.keys()


@pytest.mark.parametrize(("topic", "value"), [(topic, value) for topic in BAD for value in BAD[topic]])
def test_other_values_are_refused(topic: str, value: Any) -> None:
    with pytest.raises(BadFrame):
        TOPICS.read(topic, json.dumps(value).encode(), PEER)


@pytest.mark.parametrize(("topic", "value"), LOOSE)
def test_values_without_a_bound_are_refused(topic: str, value: Any) -> None:
    with pytest.raises(BadFrame):
        TOPICS.read(topic, json.dumps(value).encode(), PEER)


@pytest.mark.parametrize(("topic", "text"), [("pooled", "1" + "0" * 300), ("left", '{"values": [[2, 1]]}')])
def test_a_float_is_one_however_it_is_written(topic: str, text: str) -> None:
    value = TOPICS.read(topic, text.encode(), PEER)
    assert type(value if topic == "pooled" else value["values"][0][1]) is float


@pytest.mark.parametrize("number", [NAN, "Infinity", "-Infinity", "1e999", HUGE, "-" + HUGE])
@pytest.mark.parametrize("topic", SAMPLES)
def test_numbers_that_are_none_are_refused_in_each_place(topic: str, number: str) -> None:
    for value in SAMPLES[topic]:
        text = json.dumps(value)
        pieces = [(i, part) for i, part in enumerate(text.replace("]", " ]").replace(",", " ,").split(" "))]
        for place, part in pieces:
            if part.replace(".", "").replace("e-", "").replace("-", "").isdigit():
                bad = " ".join(number if i == place else one for i, one in pieces)
                if topic in ("answered", "stages") and number.strip("-") == HUGE:
                    continue  # above
                with pytest.raises(BadFrame):
                    TOPICS.read(topic, bad.encode(), PEER)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 10**5, b"null x", b'"\\ud800"', b" " * LONG + b"null"])
@pytest.mark.parametrize("topic", [*TABLE, ERROR, END, "unknown"])
def test_garbage_is_refused(topic: str, data: bytes) -> None:
    with pytest.raises(BadFrame):
        TOPICS.read(topic, data, PEER)


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
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
    bad = [(ROWS, b"x" * 9), (TOTAL, b"x"), (ERROR, packed(signature)), (END, packed(failure))]
    for topic, data in bad:
        with pytest.raises(BadFrame):
            TOPICS.read(topic, data, PEER)


@pytest.mark.parametrize("topic", TABLE)
def test_what_is_written_is_in_form(topic: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        TOPICS.write(topic, {"more": 1})


def test_records_are_bounded_by_the_network_file_alone() -> None:
    many = json.dumps(FACTS | {"counts": [[2, MOST_RECORDS]]}).encode()
    assert TOPICS.read("facts", many, Peer(2, "key"))["counts"] == [[2, MOST_RECORDS]]


def test_all_names_are_listed() -> None:
    found = names()
    assert len({*found}) == len(found)
    for topic, values in SAMPLES.items():
        named = isinstance(values[0], dict)
        expected = [f"{topic}.{name}" for name in values[0]] if named else [topic]
        assert [name for name in found if name.split(".")[0] == topic] == expected
