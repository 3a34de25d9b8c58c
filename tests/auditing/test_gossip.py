"""What strangers learn of gossip: values that are solved for, and a matched filter on runs through the door."""

from __future__ import annotations

import json

import numpy as np
import pytest

from admmnet.auditing.gossip import GossipTrials, given_away
from admmnet.errors import RequestError
from admmnet.graph import network_of
from tests.command_runs import Admmnet

HALF = ("--topology", "path:4", "--observers", "0", "--rounds", "4", "--trials", "20", "--epsilon", "30")


@pytest.mark.parametrize(
    ("spec", "observers", "rounds", "count"),
    [("ring:20", (0,), 5, 10), ("ring:20", (0,), 10, 19), ("regular:20:3", (0,), 30, 15), ("complete:8", (0,), 1, 7)],
)
def test_whose_values_plain_gossip_gives_away(spec: str, observers: tuple[int, ...], rounds: int, count: int) -> None:
    assert len(given_away(network_of(spec, seed=0), observers, rounds)) == count


@pytest.mark.parametrize(("spec", "observers"), [("path:6", (0,)), ("star:6", (2,)), ("grid:2x3", (0, 5))])
def test_it_is_the_row_space_of_what_is_heard(spec: str, observers: tuple[int, ...]) -> None:
    graph = network_of(spec, seed=0)
    size = len(graph)
    mixing = np.zeros((size, size))
    for i, j in graph.edges:
        mixing[i, j] = mixing[j, i] = 1.0 / (1.0 + max(graph.degree(i), graph.degree(j)))
    np.fill_diagonal(mixing, 1.0 - mixing.sum(axis=1))
    heard = sorted({*observers, *(j for i in observers for j in graph[i])})
    for rounds in range(1, 5):
        rows = np.vstack([np.linalg.matrix_power(mixing, k)[heard] for k in range(rounds)])
        onto = np.linalg.pinv(rows, rcond=1e-9) @ rows
        expected = [u for u in graph if u not in observers and onto[u, u] > 1.0 - 1e-6]
        assert given_away(graph, observers, rounds) == expected


def test_the_program_does_what_its_proof_says_and_halved_noise_is_found() -> None:
    trials = GossipTrials(network_of("ring:5", seed=0), (0,), 4, 30.0, 1e-5)
    found, halved = trials.measure(20, 1), trials.measure(20, 1, bug="halve-noise")
    assert [one.ledger.agent for one in found] == [1, 2, 3, 4]
    assert all(one.holds for one in found)
    assert not any(one.holds for one in halved)
    for one in found:
        assert one.ledger.mu_linear is not None
        assert 0.4 * one.ledger.mu_linear < one.mu  # the filter is the best one: a poorer one would see less


def test_the_command(admmnet: Admmnet) -> None:
    found = json.loads(admmnet.ok("audit", "gossip", *HALF, "--json").out)
    assert found["solved_without_noise"] == [1, 2, 3]
    assert [agent["distance"] for agent in found["agents"]] == [1, 2, 3]
    assert all(agent["holds"] for agent in found["agents"])
    bugged = admmnet("audit", "gossip", *HALF, "--bug", "halve-noise")
    assert bugged.code == 1
    assert "the program violates its proof" in bugged.err
    assert "edges away" in bugged.out
    for words, reason in (
        (("--observers", "9"), "name some of the agents 0 to 7"),
        (("--trials", "3"), "too few"),
        (("--bug", "forget-charges"), "take halve-noise"),
    ):
        assert reason in admmnet.refused("audit", "gossip", *words)


def test_wrong_numbers_are_refused() -> None:
    trials = GossipTrials(network_of("path:3", seed=0), (0,), 2, 10.0, 1e-5)
    with pytest.raises(RequestError, match="between 0 and 1"):
        trials.measure(20, 0, confidence=1.0)
