"""Losses from outside as public tables: their code is called on a public grid, and never with a record.

A table is a loss by itself, whatever it was made from: its slope is the piecewise linear function through the nodes,
constant beyond the grid. docs/methods.md, "Losses from outside", says what is computed and with which error.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.types import Matrix, Vector

STEP, REACH = 2.0**-8, 2.0**7
"""Distance of two nodes, and the largest score of the grid."""
_CELLS = 2**15  # on either side of 0
_HALF = _CELLS + 1
_BITS = 40  # slopes are multiples of 2^(e - 40), and at most 2^e
_LEAST, _MOST = 1e-6, 1e6  # of the steepest slope
_NODES = np.linspace(-REACH, REACH, 2 * _CELLS + 1)

Slope = Callable[[Vector, Vector], Vector]
"""First derivative of a loss in the score, of scores and labels of one shape."""


class TableLoss:
    """A convex loss whose slope is a public table; a `Loss`.

    Parameters
    ----------
    name : str
        Name in messages and in a ledger's header.
    slopes : ndarray, shape (2, 65537) or (1, 65537)
        Slopes at the nodes for labels -1 and +1, or in the residual u - y where there is one row. They never fall, are
        multiples of ``unit`` of at most 2^40 units, and 0 between those below and those above 0.
    unit : float
        A power of two.

    Attributes
    ----------
    residual : bool
        Whether the loss is a function of u - y, and labels may be any numbers.
    digest : str
        sha256 of what it is, without its name.
    """

    smooth = False  # phi'' jumps at the nodes

    def __init__(self, name: str, slopes: Matrix, unit: float) -> None:
        self.name, self.residual, self._slopes = name, len(slopes) == 1, slopes
        self.tasks = frozenset({"binary", "real"} if self.residual else {"binary"})
        said = f"{slopes.shape} {STEP} {REACH} ".encode() + slopes.astype("<f8").tobytes()
        self.digest = hashlib.sha256(said).hexdigest()
        whole = np.rint(slopes / unit).astype(np.int64)
        areas = np.zeros_like(whole)  # twice the integral from the first node, in unit * STEP: at most 2^57
        np.cumsum(whole[:, 1:] + whole[:, :-1], axis=1, out=areas[:, 1:])
        areas -= areas.min(axis=1, keepdims=True)
        values = areas.astype(np.float64) * np.float64(0.5 * unit * STEP)
        (near, far), (low, high) = _halves(slopes), _halves(values)
        # counted from the end nearer to the minimum, where slope and value are smaller, nothing cancels
        self._far = high < low
        self._base, self._value = np.where(self._far, far, near), np.where(self._far, high, low)
        self._rise = np.where(self._far, near - far, far - near)
        self._steepest = float(np.max(np.abs(slopes)))
        self._sharpest = float(np.max(np.diff(slopes))) / STEP

    @classmethod
    def of(
        cls, slope: Slope, name: str, *, residual: bool = False, steepest: float = math.inf, sharpest: float = math.inf
    ) -> TableLoss:
        """Tabulate a slope, which is called on the grid once a label.

        Parameters
        ----------
        slope : callable
            ``slope(u, y)``, of float64 arrays of one shape (65537,).
        name, residual
            As of the class.
        steepest, sharpest : float
            Bounds on |phi'| and phi'' that its author states.

        Raises
        ------
        RequestError
            It is no slope of a convex loss that has a minimum, or exceeds what is stated; the message has the place.
        """
        labels = (0.0,) if residual else (-1.0, 1.0)
        found = [_asked(slope, _NODES, y) for y in labels]
        if residual and not np.allclose(_asked(slope, _NODES + 1.0, 1.0), found[0], rtol=1e-6, atol=1e-9):
            raise RequestError("slope(u + 1, 1) is not slope(u, 0), though residual says that it depends on u - y")
        G = max(float(np.max(np.abs(s))) for s in found)
        if not _LEAST <= G <= _MOST:
            raise RequestError(f"its steepest slope is {G:g}: scale it to between {_LEAST:g} and {_MOST:g}")
        unit = 2.0 ** (math.frexp(G)[1] - _BITS)
        table = cls(name, np.stack([_rounded(s, y, unit) for s, y in zip(found, labels, strict=True)]), unit)
        limit = 2.0 * table.curvature_bound() + table.lipschitz() + 0.5
        farthest = np.maximum(np.abs(_NODES[:-1]), np.abs(_NODES[1:])) + residual  # targets are at most 1
        for y, s, own in zip(labels, found, table._slopes, strict=True):
            _hold(np.abs(s), y, "the slope", steepest, "the gradient bound that it states")
            _hold(np.diff(s) / STEP, y, "the curvature", sharpest, "the one that it states", 2.0 * unit / STEP)
            _hold(farthest * np.diff(own) / STEP, y, "|u| phi''", limit, "2 c + G + 1/2, which solves rely on")
        return table

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """First derivative of each record, off by at most 4 units of 2^-53."""
        cell, way = self._place(*self._argument(u, y), y)
        way *= self._rise[cell]
        way += self._base[cell]
        return way

    @np.errstate(over="ignore")
    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss of each record: integral of the slope, 0 at its minimum."""
        r, rest = self._argument(u, y)
        cell, way = self._place(r, rest, y)
        base, size = np.abs(self._base[cell]), np.minimum(np.abs(r), np.finfo(np.float64).max)
        within = way * (base + 0.5 * np.abs(self._rise[cell]) * way)
        beyond = np.where(size > REACH, size - REACH + rest, 0.0)
        return np.asarray(self._value[cell] + (STEP * within + beyond * base))

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Second derivative of each record, of one side at a node."""
        return np.asarray(np.abs(self._rise[self._place(*self._argument(u, y), y)[0]]) / STEP)

    def lipschitz(self, row_norm: float = 1.0) -> float:
        """Gradient bound G of the table."""
        return self._steepest * row_norm

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        """Curvature bound c1 of the table."""
        return self._sharpest * row_norm * row_norm

    def _argument(self, u: Vector, y: Vector) -> tuple[Vector, Any]:
        """What the table is a function of, rounded, and what that lost, positive away from 0."""
        if not self.residual:
            return u, 0.0
        with np.errstate(invalid="ignore"):  # of an infinite score
            r = u - y
            part = r - u
            rest = (u - (r - part)) - (y + part)  # Knuth 1969
        return r, np.copysign(1.0, r) * rest

    def _place(self, r: Vector, rest: Any, y: Vector) -> tuple[NDArray[np.intp], Vector]:
        """Cell of each argument, and how far into it from its smaller end, 0 to 1."""
        place = np.minimum(np.abs(r), REACH)
        place /= STEP
        cell = np.fmin(place, _CELLS).astype(np.intp)  # a nan has some cell, and stays nan in what follows
        place -= cell
        if self.residual:
            rest = np.where(np.abs(r) > REACH, 0.0, rest) / STEP
            before = (place == 0.0) & (rest < 0.0)  # it is in the cell before, whose end is the node
            cell, place = cell - before, place + before
        else:
            cell += (y > 0.0) * (2 * _HALF)
        cell += (r < 0.0) * _HALF
        far = self._far[cell]
        np.subtract(far, place, out=place)
        np.abs(place, out=place)
        return cell, place + np.where(far, -rest, rest) if self.residual else place


def _halves(values: Matrix) -> tuple[Vector, Vector]:
    """Values at the nearer and the farther end of each cell, by row and side of 0; the last cell is what is beyond."""
    sides = np.stack((values[:, _CELLS:], values[:, _CELLS::-1]), axis=1)
    farther = np.concatenate((sides[:, :, 1:], sides[:, :, -1:]), axis=2)
    return np.ravel(sides), np.ravel(farther)


def _asked(slope: Slope, u: Vector, y: float) -> Vector:
    """Slopes of a label at scores, as its author's function gives them."""
    said = f"slope(u, y) for y = {y:g}"
    try:
        found = np.array(slope(u.copy(), np.full(len(u), y)), dtype=np.float64)
    except Exception as error:
        raise RequestError(f"{said} of {len(u)} scores raises {type(error).__name__}: {error}") from error
    if found.shape != u.shape:
        raise RequestError(f"{said} of {len(u)} scores has the shape {found.shape}: one number a score")
    if not np.isfinite(found).all():
        at = int(np.argmin(np.isfinite(found)))
        raise RequestError(f"{said} is {found[at]} at u = {u[at]:g}: it must be finite")
    return found


