"""Noise as pure functions with explicit randomness. What each costs stands in ``proven`` and its docs page.

Discrete Gaussian noise on the integers is drawn exactly: N_Z(0, s^2) gives the integer j a probability proportional to
exp(-j^2/(2 s^2)). The sampler is that of Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential
Privacy", Algorithms 1 to 3. Each of its decisions "with probability exp(-gamma)" compares a uniform number with bounds
on exp(-gamma): its first 64 bits with bounds from floating point, and where those do not decide, about once in 2^27,
further bits with bounds as narrow as it takes. So the law is exact.
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from admmnet.solvers.radius import clip, clip_rows, gamma_norm_tail, gaussian_tail
from admmnet.types import Integers, Matrix, Vector

Words = NDArray[np.uint64]
Generators = Sequence[np.random.Generator]

LARGEST = 2.0**44
"""Largest s: magnitudes up to 2^5 s are exact in floating point, and all that are ever drawn fit 64 bits."""
_SLACK = 2.0**-28
"""Floating point decides where a uniform number is farther than this from exp(-gamma). Both are off by at most 2^-40:
gamma by a share 2^-48 and by 2^-48, and x exp(-x) is below 1."""
_CHUNK = 10_000
"""Candidates that are drawn together: they stay in cache, and their arrays in memory that the allocator keeps."""
GRID_BITS = 20
"""Released vectors are rounded to a grid of step at most sigma * 2^-GRID_BITS."""


def clipped_gaussian_rows(rngs: Generators, sigma: float, size: int) -> Matrix:
    """Draw N(0, sigma^2 I), shape (k, size), each row from a generator of its own: docs/proofs.md Theorem 1.

    Rows have norm at most `gaussian_tail`: one is scaled back with probability 2^-128 at most, and what that adds to
    delta is `admmnet.solvers.radius.tail_delta`. ValueError if sigma is not positive and finite.
    """
    _check("sigma", sigma)
    found = np.empty((len(rngs), size))
    for rng, row in zip(rngs, found, strict=True):
        rng.standard_normal(out=row)
    found *= sigma
    return clip_rows(found, gaussian_tail(sigma, size))


def laplace_noise(rng: np.random.Generator, scale: float) -> float:
    """Draw one Laplace(0, scale) number: docs/proofs.md Theorem 2; ValueError if scale is not positive and finite."""
    _check("scale", scale)
    return float(scale * rng.laplace())


def gamma_norm_noise(rng: np.random.Generator, rate: float, size: int) -> Vector:
    """Draw from K(rate), density ~ exp(-rate ||z||) on R^size: docs/methods.md eq. (25), docs/proofs.md Theorem 11.

    Radius Gamma(size, 1 / rate), direction uniform on the sphere. ValueError if rate is not positive and finite.
    """
    _check("rate", rate)
    radius = rng.standard_gamma(size) / rate
    direction = rng.standard_normal(size)
    return np.asarray(direction * (radius / math.sqrt(direction.dot(direction))))


def clipped_gamma_norm_noise(rng: np.random.Generator, rate: float, size: int) -> Vector:
    """`gamma_norm_noise` of norm at most `gamma_norm_tail`: scaled back with probability 2^-128 at most."""
    return clip(gamma_norm_noise(rng, rate, size), gamma_norm_tail(rate, size))


def round_to_grid(x: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Round a noisy vector, or a row each, to the public grid of ``grid_step``.

    Post-processing of the noisy value: it costs nothing, and removes low-order bits through which
    floating-point noise can tell its input (docs/proofs.md, "Noise").
    """
    step = grid_step(sigma)
    return np.asarray(np.rint(x / step) * step)


def grid_step(sigma: float) -> float:
    """Step of the public grid of noise of this standard deviation: the largest power of two up to sigma * 2^-20."""
    return math.ldexp(1.0, math.frexp(sigma)[1] - 1 - GRID_BITS)


def _check(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {name}={value}")


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
