"""Random streams of an agent: seeded for simulations, keyed by the operating system for private runs.

Seeded streams are PCG64 keyed by (seed, agent, purpose), so the numbers are the same on every transport
and for every number of processes. Private streams are ChaCha20 under a fresh 256-bit key that is kept
nowhere. See docs/privacy.md, "Noise".
"""

from __future__ import annotations

import secrets
from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is for; one stream a purpose keeps draws of one kind from shifting another's."""

    OBJECTIVE = 0
    OUTPUT = 1
    GATE = 2
    BATCH = 3


def agent_streams(agent: int, seed: int | None) -> dict[Purpose, np.random.Generator]:
    """Random streams of one agent.

    Parameters
    ----------
    agent : int
        Agent number, 0 or more.
    seed : int or None
        Seed of a simulation; None for private noise.

    Returns
    -------
    dict
        One independent generator a purpose.
    """
    return {purpose: _seeded(seed, agent, purpose) if seed is not None else _private() for purpose in Purpose}


def _seeded(seed: int, agent: int, purpose: Purpose) -> np.random.Generator:
    sequence = np.random.SeedSequence(seed, spawn_key=(agent, int(purpose)))
    return np.random.Generator(np.random.PCG64(sequence))


def _private() -> np.random.Generator:
    from randomgen import ChaCha  # imported here: seeded runs do without it

    # 20 rounds; the key comes from the operating system's generator and is never stored
    return np.random.Generator(ChaCha(key=secrets.randbits(256), rounds=20))
