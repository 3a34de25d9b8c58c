"""`admmnet data check`: all faults of one file, what a run makes of its columns, and columns that hardly count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from admmnet import RunConfig, run
from admmnet.data import DataSettings
from admmnet.data.check import check_file, swallowing
from admmnet.errors import DataError, RequestError
from tests.command_runs import Admmnet

CSV = "a,b,y\n1,2,yes\nAlice,3,no\n4,nan,maybe\n5,6\nAlice,7,yes\n"
SCHEMA: dict[str, Any] = {
    "label": "y",
    "labels": ["no", "yes"],
    "drop": ["id"],
    "columns": {
        "age": {"kind": "numeric", "low": 0, "high": 100, "scale": "centred", "missing": "indicator"},
        "age-bin": {"column": "age", "kind": "numeric", "edges": [0, 20, 60]},
        "ward": {"kind": "categorical", "categories": ["Aa", "Bb"], "other": True, "weight": 2.0},
        "cost": {"kind": "numeric"},
    },
}
SOUND = "id,age,ward,cost,y\n" + "".join(
    f"Q{k},{20 + k},{'AB'[k % 2] * 2},{k},{['no', 'yes'][k % 2]}\n" for k in range(20)
)
SHORT = {"label": "y", "labels": ["no", "yes"]}


@pytest.fixture(autouse=True)
def _files(_here: None) -> None:
    texts = {
        "t.csv": CSV,
        "quoted.csv": CSV.replace("Alice,3", '"Alice",3'),
        "t.libsvm": "1 1:2 3:4\n-1 1:x 2:3\nbad line\n7 1:2\n-1 2:inf\n",
        "many.csv": "a,y\n" + "".join(f"x{k},1\n" for k in range(1500)),
        "sound.csv": SOUND,
        "bare.csv": "\n1,2,yes\n3,4,no",
        "bare.toml": 'label = "x3"\nheader = false\n',
        "s.toml": tomli_w.dumps(SCHEMA),
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    np.savez("t.npz", X=np.array([[1, 2], [np.nan, np.inf], [3, 4]]), y=["1", "HIV-positive", "-1"])
    np.savez("good.npz", X=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], y=[1, -1, 1])
    np.savez("zero.npz", X=[[1.0, 2.0], [0.0, 0.0]], y=[1, -1])


def faults(**settings: Any) -> list[str]:
    found = check_file(DataSettings(**settings))
    assert found.source is None
    assert found.count == len(found.faults)
    return list(found.faults)


KINDS: dict[str, Any] = {
    "a": {"kind": "numeric", "low": 0, "high": 9},
    "b": {"kind": "categorical", "categories": ["2", "3", "6", "7"]},
}
SHORT_LINE, LABEL = (
    "line 5: 2 values, expected 3; mend or remove the line",
    "line 4, column 'y': undeclared label 'maybe'",
)
TEXT = "line 3, column 'a': 'Alice' is no number"


@pytest.mark.parametrize(
    ("data", "how", "words"),
    [
        ("t.csv", {"label": "y", "positive": "yes"}, [SHORT_LINE, LABEL, TEXT, "line 4, column 'b': 'nan' is not fin"]),
        ("t.csv", {}, [SHORT_LINE, "name the label column with --label NAME; the header has a, b, y"]),
        ("t.csv", {"label": "z"}, [SHORT_LINE, "has no column 'z'; it has 'a', 'b', 'y'"]),
        ("quoted.csv", {"schema": SHORT | {"columns": KINDS}}, [SHORT_LINE, LABEL, TEXT, "undeclared category 'nan'"]),
        ("t.npz", {}, ["row 2, column 'x1'", "row 2, column 'x2'", "row 2, column 'y'"]),
        ("t.libsvm", {}, ["line 3", "line 2, index 1", "line 5, index 2", "line 4, column 'label'"]),
    ],
)
def test_every_fault_of_a_file(data: str, how: dict[str, Any], words: list[str]) -> None:
    found = faults(data=data, **how)
    assert [word in fault for fault, word in zip(found, words, strict=True)] == [True] * len(words)
    assert all(fault.startswith(data) for fault in found)
    assert ["(2 rows have it)" in fault for fault in found] == [word == TEXT for word in words]


def test_the_last_step_of_a_run_is_taken_too_and_faults_are_counted() -> None:
    assert check_file(DataSettings(data="zero.npz")).source is not None
    (fault,) = faults(data="zero.npz", no_intercept=True)
    assert fault.startswith("zero.npz, row 2: every feature is zero")
    found = check_file(DataSettings(data="many.csv", label="y"))
    assert (len(found.faults), found.count) == (DataError.KEPT, 1500)
    with pytest.raises(RequestError, match="name the file of one agent"):
        check_file(DataSettings(data="{agent}.csv"))


def test_what_a_run_makes_of_each_column() -> None:
    found = check_file(DataSettings(data="sound.csv", schema=SCHEMA, encode="declared"))
    assert found.columns == [
        "column 'age': numeric, missing indicator, scale centred, low 0.0, high 100.0, 2 features",
        "column 'age-bin': numeric, column age, scale bins, edges 0.0, 20.0, 60.0, 3 features",
        "column 'ward': categorical, weight 2.0, other True, categories Aa, Bb, 3 features",
        "column 'cost': numeric, low 0.0, high 19.0, 1 feature",
    ]
    assert found.source is not None
    assert found.source.dependent == ("bounds of 'cost'",)
    assert check_file(DataSettings(data="sound.csv", schema=SCHEMA)).notes == ()
    wide = SCHEMA["columns"] | {"cost": {"kind": "numeric", "low": 0, "high": 100_000}}
    (note,) = check_file(DataSettings(data="sound.csv", schema=SCHEMA | {"columns": wide})).notes
    assert note.startswith("column 'cost' takes 0.02% of its bounds, 0 to 100000, so")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("good.npz", 0, ["3 records of 2 features, no fault"]),
        ("good.npz --balance", 0, ["label '+1' (+1): 2 records"]),
        ("census", 0, ["48,842 records of 108 features, no fault", "label 'low'", "note: census is synthetic"]),
        ("sound.csv --schema s.toml", 0, ["label 'no'", "'cost': bounds and shape are measured", "8 features"]),
        ("sound.csv --schema s.toml --balance", 0, ["label 'no': 10 records", "label 'yes' (+1): 10 records"]),
        ("", 0, ["data sets, for --data NAME", "adult", "mnist:DIGIT", "ipums:FILE"]),
        ("t.npz", 1, ["HIV-positive", "keep them on this machine"]),
        ("t.npz --most 1", 1, ["and 2 more"]),
        ("bare.csv --schema bare.toml", 1, ["bare.csv, line 1 is empty: remove it"]),
        ("gone.csv", 2, []),
    ],
)
def test_the_command(words: str, code: int, told: list[str], admmnet: Admmnet) -> None:
    printed = admmnet("data", "check", *words.split())
    assert printed.code == code
    assert all(part in printed.out for part in told), printed
    assert (printed.err == "") == (code == 0)
    assert "HIV" not in printed.err
    assert "Q1" not in printed.out
    assert (" records\n  " in printed.out.partition("all of")[0]) == ("--balance" in words)


@pytest.mark.parametrize(("scale", "said"), [(1000.0, "feature 'b'"), (1.0, None), (1e-5, None)])
def test_one_feature_that_swallows_the_others(scale: float, said: str | None) -> None:
    stream = np.random.default_rng(0)
    X = np.column_stack([stream.random((50, 1)), scale * stream.random((50, 1)), np.ones((50, 1))])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    found = swallowing(X, ("a", "b", "intercept"))
    assert found is said is None or str(found).startswith(f"{said} makes up ")
    X = np.column_stack([1e-3 * stream.random((50, 2)), np.ones((50, 1))])
    assert str(swallowing(X, ("a", "b", "intercept"))).startswith("the constant column makes up 100.0%")


def test_a_simulation_says_that_one_feature_swallows_others_and_a_private_run_does_not() -> None:
    stream = np.random.default_rng(1)
    X = np.column_stack([stream.random(60), 1e5 * stream.random(60)])
    np.savez("n.npz", X=X, y=np.where(X[:, 0] > 0.5, 1, -1))
    how: dict[str, Any] = {"data": "n.npz", "agents": 2, "topology": "path:2", "rounds": 2}
    simulated = run(RunConfig(**how, seed=1, out="one"))
    assert any("feature 'x2' makes up" in note for note in simulated.summary["notes"])
    private = run(RunConfig(**how, no_test=True, no_account=True, out="two"))
    assert not any("makes up" in note for note in private.summary["notes"])
