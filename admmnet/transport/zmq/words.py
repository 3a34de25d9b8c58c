"""What is said to everybody: signed by its origin for one run, checked before it is taken in or passed on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from admmnet.identity.keys import Identity, statement, verify
from admmnet.transport.zmq.wire import Frame, Kind

SIGNED = (Kind.SHARE, Kind.ROWS, Kind.POST, Kind.OBITUARY, Kind.ABORT)
"""Kinds that travel on from neighbour to neighbour."""
GATHERS, NONCES = 0, 1
"""Channels of SHARE: values of a gather, and the nonces that the run's id is made of."""


class SignedWords:
    """Signs what this process says to all, and knows whether other processes, with these ``keys``, have signed theirs.

    ``run`` is the run's id, a hash of nonces that all processes have drawn for it: with one's own in it, nothing that
    was signed for another run fits. The nonces themselves, turn 0 of their channel, are signed for no run: an old one
    may be handed on in place of the true one. In turn 1 all sign nothing but the run's id, which shows that.
    """

    def __init__(self, identity: Identity, keys: Sequence[str]) -> None:
        self._identity, self._keys, self.run = identity, tuple(keys), b""

    def begin(self, nonces: Mapping[int, bytes]) -> None:
        """Make the run's id."""
        listed = [nonces[process] for process in range(len(self._keys))]
        self.run = hashlib.sha256(statement("run of a network", *listed, *self._keys)).digest()

    def sign(self, kind: Kind, channel: int, origin: int, round: int, payload: bytes) -> bytes:
        """Signature for a frame of this process; nothing where the run has no id yet and needs one."""
        said = self._statement(kind, channel, origin, round, payload)
        return b"" if said is None else self._identity.sign(said)

    def genuine(self, frame: Frame) -> bool:
        """Whether the origin of a frame of one of the kinds above has signed it, for this run."""
        said = self._statement(frame.kind, frame.channel, frame.origin, frame.round, frame.payload)
        if said is None or frame.origin >= len(self._keys):
            return False
        return verify(self._keys[frame.origin], frame.words, said)

    def _statement(self, kind: Kind, channel: int, origin: int, round: int, payload: bytes) -> bytes | None:
        drawn = kind is Kind.SHARE and channel == NONCES and round == 0
        if not drawn and not self.run:
            return None
        run = b"" if drawn else self.run
        return statement("word", kind.name, run, channel, origin, round, payload)
