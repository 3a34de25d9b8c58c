"""What is said to everybody: signed by its origin for one start, checked before it is taken in or passed on."""

from __future__ import annotations

from collections.abc import Sequence

from admmnet.identity.keys import Identity, statement, verify
from admmnet.transport.zmq.wire import Frame, Kind

SIGNED = (Kind.SHARE, Kind.ROWS, Kind.POST, Kind.ABORT)
"""Kinds that travel on from neighbour to neighbour, and bear no signature in what they carry."""


class SignedWords:
    """Signs what this process says to all, and knows whether other processes, with these ``keys``, have signed theirs.

    ``start`` is the name of the start, which nobody can have known before: nothing that was signed for another one
    fits.
    """

    def __init__(self, identity: Identity, keys: Sequence[str]) -> None:
        self._identity, self._keys, self.start = identity, tuple(keys), ""

    def sign(self, kind: Kind, channel: int, origin: int, round: int, payload: bytes) -> bytes:
        """Signature for a frame of this process; nothing where there is no start yet."""
        return self._identity.sign(self._statement(kind, channel, origin, round, payload)) if self.start else b""

    def genuine(self, frame: Frame) -> bool:
        """Whether the origin of a frame of one of the kinds above has signed it, for this start."""
        if not self.start or frame.origin >= len(self._keys):
            return False
        said = self._statement(frame.kind, frame.channel, frame.origin, frame.round, frame.payload)
        return verify(self._keys[frame.origin], frame.words, said)

    def _statement(self, kind: Kind, channel: int, origin: int, round: int, payload: bytes) -> bytes:
        return statement("word", kind.name, self.start, channel, origin, round, payload)
