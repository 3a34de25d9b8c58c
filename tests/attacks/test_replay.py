"""Starts that repeat rounds: whatever is tried, a round is charged once and sent once (docs/proofs.md, Theorem 30)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run, run
from admmnet.errors import RunError
from admmnet.methods.agents import Agents, Said
from admmnet.privacy.events import Event
from admmnet.record.journal import JOURNAL, Round, read_records, record_bytes
from admmnet.running.arguments import resumed_config
from admmnet.transport import Inbox, Transport
from tests.interrupted_runs import METHODS, ROUNDS, Place
from tests.people_runs import Stop, summary_of

PRIVATE = ["pp-admm", "above-threshold", "joining", "ipp published", "r-admm", "noisy-gd", "tail", "blocks"]


class Wire:
    """Keeps what every agent has sent in a round.

    The run ends in a round when that was sent and nothing arrives (``cut``).
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: dict[tuple[int, int], set[bytes]] = defaultdict(set)
        self.cut = -1
        exchange, reduce = Transport.exchange, Transport.reduce

        def note(outgoing: Any, round: int) -> None:
            for i, vector in outgoing.items():
                if vector is not None and round < ROUNDS:  # the answer is made of what was sent
                    self.sent[round, i].add(vector.tobytes())
            if round == self.cut:
                raise Stop

        def exchanged(own: Transport, outgoing: Any, round: int) -> Inbox:
            note(outgoing, round)
            return exchange(own, outgoing, round)

        def reduced(own: Transport, outgoing: Any, trees: Any, round: int, size: int) -> Any:
            note(outgoing, round)
            return reduce(own, outgoing, trees, round, size)

        monkeypatch.setattr(Transport, "exchange", exchanged)
        monkeypatch.setattr(Transport, "reduce", reduced)

    def begin(self, config: Any, *, cut: int = -1) -> Path:
        """Run until it is cut in a round."""
        self.cut = cut
        try:
            return run(config).folder
        except Stop:
            return Path(config.out)
        finally:
            self.cut = -1


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(monkeypatch)


def private(place: Place, name: str = "cut", **settings: Any) -> Any:
    return place.config(name, **{"seed": None} | settings)


def charged(folder: Path) -> list[list[tuple[int, type[Event]]]]:
    """Rounds and kinds of every agent's charges."""
    return [[(round, type(event)) for round, event, _ in book.events] for book in read_run(folder).ledgers.values()]


@pytest.mark.parametrize("method", PRIVATE)
def test_a_round_is_sent_and_charged_once(method: str, place: Place, wire: Wire) -> None:
    """Cut when it is sent, and again in what is repeated."""
    folder = wire.begin(private(place, **METHODS[method]), cut=2)
    for cut in (4, 3, 6, -1):
        before = charged(folder)
        folder = wire.begin(resumed_config(folder), cut=cut)
        for old, own in zip(before, charged(folder), strict=True):
            assert own[: len(old)] == old
            assert all(round > old[-1][0] for round, _ in own[len(old) :])
    assert (folder / "summary.json").exists()
    assert len({round for round, _ in wire.sent}) >= 4, "a gate may say no"
    assert {len(sent) for sent in wire.sent.values()} == {1}, "nothing is sent twice with different bytes"


