"""Forms: one spelling of each value, and every other one refused with its place."""

from __future__ import annotations

import math
import threading

import msgspec
import numpy as np
import pytest

from admmnet.errors import CheckFailed
from admmnet.forms import decode, encode, ready


class Number(msgspec.Struct, frozen=True, tag_field="kind", tag="number"):
    value: float
    count: int | None = None


class Table(msgspec.Struct, frozen=True, tag_field="kind", tag="table", forbid_unknown_fields=True):
    rows: dict[str, list[float]]


@pytest.mark.parametrize("indent", [None, 1])
def test_reads_what_it_writes(indent: int | None) -> None:
    for form in (Number(1e-9), Number(2.0, 3), Table({"a": [1.0], "b": []})):
        text = encode(form, indent=indent)
        assert decode(Number | Table, text, "file", indent=indent) == form  # type: ignore[arg-type]
    assert encode(Number(np.float64(1e-9), np.int64(3))) == encode(Number(1e-9, 3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="object has no form"):
        encode(object())
    for number in (Number(math.nan), Number(-math.inf), Table({"a": [math.inf]})):
        with pytest.raises(ValueError, match="not JSON compliant"):
            encode(number)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b'{"kind":"number","value":1,"count":null}', "not as admmnet writes it"),
        (b'{"kind":"number","value":1.0}', "not as admmnet writes it"),
        (b'{"kind":"number","value":2.0,"value":1.0,"count":null}', "not as admmnet writes it"),
        (b'{"kind":"number","count":null,"value":1.0}', "not as admmnet writes it"),
        (b'{"kind":"number","value":1.0,"count":null,"more":1}', "not as admmnet writes it"),
        (b'{"kind":"number","value":"1"}', "value: expected a number; it is '1'"),
        (b'{"kind":"number","value":1.0', "truncated"),
        (b'{"kind":"table","rows":{"a":[1.0,"s"]}}', r"rows\[...\]\[1\]: expected a number, got text"),
        (b'{"kind":"table","rows":{},"more":1}', "unknown key `more`"),
        (b'{"kind":"other"}', "kind: Invalid value 'other'"),
        (b'{"kind":"n\xff"}', "file, line 2: "),
        (b"", "truncated"),
        (b"[" * 100_000, "file, line 2: "),
    ],
)
def test_refuses_every_other_spelling(text: bytes, fault: str) -> None:
    with pytest.raises(CheckFailed, match=f"^file, line 2: .*{fault}|^{fault}"):
        decode(Number | Table, text, "file, line 2")  # type: ignore[arg-type]


READING, GO = threading.Event(), threading.Event()


def slowly() -> bool:
    READING.set()
    return not GO.wait(20)


class Inner(msgspec.Struct):
    value: slowly() or int  # type: ignore[valid-type]


class Outer(msgspec.Struct):
    inner: Inner


def test_a_second_thread_waits_until_a_form_is_read_whole() -> None:
    found: list[Outer] = []

    def convert() -> None:
        found.append(msgspec.convert({"inner": {"value": 1}}, ready(Outer)))

    read = [threading.Thread(target=convert) for _ in range(2)]
    read[0].start()
    assert READING.wait(20)
    read[1].start()
    read[1].join(0.1)  # without a lock the process ends here
    GO.set()
    for thread in read:
        thread.join(20)
    assert found == [Outer(Inner(1))] * 2
