"""Run folders as arrays: equal to metrics.csv and the ledgers, whatever kind of folder it is."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from admmnet.errors import CheckFailed, RequestError
from admmnet.report.page import make_report
from admmnet.report.panels import panel
from admmnet.report.series import RunSeries, joining, read_series
from tests.people_runs import seal
from tests.run_folders import ROUNDS, made, part_of, unfinished, with_away


@pytest.fixture(scope="module")
def gated(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gated") / "run"
    return made(folder, data=people, algorithm="ipp-admm", method="published", rounds=8, max_releases=3)


def test_figures_are_those_of_the_file(seeded: Path) -> None:
    run = read_series(seeded)
    with (seeded / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert run.rounds.tolist() == list(range(ROUNDS))
    assert len(rows) == ROUNDS * 6
    for row in rows:
        t, agent = int(row["round"]), int(row["agent"])
        for name in row.keys() - {"round", "agent"}:
            column = (run.network if agent < 0 else run.agents)[name]
            assert column[(t,) if agent < 0 else (t, agent)] == float(row[name])
    assert (run.size, run.algorithm, run.private, run.seeded, run.baseline, run.metric) == (
        (5, "pp-admm", True, True, False, "error")
    )  # fmt: skip
    assert run.edges == ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))


def test_odometers_end_where_the_summary_says(gated: Path) -> None:
    run = read_series(gated)
    assert run.summary is not None
    assert run.summary["per_agent"]
    for entry in run.summary["per_agent"]:
        assert run.epsilon_spent[-1, entry["agent"]] == entry["epsilon_spent"]
        assert run.epsilon_published[-1, entry["agent"]] == entry["epsilon_published"]
        assert run.targets[entry["agent"]] == entry["epsilon_target"]
    assert (np.diff(run.epsilon_spent, axis=0) >= 0.0).all()
    for account in run.ledgers:
        for round_, _, line in account.events:
            assert run.epsilon_spent[round_, account.header["agent"]] >= line["total"]["epsilon_spent"]
    assert sum(len(account.events) for account in run.ledgers) > 0


def test_lines_go_through_the_rounds_that_were_measured(people: str, tmp_path: Path) -> None:
    whole = read_series(made(tmp_path / "whole", data=people, rounds=8))
    run = read_series(made(tmp_path / "some", data=people, rounds=8, measure_every=4))
    assert run.rounds.tolist() == list(range(8))
    error = panel("error", [run]).curves[0]
    assert list(error.x) == [0, 4, 7]
    assert list(error.y) == (100.0 * whole.network["test_error"][[0, 4, 7]]).tolist()


def test_an_absent_agent_neither_spends_nor_speaks(people: str, tmp_path: Path) -> None:
    whole = made(tmp_path / "whole", data=people, offline="3:1-2,4:4-")
    run = read_series(whole)
    assert np.diff(run.agents["releases"], axis=0, prepend=0).tolist() == [
        [float(not ((agent == 3 and t in (1, 2)) or (agent == 4 and t >= 4))) for agent in range(5)] for t in range(6)
    ]
    run = read_series(with_away(whole, tmp_path / "away", agent=1, round=3))
    assert sum(not ledger.finished for ledger in run.ledgers) == 1
    assert run.epsilon_spent[2, 1] == run.epsilon_spent[5, 1] < run.epsilon_spent[5, 0]


def test_who_is_core_who_joined_and_who_only_listened(tmp_path: Path) -> None:
    """The core is 1, 3, 6 on a path: 2, 4 and 5 pass on what they hear until they join."""
    names, found = ("never", "joined"), dict[str, RunSeries]()
    for name, threshold in zip(names, (0.999, -1.0), strict=True):
        gate = {"algorithm": "ipp-admm", "gate_threshold": threshold, "epsilon": 40.0}
        sizes = {"split": "sizes:1:12:1:13:1:1:12:1", "topology": "path:8"}
        found[name] = read_series(made(tmp_path / name, **gate, **sizes))
    never, joined = (found[name].agents["releases"] for name in names)
    assert (never[-1] > 0).tolist() == [False, *[True] * 6, False]
    assert (joined[-1] > 0).all()
    assert joined[0].tolist() == never[0].tolist()
    words = []
    for run in found.values():
        assert run.summary is not None
        words.append(joining(run.summary.per_agent))
    at, passed, heard = "from round 1", "relay", "listened"
    assert words[0] == dict(enumerate([heard, "core", passed, "core", passed, passed, "core", heard]))
    assert words[1] == dict(enumerate([at, "core", at, "core", at, at, "core", at]))
    assert run.summary is not None
    joined_at, core, *_ = run.summary.per_agent
    unset = replace(core, joined_at=UNSET)
    assert joining([core, core]) == joining([unset]) == {}
    assert joining([core, joined_at, replace(joined_at, agent=2, rho_proven=None)]).keys() == {0, 1}
    page = make_report([tmp_path / "never"]).html
    assert page.count(passed) >= 3
    assert page.count(heard) >= 2


def test_an_unfinished_run_keeps_its_charges_and_drops_half_a_round(seeded: Path, tmp_path: Path) -> None:
    run = read_series(unfinished(seeded, tmp_path / "run", rounds=3, agents=5))
    whole = read_series(seeded)
    assert run.summary is None
    assert run.rounds.tolist() == [0, 1, 2, 3]
    assert (run.agents["test_error"][:3] == whole.agents["test_error"][:3]).all()
    assert np.isnan(run.agents["test_error"][3]).all()
    assert (run.epsilon_spent == whole.epsilon_spent[:4]).all()
    assert sum(not ledger.finished for ledger in run.ledgers) == 5


def test_a_run_that_died_before_its_first_round(seeded: Path, tmp_path: Path) -> None:
    folder = unfinished(seeded, tmp_path / "run", rounds=0, agents=5)
    for text in ("round,agent,test_e", None):
        if text is None:
            (folder / "metrics.csv").unlink()
        else:
            (folder / "metrics.csv").write_text(text, encoding="utf-8")
        run = read_series(folder)
        assert run.rounds.tolist() == [0]  # its charges
        assert np.isnan(run.network["test_error"]).all()


def test_one_agents_part_knows_its_own_odometer(gated: Path, tmp_path: Path) -> None:
    run, whole = read_series(part_of(gated, tmp_path / "run", agent=3, agents=5)), read_series(gated)
    assert (run.part, run.size, run.edges) == (3, 5, None)
    assert (run.epsilon_spent[:, 3] == whole.epsilon_spent[:, 3]).all()
    assert np.isnan(np.delete(run.epsilon_spent, 3, axis=1)).all()


def test_private_runs_open_ones_and_baselines(people: str, tmp_path: Path) -> None:
    private = read_series(made(tmp_path / "private", data=people, seed=None))
    assert {"train_loss", "consensus_gap"}.isdisjoint(private.network)
    assert (private.seeded, private.private) == (False, True)
    plain = read_series(made(tmp_path / "open", data=people, algorithm="admm", epsilon=None))
    assert not plain.private
    assert np.isnan(plain.epsilon_spent).all()
    assert np.isnan(plain.targets).all()
    baseline = {"topology": None, "rounds": None, "epsilon": None, "epochs": 3}
    run = read_series(made(tmp_path / "baseline", data=people, algorithm="sgd", **baseline))
    assert (run.size, run.baseline, run.edges, run.private) == (1, True, None, False)
    assert run.rounds.tolist() == [0, 1, 2]


def test_damage_is_named(seeded: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is no run folder"):
        read_series(tmp_path)
    folder = part_of(seeded, tmp_path / "run", agent=0, agents=5)
    path = folder / "metrics.csv"
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for content, message in (
        (text.replace("round,agent", "agent,round"), "not the network and agents 0 to 4"),
        ("".join([*lines[:1], *lines[1:7][::-1], *lines[7:]]), "not the network and agents 0 to 4"),
        ("".join([lines[0], *lines[7:13], *lines[1:7], *lines[13:]]), "of every round in order"),
        (text.replace("\n0,2,", "\n0,2,x"), "cannot be read as figures"),
    ):
        path.write_text(content, encoding="utf-8")
        seal(folder)
        with pytest.raises(CheckFailed, match=message):
            read_series(folder)
    ledger = folder / "ledger" / "agent-000.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"round":2', b'"round":1', 1))
    with pytest.raises(CheckFailed, match=r"agent-000\.jsonl: line"):
        read_series(folder)
