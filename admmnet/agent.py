"""One agent: its records, its state, its streams, its ledger and the method that drives them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from admmnet.algorithms import Algorithm
from admmnet.algorithms.consensus import Consensus
from admmnet.drive import AnySolver, Solve, Steps, alone
from admmnet.errors import CertificateError, RunError
from admmnet.privacy.ledger import Ledger
from admmnet.rng import Purpose
from admmnet.types import Vector


class Agent:
    """One agent of the network.

    Parameters
    ----------
    id : int
        Its number in the graph.
    solver : LocalSolver or BlockMember
        Holds the agent's records; they never leave it.
    state : Consensus
        Released vectors and the dual.
    eta : float
        ADMM penalty.
    regularisation : float
        lambda/N, this agent's share of the regulariser.
    proximal : float
        Weight of the self-term.
    algorithm, ledger, streams
        How it proposes, what it has spent, its random numbers.
    discreet : bool
        Whether errors keep figures that depend on the records to themselves (private runs).
    """

    def __init__(
        self,
        id: int,
        solver: AnySolver,
        state: Consensus,
        *,
        eta: float,
        regularisation: float,
        proximal: float = 0.0,
        algorithm: Algorithm,
        ledger: Ledger,
        streams: Mapping[Purpose, np.random.Generator],
        discreet: bool = False,
    ) -> None:
        self.id = id
        self.solver = solver
        self.state = state
        self.eta = eta
        self.regularisation = regularisation
        self.proximal = proximal
        self.convexity = state.convexity(eta, regularisation, proximal)
        self.algorithm = algorithm
        self.ledger = ledger
        self.streams = streams
        self.discreet = discreet
        self.releases = 0
        self.comparisons = 0
        self._spoken: Vector | None = None

    @property
    def records(self) -> int:
        """Number of records, n_i."""
        return len(self.solver.y)

    def propose(self, round: int) -> Vector | None:
        """Carry out a ``proposal`` by this agent alone."""
        return alone(self.proposal(round))

    def proposal(self, round: int) -> Steps[Vector | None]:
        """Return this round's broadcast, or None for silence; its cost is in the ledger.

        Raises
        ------
        RunError
            If the local solve misses its certificate; the agent then sends nothing, ever.
        """
        try:
            self._spoken = yield from self.algorithm.propose(self, round)
        except CertificateError as error:
            told = "a solve missed its certificate: raise beta" if self.discreet else str(error)
            raise RunError(f"agent {self.id}, round {round}: {told}") from None
        except RunError as error:
            raise RunError(f"agent {self.id}, round {round}: {error}") from None
        self.releases += self._spoken is not None
        return self._spoken

    def absorb(self, heard: Mapping[int, Vector]) -> None:
        """Take in what the neighbours said, eq. (4).

        Raises
        ------
        RunError
            If a neighbour sent a vector of another length; a single number would otherwise stand for all of them.
        """
        for j, vector in heard.items():
            if vector.shape != self.state.theta.shape:
                raise RunError(
                    f"agent {self.id}: neighbour {j} sent {vector.size} numbers in place of {self.state.theta.size}: "
                    "it does not run the same model; start all agents with the same data schema and settings"
                )
        self.state.absorb(self._spoken, heard, self.eta)

    def linear_term(self) -> Vector:
        """Linear coefficient of this round's objective besides the loss, eqs. (3) and (16)."""
        return self.state.linear_term(self.eta, self.proximal)

    def solve(self, linear: Vector, beta: float, extra: float = 0.0) -> Steps[Vector]:
        """Minimise local loss + ((m + extra)/2) ||theta||^2 + linear . theta to gradient norm beta, eq. (6)."""
        return (yield Solve(self.solver, linear, self.convexity + extra, beta))

    def penalty(self, theta: Vector) -> float:
        """Regulariser's part of f_i(theta), (lambda/N) ||theta||^2 / 2, eq. (1)."""
        return 0.5 * self.regularisation * float(theta @ theta)

    def clipped_objective(self, theta: Vector, clip: float) -> float:
        """f_i(theta) with every record's loss, and the regulariser, clipped to at most ``clip``."""
        losses = np.minimum(self.solver.losses(theta), clip)
        return float(losses.mean()) + min(self.penalty(theta), clip)
