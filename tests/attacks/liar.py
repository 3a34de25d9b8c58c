"""`admmnet agent` that lies: ADMMNET_LIE = LIE:AGENT:START, from that start on (0 is the first)."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from admmnet.__main__ import main
from admmnet.identity.keys import Identity
from admmnet.transport.zmq import member as members
from admmnet.transport.zmq.meeting import Hail, Here, end_statement, sign_here
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.topics import ERROR, Topics
from admmnet.transport.zmq.wire import (
    End,
    Failure,
    Frame,
    Kind,
    Over,
    Said,
    Signature,
    Stop,
    Word,
    digest_of,
    packed,
    read_word,
    sign_word,
    unpacked,
)

LOW = bytes(32)
"""A key of low order."""
AFTER = 3
"""Turn from which on a lie is told in turns."""
STARTS = 0
"""Starts that this process has formed."""


def lying(first: int) -> bool:
    return first <= STARTS


def here_lie(first: int, change: Callable[[Here, Identity], Here]) -> None:
    """Say something else in HERE, well signed, and believe it."""
    patched: Any = members

    def lie(here: Here, identity: Identity) -> bytes:
        return sign_here(change(here, identity) if lying(first) else here, identity)

    patched.sign_here = lie


Change = Callable[[Member, Kind, bytes, dict[str, Any]], Any]


def frame_lie(first: int, kinds: tuple[Kind, ...], change: Change) -> None:
    """Send another frame, or more of them, in a turn; ``change`` returns the body, or None where it has sent it."""
    send = Member._send

    def sending(self: Member, kind: Kind, body: bytes = b"", **fields: Any) -> None:
        if kind in kinds and lying(first) and fields.get("turn", 0) >= AFTER:
            lie = change(self, kind, body, fields)
            if lie is None:
                return
            body = lie
        send(self, kind, body, **fields)

    Member._send = sending  # type: ignore[method-assign]


def more(self: Member, kind: Kind, body: bytes = b"", **fields: Any) -> None:
    """Send a frame of any kind, whatever is patched."""
    for head, piece in self._line.frames(kind, body, **fields):
        self._dealer.send_multipart([head, piece])


def beside(self: Member, body: bytes, *frames: tuple[Kind, bytes, dict[str, Any]]) -> bytes:
    for kind, other, fields in frames:
        more(self, kind, other, **fields)
    return body


def said_lie(first: int, change: Callable[[Said, Member], Said]) -> None:
    def lie(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
        return packed(change(unpacked(body, Said), self))

    frame_lie(first, (Kind.SAY,), lie)


def word_lie(first: int, change: Callable[[Word, Member], Word]) -> None:
    """Sign other words."""
    word = Member._word

    def lie(self: Member, to: int, turn: int, said: bytes) -> bytes:
        data = word(self, to, turn, said)
        return sign_word(change(read_word(data, self._identities), self), self.identity) if lying(first) else data

    Member._word = lie  # type: ignore[method-assign]


def part_lie(first: int, change: Callable[[bytes], bytes]) -> None:
    """Seal another payload: it opens, and has another shape."""
    seal = Member._seal

    def sealing(self: Member, kind: Kind, to: int, turn: int, payload: bytes) -> None:
        seal(self, kind, to, turn, change(payload) if lying(first) and turn >= AFTER else payload)

    Member._seal = sealing  # type: ignore[method-assign]


def topic_lie(first: int, topic: str, change: Callable[[Any], Any]) -> None:
    """Say another value of a topic, in its form."""
    write = Topics.write

    def writing(self: Topics, said: str, value: Any) -> bytes:
        return write(self, said, change(value) if said == topic and lying(first) else value)

    Topics.write = writing  # type: ignore[method-assign, assignment]


def sum_lie(first: int, say: Callable[[Any, int], object]) -> None:
    """Say something in a sum before the parts of its children have come."""
    sum_up = Member.sum_up

    def summing(self: Member, part: Callable[[dict[int, bytes]], bytes]) -> bytes:
        if not lying(first) or self.turn < AFTER:
            return sum_up(self, part)
        say(self, self._next())
        self._wait(lambda: {-1})
        return b""

    Member.sum_up = summing  # type: ignore[method-assign]


def total_lie(first: int) -> None:
    """Say a total of another length."""
    speak = Member._speak

    def speaking(self: Member, topic: str, turn: int, payload: bytes) -> None:
        speak(self, topic, turn, payload[:-8] if topic == "total" and lying(first) else payload)

    Member._speak = speaking  # type: ignore[method-assign]


def _off(part: bytes, place: int) -> bytes:
    """A part with another number in a place; the first five say who is in it."""
    numbers = np.frombuffer(part, dtype="<i8").copy()
    numbers[place] = 1 - numbers[place] if place < 5 else numbers[place] + 2**50
    return numbers.tobytes()


def masked_lie(first: int, change: Callable[[Member, bytes], bytes]) -> None:
    """Put another part into a masked sum; the root into the total."""
    sum_up = Member.sum_up

    def summing(self: Member, part: Callable[[dict[int, bytes]], bytes]) -> bytes:
        if not lying(first) or self.turn < AFTER:
            return sum_up(self, part)
        return sum_up(self, lambda children: change(self, part(children)))

    Member.sum_up = summing  # type: ignore[method-assign]


def words_lie(first: int, topic: str, payload: bytes) -> None:
    """Answer with a word of another topic."""
    frame_lie(first, (Kind.SAY,), lambda m, k, b, f: packed(resigned(payload, topic)(unpacked(b, Said), m)))


def out_and_stop(first: int) -> None:
    """Once it is out, go on to say that the run is over."""
    said_lie(first, resigned(b"1"))
    arrived = Member._obey

    def obeying(self: Member, frame: Frame, body: bytes) -> None:
        if frame.kind is not Kind.STOP:
            arrived(self, frame, body)
            return
        for _ in range(100):
            more(self, Kind.STOP, packed(Stop(3, "it is over")))
            self.serve(0.05)

    Member._obey = obeying  # type: ignore[method-assign]


def here_again(first: int) -> None:
    """Say HERE anew in each turn: it is in no start, it says."""

    def lie(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        key = X25519PrivateKey.generate().public_key().public_bytes_raw()
        here = Here(agent=self.rank, network=self.network.digest, settings=self.settings, epk=key, least=self._quorum)
        return beside(self, body, (Kind.HERE, packed(Hail(sign_here(here, self.identity))), {}))

    frame_lie(first, (Kind.PART,), lie)


def two_words(first: int) -> None:
    """Sign another word for a place, and hand both to the relay."""
    send = Member._send
    held: list[bytes] = []

    def sending(self: Member, kind: Kind, body: bytes = b"", **fields: Any) -> None:
        if kind is Kind.SAY and lying(first):
            said: Said = unpacked(body, Said)
            word = read_word(said.word, self._identities)
            held[:] = [said.word, sign_word(replace(word, said=secrets.token_bytes(32)), self.identity)]
        if kind is Kind.PART and held and fields.get("turn", 0) >= AFTER:
            more(self, Kind.OVER, packed(Over("it lies")), start=self._name)
        if kind is Kind.HERE and held:
            body = packed(replace(unpacked(body, Hail), words=held))
        send(self, kind, body, **fields)

    Member._send = sending  # type: ignore[method-assign]


def staged(here: Here, identity: Identity) -> Here:
    """An end that nobody has made."""
    digest = "ab" * 32
    return replace(here, staged=digest, signature=identity.sign(end_statement(here.network, here.run, digest)))


def second_end(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    """Sign another end before the own one."""
    assert self.start is not None
    said: Said = unpacked(body, Said)
    if said.topic == "end":
        key = self._secret.public_key().public_bytes_raw()  # type: ignore[union-attr]
        here = Here(
            agent=self.rank,
            network=self.network.digest,
            settings=self.settings,
            epk=key,
            least=self._quorum,
            run=self.start.run,
        )
        hail = Hail(sign_here(staged(here, self.identity), self.identity))
        return beside(self, body, (Kind.HERE, packed(hail), {}))
    return body


def garbled(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])


def raw(*parts: bytes) -> Change:
    """Bytes that are no frame, beside each part."""

    def lie(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
        self._dealer.send_multipart(list(parts))
        return body

    return lie


def endless(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> None:
    """A body whose pieces have no end."""
    for _ in range(80):
        self._line.sent += 1
        head = packed(Frame(kind, self._line.sent, self._name, fields.get("who", -1), fields["turn"], more=True))
        self._dealer.send_multipart([head, bytes(2**20)])


def files(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    """Give files of an end, which are another member's to give."""
    return beside(self, body, (Kind.FILES, packed(End("ab", {})), {"start": self._name}))


