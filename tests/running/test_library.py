"""Records in memory through ``run``: the vectors of the same records in files, privacy, going on, new rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow
import pytest
from scipy import sparse

from admmnet import RequestError, StopRun, read_run, run
from admmnet.errors import AdmmnetError
from admmnet.predict.apply import NewData, evaluate, predict
from admmnet.predict.model import read_model
from admmnet.running.events import RoundEvent
from tests.people_runs import Stop, stopping

rng = np.random.default_rng(3)
X = rng.standard_normal((240, 4)) * [1.0, 3.0, 0.5, 1.0]
y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.0, 1, 0)
PARTS = [slice(0, 100), slice(100, 170), slice(170, 240)]
SHARDS = [(X[part], y[part]) for part in PARTS]
TEST = (X[::5] * 2.0, y[::5])
FRAME = pd.DataFrame(
    {"age": np.abs(X[:, 0]) * 20 + 18, "job": np.where(X[:, 1] > 0, "cook", "nurse"), "won": np.where(y, "yes", "no")}
)  # fmt: skip
SCHEMA: dict[str, Any] = {
    "label": "won",
    "labels": ("no", "yes"),
    "columns": {
        "age": {"kind": "numeric", "low": np.float64(18), "high": 90},
        "job": {"kind": "categorical", "categories": ["cook", "nurse"]},
    },
}
PLAIN: dict[str, Any] = {"algorithm": "pp-admm", "rounds": 3, "seed": 0}
SECRET: dict[str, Any] = {"algorithm": "pp-admm", "rounds": 3, "no_account": True}


def saved(path: Path, rows: Any = X, labels: Any = y) -> Path:
    np.savez(path, X=rows, y=labels)
    return path


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.theta, other.theta)
    assert one.summary["test_error"] == other.summary["test_error"]
    assert one.summary["data"] | {"name": ""} == other.summary["data"] | {"name": ""}


# the vectors of files


def test_arrays_are_treated_as_a_file_is(tmp_path: Path) -> None:
    file = run(data=saved(tmp_path / "a.npz"), agents=3, out=tmp_path / "file", **PLAIN)
    forms: list[tuple[Any, Any]] = [
        (X, y),
        (X.tolist(), [bool(label) for label in y]),
        (np.asfortranarray(X), 2.0 * y - 1.0),
        (sparse.coo_matrix(X), pd.Series(y)),
        (pd.DataFrame(X), pd.Series(y).astype("Int64")),
        (X, y.astype(object)),
    ]
    for k, (rows, labels) in enumerate(forms):
        result = run(X=rows, y=labels, agents=3, out=str(tmp_path / f"run-{k}"), **PLAIN)
        same(result, file)
        assert result.summary["data"]["name"] == "arrays"


class Capsule:
    """A frame of another library, which hands over Arrow's stream."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._table = pyarrow.Table.from_pandas(frame)

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self._table.__arrow_c_stream__(schema)


