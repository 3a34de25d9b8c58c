"""Run folders as arrays: equal to metrics.csv and the ledgers, whatever kind of folder it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from admmnet.errors import CheckFailed, RequestError
from admmnet.report.page import make_report
from admmnet.report.run_plot import panel
from admmnet.report.series import joining, read_series
from tests.people_runs import rows, seal
from tests.run_folders import ROUNDS, made, part_of, unfinished

from .conftest import RUNS


def test_figures_are_those_of_the_file(seeded: Path) -> None:
    run, lines = read_series(seeded), rows(seeded)
    assert run.rounds.tolist() == list(range(ROUNDS))
    assert len(lines) == ROUNDS * 6
    for row in lines:
        t, agent = int(row["round"]), int(row["agent"])
        for name in row.keys() - {"round", "agent"}:
            column = (run.network if agent < 0 else run.agents)[name]
            assert column[(t,) if agent < 0 else (t, agent)] == float(row[name])
    assert (run.size, run.private, run.baseline, run.metric) == (5, True, False, "error")
    assert run.edges == ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))


def test_odometers_end_where_the_summary_says(folders: dict[str, Path]) -> None:
    run = read_series(folders["published"])
    assert run.summary is not None
    assert run.summary.per_agent
    for entry in run.summary.per_agent:
        assert run.epsilon_spent[-1, entry.agent] == entry.epsilon_spent
        assert run.epsilon_published[-1, entry.agent] == entry.epsilon_published
        assert run.targets[entry.agent] == entry.epsilon_target
    assert (np.diff(run.epsilon_spent, axis=0) >= 0.0).all()
    for account in run.ledgers.values():
        for round_, _, line in account.events:
            assert run.epsilon_spent[round_, account.header["agent"]] >= line["total"]["epsilon_spent"]
    assert sum(len(account.events) for account in run.ledgers.values()) > 0


def test_lines_go_through_the_rounds_that_were_measured(seeded: Path, tmp_path: Path) -> None:
    whole, data = read_series(seeded), str(seeded.parent / "people.npz")
    run = read_series(made(tmp_path / "some", data=data, measure_every=3, **RUNS["seeded"]))
    assert run.rounds.tolist() == list(range(ROUNDS))
    error = panel("error", [run]).curves[0]
    assert list(error.x) == [0, 3, 5]
    assert list(error.y) == (100.0 * whole.network["test_error"][[0, 3, 5]]).tolist()


def test_an_absent_agent_neither_spends_nor_speaks(folders: dict[str, Path]) -> None:
    run = read_series(folders["seeded"])
    assert np.diff(run.agents["releases"], axis=0, prepend=0).tolist() == [
        [float(not ((agent == 3 and t in (1, 2)) or (agent == 4 and t >= 4))) for agent in range(5)] for t in range(6)
    ]
    run = read_series(folders["away"])
    assert sum(not ledger.finished for ledger in run.ledgers.values()) == 1
    assert run.epsilon_spent[2, 1] == run.epsilon_spent[5, 1] < run.epsilon_spent[5, 0]


def test_who_is_core_who_joined_and_who_only_listened(tmp_path: Path) -> None:
    """The core is 1, 3, 6 on a path: 2, 4 and 5 pass on what they hear until they join."""
    sizes = {"split": "sizes:1:12:1:13:1:1:12:1", "topology": "path:8", "algorithm": "ipp-admm", "epsilon": 40.0}
    thresholds = {"never": 0.999, "joined": -1.0}
    never, joined = (read_series(made(tmp_path / k, gate_threshold=v, **sizes)) for k, v in thresholds.items())
    assert (never.agents["releases"][-1] > 0).tolist() == [False, *[True] * 6, False]
    assert (joined.agents["releases"][-1] > 0).all()
    assert joined.agents["releases"][0].tolist() == never.agents["releases"][0].tolist()
    assert never.summary is not None
    assert joined.summary is not None
    at, passed, heard = "from round 1", "relay", "listened"
    words = [heard, "core", passed, "core", passed, passed, "core", heard]
    assert joining(never.summary.per_agent) == dict(enumerate(words))
    assert joining(joined.summary.per_agent) == dict(enumerate([at, "core", at, "core", at, at, "core", at]))
    joined_at, core, *_ = joined.summary.per_agent
    unset = replace(core, joined_at=UNSET)
    assert joining([core, core]) == joining([unset]) == {}
    assert joining([core, joined_at, replace(joined_at, agent=2, rho_proven=None)]).keys() == {0, 1}
    page = make_report([tmp_path / "never"]).html
    assert page.count(passed) >= 3
    assert page.count(heard) >= 2


def test_an_unfinished_run_keeps_its_charges_and_drops_half_a_round(folders: dict[str, Path]) -> None:
    run, whole = read_series(folders["unfinished"]), read_series(folders["seeded"])
    assert run.summary is None
    assert run.rounds.tolist() == [0, 1, 2, 3]
    assert (run.agents["test_error"][:3] == whole.agents["test_error"][:3]).all()
    assert np.isnan(run.agents["test_error"][3]).all()
    assert (run.epsilon_spent == whole.epsilon_spent[:4]).all()
    assert sum(not ledger.finished for ledger in run.ledgers.values()) == 5


def test_a_run_that_died_before_its_first_round(seeded: Path, tmp_path: Path) -> None:
    folder = unfinished(seeded, tmp_path / "run", rounds=0, agents=5)
    figures = folder / "metrics.csv"
    for cut in (lambda: figures.write_text("round,agent,test_e"), figures.unlink):
        cut()
        run = read_series(folder)
        assert run.rounds.tolist() == [0]  # its charges
        assert np.isnan(run.network["test_error"]).all()


def test_private_runs_open_ones_baselines_and_the_part_of_an_agent(folders: dict[str, Path]) -> None:
    private, plain, run = (read_series(folders[kind]) for kind in ("private", "open", "baseline"))
    assert {"train_loss", "consensus_gap"}.isdisjoint(private.network)
    assert (private.private, plain.private) == (True, False)
    assert np.isnan(plain.epsilon_spent).all()
    assert np.isnan(plain.targets).all()
    assert (run.size, run.baseline, run.edges) == (1, True, None)
    assert run.rounds.tolist() == [0, 1, 2]
    part, whole = read_series(folders["part"]), read_series(folders["published"])
    assert part.part is not None
    assert (part.part.agent, part.size, part.edges) == (2, 5, None)
    assert (part.epsilon_spent[:, 2] == whole.epsilon_spent[:, 2]).all()
    assert np.isnan(np.delete(part.epsilon_spent, 2, axis=1)).all()


def test_damage_is_named(seeded: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is no run folder"):
        read_series(tmp_path)
    folder = part_of(seeded, tmp_path / "run", agent=0, agents=5)
    path = folder / "metrics.csv"
    head, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for content, message in (
        ([head.replace("round,agent", "agent,round"), *lines], "not the network and agents 0 to 4"),
        ([head, *lines[:6][::-1], *lines[6:]], "not the network and agents 0 to 4"),
        ([head, *lines[6:12], *lines[:6], *lines[12:]], "of every round in order"),
        ([head, *lines[:3], lines[3].replace("0,2,", "0,2,x", 1), *lines[4:]], "cannot be read as figures"),
    ):
        path.write_text("".join(content), encoding="utf-8")
        seal(folder)
        with pytest.raises(CheckFailed, match=message):
            read_series(folder)
    ledger = folder / "ledger" / "agent-000.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"round":2', b'"round":1', 1))
    with pytest.raises(CheckFailed, match=r"agent-000\.jsonl: line"):
        read_series(folder)
