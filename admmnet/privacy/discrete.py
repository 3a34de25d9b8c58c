"""Discrete Gaussian noise on the integers, drawn exactly.

N_Z(0, s^2) gives the integer j a probability proportional to exp(-j^2/(2 s^2)). The sampler is that of Canonne,
Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithms 1 to 3. Each of its decisions "with
probability exp(-gamma)" compares a uniform number with bounds on exp(-gamma): its first 64 bits with bounds from
floating point, and where those do not decide, about once in 2^27, further bits with bounds as narrow as it takes. So
the law is exact.
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from admmnet.privacy.conversion import gaussian_delta, gaussian_epsilon, gaussian_mu

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Generators = Sequence[np.random.Generator]

LARGEST = 2.0**44
"""Largest s: magnitudes up to 2^5 s are exact in floating point, and all that are ever drawn fit 64 bits."""
_SLACK = 2.0**-28
"""Floating point decides where a uniform number is farther than this from exp(-gamma). Both are off by at most 2^-40:
gamma by a share 2^-48 and by 2^-48, and x exp(-x) is below 1."""
_CHUNK = 10_000
"""Candidates that are drawn together: they stay in cache, and their arrays in memory that the allocator keeps."""


def discrete_rows(generators: Generators, s: float, size: int) -> Integers:
    """Draw N_Z(0, s^2), each row by its own generator as if it were drawn alone, shape (B, size).

    Parameters
    ----------
    generators : sequence of B Generator
        Their words are taken as independent fair bits; a row takes from its own alone.
    s : float
        0 < s <= 2^44.
    size : int
        How many numbers a row has.

    Raises
    ------
    ValueError
        If s is out of range.
    """
    if not 0.0 < s <= LARGEST:
        raise ValueError(f"s must be above 0 and at most 2^44, got s={s}")
    found = np.zeros((len(generators), size), dtype=np.int64)
    rows = max(1, _CHUNK // (2 * size + 16))
    for start in range(0, len(generators), rows):
        _fill(found[start : start + rows], generators[start : start + rows], s)
    return found


def _fill(found: Integers, rngs: Generators, s: float) -> None:
    bits = max(0, math.frexp(s)[1])
    variance, t = Fraction(s) ** 2, 2**bits  # t > s, a power of two
    mean = float(variance / t)
    filled, size = np.zeros(len(rngs), dtype=np.int64), found.shape[1]
    while (missing := size - filled).any():
        y, rows = _discrete_laplace(rngs, bits, np.repeat(np.arange(len(rngs)), (2 * missing + 16) * (missing > 0)))
        far = np.abs(y)
        gamma = np.square((far - mean) * (math.sqrt(0.5) / s))
        words, exact = _words(rngs, rows), partial(_exponent, far, variance, t)
        happens = np.flatnonzero(_with_probability(rngs, rows, words, gamma, exact))
        y, rows = y[happens], rows[happens]
        counts = np.bincount(rows, minlength=len(rngs))
        first = np.arange(len(y)) < np.repeat(np.cumsum(counts) - counts + missing, counts)
        before, filled, place = filled, np.minimum(filled + counts, size), np.arange(size)
        found[(place >= before[:, None]) & (place < filled[:, None])] = y[first]


def excess(size: int, s: float, parts: int = 1) -> float:
    """Bound on the log ratio of the discrete law to that of a rounded Gaussian: docs/proofs.md, eq. (P10).

    Parameters
    ----------
    size : int
        Coordinates d of the integer vector.
    s : float
        Standard deviation parameter of the whole noise.
    parts : int
        m, where the noise is the sum of m independent N_Z(0, s^2/m).

    Raises
    ------
    ValueError
        If s^2/m is below 1, where no bound is proved.
    """
    part = s * s / parts
    if not part >= 1.0:
        raise ValueError(f"the noise of each of {parts} parts needs a parameter of at least 1, got {math.sqrt(part):g}")
    return size * (1.0 / (24.0 * s * s) + 2.01 * (parts - 1) * math.exp(-(math.pi**2) * part))


EXCESS_SHARE = 1e-3
"""Share of delta that sums of ``excess`` may take: mu falls by about 1e-4 of itself."""


def most_excess(epsilon: float, delta: float) -> float:
    """Sum of ``excess`` that a filter of (mu^2, kappa) admits: the K of docs/proofs.md, (P11)."""
    return EXCESS_SHARE * delta * math.exp(-epsilon)


@lru_cache(maxsize=1024)
def discrete_mu(epsilon: float, delta: float, kappa: float) -> float:
    """Largest mu at which Theorem 19 gives (epsilon, delta) for this kappa, never above it.

    ValueError if kappa alone takes all of delta.
    """
    left = _left(epsilon, delta, kappa)
    if not left > 0.0:
        raise ValueError(f"kappa = {kappa:g} leaves nothing of delta = {delta:g} at epsilon = {epsilon:g}")
    return gaussian_mu(epsilon, left)


@lru_cache(maxsize=4096)
def discrete_epsilon(mu: float, kappa: float, delta: float) -> float:
    """Least epsilon that Theorem 19 gives at this delta, to 1e-12 relative and never below it; inf where none."""
    low = gaussian_epsilon(mu, delta)
    if kappa == 0.0:
        return low
    step = 1e-12 * max(low, 1e-3)
    while True:  # the bound falls, then rises with epsilon: the first crossing is the one wanted
        high = low + step
        left = _left(high, delta, kappa)
        if not left > 0.0:
            return math.inf
        if gaussian_delta(mu, high) <= left:
            break
        low, step = high, 2.0 * step
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        fits = gaussian_delta(mu, middle) <= _left(middle, delta, kappa)
        low, high = (low, middle) if fits else (middle, high)
    return high


def _left(epsilon: float, delta: float, kappa: float) -> float:
    """What Theorem 19 leaves for (P5): (delta - e^epsilon (e^kappa - 1)) e^-kappa, rounded down."""
    if kappa == 0.0:
        return delta
    if epsilon + kappa > 700.0:
        return 0.0
    return (delta - math.exp(epsilon) * math.expm1(kappa)) * math.exp(-kappa) * (1.0 - 1e-13)


def _exponent(far: Integers, variance: Fraction, t: int, place: int) -> Fraction:
    return (int(far[place]) - variance / t) ** 2 / (2 * variance)


def _discrete_laplace(rngs: Generators, bits: int, rows: Integers) -> tuple[Integers, Integers]:
    """Draw at most one integer of probability ~ exp(-|j|/2^bits) for each of ``rows``; return them and their rows."""
    first, second = _words(rngs, rows, 2)
    low, t = (first >> np.uint64(63 - bits) >> np.uint64(1)).view(np.int64), 2**bits
    happens = np.flatnonzero(_with_probability(rngs, rows, second, low / t, lambda k: Fraction(int(low[k]), t)))
    rows = rows[happens]
    magnitude = low[happens] + t * _geometric(rngs, rows)
    negative = _words(rngs, rows) >= np.uint64(2**63)
    kept = np.flatnonzero(~negative | (magnitude != 0))
    return np.where(negative, -magnitude, magnitude)[kept], rows[kept]


def _geometric(rngs: Generators, rows: Integers) -> Integers:
    """Draw j >= 0 of probability ~ exp(-j): the number of e^-k, k = 1, 2, ..., above one uniform number."""
    words = _words(rngs, rows)
    rising = _powers_rising()  # the first is 0
    below = np.searchsorted(rising, words, side="right")
    count = len(rising) - below
    for place in np.flatnonzero(rising[below - 1] == words):  # further bits decide
        bits = _Uniform(rngs[rows[place]], int(words[place]))
        count[place] = next(k for k in itertools.count() if not bits.below_exp(Fraction(k + 1)))
    return count


def _with_probability(
    rngs: Generators, rows: Integers, words: Words, gamma: NDArray[np.float64], exact: Callable[[int], Fraction]
) -> NDArray[np.bool_]:
    """Whether an event of probability exp(-gamma) happens, for each word; ``exact`` knows gamma where that is close."""
    over = words * 2.0**-64 - np.exp(-gamma)
    happens = over < 0.0
    for place in np.flatnonzero(~(np.abs(over) > _SLACK)):
        happens[place] = _Uniform(rngs[rows[place]], int(words[place])).below_exp(exact(int(place)))
    return happens


class _Uniform:
    """A uniform number in [0, 1) whose bits are drawn as they are needed."""

    def __init__(self, rng: np.random.Generator, first: int) -> None:
        self._rng, self._value, self._bits = rng, first, 64

    def below_exp(self, gamma: Fraction) -> bool:
        """Whether it is below exp(-gamma); equality has probability zero."""
        for low, high in exp_bounds(gamma):
            while True:
                if Fraction(self._value + 1, 2**self._bits) <= low:
                    return True
                if Fraction(self._value, 2**self._bits) >= high:
                    return False
                if Fraction(1, 2**self._bits) < high - low:
                    break  # narrower bounds first
                self._value = self._value * 2**64 + self._rng.bit_generator.random_raw()
                self._bits += 64
        raise AssertionError("bounds end at a point")


def exp_bounds(gamma: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
    """Bounds on exp(-gamma), gamma >= 0, each pair narrower than the last; `decimal` rounds exp correctly."""
    if not gamma:
        yield Fraction(1), Fraction(1)
        return
    digits = 40
    while True:
        context = decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
        quotient = context.divide(decimal.Decimal(gamma.numerator), decimal.Decimal(gamma.denominator))
        middle = Fraction(context.exp(-quotient))
        error = middle * (2 + 2 * math.ceil(gamma)) * Fraction(10) ** (1 - digits)
        yield max(Fraction(0), middle - error), middle + error
        digits *= 2


@cache
def _powers_rising() -> Words:
    """First 64 bits of e^-1, e^-2, ..., to the first that has none, in ascending order."""
    found: list[int] = []
    while not found or found[-1]:
        low, high = next(exp_bounds(Fraction(len(found) + 1)))
        floor = math.floor(low * 2**64)
        assert floor == math.floor(high * 2**64)
        found.append(floor)
    return np.array(found[::-1], dtype=np.uint64)


def _words(rngs: Generators, rows: Integers, *times: int) -> Words:
    """Next word, or so many ``times`` each, for each of ``rows``, which ascend, of the row's own generator."""
    counts = np.bincount(rows, minlength=len(rngs)).tolist()
    asked = [(rng, (*times, own) if times else own) for rng, own in zip(rngs, counts, strict=True) if own]
    pieces = [rng.bit_generator.random_raw(shape) for rng, shape in asked]  # a number in place of a tuple is faster
    return np.concatenate([np.zeros((*times, 0), dtype=np.uint64), *pieces], axis=-1, dtype=np.uint64)
