"""`admmnet agent` in threads, one of which lies: what it says instead, and what becomes of it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.json import encode
from msgspec.structs import replace

from admmnet.cli import run_command_line
from admmnet.errors import RunError
from admmnet.identity.keys import Identity
from admmnet.masking import StartKey
from admmnet.transport.zmq import member as members
from admmnet.transport.zmq.meeting import Hail, Here, end_statement, sign_here
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.wire import (
    ERROR,
    End,
    Failed,
    Frame,
    Kind,
    Said,
    Signature,
    Topics,
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


class Agent(threading.Thread):
    """The command line of an agent, with what tests use of a process. It lies once it has formed ``first`` starts."""

    def __init__(self, words: list[str], first: float) -> None:
        super().__init__(daemon=True)
        self.words, self.first, self.starts = words, first, 0
        self.member: Member | None = None
        self.returncode: int | None = None
        self.start()

    def run(self) -> None:
        try:
            self.returncode = run_command_line(self.words)
        except SystemExit as ended:
            self.returncode = int(str(ended.code))

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        """End it at its next look at the line."""
        if self.member is not None:
            self.member.ended = self.member.ended or RunError("the test is over")

    def communicate(self, timeout: float = 20.0) -> tuple[str, str]:
        self.join(timeout)
        assert not self.is_alive()
        return "", ""

    def wait(self) -> int:
        self.join()
        assert self.returncode is not None
        return self.returncode


Arm = Callable[[pytest.MonkeyPatch], None]


def counted(patch: pytest.MonkeyPatch) -> None:
    """Let agents know their line, and how many starts they have formed."""
    meet, formed = Member.meet, Member._formed

    def meeting(self: Member, standing: Any) -> Any:
        if isinstance(own := threading.current_thread(), Agent):
            own.member = self
        return meet(self, standing)

    def forming(self: Member, call: Any) -> bool:
        found = formed(self, call)
        if isinstance(own := threading.current_thread(), Agent):
            own.starts += found
        return found

    patch.setattr(Member, "meet", meeting)
    patch.setattr(Member, "_formed", forming)


def instead(name: str, lie: Callable[..., Any], owner: Any = Member) -> Arm:
    """Put a lie in place of a method, which is given to it, where the agent of this thread lies."""

    def arm(patch: pytest.MonkeyPatch) -> None:
        real = getattr(owner, name)

        def said(*given: Any, **more: Any) -> Any:
            own = threading.current_thread()
            lies = isinstance(own, Agent) and own.first <= own.starts
            return lie(real, *given, **more) if lies else real(*given, **more)

        patch.setattr(owner, name, said)

    return arm


Change = Callable[[Member, Kind, bytes, dict[str, Any]], Any]
"""Another body of a frame, or None where it has sent it."""


def frame(change: Change, *kinds: Kind) -> Arm:
    """Send another frame, or more of them, in a turn; by default in place of parts."""

    def sending(send: Any, m: Member, kind: Kind, body: bytes = b"", **fields: Any) -> None:
        if kind in (kinds or (Kind.PART,)) and fields.get("turn", 0) >= AFTER:
            body = change(m, kind, body, fields)
        if body is not None:
            send(m, kind, body, **fields)

    return instead("_send", sending)


def more(m: Member, kind: Kind, body: bytes = b"", **fields: Any) -> None:
    """Send a frame of any kind, whatever is patched."""
    for head, piece in m._line.frames(kind, body, **fields):
        m._dealer.send_multipart([head, piece])


def beside(kind: Kind, content: object, *, ours: bool = False) -> Arm:
    """Send a frame of another kind beside each part, perhaps as one of this start."""

    def lie(m: Member, _: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
        more(m, kind, packed(content), **({"start": m._name} if ours else {}))
        return body

    return frame(lie)


def raw(*parts: bytes) -> Arm:
    """Send bytes that are no frame beside each part."""
    return frame(lambda m, k, b, f: m._dealer.send_multipart(list(parts)) or b)


def here(change: Callable[[Here, Identity], Here]) -> Arm:
    """Say something else in HERE, well signed, and believe it."""
    return instead("sign_here", lambda sign, one, identity: sign(change(one, identity), identity), members)


def said(change: Callable[[Said, Member], Said]) -> Arm:
    return frame(lambda m, k, b, f: packed(change(unpacked(b, Said), m)), Kind.SAY)


def resigned(payload: bytes, topic: str | None = None) -> Arm:
    """Say another payload, well signed."""

    def lie(one: Said, m: Member) -> Said:
        word, name = read_word(one.word, m._identities), topic or one.topic
        return Said(name, payload, sign_word(replace(word, said=digest_of(name, payload)), m.identity))

    return said(lie)


def word(change: Callable[[Word], Word]) -> Arm:
    """Sign other words."""

    def lie(sign: Any, m: Member, *given: Any) -> bytes:
        return sign_word(change(read_word(sign(m, *given), m._identities)), m.identity)

    return instead("_word", lie)


def part(change: Callable[[bytes], bytes]) -> Arm:
    """Seal another payload: it opens, and has another shape."""

    def lie(seal: Any, m: Member, kind: Kind, to: int, turn: int, payload: bytes) -> None:
        seal(m, kind, to, turn, change(payload) if turn >= AFTER else payload)

    return instead("_seal", lie)


def topic(name: str, change: Callable[[Any], Any]) -> Arm:
    """Say another value of a topic, in its form."""
    return instead("write", lambda write, t, one, v: write(t, one, change(v) if one == name else v), Topics)


def early_sum(say: Callable[[Any, int], object]) -> Arm:
    """Say something in a sum before the parts of its children have come."""

    def lie(sum_up: Any, m: Member, own: Any) -> Any:
        if m.turn < AFTER:
            return sum_up(m, own)
        say(m, m._next())
        return m._wait(lambda: {-1})

    return instead("sum_up", lie)


def masked(place: int) -> Arm:
    """Put another number into a part of a masked sum, the root into the total; the first five say who is in it."""

    def off(found: bytes) -> bytes:
        numbers = np.frombuffer(found, dtype="<i8").copy()
        numbers[place] = 1 - numbers[place] if place < 5 else numbers[place] + 2**50
        return numbers.tobytes()

    def lie(sum_up: Any, m: Member, own: Any) -> Any:
        return sum_up(m, own if m.turn < AFTER else lambda children: off(own(children)))

    return instead("sum_up", lie)


def gives(change: Callable[[End], End | None]) -> Arm:
    """Give other files of the end, or none."""
    return instead("give", lambda give, m, end: change(end) is not None and give(m, change(end)))


def hailed(m: Member, run: str = "", change: Any = lambda one, identity: one) -> Hail:
    """A word HERE in the midst of a start."""
    key = StartKey().public
    place: dict[str, Any] = {"network": m.network.digest, "settings": m.settings, "least": m._quorum}
    own = Here(agent=m.rank, epk=key, run=run, **place)
    return Hail(sign_here(change(own, m.identity), m.identity))


def staged(one: Here, identity: Identity) -> Here:
    """An end that nobody has made."""
    digest = "ab" * 32
    return replace(one, staged=digest, signature=identity.sign(end_statement(one.network, one.run, digest)))


def second_end(m: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    """Sign another end before the own one."""
    assert m.start is not None
    if unpacked(body, Said).topic == "end":
        more(m, Kind.HERE, packed(hailed(m, m.start.run, staged)))
    return body


def here_again(m: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    """Say HERE anew in each turn: it is in no start, it says."""
    more(m, Kind.HERE, packed(hailed(m)))
    return body


def two_words(patch: pytest.MonkeyPatch) -> None:
    """Sign another word for a place, and hand both to the relay."""
    held: list[bytes] = []

    def sending(send: Any, m: Member, kind: Kind, body: bytes = b"", **fields: Any) -> None:
        if kind is Kind.SAY:
            own = unpacked(body, Said).word
            other = replace(read_word(own, m._identities), said=secrets.token_bytes(32))
            held[:] = [own, sign_word(other, m.identity)]
        if kind is Kind.PART and held and fields.get("turn", 0) >= AFTER:
            more(m, Kind.OVER, packed(Failed(3, "it lies")), start=m._name)
        if kind is Kind.HERE and held:
            body = packed(replace(unpacked(body, Hail), words=held))
        send(m, kind, body, **fields)

    instead("_send", sending)(patch)


def out_and_stop(patch: pytest.MonkeyPatch) -> None:
    """Once it is out, go on to say that the run is over."""

    def obeying(obey: Any, m: Member, one: Frame, body: bytes) -> None:
        if one.kind is not Kind.STOP:
            obey(m, one, body)
            return
        for _ in range(20):
            more(m, Kind.STOP, packed(Failed(3, "it is over")))

    resigned(b"1")(patch)
    instead("_obey", obeying)(patch)


def twice(m: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    more(m, kind, body, **fields)
    return body


def endless(m: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> None:
    """A body whose pieces have no end."""
    for _ in range(80):
        m._line.sent += 1
        head = packed(Frame(kind, m._line.sent, m._name, fields.get("who", -1), fields["turn"], more=True))
        m._dealer.send_multipart([head, bytes(2**20)])


def gap(m: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    """Leave out the number of a frame."""
    m._line.sent += 1
    return body


def other_kind(m: Member, turn: int) -> None:
    m._speak("ready", turn, b"null")


def early_files(m: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    """Give files of no end, long before there is one."""
    if fields["turn"] <= 2 * AFTER and fields["who"] == min(m._around):
        more(m, Kind.FILES, packed(FILES), start=m._name)
    return body


def over_edge(m: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    if 1 in m._around:
        more(m, Kind.OVER, packed(Failed(3, "it was none", 1)), start=m._name)
    return body


def garbled(m: Member, kind: Kind, body: bytes, fields: dict[str, Any]) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])


FILES = End("ab", {})
LARGE = {str(i): "x" * 64 for i in range(2000)}
OUT, EDGE, FREE, STRUCK, MAYBE = "out", "edge", "free", "struck", "out, or its edge, or nothing: as frames come"
LIES: dict[str, tuple[str, Arm]] = {
    # the relay sees it
    "say-unsigned": (OUT, said(lambda s, m: replace(s, word=bytes(64) + s.word[64:]))),
    "say-form": (OUT, resigned(b"1")),
    "say-topic": (OUT, resigned(b"1", "nothing")),
    "say-large": (OUT, resigned(bytes(2**26 + 2**21), "rows")),
    "say-elsewhere": (OUT, word(lambda w: replace(w, turn=w.turn + (w.to < 0)))),
    "here-unsigned": (OUT, here(lambda h, k: replace(h, agent=h.agent ^ 1))),
    "here-epk": (OUT, here(lambda h, k: replace(h, epk=LOW))),
    "here-large": (OUT, here(lambda h, k: replace(h, settings=LARGE))),
    "here-end": (OUT, here(lambda h, k: replace(h, staged="ab" * 32, signature=bytes(64)))),
    "turn-far": (OUT, frame(lambda m, k, b, f: more(m, k, b, **{**f, "turn": 2**52}))),
    "turn-twice": (OUT, frame(twice)),
    "turn-kind": (OUT, frame(lambda m, k, b, f: other_kind(m, f["turn"]))),
    "part-stranger": (OUT, frame(lambda m, k, b, f: more(m, k, b, **{**f, "who": (m.rank + 2) % 5}))),
    "endless": (OUT, frame(endless)),
    "unasked": (OUT, beside(Kind.FILES, FILES, ours=True)),
    "gap": (STRUCK, frame(gap)),
    # the lowest member gives the files of the end, the root of the tree says totals
    "files-none@0": (STRUCK, gives(lambda end: None)),
    "files-other@0": (OUT, gives(lambda end: replace(end, files={}))),
    "files-digest@0": (OUT, gives(lambda end: replace(end, digest="ab" * 32))),
    "files-early@0": (OUT, frame(early_files)),
    "total-early@1": (OUT, early_sum(lambda m, turn: m._speak("total", turn, bytes(80)))),
    "total-part@1": (
        OUT,
        instead(
            "_speak",
            lambda s, m, t, n, p: more(m, Kind.SUM, p, start=m._name, turn=n) if t == "total" else s(m, t, n, p),
        ),
    ),
    "total-shape@1": (OUT, instead("_speak", lambda s, m, t, n, p: s(m, t, n, p[:-8] if t == "total" else p))),
    "sum-garbled": (EDGE, frame(garbled, Kind.SUM)),
    "sum-shape": (EDGE, part(lambda payload: payload[:-8])),
    "sum-early@0": (MAYBE, early_sum(lambda m, turn: m._seal(Kind.SUM, int(m.tree.parent[m.rank]), turn, b""))),
    "sum-word@3": (OUT, early_sum(other_kind)),
    "stages-form": (OUT, resigned(b"1")),
    "stages-part": (EDGE, frame(garbled, Kind.PART, Kind.SUM)),
    "masked-part@3": (FREE, masked(5)),
    "masked-heads@1": (FREE, masked(0)),
    "figures": (OUT, topic("figures", lambda v: {**v, "digests": {}})),
    "facts-pooled": (OUT, resigned(b"1.5", "pooled")),
    "facts-end": (OUT, resigned(encode(Signature("", bytes(64))), "end")),
    "out-stop": (OUT, out_and_stop),
    # two words, two ends
    "two-words": (OUT, two_words),
    "two-ends": (MAYBE, frame(second_end, Kind.SAY)),
    # its neighbours see it
    "part-garbled": (EDGE, frame(garbled)),
    "part-shape": (EDGE, part(lambda payload: payload[:-1])),
    "part-junk": (EDGE, part(lambda payload: b"\xc1")),
    # all see it
    "rows": (OUT, topic("rows", lambda rows: bytes(rows) + bytes(8))),
    # its own word
    "stop-2": (STRUCK, beside(Kind.STOP, Failed(2, "it is over"))),
    "stop-3": (STRUCK, beside(Kind.STOP, Failed(3, "it is over"))),
    "over": (STRUCK, beside(Kind.OVER, Failed(3, "it was none"), ours=True)),
    "over-edge": (EDGE, frame(over_edge)),
    "over-stranger": (STRUCK, beside(Kind.OVER, Failed(3, "it was none", 4), ours=True)),
    "error-2": (STRUCK, resigned(encode(Failed(2, "an error of its own")), ERROR)),
    "error-4": (STRUCK, resigned(encode(Failed(4, "an error of its own")), ERROR)),
    "here-again": (STRUCK, frame(here_again)),
    # no evidence
    "c": (FREE, here(lambda h, k: replace(h, c=10**6))),
    "c-low": (FREE, here(lambda h, k: replace(h, c=-5))),
    "at": (FREE, here(lambda h, k: replace(h, at=10**6, first=10**6))),
    "at-low": (FREE, here(lambda h, k: replace(h, at=-4))),
    "plan": (FREE, here(lambda h, k: replace(h, plan="cd" * 32))),
    "rounds": (FREE, here(lambda h, k: replace(h, rounds=1))),
    "round": (FREE, word(lambda w: replace(w, round=10**6, lines=2**52))),
    "end-early": (MAYBE, here(staged)),
    "counts": (FREE, topic("facts", lambda v: {**v, "counts": dict.fromkeys(v["counts"], 2**53)})),
    "garbage": (FREE, raw(secrets.token_bytes(90), b"x")),
    "pieces": (FREE, raw(b"x", b"y", b"z")),
    # refused
    "run": ("refused", here(lambda h, k: replace(h, run="ef" * 32, c=3))),
    "settings": ("refused", here(lambda h, k: replace(h, settings={**h.settings, "eta": "0" * 16}))),
    "network": ("refused", here(lambda h, k: replace(h, network="0" * 16))),
}
"""Lies, and what becomes of their agent: out at once, its edge out, struck, or nothing that can be held against it.

Its agent is 2, or that behind the @.
"""
