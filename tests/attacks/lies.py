"""Lies, each with what it is in words: forged frames of every kind, false words, excuses, floods."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from admmnet.transport.starts import Ended, Here
from admmnet.transport.zmq.wire import Frame, Kind, encode
from tests.attacks.false_receipts import FALSE_RECEIPTS
from tests.attacks.liar import WHEN, Fields, Liar, Lie

ESCAPES = "\x1b[2J\r\x9b31mfine\nadmmnet: the run finished, all ledgers verified\u202e"
BRACKETS = b"[" * 10**5
NOBODY = 10**6
WIDTH = 109
"""Numbers of a model."""
Tell = Callable[[Liar], None]
Change = Callable[[Liar, int, Kind, Fields], Fields | None]


def ends(code: Any, reason: Any = None, origin: int = 0) -> Tell:
    return lambda me: me.word(Kind.ABORT, {"code": code, "reason": reason}, origin=origin, round=WHEN)


def says_here(cause: Any, *, forged: bool = False) -> Tell:
    """HERE of the next number, as it is said when this start has ended."""

    def tell(me: Liar) -> None:
        machine = me.member.regroup
        number = 0 if machine.start is None else machine.start.propose.number
        here = Here(1 if forged else 0, machine.number + 1, "ab" * 32, ended=Ended(number, cause))
        data = machine._as_signed(here)
        me.word(Kind.WORD, data, channel=1)

    return tell


def says(kind: Kind, value: Any, **place: Any) -> Tell:
    return lambda me: me.word(kind, value, **place)


def all_of(*tells: Tell) -> Tell:
    def tell(me: Liar) -> None:
        for one in tells:
            one(me)

    return tell


def turns(kind: Kind, value: Any, origin: int) -> Tell:
    """In the turns that may come next, whichever it is."""
    return all_of(*(says(kind, value, origin=origin, round=turn) for turn in range(40)))


def into(kind: Kind, content: Callable[[int, bytes], bytes], since: int = WHEN) -> Change:
    """Change the content of this agent's frames of a kind, and sign it again where it is signed."""

    def change(me: Liar, peer: int, sent: Kind, fields: Fields) -> Fields | None:
        if sent is not kind or fields.get("origin") != 0 or me.round < since:
            return fields
        if (place := (peer, kind, fields["channel"], fields["round"])) in me.said:  # come back by another way
            return None
        me.said.add(place)
        payload = content(peer, fields["payload"])
        if kind in (Kind.SHARE, Kind.ROWS):
            fields = fields | {"words": me.signature(kind, fields["channel"], fields["round"], payload)}
        return fields | {"payload": payload}

    return change


def floats(change: Callable[[int, np.ndarray], np.ndarray]) -> Callable[[int, bytes], bytes]:
    return lambda peer, payload: change(peer, np.frombuffer(payload, "<f8").copy()).astype("<f8").tobytes()


def integers(change: Callable[[int, np.ndarray], np.ndarray]) -> Callable[[int, bytes], bytes]:
    return lambda peer, payload: change(peer, np.frombuffer(payload, "<i8").copy()).astype("<i8").tobytes()


def elsewhere(**place: Callable[[int], int]) -> Change:
    """Vectors under another round, origin or channel."""

    def change(me: Liar, peer: int, kind: Kind, fields: Fields) -> Fields | None:
        if kind is not Kind.VECTOR or me.round < WHEN:
            return fields
        return fields | {name: other(fields[name]) for name, other in place.items()}

    return change


def withheld(excuse: Any) -> Change:
    """No vector, and an excuse once a pulse."""

    def change(me: Liar, peer: int, kind: Kind, fields: Fields) -> Fields | None:
        if me.round < WHEN or kind not in (Kind.VECTOR, Kind.SILENCE, Kind.WAITING):
            return fields
        return fields | {"payload": json.dumps(excuse).encode()} if kind is Kind.WAITING else None

    return change


def bare(kind: Kind, times: int = 1, **fields: Any) -> Tell:
    return lambda me: me.frames(me.unnumbered(kind, **fields), times)


def hello(payload: bytes) -> Tell:
    return lambda me: me.frames(lambda peer: encode(Frame(Kind.HELLO, bytes(16), 0, payload=payload)))


def starts_anew(me: Liar) -> None:
    for _ in range(50):
        greeting = {"nonce": os.urandom(16).hex(), "echo": me.member._greeting.nonce, "ready": True}
        hello(json.dumps(greeting | {"network": "", "settings": {}}).encode())(me)


def leaves_a_hole(me: Liar) -> None:
    for peer in (1, 3):
        me.member.links[peer].sent += 1000


