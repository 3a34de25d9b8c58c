"""Pairwise masks that cancel in a sum: keys of a start, who shares a mask with whom, and the words (Theorem 23).

X25519 (RFC 7748) made new at each start of a process, HKDF and HMAC with SHA-256 (RFC 5869, RFC 2104), ChaCha20 (RFC
8439).
"""

from __future__ import annotations

import hashlib
import hmac
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from admmnet.errors import RequestError
from admmnet.identity.keys import statement
from admmnet.types import Integers


class Attempt(NamedTuple):
    """An attempt at a masked sum.

    Attributes
    ----------
    number : int
        Counted from 1 over the start of a run, the same at every process.
    participants : tuple of int
        Agents that are to take part, ascending, fixed beforehand.
    colluders : int
        K of the contract: how many of the others may work together.
    """

    number: int
    participants: tuple[int, ...]
    colluders: int

    @property
    def parts(self) -> int:
        """Agents that add noise and do not collude."""
        return len(self.participants) - self.colluders


class StartKey:
    """An agent's X25519 key (RFC 7748) of one start: it is kept nowhere, so that nothing of another start opens."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._secret = X25519PrivateKey.generate()
        self.public = self._secret.public_key().public_bytes_raw()

    def derive(self, other: bytes, salt: bytes, info: bytes) -> bytes:
        """32 bytes that this agent and another one know alone, for one purpose: HKDF with SHA-256 (RFC 5869).

        ValueError if the other's public half is of no use: of another length, or of low order.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        shared = self._secret.exchange(X25519PublicKey.from_public_bytes(other))
        return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(shared)


def start_of(run: str, settings: str, publics: Mapping[int, bytes]) -> bytes:
    """Digest of what all must agree on for a whole start: its run id, settings and public keys."""
    parts = [part for agent in sorted(publics) for part in (agent, publics[agent])]
    return hashlib.sha256(statement("start of masked sums", run, settings, *parts)).digest()


class Masks:
    """One agent's masks in a start.

    Parameters
    ----------
    agent : int
    key : StartKey
        Its own.
    publics : mapping
        Public halves of all agents.
    start : bytes
        From ``start_of``.
    colluders : int
        K of the whole start: no sum is masked against any other number.

    Attributes
    ----------
    answered : int
        Number of the last attempt that was answered; none is answered twice.
    """

    def __init__(self, agent: int, key: StartKey, publics: Mapping[int, bytes], start: bytes, colluders: int) -> None:
        self.agent, self.answered, self.colluders = agent, 0, colluders
        self._key, self._publics, self._start = key, publics, start
        self._pairs: dict[int, bytes] = {}

    def check(self, attempt: Attempt) -> None:
        """Refuse an attempt that was answered before, and participants among whom no mask hides the agent.

        RequestError names what is wrong.
        """
        number, participants, colluders = attempt
        if number <= self.answered:
            raise RequestError(
                f"attempt {number} at a masked sum comes after attempt {self.answered}: no attempt is answered twice"
            )
        check_participants(participants, colluders)
        if self.agent not in participants or any(i not in self._publics for i in participants):
            raise RequestError(f"agent {self.agent} is asked for a masked sum of agents without keys or itself")

    def words(self, attempt: Attempt, context: bytes, size: int) -> Integers:
        """Sum of the agent's masks, shape (size,), modulo 2^64: over all participants they add up to zero.

        RequestError as ``check``.
        """
        self.check(attempt)
        self.answered, participants, colluders = attempt
        said = "masked sum", self._start, self.answered, colluders, _digest(participants), context
        bound = hashlib.sha256(statement(*said)).digest()
        total = np.zeros(size, dtype=np.uint64)
        for other in partners_of(self.agent, participants, colluders):
            words = stream(self._pair(other), bound, size)
            total = total + words if self.agent < other else total - words
        return total.view(np.int64)

    def _pair(self, other: int) -> bytes:
        """Key shared with another agent, derived once."""
        if other not in self._pairs:
            pair = statement("pair", min(self.agent, other), max(self.agent, other))
            self._pairs[other] = self._key.derive(self._publics[other], self._start, pair)
        return self._pairs[other]


@lru_cache(maxsize=64)
def _digest(participants: tuple[int, ...]) -> bytes:
    return hashlib.sha256(statement("participants", *participants)).digest()


def stream(key: bytes, context: bytes, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Pseudorandom words of a pair for one context: ChaCha20 under the key HMAC-SHA256(key, context)."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    once = ChaCha20(hmac.digest(key, context, "sha256"), bytes(16))
    return np.frombuffer(Cipher(once, mode=None).encryptor().update(bytes(8 * size)), dtype="<u8")


@lru_cache(maxsize=64)
def check_participants(participants: tuple[int, ...], colluders: int) -> None:
    """Refuse participants of which two might not be left once the colluders are out; RequestError names the numbers."""
    if not 0 <= colluders <= len(participants) - 2:
        raise RequestError(
            f"masked sums with colluders = {colluders} need at least {colluders + 2} agents that take part, and these "
            f"are {len(participants)}: lower --colluders, or take --trust local"
        )
    if any(i >= j for i, j in pairwise(participants)):
        raise RequestError("the participants of a masked sum must be different agents in ascending order")


def partners_of(agent: int, participants: tuple[int, ...], colluders: int) -> tuple[int, ...]:
    """Agents with whom one shares a mask: its neighbours in the Harary graph H_(K+1) over the participants.

    It is (K+1)-connected, so it stays connected without any K agents, and has the fewest edges that such a graph can
    have (Harary 1962). With K = 0 it is a path. RequestError if fewer than K + 2 agents take part, or the agent is none
    of them.
    """
    check_participants(participants, colluders)
    place = bisect_left(participants, agent)
    if place == len(participants) or participants[place] != agent:
        raise RequestError(f"agent {agent} takes no part in this masked sum")
    return tuple(participants[other] for other in _harary(len(participants), colluders)[place])


@lru_cache(maxsize=16)
def _harary(size: int, colluders: int) -> tuple[tuple[int, ...], ...]:
    """Neighbours of every place."""
    import networkx as nx

    graph = nx.hkn_harary_graph(colluders + 1, size)
    return tuple(tuple(sorted(graph[place])) for place in range(size))
