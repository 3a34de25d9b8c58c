"""Words of agents that would form a start, for tests of the pure parts of ZeroMQ."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from admmnet.graph.simple import Graph
from admmnet.identity.keys import Identity
from admmnet.transport.zmq.meeting import Call, Edge, Here, Start, end_statement, form, setting, sign_here
from admmnet.transport.zmq.wire import Word, sign_word

IDENTITIES = [Identity.fresh() for _ in range(7)]
KEYS = [one.public for one in IDENTITIES]
NETWORK, RUN = "network", "run"
LOCAL, MASKED = {"trust": setting("local")}, {"trust": setting("masked")}


def here(agent: int, **values: Any) -> Here:
    """Word HERE of an agent, with a fresh key, and a signature of the end that it has staged."""
    known: dict[str, Any] = {"network": NETWORK, "settings": LOCAL, "epk": secrets.token_bytes(32), "least": 2}
    known |= {"run": RUN, "lines": 4, "head": "ab" * 32} | values
    if known.get("staged") and "signature" not in known:
        said = end_statement(known["network"], known["run"], known["staged"])
        known["signature"] = IDENTITIES[agent].sign(said)
    return Here(agent=agent, **known)


def word(agent: int, round: int, **values: Any) -> bytes:
    """Signed word of an agent that has been charged for a round."""
    known: dict[str, Any] = {"run": RUN, "start": "start", "to": -1, "turn": 3, "lines": 4, "head": "ab" * 32}
    known |= {"said": bytes(32)} | values
    return sign_word(Word(agent=agent, round=round, **known), IDENTITIES[agent])


def call_of(
    heres: Iterable[Here], words: Sequence[bytes] = (), cut: Sequence[Edge] = (), void: Sequence[str] = ()
) -> Call:
    """START of these words as they are."""
    return Call([sign_here(one, IDENTITIES[one.agent]) for one in heres], list(words), list(cut), list(void))


def formed(
    graph: Graph, heres: Iterable[Here], words: Sequence[bytes] = (), cut: Sequence[Edge] = (), quorum: int = 2
) -> Start:
    """Start that follows from these words."""
    return form(call_of(heres, words, cut), KEYS[: len(graph)], graph, quorum)


def path(agents: int) -> Graph:
    """Path graph."""
    return Graph(agents, [(i, i + 1) for i in range(agents - 1)])


def ring(agents: int) -> Graph:
    """Ring graph."""
    return Graph(agents, [(i, (i + 1) % agents) for i in range(agents)])


def star(agents: int) -> Graph:
    """Star graph around agent 0."""
    return Graph(agents, [(0, i) for i in range(1, agents)])
