"""What others say, checked where it comes in: of the run's length, finite, within the bound of all messages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RunError
from admmnet.solvers.radius import MOST
from admmnet.transport import Inbox, Outgoing, Transport, Words, is_writer
from admmnet.types import Matrix, Vector


def exchange(transport: Transport, outgoing: Outgoing, round: int, width: int, words: Words | None = None) -> Inbox:
    """Exchange a round's vectors of ``width`` coordinates; a neighbour that sends anything else is rejected."""
    inbox = transport.exchange(outgoing, round, words)
    for agent, vectors in inbox.items():
        for j, vector in list(vectors.items()):
            if (fault := fault_of(vector, width)) is not None:
                del vectors[j]
                transport.reject(j, f"agent {agent}: neighbour {j} sent {fault}")
    return inbox


def collect(transport: Transport, rows: Matrix) -> Matrix:
    """Collect the rows of all agents; who sends no numbers where this process has some is rejected by everybody.

    Rows of agents that are away are nan.
    """
    return _checked(transport, rows, transport.collect(rows))


def report(transport: Transport, rows: Matrix) -> Matrix:
    """Collect the rows of all agents, as ``collect`` does, where this process is to have them; else return its own."""
    everything = transport.report(rows)
    return rows if everything is None else _checked(transport, rows, everything)


def posted(transport: Transport, *, last: bool = False) -> list[tuple[int, Matrix]]:
    """Rounds whose posts are whole, each with what ``report`` returns."""
    found = transport.posted(last=last)
    return [(round, mine if said is None else _checked(transport, mine, said)) for round, mine, said in found]


def tell(transport: Transport, values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Give every process the writer's content; others take no model from it, ``width`` numbers a row, that cannot be.

    RunError if they are such.
    """
    told = transport.tell(values)
    if not (is_writer(transport) or bool((np.abs(told[..., :width]) <= MOST).all())):
        raise RunError(
            "the process that writes sent numbers that are not finite or beyond 2^40: one of its agents does "
            "not run this program; ask its owner"
        )
    return told


def _checked(transport: Transport, rows: Matrix, everything: Matrix) -> Matrix:
    known = np.isfinite(rows).all(axis=0)
    said = everything if known.all() else everything[:, known]
    suspect = ~(np.einsum("ij,ij->i", said, said) <= MOST * MOST)  # nan, too: who is not is within the bound
    suspect[[*transport.agents, *transport.away]] = False
    for i in np.flatnonzero(suspect).tolist():
        if (fault := fault_of(everything[i, known], int(known.sum()))) is not None:
            everything[i] = np.nan
            transport.reject(i, f"agent {i}: among its figures it sent {fault}")
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
