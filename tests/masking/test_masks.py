"""Masks: who shares them, what they are made of, that they cancel, that none is used twice, and who asks for them."""

from __future__ import annotations

import hashlib
import math
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from admmnet.errors import RequestError
from admmnet.holder import REFUSED, Ask, Door, Holder, Released
from admmnet.holder.measurements import GradientSum
from admmnet.masking import Attempt, Masks, StartKey, partners_of, start_of, stream
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract, MemoryLedger, Promise
from admmnet.privacy.events import DiscreteGaussian
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import Logistic
from admmnet.types import Integers
from tests.planned import contract_for

from .crew import RUN, crew

U = (0, 1, 2, 3, 4)
SIZES = [(size, colluders) for size in range(2, 10) for colluders in range(size - 1)]


@pytest.mark.parametrize(("size", "colluders"), SIZES)
def test_no_k_agents_cut_off_others_and_no_graph_that_holds_so_much_has_fewer_edges(size: int, colluders: int) -> None:
    participants = tuple(3 * i + 1 for i in range(size))  # numbers are not places
    graph = nx.Graph((i, j) for i in participants for j in partners_of(i, participants, colluders))
    assert all(set(graph[i]) == set(partners_of(i, participants, colluders)) for i in participants)
    assert set(graph) == set(participants)
    for out in combinations(participants, colluders):
        assert nx.is_connected(graph.subgraph(set(participants) - set(out)))
    least = size - 1 if colluders == 0 else math.ceil((colluders + 1) * size / 2)
    assert graph.number_of_edges() == least


@pytest.mark.parametrize(
    ("participants", "colluders"),
    [((0, 1), 1), ((0,), 0), ((0, 1, 2), -1), ((2, 1, 0), 1), ((0, 0, 1), 1), ((1, 2, 3), 1), ((0, 1, 9), 1)],
)
def test_participants_that_hide_nobody_are_refused(participants: tuple[int, ...], colluders: int) -> None:
    with pytest.raises(RequestError):
        crew(5)[0].words(Attempt(1, participants, colluders), b"", 4)
    if participants[-1] != 9:
        with pytest.raises(RequestError):
            partners_of(0, participants, colluders)


@pytest.mark.parametrize("colluders", [0, 1, 2, 3])
def test_masks_add_up_to_zero_and_each_alone_does_not(colluders: int) -> None:
    masks, attempt = crew(5, colluders=colluders), Attempt(1, U, colluders)
    words = [masks[i].words(attempt, b"context", 7) for i in U]
    assert not np.sum(words, axis=0).any()
    assert np.all(words)


def test_a_pair_s_words_are_chacha20_under_a_key_of_the_context() -> None:
    """As an implementation written from RFC 8439, section 2.3, gave them under HMAC-SHA256(key, context)."""
    words = stream(b"k" * 32, b"context", 20)
    digest = "e740e051e5bd93272a632a4a18022e0b248a9a2e2519dfc36014b8aa9984f006"
    assert hashlib.sha256(words.tobytes()).hexdigest() == digest
    assert words[:2].tolist() == [715800391960658434, 10285657676444102238]


KEYS = {i: StartKey() for i in U}
PUBLICS = {i: key.public for i, key in KEYS.items()}
START = start_of(RUN, "settings", PUBLICS)
OTHERS = {
    "start": (start_of("cd" * 32, "settings", PUBLICS), Attempt(1, U, 0), b"context"),
    "settings": (start_of(RUN, "others", PUBLICS), Attempt(1, U, 0), b"context"),
    "keys": (start_of(RUN, "settings", PUBLICS | {4: StartKey().public}), Attempt(1, U, 0), b"context"),
    "attempt": (START, Attempt(2, U, 0), b"context"),
    "participants": (START, Attempt(1, U[:4], 0), b"context"),
    "colluders": (START, Attempt(1, U, 1), b"context"),
    "context": (START, Attempt(1, U, 0), b"another"),
}
"""The partner of agent 0 is agent 1 in all of them, but for the colluders."""


@pytest.mark.parametrize("changed", OTHERS)
def test_who_was_told_something_else_has_other_masks(changed: str) -> None:
    start, attempt, context = OTHERS[changed]
    own = Masks(0, KEYS[0], PUBLICS, START, 0).words(Attempt(1, U, 0), b"context", 50)
    other = Masks(0, KEYS[0], PUBLICS, start, 0).words(attempt, context, 50)
    assert np.count_nonzero(own - other) >= 49  # each word is equal with probability 2^-64


