"""Sums along trees, frames in any order: one total for all members; and what is no sum ends the start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admmnet.errors import RunError
from admmnet.graph.tree import spanning_tree
from admmnet.transport.local import LocalWorld
from admmnet.transport.sweep import Partial, Unfit
from admmnet.transport.zmq.wire import Kind
from admmnet.types import Integers

from .summing import Network, check, path_of


def test_all_have_one_total() -> None:
    for seed in range(60):
        network = Network(seed)
        network.run()
        check(network)


# what is no sum


IMPOSSIBLE: dict[str, Callable[[Integers], Any]] = {
    "longer": lambda words: [*words, 7],
    "shorter": lambda words: words[:-1],
    "nothing": lambda words: [],
    "more silent than words": lambda words: [99, *words[1:]],
    "negative count": lambda words: [-1, *words[1:]],
    "a stranger is silent": lambda words: [1, 5, *words[1:]],
    "a negative agent": lambda words: [1, -(2**63), *words[1:]],
    "twice silent": lambda words: [2, 1, 1, *words[1:]],
    "all silent, and numbers": lambda words: [3, 0, 1, 2, *words[-3:]],
    "some speak, and no numbers": lambda words: [0],
}


@pytest.mark.parametrize("kind", [Kind.UP, Kind.DOWN])
@pytest.mark.parametrize("how", IMPOSSIBLE)
def test_who_sends_what_is_no_sum_is_named(how: str, kind: Kind) -> None:
    """A leaf's part, or the total of the root."""
    processes, liar = path_of(3, 0 if kind is Kind.UP else 1)
    liar.spoil = lambda at, words: IMPOSSIBLE[how](words) if at is kind and len(liar.totals) == 2 else words
    liar.network.run()
    blamed = [reason for process in processes for reason in process.reasons]
    assert blamed
    lengths = ("longer", "shorter", "some speak, and no numbers")
    told = "numbers in place of 3" if how in lengths else "an impossible list of silent agents"
    if how == "all silent, and numbers" and kind is Kind.DOWN:
        told = "a sum of no agents, with numbers"
    assert all(f"{'agent' if kind is Kind.UP else 'process'} {liar.rank} sent" in reason for reason in blamed)
    assert any(told in reason for reason in blamed), blamed


FRAMING: dict[str, Callable[[Integers], Any]] = {
    "a silent agent of another branch": lambda words: [1, 0, *words[1:]],
    "its parent is silent": lambda words: [1, 3, *words[1:]],
    "another length, through who is silent": lambda words: [0, 7],
}


@pytest.mark.parametrize("how", FRAMING)
def test_who_hands_on_a_lie_is_not_blamed_for_it(how: str) -> None:
    """The end of a path of five lies in the round in which its parent, agent 3, is silent; that finds out."""
    processes, liar = path_of(5, 4)
    liar.spoil = lambda at, words: FRAMING[how](words) if at is Kind.UP and len(liar.totals) == 4 else words
    liar.network.run()
    blamed = [reason for process in processes for reason in process.reasons]
    assert len(blamed) == 1
    assert blamed[0].startswith("agent 4 sent")


def test_vectors_of_two_lengths_in_one_process_are_refused() -> None:
    graph = nx.path_graph(3)
    transport = LocalWorld().connect(graph)
    parts = {0: np.ones(3, dtype=np.int64), 1: np.ones(4, dtype=np.int64), 2: None}
    with pytest.raises(RunError, match=r"agent 1 gives 4 numbers in place of 3: it does not run the same model"):
        transport.reduce(parts, lambda lost: spanning_tree(graph, lost), 0, 3)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 6), max_size=12), st.integers(1, 6))
def test_any_numbers_are_a_sum_or_refused(values: list[int], agents: int) -> None:
    words = np.array(values, dtype=np.int64)
    try:
        found = Partial.read(words, 3, np.arange(agents))
    except Unfit:
        return
    assert found.words.tolist() == values
    total = found.total(agents)
    assert (total is None) == (found.value is None)
    speaking = set(range(agents)) - set(found.silent)
    assert (total is None) == (not speaking)
    assert total is None or (set(total.agents) == speaking and total.value.shape == (3,))
