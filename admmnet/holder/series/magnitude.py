"""The magnitude of banco's model, docs/methods.md (57): a function of numbers that have noise already."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from admmnet.types import Vector

_FLAT = 30.0  # a^2 y up to which (57) is integrated: beyond, its closed form loses less than two digits
_EXP_MAX = 709.7
_NODES = 128  # integrate (57) to full precision wherever it is within float64 and a^2 y <= 30


@cache
def _rule() -> tuple[Vector, Vector]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1.0) / 2.0, weights / 2.0


def magnitude(x: float, y: float, a: float) -> float:
    """Magnitude m = (1/2a) int_{-a}^{a} beta exp(beta x - beta^2 y) d beta, docs/methods.md (57).

    Odd in x, positive for x > 0, with a relative error of about 1e-12, as that page says; x is the sum of
    g_s . q_s, y = t (sigma^2 / 2 + G^2) > 0, a half the width of the interval. Beyond float64 the answer is inf with
    the sign of x.
    """
    A, B = a * abs(x), a * a * y
    if A == 0.0:
        return 0.0
    if B <= _FLAT:
        s, weights = _rule()
        terms = s * np.exp(-A * (1.0 - s) - B * s * s) * -np.expm1(-2.0 * A * s)
        exponent, rest = A, 0.5 * float(weights @ terms)
    else:
        exponent, rest = _closed(A, B)
    logarithm = exponent + math.log(rest) + math.log(a) if rest > 0.0 else -math.inf
    return math.copysign(math.exp(logarithm) if logarithm < _EXP_MAX else math.inf, x)


def _closed(A: float, B: float) -> tuple[float, float]:
    """(E, r) with int_0^1 s sinh(A s) exp(-B s^2) ds = exp(E) r, for B > 30.

    The integral is (1/4B) [exp(-B - A) - exp(-B + A) + (A/2) sqrt(pi/B) exp(A^2/4B) (erf(u) + erf(l))] with
    u, l = sqrt B +- A / (2 sqrt B), and exp(A^2/4B - u^2) = exp(-B - A), exp(A^2/4B - l^2) = exp(-B + A).
    """
    from scipy.special import erfcx  # scipy takes its time to import

    root = math.sqrt(B)
    u, low = root + A / (2.0 * root), root - A / (2.0 * root)
    at_u, at_low, height = erfcx(u), erfcx(abs(low)), A / 2.0 * math.sqrt(math.pi) / root
    if low < 0.0:  # the integrand grows up to s = 1
        ends = math.expm1(-2.0 * A) + height * (at_low - math.exp(-2.0 * A) * at_u)
        return A - B, ends / (4.0 * B)
    top, side = A * A / (4.0 * B), math.exp(-low * low)  # it peaks within
    ends = side * math.expm1(-2.0 * A) - height * (side * at_low + math.exp(-u * u) * at_u)
    return top, (ends + 2.0 * height) / (4.0 * B)