def test_a_frame_is_treated_as_a_csv_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any library, also without pandas."""
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    file = run(data=tmp_path / "people.csv", schema=tmp_path / "schema.json", out=tmp_path / "file", **PLAIN)
    assert file.summary["data"]["features"] == 4
    turned = FRAME.astype({"job": "category", "won": "string"}).sample(frac=1.0, axis=1, random_state=1)
    table, capsule = pyarrow.Table.from_pandas(FRAME), Capsule(FRAME)
    for k, frame in enumerate([FRAME, turned, capsule, table]):
        if frame is table:
            monkeypatch.setitem(sys.modules, "pandas", None)
        same(run(data=frame, schema=SCHEMA, out=tmp_path / f"run-{k}", **PLAIN), file)

    def lacking(*given: Any, **more: Any) -> Any:
        raise ModuleNotFoundError("pyarrow")

    monkeypatch.setattr("narwhals.from_arrow", lacking)
    with pytest.raises(RequestError, match=r"Arrow's stream is read by pyarrow: pip install 'admmnet\[frames\]'"):
        run(data=capsule, schema=SCHEMA, out=tmp_path / "none", **PLAIN)


def test_shards_are_treated_as_files_of_agents_are(tmp_path: Path) -> None:
    for i, (rows, labels) in enumerate(SHARDS):
        saved(tmp_path / f"own-{i}.npz", rows, labels)
    saved(tmp_path / "test.npz", *TEST)
    path = nx.path_graph(3)
    nx.write_edgelist(path, tmp_path / "path.edges", data=False)
    files: dict[str, Any] = {"data": tmp_path / "own-{agent}.npz", "test": tmp_path / "test.npz"}
    files["topology"] = tmp_path / "path.edges"
    file = run(**files, agents=3, out=tmp_path / "file", **PLAIN)
    kinds: list[Any] = [SHARDS, dict(enumerate(SHARDS)), [(sparse.csr_array(rows), labels) for rows, labels in SHARDS]]
    for k, shards in enumerate(kinds):
        result = run(shards=shards, test=TEST, graph=path, out=tmp_path / f"run-{k}", **PLAIN)
        same(result, file)
        assert [entry["records"] for entry in result.summary["per_agent"]] == [100, 70, 70]
    frames = [FRAME[part] for part in PARTS]
    how: dict[str, Any] = {"schema": SCHEMA, "test": FRAME[::3], **PLAIN}
    same(
        run(shards=frames, out=tmp_path / "list", **how), run(shards=dict(enumerate(frames)), out=tmp_path / "d", **how)
    )


def test_rows_that_are_scaled_already_stay(tmp_path: Path) -> None:
    """Whatever is shorter than 1 keeps its length; what is longer is refused, as for a run."""
    rows = np.column_stack([X, np.ones(len(X))])
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    plain = run(X=X, y=y, out=tmp_path / "plain", **PLAIN)
    scaled = run(X=rows, y=y, scaled=True, out=tmp_path / "scaled", **PLAIN)
    np.testing.assert_allclose(scaled.theta, plain.theta, rtol=0, atol=1e-9)
    half = run(X=rows / 2.0, y=y, scaled=True, out=tmp_path / "half", **PLAIN)
    assert np.abs(half.theta - scaled.theta).max() > 1e-3
    with pytest.raises(RequestError, match="longer than 1"):
        evaluate(read_model(half.folder), NewData(data=str(saved(tmp_path / "long.npz", rows * 1.1))))


@pytest.mark.parametrize("algorithm", ["noisy-gd", "ssp", "dp-scd", "pp-admm"])
def test_sparse_rows_give_what_dense_ones_give(algorithm: str, tmp_path: Path) -> None:
    wide = sparse.random(120, 40, density=0.05, random_state=2, format="csc")
    labels = np.where(np.asarray(wide.sum(axis=1)).ravel() > 0.9, 1, -1)
    how: dict[str, Any] = {"algorithm": algorithm, "seed": 0}
    one = run(X=wide, y=labels, out=tmp_path / "sparse", **how)
    other = run(X=wide.toarray(), y=labels, out=tmp_path / "dense", **how)
    np.testing.assert_allclose(one.theta, other.theta, rtol=0, atol=1e-12)
    assert one.summary["test_error"]["consensus"] == other.summary["test_error"]["consensus"]


# what a frame says of itself


def test_a_simulation_reads_the_frame_and_says_so(tmp_path: Path) -> None:
    gaps = FRAME.assign(id=range(240), age=FRAME["age"].where(FRAME.index > 3))
    result = run(data=gaps, label="won", out=tmp_path / "run", **PLAIN)
    notes = " ".join(result.summary["notes"])
    assert "read from the rows, not declared: the encoding of 2 columns, the labels 'no', 'yes'" in notes
    assert "left out of the encoding: 'id' (identifiers)" in notes
    assert "values are missing in 'age'" in notes
    assert result.ledgers[0].header["preprocessing"] == "data-dependent"
    kept = json.loads((result.folder / "encoding.json").read_text())
    assert (kept["labels"], set(kept["columns"])) == (["no", "yes"], {"age", "job"})
    FRAME.drop(columns="won").to_csv(tmp_path / "new.csv", index=False)
    FRAME.assign(id=1).to_csv(tmp_path / "labelled.csv", index=False)
    model = read_model(result.folder)
    assert set(predict(model, NewData(data=str(tmp_path / "new.csv"))).prediction) <= {"no", "yes"}
    assert evaluate(model, NewData(data=str(tmp_path / "labelled.csv")))["data"]["positive"] == "yes"


def test_truth_values_are_labels_that_need_no_declaration(tmp_path: Path) -> None:
    frame = FRAME.assign(won=y == 1)
    schema = {key: value for key, value in SCHEMA.items() if key != "labels"}
    result = run(data=frame, schema=schema, no_test=True, out=tmp_path / "run", **SECRET)
    assert result.ledgers[0].header["preprocessing"] == "public-bounds"
    frame.to_csv(tmp_path / "new.csv", index=False)
    found = evaluate(read_model(result.folder), NewData(data=str(tmp_path / "new.csv")), public=True)
    assert found["data"]["positive"] == "True"


def test_missing_cells_are_not_made_up(tmp_path: Path) -> None:
    for gone in (None, np.nan, pd.NA, pd.NaT):
        frame = FRAME.assign(job=FRAME["job"].astype(object).where(np.arange(240) != 7, gone))
        with pytest.raises(AdmmnetError, match="''"):
            run(data=frame, schema=SCHEMA, out=tmp_path / "run", **PLAIN)


# private runs


def test_labels_that_are_read_from_private_rows_are_refused(tmp_path: Path) -> None:
    how: dict[str, Any] = {"X": X, "y": np.where(y, "yes", "no"), "no_test": True, **SECRET}
    with pytest.raises(RequestError, match=r"label.*would be discovered from the private records.*data_dependent=True"):
        run(positive="yes", out=tmp_path / "run", **how)
    run(schema={"labels": ["no", "yes"]}, out=tmp_path / "run", **how)


def test_private_faults_quote_no_record(tmp_path: Path) -> None:
    rows = X.copy()
    rows[11, 2] = np.inf
    told = r"^the records given \(arrays\): .*numpy.savez.*`admmnet data check FILE`.* on this machine"
    for given in ({"X": rows, "y": y}, {"shards": [(rows[:120], y[:120]), (rows[120:], y[120:])]}):
        with pytest.raises(RequestError, match=told) as caught:
            run(no_test=True, out=tmp_path / "run", **SECRET, **given)
        assert "11" not in str(caught.value)


def test_the_holder_has_a_copy(tmp_path: Path) -> None:
    rows, labels = X.copy(), y.copy()

    def spoil(event: RoundEvent) -> None:
        rows[:] = 1e6

    one = run(X=rows, y=labels, scaled=False, on_round=spoil, out=tmp_path / "one", **PLAIN)
    same(one, run(X=X, y=y, out=tmp_path / "other", **PLAIN))


# going on


def interrupted(folder: Path, **given: Any) -> None:
    with pytest.raises(Stop):
        run(on_round=stopping(3), out=folder, **given)
    assert not (folder / "summary.json").exists()


def test_a_run_on_arrays_goes_on(tmp_path: Path) -> None:
    how: dict[str, Any] = {**PLAIN, "rounds": 6, "shards": SHARDS, "test": TEST, "graph": nx.path_graph(3)}
    whole = run(out=tmp_path / "whole", **how)
    interrupted(tmp_path / "cut", **how)
    for wrong, words in (
        ({}, "means records that a program gave"),
        ({"shards": SHARDS}, "give them again, test="),
        ({"shards": SHARDS, "test": TEST, "graph": nx.complete_graph(3)}, "topology = 'edges:0-1,0-2,1-2' differs"),
        ({"data": FRAME, "label": "won"}, "differs from the interrupted"),
    ):
        with pytest.raises(RequestError, match=words):
            run(resume=tmp_path / "cut", **wrong)
    same(run(resume=tmp_path / "cut", shards=SHARDS, test=TEST), whole)


def test_a_private_run_on_arrays_goes_on(tmp_path: Path) -> None:
    how: dict[str, Any] = {**SECRET, "rounds": 6, "X": X, "y": y, "no_test": True}
    interrupted(tmp_path / "cut", **how)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cut").rglob("*") if path.is_file())
    assert X[0].tobytes() not in kept
    with pytest.raises(RequestError, match="records"):
        run(resume=tmp_path / "cut", X=X[:200], y=y[:200])
    assert run(resume=tmp_path / "cut", X=X, y=y).summary["rounds"] == 6
    read_run(tmp_path / "cut")


def test_a_graph_is_kept_with_the_run(tmp_path: Path) -> None:
    how: dict[str, Any] = {**PLAIN, "rounds": 1, "X": X, "y": y}
    one = run(graph=nx.relabel_nodes(nx.star_graph(3), {0: 3, 3: 0}), out=tmp_path / "one", **how)
    assert one.summary["topology"] == "edges:0-3,1-3,2-3"
    two = run(topology="edges:0-3,1-3,2-3", on_round=stopping(0, StopRun), out=tmp_path / "two", **how)
    same(two, one)
