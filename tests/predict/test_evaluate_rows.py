"""A saved model on its run's own data and on new rows: which may be looked at, and how they are encoded."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics

from admmnet.data import DataSettings, load
from admmnet.data.figures import confusion, constant_figure
from admmnet.data.sets import census
from admmnet.predict.apply import NewData, evaluate, predict, read_model
from tests.command_runs import Admmnet
from tests.people_runs import summary_of
from tests.trained_models import SCHEMA, by_hand, people, table_of, trained


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
    assert found["majority_error"] == constant_figure("binary", y)
    assert found["confusion"] == confusion("binary", score, y)


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


def test_a_part_needs_a_draw(tmp_path: Path, admmnet: Admmnet) -> None:
    other = people(tmp_path / "new.csv", 10, 1, 20, 90)
    folder = trained(tmp_path / "run", data=str(other), test=str(other), schema=SCHEMA)
    assert "nothing was drawn" in admmnet.refused("evaluate", folder, "--data", other, "--part", "test")


def test_a_file_of_census_columns_is_encoded_as_census(census_run: Path, tmp_path: Path) -> None:
    source = census.read_census()
    columns = [source.column(name) for name in source.names]
    lines = [",".join(column.levels[column.codes[row]] for column in columns) for row in range(300)]
    file = tmp_path / "people.csv"
    file.write_text("\n".join([",".join(source.names), *lines]) + "\n", encoding="utf-8")
    model = read_model(census_run)
    found, expected = (predict(model, NewData(data=data)) for data in (str(file), "census"))
    np.testing.assert_allclose(found.score, expected.score[:300], rtol=1e-12, atol=1e-15)
    assert found.prediction == expected.prediction[:300]
    assert set(found.prediction) == {"low", "high"}


def test_what_was_discovered_travels_with_the_model(open_run: Path, tmp_path: Path) -> None:
    model = read_model(open_run)
    assert model.encoding is not None
    assert model.encoding["labels"] == ["no", "yes"]
    assert model.encoding["columns"]["age"] | {"low": 20.0, "high": 90.0} == model.encoding["columns"]["age"]
    assert json.loads((open_run / "encoding.json").read_text(encoding="utf-8")) == model.encoding
    assert any("encoding.json" in note and "no budget" in note for note in summary_of(open_run)["notes"])
    new = people(tmp_path / "new.csv", 40, 5, 30, 95)  # other bounds, and one age above the old ones
    expected = by_hand(new, 20, 90, model.consensus)
    np.testing.assert_allclose(predict(model, NewData(data=str(new))).score, expected, rtol=1e-12)
    assert np.abs(by_hand(new, 30, 95, model.consensus) - expected).max() > 1e-3
    found = evaluate(model, NewData(data=str(new)))
    truth = np.array([row["sick"] == "yes" for row in table_of(new.read_text(encoding="utf-8"))])
    assert found["error"]["consensus"] == pytest.approx(np.mean((expected > 0) != truth))
    new.write_text("sick,ward,age\nyes,b,50\nno,b,60\n", encoding="utf-8")  # one ward is enough
    one = predict(model, NewData(data=str(new)))
    np.testing.assert_allclose(one.score, by_hand(new, 20, 90, model.consensus), rtol=1e-12)


def test_without_it_nothing_is_guessed(open_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    copy = Path(shutil.copytree(open_run, tmp_path / "run"))
    new = people(tmp_path / "new.csv", 40, 5, 30, 70)
    (copy / "encoding.json").write_text("[]", encoding="utf-8")
    assert "encoding.json must hold a table, got []" in admmnet.refused("predict", copy, "--data", new)
    (copy / "encoding.json").unlink()
    assert "age.low and .high must be declared" in admmnet.refused("predict", copy, "--data", new)


def test_columns_of_a_plain_file_go_by_name(tmp_path: Path) -> None:
    train, new = tmp_path / "train.csv", tmp_path / "new.csv"
    train.write_text("a,b,y\n" + "".join(f"{k % 7},{1 + k % 5},{k % 2}\n" for k in range(40)), encoding="utf-8")
    folder = trained(tmp_path / "run", data=str(train), label="y", no_intercept=True)
    model = read_model(folder)
    new.write_text("b,a\n4,3\n12,5\n", encoding="utf-8")
    found = predict(model, NewData(data=str(new)))
    np.testing.assert_allclose(found.score, np.array([[0.6, 0.8], [5 / 13, 12 / 13]]) @ model.consensus)
    assert set(found.prediction) <= {"-1", "+1"}


def test_other_features_and_faulty_rows(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    message = admmnet.refused("evaluate", people_run, "--data", "census")
    assert "census: feature 2 is 'age-bin=[17,20)', where the training records have 'ward=a' (109 and 5" in message
    new = tmp_path / "new.csv"
    new.write_text("id,age,ward,sick\n1,30,q,no\n", encoding="utf-8")
    for command in ("evaluate", "predict"):
        message = admmnet.refused(command, people_run, "--data", new)
        assert "new.csv, line 2, column 'ward': undeclared category 'q'" in message


def test_npz_and_libsvm_files_have_the_width_that_was_discovered(tmp_path: Path) -> None:
    X, new = np.random.default_rng(0).normal(size=(40, 3)), tmp_path / "new.npz"
    lines = [" ".join([f"{k % 2}", *(f"{j + 1}:{v!r}" for j, v in enumerate(x))]) for k, x in enumerate(X.tolist())]
    (tmp_path / "train.svm").write_text("\n".join(lines) + "\n", encoding="utf-8")
    folder = trained(tmp_path / "run", data=str(tmp_path / "train.svm"))
    model = read_model(folder)
    assert model.encoding == {"features": 3}
    rows = np.column_stack([X, np.ones(40)])
    score = rows / np.linalg.norm(rows, axis=1)[:, None] @ model.consensus
    np.savez(new, X=X)
    for file in (new, tmp_path / "train.svm"):
        np.testing.assert_allclose(predict(model, NewData(data=str(file))).score, score, rtol=1e-12)
    narrow = new.with_name("narrow.svm")
    narrow.write_text("x 1:1\n", encoding="utf-8")
    found = predict(model, NewData(data=str(narrow)))
    np.testing.assert_allclose(found.score, (model.consensus[0] + model.consensus[3]) / math.sqrt(2))
