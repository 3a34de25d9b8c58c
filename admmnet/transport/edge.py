"""What others say, checked where it comes in: of the run's length, finite, within the bound of all messages."""

from __future__ import annotations

import numpy as np

from admmnet.errors import RunError
from admmnet.solvers.radius import MOST
from admmnet.transport import Inbox, Outgoing, Transport
from admmnet.types import Matrix, Vector


def exchange(transport: Transport, outgoing: Outgoing, round: int, width: int) -> Inbox:
    """Exchange a round's vectors of ``width`` coordinates; a neighbour that sends anything else is rejected."""
    inbox = transport.exchange(outgoing, round)
    for j, vector in list(inbox.items()):
        if (fault := fault_of(vector, width)) is not None:
            del inbox[j]
            transport.world.reject(j, f"agent {transport.hearer(j)}: neighbour {j} sent {fault}")
    return inbox


def collect(transport: Transport, rows: Matrix) -> Matrix:
    """Collect the rows of all agents; an agent without numbers where this process has some is blamed by all.

    Rows of agents that are away are nan.
    """
    everything = transport.collect(rows)
    known = np.isfinite(rows).all(axis=0)
    said = everything if known.all() else everything[:, known]
    suspect = ~(np.einsum("ij,ij->i", said, said) <= MOST * MOST)  # nan, too: who is not is within the bound
    suspect[[*transport.agents, *transport.away]] = False
    for i in np.flatnonzero(suspect).tolist():
        if (fault := fault_of(everything[i, known], int(known.sum()))) is not None:
            world, text = transport.world, f"agent {i}: among its figures it sent {fault}"
            if world.shared_folder:  # other processes need not see it
                world.reject(i, text)
            world.blame(i, text, RunError)
    return everything


def fault_of(vector: Vector, width: int) -> str | None:
    """What is wrong with a neighbour's vector, None if nothing is."""
    if vector.shape != (width,):  # a single number would stand for all
        return (
            f"{vector.size} numbers in place of {width}: it does not run the same model; start all agents with the "
            "same data schema and settings"
        )
    square = float(np.vdot(vector, vector))  # unlike @ it warns of nothing
    if not square <= MOST * MOST * (1.0 + 1e-9):  # nan fails, too
        return "numbers that are not finite or beyond 2^40: no agent that runs this program does; ask its owner"
    return None
