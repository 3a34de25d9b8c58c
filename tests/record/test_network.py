"""The network ledger of a run: figures, both sentences, dashes with their reasons; and what --show end leaves out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet import RunConfig, run
from admmnet.config.toml import to_toml
from admmnet.methods.dp_dsgd import DPDSGD
from admmnet.privacy.network.shifts import MOST_SETS
from admmnet.record.network import WORK, find, network_fault, network_of
from admmnet.record.reader import read_run
from admmnet.transport import Transport
from admmnet.types import Matrix
from tests.command_runs import Admmnet
from tests.interrupted_runs import Place
from tests.people_runs import rows, summary_of, theta_of

COMMON: dict[str, Any] = {"topology": "path:6", "rounds": 5, "epsilon": 2.0, "delta": 1e-4, "seed": 2, "show": "end"}
GOSSIP: dict[str, Any] = {"algorithm": "dp-dsgd", "mixing": "network", "loss": "logistic"}
SUMS: dict[str, Any] = {"algorithm": "noisy-gd", "loss": "logistic"}


def played(people: str, out: Path, **settings: Any) -> Path:
    return run(RunConfig(data=people, **COMMON | settings, out=str(out))).folder


class Leaking(DPDSGD):
    """Says of its messages what those of its base are."""

    name = "leaking"


@pytest.fixture(scope="module")
def gossip(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(people, tmp_path_factory.mktemp("gossip") / "run", **GOSSIP)


@pytest.fixture(scope="module")
def sums(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(people, tmp_path_factory.mktemp("sums") / "run", **SUMS, topology="grid:2x3")


def test_both_sentences_and_every_pair(gossip: Path, admmnet: Admmnet) -> None:
    said = admmnet.ok("ledger", "network", gossip).out
    assert said.startswith("mode:       simulation, seed 2: ")
    for line in ("everybody: +epsilon 2", "epsilon neighbours: +2", "epsilon strangers: +[0-9.]+", "sets: +6"):
        assert re.search(rf"^{line}$", said, re.MULTILINE), line
    assert "needs encrypted links and --show end; in this simulation, as if links were encrypted" in said
    assert "budgets and verdicts use the epsilon of everybody together" in said.splitlines()[-1]
    facts = admmnet.json("ledger", "network", gossip, "--colluders", 2)
    assert (facts["sets"], facts["all_sets"], facts["everybody"]["epsilon"]) == (15, True, pytest.approx(2.0, rel=1e-6))
    assert len(facts["pairs"]) == 15 * 4
    for pair in facts["pairs"]:
        near = any(abs(pair["agent"] - i) == 1 for i in pair["observers"])
        assert (pair["distance"] == 1) is near is (pair["epsilon"] == pytest.approx(2.0, rel=1e-5))
        assert pair["mu_linear"] <= pair["mu"]
    alone = admmnet.json("ledger", "network", gossip, "--observers", "5")["pairs"]
    assert {tuple(pair["observers"]) for pair in alone} == {(5,)}
    assert {pair["agent"] for pair in alone} == {0, 1, 2, 3, 4}
    for wrong in (("--colluders", 0), ("--colluders", 6), ("--observers", "0:9"), ("--observers", "x")):
        assert wrong[0] in admmnet.refused("ledger", "network", gossip, *wrong)


@pytest.mark.parametrize("name", ["gossip", "sums"])
def test_the_summary_has_the_figures_of_one_agent_alone(name: str, request: pytest.FixtureRequest) -> None:
    read = read_run(request.getfixturevalue(name))
    assert read.summary is not None
    said, network = read.summary.privacy.network, network_of(read)
    assert said is not None
    assert not isinstance(network, str)
    found, _ = find(network, 1)
    assert (said.sets, said.of, said.colluders) == (6, 6, 1)
    assert said.epsilon_worst == pytest.approx(max(one.epsilon for one in found), rel=1e-9)
    assert (tuple(said.observers), said.agent) in {(one.observers, one.agent) for one in found}
    assert network.affords(WORK) > MOST_SETS
    assert network_fault(read) is None
    for factor, fault in ((0.9999, True), (1.0 - 1e-12, False), (1.0009, False), (1.0011, True)):
        for figure in ("epsilon_worst", "epsilon_mean"):
            other = structs.replace(said, **{figure: factor * getattr(said, figure)})
            privacy = structs.replace(read.summary.privacy, network=other)
            edited = replace(read, summary=structs.replace(read.summary, privacy=privacy))
            assert (f"privacy.network.{figure} is" in str(network_fault(edited))) is fault
    unproven = structs.replace(read.summary, privacy=structs.replace(read.summary.privacy, epsilon_spent=None))
    assert "by the ledgers there is none" in str(network_fault(replace(read, summary=unproven)))


def test_with_show_end_nobody_s_own_vector_is_collected(
    gossip: Path, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths, collect = list[int](), Transport.collect

    def noted(self: Transport, given: Matrix) -> Matrix:
        widths.append(given.shape[1])
        return collect(self, given)

    monkeypatch.setattr(Transport, "collect", noted)
    folder = played(people, tmp_path / "run", **GOSSIP)
    assert set(widths) == {3}  # releases, bytes and epsilon spent
    lines = rows(folder)
    assert [(row["round"], row["agent"]) for row in lines] == [("4", str(i)) for i in range(-1, 6)]
    assert "train_loss" not in lines[0]
    summary = summary_of(folder)
    errors = {summary["test_error"]["consensus"], *(one["test_error"] for one in summary["per_agent"])}
    assert errors == {float(lines[0]["test_error"])}
    assert (summary["far_from_others"], summary.get("train_loss")) == ({}, None)
    shown = played(people, tmp_path / "shown", **GOSSIP, show="rounds")
    assert summary_of(shown)["privacy"].get("network") is None
    theta = theta_of(folder)
    assert (theta == theta[0]).all()
    assert theta[0].any()
    with np.load(shown / "model.npz") as model:
        assert (model["consensus"] == theta[0]).all()


def test_sums_along_a_tree_have_the_numbers_of_the_ledgers(sums: Path) -> None:
    """Of which privacy/test_network_gossip.py makes figures by Theorem N1."""
    read = read_run(sums)
    network: Any = network_of(read)
    events: list[list[Any]] = [[event for _, event, _ in own.events] for own in read.ledgers.values()]
    assert network.flow.moved.T.tolist() == [[event.sensitivity for event in own] for own in events]
    assert network.flow.noise.T.tolist() == [[event.sigma for event in own] for own in events]
    assert (network.flow.moved.shape, network.flow.dimension) == ((5, 6), 5)
    found, _ = find(network, 1)
    assert len(found) == 30
    assert min(one.share for one in found) < 0.5


DASHES: dict[str, dict[str, Any]] = {
    "run with --show end": {**GOSSIP, "show": "rounds"},
    "run with --mixing network": {**GOSSIP, "mixing": "plain"},
    "simulated trouble": {**GOSSIP, "drop": 0.2},
    "no theorem on neighbours alone covers the messages of pp-admm": {"algorithm": "pp-admm"},
    "is not ours": {**GOSSIP, "algorithm": "tests.record.test_network:Leaking"},
    "masked sums": {**SUMS, "trust": "masked", "colluders": 1},
}


def test_what_no_theorem_speaks_of_is_a_dash(gossip: Path, people: str, tmp_path: Path) -> None:
    read = read_run(gossip)
    summary = read.summary
    assert summary is not None

    def reason(events: slice = slice(None), header: dict[str, Any] | None = None, **changes: Any) -> str:
        books = {
            name: replace(own, events=own.events[events], header=own.header | (header or {}))
            for name, own in read.ledgers.items()
        }
        return str(network_of(replace(read, ledgers=books, summary=structs.replace(summary, **changes))))

    for told, settings in DASHES.items():
        (tmp_path / "config.toml").write_text(to_toml(RunConfig(data=people, **COMMON | settings)))
        assert told in str(network_of(replace(read, path=tmp_path)))
    unproven = structs.replace(summary.privacy, epsilon_spent=None)
    assert "nothing is proven of this run" in reason(privacy=unproven)
    assert "took no part in some rounds" in reason(away={"3": ["1-2"]})
    assert "MPI sends in clear" in reason(transport="mpi")
    assert "ZeroMQ without keys" in reason(transport="zmq")
    assert "the loss comes from elsewhere" in reason(header={"loss": "others:Theirs"})
    assert "its rounds are not T equal ones" in reason(slice(-1))
    assert "sums before the first round" in reason(header={"stages": ["whiten"]})
    assert not isinstance(network_of(replace(read, summary=structs.replace(summary, encrypted=True))), str)


def test_an_interruption_and_a_journal_have_no_figure(place: Place, admmnet: Admmnet) -> None:
    """No theorem speaks of several starts; and hashes in a journal tell what messages leave out."""
    how: dict[str, Any] = {"algorithm": "noisy-gd", "show": "end", "answer": "average", "seed": None, "private": True}
    folder = place.resume(place.interrupted("cut", 2, **how))
    assert "went on after an interruption" in str(network_of(read_run(folder)))
    whole = place.whole("whole", **how)
    assert summary_of(whole)["privacy"].get("network") is None, "agents of one process have one memory"
    assert "interruption" not in str(network_of(read_run(whole)))
    (whole / "journal.bin").touch()
    said = admmnet.ok("ledger", "network", whole).out
    assert re.search(r"^network: +-$", said, re.MULTILINE)
    assert "a journal lies in" in said
    assert admmnet.json("ledger", "network", whole)["network"] is None
