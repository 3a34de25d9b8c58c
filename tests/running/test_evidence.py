"""What receipts show of run folders that somebody changed, also where he made everything else fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet import RunConfig, run
from admmnet.errors import CheckFailed, RequestError
from admmnet.evidence.compare import Evidence, compare, hold_keys, read_evidence
from admmnet.evidence.members import Members, agree
from admmnet.evidence.receipts import BATCH
from admmnet.forms import encode
from admmnet.identity.keys import Identity
from admmnet.identity.receipts import NOTHING, Receipt, hash_of, of_line
from admmnet.methods.sums import SumMethod
from admmnet.record.folder import write_part
from admmnet.record.reader import read_run
from admmnet.running import loop
from admmnet.transport.hosts.network import make_network
from tests.command_runs import Admmnet
from tests.people_runs import put_summary, small, summary_of, write_people
from tests.transport.test_network_file import plain

ROUNDS = BATCH + 4


@dataclass
class Ran:
    """Folder of a run on a path of three agents, and its agents' keys."""

    folder: Path
    members: Members

    def ledger(self, agent: int) -> Path:
        return self.folder / "ledger" / f"agent-00{agent}.jsonl"

    def receipts(self, keeper: int) -> Path:
        return self.folder / "receipts" / f"agent-00{keeper}.jsonl"

    def of(self, agent: int, keeper: int) -> list[Receipt]:
        lines = [of_line(line) for line in self.receipts(keeper).read_bytes().splitlines()]
        return [receipt for _, receipt, _ in lines if receipt.agent == agent]

    def write(self, keeper: int, receipts: list[Receipt]) -> None:
        """Let one agent sign these, chained anew, as if it had said so to this keeper."""
        key, run, previous, lines = self.members.own[receipts[0].agent], self.members.run, NOTHING, []
        for receipt in receipts:
            linked = receipt._replace(previous=previous)
            statement = linked.statement(run)
            previous = hash_of(statement)
            lines.append(linked.line(run, key.sign(statement)))
        self.receipts(keeper).write_bytes(b"".join(lines))

    def judged(self) -> int:
        return compare([evidence_of(self.folder)])


def evidence_of(folder: Path) -> Evidence:
    found = read_evidence(folder)
    assert found is not None
    return found


def make(folder: Path, **more: Any) -> Ran:
    """Run it: agent 0 keeps the receipts of agent 1, and agent 1 those of 0 and 2."""
    kept: list[Members] = []

    def remembering(*words: Any) -> Members:
        kept.append(agree(*words))
        return kept[0]

    given = {"algorithm": "pp-admm", "topology": "path:3", "rounds": ROUNDS, "seed": 0, "receipts": True, **more}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "agree", remembering)
        run(RunConfig(out=str(folder), data=write_people(folder.parent / "people.npz", 160), **given))
    return Ran(folder, kept[0])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return make(tmp_path_factory.mktemp("made") / "run")


@pytest.fixture
def ran(made: Ran, tmp_path: Path) -> Ran:
    shutil.copytree(made.folder, tmp_path / "run")
    return replace(made, folder=tmp_path / "run")


def unfinished(ran: Ran) -> Ran:
    """Take away what a run writes at its end."""
    for name in ("summary.json", "manifest.json", "model.npz"):
        (ran.folder / name).unlink()
    return ran


def test_an_honest_run_agrees(ran: Ran) -> None:
    assert ran.judged() == 3 * ROUNDS
    assert compare([evidence_of(ran.folder), evidence_of(ran.folder)]) == 3 * ROUNDS
    assert json.loads((ran.folder / "summary.json").read_text())["identities"] == "run"
    assert unfinished(ran).judged() == 3 * ROUNDS


