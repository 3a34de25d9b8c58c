"""Records in memory through run: the vectors of the same records in files, privacy, going on, accounts, refusals."""

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

from admmnet import NetworkClassifier, PrivacyWarning, RequestError, read_run, run
from admmnet.data import DataSettings
from admmnet.data.sources import validate
from admmnet.errors import AdmmnetError
from admmnet.predict.apply import NewData, evaluate
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
        kinds: dict[str, Any] = {"agents": np.int64(3), "epsilon": np.float32(1.0), "seed": np.int8(0)}
        how = PLAIN | (kinds if k == 0 else {"agents": 3})  # numbers of numpy are numbers
        result = run(X=rows, y=labels, out=str(tmp_path / f"run-{k}"), **how)
        same(result, file)
        assert result.summary["data"]["name"] == "arrays"
    rows = X.copy()

    def spoil(event: RoundEvent) -> None:
        rows[:] = 1e6

    same(run(X=rows, y=y, agents=3, on_round=spoil, out=tmp_path / "copied", **PLAIN), file)


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


def test_shards_and_graphs_are_treated_as_files_of_agents_are(tmp_path: Path) -> None:
    for i, (rows, labels) in enumerate(SHARDS):
        saved(tmp_path / f"own-{i}.npz", rows, labels)
    star = nx.relabel_nodes(nx.star_graph(2), {0: 2, 2: 0})
    nx.write_edgelist(star, tmp_path / "star.edges", data=False)
    files: dict[str, Any] = {"data": tmp_path / "own-{agent}.npz", "test": saved(tmp_path / "test.npz", *TEST)}
    file = run(**files, topology=tmp_path / "star.edges", agents=3, out=tmp_path / "file", **PLAIN)
    kinds: list[Any] = [SHARDS, dict(enumerate(SHARDS)), [(sparse.csr_array(rows), labels) for rows, labels in SHARDS]]
    for k, shards in enumerate(kinds):
        network = {"topology": "edges:0-2,1-2"} if k == 1 else {"graph": star}
        result = run(shards=shards, test=TEST, **network, out=tmp_path / f"run-{k}", **PLAIN)
        same(result, file)
        assert [entry["records"] for entry in result.summary["per_agent"]] == [100, 70, 70]
        assert result.summary["topology"] == "edges:0-2,1-2"
    frames = [FRAME[part] for part in PARTS]
    how: dict[str, Any] = {"schema": SCHEMA, "test": FRAME[::3], **PLAIN}
    one = run(shards=frames, out=tmp_path / "list", **how)
    same(one, run(shards=dict(enumerate(frames)), out=tmp_path / "dict", **how))


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
    FRAME.assign(id=1).to_csv(tmp_path / "new.csv", index=False)
    assert evaluate(read_model(result.folder), NewData(data=str(tmp_path / "new.csv")))["data"]["positive"] == "yes"


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


def test_private_faults_quote_no_record(tmp_path: Path) -> None:
    rows = X.copy()
    rows[11, 2] = np.inf
    told = r"^the records given \(arrays\): .*numpy.savez.*`admmnet data check FILE`.* on this machine"
    for given in ({"X": rows, "y": y}, {"shards": [(rows[:120], y[:120]), (rows[120:], y[120:])]}):
        with pytest.raises(RequestError, match=told) as caught:
            run(no_test=True, out=tmp_path / "run", **SECRET, **given)
        assert "11" not in str(caught.value)


# runs that go on, and accounts, know how records were dealt: as a pool, as shards, or by groups

POOL: dict[str, Any] = {"X": X, "y": y, "agents": 3}
OWN: dict[str, Any] = {"shards": SHARDS}


def interrupted(folder: Path, **given: Any) -> None:
    with pytest.raises(Stop):
        run(on_round=stopping(3), out=folder, **given)
    assert not (folder / "summary.json").exists()


def test_a_run_on_arrays_goes_on(tmp_path: Path) -> None:
    how: dict[str, Any] = {**PLAIN, "rounds": 6, **OWN, "test": TEST, "graph": nx.path_graph(3)}
    whole = run(out=tmp_path / "whole", **how)
    interrupted(tmp_path / "cut", **how)
    for wrong, words in (
        ({}, "means records that a program gave"),
        (OWN, "give them again, test="),
        (POOL | {"test": TEST}, "differs from the interrupted|give them as before"),
        ({**OWN, "test": TEST, "graph": nx.complete_graph(3)}, "topology = 'edges:0-1,0-2,1-2' differs"),
        ({"data": FRAME, "label": "won"}, "differs from the interrupted"),
    ):
        with pytest.raises(RequestError, match=words):
            run(resume=tmp_path / "cut", **wrong)
    same(run(resume=tmp_path / "cut", shards=SHARDS, test=TEST), whole)


