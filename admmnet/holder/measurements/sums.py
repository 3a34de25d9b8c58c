"""Sums over an agent's records on an integer grid with discrete Gaussian noise: gradients, and moments.

What is released are integers, so that sums over agents are exact, in any order, on any transport. Sensitivities hold
for the integers: rounding to the grid and floating-point errors are in them (docs/proofs.md, Theorems 20, 21, 27, 28).
Where agents take part in a masked sum, each adds its part of the noise, and masks that cancel in the sum (Theorem 23).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Known, Measurement, Part, Replies, measurement
from admmnet.holder.holder import Secret, one_hot, runs
from admmnet.holder.measurements.minimiser import checked
from admmnet.holder.problem import Features
from admmnet.identity.keys import statement
from admmnet.privacy.events import DiscreteGaussian, Event, is_power_of_two
from admmnet.privacy.mechanisms import LARGEST, discrete_rows
from admmnet.rng import Purpose
from admmnet.solvers.certificate import block_rows, is_sparse
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge, Softmax
from admmnet.solvers.radius import LARGEST_ROW, clip
from admmnet.types import Matrix, Vector

FINEST = 2.0**30
"""Least number of steps of the grid in sigma."""
MOST_STEPS = 2.0**61
"""What the sums of an agent, in steps of the grid, never reach: with their noise they fit 64 bits."""
POINT_RADIUS = 2.0**20
"""Norm of public points; longer ones are scaled back."""
MANY = 2**14
"""Numbers that are added up before they are rounded: they need not stay in memory."""
NARROW = 256
"""Most columns of moments whose places are kept from one agent to the next."""
_U = 2.0**-53
_R = LARGEST_ROW
CELLS = 4096
"""Parts of the range of scores, on each of which slopes are bounded by their values at its ends."""
SOFTMAX_CELLS = 1024
_ROUNDED = 1.0 + 1e-9
"""More than all rounding of ``diameter``, relatively."""


class OnGrid(Measurement):
    """A sum of vectors, one a record, on a public integer grid, with discrete Gaussian noise.

    Attributes
    ----------
    sigma : float
        Parameter of the noise, in the unit of the values; of a masked sum that of all but the colluders together.
    grid : float
        Step of the grid, a power of two, at most sigma 2^-30.
    """

    sigma: float
    grid: float

    def own_sigma(self, known: Known) -> float:
        """Parameter of the agent's own noise; the squares of |U| - K of these are at least sigma^2."""
        if known.attempt is None:
            return self.sigma
        return self.sigma / math.sqrt(known.attempt.parts) * (1.0 + 1e-15)

    def context(self, known: Known) -> bytes:
        """What masks are bound to besides start, attempt, participants: all that is public and decides the sum."""
        inputs = (value.astype("<f8").tobytes() for value in vars(self).values() if isinstance(value, np.ndarray))
        loss, size = known.loss, self.dimension(known)
        facts = loss.name, repr(loss.lipschitz()), repr(loss.curvature_bound()), known.task, known.classes
        colluders = 0 if known.attempt is None else known.attempt.colluders
        noise = self.sigma.hex(), self.grid.hex(), colluders
        return statement(type(self).__name__, size, *facts, *noise, known.encoding, *inputs)

    def moved(self, known: Known) -> float:
        """Most that replacing one record moves the sum as it is computed, before it is rounded to the grid."""
        raise NotImplementedError

    def longest(self, known: Known) -> float:
        """Norm that a record's vector never exceeds."""
        raise NotImplementedError

    def dimension(self, known: Known) -> int:
        """Numbers that are released."""
        raise NotImplementedError

    def total(self, secret: Secret, known: Known) -> Vector:
        """Sum over the records, as computed."""
        raise NotImplementedError

    def totals(self, secrets: Sequence[Secret], known: Known) -> Matrix:
        """Sums over the records of each of k members of which as much is known, shape (k, size)."""
        return np.array([self.total(secret, known) for secret in secrets])

    def sensitivity(self, known: Known) -> float:
        """Most that replacing one record moves the integers, times the grid: (S1)."""
        # each coordinate is rounded by half a step at most, in either world
        return (self.moved(known) + self.grid * math.sqrt(self.dimension(known))) * (1.0 + 1e-12)

    def within(self, known: Known) -> Self:
        """Refuse what no integers of 64 bits hold, and grids too coarse for their cost."""
        name = type(self).__name__
        if not is_power_of_two(self.grid):
            raise RequestError(f"{name}: grid = {self.grid!r} must be a power of two")
        if not (self.own_sigma(known) / self.grid >= FINEST and self.sigma / self.grid <= LARGEST):
            raise RequestError(
                f"{name}: sigma = {self.sigma:g} must be 2^30 to 2^44 steps of the grid = {self.grid!r}: take the "
                "largest power of two up to sigma 2^-30"
            )
        most = known.records * self.longest(known) * 1.01
        if not most / self.grid < MOST_STEPS:
            raise RequestError(
                f"{name}: sums over {known.records:,} records can reach {most:.3g}, 2^61 steps of the grid = "
                f"{self.grid!r} or more: raise sigma and the grid with it"
            )
        return self

    def cost(self, known: Known) -> tuple[Event, ...]:
        """One discrete Gaussian event: Theorems 19 and 23."""
        at, size = known.attempt, self.dimension(known)
        whose = (1, 0) if at is None else (len(at.participants), at.colluders)
        return (DiscreteGaussian(self.sensitivity(known), self.sigma, self.grid, size, *whose),)

    @classmethod
    def carry_out_rows(cls, parts: Sequence[Part]) -> list[Replies]:
        """Sum, round to the grid, add noise; all noise is drawn in one piece, after the sums."""
        return [part.question._rows(part) for part in parts]

    def _rows(self, part: Part) -> Replies:
        known, secrets = part.known, part.secrets
        steps = np.empty((len(secrets), self.dimension(known)), dtype=np.int64)
        some = max(1, MANY // steps.shape[1])
        for start in range(0, len(secrets), some):
            steps[start : start + some] = np.rint(self.totals(secrets[start : start + some], known) / self.grid)
        streams = [secret.streams[Purpose.OUTPUT] for secret in secrets]
        steps += discrete_rows(streams, self.own_sigma(known) / self.grid, steps.shape[1])  # modulo 2^64
        if known.attempt is not None:
            for secret, row in zip(secrets, steps, strict=True):
                row += secret.masks.words(known.attempt, self.context(known), len(row))  # type: ignore[union-attr]
        return Replies(steps, np.ones(len(steps), dtype=bool))

    def at_ratio(self, known: Known, ratio: float) -> Self:
        """Return the same with the least sigma at which sensitivity/sigma is at most ``ratio``, held to its bounds."""
        needed = self.sensitivity(known)
        sigma = needed / ratio
        while needed / sigma > ratio:
            sigma = math.nextafter(sigma, math.inf)
        found: Any = replace(self, sigma=sigma)  # type: ignore[type-var]
        return found.within(known)  # type: ignore[no-any-return]


@measurement
@dataclass(frozen=True, eq=False)
class GradientSum(OnGrid):
    """Sum of the loss gradients of all records at a public point, on the grid. Proof: docs/proofs.md, Theorem 20.

    Parameters
    ----------
    here : ndarray, shape (d,) or (K d,)
        Public point; of K classes the C-order flattening of (K, d).
    sigma, grid
        As of ``OnGrid``.
    """

    here: Vector
    sigma: float
    grid: float

    @classmethod
    def costing(cls, known: Known, here: Vector, ratio: float, grid: float) -> GradientSum:
        """Return the one of least noise whose sensitivity/sigma is at most ``ratio``, the point held to its radius."""
        return cls(_held(here, known), 1.0, grid).at_ratio(known, ratio)

    def within(self, known: Known) -> Self:
        """Hold the point to its radius; refuse as all sums do."""
        return super(GradientSum, replace(self, here=_held(self.here, known))).within(known)

    def moved(self, known: Known) -> float:
        """Two records' gradients are as far apart as ``diameter`` says, rounding in either world added: (S1)."""
        norm = float(np.linalg.norm(self.here)) * (1.0 + 1e-9)
        return diameter(known, self.here) + 2.0 * gradient_rounding(known, norm)

    def longest(self, known: Known) -> float:
        """G."""
        return known.loss.lipschitz()

    def dimension(self, known: Known) -> int:
        """Numbers of a model."""
        return known.width * known.rows

    def total(self, secret: Secret, known: Known) -> Vector:
        """One pass over the records."""
        X, y = secret.records
        here = self.here if known.rows == 1 else self.here.reshape(known.rows, known.width).T
        return gradient_sum(X, y, here, known.loss)

    def totals(self, secrets: Sequence[Secret], known: Known) -> Matrix:
        """One pass over the records of all members, each by the BLAS calls that it would get alone."""
        n, d = known.records, known.width
        if known.rows > 1 or n > block_rows(n, d) or not all(stacks := [secret.stack for secret in secrets]):
            return super().totals(secrets, known)
        found = np.empty((len(secrets), d))
        for X, y, start, stop in runs(stacks):
            slopes = known.loss.derivative(np.matmul(X, self.here[:, None])[:, :, 0], y)
            np.matmul(slopes[:, None, :], X, out=found[start:stop, None, :])
        return found


def _held(here: Vector, known: Known) -> Vector:
    here = np.asarray(here, dtype=np.float64)
    checked(here, known, "point", known.rows)
    return clip(here, POINT_RADIUS)


def diameter(known: Known, here: Vector) -> float:
    """Bound on the distance of two possible records' gradients at a public point, for rows of norm `LARGEST_ROW`.

    A loss without a gradient bound is refused.
    """
    loss, scale = known.loss, LARGEST_ROW * _ROUNDED
    steepest = loss.lipschitz()
    if not math.isfinite(steepest):
        raise RequestError(
            f"the {loss.name} loss has gradients of any size, which no noise hides: take huber, or algorithm ssp"
        )
    found = 2.0 * steepest
    if type(loss) is Softmax:  # one derived from it may have other slopes
        theta = here.reshape(known.classes, -1)
        theta = theta - theta.mean(axis=0)  # what all scores have in common changes no probability
        spectral, frobenius = (scale * float(np.linalg.norm(theta, kind)) for kind in (2, "fro"))
        found = min(found, 2.0 * _softmax(spectral, frobenius, known.classes))
    elif type(loss) in (Logistic, SmoothedHinge) or (type(loss) is Huber and known.bounded):
        found = min(found, 2.0 * _ball(loss, scale * float(np.linalg.norm(here))))  # type: ignore[arg-type]  # these are frozen
    return found * scale


def _softmax(spectral: float, frobenius: float, classes: int) -> float:
    """Radius of a ball around all (p(u) - e_y) x^T, u = Theta x, ||x|| <= 1, its centre along Theta: (S3)."""
    if spectral > 300.0:
        return math.sqrt(2.0)
    others = classes - 1
    most = 1.0 / (1.0 + others * math.exp(-spectral * math.sqrt(classes / others)))
    least = 1.0 / (1.0 + others * math.exp(spectral * math.sqrt(2.0)))
    # p_y lies between these two, and no other probability is above `most` either
    pi = np.geomspace(least * (1.0 - 1e-12), most * (1.0 + 1e-12), SOFTMAX_CELLS + 1)
    squares = (1.0 - pi[:-1]) * (1.0 - pi[:-1] + np.minimum(most, 1.0 - pi[:-1]))
    if frobenius == 0.0:
        return math.sqrt(float(squares[0]))
    along = -np.log(classes * pi[1:]) / frobenius
    c = np.linspace(0.0, 1.0, 41)[:, None]
    reach = np.max(squares - 2.0 * c * along + c * c, axis=1)
    return math.sqrt(float(np.min(np.maximum(reach, np.ravel(c * c)))))


@lru_cache(maxsize=256)
def _ball(loss: Loss, norm: float) -> float:
    """Radius of a ball around all gradients t z, 0 <= t <= h(z . theta), ||z|| <= 1, its centre on the axis: (S2)."""
    u = np.linspace(-1.0, 1.0, CELLS + 1)
    h = _steepest(loss, norm * u)
    at = int(np.argmax(h * np.sqrt(1.0 - u * u)))
    c = float(max(h[at] * u[at], 0.0))
    low, high = u[:-1], h[1:]  # on a cell u is at least low, h at most high, and u h at least:
    product = np.where(low >= 0.0, low * h[:-1], low * high)
    return math.sqrt(max(c * c, float(np.max(high * high - 2.0 * c * product)) + c * c))


def _steepest(loss: Loss, s: Vector) -> Vector:
    """h: largest |phi'| of a record that pulls along z, where z . theta = s; it never falls."""
    if isinstance(loss, Huber):
        return np.clip(s + 1.0, 0.0, loss.width)
    return -loss.derivative(-s, np.ones_like(s))


def gradient_sum(X: Features, y: Vector, here: Vector, loss: Loss) -> Vector:
    """Sum of phi'(x_k . here, y_k) x_k over the rows; ``here`` is (d,), or (d, K), whose result is flat (K d,)."""
    if is_sparse(X):
        return np.ravel((X.T @ loss.derivative(X @ here, y)).T)
    total: Vector | float = 0.0
    rows = block_rows(*X.shape)
    for start in range(0, len(y), rows):  # a block stays in cache between its two products
        block = X[start : start + rows]
        total = loss.derivative(block @ here, y[start : start + rows]).T @ block + total
    return np.ravel(total)


def gradient_rounding(known: Known, norm: float) -> float:
    """Bound on the rounding error of ``gradient_sum`` at a point of this norm, for all records: (S4)."""
    n, d, loss = known.records, known.width, known.loss
    G, c = loss.lipschitz(), loss.curvature_bound()
    if not math.isfinite(c):
        raise RequestError(f"the {loss.name} loss has kinks, at which rounding decides a gradient: take a smooth one")
    own = max(8.0 * G, 2.0 * known.classes + 16.0 if known.task == "classes" else 0.0)
    return 1.01 * _U * n * _R * (_R * c * d * norm + (n + 2) * G + own) + 1e-150 * n


@measurement
@dataclass(frozen=True, eq=False)
class SecondMoments(OnGrid):
    """svec(sum x x^T)/sqrt 2 over all records, on the grid. Proof: docs/proofs.md, Theorem 28.

    The upper triangle in rows, its diagonal over sqrt 2. Fields are as of ``OnGrid``.
    """

    sigma: float
    grid: float

    def moved(self, known: Known) -> float:
        """R^2, and rounding in either world: (S8)."""
        n = known.records
        return _R * _R * (1.0 + 2.0 * 1.01 * _U * n * (n + 4))

    def longest(self, known: Known) -> float:
        """Norm of svec(x x^T)/sqrt 2."""
        return math.sqrt(0.5)

    def dimension(self, known: Known) -> int:
        """Numbers on and above the diagonal."""
        return known.width * (known.width + 1) // 2

    def total(self, secret: Secret, known: Known) -> Vector:
        """One pass over the records."""
        X, y = secret.records
        return _svec(_products(X, np.zeros((len(y), 0)))[1])


@measurement
@dataclass(frozen=True, eq=False)
class MomentSum(SecondMoments):
    """Sums of y x and of x x^T over all records, on the grid. Proof: docs/proofs.md, Theorem 21.

    Released are the numbers of sum y x (of classes: K rows, the sums of each class), then svec(sum x x^T)/sqrt 2: the
    upper triangle in rows, its diagonal over sqrt 2.
    """

    def within(self, known: Known) -> Self:
        """Refuse as all sums do, and targets without a bound."""
        if known.task == "real" and not known.bounded:
            raise RequestError("MomentSum: targets need a bound: scale them to [-1, 1], and say bounded=True")
        return super().within(known)

    def moved(self, known: Known) -> float:
        """Theorem 21, and rounding in either world."""
        n = known.records
        return 2.0 * _R * _R + 2.0 * 1.01 * _U * n * 2.0 * (n + 4) * _R * _R

    def longest(self, known: Known) -> float:
        """Norm of (y x, svec(x x^T)/sqrt 2)."""
        return math.sqrt(1.5)

    def dimension(self, known: Known) -> int:
        """K d + d (d + 1)/2 numbers, K = 1 but for classes."""
        return known.rows * known.width + super().dimension(known)

    def total(self, secret: Secret, known: Known) -> Vector:
        """One pass over the records."""
        X, y = secret.records
        targets = one_hot(y, known.classes) if known.task == "classes" else y[:, None]
        first, second = _products(X, targets)
        return np.concatenate([np.ravel(first), _svec(second)])


def _svec(second: Matrix) -> Vector:
    """Upper triangle in rows, its diagonal over sqrt 2."""
    size = len(second)
    found: Vector = second[_upper(size) if size <= NARROW else np.triu_indices(size)]
    found[np.cumsum([0, *range(size, 1, -1)])] /= math.sqrt(2.0)
    return found


_upper = lru_cache(maxsize=1)(np.triu_indices)


def _products(X: Features, targets: Matrix) -> tuple[Matrix, Matrix]:
    """T^T X (K, d) and X^T X (d, d)."""
    if is_sparse(X):
        return np.asarray((X.T @ targets).T), np.asarray((X.T @ X).toarray())
    first: Matrix = np.zeros((targets.shape[1], X.shape[1]))
    second: Matrix = np.zeros((X.shape[1], X.shape[1]))
    rows = block_rows(*X.shape)
    for start in range(0, len(X), rows):
        block = X[start : start + rows]
        first += targets[start : start + rows].T @ block
        second += block.T @ block
    return np.asarray(first), np.asarray(second)
