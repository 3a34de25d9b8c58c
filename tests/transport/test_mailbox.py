from __future__ import annotations

from typing import Any

import pytest

from admmnet.transport.zmq.mailbox import Fate, Mailbox
from admmnet.transport.zmq.wire import Frame, Kind, payload_of

LINK, OTHER = b"l" * 16, b"o" * 16
ROUNDS = ("round", 0)


class Sender:
    """A neighbour that numbers its frames."""

    def __init__(self, mailbox: Mailbox, process: int, key: str | None = None) -> None:
        self.mailbox, self.process, self.key, self.sequence = mailbox, process, key, 0

    def frame(self, kind: Kind, round: int = 0, origin: int | None = None, **others: Any) -> Frame:
        self.sequence += 1
        payload = b"[1]" if kind is Kind.SHARE else payload_of([round]) if kind is Kind.VECTOR else b""  # type: ignore[arg-type]
        whose = self.process if origin is None else origin
        values: dict[str, Any] = {"sequence": self.sequence, "payload": payload} | others
        return Frame(kind, LINK, self.process, origin=whose, round=round, **values)

    def say(self, kind: Kind, round: int = 0, origin: int | None = None, **others: Any) -> Fate:
        return self.mailbox.judge(self.frame(kind, round, origin, **others), self.key)


def two() -> tuple[Mailbox, Sender, Sender]:
    mailbox = Mailbox({1: "one", 2: "two"})
    for peer in (1, 2):
        mailbox.open(peer, LINK)
    return mailbox, Sender(mailbox, 1, "one"), Sender(mailbox, 2, "two")


def counted(mailbox: Mailbox) -> dict[str, int]:
    return {reason: count for reason, count in mailbox.counts.items() if count}


def test_rounds_in_order() -> None:
    mailbox, one, two_ = two()
    for round in range(5):
        box = mailbox.begin(ROUNDS, round)
        assert one.say(Kind.VECTOR, round) is Fate.NOW
        assert two_.say(Kind.SILENCE, round) is Fate.NOW
        assert [(*place, frame.kind, frame.round) for place, frame in sorted(box.items())] == [
            (1, 1, Kind.VECTOR, round),
            (2, 2, Kind.SILENCE, round),
        ]
        mailbox.finish(ROUNDS, round)
    assert not counted(mailbox)
    assert mailbox.received == {1: 5, 2: 5}


def test_the_next_round_waits_and_no_more_than_that() -> None:
    mailbox, one, _ = two()
    mailbox.begin(ROUNDS, 4)
    assert one.say(Kind.VECTOR, 4) is Fate.NOW
    assert one.say(Kind.VECTOR, 5) is Fate.EARLY
    assert one.say(Kind.VECTOR, 6) is Fate.AHEAD  # that needs our vector of round 5
    mailbox.finish(ROUNDS, 4)
    assert list(mailbox.begin(ROUNDS, 5)) == [(1, 1)]
    assert one.say(Kind.VECTOR, 6) is Fate.EARLY
    assert counted(mailbox) == {"early": 2, "ahead": 1}


def test_a_network_that_this_process_has_not_opened_yet() -> None:
    mailbox, one, _ = two()
    assert one.say(Kind.VECTOR, 0, channel=3) is Fate.EARLY
    assert one.say(Kind.VECTOR, 1, channel=3) is Fate.AHEAD
    assert list(mailbox.begin(("round", 3), 0)) == [(1, 1)]
    assert not mailbox.begin(ROUNDS, 0)


def test_what_is_over_is_late() -> None:
    mailbox, one, two_ = two()
    mailbox.begin(ROUNDS, 4)
    mailbox.finish(ROUNDS, 4)
    assert one.say(Kind.VECTOR, 4) is Fate.LATE
    assert one.say(Kind.SILENCE, 3) is Fate.LATE
    mailbox.begin(ROUNDS, 9)  # rounds may leave numbers out
    assert one.say(Kind.VECTOR, 8) is Fate.LATE
    mailbox.finish(ROUNDS, 9)
    mailbox.forget(ROUNDS)
    assert two_.say(Kind.VECTOR, 10) is Fate.LATE
    assert counted(mailbox) == {"late": 4}


