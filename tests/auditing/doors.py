"""The door that a worst-case canary is behind, for mechanisms that are asked through it."""

from __future__ import annotations

import numpy as np

from admmnet.auditing.methods import canary
from admmnet.holder import Answer, Ask, Door, Holder
from admmnet.masking import Masks
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import Logistic
from admmnet.types import Matrix

LOSS = Logistic()


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
