"""Worst-case canaries, and the door that they are behind.

One logistic record pulls with a slope below 1, and its replacement pulls the other way only where it is as badly
classified. Both are so far out along -e1: rows (sin a, cos a) and (sin a, -cos a), labels +1, differ in gradient by
2 cos a there, within 0.5 % of the sensitivity 2 G at a = 0.1, and have no curvature left. Who chooses the linear term
or the centre of a query, as neighbours do, puts them there.
"""

from __future__ import annotations

import math

import numpy as np

from admmnet.holder import Answer, Ask, Door, Holder
from admmnet.masking import Masks
from admmnet.privacy.budget import Charges
from admmnet.privacy.contract import Contract, MemoryLedger, Promise
from admmnet.privacy.filters import Count
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import Logistic
from admmnet.types import Matrix, Vector

SINE = 0.1
COSINE = math.sqrt(1.0 - SINE * SINE)
FAR = 400.0
"""Distance at which the slope of a canary is 1 - e^-40."""
LOSS = Logistic()


def contract_for(
    epsilon: float, delta: float, charges: Charges, form: str = "proven", colluders: int | None = None
) -> Contract:
    """Contract of a plan by itself."""
    return Contract(Promise(epsilon, delta, colluders=colluders), Count.of(charges, epsilon, delta), form=form)


def far(width: int) -> Vector:
    """FAR e1, shape (width,)."""
    return np.asarray(FAR * np.eye(width)[0])


def canary(world: int, width: int) -> Vector:
    """Canary of world 1, or the record in its place, shape (width,)."""
    row = np.zeros(width)
    row[:2] = SINE, COSINE if world else -COSINE
    return row


def door(world: int, others: Matrix, contract: Contract, rng: np.random.Generator) -> tuple[Door, MemoryLedger]:
    """Door of the canary and other rows; see ``door_of``."""
    return door_of(np.vstack((canary(world, others.shape[1]), others)), contract, rng)


def door_of(
    rows: Matrix, contract: Contract, rng: np.random.Generator, masks: Masks | None = None
) -> tuple[Door, MemoryLedger]:
    """Door of these rows with labels +1, for the logistic loss, with fresh streams and a fresh guard."""
    ledger = MemoryLedger(contract)
    streams = AgentStreams(0, int(rng.integers(2**63)))
    return Door(Holder(rows, np.ones(len(rows))), 0, LOSS, ledger, streams, masks), ledger


def answered(at: Door, ask: Ask) -> Answer:
    """Answer of a door."""
    return at.answer(ask, 0)
