"""What an agent signs in every round: what it said, and where its ledger stood (docs/hosts.md, "Receipts").

Pure: bytes in, values out. Receipts of one agent and start are chained by their hashes, so that one signature that was
verified covers all before it.
"""

from __future__ import annotations

import hashlib
import math
import struct
from functools import lru_cache
from typing import NamedTuple

import msgspec

from admmnet.identity.keys import SIGNATURE, statement

NOTHING = bytes(32)
"""In place of the digest of silence, of a sum that there was not, and of the receipt before the first one."""
_BODY = struct.Struct("<iIQd32s32s32s32s")
SIZE = _BODY.size + SIGNATURE
"""Bytes of a signed receipt on its way."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    run: str
    round: int
    agent: int
    said: str | None
    total: str | None
    ledger: str
    lines: int
    rho: float | None
    previous: str | None
    signature: str | None


class Receipt(NamedTuple):
    """One agent's word of one round; digests are sha256."""

    round: int
    """Of a stage before round 0 its number, which is negative."""
    agent: int
    lines: int
    """Lines of its ledger, the header included."""
    rho: float
    """Total proven cost of the events in it; infinite without privacy."""
    ledger: bytes
    """Digest of the ledger's last line."""
    said: bytes
    """Digest of the vector that it broadcast; in a round with a sum, of the model that it held before."""
    total: bytes
    """Digest of the round's sum."""
    previous: bytes
    """Hash of its receipt before this one."""

    def statement(self, run: str) -> bytes:
        """What is signed, in a start of this name."""
        return _head(run) + _BODY.pack(*self)

    def line(self, run: str, signature: bytes | None) -> bytes:
        """Line of a file of receipts, newline included; without the signature where a later one covers it."""
        said, total, previous = (f'"{d.hex()}"' if d != NOTHING else "null" for d in self[5:])
        rho = repr(self.rho) if math.isfinite(self.rho) else "null"
        signed = "null" if signature is None else f'"{signature.hex()}"'
        return (
            f'{{"run":"{run}","round":{self.round},"agent":{self.agent},"said":{said},"total":{total},'
            f'"ledger":"{self.ledger.hex()}","lines":{self.lines},"rho":{rho},"previous":{previous},'
            f'"signature":{signed}}}\n'
        ).encode()


@lru_cache(maxsize=64)
def _head(run: str) -> bytes:
    """A receipt's statement up to what it says, which is always as long."""
    return statement("receipt", run, bytes(_BODY.size))[: -_BODY.size]


def statement_of(run: str, words: bytes) -> bytes:
    """Statement of a receipt on its way."""
    return _head(run) + words[: _BODY.size]


def hash_of(signed: bytes) -> bytes:
    """Hash of a receipt's statement, which the next receipt bears."""
    return hashlib.sha256(signed).digest()


def to_words(receipt: Receipt, signature: bytes) -> bytes:
    """Signed receipt on its way."""
    return _BODY.pack(*receipt) + signature


def of_words(words: bytes) -> tuple[Receipt, bytes]:
    """Receipt and signature, which nobody has verified, of any bytes; ValueError if they are none."""
    if len(words) != SIZE:
        raise ValueError(f"{len(words)} bytes in place of {SIZE}")
    return Receipt._make(_BODY.unpack_from(words)), words[_BODY.size :]


def of_line(line: bytes) -> tuple[str, Receipt, bytes | None]:
    """Name of the start, receipt and signature of a line without its newline; ValueError if it is none."""
    try:
        found = msgspec.json.decode(line, type=_Line)
        said = [NOTHING if word is None else bytes.fromhex(word) for word in (found.said, found.total, found.previous)]
        signed = None if found.signature is None else bytes.fromhex(found.signature)
        ledger, rho = bytes.fromhex(found.ledger), math.inf if found.rho is None else found.rho
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise ValueError("is no receipt") from None
    receipt = Receipt(found.round, found.agent, found.lines, rho, ledger, *said)
    if [*map(len, receipt[4:])] != [32] * 4 or (signed is not None and len(signed) != SIGNATURE):
        raise ValueError("is no receipt")
    if receipt.line(found.run, signed) != line + b"\n":
        raise ValueError("is not written as receipts are")
    return found.run, receipt, signed


def fault_of(receipt: Receipt, before: Receipt | None, previous: bytes) -> str | None:
    """Why a receipt does not follow from the one before, whose hash is ``previous``; None if it does."""
    if receipt.previous != previous:
        return "does not follow from the receipt before it"
    if receipt.lines < 1 or not receipt.rho >= 0.0:  # nan fails, too
        return f"says that its ledger has {receipt.lines} lines and a total rho of {receipt.rho}"
    if before is not None and (receipt.lines < before.lines or receipt.rho < before.rho):
        return (
            f"says that its ledger has {receipt.lines} lines and a total rho of {receipt.rho:.6g}, one round after "
            f"{before.lines} lines and {before.rho:.6g}"
        )
    return None
