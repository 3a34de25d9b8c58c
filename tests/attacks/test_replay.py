"""Starts that repeat rounds: whatever is tried, a round is charged once and sent once (docs/proofs.md, Theorem 30)."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from admmnet import read_run, run
from admmnet.errors import RequestError, RunError
from admmnet.holder.outbox import Outbox
from admmnet.privacy.ledger.lines import digest
from admmnet.running.checkpoint.keeper import Keeper
from admmnet.running.checkpoint.outbox import OutboxFile
from admmnet.running.checkpoint.resume import resumed_config
from admmnet.transport import Inbox
from admmnet.transport.local import LocalTransport
from tests.interrupted_runs import METHODS, ROUNDS, Place
from tests.people_runs import Stop

PRIVATE = ["pp-admm", "output", "above-threshold", "joining", "ipp published", "r-admm", "noisy-gd", "tail", "blocks"]
Change = Callable[[int, Inbox], None]


class Wire:
    """Keeps what every agent has sent in a round.

    ``change`` alters what arrives. The run ends in a round: when that was sent and nothing arrives (``cut``), or when
    its ledgers are written and its outbox is not (``die``).
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: dict[tuple[int, int], set[bytes]] = defaultdict(set)
        self.change: Change = lambda round, inbox: None
        self.cut = self.die = -1
        exchange, reduce, post = LocalTransport.exchange, LocalTransport.reduce, Keeper.post

        def note(outgoing: Any, round: int) -> None:
            for i, vector in outgoing.items():
                if vector is not None and round < ROUNDS:  # the answer is made of what was sent
                    self.sent[round, i].add(vector.tobytes())
            if round == self.cut:
                raise Stop

        def exchanged(own: LocalTransport, outgoing: Any, round: int) -> Inbox:
            note(outgoing, round)
            inbox = exchange(own, outgoing, round)
            self.change(round, inbox)
            return inbox

        def reduced(own: LocalTransport, outgoing: Any, trees: Any, round: int, size: int) -> Any:
            note(outgoing, round)
            return reduce(own, outgoing, trees, round, size)

        def posted(own: Keeper, round: int, nodes: Any) -> None:
            if round == self.die:
                raise Stop
            post(own, round, nodes)

        monkeypatch.setattr(LocalTransport, "exchange", exchanged)
        monkeypatch.setattr(LocalTransport, "reduce", reduced)
        monkeypatch.setattr(Keeper, "post", posted)

    def begin(self, config: Any, *, cut: int = -1, die: int = -1) -> Path:
        """Run until it is cut, or dies, in a round."""
        self.cut, self.die = cut, die
        try:
            return run(config).folder
        except Stop:
            return Path(config.out)
        finally:
            self.cut = self.die = -1


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(monkeypatch)


def private(place: Place, name: str = "cut", **settings: Any) -> Any:
    return place.config(name, **{"checkpoint_every": 3, "seed": None} | settings)


def charges(folder: Path) -> list[dict[int, list[int]]]:
    """Of every agent, the starts in which a round is charged, by round."""
    found = []
    for path in sorted((folder / "ledger").iterdir()):
        start, rounds = 0, defaultdict[int, list[int]](list)
        for line in map(json.loads, path.read_bytes().splitlines()):
            start += line["kind"] == "resume"
            if line["kind"] == "event" and start not in rounds[line["round"]]:
                rounds[line["round"]].append(start)
        found.append(dict(rounds))
    return found


@pytest.mark.parametrize("method", PRIVATE)
def test_a_round_is_sent_and_charged_once(method: str, place: Place, wire: Wire) -> None:
    """Cut when a round was just written down, when it is sent, and again in what is repeated."""
    folder = wire.begin(private(place, **METHODS[method]), cut=2)
    for cut in (4, 3, 5, 6, -1):
        folder = wire.begin(resumed_config(folder), cut=cut)
    assert (folder / "summary.json").exists()
    assert len({round for round, _ in wire.sent}) >= 4, "a gate may say no"
    assert {len(sent) for sent in wire.sent.values()} == {1}, "nothing is sent twice with different bytes"
    assert {len(starts) for rounds in charges(folder) for starts in rounds.values()} == {1}
    for book in read_run(folder).ledgers.values():
        assert len(book.resumed) == 5


