"""A saved model on its run's own data: the figures of the summary again, and which records may be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data import DataSettings, load
from admmnet.predict.apply import NewData, evaluate, read_model
from tests.command_runs import Admmnet
from tests.people_runs import summary_of
from tests.trained_models import SCHEMA, people, trained


@pytest.fixture(scope="module")
def private_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings: dict[str, Any] = {"algorithm": "pp-admm", "topology": "path:3", "rounds": 1, "seed": None}
    folder = tmp_path_factory.mktemp("private") / "run"
    return trained(folder, **settings, private=True, no_test=True, no_account=True)


@pytest.mark.parametrize("answer", ["last", "tail"])
def test_the_test_part_gives_the_errors_of_the_summary(answer: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"topology": "path:3", "rounds": 3, "data_seed": 4, "test_fraction": 0.2}
    folder = trained(tmp_path / "run", answer=answer, **settings)
    found, said = evaluate(read_model(folder), NewData(data="census")), summary_of(folder)
    assert found["data"]["rows"] == said["data"]["test"] == 9768
    assert {key: said["test_error"][key] for key in ("consensus", "mean", "std")} == found["error"]
    assert [e["error"] for e in found["per_agent"]] == [e["test_error"] for e in said["per_agent"]]
    assert found["error"]["std"] > 0


def test_every_figure_from_its_definition(census_run: Path) -> None:
    model, said = read_model(census_run), summary_of(census_run)  # an unseeded run
    found = evaluate(model, NewData(data="census"))
    assert {key: said["test_error"][key] for key in ("consensus", "mean", "std")} == found["error"]
    records = load(DataSettings(data_seed=4), 3, [])
    score, positive = records.X_test @ model.consensus, records.y_test > 0
    probability = 1 / (1 + np.exp(-score))
    loss = -np.mean(np.log(np.where(positive, probability, 1 - probability)))
    assert found["log_loss"] == pytest.approx(loss, rel=1e-10)
    assert found["majority_error"] == pytest.approx(min(positive.mean(), 1 - positive.mean()), rel=1e-12)
    counts = found["confusion"]
    assert counts == {
        "true_positive": np.sum((score > 0) & positive),
        "false_positive": np.sum((score > 0) & ~positive),
        "true_negative": np.sum((score <= 0) & ~positive),
        "false_negative": np.sum((score <= 0) & positive),
    }
    wrong = counts["false_positive"] + counts["false_negative"]
    assert found["error"]["consensus"] == pytest.approx(wrong / found["data"]["rows"], rel=1e-12)
    assert (found["data"]["negative"], found["data"]["positive"]) == ("low", "high")


@pytest.mark.parametrize("part", ["train", "all"])
def test_training_records_of_a_private_run_must_be_public(part: str, private_run: Path, admmnet: Admmnet) -> None:
    words = ("evaluate", private_run, "--data", "census", "--part", part)
    message = admmnet.refused(*words)
    assert f"--part {part} takes in records that the run was trained on" in message
    assert "pays for that; pass --public if the records are public" in message  # there is no test part
    assert admmnet.json(*words, "--public")["data"] | {"part": part} == {
        "name": "census", "part": part, "rows": 48_842, "negative": "low", "positive": "high"
    }  # fmt: skip
    for more in ((), ("--part", "test")):
        assert "had no test records: name a file of others" in admmnet.refused(*words[:4], *more)


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
        people(tmp_path / f"site-{agent}.csv", 30, agent, 20, 90)
    test = people(tmp_path / "test.csv", 40, 2, 20, 90)
    pattern = str(tmp_path / "site-{agent}.csv")
    private: dict[str, Any] = {"algorithm": "pp-admm", "seed": None, "no_account": True, "epsilon": 50.0}
    folder = trained(tmp_path / "run", data=pattern, test=str(test), schema=SCHEMA, **private)
    error = evaluate(read_model(folder), NewData(data=str(test)))["error"]
    assert error == {key: summary_of(folder)["test_error"][key] for key in error}
    message = admmnet.refused("evaluate", folder, "--data", tmp_path / "site-1.csv")
    assert "site-1.csv takes in records that the run was trained on" in message
    assert "--part test" not in message  # nothing was drawn from this file
    assert "name one file, without {agent}" in admmnet.refused("evaluate", folder, "--data", pattern)
    assert "taken whole, drop --part" in admmnet.refused(
        "evaluate", folder, "--data", tmp_path / "site-1.csv", "--part", "test"
    )


def test_a_part_needs_a_draw(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    other = people(tmp_path / "new.csv", 10, 1, 20, 90)
    assert "taken whole, drop --part" in admmnet.refused("evaluate", people_run, "--data", other, "--part", "test")
    folder = trained(tmp_path / "run", data=str(other), test=str(other), schema=SCHEMA)
    assert "nothing was drawn" in admmnet.refused("evaluate", folder, "--data", other, "--part", "test")
