"""Exact Renyi divergences of small models by quadrature: what the privacy theorems are tested against.

A record is a convex loss of the score z . theta whose slope is mid + half tanh((score - centre) steep / half):
gradients between mid - half and mid + half, curvature at most steep. The logistic loss of a record s = y x is
(mid, half, centre, steep) = (-s/2, |s|/2, 0, s^2/4); a straight line has half = 0.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from admmnet.privacy.conversion import LAMBDAS, ORDERS, gaussian_delta
from admmnet.privacy.events import ObjectivePerturbation
from admmnet.privacy.proven import EventCost, cost

Array = NDArray[np.float64]
SCALE = 20 if os.environ.get("ADMMNET_TEST_LARGE") else 1
TOLERANCE = 1e-6
"""Of a quadrature, relative to the bound it is compared with."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
_OUTER = np.array([3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0])
PIECES = np.linspace(-1.0, 1.0, 17)
MARKS: Array = np.concatenate((-_OUTER[::-1], np.linspace(-2.0, 2.0, 33), _OUTER))


@dataclass(frozen=True)
class Records:
    """One record of each of many models: every field has the models' shape."""

    mid: Array
    half: Array
    centre: Array
    steep: Array

    def rows(self, index: Any) -> Records:
        return Records(*(getattr(self, field.name)[index] for field in fields(self)))

    def slope(self, score: Array) -> Array:
        return np.asarray(self.mid + self.half * np.tanh((score - self.centre) * self._rate()))

    def bend(self, score: Array) -> Array:
        t = np.tanh((score - self.centre) * self._rate())
        return np.asarray(self.half * self._rate() * (1.0 - t) * (1.0 + t))

    def _rate(self) -> Array:
        return np.asarray(self.steep / np.maximum(self.half, 1e-9))

    def lipschitz(self) -> Array:
        return np.asarray(np.abs(self.mid) + self.half)

    def marks(self) -> Array:
        """Points around which the curvature changes, shape (models, 49)."""
        width = 1.0 / np.maximum(self._rate(), 1e-9)
        return np.asarray(self.centre[:, None] + width[:, None] * MARKS)


@dataclass(frozen=True)
class Kinked(Records):
    """Records whose slope is mid + half clip((score - centre) steep / half, -1, 1): curvature steep or 0."""

    def rows(self, index: Any) -> Kinked:
        return Kinked(*(getattr(self, field.name)[index] for field in fields(self)))

    def _at(self, score: Array) -> Array:
        return np.asarray((score - self.centre) * self._rate())

    def slope(self, score: Array) -> Array:
        return np.asarray(self.mid + self.half * np.clip(self._at(score), -1.0, 1.0))

    def bend(self, score: Array) -> Array:
        return np.where(np.abs(self._at(score)) < 1.0, self.half * self._rate(), 0.0)

    def marks(self) -> Array:
        """Both ends of the curved zone and points between them, shape (models, 17)."""
        return np.asarray(self.centre[:, None] + PIECES / np.maximum(self._rate(), 1e-9)[:, None])


def logistic(s: Array) -> Records:
    """Logistic loss of s = y x."""
    return Records(-0.5 * s, 0.5 * np.abs(s), np.zeros_like(s), 0.25 * s * s)


@dataclass(frozen=True)
class Models:
    """One-dimensional objective perturbations: every array has shape (models,).

    m theta^2/2 + (1/n) (sum of records) - b theta, b ~ N(0, sigma^2); ``others`` stand for ``weight`` records each.
    """

    n: Array
    m: Array
    sigma: Array
    first: Records
    second: Records
    others: tuple[tuple[Array, Records], ...] = ()

    def rows(self, index: Any) -> Models:
        return Models(
            self.n[index],
            self.m[index],
            self.sigma[index],
            self.first.rows(index),
            self.second.rows(index),
            tuple((weight[index], record.rows(index)) for weight, record in self.others),
        )

    def swapped(self) -> Models:
        return replace(self, first=self.second, second=self.first)

    def _common(self, theta: Array) -> tuple[Array, Array]:
        slope, bend = self.m[:, None] * theta, np.broadcast_to(self.m[:, None], theta.shape)
        for weight, record in self.others:
            column = record.rows((slice(None), None))
            share = (weight / self.n)[:, None]
            slope, bend = slope + share * column.slope(theta), bend + share * column.bend(theta)
        return slope, np.asarray(bend)

    def log_densities(self, theta: Array) -> tuple[Array, Array]:
        """Log densities of the minimiser with the first and with the second record, theta (models, k)."""
        slope, bend = self._common(theta)
        n, sigma = self.n[:, None], self.sigma[:, None]
        found = []
        for record in (self.first, self.second):
            column = record.rows((slice(None), None))
            b = slope + column.slope(theta) / n
            bent = bend + column.bend(theta) / n
            found.append(-0.5 * np.square(b / sigma) + np.log(bent / sigma) - 0.5 * math.log(2.0 * math.pi))
        return found[0], found[1]

    def needed_b(self, theta: Array) -> Array:
        """Linear term b at which theta minimises the objective minus b theta, with the first record."""
        return self._common(theta)[0] + self.first.rows((slice(None), None)).slope(theta) / self.n[:, None]

    def minimisers(self, b: Array, steps: int = 64) -> Array:
        """Theta of every b with the first record, by bisection, shapes (models, k)."""
        reach = np.abs(b) + np.abs(self.needed_b(np.zeros((len(b), 1))))
        low, high = -reach / self.m[:, None], reach / self.m[:, None]
        for _ in range(steps):
            middle = 0.5 * (low + high)
            below = self.needed_b(middle) < b
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))