def many(field: str, *rows: tuple[str, str, Any], **settings: Any) -> dict[str, Lie]:
    """Lies by name, each with what it is in words and its value of one field."""
    return {name: Lie(what, **{field: value}, **settings) for name, what, value in rows}


LIES: dict[str, Lie] = many(
    "tell",
    ("abort 0", "ends the run with exit code 0", ends(0)),
    ("abort 130", "ends it as if a person had interrupted it", ends(130)),
    ("abort 2", "ends it with exit code 2", ends(2, "the request is wrong")),
    ("abort 4", "ends it with exit code 4", ends(4, "the budget affords nothing")),
    ("abort text", "ends it with terminal escapes and a forged message of success", ends(3, ESCAPES)),
    ("abort long", "ends it with a reason of a million letters", ends(3, "x" * 10**6)),
    ("abort type", "ends it with a list of lists", says(Kind.ABORT, [[0]])),
    ("abort deep", "ends it with 100,000 brackets", says(Kind.ABORT, BRACKETS)),
    ("abort as 2", "ends it in the name of agent 2", ends(3, "I am agent 2", origin=2)),
    ("abort as 1", "ends it in the name of its neighbour 1", ends(3, "I am agent 1", origin=1)),
    ("abort as nobody", "ends it in the name of agent 1,000,000", ends(3, "nobody", origin=NOBODY)),
    ("word junk", "eight words of a start that are none", all_of(*[says(Kind.WORD, b"x" * 90, channel=1)] * 8)),
    ("word failed", "says HERE of the next start, as this one had failed", says_here("failed")),
    ("word heard", "says HERE of the next start, as others had ended this one", says_here("heard")),
    ("word forged", "says HERE in the name of agent 1, eight times", all_of(*[says_here("failed", forged=True)] * 8)),
    ("share as 2", "values of gathers in the name of agent 2", turns(Kind.SHARE, [[2, 7]], 2)),
    ("share as nobody", "values of gathers of agent 1,000,000", turns(Kind.SHARE, 1, NOBODY)),
    ("share ahead", "a value of gather 2^31 - 1", says(Kind.SHARE, 1, round=2**31 - 1)),
    ("rows as 2", "metrics in the name of agent 2", turns(Kind.ROWS, bytes(8 * WIDTH), 2)),
    ("rows as nobody", "metrics of agent 1,000,000", turns(Kind.ROWS, bytes(8 * WIDTH), NOBODY)),
    (
        "vectors more",
        "20,000 vectors of channels, origins and rounds that do not exist",
        all_of(*(says(Kind.VECTOR, bytes(8), channel=n % 6000, origin=n % 977, round=n % 7) for n in range(20_000))),
    ),
    ("bye", "says farewell and goes on", says(Kind.BYE, b"")),
    (
        "unknown",
        "eight frames of a kind that does not exist",
        lambda me: me.frames(lambda peer: b"ADMM\2\x63" + bytes(70), 8),
    ),
    ("hello", "introduces itself 50 times as processes that were started anew", starts_anew),
    (
        "hello junk",
        "introductions of any shape",
        all_of(*map(hello, (b"[]", b"1", b"{}", b"null", b'{"nonce": 1}', BRACKETS, b"\xff", b'"a"'))),
    ),
    ("acknowledge", "has heard 2^63 frames", bare(Kind.ACKNOWLEDGE, acknowledged=2**63)),
    ("jump", "leaves a hole of 1,000 in the numbers of its frames", leaves_a_hole),
    ("again", "asks 20,000 times for everything once more", bare(Kind.AGAIN, 20_000)),
    ("flood", "300,000 excuses", bare(Kind.WAITING, 300_000, payload=b'{"for": [2], "sent": 0}')),
    (
        "sums",
        "partial sums and totals where nobody sums",
        all_of(*(says(kind, bytes(72)) for kind in (Kind.UP, Kind.DOWN, Kind.UP))),
    ),
)
LIES |= many(
    "change",
    ("share no json", "a value that is no JSON", into(Kind.SHARE, lambda peer, data: b"{")),
    ("share deep", "a value of 100,000 brackets", into(Kind.SHARE, lambda peer, data: BRACKETS)),
    ("share huge", "a number of 100,000 digits", into(Kind.SHARE, lambda peer, data: b"9" * 10**5)),
    (
        "share junk",
        "lists, null and escapes wherever it is asked for something",
        into(Kind.SHARE, lambda peer, data: b'[[1e999, "\\u001b[2J"], null, {"a": []}]', since=-1),
    ),
    (
        "share twice",
        "other values of gathers to neighbour 1 than to 3",
        into(Kind.SHARE, lambda peer, data: b"1" if peer == 1 else data),
    ),
    ("rows short", "metrics of another width", into(Kind.ROWS, floats(lambda peer, rows: rows[:-1]))),
    ("rows none", "metrics without a number", into(Kind.ROWS, lambda peer, data: b"")),
    ("rows nan", "metrics of nan", into(Kind.ROWS, floats(lambda peer, rows: rows * np.nan))),
    ("rows big", "metrics of 1e300", into(Kind.ROWS, floats(lambda peer, rows: rows * 0 + 1e300))),
    ("rows twice", "other metrics to neighbour 1 than to 3", into(Kind.ROWS, floats(lambda peer, rows: rows + peer))),
    ("vector nan", "vectors of nan", into(Kind.VECTOR, floats(lambda peer, said: said * np.nan))),
    ("vector inf", "vectors of infinity", into(Kind.VECTOR, floats(lambda peer, said: said + np.inf))),
    ("vector big", "vectors of 1e300", into(Kind.VECTOR, floats(lambda peer, said: said * 0 + 1e300))),
    ("vector short", "vectors of a number too few", into(Kind.VECTOR, floats(lambda peer, said: said[:-1]))),
    (
        "vector long",
        "vectors of a million numbers more",
        into(Kind.VECTOR, floats(lambda peer, said: np.append(said, np.zeros(10**6)))),
    ),
    ("vector none", "vectors without a number", into(Kind.VECTOR, lambda peer, data: b"")),
    (
        "vector twice",
        "other vectors to neighbour 1 than to 3",
        into(Kind.VECTOR, floats(lambda peer, said: said * (peer - 2))),
    ),
    ("vector as 2", "its vectors in the name of agent 2", elsewhere(origin=lambda _: 2)),
    ("vector ahead", "its vectors for rounds far ahead", elsewhere(round=lambda turn: turn + 1000)),
    ("vector late", "its vectors for a round that is over", elsewhere(round=lambda _: 0)),
    ("vector channel", "its vectors for another network", elsewhere(channel=lambda _: 7)),
    ("hang", "no vector; it waits for agent 2", withheld({"for": [2], "sent": 0})),
    ("hang nobody", "no vector; it waits for agent 99", withheld({"for": [99], "sent": 0})),
    ("hang itself", "no vector; it waits for itself", withheld({"for": [0], "sent": 0})),
    ("hang all", "no vector; it waits for 100,000 agents", withheld({"for": list(range(10**5)), "sent": 0})),
    ("hang sent", "no vector; it has sent 10^18 frames", withheld({"for": [2], "sent": 10**18})),
    ("hang type", "no vector; excuses of no shape", withheld({"for": {"a": None}, "sent": "x"})),
)
LIES |= many(
    "change",
    ("sum short", "a partial sum of another length", into(Kind.UP, integers(lambda peer, said: said[:-1]))),
    ("sum none", "a partial sum without a number", into(Kind.UP, lambda peer, data: b"")),
    (
        "sum others",
        "a partial sum that says that others are silent",
        into(Kind.UP, integers(lambda peer, said: np.concatenate([[1, 2], said[1:]]))),
    ),
    settings={"algorithm": "noisy-gd"},
)


