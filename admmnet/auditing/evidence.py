"""What an answer says about which of two worlds it comes from, to somebody who knows all but the canary.

Each is the logarithm of the likelihood ratio of the answer, world 1 over world 0, where both worlds' records are known:
exact where the loss has no curvature, up to the noise that hides a solve's error. A score need not be exact for a bound
to hold, only to be strong (docs/proofs.md, "Auditing").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from scipy.special import log_ndtr

from admmnet.errors import RequestError
from admmnet.holder import Answer, Released
from admmnet.holder.known import Known
from admmnet.holder.measurements import (
    GammaMinimiser,
    GradientNorm,
    GradientSum,
    HeldNorm,
    MomentSum,
    NoisyGradient,
    PerturbedMinimiser,
    PublishedComparison,
)
from admmnet.types import Matrix, Vector

World = Literal[0, 1]
"""0 without the canary, 1 with it."""
Pair = tuple["Data", "Data"]


@dataclass(frozen=True)
class Data:
    """One world's records of the agent, rows (n, d) with labels (n,), and what is public of them."""

    rows: Matrix
    labels: Vector
    known: Known

    def gradient(self, theta: Vector, most: float = math.inf) -> Vector:
        """Gradient of the mean loss, shape (d,), every slope clipped to ``most``."""
        slopes = np.clip(self.known.loss.derivative(self.rows @ theta, self.labels), -most, most)
        return np.asarray(slopes @ self.rows / len(self.labels))

    @cached_property
    def secret(self) -> Any:
        """The records, as the measurements of sums see them."""
        return SimpleNamespace(records=(self.rows, self.labels))


def evidence(asked: Any, answer: Answer, pair: Pair) -> float:
    """Logarithm of the likelihood ratio of a question's answer.

    RequestError if nothing is known here of the measurement.
    """
    released = isinstance(answer, Released)
    used = answer.used if isinstance(answer, Released) else asked
    value = answer.value if isinstance(answer, Released) else None
    if isinstance(used, GradientNorm):
        return _question(used, yes=released, pair=pair)
    if isinstance(used, HeldNorm | PublishedComparison):
        return 0.0  # one answer says next to nothing: the gates are audited by themselves
    if not isinstance(used, PerturbedMinimiser | GammaMinimiser):
        if not isinstance(used, NoisyGradient | GradientSum | MomentSum):
            raise RequestError(f"the auditor cannot read the answers of {type(used).__name__}: name another method")
        return _sum(used, value, pair) if released else 0.0
    if not released:
        return 0.0
    theta: Vector = np.asarray(value)
    noise = [-(used.convexity * theta + used.linear + data.gradient(theta)) for data in pair]
    if isinstance(used, GammaMinimiser):
        return used.rate * (float(np.linalg.norm(noise[0])) - float(np.linalg.norm(noise[1])))
    return normal(noise[0], noise[1], math.hypot(used.sigma1 or 0.0, used.convexity * used.sigma2))


def normal(out: Vector, inside: Vector, sigma: float) -> float:
    """Of normal noise that is ``out`` in world 0 and ``inside`` in world 1."""
    return float(out @ out - inside @ inside) / (2.0 * sigma * sigma)


def _sum(used: NoisyGradient | GradientSum | MomentSum, value: Any, pair: Pair) -> float:
    if isinstance(used, NoisyGradient):
        most = used.most or math.inf
        out, inside = (value - data.gradient(used.here, most) for data in pair)
        if used.rate < 1.0:  # all others are rows of zeros: it is either with the record's gradient or without
            q, without = used.rate, np.asarray(value)
            drawn = [math.log(q) + normal(without, noise, used.sigma) for noise in (out, inside)]
            return float(np.subtract(*(np.logaddexp(math.log1p(-q), one) for one in reversed(drawn))))
    else:
        seen = used.grid * np.asarray(value, dtype=float)
        out, inside = (seen - used.total(data.secret, data.known) for data in pair)
    return normal(out, inside, used.sigma)


def _question(used: GradientNorm, *, yes: bool, pair: Pair) -> float:
    """Of a yes or a no: the chance of either is known in both worlds."""
    sign, pull = 1.0 if yes else -1.0, 0.0 if used.pull is None else used.pull
    out, inside = (
        float(log_ndtr(sign * (float(np.linalg.norm(data.gradient(used.here) + pull)) - used.threshold) / used.sigma))
        for data in pair
    )
    return inside - out
