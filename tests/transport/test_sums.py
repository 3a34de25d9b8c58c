"""Sums while processes are lost at random instants: one total for all that go on; and what is no sum.

A sample of trials here, 20,000 with ADMMNET_TRIALS=20000 in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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
from admmnet.transport.zmq.sums import Sums
from admmnet.transport.zmq.wire import Kind, integers, payload_of_integers
from admmnet.types import Integers

from .summing import Network, Process, Recorded, check, path_of, said

TRIALS = int(os.environ.get("ADMMNET_TRIALS", "300"))


def trial(seed: int) -> int:
    network = Network(seed)
    network.run()
    return check(network)


@pytest.mark.parametrize("part", range(10))
def test_all_that_go_on_have_one_total(part: int) -> None:
    assert sum(trial(seed) for seed in range(part, TRIALS, 10)) > 0


def fails(seeds: Sequence[int]) -> bool:
    for seed in seeds:
        try:
            trial(seed)
        except AssertionError:
            return True
    return False


def test_the_trials_find_totals_that_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Down the tree alone, some wait for ever."""
    give = Sums._give

    def timid(self: Sums, processes: Sequence[int]) -> None:
        if processes is not self._around:
            give(self, processes)

    monkeypatch.setattr(Sums, "_give", timid)
    assert fails(range(100))


def test_the_trials_find_attempts_that_are_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier attempt sent up lacks nobody that was lost since."""
    join = Sums._join

    def lax(self: Sums, found: Any, place: Any, tree: Any, ups: Any, attempt: int) -> str | None:
        return join(self, found, place, tree, ups, int(integers(ups[place].payload)[0]))

    monkeypatch.setattr("admmnet.transport.zmq.sums._older", lambda payload, attempt: False)
    monkeypatch.setattr(Sums, "_join", lax)
    assert fails(range(400))


# what is no sum


IMPOSSIBLE: dict[str, Callable[[Integers], Any]] = {
    "longer": lambda words: [*words, 7],
    "shorter": lambda words: words[:-1],
    "nothing": lambda words: [],
    "attempt alone": lambda words: words[:1],
    "more silent than words": lambda words: [words[0], 99, *words[2:]],
    "negative count": lambda words: [words[0], -1, *words[2:]],
    "a stranger is silent": lambda words: [words[0], 1, 5, *words[2:]],
    "a negative agent": lambda words: [words[0], 1, -(2**63), *words[2:]],
    "twice silent": lambda words: [words[0], 2, 1, 1, *words[2:]],
    "all silent, and numbers": lambda words: [words[0], 3, 0, 1, 2, *words[-3:]],
    "some speak, and no numbers": lambda words: [words[0], 0],
}


@pytest.mark.parametrize("kind", [Kind.UP, Kind.DOWN])
@pytest.mark.parametrize("how", IMPOSSIBLE)
def test_who_sends_what_is_no_sum_is_lost_and_named(how: str, kind: Kind) -> None:
    """A leaf's part, or the total of the root: on a path of three the others go on without."""
    processes, liar = path_of(3, 0 if kind is Kind.UP else 1)
    liar.spoil = lambda at, words: IMPOSSIBLE[how](words) if at is kind and len(liar.totals) == 2 else words
    liar.network.run()
    assert liar.killed
    blamed = [reason for process in processes for reason in process.reasons if "sent" in reason]
    assert blamed
    lengths = ("longer", "shorter", "some speak, and no numbers")
    told = "numbers in place of 3" if how in lengths else "list of silent agents cannot be"
    if how == "all silent, and numbers" and kind is Kind.DOWN:
        told = "a sum in which nobody speaks, and numbers"
    assert all(f"{'agent' if kind is Kind.UP else 'process'} {liar.rank} sent" in reason for reason in blamed)
    assert any(told in reason for reason in blamed), blamed


UNFIT = IMPOSSIBLE | {
    "an attempt at which nobody is": lambda words: [words[0] + 3, *words[1:]],
    "an attempt before the first": lambda words: [-1, *words[1:]],
}


@pytest.mark.parametrize("how", UNFIT)
def test_a_branch_whose_sum_is_unfit_says_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as most of its neighbours do not accuse its process: nobody waits, and all have one total."""
    processes, liar = path_of(4, 3)
    monkeypatch.setattr(Recorded, "lose", lambda self, process, reason: self.reasons.append(reason))
    liar.spoil = lambda at, words: UNFIT[how](words) if at is Kind.UP and len(liar.totals) == 2 else words
    liar.network.run()
    assert [process.finished for process in processes] == [True] * 4
    totals = [[said(total) for total in process.totals] for process in processes]
    assert totals[1:] == totals[:-1]
    agents = [() if total is None else total.agents for total in processes[0].totals]
    assert 3 in agents[1]
    assert agents[2] == tuple(i for i in agents[2] if i != 3) != ()
    assert [reason.startswith("agent 3 sent") for reason in processes[2].reasons] == [True]


@pytest.mark.parametrize("liar", [0, 2])
def test_a_total_counts_from_above_in_the_tree_alone(liar: int) -> None:
    """An agent tells its neighbours a total without agent 3 before they have said anything themselves."""
    processes, teller = path_of(5, liar)
    root = spanning_tree(teller.network.graph).root  # type: ignore[union-attr]
    assert root == 2
    forged = np.array([0, 1, 3, 7, 7, 7])
    send = teller.send

    def early(peer: int, kind: Kind, **fields: Any) -> None:
        if kind is Kind.UP and len(teller.totals) == 2:
            payload = payload_of_integers(forged)
            Process.send(teller, peer, Kind.DOWN, channel=0, origin=liar, round=2, payload=payload)
        send(peer, kind, **fields)

    teller.send = early  # type: ignore[method-assign]
    if liar == root:  # from there it is believed: receipts alone can tell
        teller.spoil = lambda kind, words: forged if kind is Kind.DOWN and len(teller.totals) == 2 else words
    teller.network.run()
    assert not [process.reasons for process in processes if process.reasons]
    told = [said(process.totals[2]) for process in processes if process is not teller]
    assert told[1:] == told[:-1]
    assert (told[0] == ([7, 7, 7], (0, 1, 2, 4))) == (liar == root)


FRAMING: dict[str, Callable[[Integers], Any]] = {
    "a silent agent of another branch": lambda words: [words[0], 1, 0, *words[2:]],
    "its parent is silent": lambda words: [words[0], 1, 3, *words[2:]],
    "another length, through who is silent": lambda words: [words[0], 0, 7],
}


@pytest.mark.parametrize("how", FRAMING)
def test_who_hands_on_a_lie_is_not_blamed_for_it(how: str) -> None:
    """The end of a path of five lies in the round in which its parent, agent 3, is silent; it finds out and stays."""
    processes, liar = path_of(5, 4)
    liar.spoil = lambda at, words: FRAMING[how](words) if at is Kind.UP and len(liar.totals) == 4 else words
    liar.network.run()
    assert [process.killed for process in processes] == [False, False, False, False, True]
    blamed = [reason for process in processes for reason in process.reasons if "sent" in reason]
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
