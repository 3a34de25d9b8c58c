"""Lies about receipts: left out, old, of something else, unsigned, and two of one round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from admmnet.evidence.receipts import digest_of
from admmnet.identity.receipts import NOTHING, Receipt, hash_of, of_words, to_words
from admmnet.transport.zmq.wire import Kind
from tests.attacks.liar import WHEN, Fields, Liar, Lie

SPOKEN = (Kind.VECTOR, Kind.SILENCE)


def words(change: Callable[[Liar, int, bytes], bytes], until: int = 10**6) -> Callable[..., Fields | None]:
    """Change the receipts that go out with vectors, from round WHEN on."""

    def changed(me: Liar, peer: int, kind: Kind, fields: Fields) -> Fields | None:
        if kind not in SPOKEN or not fields["words"] or not WHEN <= me.round < until:
            return fields
        return fields | {"words": change(me, peer, fields["words"])}

    return changed


def signed_anew(me: Liar, sent: bytes, **changes: Any) -> bytes:
    receipt = of_words(sent)[0]._replace(**changes)
    return to_words(receipt, me.member.identity.sign(receipt.statement(me.run)))


def old(me: Liar, peer: int, said: bytes) -> bytes:
    """The first one that was changed, again and again."""
    return me.kept.setdefault(peer, said)


def cheaper(me: Liar, peer: int, said: bytes) -> bytes:
    return signed_anew(me, said, rho=of_words(said)[0].rho / 4)


def unsigned(me: Liar, peer: int, said: bytes) -> bytes:
    return said[:-64] + bytes(64)


def twice(me: Liar, peer: int, kind: Kind, fields: Fields) -> Fields | None:
    """Other vectors to neighbour 1 than to 3 from round WHEN on, with receipts that fit, each in a chain of its own."""
    if kind not in SPOKEN or not fields["words"]:
        return fields
    vector = np.frombuffer(fields["payload"], "<f8") * (peer if me.round >= WHEN else 1.0)
    receipt: Receipt = of_words(fields["words"])[0]
    previous = me.kept.get(peer, NOTHING)
    receipt = receipt._replace(said=digest_of(vector), previous=previous)
    me.kept[peer] = hash_of(receipt.statement(me.run))
    said = signed_anew(me, fields["words"], said=receipt.said, previous=previous)
    return fields | {"payload": vector.tobytes(), "words": said}


FALSE_RECEIPTS: dict[str, Lie] = {
    name: Lie(what, change=change)
    for name, what, change in (
        ("receipt none", "no receipts", words(lambda me, peer, said: b"")),
        ("receipt junk", "receipts of zeros", words(lambda me, peer, said: bytes(len(said)))),
        ("receipt long", "receipts of 60,000 bytes", words(lambda me, peer, said: b"x" * 60_000)),
        ("receipt old", "the receipt of an earlier round, again and again", words(old)),
        ("receipt of 2", "receipts of agent 2", words(lambda me, peer, said: signed_anew(me, said, agent=2))),
        ("receipt cheaper", "receipts of a ledger that becomes cheaper", words(cheaper)),
        ("receipt unsigned", "receipts that it does not sign", words(unsigned)),
        ("receipt twice", "other vectors to neighbour 1 than to 3, with receipts that fit", twice),
    )
}
