"""A saved model on new rows: evaluate and predict, as library and as commands."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, RunConfig, run
from admmnet.cli import run_command_line
from admmnet.data import DataSettings, census, load
from admmnet.predict import Model, NewData, evaluate, predict, read_model
from admmnet.types import Vector

CAPTURE = pytest.CaptureFixture[str]
Refused = Callable[..., str]

SCHEMA: dict[str, Any] = {
    "label": "sick",
    "labels": ["no", "yes"],
    "drop": ["id"],
    "columns": {
        "age": {"kind": "numeric", "low": 0, "high": 100},
        "ward": {"kind": "categorical", "categories": ["a", "b", "c"]},
    },
}
OPEN: dict[str, Any] = {
    "label": "sick",
    "drop": ["id"],
    "columns": {"age": {"kind": "numeric"}, "ward": {"kind": "categorical"}},
}
"""The same columns, all read from the rows."""


def people(path: Path, rows: int, seed: int, youngest: int, oldest: int, *, label: bool = True) -> Path:
    generator = np.random.default_rng(seed)
    ages = generator.integers(youngest, oldest, rows, endpoint=True)
    ages[:2] = youngest, oldest
    lines = ["id,age,ward" + ",sick" * label]
    for k, age in enumerate(ages.tolist()):
        ward = "abc"[k % 3]
        sick = age + 30 * (ward == "a") + generator.normal(0, 10) > 70
        lines.append(f"{k},{age},{ward}" + (",yes" if sick else ",no") * label)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def trained(folder: Path, **settings: Any) -> Path:
    quick: dict[str, Any] = {"algorithm": "admm", "topology": "path:2", "rounds": 30, "seed": 0}
    run(RunConfig(**{**quick, **settings}, out=str(folder)))
    return folder


@pytest.fixture(scope="module")
def census_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unseeded, so that its records count as private."""
    folder = tmp_path_factory.mktemp("census") / "run"
    return trained(folder, algorithm="pp-admm", topology="path:3", rounds=2, seed=None, data_seed=4)


@pytest.fixture(scope="module")
def people_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    data = people(folder / "train.csv", 120, 0, 20, 90)
    return trained(folder / "run", data=str(data), schema=SCHEMA)


@pytest.fixture(scope="module")
def open_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("open")
    data = people(folder / "train.csv", 120, 0, 20, 90)
    return trained(folder / "run", data=str(data), schema=OPEN, positive="yes")


@pytest.fixture
def refused(capsys: CAPTURE) -> Refused:
    """Run a command that exits with 2 and one message of two lines at most, which it returns."""

    def check(*words: object) -> str:
        code = run_command_line([str(word) for word in words])
        said = capsys.readouterr()
        assert code == 2, said.err
        assert said.out == ""
        assert said.err.startswith("admmnet: ")
        assert said.err.count("\n") <= 2, said.err
        return said.err

    return check


def table_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def summary_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return found


# the run's own data


@pytest.mark.parametrize("answer", ["last", "tail", "gossip"])
def test_the_test_part_gives_the_errors_of_the_summary(answer: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"topology": "path:3", "rounds": 3, "data_seed": 4, "test_fraction": 0.2}
    folder = trained(tmp_path / "run", answer=answer, **settings)
    found, said = evaluate(read_model(folder), NewData(data="census")), summary_of(folder)
    assert found["data"]["rows"] == said["data"]["test"] == 9768
    assert {key: said["test_error"][key] for key in ("consensus", "mean", "std")} == found["error"]
    assert [e["error"] for e in found["per_agent"]] == [e["test_error"] for e in said["per_agent"]]
    assert found["error"]["std"] > 0 or answer == "gossip"


def test_a_private_run_too(census_run: Path) -> None:
    found, said = evaluate(read_model(census_run), NewData(data="census")), summary_of(census_run)
    assert {key: said["test_error"][key] for key in ("consensus", "mean", "std")} == found["error"]


