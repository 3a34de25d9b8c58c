"""Masks: who shares them, what they are made of, that they cancel, and that none is used twice."""

from __future__ import annotations

import hashlib
import math
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from admmnet.errors import RequestError
from admmnet.masking import Attempt, MaskKey, Masks, partners_of, start_of
from admmnet.masking.masks import stream
from admmnet.types import Integers

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


KEYS = {i: MaskKey() for i in U}
PUBLICS = {i: key.public for i, key in KEYS.items()}
START = start_of(RUN, "settings", PUBLICS)
OTHERS = {
    "start": (start_of("cd" * 32, "settings", PUBLICS), Attempt(1, U, 0), b"context"),
    "settings": (start_of(RUN, "others", PUBLICS), Attempt(1, U, 0), b"context"),
    "keys": (start_of(RUN, "settings", PUBLICS | {4: MaskKey().public}), Attempt(1, U, 0), b"context"),
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
