from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, RunError, read_run, run
from admmnet.cli import run_command_line
from admmnet.data import DataSettings, load
from admmnet.privacy.events import ObjectivePerturbation
from admmnet.solvers.losses import get_loss
from admmnet.transport import Inbox, Outgoing, Transport
from admmnet.transport.local import LocalTransport, LocalWorld
from admmnet.types import Matrix

PRIVATE = ("pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm")


class Watched(LocalTransport):
    def __init__(self, world: WatchedWorld, graph: nx.Graph) -> None:
        super().__init__(world, graph)
        self._watch = world.watch

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        self._watch(round)
        return super().exchange(outgoing, round)


class WatchedWorld(LocalWorld):
    """One process; somebody looks around before anything is sent."""

    def __init__(self, watch: Callable[[int], None]) -> None:
        self.watch = watch

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        return Watched(self, graph)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    stream = np.random.default_rng(2)
    X = stream.standard_normal((200, 4))
    path = tmp_path_factory.mktemp("data") / "people.npz"
    np.savez(path, X=X, y=np.where(X[:, 0] + 0.3 * stream.standard_normal(200) > 0, 1, -1))
    return str(path)


def settings(people: str, folder: Path, **others: Any) -> RunConfig:
    values: dict[str, Any] = {
        "algorithm": "pp-admm",
        "method": "published",
        "topology": "ring:5",
        "rounds": 3,
        "delta": 1e-4,
    } | others
    if values.get("seed") is None:
        values |= {"no_test": True, "no_account": True}
    return RunConfig(data=people, out=str(folder), **values)


def headers(folder: Path) -> list[dict[str, Any]]:
    return [account.header for account in read_run(folder).ledgers.values()]


def test_the_result_is_what_the_folder_holds(people: str, tmp_path: Path) -> None:
    seen: list[Any] = []
    result = run(
        settings(people, tmp_path / "run", seed=1),
        on_start=lambda plan: seen.append(len(plan.graph)),
        on_round=lambda round, error: seen.append((round, error)),
    )
    assert result.folder == tmp_path / "run"
    assert result.summary == json.loads((result.folder / "summary.json").read_text())
    with np.load(result.folder / "model.npz") as archive:
        assert archive["theta"].tobytes() == result.theta.tobytes()
    assert seen[0] == 5
    assert [round for round, _ in seen[1:]] == [0, 1, 2]
    assert seen[-1][1] == result.summary["test_error"]["consensus"]


def test_a_seed_repeats_a_run_and_privacy_does_not(people: str, tmp_path: Path) -> None:
    def theta(name: str, seed: int | None) -> Matrix:
        return run(settings(people, tmp_path / name, seed=seed)).theta

    one = theta("one", 1)
    assert theta("again", 1).tobytes() == one.tobytes()
    assert (theta("two", 2) != one).all()
    first, second = theta("private", None), theta("private again", None)
    assert (first != second).all()
    assert {header["noise"] for header in headers(tmp_path / "one")} == {"seeded"}
    assert {header["noise"] for header in headers(tmp_path / "private")} == {"private"}


NO_WORDS = ("--no-test", "--no-account")


def figures_of_records(folder: Path, people: str, *, no_test: bool = True) -> list[float]:
    """What a private run must not tell: losses of the released vectors on the training records."""
    with np.load(folder / "model.npz") as archive:
        theta, consensus = archive["theta"], archive["consensus"]
    shards = load(DataSettings(data=people, no_test=no_test), 5, range(5)).shards
    loss = get_loss("logistic")
    told = [float(loss.value(X @ v, y).mean()) for i, (X, y) in shards.items() for v in (theta[i], consensus)]
    all_X, all_y = (np.concatenate([shard[k] for shard in shards.values()]) for k in (0, 1))
    return [*told, float(loss.value(all_X @ consensus, all_y).mean())]


def everything_told(folder: Path, people: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    common = ("run", "--data", people, "--method", "published", "--topology", "ring:5", "--rounds", "3")
    assert run_command_line([*common, *words, "-o", str(folder)]) == 0
    printed = capsys.readouterr()
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".npz")
    return "\n".join([printed.out, printed.err, *(path.read_text() for path in files)])


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys_of(item) for item in value.values()))
    return set().union(*(keys_of(item) for item in value)) if isinstance(value, list) else set()