def test_a_void_sum_has_receipts_as_others_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agent 3 is silent from round 2 on."""
    summand, asked = SumMethod.summand, list[int]()

    def silent(self: SumMethod, agent: Any, point: Any) -> Any:
        asked.append(agent.id)
        if agent.id == 3 and asked.count(3) >= 3:
            return None
        return (yield from summand(self, agent, point))

    monkeypatch.setattr(SumMethod, "summand", silent)
    more = {"algorithm": "noisy-gd", "topology": "path:4", "trust": "masked", "colluders": 1, "rounds": 4}
    ran = make(tmp_path / "run", **more)
    assert ran.judged() == 4 * 4
    of_one = ran.of(1, 0)
    assert [receipt.round for receipt in of_one] == [0, 1, 2, 3]
    assert len({receipt.total for receipt in of_one}) == 4
    notes = json.loads((ran.folder / "summary.json").read_text())["notes"]
    assert any("without agent 3 from round 2 on" in note for note in notes)


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run of two rounds with stages."""
    more = {"algorithm": "noisy-gd", "encode": "private", "whiten": "on", "rounds": 2, "epsilon": 400.0}
    return make(tmp_path_factory.mktemp("encoded") / "run", **more)


@pytest.fixture
def measured(encoded: Ran, tmp_path: Path) -> Ran:
    return replace(encoded, folder=shutil.copytree(encoded.folder, tmp_path / "run"))


def test_stages_have_receipts_as_rounds_have(measured: Ran) -> None:
    assert [receipt.round for receipt in measured.of(1, keeper=0)] == [-3, -2, -1, 0, 1]
    assert unfinished(measured).judged() == 3 * 5
    lines = measured.ledger(1).read_bytes().splitlines(keepends=True)
    measured.ledger(1).write_bytes(b"".join(lines[:2]))
    with pytest.raises(CheckFailed, match="has 2 lines, agent 1 told agent 0 in round -2 that it had 3"):
        measured.judged()


def test_different_sums_of_a_stage_name_both_ends(measured: Ran) -> None:
    told = measured.of(1, keeper=0)
    told[1] = told[1]._replace(total=b"x" * 32)
    measured.write(0, told)
    with pytest.raises(CheckFailed, match=r"agents [01] and [01] were given different sums in round -2"):
        measured.judged()


def test_a_stage_may_be_left_out_and_no_round(measured: Ran) -> None:
    told = measured.of(1, keeper=0)
    measured.write(0, [told[0], *told[2:]])
    evidence_of(measured.folder)
    measured.write(0, [*told[:3], told[4]])
    with pytest.raises(CheckFailed, match="is of round 1, behind one of round -1"):
        evidence_of(measured.folder)


def test_a_run_without_receipts_has_none(tmp_path: Path) -> None:
    people = write_people(tmp_path / "people.npz")
    assert read_evidence(run(small(people, tmp_path / "run", seed=1)).folder) is None


@pytest.mark.parametrize("cut", [1, 2, ROUNDS])
def test_a_ledger_that_was_rolled_back(cut: int, ran: Ran) -> None:
    unfinished(ran)
    lines = ran.ledger(1).read_bytes().splitlines(keepends=True)
    ran.ledger(1).write_bytes(b"".join(lines[: -1 - cut]))
    read_run(ran.folder)  # by itself it is a run that was interrupted
    with pytest.raises(
        CheckFailed, match=r"agent-001.jsonl: has \d+ lines, agent 1 told agent 0 .* cut or rolled back"
    ):
        ran.judged()


def test_a_ledger_that_was_made_anew(ran: Ran, tmp_path: Path) -> None:
    cheaper = make(tmp_path / "cheaper", epsilon=0.5)
    unfinished(ran)
    shutil.copy(cheaper.ledger(2), ran.ledger(2))
    read_run(ran.folder)  # every line of it is in order
    with pytest.raises(
        CheckFailed, match=r"agent-002.jsonl: line 3: .* agent 2 told agent 1 in round 0.*: the ledger was made anew"
    ):
        ran.judged()


def test_the_end_of_a_ledger_is_what_others_have_noted_and_convicts_nobody(ran: Ran, tmp_path: Path) -> None:
    shutil.copytree(ran.folder, tmp_path / "other")
    unfinished(ran)
    ran.ledger(1).write_bytes(b"".join(ran.ledger(1).read_bytes().splitlines(keepends=True)[:-1]))
    assert ran.judged() == 3 * ROUNDS
    said = r"agent-001.jsonl: its sha256 is not the one in .*/summary.json: one of the two was changed"
    with pytest.raises(CheckFailed, match=said):
        compare([evidence_of(ran.folder), evidence_of(tmp_path / "other")])


