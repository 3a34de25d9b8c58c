"""A saved model on its run's own data: the figures of the summary again, and which records may be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics

from admmnet.data import DataSettings, load
from admmnet.predict.apply import NewData, evaluate, read_model
from tests.command_runs import Admmnet
from tests.people_runs import summary_of
from tests.trained_models import SCHEMA, people, trained


def test_figures_of_the_test_part_are_those_of_the_summary_and_of_scikit_learn(census_run: Path) -> None:
    """Of a run without a seed, at all of its agents."""
    model, said = read_model(census_run), summary_of(census_run)
    found = evaluate(model, NewData(data="census"))
    assert found["data"] == {"name": "census", "part": "test", "rows": 9768, "negative": "low", "positive": "high"}
    assert found["error"] == {key: said["test_error"][key] for key in ("consensus", "mean", "std")}
    assert found["error"]["std"] > 0
    assert [e["error"] for e in found["per_agent"]] == [e["test_error"] for e in said["per_agent"]]
    records = load(DataSettings(data_seed=4, test_fraction=0.2), 3, [])
    score, y = records.X_test @ model.consensus, records.y_test
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, expit(score)), rel=1e-10)
    assert found["majority_error"] == pytest.approx(min(np.mean(y > 0), np.mean(y < 0)), rel=1e-12)
    names = ("true_negative", "false_positive", "false_negative", "true_positive")
    counts = metrics.confusion_matrix(y, np.where(score > 0, 1, -1)).ravel().tolist()
    assert found["confusion"] == dict(zip(names, counts, strict=True))


def test_training_records_of_a_private_run_must_be_public(tmp_path: Path, admmnet: Admmnet) -> None:
    settings: dict[str, Any] = {"algorithm": "pp-admm", "topology": "path:3", "rounds": 1, "seed": None}
    private = {"private": True, "no_test": True, "no_account": True}
    words = ("evaluate", trained(tmp_path / "run", **settings, **private), "--data", "census")
    for part in ("train", "all"):
        message = admmnet.refused(*words, "--part", part)
        assert f"--part {part} takes in records that the run was trained on" in message
        assert "pays for that; pass --public if the records are public" in message  # there is no test part
        facts = admmnet.json(*words, "--part", part, "--public")["data"]
        assert (facts["part"], facts["rows"]) == (part, 48_842)
    for more in ((), ("--part", "test")):
        assert "had no test records: name a file of others" in admmnet.refused(*words, *more)


def test_a_seeded_run_may_look_at_its_training_records(people_run: Path) -> None:
    model = read_model(people_run)
    data = NewData(data=str(model.config.data))
    parts = {part: evaluate(model, data, part=part)["data"]["rows"] for part in ("test", "train", "all")}
    assert parts == {"test": 30, "train": 90, "all": 120}
    assert evaluate(model, data)["data"]["part"] == "all"
    assert evaluate(model, data, part="test")["error"]["mean"] == summary_of(people_run)["test_error"]["mean"]


def test_the_training_file_is_known_under_other_names(tmp_path: Path, admmnet: Admmnet) -> None:
    data = people(tmp_path / "train.csv", 60, 0, 20, 90)
    private: dict[str, Any] = {"algorithm": "pp-admm", "seed": None, "no_account": True, "epsilon": 50.0}
    folder = trained(tmp_path / "run", data=str(data), schema=SCHEMA, no_test=True, **private)
    config = folder / "config.toml"
    older = config.read_text(encoding="utf-8").replace("no_test = true\n", "")  # from before there were modes
    config.write_text(older, encoding="utf-8")
    (tmp_path / "link.csv").symlink_to(data)
    (tmp_path / "hard.csv").hardlink_to(data)
    (tmp_path / "sub").mkdir()
    for name in ("train.csv", "link.csv", "hard.csv", "sub/../train.csv"):
        message = admmnet.refused("evaluate", folder, "--data", tmp_path / name)
        assert "take --part test, or pass --public" in message
        drawn = evaluate(read_model(folder), NewData(data=str(tmp_path / name)), part="test")
        assert drawn["data"]["rows"] == 15
    other = people(tmp_path / "other.csv", 30, 1, 20, 90)
    assert evaluate(read_model(folder), NewData(data=str(other)))["data"]["rows"] == 30


def test_files_of_one_agent_each(tmp_path: Path, admmnet: Admmnet) -> None:
    for agent in range(2):
        own = people(tmp_path / f"site-{agent}.csv", 30, agent, 20, 90)
    pattern, test = str(tmp_path / "site-{agent}.csv"), people(tmp_path / "test.csv", 40, 2, 20, 90)
    private: dict[str, Any] = {"algorithm": "pp-admm", "seed": None, "no_account": True, "epsilon": 50.0}
    folder = trained(tmp_path / "run", data=pattern, test=str(test), schema=SCHEMA, **private)
    assert evaluate(read_model(folder), NewData(data=str(test)))["data"]["rows"] == 40
    message = admmnet.refused("evaluate", folder, "--data", own)
    assert "site-1.csv takes in records that the run was trained on" in message
    assert "--part test" not in message  # nothing was drawn from this file
    assert "name one file, without {agent}" in admmnet.refused("evaluate", folder, "--data", pattern)
    assert "taken whole, drop --part" in admmnet.refused("evaluate", folder, "--data", own, "--part", "test")


def test_a_part_needs_a_draw(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    other = people(tmp_path / "new.csv", 10, 1, 20, 90)
    assert "taken whole, drop --part" in admmnet.refused("evaluate", people_run, "--data", other, "--part", "test")
    folder = trained(tmp_path / "run", data=str(other), test=str(other), schema=SCHEMA)
    assert "nothing was drawn" in admmnet.refused("evaluate", folder, "--data", other, "--part", "test")
