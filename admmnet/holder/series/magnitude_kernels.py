"""`magnitude` compiled. Importing this imports numba."""

from __future__ import annotations

import math

import numpy as np

from admmnet.holder.series.kernels import compiled
from admmnet.holder.series.magnitude import EXP_MAX, FLAT, bracket, rule

NODES, WEIGHTS = rule()
closed = compiled(bracket)


@compiled
def erfcx(z: float) -> float:
    """exp(z^2) erfc(z) of z >= 0, to 1e-13 of itself."""
    if z < 25.0:
        return math.exp(z * z) * math.erfc(z)
    r = 0.5 / (z * z)
    series = 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r))))
    return series / (z * math.sqrt(math.pi))


@compiled
def compiled_magnitude(x: float, y: float, a: float) -> float:
    """`magnitude`: (57) by Gauss' rule up to B = 30, by its closed form beyond."""
    A, B = a * abs(x), a * a * y
    if A == 0.0:
        return 0.0
    if B <= FLAT:
        exponent, rest = A, 0.0
        for k in range(NODES.size):
            s = NODES[k]
            rest -= WEIGHTS[k] * s * math.exp(-A * (1.0 - s) - B * s * s) * math.expm1(-2.0 * A * s)
        rest *= 0.5
    else:
        root = math.sqrt(B)
        u, low = root + A / (2.0 * root), root - A / (2.0 * root)
        exponent, rest = closed(A, B, erfcx(u), erfcx(abs(low)))
    logarithm = exponent + math.log(rest) + math.log(a) if rest > 0.0 else -np.inf
    return math.copysign(math.exp(logarithm) if logarithm < EXP_MAX else np.inf, x)
