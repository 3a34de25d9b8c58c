"""Receipts of a run: what liars among the agents send, what is kept, and behind what a resumed run goes on."""

from __future__ import annotations

import json
import shutil
import struct
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.errors import CheckFailed, RequestError
from admmnet.evidence import receipts as kept
from admmnet.evidence.compare import read_evidence
from admmnet.evidence.members import Members
from admmnet.evidence.receipts import BATCH, Receipts, digest_of
from admmnet.identity.keys import Identity, verify
from admmnet.identity.receipts import NOTHING, SIZE, Receipt, of_line, of_words, to_words
from admmnet.transport import Inbox
from admmnet.types import Total, Vector
from tests.people_runs import PRIVATE, Stop, stopping, write_people

RUN = "ab" * 32
Lie = Callable[[bytes], bytes | None]
"""What an agent sends in place of its receipt."""


class Books:
    """A ledger that grows by a line a round."""

    def __init__(self) -> None:
        self.head = "cd" * 32, 1, 0.0

    def charge(self, rho: float) -> None:
        self.head = "cd" * 32, self.head[1] + 1, self.head[2] + rho


class Bench:
    """The transport of one of two agents; ``reject`` is remembered."""

    def __init__(self, agent: int) -> None:
        self.agents, self.faults, self.inbox = (agent,), list[str](), Inbox()

    def reject(self, agent: int, fault: str) -> None:
        self.faults.append(fault)

    def exchange(self, outgoing: Any, round: int, words: Mapping[int, bytes]) -> Inbox:
        raise NotImplementedError


