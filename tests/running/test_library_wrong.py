"""Wrong inputs through the library: each ends in our error, which names the argument, what it is and what helps."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from admmnet import RequestError, run
from admmnet.errors import AdmmnetError

rng = np.random.default_rng(1)
X = rng.standard_normal((60, 3))
y = np.where(X[:, 0] > 0.0, 1, 0)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(won=np.where(y == 1, "yes", "no"))
HALVES = [(X[:30], y[:30]), (X[30:], y[30:])]


class Tensor:
    """What another library's array may be that numpy cannot have."""

    shape = (60, 3)

    def __array__(self, *given: Any, **more: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


def frame(**columns: Any) -> pd.DataFrame:
    return FRAME.assign(**columns)


POOL: dict[str, Any] = {"X": X, "y": y}
LABELLED: dict[str, Any] = {"data": FRAME, "label": "won"}
PRIVATE: dict[str, Any] = {"seed": None, "no_account": True}
SPLIT: dict[str, Any] = {"no_test": True}
ROUND: dict[str, Any] = {}
ROUND["again"] = ROUND
DAMAGED = sparse.csr_array(X)
DAMAGED.indices[3] = 400
NAN = np.where(np.arange(180).reshape(60, 3) == 22, np.nan, X)
HALF = FRAME.set_axis(pd.Index(["\ud800", "b", "c", "won"], dtype=object), axis=1)
GAPS = ["M", None] * 30
SOME = frame(won=FRAME["won"].where(y == 1))
WORDS = np.where(y, "yes", "no")
DATES = np.full((60, 2), np.datetime64("2020-01-01"))
ROWS: dict[str, tuple[Any, str]] = {
    "three dimensions": (X[None], r"X has shape \(1, 60, 3\): .*X.reshape\(len\(X\), -1\)"),
    "one dimension": (X[:, 0], r"X has shape \(60,\).*X.reshape\(-1, 1\)"),
    "objects": (X.astype(object), r"X holds objects: numbers are needed; X.astype\(float\)"),
    "text": (X.astype(str), "X holds text: numbers are needed; a data frame"),
    "complex": (X + 1j, "X holds complex numbers: give real ones"),
    "complex, sparse": (sparse.csr_matrix(X + 1j), "X holds complex numbers"),
    "dates": (DATES, "X holds dates: give numbers"),
    "nan": (NAN, r"row 7 \(the first is 0\), column 'x2': nan is not finite; remove the row"),
    "infinity, sparse": (
        sparse.csr_matrix(np.where(np.arange(180).reshape(60, 3) == 3, np.inf, X)),
        "row 1 .*inf is not finite",
    ),
    "ragged lists": ([[1, 2], [3]], "X is a list of rows of different lengths"),
    "no records": (X[:0], r"X of shape \(0, 3\) is empty"),
    "a generator": ((row for row in X), r"X is a generator: give an array, or a list .*list\(X\)"),
    "a path": ("rows.npz", "X = 'rows.npz': X takes an array; a file goes to data=PATH"),
    "a tensor": (Tensor(), r"X is a Tensor that gives numpy no array \(TypeError\).*detach"),
    "masked": (np.ma.masked_less(X, 0.0), r"X is masked, and masks are not read: .*X.filled\(0\)"),
    "damaged indices": (DAMAGED, r"X is a damaged sparse matrix: .* its shape, \(60, 3\)"),
    "nothing": (None, "X is missing: labels y go with rows X"),
}
LABELS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "y is missing: rows X go with labels y"),
    "other length": (y[:50], r"y has shape \(50,\), X has 60 rows: shape \(60,\) is needed"),
    "a column": (y[:, None], r"y has shape \(60, 1\).*y.ravel\(\) has it"),
    "one-hot": (np.eye(2)[y], r"of one column a class y.argmax\(axis=1\) has it"),
    "one class": (np.ones(60), "every record has the same label: two values are needed"),
    "three classes": (np.arange(60) % 3, "else of 3 classes, '0', '1', '2', take task='classes' or"),
    "classes in words": (np.array(["r", "g", "b"])[np.arange(60) % 3], r"take task='classes' or labels = .a, b, c."),
    "two words": (FRAME["won"], "name them with positive=VALUE, one of 'no', 'yes', or labels ="),
    "targets": (X[:, 0], "0/1, else take task='real' for targets that are numbers, or targets ="),
    "names": ([f"w{i}" for i in range(60)], "name another column as the label: 60 texts are too many for classes"),
    "nan": (np.where(y, np.nan, 1.0), r"y\[\d+\] is nan: every record needs a label"),
    "None": ([None, *y[1:]], "row 0 .*label ''"),
    "a gap": (pd.Series(GAPS), "row 1 .*label '' of y is missing"),
    "an empty text": (np.array(["M", ""] * 30), "row 1 .*label '' of y is missing"),
    "lists": (np.array([[1]] * 59 + [{}], dtype=object), "y holds a list: texts and numbers"),
    "complex": (y + 1j, "y holds complex numbers: give numbers or texts"),
    "a frame": (FRAME[["won"]], r"y is a frame: give one column, such as y.iloc\[:, 0\]"),
    "bytes": ([b"a"] * 60, "y holds bytes: give numbers or texts"),
}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    **{f"rows: {name}": ({"X": rows, "y": y}, told) for name, (rows, told) in ROWS.items()},
    **{f"labels: {name}": ({"X": X, "y": labels}, told) for name, (labels, told) in LABELS.items()},
    "too long rows, scaled": ({**POOL, "scaled": True}, "row .*is longer than 1, and rows are taken as they are"),
    "scaled = 1": ({**POOL, "scaled": 1}, "scaled = 1: it must be True or False"),
    "text for targets": ({"X": X, "y": WORDS, "task": "real"}, "'(yes|no)' is no number"),
    "positive is none": ({**POOL, "positive": "yes"}, "no row has the label 'yes' of positive; name one of '0', '1'"),
    "label of arrays": ({**POOL, "label": "won"}, "label won goes with a csv file"),
    "features": ({**POOL, "features": 4}, "features = 4, and X has 3 columns: leave it out"),
    # frames
    "no label": ({"data": FRAME}, "name the label column with label=NAME"),
    "a label that is none": ({"data": FRAME, "label": "lost"}, "no column 'lost'; it has 'a', 'b', 'c', 'won'"),
    "a label in a list": ({"data": FRAME, "label": ["won"]}, r"label = \['won'\]: it must be the name of a column"),
    "times": (LABELLED | {"data": frame(day=pd.Timestamp("2020-01-01"))}, "'day' holds dates or times: make a number"),
    "dates": (LABELLED | {"data": frame(day=datetime.date(2020, 1, 1))}, "'day' holds dates or times"),
    "lists": (LABELLED | {"data": frame(tags=[[1]] * 60)}, "'tags' holds a list: texts and numbers"),
    "complex": (LABELLED | {"data": frame(z=X[:, 0] + 1j)}, "'z' holds a complex: texts and"),
    "a column twice": (LABELLED | {"data": pd.concat([FRAME, FRAME], axis=1)}, "the frame: it has column 'a' twice"),
    "an empty frame": (LABELLED | {"data": FRAME[:0]}, r"the frame of shape \(0, 4\) is empty"),
    "half a character": (LABELLED | {"data": HALF}, r"name of column 0, '.ud800', is no Unicode"),
    "a missing label": (LABELLED | {"data": SOME, "positive": str(SOME["won"].dropna().iloc[0])}, "label is missing"),
    "private": (
        LABELLED | PRIVATE | SPLIT,
        "nothing is read from private rows: give kinds='dtype' .*data_dependent=Tr",
    ),
    # one way in
    "data and X": ({**LABELLED, **POOL}, "X and data exclude each other"),
    "a reserved name": ({"data": "arrays"}, "data = 'arrays' means records that a program gave"),
    "a loader, too": ({**POOL, "loader": print}, "a loader and records in memory exclude each other"),
    "a loader of nothing": ({"loader": lambda *_: None}, "the loader returned a NoneType: it must return"),
    "other processes": ({**POOL, "transport": "zmq"}, "starts other processes, which cannot see"),
    "a world that is none": ({**POOL, "world": 3}, "world = 3: it must be a World, or left out"),
    "a frame for config": ({"config": FRAME}, "run was given a DataFrame without a name: it takes a RunConfig there"),
    # shards
    "no shards": ({"shards": []}, "shards is empty"),
    "no list of shards": ({"shards": X}, r"shards is a ndarray: shards must be a list of \(X, y\)"),
    "a shard that is no pair": ({"shards": [X[:30], X[30:]]}, r"shards\[0\] is a ndarray: it must be \(X, y\)"),
    "an empty shard": ({"shards": [HALVES[0], (X[:0], y[:0])]} | SPLIT, r"shards\[1\]: X of shape \(0, 3\) is empty"),
    "other widths": (
        {"shards": [HALVES[0], (X[30:, :2], y[30:])]} | SPLIT,
        r"shards\[1\]: feature 3 is missing, where",
    ),
    "frames and pairs": ({"shards": [HALVES[0], FRAME]} | SPLIT, "give all of one kind"),
    "no test": ({"shards": HALVES}, r"records besides, test=\(X, y\), or do without, no_test=True"),
    "a key that is no agent": ({"shards": {"a": HALVES[0]}}, "shards has the key 'a': agents are numbered 0, 1"),
    "labels missing": ({"shards": [FRAME[:30], SOME[30:]], "label": "won"} | SPLIT, "without a label: drop them"),
    "other agents": ({"shards": HALVES, "agents": 3}, "shards has 2 entries, and agents = 3"),
    "dealt": ({"shards": HALVES, "split": "zipf:1"} | SPLIT, "shards are dealt already"),
    "in one place": ({"shards": HALVES, "algorithm": "dp-sgd"}, "one holder of all records: give .*X=X, y=y"),
    # test records
    "another width": ({**POOL, "test": (X[:, :2], y)}, "test: feature 3 is missing, .*records have 'x3'"),
    "no pair": ({**POOL, "test": X}, r"test is a ndarray: it must be \(X, y\), rows and labels, or"),
    "another kind": ({**POOL, "test": FRAME}, r"test must be \(X, y\), rows and labels, as the training"),
    "a file": ({**POOL, "test": Path("t.csv")}, "test t.csv must have the form of the data, .npz; give test=.X, y. or"),
    "beside a set": ({"test": (X, y)}, "needs records in memory [(]X=, shards= or data=frame[)]"),
    "its own records": ({**POOL, **PRIVATE, "test": (X, y)}, "test is made of the run's own records"),
    "without a label": ({**LABELLED, "test": FRAME[["a", "b", "c"]]}, "no column 'won'"),
    "nothing said": (
        {**POOL, "seed": None},
        r"this run is private: it needs test=\(X, y\) .*simulate=True makes this a",
    ),
    # graphs, schemas, functions
    "a graph and a topology": ({**POOL, "graph": nx.path_graph(3), "topology": "ring:3"}, "exclude each other"),
    "a schema that holds itself": ({**POOL, "schema": ROUND}, "schema holds itself"),
    "columns of arrays": ({**POOL, "schema": {"columns": {"a": {"kind": "numeric"}}}}, "schema.columns goes with"),
    "no function": ({**POOL, "on_round": 3}, "on_round = 3 cannot be called: give a function"),
    "two arguments": ({**POOL, "on_round": lambda event, other: 0}, "on_round = .* cannot be called with one argument"),
    "an array for epsilon": ({**POOL, "epsilon": X}, r"epsilon = array\(.*\.\.\.\) is not allowed"),
}


@pytest.mark.parametrize("case", CASES)
def test_it_ends_in_words(case: str, tmp_path: Path) -> None:
    given, words = CASES[case]
    given = {"seed": 0, "algorithm": "pp-admm", "rounds": 2, "out": tmp_path / "run", **given}
    if given.get("algorithm") == "dp-sgd":
        del given["rounds"]
    with pytest.raises(AdmmnetError, match=words) as caught:
        run(**given)
    assert isinstance(caught.value, RequestError)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value).replace("run --help", "")  # no flags, in a program
    assert not (tmp_path / "run").exists()


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    how: dict[str, Any] = {"agents": np.int64(4), "epsilon": np.float32(2.0), "positive": 1, "seed": np.int8(0)}
    result = run(rounds=2, algorithm="pp-admm", out=tmp_path / "run", **POOL, **how)
    assert (result.summary["agents"], result.summary["privacy"]["epsilon_target"]) == (4, 2.0)
