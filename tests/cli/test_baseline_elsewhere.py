"""Other commands and baselines: run, ledger, evaluate and predict on what they leave, and compare with them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from admmnet.data import DataSettings, load
from admmnet.predict.apply import NewData, evaluate, read_model
from tests.command_runs import Admmnet
from tests.people_runs import write_people

from .conftest import COMMON


def test_run_does_the_same(people: str, baseline: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    admmnet.ok("run", "--algorithm", "dp-scd", "--data", people, *COMMON, "-o", tmp_path / "one")
    admmnet.ok("run", baseline / "config.toml", "--quiet", "-o", tmp_path / "two")
    for file in ("config.toml", "metrics.csv", "model.npz", "ledger/agent-000.jsonl"):
        for name in ("one", "two"):
            assert (tmp_path / name / file).read_bytes() == (baseline / file).read_bytes(), file


def test_the_ledger_commands(baseline: Path, admmnet: Admmnet) -> None:
    assert "1 ledger, 1 event holds; the run is finished" in admmnet.ok("ledger", "verify", baseline).out
    shown = admmnet.ok("ledger", "show", baseline, "--events").out
    assert "subsampled-gaussian" in shown
    (account,) = json.loads(admmnet.ok("ledger", "show", baseline, "--json").out)
    assert account["header"]["adjacency"] == "zero-out"
    (row,) = csv.DictReader(io.StringIO(admmnet.ok("ledger", "export", baseline).out))
    assert json.loads(row["parameters"])["sampling"] == "poisson"


def test_evaluate_and_predict(people: str, baseline: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    new = write_people(tmp_path / "new.npz", 80, 80)
    facts = admmnet.json("evaluate", baseline, "--data", new)
    data = load(DataSettings(data=people, test=new), 1, [0])
    with np.load(baseline / "model.npz") as archive:
        score = data.X_test @ archive["consensus"]
    assert facts["error"]["consensus"] == float(np.mean((score > 0) != (data.y_test > 0)))
    assert f"consensus {facts['error']['consensus']:.2%}" in admmnet.ok("evaluate", baseline, "--data", new).out
    rows = list(csv.DictReader(io.StringIO(admmnet.ok("predict", baseline, "--data", new).out)))
    np.testing.assert_allclose([float(row["score"]) for row in rows], score, rtol=1e-12)
    assert [row["prediction"] for row in rows] == np.where(score > 0, "+1", "-1").tolist()
    (tmp_path / "link.npz").symlink_to(new)
    assert "is the file of --data" in admmnet.refused("predict", baseline, "--data", new, "-o", tmp_path / "link.npz")
    assert data.X_test.shape == load(DataSettings(data=people, test=new), 1, [0]).X_test.shape


def test_evaluate_and_predict_real_targets(tmp_path: Path, admmnet: Admmnet) -> None:
    stream = np.random.default_rng(5)
    X = stream.standard_normal((200, 3))
    y = 40.0 + 6.0 * X[:, 0] + stream.standard_normal(200)
    np.savez(tmp_path / "ages.npz", X=X, y=y)
    (tmp_path / "run.toml").write_text(
        f"[data]\ndata = '{tmp_path / 'ages.npz'}'\n[data.schema]\ntargets = [0, 100]\n[problem]\nloss = 'squared'\n"
    )
    printed = admmnet.ok("baseline", "sdca", tmp_path / "run.toml", "--seed", "0", "-o", tmp_path / "run")
    assert "in the target's own unit" in printed.out
    rows = list(csv.DictReader(io.StringIO(
        admmnet.ok("predict", tmp_path / "run", "--data", tmp_path / "ages.npz").out
    )))  # fmt: skip
    values = np.array([float(row["prediction"]) for row in rows])
    assert {row["probability"] for row in rows} == {""}
    facts = evaluate(read_model(tmp_path / "run"), NewData(data=str(tmp_path / "ages.npz")))
    assert facts["metric"] == "mean-squared-error"
    assert facts["error"]["root_in_units"] == pytest.approx(np.sqrt(np.mean((values - y) ** 2)), rel=1e-9)
    assert facts["error"]["consensus"] < 0.6 * facts["variance"]


def test_compare_takes_baselines(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    out = tmp_path / "grid"
    words = ("compare", "--jobs", "1", "--algorithms", "dp-scd,dp-scd:published,dp-sgd,sgd,pp-admm", "-o", out)
    grid = ("--epsilons", "8", "--seeds", "0:2", "--data", people, "--simulate", "--delta", "1e-3")
    mixed = ("--topology", "ring:4", "--rounds", "3", "--epochs", "2")
    tune = ("--tune", "learning_rate=1:4,pp-admm.eta=0.1,sgd.learning_rate=0.2,clip=0.01", "--tune-seeds", "1")
    printed = admmnet.ok(*words, *grid, *mixed, *tune)
    with (out / "compare.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {(row["algorithm"], row["method"]): row["adjacency"] for row in rows}
    assert found == {
        ("dp-scd", "proven"): "zero-out",
        ("dp-scd", "published"): "zero-out",
        ("dp-sgd", "proven"): "zero-out",
        ("sgd", "published"): "replace-one",
        ("pp-admm", "proven"): "replace-one",
    }
    assert len(rows) == 10
    assert "the epsilons of dp-scd, dp-scd:published, dp-sgd are for zero-out" in printed.err
    tuning = json.loads((out / "compare.json").read_text())["tuning"]
    assert [choice["algorithm"] for choice in tuning] == ["dp-sgd"]
    assert set(tuning[0]["chosen"]) == {"learning_rate", "clip"}
    assert tuning[0]["epsilon_proven_with_trials"] > 8.0  # two trials and a run cost more than a run
    # each setting went to those that have it, and a run is the one that the command makes
    assert "\nlearning_rate = 0.2\n" in (out / "runs/sgd-0/config.toml").read_text()
    assert "\neta = 0.1\n" in (out / "runs/pp-admm-proven-proven-8-0/config.toml").read_text()
    single = ("baseline", "dp-scd", "--data", people, "--epsilon", "8", "--delta", "1e-3", "--seed", "1")
    admmnet.ok(*single, "--epochs", "2", "--clip", "0.01", "-o", tmp_path / "run")
    same = (out / "runs/dp-scd-proven-proven-8-1/model.npz").read_bytes()
    assert (tmp_path / "run/model.npz").read_bytes() == same
    assert admmnet(*words, *grid, *mixed, *tune, "--quiet") == (0, "", "")  # it goes on: all is there


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--algorithms", "dp-scd,dp-sgd", "--topology", "ring:5"), "there is no network"),
        (("--algorithms", "pp-admm", "--batch", "5"), "but with dp-scd"),
        (("--algorithms", "pp-admm", "--loss", "hinge"), "pp-admm at epsilon 8: loss = 'hinge'"),
        (("--algorithms", "pp-admm", "--tune", "pp-admm.batch=5"), "batch = 5 does not go with"),
        (("--algorithms", "sgd:proven"), "sgd has no privacy"),
        (("--algorithms", "dp-scd", "--tune", "batch=1000:2000"), "batch = 1000 is not allowed"),
    ],
)
def test_compare_refuses_what_no_method_has(
    words: tuple[str, ...], what: str, people: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    out = tmp_path / "grid"
    common = ("--epsilons", "8", "--seeds", "0", "--data", people, "--simulate", "--jobs", "1", "--quiet", "-o", out)
    assert what in admmnet.refused("compare", *words, *common)
    assert not (out / "runs").exists()