class Two:
    """Two neighbours in processes of their own; agent 1 may lie."""

    def __init__(self, folder: Path) -> None:
        (folder / "receipts").mkdir(parents=True)
        self.folder, self.keys = folder, [Identity.fresh() for _ in range(2)]
        self.benches, self.books = [Bench(i) for i in range(2)], [Books(), Books()]
        public = {i: key.public for i, key in enumerate(self.keys)}
        self.receipts = [
            Receipts(
                Members(RUN, public, {i: self.keys[i]}, "run"),
                nx.path_graph(2),
                self.benches[i],  # type: ignore[arg-type]
                {i: self.books[i]},  # type: ignore[dict-item]
                folder,
            )
            for i in range(2)
        ]

    def round(self, number: int, lie: Lie | None = None, heard: Vector | None = None) -> None:
        """One round, in which agent 0 hears of agent 1 what it said, or something else."""
        said = {0: np.array([1.0, number]), 1: np.array([2.0, number])}
        for books in self.books:
            books.charge(0.125)
        words = {i: self.receipts[i].signed(number, said)[i] for i in range(2)}
        for i, j in ((0, 1), (1, 0)):
            sent = lie(words[j]) if lie is not None and j == 1 else words[j]
            vector = said[j] if heard is None or j == 0 else heard
            self.benches[i].inbox = Inbox({i: {j: vector}}, {} if sent is None else {i: {j: sent}})
            self.receipts[i].take(number, self.benches[i].inbox)

    def lines(self, keeper: int) -> list[tuple[str, Receipt, bytes | None]]:
        path = kept.receipts_path(self.folder, keeper, 2)
        return [of_line(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def test_every_round_is_kept_and_signatures_cover_what_is_before_them(tmp_path: Path) -> None:
    two = Two(tmp_path)
    for number in range(BATCH + 3):
        two.round(number)
    assert len(two.lines(0)) == BATCH
    for own in two.receipts:
        own.settle(durable=True)
        own.close()
    for keeper, other in ((0, 1), (1, 0)):
        lines = two.lines(keeper)
        assert [(name, receipt.round, receipt.agent) for name, receipt, _ in lines] == [
            (RUN, number, other) for number in range(BATCH + 3)
        ]
        assert [receipt.lines for _, receipt, _ in lines] == list(range(2, BATCH + 5))
        assert [i for i, (_, _, signature) in enumerate(lines) if signature] == [BATCH - 1, BATCH + 2]
        for _, receipt, signature in lines:
            assert receipt.said == digest_of(np.array([1.0 + other, receipt.round]))
            if signature is not None:
                assert verify(two.keys[other].public, signature, receipt.statement(RUN))
        assert lines[0][1].previous == NOTHING
    assert [bench.faults for bench in two.benches] == [[], []]


def signed_anew(two: Two, words: bytes, **changes: Any) -> bytes:
    receipt = of_words(words)[0]._replace(**changes)
    return to_words(receipt, two.keys[1].sign(receipt.statement(RUN)))


LIES: dict[str, tuple[Callable[[Two, bytes, bytes], bytes | None], str]] = {
    "nothing": (lambda two, words, before: None, "is none (0 bytes"),
    "cut": (lambda two, words, before: words[:-1], "is none"),
    "too long": (lambda two, words, before: words + b"x", "is none"),
    "of before": (lambda two, words, before: before, "is of round 2"),
    "of another round": (lambda two, words, before: signed_anew(two, words, round=9), "is of round 9 and agent 1"),
    "of another agent": (lambda two, words, before: signed_anew(two, words, agent=0), "is of round 3 and agent 0"),
    "of other numbers": (
        lambda two, words, before: signed_anew(two, words, said=NOTHING),
        "not of the message that it sent",
    ),
    "a ledger that shrinks": (lambda two, words, before: signed_anew(two, words, lines=2), "has 2 lines"),
    "a cost that shrinks": (lambda two, words, before: signed_anew(two, words, rho=0.1), "a total rho of 0.1"),
    "a cost that is none": (lambda two, words, before: signed_anew(two, words, rho=np.nan), "a total rho of nan"),
    "less than nothing": (lambda two, words, before: signed_anew(two, words, rho=-1.0), "a total rho of -1"),
    "no ledger": (lambda two, words, before: signed_anew(two, words, lines=0), "has 0 lines"),
    "another past": (lambda two, words, before: signed_anew(two, words, previous=NOTHING), "does not follow"),
}


@pytest.mark.parametrize("name", LIES)
def test_who_sends_no_good_receipt_is_named_at_once(name: str, tmp_path: Path) -> None:
    lie, fault = LIES[name]
    two, sent = Two(tmp_path), []

    def honest(words: bytes) -> bytes:
        sent.append(words)
        return words

    for number in range(3):
        two.round(number, honest)
    two.round(3, lambda words: lie(two, words, sent[-1]))
    (said,) = two.benches[0].faults
    assert said.startswith("agent 0: the receipt of neighbour 1 in round 3 ")
    assert fault in said
    assert two.benches[0].inbox[0] == {}  # nor is its vector taken in
    assert two.benches[1].faults == []
    two.receipts[0].close()
    assert [receipt.round for _, receipt, _ in two.lines(0)] == [0, 1, 2]  # what it had signed is kept


def test_who_tells_one_neighbour_other_numbers_than_it_signs_is_named(tmp_path: Path) -> None:
    two = Two(tmp_path)
    two.round(0, heard=np.array([7.0, 7.0]))
    assert two.benches[0].faults == [
        "agent 0: the receipt of neighbour 1 in round 0 is not of the message that it sent"
    ]


@pytest.mark.parametrize("rounds", [1, BATCH])
def test_receipts_that_nobody_has_signed_are_not_kept(rounds: int, tmp_path: Path) -> None:
    two = Two(tmp_path)
    for number in range(rounds):
        two.round(number, lambda words: words[:-1] + bytes([words[-1] ^ 1]))
    two.receipts[0].settle()
    assert two.benches[0].faults == [
        f"agent 0: the receipts of neighbour 1 up to round {rounds - 1} are not signed by it"
    ]
    assert two.lines(0) == []


def test_one_good_signature_covers_those_before_it(tmp_path: Path) -> None:
    two = Two(tmp_path)
    for number in range(BATCH):
        two.round(
            number, lambda words: words if struct.unpack_from("<I", words) == (BATCH - 1,) else words[:-64] + bytes(64)
        )
    assert two.benches[0].faults == []
    assert len(two.lines(0)) == BATCH


def test_a_neighbour_with_another_sum_is_rejected_and_both_are_kept(tmp_path: Path) -> None:
    two, said, meet = Two(tmp_path), dict[int, bytes](), threading.Barrier(2, timeout=20.0)
    right, wrong = Total(np.array([5]), (0, 1)), Total(np.array([6]), (0, 1))

    def exchange(outgoing: Any, round: int, words: Mapping[int, bytes]) -> Inbox:
        (i,) = words
        said[i] = words[i]
        meet.wait()
        heard = said[1 - i]
        meet.wait()
        return Inbox({i: {}}, {i: {1 - i: heard}})

    def sum_up(i: int) -> None:
        two.receipts[i].summed(0, {i: np.zeros(2)}, right)
        two.receipts[i].summed(1, {i: np.zeros(2)}, wrong if i else right)
        (fault,) = two.benches[i].faults
        assert f"agent {i} and its neighbour {1 - i} were given different sums in round 1" in fault
        two.receipts[i].close()

    for bench in two.benches:
        bench.exchange = exchange  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(sum_up, range(2)))
    totals = [[receipt.total for _, receipt, _ in two.lines(i)] for i in range(2)]
    digests = [kept.digest_of_sum(total) for total in (right, wrong)]
    assert totals == [digests, [digests[0], digests[0]]]


def test_sums_differ_in_who_is_in_them() -> None:
    value = np.array([5, -1])
    digests = {kept.digest_of_sum(Total(value, agents)) for agents in ((0,), (0, 1), (1,))}
    assert len(digests | {kept.digest_of_sum(None)}) == 4
    assert digest_of(np.array([0.0])) != digest_of(np.array([-0.0]))
    assert digest_of(None) == NOTHING


@pytest.mark.parametrize("rho", [0.0, 1 / 3, 1e-300, np.inf])
def test_a_line_is_read_as_it_was_written(rho: float) -> None:
    receipt = Receipt(7, 3, 9, rho, b"l" * 32, b"s" * 32, NOTHING, b"p" * 32)
    for signature in (None, b"x" * 64):
        line = receipt.line(RUN, signature)
        assert of_line(line[:-1]) == (RUN, receipt, signature)
        assert json.loads(line)["rho"] == (None if rho == np.inf else rho)
    words = to_words(receipt, b"x" * 64)
    assert len(words) == SIZE
    assert of_words(words) == (receipt, b"x" * 64)


@pytest.mark.parametrize(
    "change",
    [
        (b'"round":7', b'"round":"7"'),
        (b'"round":7', b'"round":7.0'),
        (b'"round":7', b'"round": 7'),
        (b'"rho":0.5', b'"rho":0.50'),
        (b'"rho":0.5', b'"rho":NaN'),
        (b'"rho":0.5', b'"rho":true'),
        (b'"said":"73', b'"said":"7'),
        (b'"said":"73', b'"said":"7G'),
        (b'"total":null', b'"total":[]'),
        (b'"signature":null', b'"signature":""'),
        (b'"previous":"70', b'"previous":"'),
        (b'"agent":3,', b""),
        (b'{"run"', b'[{"run"'),
        (b"{", b"[" * 5000),
    ],
    ids=repr,
)
def test_what_is_no_line_of_receipts(change: tuple[bytes, bytes]) -> None:
    line = Receipt(7, 3, 9, 0.5, b"l" * 32, b"s" * 32, NOTHING, b"p" * 32).line(RUN, None)[:-1]
    assert of_line(line)
    assert line.count(change[0]) == 1
    with pytest.raises(ValueError, match="is n"):
        of_line(line.replace(*change))


def settings(folder: Path, **more: Any) -> RunConfig:
    values: dict[str, Any] = {"algorithm": "pp-admm", "topology": "path:3", "rounds": 5} | more
    return RunConfig(data=write_people(folder.parent / "people.npz"), out=str(folder), **values)


def cut(config: RunConfig) -> None:
    """Run until the end of round 2."""
    with pytest.raises(Stop):
        run(config, on_round=stopping(2))


def senders(folder: Path) -> dict[str, list[tuple[int, int]]]:
    """Of every file of receipts (agent, round) of its lines."""
    return {
        path.name: [(receipt.agent, receipt.round) for _, receipt, _ in map(of_line, path.read_bytes().splitlines())]
        for path in sorted((folder / "receipts").glob("agent-*.jsonl"))
    }


def test_a_run_keeps_receipts_of_every_agent_once_in_a_process(tmp_path: Path) -> None:
    run(settings(tmp_path / "run", seed=0, receipts=True))
    rounds = range(5)
    assert senders(tmp_path / "run") == {
        "agent-000.jsonl": [(1, number) for number in rounds],
        "agent-001.jsonl": [(0, number) for number in rounds] + [(2, number) for number in rounds],
    }
    (start,) = json.loads((tmp_path / "run" / "receipts" / "identities.json").read_text())["starts"]
    assert (start["round"], start["source"], sorted(start["keys"])) == (0, "run", ["0", "1", "2"])


@pytest.mark.parametrize(("more", "expected"), [({"seed": 0}, False), (PRIVATE, True)])
def test_private_runs_keep_receipts_and_simulations_on_request(
    more: Mapping[str, Any], expected: bool, tmp_path: Path
) -> None:
    run(settings(tmp_path / "run", **more))
    assert (tmp_path / "run" / "receipts").exists() is expected


def test_receipts_change_no_bit_of_a_run(tmp_path: Path) -> None:
    with_, without = (run(settings(tmp_path / str(flag), seed=0, receipts=flag)) for flag in (True, False))
    assert with_.theta.tobytes() == without.theta.tobytes()
    for path in (tmp_path / "True" / "ledger").iterdir():
        assert path.read_bytes() == (tmp_path / "False" / "ledger" / path.name).read_bytes()


@pytest.mark.parametrize("private", [True, False])
def test_a_resumed_run_goes_on_with_new_keys_behind_what_was_kept(private: bool, tmp_path: Path) -> None:
    more = PRIVATE if private else {"seed": 0, "receipts": True}
    cut(settings(tmp_path / "run", checkpoint_every=2, **more))
    torn = tmp_path / "run" / "receipts" / "agent-000.jsonl"
    before = torn.read_bytes()
    assert [of_line(line)[1].round for line in before.splitlines()] == [0, 1, 2]
    torn.write_bytes(before + before.splitlines()[0] + b"\n" + before[:50])
    run(RunConfig(resume=str(tmp_path / "run")))
    assert torn.read_bytes().startswith(before)
    assert senders(tmp_path / "run")["agent-000.jsonl"] == [(1, number) for number in (0, 1, 2, 2, 3, 4)]
    first, second = json.loads((tmp_path / "run" / "receipts" / "identities.json").read_text())["starts"]
    assert (first["round"], second["round"]) == (0, 2)
    assert first["run"] != second["run"]
    assert not set(first["keys"].values()) & set(second["keys"].values())


def test_receipts_that_were_removed_before_a_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    cut(settings(folder, checkpoint_every=2, **PRIVATE))
    own, whole = folder / "receipts" / "agent-000.jsonl", folder / "receipts"
    good = own.read_bytes()
    own.unlink()
    with pytest.raises(CheckFailed, match=r"agent-000.jsonl: is missing: it was removed"):
        read_evidence(folder)
    with pytest.raises(RequestError, match=r"agent-000.jsonl: lacks receipts of round 1, .* or run anew"):
        run(RunConfig(resume=str(folder)))
    own.write_bytes(good[: good.index(b"\n") + 1])
    with pytest.raises(RequestError, match=r"agent-000.jsonl: lacks receipts of round 1"):
        run(RunConfig(resume=str(folder)))
    whole.rename(tmp_path / "away")
    with pytest.raises(CheckFailed, match=r"receipts: is missing, though the run keeps receipts"):
        read_evidence(folder)
    with pytest.raises(RequestError, match=r"identities.json: is missing, though the run that goes on kept"):
        run(RunConfig(resume=str(folder)))
    shutil.rmtree(whole)
    (tmp_path / "away").rename(whole)
    own.write_bytes(good)
    run(RunConfig(resume=str(folder)))
    assert read_evidence(folder) is not None
    own.write_bytes(own.read_bytes().removeprefix(good))
    with pytest.raises(CheckFailed, match=r"agent-000.jsonl: lacks receipts of round 1"):
        read_evidence(folder)


def test_sums_leave_receipts(tmp_path: Path) -> None:
    run(settings(tmp_path / "run", algorithm="noisy-gd", rounds=10, seed=0, receipts=True))
    files = [path.read_bytes().splitlines() for path in sorted((tmp_path / "run" / "receipts").glob("agent-*"))]
    found = [of_line(line)[1] for lines in files for line in lines]
    assert sorted((receipt.agent, receipt.round) for receipt in found) == [(i, t) for i in range(3) for t in range(10)]
    for number in range(10):
        said = {(receipt.said, receipt.total) for receipt in found if receipt.round == number}
        assert len(said) == 1  # one point, one sum
    assert len({receipt.total for receipt in found}) == 10