def test_what_came_already_is_a_duplicate() -> None:
    mailbox, one, _ = two()
    mailbox.begin(ROUNDS, 0)
    first, second = one.frame(Kind.VECTOR, 0), one.frame(Kind.BYE)
    assert [mailbox.judge(frame, "one") for frame in (first, first, second, first, second)] == [
        Fate.NOW,
        Fate.DUPLICATE,
        Fate.NOW,
        Fate.DUPLICATE,
        Fate.DUPLICATE,
    ]
    # a second vector for the same round under a new number: the first one stands
    assert one.say(Kind.VECTOR, 0, payload=payload_of([7.0])) is Fate.DUPLICATE  # type: ignore[arg-type]
    assert counted(mailbox) == {"duplicate": 4}
    assert mailbox.begin(ROUNDS, 0)[1, 1] == first


def test_words_stay_with_what_they_are_about() -> None:
    mailbox, one, _ = two()
    box = mailbox.begin(ROUNDS, 0)
    assert one.say(Kind.SILENCE, 0, words=b"signed") is Fate.NOW
    assert box[1, 1].words == b"signed"


def test_after_a_hole_everything_comes_again() -> None:
    mailbox, one, _ = two()
    mailbox.begin(ROUNDS, 0)
    lost, next_, last = one.frame(Kind.VECTOR, 0), one.frame(Kind.VECTOR, 1), one.frame(Kind.BYE)
    assert mailbox.judge(next_, "one") is Fate.GAP
    assert mailbox.judge(last, "one") is Fate.GAP
    assert mailbox.received[1] == 0
    assert [mailbox.judge(frame, "one") for frame in (lost, next_, last)] == [Fate.NOW, Fate.EARLY, Fate.NOW]


@pytest.mark.parametrize("kind", Kind)
def test_foreign_frames_change_nothing(kind: Kind) -> None:
    mailbox, one, _ = two()
    box = mailbox.begin(ROUNDS, 0)
    frame = one.frame(kind, 0)
    assert mailbox.judge(frame._replace(link=OTHER), "one") is Fate.FOREIGN  # another session
    assert mailbox.judge(frame, "two") is Fate.FOREIGN  # a neighbour under another's name
    assert mailbox.judge(frame, None) is Fate.FOREIGN
    assert mailbox.judge(frame._replace(sender=3), "one") is Fate.FOREIGN  # no neighbour
    mailbox.shut(1)
    assert mailbox.judge(frame, "one") is Fate.FOREIGN  # a lost one
    assert counted(mailbox) == {"foreign": 5}
    assert not box
    assert mailbox.received == {1: 0, 2: 0}


def test_before_a_link_is_open_all_is_foreign() -> None:
    mailbox = Mailbox({1: None})
    assert Sender(mailbox, 1).say(Kind.VECTOR) is Fate.FOREIGN
    mailbox.open(1, LINK)
    assert Sender(mailbox, 1).say(Kind.VECTOR) is Fate.EARLY


def test_shares_travel_by_many_ways() -> None:
    mailbox, one, two_ = two()
    box = mailbox.begin(("gather", 0), 0)
    assert one.say(Kind.SHARE, 0, origin=5) is Fate.NOW
    assert two_.say(Kind.SHARE, 0, origin=5) is Fate.KNOWN
    assert two_.say(Kind.SHARE, 0, origin=2) is Fate.NOW
    assert set(box) == {(-1, 5), (-1, 2)}
    mailbox.finish(("gather", 0), 0)
    assert one.say(Kind.SHARE, 0, origin=2) is Fate.KNOWN
    assert not counted(mailbox)


def signing(genuine: bytes = b"signed") -> tuple[Mailbox, Sender, Sender]:
    """Two neighbours and a mailbox for which every origin's signature is the same word."""
    mailbox = Mailbox({1: None, 2: None}, lambda frame: frame.words == genuine)
    for peer in (1, 2):
        mailbox.open(peer, LINK)
    return mailbox, Sender(mailbox, 1), Sender(mailbox, 2)