def test_a_private_run_on_arrays_goes_on(tmp_path: Path) -> None:
    interrupted(tmp_path / "cut", **SECRET | {"rounds": 6, "no_test": True}, **POOL)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cut").rglob("*") if path.is_file())
    assert X[0].tobytes() not in kept
    for other, words in (({"X": X[:200], "y": y[:200]}, "records"), (OWN, "differs from the interrupted|as before")):
        with pytest.raises(RequestError, match=words):
            run(resume=tmp_path / "cut", **other)
    assert run(resume=tmp_path / "cut", **POOL).summary["rounds"] == 6
    read_run(tmp_path / "cut")


@pytest.mark.parametrize(("first", "then"), [(POOL, OWN), (OWN, POOL)])
def test_an_account_refuses_records_dealt_otherwise(
    first: dict[str, Any], then: dict[str, Any], tmp_path: Path
) -> None:
    common: dict[str, Any] = {"algorithm": "noisy-gd", "rounds": 4, "delta": 1e-4, "no_test": True, "private": True}
    common |= {"account": tmp_path / "account"}
    run(**first, **common, epsilon=0.5, out=tmp_path / "one")
    with pytest.raises(RequestError, match=r"opened with split = '(iid|shards)', this run has '(iid|shards)'"):
        run(**then, **common, epsilon=1.0, out=tmp_path / "two")
    again = {"shards": dict(enumerate(SHARDS))} if first is OWN else first  # a mapping is the same shards
    result = run(**again, **common, epsilon=1.0, out=tmp_path / "three")
    assert result.summary["privacy"]["account_epsilon_spent"] > 0.5