def early_files(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    """Give files of no end, long before there is one."""
    return files(self, kind, body, fields) if fields["turn"] == AFTER else body


def gives(change: Callable[[Member, End], End | None]) -> Callable[[int], None]:
    """Give other files of the end, or none."""
    give = Member.give

    def arm(first: int) -> None:
        def giving(self: Member, end: End) -> None:
            other = change(self, end) if lying(first) else end
            if other is not None:
                give(self, other)

        Member.give = giving  # type: ignore[method-assign]

    return arm


def gap(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    """Leave out the number of a frame."""
    self._line.sent += 1
    return body


def stop(code: int) -> Change:
    return lambda self, kind, body, fields: beside(self, body, (Kind.STOP, packed(Stop(code, "it is over")), {}))


def over(whom: int | None) -> Change:
    def lie(self: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
        return beside(self, body, (Kind.OVER, packed(Over("it was none", whom)), {"start": self._name}))

    return lie


def errors(code: int) -> Callable[[Said, Member], Said]:
    def lie(said: Said, self: Member) -> Said:
        payload = packed(Failure(code, "an error of its own"))
        word = read_word(said.word, self._identities)
        signed = sign_word(replace(word, said=digest_of(ERROR, payload)), self.identity)
        return Said(ERROR, payload, signed)

    return lie


def resigned(payload: bytes, topic: str | None = None) -> Callable[[Said, Member], Said]:
    """Another payload, well signed."""

    def lie(said: Said, self: Member) -> Said:
        word, name = read_word(said.word, self._identities), topic or said.topic
        signed = sign_word(replace(word, said=digest_of(name, payload)), self.identity)
        return Said(name, payload, signed)

    return lie


def on_parts(change: Change) -> Callable[[int], None]:
    return lambda first: frame_lie(first, (Kind.PART,), change)


def on_here(change: Callable[[Here, Identity], Here]) -> Callable[[int], None]:
    return lambda first: here_lie(first, change)


def on_say(change: Callable[[Said, Member], Said]) -> Callable[[int], None]:
    return lambda first: said_lie(first, change)


LARGE = {str(i): "x" * 64 for i in range(2000)}
OUT, EDGE, FREE, STRUCK, MAYBE = "out", "edge", "free", "struck", "out, or its edge, or nothing: as frames come"
LIES: dict[str, tuple[str, Callable[[int], None]]] = {
    # the relay sees it
    "say-unsigned": (OUT, on_say(lambda s, m: replace(s, word=bytes(64) + s.word[64:]))),
    "say-form": (OUT, on_say(resigned(b"1"))),
    "say-topic": (OUT, on_say(resigned(b"1", "nothing"))),
    "say-large": (OUT, on_say(resigned(bytes(2**26 + 2**21), "rows"))),
    "say-elsewhere": (OUT, lambda at: word_lie(at, lambda w, m: replace(w, turn=w.turn + (w.to < 0)))),
    "here-unsigned": (OUT, on_here(lambda h, k: replace(h, agent=h.agent ^ 1))),
    "here-epk": (OUT, on_here(lambda h, k: replace(h, epk=LOW))),
    "here-large": (OUT, on_here(lambda h, k: replace(h, settings=LARGE))),
    "here-end": (OUT, on_here(lambda h, k: replace(h, staged="ab" * 32, signature=bytes(64)))),
    "turn-far": (OUT, on_parts(lambda m, k, b, f: more(m, k, b, **{**f, "turn": 2**52}))),
    "turn-twice": (OUT, on_parts(lambda m, k, b, f: beside(m, b, (k, b, f)))),
    "turn-kind": (OUT, on_parts(lambda m, k, b, f: m._speak("ready", f["turn"], b"null"))),
    "part-stranger": (OUT, on_parts(lambda m, k, b, f: more(m, k, b, **{**f, "who": (m.rank + 2) % 5}))),
    "endless": (OUT, on_parts(endless)),
    "unasked": (
        OUT,
        on_parts(lambda m, k, b, f: beside(m, b, (Kind.FILES, packed(End("ab", {})), {"start": m._name}))),
    ),
    "gap": (STRUCK, on_parts(gap)),
    # the lowest member gives the files of the end, the root of the tree says totals
    "files-none@0": (STRUCK, gives(lambda m, end: None)),
    "files-other@0": (OUT, gives(lambda m, end: replace(end, files={}))),
    "files-digest@0": (OUT, gives(lambda m, end: replace(end, digest="ab" * 32))),
    "files-early@0": (OUT, on_parts(early_files)),
    "total-early@1": (OUT, lambda at: sum_lie(at, lambda m, turn: m._speak("total", turn, bytes(80)))),
    "total-shape@1": (OUT, total_lie),
    "sum-garbled": (EDGE, lambda at: frame_lie(at, (Kind.SUM,), garbled)),
    "sum-shape": (EDGE, lambda at: part_lie(at, lambda payload: payload[:-8])),
    "sum-early@0": (MAYBE, lambda at: sum_lie(at, lambda m, turn: m._seal(Kind.SUM, m.tree.parent[m.rank], turn, b""))),
    "sum-word@3": (OUT, lambda at: sum_lie(at, lambda m, turn: m._speak("ready", turn, b"null"))),
    "stages-form": (OUT, on_say(resigned(b"1"))),
    "stages-part": (EDGE, lambda at: frame_lie(at, (Kind.PART, Kind.SUM), garbled)),
    "masked-part@3": (FREE, lambda at: masked_lie(at, lambda m, part: _off(part, 5))),
    "masked-heads@1": (FREE, lambda at: masked_lie(at, lambda m, part: _off(part, 0))),
    "figures": (OUT, lambda at: topic_lie(at, "figures", lambda v: {**v, "digests": {}})),
    "facts-pooled": (OUT, lambda at: words_lie(at, "pooled", b"1.5")),
    "facts-end": (OUT, lambda at: words_lie(at, "end", packed(Signature("", bytes(64))))),
    "out-stop": (OUT, out_and_stop),
    # two words, two ends
    "two-words": (OUT, two_words),
    "two-ends": (MAYBE, lambda at: frame_lie(at, (Kind.SAY,), second_end)),
    # its neighbours see it
    "part-garbled": (EDGE, on_parts(garbled)),
    "part-shape": (EDGE, lambda at: part_lie(at, lambda payload: payload[:-1])),
    "part-junk": (EDGE, lambda at: part_lie(at, lambda payload: b"\xc1")),
    # all see it
    "rows": (OUT, lambda at: topic_lie(at, "rows", lambda rows: bytes(rows) + bytes(8))),
    # its own word
    "stop-2": (STRUCK, on_parts(stop(2))),
    "stop-3": (STRUCK, on_parts(stop(3))),
    "over": (STRUCK, on_parts(over(None))),
    "over-edge": (EDGE, on_parts(lambda m, k, b, f: over(1)(m, k, b, f) if 1 in m._around else b)),
    "over-stranger": (STRUCK, on_parts(over(4))),
    "error-2": (STRUCK, on_say(errors(2))),
    "error-4": (STRUCK, on_say(errors(4))),
    "here-again": (STRUCK, here_again),
    # no evidence
    "c": (FREE, on_here(lambda h, k: replace(h, c=10**6))),
    "c-low": (FREE, on_here(lambda h, k: replace(h, c=-5))),
    "at": (FREE, on_here(lambda h, k: replace(h, at=10**6, first=10**6))),
    "at-low": (FREE, on_here(lambda h, k: replace(h, at=-4, low=-4))),
    "plan": (FREE, on_here(lambda h, k: replace(h, plan="cd" * 32))),
    "rounds": (FREE, on_here(lambda h, k: replace(h, rounds=1))),
    "round": (FREE, lambda at: word_lie(at, lambda w, m: replace(w, round=10**6, lines=2**52))),
    "end-early": (MAYBE, on_here(staged)),
    "counts": (FREE, lambda at: topic_lie(at, "facts", lambda v: {**v, "counts": [[v["counts"][0][0], 2**53]]})),
    "garbage": (FREE, on_parts(raw(secrets.token_bytes(90), b"x"))),
    "pieces": (FREE, on_parts(raw(b"x", b"y", b"z"))),
    # refused
    "run": ("refused", on_here(lambda h, k: replace(h, run="ef" * 32, c=3))),
    "settings": ("refused", on_here(lambda h, k: replace(h, settings={**h.settings, "eta": "0" * 16}))),
    "network": ("refused", on_here(lambda h, k: replace(h, network="0" * 16))),
}
"""Lies, and what becomes of their agent: out at once, its edge out, struck, or nothing that can be held against it.

Its agent is 2, or that behind the @.
"""


def arm() -> None:
    lie, agent, first = os.environ["ADMMNET_LIE"].split(":")
    if sys.argv[sys.argv.index("--id") + 1] != agent:
        return
    formed = Member._formed

    def counting(self: Member, call: Any) -> bool:
        found = formed(self, call)
        global STARTS
        STARTS += found
        return found

    LIES[lie][1](int(first))
    Member._formed = counting  # type: ignore[method-assign]


if __name__ == "__main__":
    arm()
    main()
