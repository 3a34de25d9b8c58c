"""admmnet model show | export: what is printed is what the folder holds; numpy by the page predicts the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from admmnet import run
from admmnet.predict.model import read_model
from admmnet.predict.noise import noise_of
from tests.command_runs import Admmnet
from tests.doc_pages import ROOT
from tests.people_runs import seal
from tests.trained_models import SCHEMA, people, table_of, trained, trained_on_people

FILE = ROOT / "docs" / "read_model.py"
PARTS = ("coefficients", "intercept"), ("deviation", "intercept_deviation")
ANIMALS = np.array(["ape", "bee", "cat"])
RAW = [("?", "a"), ("1e9", "c"), ("-inf", "b"), ("17.25", "a")]
"""Ages and wards, some of which are no numbers."""


@pytest.fixture(scope="module")
def people_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    return trained_on_people(
        folder, algorithm="noisy-gd", rounds=4, epsilon=20.0, schema=SCHEMA, topology="ring:3", whiten="off"
    )


# show


def test_show_and_the_export_hold_what_json_holds(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    facts = admmnet.json("model", "show", people_run)
    model, noise = read_model(people_run), noise_of(read_model(people_run))
    assert noise.deviation is not None
    rows, names = facts["coefficients"], {row["feature"]: row for row in facts["coefficients"]}
    for name, value, deviation in zip(model.feature_names, model.consensus, noise.deviation, strict=True):
        own = {"coefficient": value, "deviation": deviation, "beyond": abs(value) > 2.0 * deviation}
        assert names[name] == {"feature": name, **own}
    assert rows == sorted(rows, key=lambda row: -abs(row["coefficient"]))
    assert facts["beyond"] == sum(row["beyond"] for row in rows)
    assert facts["beyond_of_noise"] == pytest.approx(0.0455 * len(names), rel=1e-3)
    assert facts["labels"] == ["no", "yes"]
    admmnet.ok("model", "export", people_run, "-o", tmp_path / "model.json")
    held = json.loads((tmp_path / "model.json").read_text())
    found = [[*held[key][0], *held[last]] for key, last in PARTS]
    assert [*held["features"], "intercept"] == list(model.feature_names)
    assert found == [model.consensus.tolist(), noise.deviation.tolist()]
    said = admmnet.ok("model", "show", people_run, "--top", "2")
    assert said.err == ""
    assert [f" {row['feature']} " in said.out for row in rows] == [True] * 2 + [False] * (len(rows) - 2)
    assert f"2 of {len(names)} coefficients" in said.out
    assert "known at most" in said.out
    assert "eq. (104)" in said.out


def test_agents_classes_and_no_noise(tmp_path: Path, admmnet: Admmnet) -> None:
    X, data = np.random.default_rng(1).standard_normal((300, 3)), tmp_path / "classes.npz"
    np.savez(data, X=X, y=ANIMALS[np.digitize(X[:, 0], [-0.5, 0.5])])
    given: dict[str, Any] = {"rounds": "auto", "epsilon": 50.0, "delta": 1e-3, "algorithm": "ssp", "data": str(data)}
    trained(tmp_path / "classes", **given, schema={"features": 3, "labels": ANIMALS.tolist()})
    facts = admmnet.json("model", "show", tmp_path / "classes", "--agent", "1")
    assert facts["vector"] == "agent 1"
    assert [row["class"] for row in facts["coefficients"]].count("bee") == 4
    assert (facts["noise"]["known"], facts["noise"]["equation"]) == ("about", "(105)")
    assert admmnet.ok("model", "show", tmp_path / "classes", "--agent", "1").out.count(" bee ") == 4
    found = admmnet.ok("predict", tmp_path / "classes", "--data", data)
    assert {row["probability"] for row in table_of(found.out)} == {""}
    assert "no probabilities: the scores of loss = 'squared' are no log-odds" in found.err
    said = admmnet.ok("model", "show", trained(tmp_path / "plain", rounds=3), "--top", "3").out
    assert "admm adds no noise" in said
    assert "standard deviation" not in said


def test_ledgers_that_are_elsewhere_or_do_not_hold(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    folder = Path(shutil.copytree(people_run, tmp_path / "run"))
    ledger = folder / "ledger" / "agent-001.jsonl"
    text = ledger.read_text()
    ledger.write_text(text.replace('"sigma":', '"sigma":1', 1))
    seal(folder)
    assert "agent-001.jsonl" in admmnet.refused("model", "show", folder, code=1)
    ledger.unlink()
    said = admmnet.ok("model", "show", folder).out
    assert "the noise follows from all agents' ledgers, but those of 1 are not in this folder" in said
    assert "standard deviation" not in said


def test_names_of_features_neither_fail_nor_steer_the_terminal(tmp_path: Path, admmnet: Admmnet) -> None:
    names = ("dose [/mg]", "[bold]b[/bold]", "c\x1b[31m\u202e")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list(names)).assign(y=rng.integers(0, 2, 60))
    run(data=frame, label="y", algorithm="noisy-gd", rounds=2, seed=0, out=tmp_path / "run")
    said = admmnet.ok("model", "show", tmp_path / "run").out
    assert "dose [/mg]" in said
    assert "[bold]b[/bold]" in said
    assert "c?[31m?" in said


# export


def by_the_file(model: Path) -> dict[str, Any]:
    """Names that the file which docs/results.md links to defines, run beside a model.json."""
    names: dict[str, Any] = {}
    code = FILE.read_text().replace('"model.json"', repr(str(model)))
    exec(code, names)
    return names


def predicted(folder: Path, data: Path, admmnet: Admmnet, *words: str) -> list[dict[str, str]]:
    return table_of(admmnet.ok("predict", folder, "--data", data, *words).out)


def agreeing(folder: Path, data: Path, place: Path, admmnet: Admmnet, *agent: str) -> dict[str, Any]:
    """Names of the page's file, which says of all rows what `admmnet predict` says; both forms of export are equal."""
    for ending in ("json", "npz"):
        file = place / f"model.{ending}"
        assert admmnet.ok("model", "export", folder, "-o", file, *agent).out == f"model: {file}\n"
    page, told = by_the_file(place / "model.json"), predicted(folder, data, admmnet, *agent)
    rows = np.load(data)["X"] if data.suffix == ".npz" else table_of(data.read_text())
    if page["model"]["measured"] is not None and data.suffix == ".npz":
        rows = [{f"x{k}": repr(float(value)) for k, value in enumerate(row, start=1)} for row in rows]
    if isinstance(rows, list):
        rows = np.array([*map(page["features"], rows)], dtype=float)
    scores = [float(row["score"]) for row in told]
    np.testing.assert_allclose(page["scores"](rows).max(axis=1), scores, rtol=1e-9, atol=1e-12)
    found = page["predictions"](rows)
    if page["model"]["task"] == "real":
        np.testing.assert_allclose(found, [float(row["prediction"]) for row in told], rtol=1e-9)
    else:
        assert found == [row["prediction"] for row in told]
    with np.load(place / "model.npz", allow_pickle=False) as archive:
        for name, value in page["model"].items():
            assert (name in archive) == (value is not None)
            if value is not None:
                kept = archive[name]
                assert (json.loads(str(kept)) if isinstance(value, dict) else kept.tolist()) == value
    return page


