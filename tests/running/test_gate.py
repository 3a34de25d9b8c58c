"""The line of the gate: what it was asked and saved is what agents have sent, and ledgers say."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig, read_run, run
from admmnet.data.settings import DataSettings, split_of
from admmnet.privacy.events import Gaussian, NoRecords
from admmnet.report.series import gate_line
from admmnet.report.tables import run_text
from admmnet.transport import Inbox, Outgoing
from admmnet.transport.local import LocalTransport

JOINING: dict[str, Any] = {"split": "sizes:16:1:16:1:18", "gate_threshold": 0.25}
GATES: dict[str, dict[str, Any]] = {
    "joining": JOINING,
    "nobody is asked": {**JOINING, "gate_threshold": "auto", "epsilon": 0.05},
    "an agent is away": {**JOINING, "offline": "0:2-3,1:1"},
    "ball": {"gate": "gaussian", "max_releases": 3},
    "published": {"method": "published", "max_releases": 3},
}


@pytest.mark.parametrize("name", GATES)
def test_the_gate_s_counts_are_those_of_what_was_sent_and_of_ledgers(
    name: str, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, exchange = defaultdict[int, list[bool]](list), LocalTransport.exchange

    def noting(own: LocalTransport, outgoing: Outgoing, round: int) -> Inbox:
        for i, vector in outgoing.items():
            sent[i].append(vector is not None)
        return exchange(own, outgoing, round)

    monkeypatch.setattr(LocalTransport, "exchange", noting)
    common: dict[str, Any] = {"data": people, "topology": "ring:5", "rounds": 6, "epsilon": 20.0, "seed": 3}
    settings = {"algorithm": "ipp-admm", **common, **GATES[name]}
    result = run(RunConfig(**settings, out=str(tmp_path / "run")))
    gate, entries, read = result.summary["gate"], result.summary["per_agent"], read_run(result.folder)
    counts = [(sum(sent[i]), len(sent[i]) - sum(sent[i])) for i in range(5)]
    if name == "an agent is away":
        assert gate["broadcasts"] == 5 * 6 - 3
    else:
        assert [(one["releases"], one["silent"]) for one in entries] == counts
    assert gate["saved"] == sum(one["silent"] for one in entries)
    assert gate["broadcasts"] == gate["saved"] + sum(said for said, _ in counts)
    assert (gate["asked"], gate["yes"]) == tuple(sum(one[key] for one in entries) for key in ("asked", "yes"))
    line = gate_line(read.summary)  # type: ignore[arg-type]
    assert f"gate:       {line}\n" in run_text(result.summary, result.folder)
    if name == "joining":
        assert gate["asked"] > gate["yes"] > 0
        assert f"asked {gate['asked']}, yes {gate['yes']}, saved {gate['saved']} broadcasts of 30 (3 of 5 " in str(line)
        questions = []
        for ledger in read.ledgers.values():
            rounds = {round for round, event, _ in ledger.events if not isinstance(event, Gaussian | NoRecords)}
            alone = [event for round, event, _ in ledger.events if round not in rounds and isinstance(event, Gaussian)]
            questions.append(len(alone))
        assert questions == [one["asked"] - one["yes"] for one in entries]  # a yes is charged in the round of a release


def test_without_a_gate_there_is_no_line_and_equal_shards_ask_nothing(people: str, tmp_path: Path) -> None:
    kinds: dict[str, Any] = {"off": {"gate": "off"}, "pp": {"algorithm": "pp-admm"}, "equal": {"split": "iid"}}
    for name, settings in kinds.items():
        result = run(RunConfig(data=people, rounds=2, seed=3, **settings, out=str(tmp_path / name)))
        assert ("gate" in result.summary) is ("asked" in result.summary["per_agent"][0]) is (name == "equal")
        said = run_text(result.summary, result.folder)
        assert ("asked 0, agents of near-equal size all speak" in said) is ("gate:" in said) is (name == "equal")


@pytest.mark.parametrize(
    ("settings", "agents", "split"),
    [
        ({}, 5, "zipf:1.5"),
        ({}, 100, "zipf:1.5"),
        ({}, 101, "iid"),
        ({}, 1, "iid"),
        ({"test_fraction": 0.98}, 5, "iid"),
        ({"data": "adult"}, 5, "iid"),
        ({"split": "zipf:1"}, 5, "zipf:1"),
    ],
)
def test_which_split_is_taken(settings: dict[str, Any], agents: int, split: str) -> None:
    assert split_of(DataSettings(**settings), agents) == split