@pytest.mark.parametrize("fault", ["short", "fsync"])
def test_a_full_disk_under_the_journal_ends_the_run_before_anything_is_sent(
    fault: str, place: Place, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a record is there, or all of it; nothing of it is charged, and the next start asks anew."""
    real, calls, journal = os.fsync, list[int](), place.folder / "cut" / JOURNAL

    def full(handle: int) -> None:
        if journal.exists() and os.path.samestat(os.fstat(handle), journal.stat()):
            calls.append(handle)
            if len(calls) == 6:  # its first record, four rounds, and now the fifth
                if fault == "short":
                    os.ftruncate(handle, os.fstat(handle).st_size - 40)
                raise OSError(28, os.strerror(28))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"cannot write .*journal\.bin: No space left"):
        run(private(place, account="account"))
    monkeypatch.setattr(os, "fsync", real)
    assert max(round for round, _ in wire.sent) == 3
    assert {round for own in charged(place.folder / "cut") for round, _ in own} == {0, 1, 2, 3}
    folder = run(resumed_config(place.folder / "cut")).folder
    assert {len(sent) for sent in wire.sent.values()} == {1}
    assert all(len(own) == len(set(own)) == 2 * ROUNDS for own in charged(folder))


def test_a_replay_with_other_inputs_is_silence(place: Place, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbour sends other vectors than the first time: who hears them says nothing until it is past its journal."""
    folder = wire.begin(private(place), cut=5)

    before = {place: set(sent) for place, sent in wire.sent.items()}
    repeated: dict[int, list[int]] = defaultdict(list)
    absorb, kept = Agents.absorb, list[Any]()

    def absorbing(self: Agents, own: Said, vectors: Any) -> Any:
        if len(self) == 1:  # before the run, by the check of its method
            return absorb(self, own, vectors)
        round = len(repeated)
        repeated[round] = np.flatnonzero(own.said).tolist()
        if round == 4:
            self._heard, self._at = kept
        found = absorb(self, own, vectors)
        if round == 3:  # agent 1 hears of its first neighbour, 0, what that has not said
            kept[:] = self._heard, self._at
            self._heard, self._at, self._sum = self.heard.copy(), None, None
            self._heard[int(self.edges.degree[0])] += 1.0
        return found

    monkeypatch.setattr(Agents, "absorb", absorbing)
    wire.begin(resumed_config(folder))
    assert (repeated[3], repeated[4], repeated[6]) == ([0, 1, 2, 3], [0, 2, 3], [0, 1, 2, 3])
    assert repeated[5] == [3], "the silence of agent 1 is another input of its neighbours 0 and 2"
    assert all(wire.sent[place] == sent for place, sent in before.items())
    assert all(len(own) == len(set(own)) for own in charged(folder))


def edited(folder: Path, change: Callable[[list[Round]], None]) -> None:
    """Change the rounds of a journal by one who knows how it is written."""
    path = folder / JOURNAL
    records = [record for record, _, _ in read_records(path)]
    change([record for record in records if isinstance(record, Round)])
    path.write_bytes(b"".join(map(record_bytes, records)))


@pytest.mark.parametrize("how", ["round", "question", "refusal"])
def test_an_edited_answer_is_silence(how: str, place: Place, wire: Wire) -> None:
    """Moved by hand to another round or question, whose hash it has not; or made a refusal, which is no charge."""
    folder = wire.begin(private(place), cut=5)

    def change(rounds: list[Round]) -> None:
        one, other = (rounds[k].agents[1].answers for k in (3, 4))
        made = {
            "round": one[0],
            "question": type(other[0])(b"another question", other[0].kind, other[0].data),
            "refusal": type(other[0])(other[0].question, "refused"),
        }
        other[0] = made[how]

    edited(folder, change)
    before = {place: set(sent) for place, sent in wire.sent.items()}
    wire.sent.clear()
    wire.begin(resumed_config(folder))
    assert (4, 1) not in wire.sent
    assert wire.sent[3, 1] == before[3, 1]
    if how != "refusal":  # which the ledger contradicts: an edited journal does not verify
        assert all(len(own) == len(set(own)) for own in charged(folder))
    refused = [entry["refused_at"] for entry in summary_of(folder)["per_agent"]]
    assert refused == [None, 4 if how == "refusal" else None, None, None]


def test_bytes_masked_in_two_starts_are_never_summed(place: Place, wire: Wire) -> None:
    """A round that all have is repeated; one that only some have is void, and charged as it was."""
    settings: dict[str, Any] = {"algorithm": "noisy-gd", "topology": "complete:4", "epsilon": 20.0}
    settings |= {"trust": "masked", "colluders": 1}
    folder = wire.begin(private(place, **settings), cut=4)

    def lose(rounds: list[Round]) -> None:
        rounds[-1].agents[2].answers = []

    edited(folder, lose)
    before = {place: set(sent) for place, sent in wire.sent.items() if place[0] < 4}
    wire.sent.clear()
    folder = wire.begin(resumed_config(folder))
    assert {place: sent for place, sent in wire.sent.items() if place[0] < 4} == before
    assert {round for round, _ in wire.sent} == {0, 1, 2, 3, 5, 6}
    assert all([round for round, _ in own] == list(range(ROUNDS)) for own in charged(folder))
    with np.load(folder / "model.npz") as model:
        assert np.abs(model["consensus"]).max() < 10.0
