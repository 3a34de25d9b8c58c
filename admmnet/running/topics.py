"""Values that the processes of a run tell each other over ZeroMQ, each with its form: nothing else leaves in words.

docs/protocol.md, "Told values", lists each with its source.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import Meta, Struct

from admmnet.privacy.ledger.form import Digest
from admmnet.record.forms import AgentEntry
from admmnet.transport.hosts import Peer
from admmnet.transport.zmq.wire import Name, Round, Topic, Topics
from admmnet.types import Figure

MOST_RECORDS = 2**40
"""Largest number of records or features that another process is believed: sums of these are exact in float64."""
Agent = Annotated[int, Meta(ge=0, lt=2**31)]
Whole = Annotated[int, Meta(ge=0, le=MOST_RECORDS)]
Number = Annotated[int, Meta(ge=1, le=MOST_RECORDS)]
Share = Annotated[float, Meta(gt=0.0, le=1e300)]
Hexadecimal = Annotated[str, Meta(pattern=r"^[0-9a-f]*\Z", max_length=128)]


class _Parts(Struct, forbid_unknown_fields=True):
    """Base of a value with named parts."""


class Facts(_Parts):
    """The first word of a start: what planning needs of each agent."""

    machine: Annotated[str, Meta(max_length=255)]
    """host name"""
    kernel: Annotated[str, Meta(max_length=16)]
    """which compiled code computes"""
    account: bool
    """whether it has an account"""
    deltas: dict[Agent, Annotated[float, Meta(gt=0.0, lt=1.0)] | None]
    """delta of its account"""
    counts: dict[Agent, Number]
    """n_i, its records"""
    width: dict[Agent, Number]
    """its features"""
    tests: dict[Agent, Whole]
    """its test records, for which nobody is charged"""


class Shares(_Parts):
    """Nominal budget that an agent has left, or the share of sensitivity in the noise of masked sums, which follows."""

    values: dict[Agent, Share]


class MaskKeys(_Parts):
    """X25519 key for masks of this start, and its signature."""

    values: dict[Agent, tuple[Hexadecimal, Hexadecimal]]


class Figures(_Parts):
    """The last words of a run: what an agent says of itself in the summary."""

    agents: list[AgentEntry]
    """figures of `per_agent`"""
    digests: dict[Annotated[str, Meta(max_length=64)], Digest]
    """digest of its ledger"""
    seconds: tuple[Figure, Figure, Figure]
    """whole seconds in all, none for solves in a private run, and in exchanges"""
    frames: dict[Name, Whole]
    """frames of the relay that it has dropped"""


def _own(*names: str) -> Any:
    """Fits: an agent speaks for itself alone."""

    def fits(value: Any, peer: Peer) -> bool:
        return all([*getattr(value, name)] in ([peer.agent], []) for name in names)

    return fits


def _facts(value: Facts, peer: Peer) -> bool:
    whole = all([*told] == [peer.agent] for told in (value.counts, value.width, value.tests))
    most = MOST_RECORDS if peer.records is None else peer.records
    return whole and _own("deltas")(value, peer) and value.counts[peer.agent] <= most


def _figures(value: Figures, peer: Peer) -> bool:
    named = [int(found[1]) for name in value.digests if (found := re.fullmatch(r"ledger/agent-(\d+)\.jsonl", name))]
    return [one.agent for one in value.agents] == named == [peer.agent] and len(value.digests) == 1


TABLE = {
    "ready": Topic(None),
    "facts": Topic(Facts, _facts),
    "left": Topic(Shares, _own("values")),
    "ratio": Topic(Shares, _own("values")),
    "masks": Topic(MaskKeys, _own("values")),
    "answered": Topic(tuple[Round, Round]),
    "found": Topic(Hexadecimal),
    "listens": Topic(bool),
    "verdict": Topic(Annotated[float, Meta(ge=0.0, le=9.0)]),
    "pooled": Topic(float | None),
    "figures": Topic(Figures, _figures),
}
"""Topics by their names; `ready` says nothing but that an agent has come so far."""
TOPICS = Topics(TABLE)
