"""admmnet model show | export: what is printed is what the folder holds; numpy by the page predicts the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from admmnet import RunConfig, run
from admmnet.predict.model import read_model
from admmnet.predict.noise import coefficients, noise_of
from tests.command_runs import Admmnet
from tests.doc_pages import ROOT
from tests.people_runs import seal
from tests.trained_models import SCHEMA, people, table_of, trained, trained_on_people

FILE = ROOT / "docs" / "read_model.py"


@pytest.fixture(scope="module")
def people_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    return trained_on_people(
        folder, algorithm="noisy-gd", rounds=4, epsilon=20.0, schema=SCHEMA, topology="ring:3", whiten="off"
    )


# show


def test_show_prints_what_json_holds(people_run: Path, admmnet: Admmnet) -> None:
    facts = admmnet.json("model", "show", people_run)
    model, noise = read_model(people_run), noise_of(read_model(people_run))
    assert noise.deviation is not None
    names = {row["feature"]: row for row in facts["coefficients"]}
    for name, value, deviation in zip(model.feature_names, model.consensus, noise.deviation, strict=True):
        assert names[name]["coefficient"] == value
        assert names[name]["deviation"] == deviation
        assert names[name]["beyond"] == (abs(value) > 2.0 * deviation)
    sizes = [abs(row["coefficient"]) for row in facts["coefficients"]]
    assert sizes == sorted(sizes, reverse=True)
    assert facts["beyond"] == sum(row["beyond"] for row in facts["coefficients"])
    assert facts["beyond_of_noise"] == pytest.approx(0.0455 * len(names), rel=1e-3)
    assert facts["labels"] == ["no", "yes"]
    said = admmnet.ok("model", "show", people_run, "--top", "2")
    assert said.err == ""
    shown = [row["feature"] for row in facts["coefficients"]]
    assert all(name in said.out for name in shown[:2])
    assert not any(f" {name} " in said.out for name in shown[2:])
    assert f"2 of {len(names)} coefficients" in said.out
    assert "known at most" in said.out
    assert "deviation: standard deviation of the privacy noise in a coefficient" in said.out
    rows = [line.split() for line in said.out.splitlines() if line.strip().startswith(tuple(shown[:2]))]
    assert [row[-1] for row in rows] == [{True: "yes", False: "no"}[row["beyond"]] for row in facts["coefficients"][:2]]
    assert "eq. (104)" in said.out
    assert "'yes' is predicted where the score is positive, else 'no'" in said.out


def test_pure_noise_is_seen_as_such(tmp_path: Path, admmnet: Admmnet) -> None:
    data = str(people(tmp_path / "train.csv", 60, 0, 20, 90))
    out = str(tmp_path / "run")
    run(RunConfig(data=data, schema=SCHEMA, algorithm="noisy-gd", epsilon=0.01, delta=1e-4, seed=1, out=out))
    said = admmnet.ok("model", "show", out).out
    assert "beyond: 0" in " ".join(said.split())
    assert "none of them can be told from noise" in said


def test_agents_classes_targets_and_no_noise(tmp_path: Path, admmnet: Admmnet) -> None:
    stream = np.random.default_rng(1)
    X = stream.standard_normal((300, 3))
    kinds = np.array(["ape", "bee", "cat"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    np.savez(tmp_path / "classes.npz", X=X, y=kinds)
    np.savez(tmp_path / "real.npz", X=X, y=50.0 + 10.0 * X[:, 0])
    given: dict[str, Any] = {"topology": "ring:3", "epsilon": 50.0, "delta": 1e-3, "seed": 0, "algorithm": "ssp"}
    schemas = {"classes": {"labels": ["ape", "bee", "cat"], "features": 3}, "real": {"targets": [0, 80], "features": 3}}
    for name, schema in schemas.items():
        run(RunConfig(**given, data=str(tmp_path / f"{name}.npz"), schema=schema, out=str(tmp_path / name)))
    said = admmnet.ok("model", "show", tmp_path / "classes", "--agent", "1").out
    assert "agent 1" in said
    assert "12 of 12" in said
    assert said.count(" bee ") == 4
    assert "known about" in said
    assert "eq. (105)" in said
    assert "the class of the largest score" in said
    assert "score times 40 plus 40" in admmnet.ok("model", "show", tmp_path / "real").out
    plain = trained(tmp_path / "plain")
    said = admmnet.ok("model", "show", plain, "--top", "3").out
    assert "known none added" in said
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


def test_what_cannot_be_shown(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    assert "name the folder of a finished run" in admmnet.refused("model", "show", tmp_path)
    assert "the run has the agents 0 to 2" in admmnet.refused("model", "show", people_run, "--agent", "3")
    assert "--top" in admmnet.refused("model", "show", people_run, "--top", "0")


# export


def by_the_file(model: Path) -> dict[str, Any]:
    """Names that the file which docs/results.md links to defines, run beside a model.json."""
    names: dict[str, Any] = {}
    code = FILE.read_text().replace('"model.json"', repr(str(model)))
    exec(code, names)
    return names


def predicted(folder: Path, data: Path, admmnet: Admmnet, *words: str) -> list[dict[str, str]]:
    return table_of(admmnet.ok("predict", folder, "--data", data, *words).out)


@pytest.mark.parametrize("agent", [[], ["--agent", "2"]], ids=["consensus", "agent"])
def test_the_page_s_numpy_predicts_as_admmnet_does(
    agent: list[str], people_run: Path, tmp_path: Path, admmnet: Admmnet
) -> None:
    file, new = tmp_path / "model.json", people(tmp_path / "new.csv", 50, 5, 10, 99, label=False)
    assert admmnet.ok("model", "export", people_run, "-o", file, *agent).out == f"model: {file}\n"
    page = by_the_file(file)
    rows = np.array([page["features"](row) for row in table_of(new.read_text())])
    told = predicted(people_run, new, admmnet, *agent)
    np.testing.assert_allclose(page["scores"](rows)[:, 0], [float(row["score"]) for row in told], rtol=1e-12)
    assert page["predictions"](rows) == [row["prediction"] for row in told]
    assert {row["prediction"] for row in told} == {"no", "yes"}


@pytest.mark.parametrize("kinds", [{}, {"columns": {"ward": {"kind": "categorical", "categories": ["a", "b", "c"]}}}])
@pytest.mark.parametrize("epsilon", [0.01, 8.0], ids=["drowned", "measured"])
def test_columns_that_were_measured(kinds: dict[str, Any], epsilon: float, tmp_path: Path, admmnet: Admmnet) -> None:
    data = people(tmp_path / "train.csv", 1200, 0, 5, 95)
    lines = data.read_text().splitlines()
    for k, (age, ward) in enumerate([("?", "a"), ("1e9", "c"), ("-inf", "b"), ("17.25", "a")], start=3):
        lines[k] = ",".join(("0", age, ward, "no"))
    data.write_text("\n".join(lines) + "\n")
    schema = {key: SCHEMA[key] for key in ("label", "labels", "drop")} | {"numeric": ["age"]} | kinds
    schema |= {} if kinds else {"categorical": ["ward"]}
    how: dict[str, Any] = {"data": str(data), "schema": schema, "epsilon": epsilon, "delta": 1e-4, "rounds": 2}
    folder = trained(tmp_path / "run", algorithm="noisy-gd", encode="private", **how)
    admmnet.ok("model", "export", folder, "-o", tmp_path / "model.json")
    page = by_the_file(tmp_path / "model.json")
    rows = np.array([page["features"](row) for row in table_of(data.read_text())], dtype=float)
    with pytest.raises(ValueError, match="31,1"):
        page["features"]({"age": "31,1", "ward": "a"})
    told = predicted(folder, data, admmnet)
    np.testing.assert_allclose(page["scores"](rows)[:, 0], [float(row["score"]) for row in told], rtol=1e-9, atol=1e-12)


def test_every_scale_of_the_schema(tmp_path: Path, admmnet: Admmnet) -> None:
    columns: dict[str, dict[str, Any]] = {
        "age": {"kind": "numeric", "low": 0, "high": 100, "scale": "centred", "weight": 2.0},
        "log": {"kind": "numeric", "column": "age", "low": 10, "high": 80, "scale": "log"},
        "raw": {"kind": "numeric", "column": "age", "scale": "none", "weight": 0.01},
        "bin": {"kind": "numeric", "column": "age", "edges": [30, 50, 70]},
        "ward": {"kind": "categorical", "groups": {"x": ["a"], "y": ["b"]}, "other": True, "weight": 0.5},
    }
    columns |= {
        "gone": {"kind": "numeric", "column": "age", "low": 0, "high": 100, "missing": "indicator"},
        "filled": {"kind": "numeric", "column": "age", "low": 0, "high": 100, "missing": 50.0},
        "gone-ward": {"kind": "categorical", "column": "ward", "categories": ["a", "b"], "other": True},
        "as-b": {"kind": "categorical", "column": "ward", "categories": ["a", "b", "c"], "missing": "b"},
    }
    columns["gone-ward"]["missing"] = "indicator"
    for name in ("age", "log", "raw", "bin"):
        columns[name]["missing"] = "indicator" if name in ("log", "bin") else 20.0
    data = people(tmp_path / "train.csv", 120, 0, 5, 95)
    lines = data.read_text().splitlines()
    for k, (age, ward) in enumerate([("", "a"), ("41", "?"), ("NA", "")], start=3):
        first, _, _, label = lines[k].split(",")
        lines[k] = ",".join((first, age, ward, label))
    data.write_text("\n".join(lines) + "\n")
    out = tmp_path / "run"
    schema = {**SCHEMA, "columns": columns}
    run(RunConfig(data=str(data), schema=schema, algorithm="admm", topology="path:2", seed=0, out=str(out)))
    admmnet.ok("model", "export", out, "-o", tmp_path / "model.json")
    page = by_the_file(tmp_path / "model.json")
    rows = np.array([page["features"](row) for row in table_of(data.read_text())])
    assert page["model"]["features"] == list(read_model(out).feature_names[:-1])
    scores = [float(row["score"]) for row in predicted(out, data, admmnet)]
    np.testing.assert_allclose(page["scores"](rows)[:, 0], scores, rtol=1e-12)


@pytest.mark.parametrize("kind", ["classes", "real", "no intercept"])
def test_models_of_other_labels(kind: str, tmp_path: Path, admmnet: Admmnet) -> None:
    stream = np.random.default_rng(2)
    X = stream.standard_normal((300, 4))
    labels: dict[str, Any] = {
        "classes": np.array(["ape", "bee", "cat"])[np.digitize(X[:, 0], [-0.5, 0.5])],
        "real": 50.0 + 10.0 * X[:, 0],
        "no intercept": np.where(X[:, 0] > 0.0, 1, -1),
    }
    more: dict[str, Any] = {"classes": {"labels": ["ape", "bee", "cat"]}, "real": {"targets": [0, 80]}}
    data = tmp_path / "data.npz"
    np.savez(data, X=X, y=labels[kind])
    given: dict[str, Any] = {"schema": {"features": 4, **more.get(kind, {})}, "no_intercept": kind == "no intercept"}
    given |= {
        "algorithm": "noisy-gd",
        "epsilon": 20.0,
        "delta": 1e-3,
        "seed": 0,
        "centre": "30" if kind == "real" else None,
    }
    run(RunConfig(**given, data=str(data), out=str(tmp_path / "run")))
    for ending in ("json", "npz"):
        admmnet.ok("model", "export", tmp_path / "run", "-o", tmp_path / f"model.{ending}")
    page = by_the_file(tmp_path / "model.json")
    told = predicted(tmp_path / "run", data, admmnet)
    found = page["predictions"](X)
    if kind == "real":
        np.testing.assert_allclose(found, [float(row["prediction"]) for row in told], rtol=1e-12)
    else:
        assert found == [row["prediction"] for row in told]
    np.testing.assert_allclose(page["scores"](X).max(axis=1), [float(row["score"]) for row in told], rtol=1e-12)
    with np.load(tmp_path / "model.npz", allow_pickle=False) as archive:
        for name, value in page["model"].items():
            assert (name in archive) == (value is not None)
            if value is not None:
                kept = archive[name]
                assert (json.loads(str(kept)) if isinstance(value, dict) else kept.tolist()) == value


def test_the_export_holds_what_show_says(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    admmnet.ok("model", "export", people_run, "-o", tmp_path / "model.json")
    held = json.loads((tmp_path / "model.json").read_text())
    facts = coefficients(read_model(people_run))
    said = {row["feature"]: (row["coefficient"], row["deviation"]) for row in facts["coefficients"]}
    pairs = zip(
        [*held["coefficients"][0], *held["intercept"]],
        [*held["deviation"][0], *held["intercept_deviation"]],
        strict=True,
    )
    assert said == dict(zip([*held["features"], "intercept"], pairs, strict=True))


def test_what_cannot_be_exported(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    assert "must end in .json or .npz" in admmnet.refused("model", "export", people_run, "-o", tmp_path / "model.onnx")
    assert "lies in the run folder" in admmnet.refused("model", "export", people_run, "-o", people_run / "m.json")
    assert "no such folder" in admmnet.refused("model", "export", people_run, "-o", tmp_path / "none" / "m.json")
    assert "name the folder of a finished run" in admmnet.refused(
        "model", "export", tmp_path, "-o", tmp_path / "m.json"
    )
    projected = trained(tmp_path / "projected", project=5)
    said = admmnet.refused("model", "export", projected, "-o", tmp_path / "m.json")
    assert "--project 5" in said
    assert "admmnet predict" in said
    assert not (tmp_path / "m.json").exists()


def test_the_page_s_numpy_refuses_undeclared_categories(people_run: Path, tmp_path: Path, admmnet: Admmnet) -> None:
    admmnet.ok("model", "export", people_run, "-o", tmp_path / "model.json")
    with pytest.raises(ValueError, match="undeclared category 'z'"):
        by_the_file(tmp_path / "model.json")["features"]({"age": "40", "ward": "z"})


def test_rows_that_are_taken_as_they_are(tmp_path: Path, admmnet: Admmnet) -> None:
    stream = np.random.default_rng(5)
    X = stream.standard_normal((200, 3)) / 10.0
    data = tmp_path / "data.npz"
    np.savez(data, X=X, y=np.where(X[:, 0] > 0.0, 1, -1))
    given: dict[str, Any] = {"schema": {"features": 3}, "no_intercept": True, "normalise": "none"}
    folder = trained(tmp_path / "run", data=str(data), **given)
    assert "in a row as it is;" in admmnet.ok("model", "show", folder).out
    admmnet.ok("model", "export", folder, "-o", tmp_path / "model.json")
    told = [float(row["score"]) for row in predicted(folder, data, admmnet)]
    np.testing.assert_allclose(by_the_file(tmp_path / "model.json")["scores"](X)[:, 0], told, rtol=1e-12)