def test_without_an_outbox_a_round_is_sent_twice(place: Place, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests here catch: a door that answers what was answered."""
    folder = wire.begin(private(place), cut=5)
    monkeypatch.setattr(Outbox, "repeated", lambda *asked: None)
    wire.begin(resumed_config(folder))
    assert {round for (round, _), sent in wire.sent.items() if len(sent) > 1} == {3}
    assert all(rounds[3] == [0, 1] for rounds in charges(folder))


@pytest.mark.parametrize("gated", [False, True])
def test_a_round_that_died_between_ledger_and_outbox_is_charged_anew(gated: bool, place: Place, wire: Wire) -> None:
    """The one exception: nothing of it was sent. The plan takes the whole budget, so the last round is refused."""
    settings = METHODS["joining"] if gated else {}
    folder = wire.begin(private(place, **settings), die=4)
    folder = wire.begin(resumed_config(folder))
    found = charges(folder)
    assert all(
        starts == ([0, 1] if round == 4 else [min(1, round // 4)]) for own in found for round, starts in own.items()
    )
    assert any(4 in own for own in found)
    assert {len(sent) for sent in wire.sent.values()} == {1}
    summary = json.loads((folder / "summary.json").read_text())
    if not gated:
        assert [entry["refused_at"] for entry in summary["per_agent"]] == [ROUNDS - 1] * 4
    assert all(entry["epsilon_spent"] <= entry["epsilon_target"] * (1 + 1e-9) for entry in summary["per_agent"])


def test_a_full_disk_under_the_outbox_ends_the_run_before_anything_is_sent(
    place: Place, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a line is there; the next start cuts it off, and charges the round anew."""
    write, rounds = OutboxFile.write, list[int]()

    def full(own: Any, round: int, nodes: Any) -> None:
        if round == 4:
            rounds.append(round)
            whole = own._file
            own._file = SimpleNamespace(name=whole.name, write=lambda data: whole.write(data[: len(data) // 2]))
            try:
                write(own, round, nodes)
            finally:
                own._file = whole
        write(own, round, nodes)

    monkeypatch.setattr(OutboxFile, "write", full)
    with pytest.raises(RunError, match=r"cannot write the outbox .*outbox-000000\.jsonl"):
        run(private(place))
    assert rounds == [4]
    assert max(round for round, _ in wire.sent) == 3
    monkeypatch.setattr(OutboxFile, "write", write)
    folder = run(resumed_config(place.folder / "cut")).folder
    assert {len(sent) for sent in wire.sent.values()} == {1}
    assert [starts for starts in charges(folder)[0].values() if len(starts) > 1] == [[0, 1]]


def test_a_replay_with_other_inputs_is_silence(place: Place, wire: Wire) -> None:
    """A neighbour sends other vectors than the first time: who hears them says nothing until it is past the outbox."""
    folder = wire.begin(private(place), cut=5)

    def lie(round: int, inbox: Inbox) -> None:
        if round == 3:
            inbox[1][0] = inbox[1][0] + 1.0

    wire.change = lie
    before = {place: set(sent) for place, sent in wire.sent.items()}
    repeated: dict[int, list[int]] = defaultdict(list)

    def listen(round: int, inbox: Inbox) -> None:
        lie(round, inbox)
        repeated[round] = sorted({j for vectors in inbox.values() for j in vectors})

    wire.change = listen
    wire.begin(resumed_config(folder))
    assert (repeated[3], repeated[4], repeated[6]) == ([0, 1, 2, 3], [0, 2, 3], [0, 1, 2, 3])
    assert repeated[5] == [3], "the silence of agent 1 is another input of its neighbours 0 and 2"
    assert all(wire.sent[place] == sent for place, sent in before.items())
    assert {len(starts) for rounds in charges(folder) for starts in rounds.values()} == {1}


def outboxes(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint/*/outbox-*.jsonl"))


def edited(path: Path, change: Callable[[list[Any]], None]) -> None:
    """Change the lines of an outbox by one who knows how it is written."""
    lines = [json.loads(line[65:]) for line in path.read_bytes().splitlines()]
    change(lines)
    texts = [json.dumps(line, separators=(",", ":")).encode() for line in lines]
    path.write_bytes(b"".join(hashlib.sha256(text).hexdigest().encode() + b" " + text + b"\n" for text in texts))


def test_a_changed_line_of_an_outbox_is_refused(place: Place, wire: Wire) -> None:
    folder = wire.begin(private(place), cut=5)
    path = outboxes(folder)[-1]
    before = path.read_bytes()
    path.write_bytes(before.replace(b'"round":4', b'"round":5'))
    with pytest.raises(RequestError, match=r"outbox-000000\.jsonl: line 2 is damaged"):
        wire.begin(resumed_config(folder))
    path.write_bytes(before[:-1])  # cut off: what is not whole was not sent
    wire.begin(resumed_config(folder))
    assert all((rounds[4], rounds[5]) == ([0], [0, 1]) for rounds in charges(folder))


@pytest.mark.parametrize("how", ["round", "question", "start"])
def test_an_answer_to_another_question_is_silence(how: str, place: Place, wire: Wire) -> None:
    """Moved by hand to another round, question or start: the hash is of neither."""
    folder = wire.begin(private(place), cut=5)

    def change(lines: list[Any]) -> None:
        one, other, _ = (line["agents"]["1"]["answers"][0] for line in lines)
        if how == "round":
            other |= one
        elif how == "question":
            other["question"] = digest(b"another")
        else:
            other["start"] = "0" * 16

    edited(outboxes(folder)[-1], change)
    before = {place: set(sent) for place, sent in wire.sent.items()}
    wire.sent.clear()
    wire.begin(resumed_config(folder))
    assert (4, 1) not in wire.sent
    assert wire.sent[3, 1] == before[3, 1]
    assert {len(starts) for rounds in charges(folder) for starts in rounds.values()} == {1}


def test_a_member_that_comes_back_with_an_old_outbox(place: Place, wire: Wire) -> None:
    """Rounds that its ledger charges and its outbox lacks are silent; the last may have died on the way to it."""
    folder = wire.begin(private(place), cut=3)
    old = place.folder / "old"
    shutil.copytree(folder / "checkpoint", old)
    folder = wire.begin(resumed_config(folder), cut=5)
    shutil.rmtree(folder / "checkpoint")
    shutil.copytree(old, folder / "checkpoint")
    wire.sent.clear()
    wire.begin(resumed_config(folder))
    assert {round for round, _ in wire.sent} == {3, 5}, "and no budget is left for the last one"
    assert charges(folder) == [{0: [0], 1: [0], 2: [0], 3: [0], 4: [1], 5: [1, 2]}] * 4


def test_an_old_ledger_beside_a_newer_outbox_is_refused(place: Place, wire: Wire) -> None:
    folder = wire.begin(private(place), cut=5)
    path = folder / "ledger/agent-001.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(RequestError, match=r"agent-001\.jsonl lacks charges that its checkpoint knows of"):
        wire.begin(resumed_config(folder))


def test_bytes_masked_in_two_starts_are_never_summed(place: Place, wire: Wire) -> None:
    """A round that all have is repeated; one that only some have is void, and charged as it was."""
    settings: dict[str, Any] = {
        "algorithm": "noisy-gd",
        "topology": "complete:4",
        "trust": "masked",
        "colluders": 1,
        "epsilon": 20.0,
    }
    folder = wire.begin(private(place, **settings), cut=4)
    edited(outboxes(folder)[-1], lambda lines: lines[-1]["agents"].pop("2"))
    before = {place: set(sent) for place, sent in wire.sent.items()}
    wire.sent.clear()
    folder = wire.begin(resumed_config(folder))
    assert {place: sent for place, sent in wire.sent.items() if place[0] == 3} == {
        place: sent for place, sent in before.items() if place[0] == 3
    }
    assert {round for round, _ in wire.sent} == {3, 5, 6}
    assert all(starts == [round // 5] for rounds in charges(folder) for round, starts in rounds.items())
    with np.load(folder / "model.npz") as model:
        assert np.abs(model["consensus"]).max() < 10.0
