"""A baseline's run folder: every method end to end, seeds, what private runs keep to themselves, real targets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from admmnet import RequestError, RunConfig, RunError, RunResult, load_config, read_run, run
from admmnet.config.run_config import own_settings, settings_of
from admmnet.data import DataSettings, load
from admmnet.holder.series import base, coordinate
from admmnet.methods import single_sites
from admmnet.privacy.ledger.file import Ledger
from admmnet.running.entrance import prepare
from admmnet.running.events import RoundEvent
from admmnet.running.loading import load_whole
from admmnet.transport.local import LocalWorld
from admmnet.types import Vector
from tests.people_runs import rows
from tests.running.test_private_mode import FORBIDDEN, everything_told, keys_of, leaks, words_in_bytes

METHODS: dict[str, dict[str, Any]] = {
    "sdca": {},
    "dp-scd": {},
    "dp-scd published": {"method": "published"},
    "dp-scd dual noise": {"dual_noise": True, "loss": "hinge"},
    "seq-dp-scd": {"loss": "hinge"},
    "primal-dp-scd published": {"method": "published", "loss": "squared"},
    "sgd": {"loss": "hinge"},
    "dp-sgd": {"accounting": "rdp"},
    "dp-sgd fixed": {"sampling": "fixed"},
    "song-sgd": {},
    "banco": {},
    "banco gaussian": {"noise": "gaussian", "loss": "hinge"},
}
FILES = {"encoding.json", "config.toml", "manifest.json", "summary.json", "metrics.csv", "model.npz", "ledger"}


def settings(people: str, out: Path, algorithm: str, **others: Any) -> RunConfig:
    given: dict[str, Any] = {"data": people, "epsilon": 8.0, "delta": 1e-3, "seed": 3, "out": str(out)}
    if "epochs" in settings_of(algorithm) and algorithm != "sdca":
        given["epochs"] = 3
    given |= others
    if given["seed"] is None and not given.get("simulate"):
        given |= {"no_test": True, "no_account": True}
    return RunConfig(algorithm=algorithm, **given)


def made(name: str, people: str, out: Path, **others: Any) -> RunResult:
    return run(settings(people, out, name.split(" ")[0], **METHODS[name] | others))


assert {name.split(" ")[0] for name in METHODS} == set(single_sites())


@pytest.mark.parametrize("name", METHODS)
def test_end_to_end(name: str, people: str, tmp_path: Path) -> None:
    result = made(name, people, tmp_path / "run")
    folder, summary = read_run(tmp_path / "run"), result.summary  # verifies the ledger
    assert msgspec.to_builtins(folder.summary) == summary
    assert {path.name for path in result.folder.iterdir()} == FILES
    (account,), (entry,) = folder.ledgers.values(), summary["per_agent"]
    privacy, algorithm = summary["privacy"], name.split(" ")[0]
    private = algorithm not in ("sdca", "sgd")
    assert (account.finished, len(account.events), account.header["neighbours"]) == (True, 1, [])
    relation = "zero-out" if "dp-scd" in name or name == "dp-sgd" else "replace-one"
    assert account.header["adjacency"] == privacy["adjacency"] == relation
    assert (account.header["preprocessing"] == "data-dependent") == (algorithm == "primal-dp-scd")
    assert (summary["agents"], summary["topology"], summary["transport"]) == (1, None, "local")
    assert (entry["agent"], entry["records"], entry["degree"], summary["bytes_sent"]) == (0, 150, 0, 0)
    figures = [privacy[key] for key in ("epsilon_target", "delta", "epsilon_proven", "epsilon_spent")]
    if private:
        assert figures[:2] == [8.0, 1e-3]
        if algorithm == "primal-dp-scd":  # no figure covers scaled columns
            assert figures[2:] == [None, None]
        else:
            assert figures[3] <= figures[2] * (1.0 + 1e-9)
            assert figures[3] == pytest.approx(account.totals.epsilon_proven(1e-3))
        reached = figures[3] if privacy["accountant"] == "proven" else privacy["epsilon_published"]
        assert reached <= 8.0
        assert reached > 7.9 or name == "dp-sgd"  # calibrated by rdp, and then read by the tighter pld
        assert (privacy["epsilon_published"] is None) == (summary["method"] == "proven")
    else:
        assert (figures, privacy["accountant"]) == ([None] * 4, None)
    with np.load(result.folder / "model.npz", allow_pickle=False) as archive:
        theta, names = archive["theta"], archive["feature_names"]
    assert theta.shape == (1, 5)
    assert theta.any()
    assert list(names) == ["x1", "x2", "x3", "x4", "intercept"]
    data = load(DataSettings(data=people), 1, [0])
    wrong = float(np.mean((data.X_test @ theta[0] > 0) != (data.y_test > 0)))
    assert summary["test_error"]["consensus"] == summary["test_error"]["mean"] == entry["test_error"] == wrong
    lines = rows(result.folder)
    places = [(str(round), agent) for round in range(summary["rounds"]) for agent in ("-1", "0")]
    assert [(row["round"], row["agent"]) for row in lines] == places
    assert float(lines[-1]["test_error"]) == wrong
    assert int(lines[-1]["releases"]) == entry["releases"] == (summary["steps"] if private else summary["rounds"])
    assert float(lines[-1]["train_loss"]) == pytest.approx(summary["train_loss"], rel=1e-9)
    assert all(float(row["objective"]) >= float(row["train_loss"]) for row in lines)
    if algorithm == "sdca":
        assert 0.0 <= summary["baseline"]["diagnostics"]["duality_gap"] <= 1e-6


@pytest.mark.parametrize("name", ["sdca", "dp-scd dual noise", "primal-dp-scd published", "banco"])
def test_the_resolved_settings_give_the_same_bytes(name: str, people: str, tmp_path: Path) -> None:
    first = made(name, people, tmp_path / "one")
    config = load_config(tmp_path / "one" / "config.toml", {"out": str(tmp_path / "two")})
    assert "auto" not in [getattr(config, key) for key in own_settings(config.algorithm)]
    second = run(config)
    for file in ("config.toml", "metrics.csv", "model.npz", "ledger/agent-000.jsonl"):
        assert (first.folder / file).read_bytes() == (second.folder / file).read_bytes(), file
    assert (made(name, people, tmp_path / "three", seed=4).theta != first.theta).any()


# before the first draw


def test_charges_are_booked_before_anything_is_drawn_and_written_before_it_is_shown(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booked: list[int] = []
    written: list[list[str]] = []
    charging: Callable[..., None] = Ledger._follow
    drawing: Callable[..., Any] = base.draw_batches

    def charge(self: Ledger, round: int, step: Any) -> None:
        charging(self, round, step)
        booked.append(round)

    def draw(*given: Any, **others: Any) -> Any:
        assert booked == [0]
        booked.append(-1)
        return drawing(*given, **others)

    def shown(event: RoundEvent) -> None:
        lines = (tmp_path / "run/ledger/agent-000.jsonl").read_text().splitlines()
        written.append([json.loads(line)["kind"] for line in lines])

    monkeypatch.setattr(Ledger, "_follow", charge)
    monkeypatch.setattr(coordinate, "draw_batches", draw)
    run(settings(people, tmp_path / "run", "dp-scd"), on_round=shown)
    assert booked == [0, -1]
    assert written == [["header", "event"]] * 3


def test_a_run_that_dies_leaves_its_charge(people: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="ran away"):
        made("dp-sgd", people, tmp_path / "run", learning_rate=1e9)
    folder = read_run(tmp_path / "run")
    (account,) = folder.ledgers.values()
    assert (folder.summary, account.finished, len(account.events)) == (None, False, 1)


# private runs


def test_a_private_run_tells_nothing_but_what_was_released(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, list[float]] = {"dual": [], "noise": [], "steps": []}
    original: Callable[..., Any] = coordinate.DualSteps.model
    noisy: Callable[..., Vector] = base.with_noise

    def model(self: Any, progress: Any) -> Any:
        kept["dual"] += progress.dual.tolist()
        return original(self, progress)

    def adding(x: Vector, sigma: float, rng: np.random.Generator) -> Vector:
        result = noisy(x, sigma, rng)
        kept["steps"] += x.tolist()
        kept["noise"] += (result - x).tolist()
        return result

    monkeypatch.setattr(coordinate.DualSteps, "model", model)
    monkeypatch.setattr(coordinate, "with_noise", adding)
    # a clip that cuts nothing: dual variables would else be multiples of a public number
    result = made("dp-scd", people, tmp_path / "run", seed=None, clip=5.0)
    told = everything_told(result.folder, json.dumps(result.summary))
    for name, values in kept.items():
        found = np.array(values)
        assert np.count_nonzero(found) > 50, name
        assert leaks(found, told) == [], name
        assert words_in_bytes(result.folder, found) == [], name
    assert len(told.full) > 10
    assert {path.name for path in result.folder.iterdir()} == FILES
    assert keys_of(result.summary) & {*FORBIDDEN, "diagnostics"} == set()
    assert (result.folder / "metrics.csv").read_text().startswith("round,agent,test_error,releases,bytes_sent\n")
    assert result.ledgers[0].header["noise"] == "private"
    assert not any("simulation" in note for note in result.summary["notes"])
    again = made("dp-scd", people, tmp_path / "again", seed=None, clip=5.0)
    assert (again.theta != result.theta).all()
    ledgers = [(one.folder / "ledger/agent-000.jsonl").read_bytes() for one in (result, again)]
    assert ledgers[0] == ledgers[1]  # the cost is the same: it depends on public facts alone


def test_what_reads_private_records_is_refused(people: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"scales columns .* --data-dependent"):
        made("primal-dp-scd published", people, tmp_path / "run", seed=None)
    with pytest.raises(RequestError, match="discovered from the private records"):
        made("dp-scd", people, tmp_path / "run", seed=None, normalise="columns")
    assert not (tmp_path / "run").exists()
    accepted = made("dp-scd", people, tmp_path / "run", seed=None, normalise="columns", data_dependent=True)
    assert (accepted.folder / "encoding.json").is_file()


# real targets, sparse rows, the library


@pytest.mark.parametrize("algorithm", ["sdca", "dp-scd", "dp-sgd"])
def test_real_targets(algorithm: str, tmp_path: Path) -> None:
    stream = np.random.default_rng(5)
    X = stream.standard_normal((300, 3))
    np.savez(tmp_path / "ages.npz", X=X, y=40.0 + 6.0 * X[:, 0] - 3.0 * X[:, 1] + stream.standard_normal(300))
    given: dict[str, Any] = {"schema": {"targets": [0.0, 100.0], "centre": 40.0}, "epsilon": 100.0}
    with pytest.raises(RequestError, match=r"loss = 'logistic' does not learn real targets.*take squared"):
        run(settings(str(tmp_path / "ages.npz"), tmp_path / "run", algorithm, **given, loss="logistic"))
    config = settings(str(tmp_path / "ages.npz"), tmp_path / "run", algorithm, **given)
    result = run(config)
    data = load(DataSettings(data=config.data, schema=config.schema), 1, [0])
    error = float(np.mean((data.X_test @ result.theta[0] - data.y_test) ** 2))
    told = result.summary["test_error"]
    assert result.summary["metric"] == "mean-squared-error"
    assert told["consensus"] == pytest.approx(error, rel=1e-12)
    assert told["root_in_units"] == pytest.approx(60.0 * math.sqrt(error), rel=1e-12)
    assert error < 0.6 * float(np.mean(data.y_test**2))  # better than always saying the centre
    assert read_run(result.folder).summary is not None


def test_rows_of_few_entries_stay_sparse(tmp_path: Path) -> None:
    stream, width = np.random.default_rng(7), 60
    lines = []
    for _ in range(120):
        chosen = np.sort(stream.choice(width, 3, replace=False))
        lines.append(f"{1 if chosen[0] < 15 else -1} " + " ".join(f"{k + 1}:1" for k in chosen))
    few, many = tmp_path / "few.svm", tmp_path / "many.svm"
    few.write_text("\n".join(lines) + "\n")
    many.write_text("1 1:1 2:1\n-1 1:1 3:1\n" * 4)
    assert type(load_whole(DataSettings(data=str(many), features=3), 1, [0]).shards[0][0]) is np.ndarray
    given = DataSettings(data=str(few), features=width)
    sparse: Any = load_whole(given, 1, [0]).shards[0][0]
    assert sparse.format == "csr"
    np.testing.assert_allclose(sparse.toarray(), load(given, 1, [0]).shards[0][0], rtol=1e-15)
    for algorithm in ("dp-scd", "dp-sgd", "sdca"):
        config = settings(str(few), tmp_path / algorithm, algorithm, features=width)
        one = run(config)
        two = run(config.changed(out=f"{config.out}-dense"), loader=load)
        np.testing.assert_allclose(one.theta, two.theta, rtol=1e-9, atol=1e-12)


def test_a_plan_follows_from_public_facts(people: str) -> None:
    def other(given: DataSettings, agents: int, mine: Any) -> Any:
        assert (agents, list(mine)) == (1, [0])
        data = load(given, agents, mine)
        X, y = data.shards[0]
        return replace(data, shards={0: (np.zeros_like(X), -np.abs(y))})

    config = RunConfig(algorithm="dp-scd", data=people, epsilon=8.0, delta=1e-3, seed=0)
    one, two = (prepare(config, LocalWorld(), loader).agents[0] for loader in (None, other))
    assert one.charges == two.charges