def _rounded(s: Vector, y: float, unit: float) -> Vector:
    """Slopes that never fall, in whole units, 0 on one side of every change of sign."""
    top = np.maximum.accumulate(s)
    if (s < top - unit).any():  # less is its author's rounding
        at = int(np.argmax(s < top - unit))
        of = int(np.argmax(s[:at]))
        raise RequestError(
            f"it is not convex: for y = {y:g} the slope falls from {s[of]:g} at u = {_NODES[of]:g} to {s[at]:g} at "
            f"{_NODES[at]:g}"
        )
    found: Vector = np.rint(top / unit) * unit + 0.0
    for left in np.flatnonzero((found[:-1] < 0.0) & (found[1:] > 0.0)):
        found[left + (-found[left] > found[left + 1])] = 0.0
    if not found[0] <= 0.0 <= found[-1]:
        raise RequestError(
            f"for y = {y:g} the slope has one sign, from {found[0]:g} at u = {-REACH:g} to {found[-1]:g} at u = "
            f"{REACH:g}: it needs a minimum between them"
        )
    return found


def _hold(values: Vector, y: float, what: str, most: float, bound: str, slack: float = 0.0) -> None:
    """Refuse values of cells or nodes above a bound."""
    at = int(np.argmax(values))
    if not values[at] <= most * (1.0 + 1e-9) + slack:
        raise RequestError(f"for y = {y:g} {what} is {values[at]:g} at u = {_NODES[at]:g}, above {most:g}, {bound}")
