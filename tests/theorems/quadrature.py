"""Exact Renyi divergences of small models by quadrature: what the privacy theorems are tested against.

A record is a convex loss of the score z . theta whose slope is mid + half tanh((score - centre) steep / half):
gradients between mid - half and mid + half, curvature at most steep. The logistic loss of a record s = y x is
(mid, half, centre, steep) = (-s/2, |s|/2, 0, s^2/4); a straight line is half = steep = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


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
        return np.asarray(self.steep / np.square(np.cosh(np.clip((score - self.centre) * self._rate(), -300, 300))))

    def _rate(self) -> Array:
        return np.asarray(np.where(self.half > 0.0, self.steep / np.where(self.half > 0.0, self.half, 1.0), 0.0))

    def lipschitz(self) -> Array:
        return np.asarray(np.abs(self.mid) + self.half)

    def marks(self) -> Array:
        """Points around which the curvature changes, shape (models, 17)."""
        width = np.where(self.steep > 0.0, self.half / np.where(self.steep > 0.0, self.steep, 1.0), 0.0)
        return np.asarray(self.centre[:, None] + width[:, None] * np.arange(-16.0, 17.0, 2.0))


def logistic(s: Array) -> Records:
    """Logistic loss of s = y x."""
    return Records(-0.5 * s, 0.5 * np.abs(s), np.zeros_like(s), 0.25 * s * s)


@dataclass(frozen=True)
class Models:
    """One-dimensional objective perturbations: every array has shape (models,).

    b theta + m theta^2/2 + (1/n) (sum of records); ``others`` stand for ``weight`` records each.
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
        """B that makes theta the minimiser with the first record."""
        return self._common(theta)[0] + self.first.rows((slice(None), None)).slope(theta) / self.n[:, None]


def divergences(models: Models, lams: Array, panels: int = 160) -> tuple[Array, Array]:
    """Renyi divergences of order 1 + lams of first from second, and the quadrature's error, shape (models,).

    Gauss-Legendre on panels that are even in b, broken at the marks of all records; the range leaves out less
    than exp(-40) of the integral. The error is how far both densities are from integrating to 1, per lam.
    """
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
    value = logsumexp((1.0 + lam) * p - lam * q, b=weight, axis=1) / lams
    masses = [np.abs(np.sum(np.exp(log) * weight, axis=1) - 1.0) for log in (p, q)]
    return np.asarray(value), np.asarray(np.maximum(*masses) / lams)


def _edges(models: Models, reach: Array, panels: int) -> Array:
    """Points that cut -reach <= b <= reach into about equal parts, shape (models, panels + 1)."""
    push = reach + np.abs(models.needed_b(np.zeros((len(reach), 1)))[:, 0])
    low = -(push / models.m)[:, None] * np.ones(2)
    high = -low
    ends = reach[:, None] * np.array([-1.0, 1.0])
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = models.needed_b(middle) < ends
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    edges = low[:, :1] + (high[:, 1:] - low[:, :1]) * np.linspace(0.0, 1.0, panels + 1)
    target = np.linspace(-1.0, 1.0, panels + 1) * reach[:, None]
    for _ in range(4):
        b = models.needed_b(edges)
        inner = [np.interp(t, x, y) for t, x, y in zip(target, b, edges, strict=True)]
        edges = np.concatenate((edges[:, :1], np.stack(inner)[:, 1:-1], edges[:, -1:]), axis=1)
    return edges
