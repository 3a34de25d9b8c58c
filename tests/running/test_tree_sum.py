"""A method from outside whose agents sum along a tree: what runs, checkpoints and faults make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet.errors import RunError
from admmnet.graph.tree import spanning_tree
from admmnet.privacy.ledger.file import Ledger
from tests.interrupted_runs import Place, assert_same
from tests.people_runs import summary_of
from tests.tree_sum import TreeSum

TREE = {"algorithm": "tests.tree_sum:TreeSum"}


def theta_of(folder: Path) -> Any:
    with np.load(folder / "model.npz") as model:
        return model["theta"]


def rows_of(folder: Path) -> Any:
    return np.genfromtxt(folder / "metrics.csv", delimiter=",", names=True)


def test_every_agent_holds_the_same_model_and_bytes_are_counted(place: Place) -> None:
    folder = place.whole("run", **TREE, topology="star:5", epsilon=50.0)
    theta = theta_of(folder)
    assert np.isfinite(theta).all()
    assert (theta == theta[0]).all()
    assert np.abs(theta[0]).max() > 0.1
    summary = summary_of(folder)
    width = theta.shape[1]
    assert summary["bytes_sent"] == 7 * 2 * (5 - 1) * 8 * width  # rounds, messages, bytes a number
    rows = rows_of(folder)
    sent = {int(r["agent"]): r["bytes_sent"] for r in rows[rows["round"] == 6]}
    assert sent[0] == 7 * 4 * 8 * width  # the hub: down to four
    assert sent[1] == sent[4] == 7 * 8 * width
    assert summary["test_error"]["consensus"] < 0.4
    assert all(agent["releases"] == 7 for agent in summary["per_agent"])


@pytest.mark.parametrize(("seed", "faults"), [(3, {"drop": 0.4, "offline": "1:3-4"}), (None, {"offline": "1:3-4"})])
def test_an_interrupted_run_goes_on(seed: int | None, faults: dict[str, Any], place: Place) -> None:
    settings = TREE | faults | {"topology": "path:4", "seed": seed}
    folder = place.interrupted("cut", 4, **settings)
    place.resume(folder)
    summary = summary_of(folder)
    assert summary["rounds"] == 7
    assert (theta_of(folder) == theta_of(folder)[0]).all()
    if seed is not None:
        assert_same(place.whole("whole", **settings), folder)


def test_lost_messages_are_repeated_and_change_nothing_but_bytes(place: Place) -> None:
    plain, lossy = place.whole("plain", **TREE), place.whole("lossy", **TREE, drop=0.5)
    assert (theta_of(plain) == theta_of(lossy)).all()
    place.whole("again", **TREE, drop=0.5)
    one, two = summary_of(plain)["bytes_sent"], summary_of(lossy)["bytes_sent"]
    assert 1.4 * one < two < 3.0 * one  # each message is sent twice on average: 42 of them
    assert summary_of(place.folder / "again")["bytes_sent"] == two


@pytest.mark.parametrize(("faults", "missed"), [({"offline": "2:1-3"}, 3), ({"offline": "0:5-"}, 2)])
def test_sums_go_on_without_who_is_away(faults: dict[str, Any], missed: int, place: Place) -> None:
    folder = place.whole("run", **TREE, **faults)
    releases = [agent["releases"] for agent in summary_of(folder)["per_agent"]]
    away = int(faults["offline"][0])
    assert releases == [7 - missed if i == away else 7 for i in range(4)]
    assert not any("void" in note for note in summary_of(folder)["notes"])
    assert (theta_of(folder) == theta_of(folder)[0]).all()
    width = theta_of(folder).shape[1]
    assert summary_of(folder)["bytes_sent"] == ((7 - missed) * 6 + missed * 4) * 8 * width


def test_a_round_whose_graph_falls_apart_is_void(place: Place) -> None:
    schedule = place.folder / "turns.txt"
    schedule.write_text("0-1 ring:4\n2 edges 0-1 2-3\n3 none\n4- path:4\n")
    folder = place.whole("run", **TREE, topology=None, topology_schedule=str(schedule))
    assert any("2 of 7 rounds were void, round 2 first" in note for note in summary_of(folder)["notes"])
    rows = rows_of(folder)
    network = rows[rows["agent"] == -1]
    assert network["bytes_sent"][1] == network["bytes_sent"][3] < network["bytes_sent"][4]


def test_a_vector_of_another_length_than_the_method_says_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TreeSum, "sum_size", 3)
    with pytest.raises(
        RunError, match=r"propose: returns int64 of shape \(4, 4\): it must be .* int64 of shape \(4, 3\)"
    ):
        place.whole("run", **TREE)


def test_a_refused_agent_is_left_out_of_the_sum(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    affords = Ledger.affords

    def stingy(self: Ledger, events: Any) -> bool:
        return affords(self, events) and not (self.path.name == "agent-002.jsonl" and self.events >= 3)

    state: Any = Ledger.state.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Ledger, "affords", stingy)
    monkeypatch.setattr(Ledger, "state", property(lambda ledger: (state(ledger), ledger.path.name)))  # asked by itself
    folder = place.whole("run", **TREE)
    theta = theta_of(folder)
    assert (theta == theta[0]).all()
    assert [agent["releases"] for agent in summary_of(folder)["per_agent"]] == [7, 7, 3, 7]
    # below whom nobody speaks, nothing goes up
    tree = spanning_tree(nx.cycle_graph(4))
    assert tree is not None
    up = 4 if tree.children[2] == 0 and tree.root != 2 else 0
    assert summary_of(folder)["bytes_sent"] == (7 * 6 - up) * 8 * theta.shape[1]