FORBIDDEN = {"train_loss", "objective", "consensus_gap", "solve"}


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_private_runs_tell_nothing_computed_from_records(
    algorithm: str, people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--algorithm", algorithm, "--epsilon", "1e4")
    told = everything_told(tmp_path / "private", people, capsys, *words, *NO_WORDS)
    for figure in figures_of_records(tmp_path / "private", people):
        assert f"{figure:.10f}"[:10] not in told
    summary = json.loads((tmp_path / "private" / "summary.json").read_text())
    assert keys_of(summary) & FORBIDDEN == set()
    columns = (tmp_path / "private" / "metrics.csv").read_text().splitlines()[0].split(",")
    assert columns == ["round", "agent", "test_error", "releases", "bytes_sent"]
    files = {path.name for path in (tmp_path / "private").iterdir()}
    assert files <= {"config.toml", "summary.json", "metrics.csv", "model.npz", "ledger", "checkpoint"}

    # the same search finds them where they may stand
    told = everything_told(tmp_path / "seeded", people, capsys, *words, "--seed", "1")
    assert f"{figures_of_records(tmp_path / 'seeded', people, no_test=False)[-1]:.10f}"[:10] in told
    assert keys_of(json.loads((tmp_path / "seeded" / "summary.json").read_text())) >= {"train_loss", "solve"}


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_charges_are_on_the_disk_before_anything_is_sent(
    algorithm: str, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    rounds: list[int] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        real(handle)
        synced.add(os.fstat(handle).st_ino)

    def watch(round: int) -> None:
        for path in sorted((tmp_path / "run" / "ledger").iterdir()):
            charged = [json.loads(line).get("round") for line in path.read_text().splitlines()]
            assert round in charged, f"{path.name} holds no charge of round {round} yet"
            assert path.stat().st_ino in synced, f"{path.name} was not synced before round {round} was sent"
        synced.clear()
        rounds.append(round)

    monkeypatch.setattr(os, "fsync", fsync)
    config = settings(people, tmp_path / "run", algorithm=algorithm)
    run(config, world=WatchedWorld(watch))
    assert rounds == [0, 1, 2]
    ends = {path.stat().st_ino for path in (tmp_path / "run" / "ledger").iterdir()}
    assert ends <= synced  # the end lines too


def test_nothing_is_sent_when_the_disk_refuses(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    real, calls = os.fsync, 0

    def fsync(handle: int) -> None:
        nonlocal calls
        calls += bool(sent)
        if calls:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(RunError, match=r"cannot write the ledger .*No space left on device; free some space"):
        run(settings(people, tmp_path / "run"), world=WatchedWorld(sent.append))
    assert sent == [0]
    monkeypatch.undo()
    assert read_run(tmp_path / "run").summary is None


def test_an_agent_with_a_budget_of_its_own(people: str, tmp_path: Path) -> None:
    budgets = {"3": {"epsilon": 0.5}, "1": {"delta": 1e-6}}
    result = run(settings(people, tmp_path / "run", seed=1, budgets=budgets))
    told = [header["budget"] for header in headers(result.folder)]
    assert [budget["epsilon"] for budget in told] == [1.0, 1.0, 1.0, 0.5, 1.0]
    assert [budget["delta"] for budget in told] == [1e-4, 1e-6, 1e-4, 1e-4, 1e-4]
    proven = [entry["epsilon_proven"] for entry in result.summary["per_agent"]]
    assert proven[3] < 0.7 * proven[0]
    sigmas = [
        next(event.sigma for _, event, _ in account.events if isinstance(event, ObjectivePerturbation))
        for account in read_run(result.folder).ledgers.values()
    ]
    assert sigmas[3] > 1.8 * sigmas[0]
    assert sigmas[0] == sigmas[2] == sigmas[4]
    assert result.summary["privacy"]["epsilon_target"] == 1.0


def test_the_proven_accountant_keeps_the_target(people: str, tmp_path: Path) -> None:
    claims = {}
    for accountant in ("published", "proven"):
        config = settings(
            people, tmp_path / accountant, algorithm="ipp-admm", accountant=accountant, seed=1, epsilon=20.0
        )
        privacy = run(config).summary["privacy"]
        assert privacy["accountant"] == accountant
        # charge by charge and count times cost round differently, by a unit in the last place
        assert privacy["epsilon_spent"] <= privacy["epsilon_proven"] * (1.0 + 1e-12)
        claims[accountant] = privacy["epsilon_proven"]
    assert claims["proven"] <= 20.0 * (1 + 1e-9)
    assert claims["proven"] > 19.0
    assert claims["published"] != claims["proven"]


def test_without_privacy_there_is_no_epsilon(people: str, tmp_path: Path) -> None:
    summary = run(settings(people, tmp_path / "run", algorithm="admm", seed=1)).summary
    for name in (
        "epsilon_target",
        "delta",
        "epsilon_proven",
        "epsilon_spent",
        "epsilon_published",
        "rho_proven",
    ):
        assert summary["privacy"][name] is None, name
    assert all(header["budget"] == {"epsilon": None, "delta": None} for header in headers(tmp_path / "run"))


def test_notes_say_what_a_figure_does_not(people: str, tmp_path: Path) -> None:
    def notes(name: str, **others: Any) -> str:
        return "\n".join(run(settings(people, tmp_path / name, **others)).summary["notes"])

    seeded = notes("seeded", seed=1, delta=1e-2)
    assert "a seeded run is a simulation" in seeded
    assert "delta is above 0.1 / records for" in seeded
    assert "epsilon_proven is what is proven" in seeded
    private = notes("private", accountant="proven", delta=1e-4)
    assert "simulation" not in private
    assert "is above 0.1" not in private
    assert "paper's arithmetic" not in private
    assert "public" not in private  # there are no test records


def test_two_agents_and_a_graph_of_their_own_seed(people: str, tmp_path: Path) -> None:
    result = run(settings(people, tmp_path / "two", topology="path:2", seed=1))
    assert result.theta.shape == (2, 5)
    assert (result.theta[0] != result.theta[1]).all()

    def neighbours(name: str, **others: Any) -> list[list[int]]:
        run(
            settings(
                people, tmp_path / name, topology="erdos-renyi:8:0.4", algorithm="pp-admm", rounds=1, **others
            )
        )
        return [header["neighbours"] for header in headers(tmp_path / name)]

    private = neighbours("private")
    assert neighbours("zero", topology_seed=0, seed=5) == private
    assert neighbours("five", seed=5) == neighbours("five again", topology_seed=5) != private