def total(*numbers: int) -> Tell:
    """A total before the others have one: how many are not in it, and who, then the sum."""
    return says(Kind.DOWN, np.array(numbers, "<i8").tobytes(), round=WHEN)


LIES |= many(
    "tell",
    ("total own", "a total of its own making", total(0, *([7] * WIDTH))),
    ("total short", "a total of another length", total(0, 7)),
    ("total none", "a total without a number", total()),
    ("total others", "a total that lacks agents that do not exist", total(1, 99, *([7] * WIDTH))),
    settings={"algorithm": "noisy-gd"},
)


def claims(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change what it says of the number of its records."""

    def claim(value: Any) -> Any:
        counted = isinstance(value, dict) and "counts" in value
        return {**value, "counts": change(value["counts"])} if counted else value

    return claim


LIES |= many(
    "claim",
    ("count huge", "that it has 10^15 records", claims(lambda own: [[0, 10**15]])),
    ("count negative", "that it has -5 records", claims(lambda own: [[0, -5]])),
    ("count text", "that it has as many records as escapes say", claims(lambda own: [[0, ESCAPES]])),
    ("count of 2", "how many records agent 2 has", claims(lambda own: [[2, 9]])),
)
LIES |= FALSE_RECEIPTS
LIES["count capped"] = replace(
    LIES["count huge"], what="that it has 10^15 records, where the network file has `records = 20000`", records=20_000
)