def divergences(models: Models, lams: Array, panels: int = 96) -> tuple[Array, Array]:
    """Renyi divergences of order 1 + lams of first from second, and the quadrature's error, shape (models,).

    Gauss-Legendre on panels that are even in b, broken at the marks of all records; the range leaves out less
    than exp(-40) of the integral. The error is the larger of two: how far the densities are from integrating
    to 1, and how much two thirds of the panels change the logarithm; both divided by lams.
    """
    coarse, _ = _log_integrals(models, lams, 2 * panels // 3)
    value, mass = _log_integrals(models, lams, panels)
    return value / lams, np.asarray(np.maximum(np.abs(value - coarse), mass) / lams)


def _log_integrals(models: Models, lams: Array, panels: int) -> tuple[Array, Array]:
    gap = (models.first.lipschitz() + models.second.lipschitz()) / models.n / models.sigma
    reach = models.sigma * (gap + lams * gap + np.sqrt((1.0 + lams) * lams * gap * gap + 80.0))
    edges = _edges(models, reach, panels)
    kinds = (models.first, models.second, *(record for _, record in models.others))
    marks = np.concatenate([record.marks() for record in kinds], axis=1)
    edges = np.sort(np.concatenate((edges, np.clip(marks, edges[:, :1], edges[:, -1:])), axis=1), axis=1)
    middle, radius = 0.5 * (edges[:, 1:] + edges[:, :-1]), 0.5 * np.diff(edges, axis=1)
    theta = (middle[:, :, None] + radius[:, :, None] * NODES).reshape(len(lams), -1)
    weight = (radius[:, :, None] * WEIGHTS).reshape(len(lams), -1)
    p, q = models.log_densities(theta)
    lam = lams[:, None]
    value = logsumexp((1.0 + lam) * p - lam * q, b=weight, axis=1)
    masses = [np.abs(np.sum(np.exp(log) * weight, axis=1) - 1.0) for log in (p, q)]
    return np.asarray(value), np.asarray(np.maximum(*masses))


def _edges(models: Models, reach: Array, panels: int) -> Array:
    """Points that cut -reach <= b <= reach into about equal parts, shape (models, panels + 1)."""
    return models.minimisers(reach[:, None] * np.linspace(-1.0, 1.0, panels + 1), steps=30)


@dataclass(frozen=True)
class Trial:
    """Models with the constants of their losses and orders, all of shape (models,)."""

    models: Models
    lipschitz: Array
    curvature: Array
    orders: Array

    def costs(self, logistic: bool = False) -> list[EventCost]:
        models = self.models
        rows = np.column_stack([models.n, models.m, models.sigma, self.lipschitz, self.curvature]).tolist()
        return [
            cost(ObjectivePerturbation(2.0 * G / n, sigma, G, c1, m, int(n), logistic=logistic))
            for n, m, sigma, G, c1 in rows
        ]

    def curve(self, logistic: bool = False) -> Array:
        """min{(R), (A)} at each model's order; with ``logistic`` what (L) would claim."""
        found = zip(self.costs(logistic), self.orders.tolist(), strict=True)
        return np.array([each.curve[int(order)] for each, order in found])

    def line(self) -> Array:
        """Alpha (rho0 + 2.6 kappa^2), the ledger's rho."""
        return np.asarray(np.array([each.rho for each in self.costs()]) * ORDERS[self.orders])

    def values(self, logistic: bool = False) -> Array:
        """Divergences, after checking the quadrature's error."""
        value, error = divergences(self.models, LAMBDAS[self.orders])
        assert float(np.max(error / self.curve(logistic))) < TOLERANCE
        return value

    def checked_ratios(self, logistic: bool = False) -> Array:
        """Divergence over curve, after asserting that neither it nor the line is exceeded."""
        value, curve = self.values(logistic), self.curve(logistic)
        assert np.all(value <= curve * (1.0 + TOLERANCE)), self._worst(value / curve)
        assert np.all(value <= self.line() * (1.0 + TOLERANCE)), self._worst(value / self.line())
        return np.asarray(value / curve)

    def _worst(self, ratio: Array) -> str:
        i = int(np.argmax(ratio))
        return f"{ratio[i]:.9g} at alpha - 1 = {LAMBDAS[self.orders[i]]:.6g}: {self.models.rows([i])}"


class PlaneRecord(NamedTuple):
    """A record in the plane: direction z, shape (2,), and its loss of the score z . theta."""

    z: Array
    loss: Records


def plane_divergences(
    n: float,
    m: float,
    sigma: float,
    first: PlaneRecord,
    second: PlaneRecord,
    others: Sequence[tuple[float, PlaneRecord]],
    lams: Sequence[float],
    size: int = 448,
) -> tuple[Array, float]:
    """Renyi divergences in two dimensions, both directions, shape (lams, 2), and the quadrature's error.

    Trapezoid on size x size points of b/m plus the minimiser at b = 0 for straight losses; smooth and decaying,
    so it converges faster than any power. Error: against every second point, and the densities' integrals.
    """
    lips = [float(np.linalg.norm(r.z) * r.loss.lipschitz()) for r in (first, second, *(r for _, r in others))]
    gap = sum(lips[:2]) / n / sigma
    lam = max(lams)
    shift = sum(w * x for (w, _), x in zip(others, lips[2:], strict=True)) / n
    half = (sigma * (gap + lam * gap + math.sqrt((1 + lam) * lam * gap**2 + 60.0)) + max(lips[:2]) / n + shift) / m
    axis = np.linspace(-half, half, size + 1)
    x, y = axis[:, None], axis[None, :]
    cell = 2.0 * math.log(axis[1] - axis[0])
    logs = []
    for record in (first, second):
        bx, by = m * x + 0.0 * y, 0.0 * x + m * y
        hxx, hyy, hxy = np.full_like(bx, m), np.full_like(bx, m), np.zeros_like(bx)
        for weight, (z, loss) in (*others, (1.0, record)):
            score = z[0] * x + z[1] * y
            slope, bend = weight / n * loss.slope(score), weight / n * loss.bend(score)
            bx, by = bx + slope * z[0], by + slope * z[1]
            hxx, hyy, hxy = hxx + bend * z[0] ** 2, hyy + bend * z[1] ** 2, hxy + bend * z[0] * z[1]
        density = -0.5 * (bx**2 + by**2) / sigma**2 + np.log(hxx * hyy - hxy**2)
        logs.append(density - 2.0 * math.log(sigma) - math.log(2.0 * math.pi) + cell)
    p, q = logs
    found = np.zeros((len(lams), 2))
    error = max(abs(float(np.sum(np.exp(log))) - 1.0) for log in logs) / min(lams)
    for row, lam in enumerate(lams):
        for column, (one, two) in enumerate(((p, q), (q, p))):
            terms = (1.0 + lam) * one - lam * two
            value, coarse = _log_sum(terms), _log_sum(terms[::2, ::2]) + math.log(4.0)
            found[row, column] = value / lam
            error = max(error, abs(value - coarse) / lam)
    return found, error


def _log_sum(terms: Array) -> float:
    top = float(np.max(terms))
    return top + math.log(float(np.sum(np.exp(terms - top))))


def discrete_delta(mu: float, kappa: float, epsilon: float) -> float:
    """Delta of discrete Gaussian releases, docs/proofs.md Theorem 19: e^kappa (P5) + e^epsilon (e^kappa - 1).

    Parameters
    ----------
    mu : float
        Square root of the sum of (sensitivity/s)^2.
    kappa : float
        Sum of ``excess``.
    """
    return math.exp(kappa) * gaussian_delta(mu, epsilon) + math.exp(epsilon) * math.expm1(kappa)