def test_an_agent_that_lied_about_its_cost(ran: Ran) -> None:
    told = [receipt._replace(rho=receipt.rho / 2) for receipt in ran.of(1, keeper=0)]
    ran.write(0, told)
    with pytest.raises(CheckFailed, match=r"agent 1 told agent 0 in round 0 of .*: agent 1 lied"):
        ran.judged()


@pytest.mark.parametrize(
    ("change", "word"),
    [({"said": b"x" * 32}, "vectors"), ({"ledger": b"x" * 32}, "ledgers"), ({"total": b"x" * 32}, "sums")],
)
def test_different_words_for_different_neighbours(change: dict[str, Any], word: str, ran: Ran, tmp_path: Path) -> None:
    """Of one round only: from there on the chains differ, too, but the first difference is what is told."""
    told = ran.of(1, keeper=0)
    told[7] = told[7]._replace(**change)
    shutil.copytree(ran.folder, tmp_path / "other")
    other = replace(ran, folder=tmp_path / "other")
    for keeper in (0, 1):
        other.receipts(keeper).unlink()
    other.write(2, told)
    other.ledger(1).unlink()
    with pytest.raises(
        CheckFailed, match=f"agent 1 has signed two different receipts of round 7, of different {word}"
    ) as caught:
        compare([evidence_of(ran.folder), evidence_of(other.folder)])
    assert str(other.receipts(2)) in str(caught.value)
    assert str(ran.receipts(0)) in str(caught.value)


def test_different_sums_name_both_ends(ran: Ran) -> None:
    ran.write(0, [receipt._replace(total=b"x" * 32) for receipt in ran.of(1, keeper=0)])
    with pytest.raises(CheckFailed, match=r"agents [01] and [01] were given different sums in round 0"):
        ran.judged()


def test_folders_of_different_runs_are_not_compared(ran: Ran, tmp_path: Path) -> None:
    other = make(tmp_path / "other")
    with pytest.raises(RequestError, match="are not of one run"):
        compare([evidence_of(ran.folder), evidence_of(other.folder)])


SUMMARIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "nothing": (lambda summary: None, ""),
    "away": (
        lambda s: s.update(
            starts=[{"number": 1, "members": [1, 2], "round": 1, "rule": "go on", "cause": ""}], transport="zmq"
        ),
        "agent 0: takes no part in the last start, but its ledger is listed",
    ),
    "target": (lambda s: s["per_agent"][0].update(epsilon_target=0.1), "agent 0: epsilon_target is 0.1"),
    "records": (lambda s: s["per_agent"][2].update(records=99999), "agent 2: records is 99999"),
    "rounds": (lambda s: s.update(rounds=7), f"rounds is 7, the ledger of agent 1 has a charge of round {ROUNDS - 1}"),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_is_held_against_the_ledgers_in_other_folders(
    name: str, made: Ran, tmp_path: Path, admmnet: Admmnet
) -> None:
    """Also where its manifest was made anew."""
    change, fault = SUMMARIES[name]
    parts = [tmp_path / str(i) for i in range(3)]
    for i, part in enumerate(parts):
        shutil.copytree(made.folder, part)
        for other in {0, 1, 2} - {i}:
            for kind in ("ledger", "receipts"):
                (part / kind / f"agent-00{other}.jsonl").unlink(missing_ok=True)
        write_part(part, i, 3)
        summary = summary_of(part)
        if i == 1:
            change(summary)
        put_summary(part, summary)
    others, verify = (parts[0], parts[2]), ("ledger", "verify", parts[1])
    said = admmnet(*verify, "--against", *others)
    assert admmnet(*verify, *(word for other in others for word in ("--against", other))) == said
    assert "name folders to compare with behind --against" in admmnet.refused(*verify, *others)
    assert said.code == (1 if fault else 0), said.err
    assert (f"{parts[1] / 'summary.json'}: {fault}" if fault else "1 ledger, ") in said.err + said.out
    assert "is the folder itself" in admmnet.refused(*verify, "--against", parts[1])


def changed_key(folder: Path) -> None:
    path = folder / "receipts" / "identities.json"
    content = json.loads(path.read_text())
    content["starts"][0]["keys"]["2"] = Identity.fresh().public
    path.write_bytes(encode(content, indent=2))


