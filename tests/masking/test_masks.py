"""Words of masks: what they are made of, that they cancel, and what keeps them from being used twice."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import stats

from admmnet.errors import RequestError
from admmnet.masking import Attempt, MaskKey, Masks, start_of
from admmnet.masking.masks import stream
from admmnet.types import Integers

from .crew import RUN, crew

U = (0, 1, 2, 3, 4)


def total(masks: dict[int, Masks], colluders: int = 1, attempt: int = 1, size: int = 7) -> Integers:
    return np.asarray(sum(masks[i].words(Attempt(attempt, U, colluders), b"context", size) for i in U))


@pytest.mark.parametrize("colluders", [0, 1, 2, 3])
def test_masks_add_up_to_zero_and_each_alone_does_not(colluders: int) -> None:
    assert not total(crew(5, colluders=colluders), colluders).any()
    assert all(one.words(Attempt(1, U, colluders), b"", 7).all() for one in crew(5, colluders=colluders).values())


def test_a_pair_s_words_are_chacha20_under_a_key_of_the_context() -> None:
    """As an implementation written from RFC 8439, section 2.3, gave them under HMAC-SHA256(key, context)."""
    words = stream(b"k" * 32, b"context", 20)
    digest = "e740e051e5bd93272a632a4a18022e0b248a9a2e2519dfc36014b8aa9984f006"
    assert hashlib.sha256(words.tobytes()).hexdigest() == digest
    assert words[:2].tolist() == [715800391960658434, 10285657676444102238]


@pytest.mark.parametrize("changed", ["attempt", "colluders", "participants", "context", "run", "settings", "keys"])
def test_who_was_told_something_else_has_other_masks(changed: str) -> None:
    keys = {i: MaskKey() for i in range(5)}
    publics = {i: key.public for i, key in keys.items()}
    masks = crew(5, keys=keys, colluders=2)
    if changed in ("run", "settings", "keys"):
        others = publics | {4: MaskKey().public} if changed == "keys" else publics
        settings = "others" if changed == "settings" else "settings"
        start = start_of("cd" * 32 if changed == "run" else RUN, settings, others)
        masks[0] = Masks(0, keys[0], publics, start, 2)
    told = {
        "attempt": (Attempt(2, U, 2), b"context"),
        "colluders": (Attempt(1, U, 1), b"context"),
        "participants": (Attempt(1, (0, 1, 2, 3), 2), b"context"),
        "context": (Attempt(1, U, 2), b"another"),
    }.get(changed, (Attempt(1, U, 2), b"context"))
    if changed == "colluders":
        masks[0] = Masks(0, keys[0], publics, start_of(RUN, "settings", publics), 1)
    first = masks[0].words(*told, 50)
    rest = sum(masks[i].words(Attempt(1, U, 2), b"context", 50) for i in U[1:])
    assert np.count_nonzero(first + rest) >= 49  # each word is zero with probability 2^-64


def test_no_attempt_is_answered_twice() -> None:
    masks = crew(5)[0]
    masks.words(Attempt(3, U, 1), b"", 4)
    for number in (3, 2, 1):
        with pytest.raises(RequestError, match="no attempt is answered twice"):
            masks.words(Attempt(number, U, 1), b"another", 4)
    masks.words(Attempt(4, U, 1), b"", 4)


def test_keys_of_a_start_are_its_own_and_masks_with_them() -> None:
    first, second = crew(5), crew(5)
    ones = [one[0].words(Attempt(1, U, 1), b"", 50) for one in (first, second)]
    assert np.count_nonzero(ones[0] - ones[1]) >= 49


@pytest.mark.parametrize("participants", [(1, 2, 3), (0, 1, 9), (0, 1), (0, 0, 1)])
def test_participants_that_hide_nobody_are_refused(participants: tuple[int, ...]) -> None:
    with pytest.raises(RequestError):
        crew(5)[0].words(Attempt(1, participants, 1), b"", 4)


def test_masked_words_are_uniform() -> None:
    """Chi-square over bytes, 16 tests: a false alarm in all with probability 1.6e-5; what is not masked fails."""
    attempt = Attempt(1, (0, 1, 2, 3), 1)
    words = np.concatenate([crew(4)[0].words(attempt, b"", 4096) for _ in range(4)])
    plain = np.rint(np.random.default_rng(0).normal(0.0, 2.0**40, words.size)).astype(np.int64)
    for place in range(8):
        assert _uniform(words, place)
        assert _uniform(words + plain, place)  # whatever is added to them
    assert not all(_uniform(plain, place) for place in range(8))


def _uniform(words: Integers, place: int) -> bool:
    counts = np.bincount(words.view(np.uint8)[place::8], minlength=256)
    return bool(stats.chisquare(counts).pvalue > 1e-6)
