"""When two networks are the same, and what a refused topology says."""

from __future__ import annotations

import networkx as nx
import pytest

from admmnet.errors import RequestError
from admmnet.graph import load_topology


def same(first: nx.Graph, second: nx.Graph) -> bool:
    """Equal nodes, edges and attributes, in equal order."""
    return (
        list(first.nodes(data=True)) == list(second.nodes(data=True))
        and list(first.edges(data=True)) == list(second.edges(data=True))
        and [list(first[i]) for i in first] == [list(second[i]) for i in second]
    )


def refusal(source: str, seed: int = 0) -> str:
    with pytest.raises(RequestError) as caught:
        load_topology(source, seed=seed)
    message = str(caught.value)
    assert message.count("\n") <= 1
    return message