@pytest.mark.parametrize("agent", [[], ["--agent", "2"]], ids=["consensus", "agent"])
def test_the_page_s_numpy_predicts_as_admmnet_does(
    agent: list[str], people_run: Path, tmp_path: Path, admmnet: Admmnet
) -> None:
    new = people(tmp_path / "new.csv", 50, 5, 10, 99, label=False)
    page = agreeing(people_run, new, tmp_path, admmnet, *agent)
    assert {row["prediction"] for row in predicted(people_run, new, admmnet, *agent)} == {"no", "yes"}
    with pytest.raises(ValueError, match="undeclared category 'z'"):
        page["features"]({"age": "40", "ward": "z"})


WARDS = {"kind": "categorical", "column": "ward"}
SCALES: dict[str, dict[str, Any]] = {
    "age": {"kind": "numeric", "low": 0, "high": 100, "scale": "centred", "weight": 2.0, "missing": 20.0},
    "log": {"kind": "numeric", "column": "age", "low": 10, "high": 80, "scale": "log", "missing": "indicator"},
    "raw": {"kind": "numeric", "column": "age", "scale": "none", "weight": 0.01, "missing": 20.0},
    "bin": {"kind": "numeric", "column": "age", "edges": [30, 50, 70], "missing": "indicator"},
    "ward": {"kind": "categorical", "groups": {"x": ["a"], "y": ["b"]}, "other": True, "weight": 0.5},
    "gone-ward": {**WARDS, "categories": ["a", "b"], "other": True, "missing": "indicator"},
    "as-b": {**WARDS, "categories": ["a", "b", "c"], "missing": "b"},
}
KINDS: dict[str, Any] = {key: SCHEMA[key] for key in ("label", "labels", "drop")} | {"numeric": ["age"]}
CLOSED = {"columns": {"ward": {"kind": "categorical", "categories": ["a", "b", "c"]}}}


