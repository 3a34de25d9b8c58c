"""Wrong inputs through the library: each ends in our error, which names the argument, what it is and what helps."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from admmnet import RequestError, read_run, run
from admmnet.errors import AdmmnetError
from admmnet.graph import load_topology, write_topology
from admmnet.predict.apply import NewData, evaluate, predict
from admmnet.predict.model import read_model

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


def with_nan() -> Any:
    found = X.copy()
    found[7, 1] = np.nan
    return found


def frame(**columns: Any) -> pd.DataFrame:
    return FRAME.assign(**columns)


POOL: dict[str, Any] = {"X": X, "y": y}
ROUND: dict[str, Any] = {}
ROUND["again"] = ROUND
DAMAGED = sparse.csr_array(X)
DAMAGED.indices[3] = 400
HALF = FRAME.set_axis(pd.Index(["\ud800", "b", "c", "won"], dtype=object), axis=1)
GAPS = ["M", None] * 30
CASES: dict[str, tuple[dict[str, Any], str]] = {
    # rows
    "three dimensions": ({"X": X[None], "y": y}, r"X has shape \(1, 60, 3\): .*X.reshape\(len\(X\), -1\)"),
    "one dimension": ({"X": X[:, 0], "y": y}, r"X has shape \(60,\).*X.reshape\(-1, 1\)"),
    "objects": ({"X": X.astype(object), "y": y}, r"X holds objects: numbers are needed; X.astype\(float\)"),
    "text": ({"X": X.astype(str), "y": y}, "X holds text: numbers are needed; a data frame"),
    "complex": ({"X": X + 1j, "y": y}, "X holds complex numbers: give real ones"),
    "dates": ({"X": np.full((60, 2), np.datetime64("2020-01-01")), "y": y}, "X holds dates: give numbers"),
    "nan": ({"X": with_nan(), "y": y}, r"row 7 \(the first is 0\), column 'x2': nan is not finite; remove the row"),
    "infinity, sparse": ({"X": sparse.csr_matrix(np.diag([1.0, np.inf])), "y": [0, 1]}, "row 1 .*inf is not finite"),
    "complex, sparse": ({"X": sparse.csr_matrix(X + 1j), "y": y}, "X holds complex numbers"),
    "ragged lists": ({"X": [[1, 2], [3]], "y": [0, 1]}, "X is a list of rows of different lengths"),
    "no records": ({"X": X[:0], "y": y[:0]}, r"X of shape \(0, 3\) is empty"),
    "a generator": ({"X": (row for row in X), "y": y}, r"X is a generator: give an array, or a list .*list\(X\)"),
    "a dict": ({"X": {"a": 1}, "y": y}, "X is a dict: give an array"),
    "a number": ({"X": 3, "y": y}, "X is an int: give an array"),
    "a path": ({"X": "rows.npz", "y": y}, "X = 'rows.npz': X takes an array; a file goes to data=PATH"),
    "a tensor": ({"X": Tensor(), "y": y}, r"X is a Tensor that gives numpy no array \(TypeError\).*detach"),
    "masked": ({"X": np.ma.masked_less(X, 0.0), "y": y}, r"X is masked, and masks are not read: .*X.filled\(0\)"),
    "a frame with text": ({"X": FRAME, "y": y}, r"columns that are no numbers, 'won': give the whole frame"),
    "a series": ({"X": FRAME["a"], "y": y}, r"X is a series: give a frame, such as X.to_frame\(\)"),
    "X alone": ({"X": X}, "y is missing: rows X go with labels y"),
    "y alone": ({"y": y}, "X is missing: labels y go with rows X"),
    "too long rows, scaled": ({**POOL, "scaled": True}, "row .*is longer than 1, and rows are taken as they are"),
    "scaled = 1": ({**POOL, "scaled": 1}, "scaled = 1: it must be True or False"),
    # labels
    "y of other length": ({"X": X, "y": y[:50]}, r"y has shape \(50,\), X has 60 rows: shape \(60,\) is needed"),
    "y as a column": ({"X": X, "y": y[:, None]}, r"y has shape \(60, 1\).*y.ravel\(\) has it"),
    "y one-hot": ({"X": X, "y": np.eye(2)[y]}, r"of one column a class y.argmax\(axis=1\) has it"),
    "one class": ({"X": X, "y": np.ones(60)}, "every record has the same label: two values are needed"),
    "three classes": (
        {"X": X, "y": np.arange(60) % 3},
        "labels must be -1/[+]1 or 0/1, else of 3 classes, '0', '1', '2', take task='classes' or",
    ),
    "classes in words": (
        {"X": X, "y": np.array(["r", "g", "b"])[np.arange(60) % 3]},
        "else of 3 classes, 'b', 'g', 'r', take task='classes' or labels = .a, b, c. in schema",
    ),
    "two words": ({"X": X, "y": FRAME["won"]}, "name them with positive=VALUE, one of 'no', 'yes', or labels ="),
    "targets": ({"X": X, "y": X[:, 0]}, "0/1, else take task='real' for targets that are numbers, or targets ="),
    "many counts": ({"X": X, "y": np.arange(60)}, "else take task='real' for targets that are numbers"),
    "names as labels": (
        {"X": X, "y": [f"w{i}" for i in range(60)]},
        "name another column as the label: 60 texts are too many for classes",
    ),
    "text labels": ({"X": X, "y": np.where(y, "yes", "no")}, "label '(yes|no)'; labels must be .*positive=VALUE"),
    "text for targets": ({"X": X, "y": np.where(y, "yes", "no"), "task": "real"}, "'(yes|no)' is no number"),
    "nan in y": ({"X": X, "y": np.where(y, np.nan, 1.0)}, r"y\[\d+\] is nan: every record needs a label"),
    "None in y": ({"X": X, "y": [None, *y[1:]]}, "row 0 .*label ''"),
    "lists in y": ({"X": X, "y": np.array([[1]] * 59 + [{}], dtype=object)}, "y holds a list: texts and numbers"),
    "complex y": ({"X": X, "y": y + 1j}, "y holds complex numbers: give numbers or texts"),
    "positive is none": ({**POOL, "positive": "yes"}, "no row has the label 'yes' of positive; name one of '0', '1'"),
    "label of arrays": ({**POOL, "label": "won"}, "label won goes with a csv file"),
    # frames
    "no label": ({"data": FRAME}, "name the label column with label=NAME"),
    "a label that is not there": ({"data": FRAME, "label": "lost"}, "no column 'lost'; it has 'a', 'b', 'c', 'won'"),
    "dates in a frame": (
        {"data": frame(day=pd.Timestamp("2020-01-01")), "label": "won"},
        "column 'day' holds dates or times: make a number of it, such as days",
    ),
    "dates as objects": ({"data": frame(day=datetime.date(2020, 1, 1)), "label": "won"}, "'day' holds dates or times"),
    "lists in a frame": ({"data": frame(tags=[[1]] * 60), "label": "won"}, "'tags' holds a list: texts and numbers"),
    "complex in a frame": ({"data": frame(z=X[:, 0] + 1j), "label": "won"}, "'z' holds a complex: texts and"),
    "a column twice": (
        {"data": pd.concat([FRAME, FRAME], axis=1), "label": "won"},
        "the frame: it has column 'a' twice: every column needs a name of its own",
    ),
    "levels of columns": ({"data": pd.concat({"k": FRAME}, axis=1), "label": "won"}, "have 2 levels of names"),
    "an empty frame": ({"data": FRAME[:0], "label": "won"}, r"the frame of shape \(0, 4\) is empty"),
    "a dict as data": ({"data": {"a": [1]}, "label": "a"}, "data is a dict: it must be a name, a path or a data frame"),
    "an array as data": ({"data": X}, "data is a ndarray: .*arrays go to X= and y="),
    "a frame in private": (
        {"data": FRAME, "label": "won", "seed": None, "no_test": True, "no_account": True},
        "columns are not declared, and nothing is read from private rows: "
        "give kinds='dtype' if .* schema=FILE .*data_dependent=True",
    ),
    # one way in
    "data and X": ({"data": FRAME, "label": "won", **POOL}, "X and data exclude each other"),
    "shards and X": ({"shards": HALVES, **POOL}, "shards and X exclude each other"),
    "a name and X": ({"data": "census", **POOL}, "X and data exclude each other"),
    "nowhere": ({"data": Path("/nowhere/a.csv"), "label": "won"}, "/nowhere/a.csv does not exist"),
    "no known ending": ({"data": Path("a.xls")}, "a.xls is a spreadsheet: export the sheet as CSV"),
    "a reserved name": ({"data": "arrays"}, "data = 'arrays' means records that a program gave"),
    "a loader, too": ({**POOL, "loader": print}, "a loader and records in memory exclude each other"),
    # shards
    "no shards": ({"shards": []}, "shards is empty"),
    "one shard": ({"shards": HALVES[:1]}, "shards has one entry, but a network has 2 agents or more"),
    "no list of shards": ({"shards": X}, r"shards is a ndarray: shards must be a list of \(X, y\)"),
    "a shard that is no pair": ({"shards": [X[:30], X[30:]]}, r"shards\[0\] is a ndarray: it must be \(X, y\)"),
    "an empty shard": (
        {"shards": [HALVES[0], (X[:0], y[:0])], "no_test": True},
        r"shards\[1\]: X of shape \(0, 3\) is empty",
    ),
    "widths that differ": (
        {"shards": [HALVES[0], (X[30:, :2], y[30:])], "no_test": True},
        r"shards\[1\]: feature 3 is missing, where the training records have 'x3' \(2 and 3 features\)",
    ),
    "frames and pairs": ({"shards": [HALVES[0], FRAME], "no_test": True}, "give all of one kind"),
    "shards without a test": ({"shards": HALVES}, r"records besides, test=\(X, y\), or do without, no_test=True"),
    "a key that is no agent": ({"shards": {"a": HALVES[0]}}, "shards has the key 'a': agents are numbered 0, 1"),
    "a huge key": ({"shards": {0: HALVES[0], 10**12: HALVES[1]}, "no_test": True}, "has a shard of agent 1:"),
    "a label in a list": ({"data": FRAME, "label": ["won"]}, r"label = \['won'\]: it must be the name of a column"),
    "a schema that holds itself": ({**POOL, "schema": ROUND}, "schema holds itself"),
    "half a character": ({"data": HALF, "label": "won"}, r"name of column 0, '.ud800', is no Unicode"),
    "a loader of nothing": ({"loader": lambda *_: None}, "the loader returned a NoneType: it must return"),
    "damaged indices": ({"X": DAMAGED, "y": y}, r"X is a damaged sparse matrix: .* its shape, \(60, 3\)"),
    "a label is None": ({"X": X, "y": [None, *["M", "B"] * 29, "M"], "positive": "M"}, "row 0 .*of y is missing"),
    "labels or None": ({"X": X, "y": GAPS, "positive": "M"}, "row 1 .*label '' of y is missing"),
    "an empty text": ({"X": X, "y": np.array(["M", ""] * 30), "positive": "M"}, "row 1 .*label '' of y is missing"),
    "a series with gaps": ({"X": X, "y": pd.Series(GAPS), "positive": "M"}, "row 1 .*label '' of y is missing"),
    "a frame of one label": (
        {"data": frame(won=FRAME["won"].where(y == 1)), "label": "won", "positive": str(FRAME["won"][y == 1].iloc[0])},
        "the label is missing; every record needs a label",
    ),
    "an agent left out": ({"shards": {0: HALVES[0], 2: HALVES[1]}, "no_test": True}, "has a shard of agent 1"),
    "shards without some labels": (
        {"shards": [FRAME[:30], frame(won=FRAME["won"].where(y == 1))[30:]], "label": "won", "no_test": True},
        "shards have records without a label: drop them",
    ),
    "one agent more": ({"shards": dict(enumerate([*HALVES, HALVES[0]])), "agents": 2, "no_test": True}, "has agent 2"),
    "an agent less": ({"shards": {0: HALVES[0], 1: HALVES[1]}, "agents": 3, "no_test": True}, "has a shard of agent 2"),
    "other agents": ({"shards": HALVES, "agents": 3}, "shards has 2 entries, and agents = 3"),
    "shards that are dealt": ({"shards": HALVES, "no_test": True, "split": "zipf:1"}, "shards are dealt already"),
    "shards in one place": ({"shards": HALVES, "algorithm": "dp-sgd"}, "one holder of all records: give .*X=X, y=y"),
    # test records
    "a test of another width": ({**POOL, "test": (X[:, :2], y)}, "test: feature 3 is missing, .*records have 'x3'"),
    "a test that is no pair": ({**POOL, "test": X}, r"test is a ndarray: it must be \(X, y\), rows and labels, or"),
    "a test of another kind": ({**POOL, "test": FRAME}, r"test must be \(X, y\), rows and labels, as the training"),
    "a test file of another kind": (
        {**POOL, "test": Path("t.csv")},
        "test t.csv must have the form of the data, .npz; give test=.X, y. or a frame",
    ),
    "a test beside a set": ({"test": (X, y)}, "needs records in memory [(]X=, shards= or data=frame[)]"),
    "its own records": (
        {**POOL, "seed": None, "test": (X, y), "no_account": True},
        "test is made of the run's own records",
    ),
    "nothing said of privacy": (
        {**POOL, "seed": None},
        r"so this run is private: it needs test=\(X, y\) .*or no_test=True and account=DIR .*or no_account=True; .*"
        "simulate=True makes this a simulation",
    ),
    # graphs
    "a graph with other nodes": ({**POOL, "graph": nx.path_graph(["a", "b"])}, "agents are numbered 0..N-1, got 'a'"),
    "a directed graph": ({**POOL, "graph": nx.path_graph(3, nx.DiGraph)}, "directed graph; agents exchange both ways"),
    "a self-loop": ({**POOL, "graph": nx.Graph([(0, 1), (1, 1)])}, "self-loop 1-1"),
    "parts": ({**POOL, "graph": nx.Graph([(0, 1), (2, 3)])}, "not connected, it has 2 parts"),
    "no spec": ({**POOL, "graph": "ring"}, "topology 'ring'"),
    "a graph and a topology": ({**POOL, "graph": nx.path_graph(3), "topology": "ring:3"}, "exclude each other"),
    "a graph of another size": ({"shards": HALVES, "graph": nx.path_graph(3)}, "2 entries, and agents = 3: give one"),
    "a topology of another size": ({"shards": HALVES, "topology": "ring:3"}, "3 nodes but agents says 2"),
    # settings
    "text for epsilon": ({**POOL, "epsilon": "1"}, "epsilon = '1' is not allowed: it must be a number, above 0"),
    "epsilon nan": ({**POOL, "epsilon": float("nan")}, "epsilon = nan is not allowed"),
    "an array for epsilon": ({**POOL, "epsilon": X}, r"epsilon = array\(.*\.\.\.\) is not allowed"),
    "more agents than records": ({**POOL, "agents": 100}, "100 agents and 45 training records"),
    "an unknown setting": ({**POOL, "epsilom": 1.0}, "there is no setting 'epsilom': did you mean epsilon"),
    "an unknown method": ({**POOL, "algorithm": "adam"}, "algorithm = 'adam' is not allowed"),
    "a schema that is none": ({**POOL, "schema": 3}, "schema is an int: it must be a table such as"),
    "an unknown key": ({**POOL, "schema": {"labls": [0, 1]}}, "unknown key schema.labls; the keys are"),
    "columns of arrays": ({**POOL, "schema": {"columns": {"a": {"kind": "numeric"}}}}, "schema.columns goes with"),
    "a schema nowhere": ({**POOL, "schema": "nowhere.toml"}, "cannot read the config file nowhere.toml|cannot read"),
    "a number for on_round": ({**POOL, "on_round": 3}, "on_round = 3 cannot be called: give a function"),
    "zmq": ({**POOL, "transport": "zmq"}, "starts other processes, which cannot see"),
    "a world that is none": ({**POOL, "world": 3}, "world = 3: it must be a World, or left out"),
    "a number for features": ({**POOL, "features": 4}, "features = 4, and X has 3 columns: leave it out"),
    "an array of no dimension": ({"X": np.array(3.0), "y": y}, r"X has shape \(\)"),
    "y as a frame": ({"X": X, "y": FRAME[["won"]]}, r"y is a frame: give one column, such as y.iloc\[:, 0\]"),
    "bytes for labels": ({"X": X, "y": [b"a"] * 60}, "y holds bytes: give numbers or texts"),
    "two ways of labels": ({**POOL, "schema": {"labels": [0, 1], "targets": [0, 1]}}, "schema gives labels and"),
    "a test without a label": ({"data": FRAME, "label": "won", "test": FRAME[["a", "b", "c"]]}, "no column 'won'"),
    "other labels in the test": ({"data": FRAME, "label": "won", "test": frame(won="perhaps")}, "label 'perhaps'"),
    "three in a pair": ({**POOL, "test": (X, y, y)}, "test is a tuple of length 3: it must be"),
    "no edges": ({**POOL, "topology": "edges:"}, "topology edges: expected pairs of agents such as 0-1, got ''"),
    "a multigraph": ({**POOL, "graph": nx.MultiGraph([(0, 1), (0, 1)])}, "multigraph: parallel edges"),
    "private with a seed": ({**POOL, "private": True}, "private and seed exclude each other"),
    "a frame for config": ({"config": FRAME}, "run was given a DataFrame without a name: it takes a RunConfig there"),
    "a number for account": ({**POOL, "account": 3}, "account = 3 is not allowed: it must be text"),
}  # fmt: skip


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


@pytest.mark.parametrize("value", [lambda: 0, lambda event, other: 0])
@pytest.mark.parametrize("name", ["on_round", "on_start"])
def test_functions_that_take_no_event(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=f"{name} = .* cannot be called with one argument"):
        run(**POOL, **{name: value}, seed=0, rounds=1, agents=2, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


NONE: Any = None
TEXT: Any = "run"
ROWS: Any = X
PAIR: Any = [1, 2]
ELSEWHERE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "topology of nothing": (lambda m: load_topology(NONE), "source is a NoneType: give a file or a spec"),
    "no graph": (lambda m: write_topology(PAIR, "x.edges"), "it is a list, and must be a networkx.Graph"),
    "no path": (lambda m: write_topology(nx.path_graph(3), NONE), "path is a NoneType"),
    "model of nothing": (lambda m: read_model(NONE), "None is no run folder: give its path"),
    "model nowhere": (lambda m: read_model("nowhere"), "nothing of the name nowhere: name the folder"),
    "new data of nothing": (lambda m: predict(m, NewData(data=NONE)), "X is missing"),
    "a path for a model": (lambda m: predict(TEXT, NewData(data="t.csv")), "model is a str: .*read_model.FOLDER"),
    "rows for a file": (lambda m: predict(m, ROWS), "new is a ndarray: give NewData.data=FILE"),
    "evaluated rows": (lambda m: evaluate(m, ROWS), "new is a ndarray: give NewData.data=FILE"),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_what_else_the_library_offers(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, words = ELSEWHERE[case]
    model = None
    if case in ("rows for a file", "evaluated rows", "new data of nothing"):
        model = read_model(run(**POOL, seed=0, rounds=1, agents=2, out="made").folder)
    with pytest.raises(RequestError, match=words):
        call(model)


def test_read_run_of_no_path() -> None:
    with pytest.raises(RequestError, match="3 is no run folder: give its path"):
        read_run(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: {"out": path}, "cannot make the run folder"),
        (lambda path: {"account": path}, "account|cannot"),
        (lambda path: {"resume": path.parent}, "is no run folder: it has no config.toml"),
        (lambda path: {"topology": path.with_suffix(".edges")}, "no such file"),
    ],
)
def test_files_in_the_way(make: Callable[[Path], dict[str, Any]], words: str, tmp_path: Path) -> None:
    path = tmp_path / "a-file"
    path.write_text("here already\n")
    given = {"seed": 0, "algorithm": "pp-admm", "rounds": 2, "out": tmp_path / "run", **POOL, **make(path)}
    with pytest.raises(AdmmnetError, match=words):
        run(**given)
