"""Random streams of an agent: seeded for simulations, keyed by the operating system for private runs.

Seeded streams are PCG64 keyed by (seed, agent, purpose), so the numbers are the same on every transport
and for every number of processes. Private streams are ChaCha20 under a fresh 256-bit key that is kept
nowhere. See docs/proofs.md, "Noise".
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is for; one stream a purpose keeps draws of one kind from shifting another's."""

    OBJECTIVE = 0
    OUTPUT = 1
    GATE = 2
    BATCH = 3


class AgentStreams(Mapping[Purpose, np.random.Generator]):
    """Independent generators of one agent, one a purpose, each made where it is first used.

    Parameters
    ----------
    agent : int
        Agent number, 0 or more.
    seed : int or None
        Seed of a simulation; None for private noise.
    """

    __slots__ = ("_agent", "_forks", "_made", "_seed")

    def __init__(self, agent: int, seed: int | None) -> None:
        self._agent, self._seed = agent, seed
        self._made: tuple[np.random.BitGenerator | None, ...] = (None,) * len(Purpose)
        self._forks = len(_FORKS)

    def __getitem__(self, purpose: Purpose) -> np.random.Generator:
        """Generator of a purpose."""
        if self._seed is None and self._forks != len(_FORKS):  # the parent goes on with these keys
            self._made, self._forks = (None,) * len(Purpose), len(_FORKS)
        found = self._made[purpose]
        if found is None:
            found = _private() if self._seed is None else _seeded(self._seed, self._agent, purpose)
            self._made = (*self._made[:purpose], found, *self._made[purpose + 1 :])
        return np.random.Generator(found)  # all state is in what it is made of

    def __iter__(self) -> Iterator[Purpose]:
        """All purposes."""
        return iter(Purpose)

    def __len__(self) -> int:
        """Number of purposes."""
        return len(Purpose)


_FORKS: list[None] = []
"""As many as forks lie between the first process and this one."""
os.register_at_fork(after_in_child=lambda: _FORKS.append(None))
_ANY = np.random.SeedSequence(0)


def _seeded(seed: int, agent: int, purpose: Purpose) -> np.random.BitGenerator:
    bits = np.random.PCG64(_ANY)  # what it is made of stays with it, 340 bytes of one's own
    bits.state = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(agent, int(purpose)))).state
    return bits


def _private() -> np.random.BitGenerator:
    from randomgen import ChaCha  # imported here: seeded runs do without it

    # 20 rounds; the key comes from the operating system's generator and is never stored
    return ChaCha(key=secrets.randbits(256), rounds=20)  # type: ignore[no-any-return]
