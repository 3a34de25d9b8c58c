"""What sums before the first round have told: whitened and raw rows of new files, coefficients, what is released."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from admmnet import run
from admmnet.predict import noise
from admmnet.predict.apply import NewData, evaluate, rows_for
from admmnet.predict.export import released
from admmnet.predict.model import read_model
from admmnet.predict.noise import coefficients, noise_of
from admmnet.record.encoding import Found
from admmnet.types import Matrix, Vector
from tests.command_runs import Admmnet
from tests.people_runs import summary_of
from tests.predict.test_model_commands import agreeing, predicted
from tests.running.raw_runs import ENCODING, loader, raw_config
from tests.trained_models import SCHEMA, people, table_of, trained


@pytest.fixture(scope="module")
def whitened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whitened")
    data, test = people(folder / "train.csv", 300, 0, 20, 90), people(folder / "test.csv", 90, 1, 20, 90)
    settings = {"algorithm": "noisy-gd", "whiten": "on", "epsilon": 20.0, "delta": 1e-3, "rounds": 6}
    settings["encode"] = "declared"
    return trained(folder / "run", data=str(data), test=str(test), schema=SCHEMA, topology="ring:3", **settings)


def test_new_rows_are_whitened_as_the_run_s(whitened: Path) -> None:
    model, new = read_model(whitened), NewData(data=str(whitened.parent / "test.csv"))
    error = summary_of(whitened)["test_error"]
    found = evaluate(model, new)["error"]
    assert (found["consensus"], found["mean"]) == (error["consensus"], error["mean"])
    assert evaluate(dataclasses.replace(model, found=Found()), new)["error"]["consensus"] != error["consensus"]


def test_coefficients_are_those_of_the_features(whitened: Path, admmnet: Admmnet) -> None:
    model, new = read_model(whitened), NewData(data=str(whitened.parent / "test.csv"))
    A, deviation = model.found.whitening, noise_of(model).deviation
    assert A is not None
    assert deviation is not None
    facts = coefficients(model)
    said = {row["feature"]: row for row in facts["coefficients"]}
    shown = np.array([said[name]["coefficient"] for name in model.feature_names])
    X = rows_for(dataclasses.replace(model, found=Found()), new).X_test
    whole = rows_for(model, new).X_test @ model.consensus
    np.testing.assert_allclose(X @ shown / np.linalg.norm(X @ A, axis=1), whole, rtol=1e-9)
    for name, row, own in zip(model.feature_names, A, deviation, strict=True):
        assert said[name]["deviation"] == pytest.approx(own * np.linalg.norm(row), rel=1e-12)
    assert facts["whitened"]
    assert "times a positive factor of the row" in admmnet.ok("model", "show", whitened).out


def test_sums_before_the_first_round_are_no_noise_of_the_steps(whitened: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def response(steps: int, contraction: Vector) -> Matrix:
        seen.append(steps)
        return np.ones((steps, 1))

    monkeypatch.setattr(noise, "descent_response", response)
    noise_of(read_model(whitened))
    assert seen == [6]


def test_the_page_s_numpy_predicts_for_whitened_rows(whitened: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    page = agreeing(whitened, whitened.parent / "test.csv", tmp_path, admmnet)
    assert page["model"]["format"] == "admmnet-model 2", "a reader of the first would leave the whitening out"


KINDS = {"label": "sick", "labels": ["no", "yes"], "drop": ["id"], "numeric": ["age"], "categorical": ["ward"]}


def test_a_raw_file_in_predictions_out(tmp_path: Path, admmnet: Admmnet) -> None:
    data, test = people(tmp_path / "train.csv", 400, 0, 20, 90), people(tmp_path / "test.csv", 90, 1, 20, 90)
    lines = test.read_text().splitlines()
    for k, age in enumerate(("", "1e300", "NA", "-5"), start=1):
        lines[k] = re.sub(",[^,]*", f",{age}", lines[k], count=1)
    test.write_text("\n".join(lines) + "\n")
    settings = {"algorithm": "noisy-gd", "encode": "private", "epsilon": 50.0, "delta": 1e-3, "rounds": 6}
    files = {"data": str(data), "test": str(test), "schema": KINDS, "topology": "ring:3"}
    folder = trained(tmp_path / "run", **files, whiten="on", **settings)
    error = summary_of(folder)["test_error"]["consensus"]
    assert error < 0.4
    said = [row["prediction"] for row in predicted(folder, test, admmnet)]
    truth = [row["sick"] for row in table_of(test.read_text())]
    assert np.mean([a != b for a, b in zip(said, truth, strict=True)]) == error
    assert evaluate(read_model(folder), NewData(data=str(test)))["error"]["consensus"] == error
    bare = test.with_name("bare.csv")
    bare.write_text("\n".join(";".join(reversed(line.split(",")[:-1])) for line in lines) + "\n")
    words = ("predict", folder, "--data", bare, "--separator", ";")  # other order, no labels, other marks
    assert [row["prediction"] for row in table_of(admmnet.ok(*words).out)] == said
    bare.write_text(test.read_text().replace(",", ";").replace("1e300", "31,1"))
    for command in ("predict", "evaluate"):  # such a text would count as missing without a word
        assert "line 3, column 'age': '31,1' is no number; declare decimal" in admmnet.refused(command, *words[1:])
    names = {row["feature"] for row in coefficients(read_model(folder))["coefficients"]}
    assert {"age=20%", "age", "age=missing", "ward#3", "intercept"} <= names


def test_columns_as_they_were_measured(tmp_path: Path, admmnet: Admmnet) -> None:
    folder = run(raw_config(tmp_path / "one", rounds=1), loader=loader).folder
    facts = released(folder)
    assert (facts["mode"], facts["encoding_from"]) == ("simulation", None)
    assert facts["stages"] == ["bounds", "shape", "whiten"]
    assert [entry["kind"] for entry in facts["columns"]] == ["number", "words", "number", "number"]
    assert sum(entry["features"] for entry in facts["columns"]) + 1 == ENCODING.width == facts["whitening"]["features"]
    first, _, _, last = facts["columns"]
    assert first["low"] < 1e3 < first["high"]
    quantiles = list(first["quantiles"].values())
    assert quantiles == sorted(quantiles)
    assert last["quantiles"]["0.5"] == pytest.approx(0.5, abs=0.05)
    assert "nothing is protected" in admmnet.ok("data", "check", "--run", folder).out
    assert admmnet.json("data", "check", "--run", folder) == facts
    noisy = run(raw_config(tmp_path / "noisy", rounds=1, epsilon=0.02), loader=loader).folder
    assert any(entry["low"] is None for entry in released(noisy)["columns"] if entry["kind"] == "number")
    assert "drowned by noise, or not measured" in admmnet.ok("data", "check", "--run", noisy).out
    plain = run(raw_config(tmp_path / "plain", data="census", encode="declared", whiten="off", rounds=1)).folder
    for words, match in (
        (["--json"], "--json goes with --run"),
        (["adult", "--run", "."], "adult does not go with --run: leave it out"),
        (["--run", ".", "--balance"], "--balance does not go with --run"),
        (["--run", "nowhere"], "nowhere is no run folder"),
        (["--run", plain], "has measured nothing of its records"),
    ):
        assert match in admmnet.refused("data", "check", *words)
