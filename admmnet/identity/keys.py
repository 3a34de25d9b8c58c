"""Ed25519 keys of agents (RFC 8032), and what exactly is signed with them (docs/hosts.md)."""

from __future__ import annotations

import ctypes
import re
import resource
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from admmnet.errors import RequestError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE = 64
"""Bytes of a signature."""
KEY = re.compile("[0-9a-f]{64}")
_MAGIC = b"admmnet statement 1"
_PR_SET_DUMPABLE = 4


@dataclass(frozen=True)
class Identity:
    """An agent's signing key: 32 bytes each, as 64 hexadecimal digits."""

    public: str
    secret: str = field(repr=False)

    @classmethod
    def fresh(cls) -> Identity:
        """Draw a key from the operating system's randomness."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.generate()
        return cls(key.public_key().public_bytes_raw().hex(), key.private_bytes_raw().hex())

    @classmethod
    def of(cls, secret: str, where: str) -> Identity:
        """Return the key whose secret half is given; if it is none, the RequestError names ``where`` but not it."""
        key = _private(check_identity(secret, where))
        return cls(key.public_key().public_bytes_raw().hex(), secret)

    def sign(self, statement: bytes) -> bytes:
        """Signature of a ``statement``, 64 bytes."""
        return _private(self.secret).sign(statement)


def verify(public: str, signature: bytes, statement: bytes) -> bool:
    """Whether a signature of a statement was made with the secret half of this key; whatever bytes it is."""
    from cryptography.exceptions import InvalidSignature

    try:
        _public(public).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


def statement(topic: str, *parts: bytes | str | int) -> bytes:
    """Bytes that are signed: the topic and the parts with their kinds and lengths, so that no two say the same."""
    pieces = [_MAGIC]
    for part in (topic, *parts):
        kind = b"s" if isinstance(part, str) else b"i" if isinstance(part, int) else b"b"
        data = part if isinstance(part, bytes) else str(part).encode()
        pieces += [kind, len(data).to_bytes(8, "little"), data]
    return b"".join(pieces)


def check_identity(key: object, where: str) -> str:
    """Return half of an Ed25519 key; if it is none, the RequestError names ``where`` but not the key."""
    if isinstance(key, str) and KEY.fullmatch(key):
        return key
    raise RequestError(
        f"{where} is no signing key: it must be 64 hexadecimal digits, as `admmnet network init` writes it"
    )


def forbid_dumps() -> None:
    """Let this process, which holds secret keys, leave no core dump, and be read by no debugger.

    On Linux whole (prctl, PR_SET_DUMPABLE); elsewhere the limit on the size of core files has to do.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


@lru_cache(maxsize=16384)
def _private(secret: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))


@lru_cache(maxsize=16384)
def _public(key: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
