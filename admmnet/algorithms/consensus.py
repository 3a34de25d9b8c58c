"""State of one agent in decentralised consensus ADMM, and docs/algorithms.md eqs. (3), (4), (35), (36).

Only released vectors enter: ``theta`` is what the agent itself last broadcast, ``heard`` what its neighbours did.
Privacy rests on that (docs/privacy.md, Theorem 3): the duals and the penalty are public. Simulated trouble
(docs/trouble.md) is public too, and leaves the convexity as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from admmnet.types import Matrix, Vector

Mask: TypeAlias = NDArray[np.bool_]


class Contact(NamedTuple):
    """A round's trouble around one agent, by neighbour in ascending order.

    Attributes
    ----------
    present : ndarray of bool, shape (degree,)
        Whether the edge is there, known before the agent solves.
    arrives : ndarray of bool, shape (degree,)
        Whether what the agent says gets there, known by acknowledgement; False where the edge is absent.
    hears : ndarray of bool, shape (degree,)
        Whether what the neighbour says gets here; False where the edge is absent.
    """

    present: Mask
    arrives: Mask
    hears: Mask


def apart(contact: Contact | None, neighbours: Sequence[int], lost: Collection[int]) -> Contact | None:
    """Trouble around an agent of which some neighbours are gone for good: their edges are absent from now on."""
    there = np.array([j not in lost for j in neighbours])
    if there.all():
        return contact
    contact = contact or Contact(there, there, there)
    return Contact(contact.present & there, contact.arrives & there, contact.hears & there)


class Consensus:
    """Last released vectors around one agent and its dual.

    Parameters
    ----------
    neighbours : sequence of int
        In ascending order, the order of every sum; those of all rounds where the graph changes.
    size : int
        Number of coordinates d; everything starts at zero.

    Attributes
    ----------
    theta, dual : ndarray of shape (d,)
    heard : ndarray of shape (degree, d)
        Last vector heard of every neighbour.
    said : ndarray of shape (degree, d) or None
        Last own vector that arrived at every neighbour; None while there was no trouble: ``theta`` everywhere.
    contact : Contact or None
        Trouble of the present round, None for none; to be set before the agent proposes.
    sent : int
        Vectors sent so far, one for each neighbour that was there.
    """

    def __init__(self, neighbours: Sequence[int], size: int) -> None:
        self.neighbours = tuple(neighbours)
        self.theta: Vector = np.zeros(size)
        self.dual: Vector = np.zeros(size)
        self.heard: Matrix = np.zeros((len(self.neighbours), size))
        self.said: Matrix | None = None
        self.contact: Contact | None = None
        self.sent = 0

    @property
    def degree(self) -> int:
        """Number of neighbours, |B_i|."""
        return len(self.neighbours)

    def linear_term(self, eta: float, proximal: float = 0.0) -> Vector:
        """Linear coefficient of eqs. (3), (16), (35) less the loss, 2 dual - eta sum_j (theta_i + c_ij) - p theta_i."""
        around: Vector = self.degree * self.theta + self._around().sum(axis=0)
        linear = 2.0 * self.dual - eta * around
        return linear - proximal * self.theta if proximal else linear

    def convexity(self, eta: float, regularisation: float, proximal: float = 0.0) -> float:
        """Return m = regularisation + 2 eta |B_i| + p; ``regularisation`` is lambda/N, p the self-term's weight."""
        return regularisation + 2.0 * eta * self.degree + proximal

    def absorb(self, own: Vector | None, heard: Mapping[int, Vector], eta: float) -> None:
        """Take in what was said this round and update the dual, eq. (4); a silent agent keeps its last value."""
        if self.contact is not None or self.said is not None:
            self._absorb_in_trouble(own, heard, eta)
            return
        if own is not None:
            self.theta = own
            self.sent += self.degree
        for row, j in enumerate(self.neighbours):
            if j in heard:
                self.heard[row] = heard[j]
        self.dual = self.dual + 0.5 * eta * (self.degree * self.theta - self.heard.sum(axis=0))

    def _around(self) -> Matrix:
        """Neighbours' vectors, shape (degree, d): the agent's own where the edge is absent."""
        if self.contact is None:
            return self.heard
        return np.where(self.contact.present[:, None], self.heard, self.theta)

    def _absorb_in_trouble(self, own: Vector | None, heard: Mapping[int, Vector], eta: float) -> None:
        """Eq. (36): the dual moves along edges over which nothing was lost, by vectors that both ends hold."""
        whole = np.ones(self.degree, dtype=bool)
        contact = self.contact or Contact(whole, whole, whole)
        if self.said is None:  # until now everything has arrived
            self.said = np.tile(self.theta, (self.degree, 1))
        if own is not None:
            self.theta = own
            self.said[contact.arrives] = own
            self.sent += int(contact.present.sum())
        for row, j in enumerate(self.neighbours):
            if contact.hears[row] and j in heard:
                self.heard[row] = heard[j]
        both = contact.arrives & contact.hears
        self.dual = self.dual + 0.5 * eta * (self.said[both] - self.heard[both]).sum(axis=0)