def test_keys_are_those_of_a_start_and_no_attempt_is_answered_twice() -> None:
    first, second = (crew(5)[0].words(Attempt(3, U, 1), b"", 50) for _ in range(2))
    assert np.count_nonzero(first - second) >= 49
    masks = crew(5)[0]
    masks.words(Attempt(3, U, 1), b"", 4)
    for number in (3, 2, 1):
        with pytest.raises(RequestError, match="no attempt is answered twice"):
            masks.words(Attempt(number, U, 1), b"another", 4)
    masks.words(Attempt(4, U, 1), b"", 4)


def test_masked_words_are_uniform() -> None:
    """Chi-square over bytes, 16 tests: a false alarm in all with probability 1.6e-5; what is not masked fails."""
    words = np.concatenate([crew(4)[0].words(Attempt(1, U[:4], 1), b"", 4096) for _ in range(4)])
    plain = np.rint(np.random.default_rng(0).normal(0.0, 2.0**40, words.size)).astype(np.int64)
    assert all(_uniform(given, place) for given in (words, words + plain) for place in range(8))
    assert not all(_uniform(plain, place) for place in range(8))


def _uniform(words: Integers, place: int) -> bool:
    counts = np.bincount(words.view(np.uint8)[place::8], minlength=256)
    return bool(stats.chisquare(counts).pvalue > 1e-6)


# behind the door: it masks by the contract, and by the attempt that the loop has begun

SUM = GradientSum(np.zeros(3), 64.0, 2.0**-28)


def door(contract: Contract, colluders: int | None = 2) -> tuple[Door, MemoryLedger]:
    ledger = MemoryLedger(contract)
    masks = None if colluders is None else crew(5, colluders=colluders)[0]
    return Door(Holder(np.eye(3), np.ones(3)), 0, Logistic(), ledger, AgentStreams(0, 1), masks), ledger


def planned(agents: int = 5, colluders: int = 2, sums: int = 2) -> Contract:
    """Contract of a budget that so many sums come to."""
    charges = ((DiscreteGaussian(1.001, SUM.sigma, SUM.grid, 3, agents, colluders), sums),)
    epsilon = Totals.of(charges, "proven").epsilon_proven(1e-4) * (1.0 + 1e-9)
    return contract_for(epsilon, 1e-4, charges, colluders=colluders)


@pytest.mark.parametrize(("promised", "masks"), [(None, 2), (2, None), (2, 1), (0, None)])
def test_masks_are_those_of_the_contract(promised: int | None, masks: int | None) -> None:
    with pytest.raises(RequestError, match=rf"colluders = {promised}, and the agent's masks are for {masks}"):
        door(Contract(Promise(1.0, 1e-4, colluders=promised)), masks)


def test_what_is_charged_says_who_takes_part_and_k_of_the_contract() -> None:
    """No sum is answered before an attempt, nor twice in one: refused before anything is charged."""
    at, ledger = door(planned())
    with pytest.raises(RequestError, match="before an attempt has begun"):
        at.answer(Ask(SUM), 0)
    for number, participants in ((1, U), (2, (0, 1, 2, 4))):
        at.attempt(number, participants)
        before = ledger.totals
        assert isinstance(at.answer(Ask(SUM), 0), Released)
        event = DiscreteGaussian(SUM.sensitivity(at._known), SUM.sigma, SUM.grid, 3, len(participants), 2)
        assert ledger.totals.mu_squared == before.plus(event).mu_squared
        assert (ledger.totals.colluders, ledger.events) == (2, number)
        with pytest.raises(RequestError, match="no attempt is answered twice"):
            at.answer(Ask(SUM), 0)
        assert ledger.events == number
    at.attempt(3, U)
    assert at.answer(Ask(SUM), 0) is REFUSED


@pytest.mark.parametrize(("agents", "colluders", "sums"), [(5, 2, 2), (4, 2, 1), (3, 0, 1), (1, 0, 0)])
def test_more_participants_than_planned_get_what_the_budget_affords(agents: int, colluders: int, sums: int) -> None:
    """Of two sums of five: the more hide in one, the more it tells those who know all masks, who have a budget, too."""
    at, ledger = door(contract := planned(agents, colluders), colluders)
    for number in range(1, sums + 2):
        at.attempt(number, U)
        assert (at.answer(Ask(SUM), 0) is REFUSED) is (number > sums)
    assert ledger.events == sums
    alone = ledger.totals.unmasked
    for totals, most in ((ledger.totals, contract.most()), (alone, contract.most(alone=True))):
        assert most is not None
        assert (totals or ledger.totals).epsilon_proven(1e-4) <= most.epsilon * (1.0 + 1e-9)


def test_an_attempt_that_hides_nobody_is_not_answered() -> None:
    at, ledger = door(planned())
    for number, participants in enumerate([(0, 1, 2), (1, 2, 3, 4), (0, 1, 2, 9)], 1):
        at.attempt(number, participants)
        with pytest.raises(RequestError):
            at.answer(Ask(SUM), 0)
    assert ledger.events == 0
