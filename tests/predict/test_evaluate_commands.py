"""The commands evaluate and predict: labels, flags, what they print and what they refuse."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.predict.apply import NewData, evaluate, predict, read_model
from tests.command_runs import Admmnet
from tests.trained_models import by_hand, people, table_of, trained


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Twenty people with labels."""
    return people(tmp_path / "new.csv", 20, 5, 30, 70)


def test_labels_are_needed_for_errors_alone_and_may_have_another_name(
    people_run: Path, new: Path, tmp_path: Path, admmnet: Admmnet
) -> None:
    model, text = read_model(people_run), new.read_text(encoding="utf-8")
    expected, error = predict(model, NewData(data=str(new))), evaluate(model, NewData(data=str(new)))["error"]
    bare = people(tmp_path / "bare.csv", 20, 5, 30, 70, label=False)
    odd = tmp_path / "odd.csv"
    odd.write_text(re.sub(",(yes|no)\n", ",who knows\n", text), encoding="utf-8")
    for other in (bare, odd):
        np.testing.assert_array_equal(predict(model, NewData(data=str(other))).score, expected.score)
    assert "bare.csv has no column 'sick'" in admmnet.refused("evaluate", people_run, "--data", bare)
    message = admmnet.refused("evaluate", people_run, "--data", odd)
    assert "odd.csv, line 2, column 'sick': undeclared label 'who knows'" in message
    new.write_text(text.replace("sick", "state"), encoding="utf-8")
    assert evaluate(model, NewData(data=str(new), label="state"))["error"] == error
    assert "has no column 'sick'" in admmnet.refused("evaluate", people_run, "--data", new)


def test_evaluate_prints_what_json_holds(people_run: Path, new: Path, admmnet: Admmnet) -> None:
    words = ["evaluate", str(people_run), "--data", str(new)]
    facts = admmnet.json(*words)
    figures = ["error", "majority_error", "one_class", "log_loss", "confusion", "per_agent"]
    assert list(facts) == ["run", "task", "metric", "data", *figures]
    assert facts["data"] == {"name": "new.csv", "part": "all", "rows": 20, "negative": "no", "positive": "yes"}
    assert [entry["agent"] for entry in facts["per_agent"]] == [0, 1]
    said = admmnet.ok(*words)
    assert said.err == ""
    assert f"error: consensus {100 * facts['error']['consensus']:.2f}%, " in " ".join(said.out.split())


def test_predict_writes_one_line_a_row(people_run: Path, new: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    words = ["predict", str(people_run), "--data", str(new)]
    printed = admmnet.ok(*words).out
    assert admmnet.ok(*words, "-o", tmp_path / "out.csv").out == ""
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == printed
    rows = table_of(printed)
    assert list(rows[0]) == ["row", "score", "probability", "prediction"]
    assert [int(row["row"]) for row in rows] == list(range(1, 21))
    model = read_model(people_run)
    assert [float(row["score"]) for row in rows] == predict(model, NewData(data=str(new))).score.tolist()
    for row in rows:
        score = float(row["score"])
        assert float(row["probability"]) == pytest.approx(1 / (1 + math.exp(-score)), rel=1e-12)
        assert row["prediction"] == ("yes" if score > 0 else "no")
    assert {row["prediction"] for row in rows} == {"yes", "no"}
    before = new.read_bytes()
    (tmp_path / "link.csv").symlink_to(new)
    assert "is the file of --data" in admmnet.refused(*words, "-o", tmp_path / "link.csv")
    assert new.read_bytes() == before
    assert "cannot write" in admmnet.refused(*words, "-o", tmp_path / "no" / "out.csv")


def test_one_agents_vector(people_run: Path, new: Path, admmnet: Admmnet) -> None:
    model, words = read_model(people_run), ["predict", str(people_run), "--data", str(new)]
    assert not np.allclose(model.theta[0], model.theta[1], rtol=1e-9)
    vectors: Any = (([], model.consensus), (["--agent", 0], model.theta[0]), (["--agent", 1], model.theta[1]))
    for flags, theta in vectors:  # rows are encoded by the declared schema
        score = [float(row["score"]) for row in table_of(admmnet.ok(*words, *flags).out)]
        np.testing.assert_allclose(score, by_hand(new, 0, 100, theta), rtol=1e-12)
    for stranger in ("2", "-1"):
        assert f"--agent {stranger}: the run has the agents 0 to 1" in admmnet.refused(*words, "--agent", stranger)


def test_wrong_words(people_run: Path, admmnet: Admmnet) -> None:
    assert "Missing option '--data'" in admmnet.refused("evaluate", people_run)
    for words in (("evaluate", "nothing-here", "--data", "census"), ("model", "show", "nothing-here")):
        assert "there is nothing of the name nothing-here: name the folder of a finished run" in admmnet.refused(*words)
    assert "--label y goes with a csv" in admmnet.refused("predict", people_run, "--data", "census", "--label", "y")


def test_unfinished_and_damaged_folders(people_run: Path, new: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    copy = Path(shutil.copytree(people_run, tmp_path / "run"))
    model, whole = read_model(copy), (copy / "model.npz").read_bytes()
    np.savez(tmp_path / "odd.npz", theta=model.theta * np.nan, consensus=model.consensus,
             feature_names=np.array(model.feature_names))  # fmt: skip
    for content in (whole[:-200], (tmp_path / "odd.npz").read_bytes()):
        (copy / "model.npz").write_bytes(content)
        assert "model.npz is no sound model" in admmnet.refused("predict", copy, "--data", new)
    (copy / "model.npz").unlink()
    assert "has no model.npz: name the folder of a finished run" in admmnet.refused("predict", copy, "--data", new)
    (copy / "model.npz").write_bytes(whole)
    (copy / "config.toml").unlink()
    assert "cannot read the config file" in admmnet.refused("predict", copy, "--data", new)


def test_classes_on_the_command_line(tmp_path: Path, admmnet: Admmnet) -> None:
    X = np.random.default_rng(8).standard_normal((120, 2))
    np.savez(tmp_path / "t.npz", X=X, y=np.digitize(X[:, 0], [-0.5, 0.5]))
    data, schema = ["--data", str(tmp_path / "t.npz")], {"labels": [0, 1, 2], "features": 2}
    folder = trained(tmp_path / "run", algorithm="noisy-gd", epsilon=50.0, data=data[1], schema=schema)
    facts = admmnet.json("evaluate", folder, *data, "--part", "test")
    assert [*facts["error"]] == ["consensus", "mean", "std", "macro"]
    assert (facts["classes"], np.sum(facts["confusion"])) == (["0", "1", "2"], 30)
    head, first, *_ = admmnet.ok("predict", folder, *data).out.splitlines()
    assert head == "row,score,probability,prediction,probability=0,probability=1,probability=2"
    assert sum(map(float, first.split(",")[4:])) == pytest.approx(1.0, rel=1e-12)