@pytest.mark.parametrize(
    ("cells", "how"),
    [
        ([("", "a"), ("41", "?"), ("NA", "")], {"schema": SCHEMA | {"columns": SCALES}}),
        (RAW, {"encode": "private", "epsilon": 0.01, "schema": KINDS | CLOSED}),
        (RAW, {"encode": "private", "epsilon": 8.0, "schema": KINDS | {"categorical": ["ward"]}}),
    ],
    ids=["declared", "drowned", "measured"],
)
def test_every_kind_of_column(
    cells: list[tuple[str, str]], how: dict[str, Any], tmp_path: Path, admmnet: Admmnet
) -> None:
    data = people(tmp_path / "train.csv", 1200, 0, 5, 95)
    lines = data.read_text().splitlines()
    lines[3 : 3 + len(cells)] = [f"0,{age},{ward},no" for age, ward in cells]
    data.write_text("\n".join(lines) + "\n")
    folder = trained(tmp_path / "run", data=str(data), algorithm="noisy-gd", delta=1e-4, **{"rounds": 2, **how})
    page = agreeing(folder, data, tmp_path, admmnet)
    assert len(page["model"]["features"]) == len(read_model(folder).feature_names) - 1
    with pytest.raises(ValueError, match="31,1"):
        page["features"]({"age": "31,1", "ward": "a"})


WIDTH: dict[str, Any] = {"features": 4}


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("classes", {"schema": WIDTH | {"labels": ANIMALS.tolist()}}),
        ("real", {"schema": WIDTH | {"targets": [0, 80]}, "centre": "30"}),
        ("no intercept", {"schema": WIDTH, "no_intercept": True}),
        ("as they are", {"schema": WIDTH, "no_intercept": True, "normalise": "none"}),
        ("measured", {"schema": WIDTH, "encode": "private"}),
    ],
)
def test_models_of_other_labels_and_rows(kind: str, how: dict[str, Any], tmp_path: Path, admmnet: Admmnet) -> None:
    X = np.random.default_rng(2).standard_normal((300, 4)) / (10.0 if kind == "as they are" else 1.0)
    labels = {"classes": ANIMALS[np.digitize(X[:, 0], [-0.5, 0.5])], "real": 50.0 + 10.0 * X[:, 0]}
    data = tmp_path / "data.npz"
    np.savez(data, X=X, y=labels.get(kind, np.where(X[:, 0] > 0.0, 1, -1)))
    folder = trained(tmp_path / "run", algorithm="noisy-gd", epsilon=20.0, delta=1e-3, data=str(data), **how)
    agreeing(folder, data, tmp_path, admmnet)
    said = admmnet.ok("model", "show", folder).out
    assert ("in a row as it is;" in said, "score times 50 plus 30" in said) == (kind == "as they are", kind == "real")


def test_what_cannot_be_shown_or_exported(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    assert "name the folder of a finished run" in admmnet.refused("model", "show", tmp_path)
    assert "--top" in admmnet.refused("model", "show", people_run, "--top", "0")
    projected = trained(tmp_path / "projected", project=5)
    for folder, out, words in (
        (people_run, tmp_path / "model.onnx", "must end in .json or .npz"),
        (people_run, people_run / "m.json", "lies in the run folder"),
        (people_run, tmp_path / "none" / "m.json", "no such folder"),
        (projected, tmp_path / "m.json", "--project 5, which a file cannot carry: take `admmnet predict`"),
    ):
        assert words in admmnet.refused("model", "export", folder, "-o", out)
    assert [path.name for path in tmp_path.iterdir()] == ["projected"]
