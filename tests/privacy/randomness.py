"""Tests of drawn numbers: KS for the shape, a two-sided exact test for the scale, correlation for independence.

Every p-value is compared with ``ALPHA``, the stated false-positive rate of a single test. At ``SIZE`` draws
a scale that is 0.7 or 1.3 times the right one is found with certainty (a sum of squares 50 deviations off).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from admmnet.types import Vector

SIZE = 20_000
ALPHA = 1e-9


def shape_p(draws: Vector, law: str, scale: float) -> float:
    """Kolmogorov-Smirnov p-value against ``norm`` or ``laplace`` of that scale."""
    return float(stats.kstest(draws / scale, law).pvalue)


def scale_p(draws: Vector, law: str, scale: float) -> float:
    """Two-sided p-value: sum(x^2)/sigma^2 is chi-square for ``norm``, sum|x|/scale Gamma(n) for ``laplace``."""
    if law == "norm":
        sum_, exact = float(np.sum(np.square(draws / scale))), stats.chi2(draws.size)
    else:
        sum_, exact = float(np.sum(np.abs(draws / scale))), stats.gamma(draws.size)
    return 2.0 * float(min(exact.cdf(sum_), exact.sf(sum_)))


def correlation_p(a: Vector, b: Vector) -> float:
    """Two-sided p-value of the sample correlation of two independent normal streams."""
    r = float(np.corrcoef(a, b)[0, 1])
    return math.erfc(abs(r) * math.sqrt(a.size / 2.0))