def test_every_figure_from_its_definition(census_run: Path) -> None:
    model = read_model(census_run)
    found = evaluate(model, NewData(data="census"))
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


@pytest.mark.parametrize(("part", "rows"), [("train", 35_000), ("all", 48_842)])
def test_training_records_of_an_unseeded_run_must_be_public(
    part: str, rows: int, census_run: Path, refused: Refused, capsys: CAPTURE
) -> None:
    words = ("evaluate", census_run, "--data", "census", "--part", part)
    message = refused(*words)
    assert f"--part {part} takes in records that the run was trained on" in message
    assert "take --part test, or pass --public if the records are public" in message
    assert run_command_line([*map(str, words), "--public", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"] | {"part": part, "rows": rows} == {
        "name": "census", "part": part, "rows": rows, "negative": "low", "positive": "high"
    }  # fmt: skip


def test_a_seeded_run_may_look_at_its_training_records(people_run: Path) -> None:
    model = read_model(people_run)
    data = NewData(data=str(model.config.data))
    parts = {part: evaluate(model, data, part=part)["data"]["rows"] for part in ("test", "train", "all")}
    assert parts == {"test": 30, "train": 90, "all": 120}
    assert evaluate(model, data)["data"]["part"] == "all"
    assert evaluate(model, data, part="test")["error"]["mean"] == summary_of(people_run)["test_error"]["mean"]


def test_the_training_file_is_known_under_other_names(tmp_path: Path, refused: Refused) -> None:
    data = people(tmp_path / "train.csv", 60, 0, 20, 90)
    folder = trained(tmp_path / "run", data=str(data), schema=SCHEMA, seed=None)
    (tmp_path / "link.csv").symlink_to(data)
    (tmp_path / "hard.csv").hardlink_to(data)
    (tmp_path / "sub").mkdir()
    for name in ("train.csv", "link.csv", "hard.csv", "sub/../train.csv"):
        message = refused("evaluate", folder, "--data", tmp_path / name)
        assert "take --part test, or pass --public" in message
        drawn = evaluate(read_model(folder), NewData(data=str(tmp_path / name)), part="test")
        assert drawn["data"]["rows"] == 15
    other = people(tmp_path / "other.csv", 30, 1, 20, 90)
    assert evaluate(read_model(folder), NewData(data=str(other)))["data"]["rows"] == 30


def test_files_of_one_agent_each(tmp_path: Path, refused: Refused) -> None:
    for agent in range(2):
        people(tmp_path / f"site-{agent}.csv", 30, agent, 20, 90)
    test = people(tmp_path / "test.csv", 40, 2, 20, 90)
    pattern = str(tmp_path / "site-{agent}.csv")
    folder = trained(tmp_path / "run", data=pattern, test=str(test), schema=SCHEMA, seed=None)
    error = evaluate(read_model(folder), NewData(data=str(test)))["error"]
    assert error == {key: summary_of(folder)["test_error"][key] for key in error}
    message = refused("evaluate", folder, "--data", tmp_path / "site-1.csv")
    assert "site-1.csv takes in records that the run was trained on" in message
    assert "--part test" not in message  # nothing was drawn from this file
    assert "name one file, without {agent}" in refused("evaluate", folder, "--data", pattern)
    assert "taken whole, drop --part" in refused(
        "evaluate", folder, "--data", tmp_path / "site-1.csv", "--part", "test"
    )


def test_a_part_needs_a_draw(people_run: Path, tmp_path: Path, refused: Refused) -> None:
    other = people(tmp_path / "new.csv", 10, 1, 20, 90)
    assert "taken whole, drop --part" in refused("evaluate", people_run, "--data", other, "--part", "test")
    folder = trained(tmp_path / "run", data=str(other), test=str(other), schema=SCHEMA)
    assert "nothing was drawn" in refused("evaluate", folder, "--data", other, "--part", "test")


# the encoding


def test_a_file_of_census_columns_is_encoded_as_census(census_run: Path, tmp_path: Path) -> None:
    source = census.read_census()
    names = ("age", "schooling", "hours", "gain", "loss", "employer", "marital", "occupation", "household",
             "region", "language", "sex", "birthplace", "income")  # fmt: skip
    columns = [source.column(name) for name in names]
    lines = [",".join(column.levels[column.codes[row]] for column in columns) for row in range(300)]
    file = tmp_path / "people.csv"
    file.write_text("\n".join([",".join(names), *lines]) + "\n", encoding="utf-8")
    model = read_model(census_run)
    found, expected = (predict(model, NewData(data=data)) for data in (str(file), "census"))
    np.testing.assert_allclose(found.score, expected.score[:300], rtol=1e-12, atol=1e-15)
    assert found.prediction == expected.prediction[:300]
    assert set(found.prediction) == {"low", "high"}
    assert evaluate(model, NewData(data=str(file)))["data"]["rows"] == 300


def by_hand(path: Path, low: float, high: float, theta: Vector) -> Vector:
    rows = table_of(path.read_text(encoding="utf-8"))
    age = np.clip([(float(row["age"]) - low) / (high - low) for row in rows], 0, 1)
    wards = np.array([[float(row["ward"] == ward) for ward in "abc"] for row in rows])
    X = np.column_stack([age, wards, np.ones(len(rows))])
    return np.asarray((X / np.linalg.norm(X, axis=1)[:, None]) @ theta)


def test_a_declared_schema_encodes_new_rows(people_run: Path, tmp_path: Path) -> None:
    model = read_model(people_run)
    assert model.encoding is None
    new = people(tmp_path / "new.csv", 40, 5, 30, 70)
    found = predict(model, NewData(data=str(new)))
    np.testing.assert_allclose(found.score, by_hand(new, 0, 100, model.consensus), rtol=1e-12)


def test_what_was_discovered_travels_with_the_model(open_run: Path, tmp_path: Path) -> None:
    model = read_model(open_run)
    assert model.encoding is not None
    assert model.encoding["labels"] == ["no", "yes"]
    new = people(tmp_path / "new.csv", 40, 5, 30, 95)  # other bounds, and one age above the old ones
    expected = by_hand(new, 20, 90, model.consensus)
    np.testing.assert_allclose(predict(model, NewData(data=str(new))).score, expected, rtol=1e-12)
    assert np.abs(by_hand(new, 30, 95, model.consensus) - expected).max() > 1e-3
    found = evaluate(model, NewData(data=str(new)))
    truth = np.array([row["sick"] == "yes" for row in table_of(new.read_text(encoding="utf-8"))])
    assert found["error"]["consensus"] == pytest.approx(np.mean((expected > 0) != truth))


def test_one_ward_is_enough(open_run: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("sick,ward,age\nyes,b,50\nno,b,60\n", encoding="utf-8")
    model = read_model(open_run)
    found = predict(model, NewData(data=str(new)))
    np.testing.assert_allclose(found.score, by_hand(new, 20, 90, model.consensus), rtol=1e-12)


def test_the_run_folder_says_what_was_discovered(open_run: Path, people_run: Path) -> None:
    assert not (people_run / "encoding.json").exists()
    encoding = json.loads((open_run / "encoding.json").read_text(encoding="utf-8"))
    assert encoding["columns"]["age"] | {"low": 20.0, "high": 90.0} == encoding["columns"]["age"]
    assert encoding["columns"]["ward"]["categories"] == ["a", "b", "c"]
    assert any("encoding.json" in note and "no budget" in note for note in summary_of(open_run)["notes"])


def test_a_private_run_discovers_with_consent_alone(tmp_path: Path) -> None:
    data = people(tmp_path / "train.csv", 120, 0, 20, 90)
    private: dict[str, Any] = {"data": str(data), "schema": OPEN, "positive": "yes", "algorithm": "pp-admm",
                               "epsilon": 100.0, "rounds": 1, "seed": None}  # fmt: skip
    with pytest.raises(RequestError, match="--data-dependent"):
        trained(tmp_path / "refused", **private)
    assert not (tmp_path / "refused").exists()
    model = read_model(trained(tmp_path / "run", **private, data_dependent=True))
    new = people(tmp_path / "new.csv", 40, 5, 30, 70)
    expected = by_hand(new, 20, 90, model.consensus)
    np.testing.assert_allclose(predict(model, NewData(data=str(new))).score, expected, rtol=1e-12)


def test_without_it_nothing_is_guessed(open_run: Path, tmp_path: Path, refused: Refused) -> None:
    copy = tmp_path / "run"
    shutil.copytree(open_run, copy)
    (copy / "encoding.json").unlink()
    new = people(tmp_path / "new.csv", 40, 5, 30, 70)
    assert "age.low and .high must be declared" in refused("predict", copy, "--data", new)
    (copy / "encoding.json").write_text("[1", encoding="utf-8")
    assert "encoding.json cannot be read as JSON" in refused("predict", copy, "--data", new)
    (copy / "encoding.json").write_text("[]", encoding="utf-8")
    assert "encoding.json must hold a table, got []" in refused("predict", copy, "--data", new)


def test_another_schema_by_config(open_run: Path, tmp_path: Path, refused: Refused) -> None:
    new = tmp_path / "new.csv"
    new.write_text("years,ward,state\n50,a,ill\n60,b,well\n", encoding="utf-8")
    settings = tmp_path / "other.toml"
    settings.write_text(
        """[data]
label = "state"
[data.schema]
labels = ["well", "ill"]
[data.schema.columns.age]
column = "years"
kind = "numeric"
low = 20
high = 90
[data.schema.columns.ward]
kind = "categorical"
categories = ["a", "b", "c"]
""",
        encoding="utf-8",
    )
    model = read_model(open_run)
    found = predict(model, NewData(data=str(new), config=settings))
    assert set(found.prediction) <= {"well", "ill"}
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(new.read_text(encoding="utf-8").replace("years", "age"), encoding="utf-8")
    np.testing.assert_allclose(found.score, by_hand(renamed, 20, 90, model.consensus), rtol=1e-12)
    assert evaluate(model, NewData(data=str(new), config=settings))["data"]["positive"] == "ill"
    text = settings.read_text(encoding="utf-8").replace('["a", "b", "c"]', '["a", "c", "b"]')
    settings.write_text(text, encoding="utf-8")
    message = refused("evaluate", open_run, "--data", new, "--config", settings)
    assert "feature 3 is 'ward=c', in the model it is 'ward=b' (5 and 5 features)" in message


def test_columns_of_a_plain_file_go_by_name(tmp_path: Path, refused: Refused) -> None:
    train, new = tmp_path / "train.csv", tmp_path / "new.csv"
    train.write_text(
        "a,b,y\n" + "".join(f"{k % 7},{1 + k % 5},{k % 2}\n" for k in range(40)), encoding="utf-8"
    )
    folder = trained(tmp_path / "run", data=str(train), label="y", no_intercept=True)
    model = read_model(folder)
    new.write_text("b,a\n4,3\n12,5\n", encoding="utf-8")
    found = predict(model, NewData(data=str(new)))
    np.testing.assert_allclose(found.score, np.array([[0.6, 0.8], [5 / 13, 12 / 13]]) @ model.consensus)
    assert set(found.prediction) <= {"-1", "+1"}
    new.write_text("b,a,c\n4,3,1\n", encoding="utf-8")
    assert "does not declare 'c'" in refused("predict", folder, "--data", new)
    new.write_text("b\n4\n", encoding="utf-8")
    assert "new.csv has no column 'a'; it has 'b'" in refused("predict", folder, "--data", new)


def test_a_data_set_of_other_features(people_run: Path, census_run: Path, refused: Refused) -> None:
    message = refused("evaluate", people_run, "--data", "census")
    assert (
        "census: feature 2 is 'age-bin=[17,20)', in the model it is 'ward=a' (109 and 5 features)" in message
    )
    message = refused("predict", people_run, "--data", "nothing-here")
    assert "unknown data 'nothing-here'" in message
    assert "nothing-here.csv does not exist" in refused("predict", people_run, "--data", "nothing-here.csv")


@pytest.mark.parametrize("command", ["evaluate", "predict"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,age,ward,sick\n1,30,a,no\n2,nan,a,no\n", "new.csv, line 3, column 'age': 'nan' is not finite"),
        ("id,age,ward,sick\n1,30,a,no\n2,,a,no\n", "new.csv, line 3, column 'age': '' is no number"),
        ("id,age,ward,sick\n1,30,q,no\n", "new.csv, line 2, column 'ward': undeclared category 'q'"),
        ("id,ward,sick\n1,a,no\n", "new.csv has no column 'age'; it has 'id', 'ward', 'sick'"),
        ("id,age,ward,sick,x\n1,30,a,no,1\n", "new.csv: [data.schema] does not declare 'x'"),
        ("id,age,ward,sick\n1,30,a\n", "new.csv, line 2: 3 values, expected 4"),
        ("id,age,ward,sick\n", "new.csv has a header and no records"),
    ],
)
def test_faulty_rows_are_refused_as_in_training(
    command: str, text: str, words: str, people_run: Path, tmp_path: Path, refused: Refused
) -> None:
    new = tmp_path / "new.csv"
    new.write_text(text, encoding="utf-8")
    assert words in refused(command, people_run, "--data", new)


# labels


def test_labels_are_needed_for_errors_alone(people_run: Path, tmp_path: Path, refused: Refused) -> None:
    new = people(tmp_path / "new.csv", 20, 5, 30, 70, label=False)
    assert "new.csv has no column 'sick'" in refused("evaluate", people_run, "--data", new)
    bare = predict(read_model(people_run), NewData(data=str(new)))
    odd = tmp_path / "odd.csv"
    lines = new.read_text(encoding="utf-8").splitlines()
    odd.write_text(
        "\n".join([lines[0] + ",sick", *(f"{line},who knows" for line in lines[1:])]), encoding="utf-8"
    )
    np.testing.assert_array_equal(predict(read_model(people_run), NewData(data=str(odd))).score, bare.score)
    message = refused("evaluate", people_run, "--data", odd)
    assert "odd.csv, line 2, column 'sick': undeclared label 'who knows'" in message


def test_the_label_column_may_have_another_name(people_run: Path, tmp_path: Path, refused: Refused) -> None:
    new = people(tmp_path / "new.csv", 20, 5, 30, 70)
    model = read_model(people_run)
    expected = evaluate(model, NewData(data=str(new)))["error"]
    new.write_text(new.read_text(encoding="utf-8").replace("sick", "state"), encoding="utf-8")
    assert evaluate(model, NewData(data=str(new), label="state"))["error"] == expected
    assert len(predict(model, NewData(data=str(new), label="state")).row) == 20
    assert "has no column 'sick'" in refused("evaluate", people_run, "--data", new)


def test_flags_must_not_contradict_the_model(
    people_run: Path, open_run: Path, tmp_path: Path, refused: Refused
) -> None:
    new = people(tmp_path / "new.csv", 20, 5, 30, 70)
    for folder in (people_run, open_run):
        model = read_model(folder)
        same = evaluate(model, NewData(data=str(new), positive="yes", features=4))
        assert same["error"] == evaluate(model, NewData(data=str(new)))["error"]
        message = refused("evaluate", folder, "--data", new, "--positive", "no")
        assert "trained with 'yes' as +1, 'no' as -1" in message
    assert "--features 9: the model has 4" in refused("predict", people_run, "--data", new, "--features", "9")
    assert "features = 'x' is not allowed" in refused("predict", people_run, "--data", new, "--features", "x")
    assert "the model has an intercept" in refused("predict", people_run, "--data", new, "--no-intercept")
    assert "--label y goes with a csv" in refused("predict", people_run, "--data", "census", "--label", "y")


def test_npz_and_libsvm(tmp_path: Path, refused: Refused) -> None:
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
    assert "must hold the arrays X and y, its keys are: X" in refused(
        "evaluate", folder, "--data", tmp_path / "new.npz"
    )
    np.savez(tmp_path / "new.npz", X=X[:, :2])
    assert "X has 2 columns, expected 3" in refused("predict", folder, "--data", tmp_path / "new.npz")
    np.savez(tmp_path / "new.npz", X=np.where(X[4, 1] == X, np.nan, X))
    assert "new.npz, row 5, column x2: nan is not finite" in refused(
        "predict", folder, "--data", tmp_path / "new.npz"
    )
    np.savez(tmp_path / "new.npz", y=y)
    assert "must hold the array X, its keys are: y" in refused(
        "predict", folder, "--data", tmp_path / "new.npz"
    )
    (tmp_path / "new.svm").write_text("1 4:2\n", encoding="utf-8")
    assert "line 1, index 4: above the width 3" in refused("predict", folder, "--data", tmp_path / "new.svm")


def test_a_discovered_width_is_kept(tmp_path: Path) -> None:
    train, new = tmp_path / "train.svm", tmp_path / "new.svm"
    train.write_text("".join(f"{k % 2} 1:{k % 3} {4 + k % 2}:1\n" for k in range(20)), encoding="utf-8")
    folder = trained(tmp_path / "run", data=str(train))
    new.write_text("x 1:1\n", encoding="utf-8")
    model = read_model(folder)
    assert model.encoding == {"features": 5}
    found = predict(model, NewData(data=str(new)))
    np.testing.assert_allclose(found.score, (model.consensus[0] + model.consensus[5]) / math.sqrt(2))


# the commands


def test_evaluate_prints_what_json_holds(people_run: Path, tmp_path: Path, capsys: CAPTURE) -> None:
    new = people(tmp_path / "new.csv", 40, 5, 30, 70)
    words = ["evaluate", str(people_run), "--data", str(new)]
    assert run_command_line([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts) == ["run", "data", "error", "majority_error", "log_loss", "confusion", "per_agent"]
    assert list(facts["error"]) == ["consensus", "mean", "std"]
    assert facts["data"] == {
        "name": "new.csv",
        "part": "all",
        "rows": 40,
        "negative": "no",
        "positive": "yes",
    }
    assert [entry["agent"] for entry in facts["per_agent"]] == [0, 1]
    assert run_command_line(words) == 0
    said = capsys.readouterr()
    assert said.err == ""
    for shown in (
        "new.csv: 40 rows",
        f"{100 * facts['error']['consensus']:.2f}% of the consensus",
        f"{100 * facts['error']['mean']:.2f}% +- {100 * facts['error']['std']:.2f}% over agents",
        f"{100 * facts['majority_error']:.2f}%",
        f"{facts['log_loss']:.4f} nats",
        f"label 'yes': {facts['confusion']['true_positive']} predicted 'yes', "
        f"{facts['confusion']['false_negative']} 'no'",
        f"label 'no': {facts['confusion']['false_positive']} predicted 'yes', "
        f"{facts['confusion']['true_negative']} 'no'",
    ):
        assert shown in said.out


def test_predict_writes_one_line_a_row(people_run: Path, tmp_path: Path, capsys: CAPTURE) -> None:
    new = people(tmp_path / "new.csv", 40, 5, 30, 70, label=False)
    words = ["predict", str(people_run), "--data", str(new)]
    assert run_command_line(words) == 0
    printed = capsys.readouterr().out
    assert run_command_line([*words, "-o", str(tmp_path / "out.csv")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == printed
    rows = table_of(printed)
    assert list(rows[0]) == ["row", "score", "probability", "prediction"]
    assert [int(row["row"]) for row in rows] == list(range(1, 41))
    found = predict(read_model(people_run), NewData(data=str(new)))
    assert [float(row["score"]) for row in rows] == found.score.tolist()
    for row in rows:
        score = float(row["score"])
        assert float(row["probability"]) == pytest.approx(1 / (1 + math.exp(-score)), rel=1e-12)
        assert row["prediction"] == ("yes" if score > 0 else "no")
    assert {row["prediction"] for row in rows} == {"yes", "no"}


def test_one_agents_vector(people_run: Path, tmp_path: Path, refused: Refused, capsys: CAPTURE) -> None:
    new = people(tmp_path / "new.csv", 10, 5, 30, 70)
    model = read_model(people_run)
    words = ["predict", str(people_run), "--data", str(new), "--agent"]
    for agent in (0, 1):
        assert run_command_line([*words, str(agent)]) == 0
        score = [float(row["score"]) for row in table_of(capsys.readouterr().out)]
        np.testing.assert_allclose(score, by_hand(new, 0, 100, model.theta[agent]), rtol=1e-12)
    assert not np.allclose(model.theta[0], model.theta[1], rtol=1e-9)
    for stranger in ("2", "-1"):
        assert f"--agent {stranger}: the run has the agents 0 to 1" in refused(*words, stranger)


def test_predict_leaves_its_input_alone(people_run: Path, tmp_path: Path, refused: Refused) -> None:
    new = people(tmp_path / "new.csv", 10, 5, 30, 70)
    before = new.read_bytes()
    assert "is the file of --data" in refused("predict", people_run, "--data", new, "-o", new)
    assert new.read_bytes() == before
    assert "cannot write" in refused("predict", people_run, "--data", new, "-o", tmp_path / "no" / "out.csv")


def test_probabilities_of_extreme_scores_are_finite(people_run: Path, tmp_path: Path) -> None:
    model = read_model(people_run)
    new = people(tmp_path / "new.csv", 10, 5, 30, 70)
    huge = Model(model.folder, model.theta, 1e5 * model.consensus, model.feature_names, model.config, None)
    probability = predict(huge, NewData(data=str(new))).probability
    assert np.all((probability >= 0) & (probability <= 1))
    assert {0.0, 1.0} <= set(np.round(probability, 6).tolist())


def test_words_of_the_commands(people_run: Path, refused: Refused) -> None:
    assert "Missing option '--data'" in refused("evaluate", people_run)
    assert "nothing-here has no model.npz" in refused("evaluate", "nothing-here", "--data", "census")
    assert "'--part': 'half' is not one of" in refused(
        "evaluate", people_run, "--data", "census", "--part", "half"
    )


def test_unfinished_and_damaged_folders(people_run: Path, tmp_path: Path, refused: Refused) -> None:
    new = people(tmp_path / "new.csv", 10, 5, 30, 70)
    copy = tmp_path / "run"
    shutil.copytree(people_run, copy)
    whole = (copy / "model.npz").read_bytes()
    model = read_model(copy)
    names = np.array(model.feature_names)
    for content in (b"", b"PK\x03\x04 not really", whole[:200], whole[:-200]):
        (copy / "model.npz").write_bytes(content)
        assert "model.npz is no sound model" in refused("predict", copy, "--data", new)
    for arrays in (
        {"theta": model.theta, "consensus": model.consensus},
        {"theta": model.theta, "consensus": model.consensus, "feature_names": names[1:]},
        {"theta": model.theta * np.nan, "consensus": model.consensus, "feature_names": names},
        {"theta": model.theta, "consensus": model.consensus, "feature_names": names.astype(object)},
    ):
        np.savez(copy / "model.npz", **arrays)
        assert "model.npz is no sound model" in refused("predict", copy, "--data", new)
    (copy / "model.npz").unlink()
    assert "has no model.npz: name the folder of a finished run" in refused("predict", copy, "--data", new)
    (copy / "model.npz").write_bytes(whole)
    (copy / "config.toml").unlink()
    assert "cannot read the config file" in refused("predict", copy, "--data", new)


def test_unknown_agents_of_the_library(people_run: Path) -> None:
    with pytest.raises(RequestError, match="--agent 5: the run has the agents 0 to 1"):
        read_model(people_run).vector(5)