def test_changed_keys_are_found(ran: Ran, tmp_path: Path) -> None:
    shutil.copytree(ran.folder, tmp_path / "other")
    changed_key(tmp_path / "other")
    with pytest.raises(CheckFailed, match=r"agent-001.jsonl: line .*: the receipt of agent 2 is not signed by agent 2"):
        evidence_of(tmp_path / "other")
    (tmp_path / "other" / "receipts" / "agent-001.jsonl").unlink()
    with pytest.raises(CheckFailed, match="list different keys of agent 2"):
        compare([evidence_of(ran.folder), evidence_of(tmp_path / "other")])


def test_keys_are_held_against_a_network_file(ran: Ran) -> None:
    keys = ran.members.keys
    peers = [structs.replace(peer, identity=keys[peer.agent]) for peer in plain(3)[0]]
    fresh = [structs.replace(peer, identity=Identity.fresh().public) for peer in peers]

    def held(peers: list[Any]) -> None:
        network = make_network("path:3", [(0, 1), (1, 2)], peers, "ipc://relay")
        hold_keys(evidence_of(ran.folder), network, "net.toml")

    with pytest.raises(RequestError, match="its keys were made for the run"):
        held(peers)
    path = ran.folder / "receipts" / "identities.json"
    path.write_text(path.read_text().replace('"source": "run"', '"source": "network"'))
    held(peers)
    with pytest.raises(CheckFailed, match=r"the key of agent 0 is none that net.toml lists"):
        held(fresh)


def positions(content: bytes, count: int) -> Iterator[int]:
    stream = np.random.default_rng(0)
    yield from sorted(set(stream.integers(0, len(content), count).tolist()) | {0, len(content) - 1})


def test_every_single_edit_of_receipts_is_found(ran: Ran) -> None:
    """Of a finished run, without its manifest: signatures and chains leave no byte free."""
    for path in (ran.receipts(0), ran.receipts(1)):
        good = path.read_bytes()
        for place in positions(good, 150):
            for edited in (
                good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :],
                good[:place] + good[place + 1 :],
                good[:place] + good[place : place + 1] + good[place:],
            ):
                if edited == good:
                    continue
                path.write_bytes(edited)
                with pytest.raises(CheckFailed, match=path.name):
                    ran.judged()
        path.write_bytes(good)
    assert ran.judged() == 3 * ROUNDS


LINES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "one is taken out": lambda lines: [*lines[:3], *lines[4:]],
    "the first is taken out": lambda lines: lines[1:],
    "the signed one is taken out": lambda lines: lines[:-1],
    "two are swapped": lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
    "one comes twice": lambda lines: [*lines[:4], *lines[3:]],
    "an empty one": lambda lines: [*lines[:4], b"\n", *lines[4:]],
}


@pytest.mark.parametrize("name", LINES)
def test_lines_that_were_moved(name: str, ran: Ran) -> None:
    path = ran.receipts(0)
    path.write_bytes(b"".join(LINES[name](path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(CheckFailed, match=r"agent-000.jsonl: "):
        ran.judged()


def test_what_is_no_folder_of_receipts(ran: Ran) -> None:
    path = ran.folder / "receipts" / "identities.json"
    good = path.read_text()
    edited = good.replace('"run"', '"name"'), good.replace('"0"', '"x"')
    for content in ("{}", "[]", "[" * 10_000, '{"starts": 3}', *edited):
        path.write_text(content)
        with pytest.raises(CheckFailed, match=r"identities.json: "):
            read_evidence(ran.folder)
    path.write_text(good)
    stray = ran.folder / "receipts" / "agent-x.jsonl"
    stray.write_text("")
    with pytest.raises(CheckFailed, match="is no file of an agent"):
        read_evidence(ran.folder)
    shutil.rmtree(ran.folder / "receipts")
    with pytest.raises(CheckFailed, match=r"receipts: is missing, though summary.json says"):
        read_evidence(ran.folder)


def test_what_a_crash_has_cut_off_counts_for_nothing(ran: Ran) -> None:
    unfinished(ran)
    path = ran.receipts(0)
    lines = path.read_bytes().splitlines(keepends=True)
    assert b"null}" in lines[-2]  # the last batch has four lines
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:-10])
    assert ran.judged() == 3 * ROUNDS - 4