def test_an_account_refuses_other_groups(tmp_path: Path) -> None:
    account, groups = tmp_path / "account", np.arange(240) % 2

    def fit(epsilon: float, groups: Any) -> None:
        NetworkClassifier(agents=2, epsilon=epsilon, delta=1e-4, account=account).fit(X, y, groups=groups)

    fit(0.5, groups)
    kept = json.loads((account / "records.json").read_text())
    assert (kept["data"], kept["split"][:7]) == ("arrays", "groups:")
    for other in (None, np.arange(240) // 120, 1 - groups):
        refused = "opened with split = 'groups:"
        with pytest.warns(PrivacyWarning, match=refused), pytest.raises(RequestError, match=refused):
            fit(1.0, other)
    fit(1.0, np.where(groups, "w", "e"))  # the same owners, by other names
    for split in ("shards", kept["split"]):
        with pytest.raises(RequestError, match="means that a program dealt the records"):
            validate(DataSettings(data="census", split=split))


# wrong inputs: each ends in our error, which names the argument, what it is and what helps

draws = np.random.default_rng(1)
U = draws.standard_normal((60, 3))
v = np.where(U[:, 0] > 0.0, 1, 0)
TABLE = pd.DataFrame(U, columns=["a", "b", "c"]).assign(won=np.where(v == 1, "yes", "no"))
HALVES = [(U[:30], v[:30]), (U[30:], v[30:])]


class Tensor:
    """What another library's array may be that numpy cannot have."""

    shape = (60, 3)

    def __array__(self, *given: Any, **more: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


ARRAYS: dict[str, Any] = {"X": U, "y": v}
LABELLED: dict[str, Any] = {"data": TABLE, "label": "won"}
PRIVATE: dict[str, Any] = {"seed": None, "no_account": True}
SPLIT: dict[str, Any] = {"no_test": True}
ROUND: dict[str, Any] = {}
ROUND["again"] = ROUND
DAMAGED = sparse.csr_array(U)
DAMAGED.indices[3] = 400
NAN = np.where(np.arange(180).reshape(60, 3) == 22, np.nan, U)
HALF = TABLE.set_axis(pd.Index(["\ud800", "b", "c", "won"], dtype=object), axis=1)
SOME = TABLE.assign(won=TABLE["won"].where(v == 1))
ROWS: dict[str, tuple[Any, str]] = {
    "three dimensions": (U[None], r"X has shape \(1, 60, 3\): .*X.reshape\(len\(X\), -1\)"),
    "one dimension": (U[:, 0], r"X has shape \(60,\).*X.reshape\(-1, 1\)"),
    "objects": (U.astype(object), r"X holds objects: numbers are needed; X.astype\(float\)"),
    "text": (U.astype(str), "X holds text: numbers are needed; a data frame"),
    "complex": (U + 1j, "X holds complex numbers: give real ones"),
    "dates": (np.full((60, 2), np.datetime64("2020-01-01")), "X holds dates: give numbers"),
    "nan": (NAN, r"row 7 \(the first is 0\), column 'x2': nan is not finite; remove the row"),
    "infinity, sparse": (sparse.csr_matrix(np.where(np.isnan(NAN), np.inf, U)), "row 7 .*inf is not finite"),
    "ragged lists": ([[1, 2], [3]], "X is a list of rows of different lengths"),
    "no records": (U[:0], r"X of shape \(0, 3\) is empty"),
    "a generator": ((row for row in U), r"X is a generator: give an array, or a list .*list\(X\)"),
    "a path": ("rows.npz", "X = 'rows.npz': X takes an array; a file goes to data=PATH"),
    "a tensor": (Tensor(), r"X is a Tensor that gives numpy no array \(TypeError\).*detach"),
    "masked": (np.ma.masked_less(U, 0.0), r"X is masked, and masks are not read: .*X.filled\(0\)"),
    "damaged indices": (DAMAGED, r"X is a damaged sparse matrix: .* its shape, \(60, 3\)"),
    "nothing": (None, "X is missing: labels y go with rows X"),
}
LABELS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "y is missing: rows X go with labels y"),
    "other length": (v[:50], r"y has shape \(50,\), X has 60 rows: shape \(60,\) is needed"),
    "a column": (v[:, None], r"y has shape \(60, 1\).*y.ravel\(\) has it"),
    "one-hot": (np.eye(2)[v], r"of one column a class y.argmax\(axis=1\) has it"),
    "one class": (np.ones(60), "every record has the same label: two values are needed"),
    "three classes": (np.arange(60) % 3, "else of 3 classes, '0', '1', '2', take task='classes' or"),
    "classes in words": (np.array(["r", "g", "b"])[np.arange(60) % 3], r"take task='classes' or labels = .a, b, c."),
    "two words": (TABLE["won"], "name them with positive=VALUE, one of 'no', 'yes', or labels ="),
    "targets": (U[:, 0], "0/1, else take task='real' for targets that are numbers, or targets ="),
    "names": ([f"w{i}" for i in range(60)], "name another column as the label: 60 texts are too many for classes"),
    "nan": (np.where(v, np.nan, 1.0), r"y\[\d+\] is nan: every record needs a label"),
    "None": ([None, *v[1:]], "row 0 .*label ''"),
    "a gap": (pd.Series(["M", None] * 30), "row 1 .*label '' of y is missing"),
    "lists": (np.array([[1]] * 59 + [{}], dtype=object), "y holds a list: texts and numbers"),
    "complex": (v + 1j, "y holds complex numbers: give numbers or texts"),
    "a frame": (TABLE[["won"]], r"y is a frame: give one column, such as y.iloc\[:, 0\]"),
    "bytes": ([b"a"] * 60, "y holds bytes: give numbers or texts"),
}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    **{f"rows: {name}": ({"X": rows, "y": v}, told) for name, (rows, told) in ROWS.items()},
    **{f"labels: {name}": ({"X": U, "y": labels}, told) for name, (labels, told) in LABELS.items()},
    "too long rows, scaled": ({**ARRAYS, "scaled": True}, "row .*is longer than 1, and rows are taken as they are"),
    "scaled = 1": ({**ARRAYS, "scaled": 1}, "scaled = 1: it must be True or False"),
    "text for targets": ({"X": U, "y": TABLE["won"], "task": "real"}, "'(yes|no)' is no number"),
    "positive is none": ({**ARRAYS, "positive": "yes"}, "no row has the label 'yes' of positive; name one of '0', '1'"),
    "label of arrays": ({**ARRAYS, "label": "won"}, "label won goes with a csv file"),
    "features": ({**ARRAYS, "features": 4}, "features = 4, and X has 3 columns: leave it out"),
    # frames
    "no label": ({"data": TABLE}, "name the label column with label=NAME"),
    "a label that is none": ({"data": TABLE, "label": "lost"}, "no column 'lost'; it has 'a', 'b', 'c', 'won'"),
    "a label in a list": ({"data": TABLE, "label": ["won"]}, r"label = \['won'\]: it must be the name of a column"),
    "times": (
        LABELLED | {"data": TABLE.assign(day=pd.Timestamp("2020-01-01"))},
        "'day' holds dates or times: make a number",
    ),
    "complex": (LABELLED | {"data": TABLE.assign(z=U[:, 0] + 1j)}, "'z' holds a complex: texts and"),
    "a column twice": (LABELLED | {"data": pd.concat([TABLE, TABLE], axis=1)}, "the frame: it has column 'a' twice"),
    "an empty frame": (LABELLED | {"data": TABLE[:0]}, r"the frame of shape \(0, 4\) is empty"),
    "half a character": (LABELLED | {"data": HALF}, r"name of column 0, '.ud800', is no Unicode"),
    "a missing label": (LABELLED | {"data": SOME, "positive": str(SOME["won"].dropna().iloc[0])}, "label is missing"),
    "private": (LABELLED | PRIVATE | SPLIT, "nothing is read from private rows: give kinds='dtype' .*data_dependent"),
    # one way in
    "data and X": ({**LABELLED, **ARRAYS}, "X and data exclude each other"),
    "a reserved name": ({"data": "arrays"}, "data = 'arrays' means records that a program gave"),
    "a loader, too": ({**ARRAYS, "loader": print}, "a loader and records in memory exclude each other"),
    "a loader of nothing": ({"loader": lambda *_: None}, "the loader returned a NoneType: it must return"),
    "other processes": ({**ARRAYS, "transport": "zmq"}, "starts other processes, which cannot see"),
    "a world that is none": ({**ARRAYS, "world": 3}, "world = 3: it must be a World, or left out"),
    "a frame for config": ({"config": TABLE}, "run was given a DataFrame without a name: it takes a RunConfig there"),
    # shards
    "no shards": ({"shards": []}, "shards is empty"),
    "no list of shards": ({"shards": U}, r"shards is a ndarray: shards must be a list of \(X, y\)"),
    "a shard that is no pair": ({"shards": [U[:30], U[30:]]}, r"shards\[0\] is a ndarray: it must be \(X, y\)"),
    "an empty shard": ({"shards": [HALVES[0], (U[:0], v[:0])]} | SPLIT, r"shards\[1\]: X of shape \(0, 3\) is empty"),
    "other widths": ({"shards": [HALVES[0], (U[30:, :2], v[30:])]} | SPLIT, r"shards\[1\]: feature 3 is missing"),
    "frames and pairs": ({"shards": [HALVES[0], TABLE]} | SPLIT, "give all of one kind"),
    "no test": ({"shards": HALVES}, r"records besides, test=\(X, y\), or do without, no_test=True"),
    "a key that is no agent": ({"shards": {"a": HALVES[0]}}, "shards has the key 'a': agents are numbered 0, 1"),
    "labels missing": ({"shards": [TABLE[:30], SOME[30:]], "label": "won"} | SPLIT, "without a label: drop them"),
    "other agents": ({"shards": HALVES, "agents": 3}, "shards has 2 entries, and agents = 3"),
    "dealt": ({"shards": HALVES, "split": "zipf:1"} | SPLIT, "shards are dealt already"),
    "in one place": ({"shards": HALVES, "algorithm": "dp-sgd"}, "one holder of all records: give .*X=X, y=y"),
    # test records
    "another width": ({**ARRAYS, "test": (U[:, :2], v)}, "test: feature 3 is missing, .*records have 'x3'"),
    "no pair": ({**ARRAYS, "test": U}, r"test is a ndarray: it must be \(X, y\), rows and labels, or"),
    "another kind": ({**ARRAYS, "test": TABLE}, r"test must be \(X, y\), rows and labels, as the training"),
    "a file": ({**ARRAYS, "test": Path("t.csv")}, "test t.csv must have the form of the data, .npz; give test="),
    "beside a set": ({"test": (U, v)}, "needs records in memory [(]X=, shards= or data=frame[)]"),
    "its own records": ({**ARRAYS, **PRIVATE, "test": (U, v)}, "test is made of the run's own records"),
    "without a label": ({**LABELLED, "test": TABLE[["a", "b", "c"]]}, "no column 'won'"),
    "nothing said": ({**ARRAYS, "seed": None}, r"this run is private: it needs test=\(X, y\) .*simulate=True makes"),
    # graphs, schemas, functions
    "a graph and a topology": ({**ARRAYS, "graph": nx.path_graph(3), "topology": "ring:3"}, "exclude each other"),
    "a schema that holds itself": ({**ARRAYS, "schema": ROUND}, "schema holds itself"),
    "columns of arrays": ({**ARRAYS, "schema": {"columns": {"a": {"kind": "numeric"}}}}, "schema.columns goes with"),
    "no function": ({**ARRAYS, "on_round": 3}, "on_round = 3 cannot be called: give a function"),
    "two arguments": ({**ARRAYS, "on_round": lambda event, other: 0}, "on_round = .* cannot be called with one"),
    "an array for epsilon": ({**ARRAYS, "epsilon": U}, r"epsilon = array\(.*\.\.\.\) is not allowed"),
}


@pytest.mark.parametrize("case", CASES)
def test_it_ends_in_words(case: str, tmp_path: Path) -> None:
    given, words = CASES[case]
    own = {} if given.get("algorithm") == "dp-sgd" else {"algorithm": "pp-admm", "rounds": 2}
    with pytest.raises(RequestError, match=words) as caught:
        run(**{"seed": 0, "out": tmp_path / "run", **own, **given})
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value).replace("run --help", "")  # no flags, in a program
    assert not (tmp_path / "run").exists()
