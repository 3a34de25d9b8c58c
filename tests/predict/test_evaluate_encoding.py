"""A saved model on new rows: they are encoded as the training records were."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from admmnet.data.sets import census
from admmnet.predict.apply import NewData, evaluate, predict, read_model
from tests.command_runs import Admmnet
from tests.people_runs import summary_of
from tests.trained_models import by_hand, people, table_of, trained


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
    assert "unknown data 'nothing-here'" in admmnet.refused("predict", people_run, "--data", "nothing-here")
    new = tmp_path / "new.csv"
    new.write_text("id,age,ward,sick\n1,30,q,no\n", encoding="utf-8")
    for command in ("evaluate", "predict"):
        message = admmnet.refused(command, people_run, "--data", new)
        assert "new.csv, line 2, column 'ward': undeclared category 'q'" in message


def test_npz_and_libsvm(tmp_path: Path, admmnet: Admmnet) -> None:
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(40, 3)), np.tile([1, -1], 20)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    folder = trained(tmp_path / "run", data=str(tmp_path / "train.npz"), test=str(tmp_path / "train.npz"))
    model = read_model(folder)
    expected = np.column_stack([X, np.ones(40)])
    score = expected / np.linalg.norm(expected, axis=1)[:, None] @ model.consensus
    np.savez(tmp_path / "new.npz", X=X)
    lines = [" ".join(["0", *(f"{k + 1}:{v!r}" for k, v in enumerate(row))]) for row in X.tolist()]
    (tmp_path / "new.svm").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name in ("new.npz", "new.svm", "train.npz"):
        found = predict(model, NewData(data=str(tmp_path / name)))
        np.testing.assert_allclose(found.score, score, rtol=1e-12)
    assert "must hold the arrays X and y, its keys are: X" in admmnet.refused(
        "evaluate", folder, "--data", tmp_path / "new.npz"
    )


def test_a_discovered_width_is_kept(tmp_path: Path) -> None:
    train, new = tmp_path / "train.svm", tmp_path / "new.svm"
    train.write_text("".join(f"{k % 2} 1:{k % 3} {4 + k % 2}:1\n" for k in range(20)), encoding="utf-8")
    folder = trained(tmp_path / "run", data=str(train))
    new.write_text("x 1:1\n", encoding="utf-8")
    model = read_model(folder)
    assert model.encoding == {"features": 5}
    found = predict(model, NewData(data=str(new)))
    np.testing.assert_allclose(found.score, (model.consensus[0] + model.consensus[5]) / math.sqrt(2))
