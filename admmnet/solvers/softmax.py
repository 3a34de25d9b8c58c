"""The softmax loss over K classes: no function of one score, so only sums of its gradients are released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.solvers.losses import SCORES
from admmnet.types import Matrix, Vector


@dataclass(frozen=True)
class Softmax:
    """Softmax (cross-entropy) loss phi(u, y) = ln(sum_k exp(u_k)) - u_y of K scores, labels y in {0, ..., K - 1}.

    Scores have shape (n, K), labels (n,). The gradient in the scores is p - e_y, p_k = exp(u_k) / sum_j exp(u_j), of
    norm below sqrt 2, and its Hessian diag(p) - p p^T has norm at most 1/2 (Boehning 1992), so G = sqrt 2 row_norm and
    c1 = row_norm^2 / 2.
    """

    name: str = "softmax"
    tasks: ClassVar[frozenset[str]] = frozenset({"classes"})
    smooth: ClassVar[bool] = True

    def value(self, u: Matrix, y: Vector) -> Vector:
        """Loss of each record, in nats, shape (n,)."""
        rest = u - np.max(u, axis=1, keepdims=True)
        return np.asarray(np.log(np.sum(np.exp(rest), axis=1)) - rest[_own(y)])

    def derivative(self, u: Matrix, y: Vector) -> Matrix:
        """Gradient in the scores of each record, p - e_y, shape (n, K); off by (2 K + 16) 2^-53 at most in 2-norm."""
        p: Matrix = u - np.max(u, axis=1, keepdims=True)
        np.exp(p, out=p)
        p /= np.sum(p, axis=1, keepdims=True)
        p[_own(y)] -= 1.0
        return p

    def curvature(self, u: Matrix, y: Vector) -> Vector:
        """Refuse: it has no curvature in one score."""
        raise RequestError(SCORES)

    def lipschitz(self, row_norm: float = 1.0) -> float:
        """Gradient bound G, in units of the loss."""
        return math.sqrt(2.0) * row_norm

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        """Curvature bound c1."""
        return 0.5 * row_norm * row_norm


def _own(y: Vector) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of the records' own classes."""
    return np.arange(len(y)), np.asarray(y, dtype=np.intp)


SOFTMAX = Softmax()
"""As the registry of losses has it."""
