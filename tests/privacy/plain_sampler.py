"""The sampler of `privacy/discrete.py` for one row, phase by phase: numbers and next words of rows are held to it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.privacy.discrete import _powers_rising, exp_bounds

Integers = NDArray[np.int64]


def discrete_gaussian(rng: Any, s: float, size: int) -> Integers:
    """Draw N_Z(0, s^2), shape (size,)."""
    bits = max(0, math.frexp(s)[1])
    variance, t = Fraction(s) ** 2, 2**bits
    mean = float(variance / t)
    found, missing = [np.zeros(0, dtype=np.int64)], size
    while missing > 0:
        y = _discrete_laplace(rng, bits, 2 * missing + 16)
        far = np.abs(y)
        gamma = np.where(far <= 2.0**5 * s, 0.5 * ((far - mean) / s) ** 2, math.nan)
        kept = y[_with_probability(rng, gamma, partial(_exponent, far, variance, t))][:missing]
        found.append(kept)
        missing -= len(kept)
    return np.concatenate(found)


def _exponent(far: Integers, variance: Fraction, t: int, place: int) -> Fraction:
    return (int(far[place]) - variance / t) ** 2 / (2 * variance)


def _discrete_laplace(rng: Any, bits: int, size: int) -> Integers:
    low = (_words(rng, size) >> np.uint64(63 - bits) >> np.uint64(1)).astype(np.int64)
    t = 2**bits
    low = low[_with_probability(rng, low / t, lambda k: Fraction(int(low[k]), t))]
    magnitude = low + t * _geometric(rng, len(low))
    negative = _words(rng, len(low)) >= np.uint64(2**63)
    kept: Integers = np.where(negative, -magnitude, magnitude)[~(negative & (magnitude == 0))]
    return kept


def _geometric(rng: Any, size: int) -> Integers:
    words, rising = _words(rng, size), _powers_rising()
    count = len(rising) - np.searchsorted(rising, words, side="right")
    for place in np.flatnonzero(count != len(rising) - np.searchsorted(rising, words)):
        bits = _Uniform(rng, int(words[place]))
        count[place] = next(k for k in itertools.count() if not bits.below_exp(Fraction(k + 1)))
    return count.astype(np.int64)


def _with_probability(rng: Any, gamma: NDArray[np.float64], exact: Callable[[int], Fraction]) -> NDArray[np.bool_]:
    words = _words(rng, len(gamma))
    uniform, p = words * 2.0**-64, np.exp(-gamma)
    happens = uniform + 2.0**-64 <= p * (1.0 - 2.0**-28)
    for place in np.flatnonzero(~happens & ~(uniform >= p * (1.0 + 2.0**-28))):
        happens[place] = _Uniform(rng, int(words[place])).below_exp(exact(int(place)))
    return happens


class _Uniform:
    def __init__(self, rng: Any, first: int) -> None:
        self._rng, self._value, self._bits = rng, first, 64

    def below_exp(self, gamma: Fraction) -> bool:
        for low, high in exp_bounds(gamma):
            while True:
                if Fraction(self._value + 1, 2**self._bits) <= low:
                    return True
                if Fraction(self._value, 2**self._bits) >= high:
                    return False
                if Fraction(1, 2**self._bits) < high - low:
                    break
                self._value = self._value * 2**64 + int(_words(self._rng, 1)[0])
                self._bits += 64
        raise AssertionError("bounds end at a point")


def _words(rng: Any, size: int) -> NDArray[np.uint64]:
    drawn: NDArray[np.uint64] = rng.integers(0, 2**64, size=size, dtype=np.uint64)
    return drawn
