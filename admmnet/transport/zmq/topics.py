"""Words to all, each of a topic with a form of its own: nothing else is told (docs/protocol.md, "Told values")."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from admmnet.transport.hosts.network import Peer
from admmnet.transport.zmq.wire import LONG, BadFrame, Failure, Signature, packed, unpacked

ROWS, TOTAL, ERROR, END = "rows", "total", "error", "end"
"""Topics of every run: numbers of agents, the total of a sum, an error in place of a word, and a signature of the end.
"""


class Topic(NamedTuple):
    """What an agent can say of a topic."""

    form: Any
    """Type of its value, with ranges."""
    fits: Callable[[Any, Peer], bool] = lambda value, peer: True
    """Whether a value is one that this agent of the network file may say."""


class Topics:
    """All topics of a run by their names."""

    def __init__(self, table: Mapping[str, Topic]) -> None:
        self.table = table

    def write(self, topic: str, value: Any) -> bytes:
        """Payload of a value."""
        if topic in (ROWS, TOTAL):
            return bytes(value)
        if topic in (ERROR, END):
            return packed(value)
        payload = json.dumps(value).encode()
        msgspec.json.decode(payload, type=self.table[topic].form)
        return payload

    def read(self, topic: str, payload: bytes, peer: Peer) -> Any:
        """Undo ``write``; BadFrame if the value has another form, or is none that this agent may say."""
        if topic in (ROWS, TOTAL):
            if len(payload) % 8:
                raise BadFrame
            return payload
        if len(payload) > LONG:
            raise BadFrame
        if topic in (ERROR, END):
            return unpacked(payload, Failure if topic == ERROR else Signature)
        known = self.table.get(topic)
        try:
            value = None if known is None else msgspec.json.decode(payload, type=known.form)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadFrame from None
        if known is None or not known.fits(value, peer):
            raise BadFrame
        return msgspec.json.decode(msgspec.json.encode(value))
