"""Blocks and processes of agents: the same for any number of processes, neighbours close together, none left out."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.graph import load_topology
from admmnet.transport import Blocks, automatic_block, layout, owners_of


def scrambled(graph: nx.Graph, seed: int) -> nx.Graph:
    names = np.random.default_rng(seed).permutation(len(graph)).tolist()
    return nx.relabel_nodes(nx.convert_node_labels_to_integers(graph), dict(enumerate(names)))


def test_a_path_in_even_runs() -> None:
    for agents in range(1, 9):
        for size in range(1, agents + 1):
            owners = owners_of(layout(nx.path_graph(agents), 1, size))
            assert [len(own) for own in owners] == [agents * (k + 1) // size - agents * k // size for k in range(size)]
            assert [agent for own in owners for agent in own] == list(range(agents))


def test_too_many_processes() -> None:
    with pytest.raises(RequestError, match=r"6 ranks for 5 agents.*start 5 ranks or fewer"):
        layout(nx.path_graph(5), 1, 6)
    with pytest.raises(RequestError, match=r"4 ranks for 3 blocks of 2 agents.*lower --block to 1"):
        layout(nx.path_graph(6), 2, 4)


def crossing(graph: nx.Graph, found: Blocks) -> int:
    owner = {i: rank for rank, own in enumerate(owners_of(found)) for i in own}
    return sum(owner[i] != owner[j] for i, j in graph.edges)


@pytest.mark.parametrize("spec", ["ring:200", "grid:10x20", "path:131", "geometric:150:0.15"])
@pytest.mark.parametrize("size", [2, 5])
def test_neighbours_stay_together(spec: str, size: int) -> None:
    """Names drawn at random say nothing; the layout cuts a small part of what cutting by names does."""
    graph = scrambled(load_topology(spec, seed=0), 3)
    runs = pairwise([rank * len(graph) // size for rank in range(size + 1)])
    plain = tuple((tuple(range(low, high)),) for low, high in runs)
    assert crossing(graph, layout(graph, 1, size)) < 0.5 * crossing(graph, plain)


@pytest.mark.parametrize("spec", ["complete:3", "regular:20:3", "erdos-renyi:9:0.4", "star:7", "grid:3x4"])
def test_with_a_process_an_agent_each_has_its_own_number(spec: str) -> None:
    """A process that was started for agent 3 has the address, the key and the records of agent 3."""
    graph = scrambled(load_topology(spec, seed=0), 1)
    assert owners_of(layout(graph, 1, len(graph))) == tuple((i,) for i in range(len(graph)))


@pytest.mark.parametrize("agents", [65, 100, 333, 1000])
def test_blocks_do_not_depend_on_the_processes(agents: int) -> None:
    """Nor on the order of edges in a file."""
    graph = scrambled(nx.random_regular_graph(4, agents, seed=1) if agents % 2 == 0 else nx.cycle_graph(agents), 2)
    turned = nx.Graph()
    turned.add_nodes_from(reversed(list(graph)))
    turned.add_edges_from((j, i) for i, j in reversed(list(graph.edges)))
    block = automatic_block(agents, 1)
    whole = sorted(part for own in layout(graph, block, 1) for part in own)
    assert sorted(i for part in whole for i in part) == list(range(agents))
    assert all(list(part) == sorted(part) for part in whole)
    assert sorted(map(len, whole))[1:] == [block] * (len(whole) - 1)
    for size in (2, 5, 8):
        assert automatic_block(agents, size) == block
        assert sorted(part for own in layout(turned, block, size) for part in own) == whole


def test_no_rank_is_left_without_a_block_or_has_two_where_one_each_would_do() -> None:
    assert [automatic_block(agents, 1) for agents in (5, 64, 65, 10_000)] == [1, 1, 8, 128]
    assert automatic_block(1000, 16) == 63  # 62 would be 17 blocks, and two at one rank
    for agents in (*range(1, 300), 1000, 1023, 4097, 10_000):
        wanted = automatic_block(agents, 1)
        for size in range(1, min(agents, 150) + 1):
            block, even = automatic_block(agents, size), -(-agents // size)
            blocks = -(-agents // block)
            assert blocks >= size
            assert block <= wanted
            if even <= wanted and -(-agents // even) == size:
                assert blocks == size
            elif wanted <= agents // size:
                assert block == wanted