@pytest.mark.parametrize("kind", [Kind.SHARE, Kind.ROWS, Kind.ABORT])
def test_what_travels_needs_its_origin_s_signature(kind: Kind) -> None:
    mailbox, one, two_ = signing()
    box = mailbox.begin(("collect" if kind is Kind.ROWS else "gather", 0), 0)
    assert one.say(kind, 0, origin=5) is Fate.FORGED
    assert one.say(kind, 0, origin=5, words=b"wrong") is Fate.FORGED
    assert not box
    assert two_.say(kind, 0, origin=5, words=b"signed") is Fate.NOW
    assert counted(mailbox) == {"forged": 2}
    assert one.say(Kind.BYE) is Fate.NOW  # what is for the link alone needs none


def test_two_words_of_one_origin_for_one_turn() -> None:
    mailbox, one, two_ = signing()
    topic = ("gather", 0)
    box = mailbox.begin(topic, 0)
    assert one.say(Kind.SHARE, 0, origin=5, words=b"signed") is Fate.NOW
    assert two_.say(Kind.SHARE, 0, origin=5, words=b"signed") is Fate.KNOWN
    assert two_.say(Kind.SHARE, 0, origin=5, words=b"wrong", payload=b"[2]") is Fate.FORGED
    assert two_.say(Kind.SHARE, 0, origin=5, words=b"signed", payload=b"[2]") is Fate.TWICE
    mailbox.finish(topic, 0)
    mailbox.begin(topic, 1)  # by a longer way
    assert one.say(Kind.SHARE, 0, origin=5, words=b"signed", payload=b"[3]") is Fate.TWICE
    assert box[-1, 5].payload == b"[1]"
    assert counted(mailbox) == {"forged": 1, "twice": 2}


def test_nobody_can_be_two_turns_ahead() -> None:
    """What travels may have been sent on by a neighbour that has begun the turn which is next here."""
    mailbox, one, _ = two()
    topic = ("gather", 0)
    assert one.say(Kind.SHARE, 1, origin=5) is Fate.EARLY
    assert one.say(Kind.SHARE, 2, origin=5) is Fate.AHEAD
    assert mailbox.last(topic) == 0
    mailbox.begin(topic, 0)
    assert mailbox.last(topic) == 1
    assert set(mailbox.kept(topic, 1)) == {(-1, 5)}
    assert one.say(Kind.SHARE, 2, origin=5) is Fate.EARLY
    mailbox.finish(topic, 0)
    assert mailbox.last(topic) == 1
    assert one.say(Kind.SHARE, 3, origin=5) is Fate.AHEAD


def test_frames_without_a_number() -> None:
    _, one, _ = two()
    assert one.say(Kind.WAITING, sequence=0) is Fate.NOW
    assert one.say(Kind.WAITING, sequence=0) is Fate.NOW
    assert one.say(Kind.VECTOR, sequence=0) is Fate.REFUSED  # a vector has its place


def test_one_sender_fills_no_more_than_its_part() -> None:
    mailbox, one, two_ = two()
    mailbox.room = 3000
    mailbox.begin(ROUNDS, 0)
    fates = [one.say(Kind.VECTOR, 0, origin=agent) for agent in range(7)]
    assert fates == [Fate.NOW] * 5 + [Fate.FULL] * 2  # a frame costs more than its numbers
    assert one.say(Kind.UP, 0, payload=bytes(2400)) is Fate.FULL
    assert two_.say(Kind.VECTOR, 0) is Fate.NOW
    mailbox.finish(ROUNDS, 0)
    assert one.say(Kind.VECTOR, 1) is Fate.EARLY


def test_posts_may_be_further_ahead_and_a_word_of_ones_own_comes_back() -> None:
    mailbox, one, _ = two()
    mailbox.ahead, topic = 2, ("post", 0)
    assert one.say(Kind.POST, 3, origin=5) is Fate.EARLY
    assert one.say(Kind.POST, 4, origin=5) is Fate.AHEAD
    own = Frame(Kind.POST, LINK, 0, origin=0, round=0)
    mailbox.note(own)
    assert one.say(Kind.POST, 0, origin=0) is Fate.KNOWN
    assert one.say(Kind.POST, 0, origin=5) is Fate.EARLY
    assert set(mailbox.begin(topic, 0)) == {(-1, 0), (-1, 5)}
    mailbox.finish(topic, 0)
    assert one.say(Kind.POST, 4, origin=5) is Fate.EARLY
    assert one.say(Kind.SHARE, 2) is Fate.AHEAD  # of what is waited for nobody can be further
