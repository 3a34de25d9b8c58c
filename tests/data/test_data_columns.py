"""`admmnet data check` of a sound file, and notes on columns that hardly count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.data import DataSettings
from admmnet.data.check import check_file, swallowing
from tests.command_runs import Admmnet
from tests.data.conftest import Write

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
TEXT = "id,age,ward,cost,y\n" + "".join(
    f"Q{k},{20 + k},{'AB'[k % 2] * 2},{k},{['no', 'yes'][k % 2]}\n" for k in range(20)
)


def test_what_a_run_makes_of_each_column(write: Write) -> None:
    path = write("t.csv", TEXT)
    found = check_file(DataSettings(data=path, schema=SCHEMA, encode="declared"))
    assert found.columns == [
        "column 'age': numeric, missing indicator, scale centred, low 0.0, high 100.0, 2 features",
        "column 'age-bin': numeric, column age, scale bins, edges 0.0, 20.0, 60.0, 3 features",
        "column 'ward': categorical, weight 2.0, other True, categories Aa, Bb, 3 features",
        "column 'cost': numeric, low 0.0, high 19.0, 1 feature",
    ]
    assert found.source is not None
    assert found.source.dependent == ("bounds of 'cost'",)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("census", ["48,842 records of 108 features, no fault", "label 'low'", "note: census is synthetic"]),
        ("t.csv --schema s.toml", ["label 'no'", "'cost': bounds and shape are measured by noisy sums, 8 features"]),
        ("t.csv --schema s.toml --balance", ["label 'no': 10 records", "label 'yes' (+1): 10 records"]),
        ("n.npz --balance", ["4 records of 3 features", "label '+1' (+1): 2 records"]),
        ("", ["data sets, for --data NAME", "adult", "mnist:DIGIT", "ipums:FILE"]),
    ],
)
def test_the_command(
    words: str, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet
) -> None:
    import tomli_w

    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TEXT)
    Path("s.toml").write_text(tomli_w.dumps(SCHEMA))
    np.savez("n.npz", X=np.ones((4, 3)), y=[1, -1, 1, -1])
    printed = admmnet.ok("data", "check", *words.split()).out
    assert all(part in printed for part in told), printed
    assert (" records\n  " in printed.partition("all of")[0]) == ("--balance" in words)
    assert "Q1" not in printed


@pytest.mark.parametrize(("scale", "what"), [(1000.0, "feature 'b'"), (1.0, None), (0.001, None), (1e-5, None)])
def test_one_feature_that_swallows_the_others(scale: float, what: str | None) -> None:
    stream = np.random.default_rng(0)
    X = np.column_stack([stream.random((50, 1)), scale * stream.random((50, 1)), np.ones((50, 1))])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    said = swallowing(X, ("a", "b", "intercept"))
    assert (said is None) if what is None else str(said).startswith(f"{what} makes up ")
    X = np.column_stack([1e-3 * stream.random((50, 2)), np.ones((50, 1))])
    assert str(swallowing(X, ("a", "b", "intercept"))).startswith("the constant column makes up 100.0%")


def test_a_simulation_says_so_and_a_private_run_says_what_is_public(tmp_path: Path) -> None:
    stream = np.random.default_rng(1)
    X = np.column_stack([stream.random(60), 1e5 * stream.random(60)])
    y = np.where(X[:, 0] > 0.5, 1, -1)
    np.savez(tmp_path / "n.npz", X=X, y=y)
    lines = "".join(f"{a},{b},{c}\n" for a, b, c in zip(*X.T, y, strict=True))
    (tmp_path / "n.csv").write_text("a,b,y\n" + lines)
    quick: dict[str, Any] = {"agents": 2, "topology": "path:2", "rounds": 2}
    private: dict[str, Any] = {"no_test": True, "no_account": True}

    def notes(data: str, **settings: Any) -> str:
        out = str(tmp_path / f"run{len(list(tmp_path.iterdir()))}")
        return " ".join(run(RunConfig(data=str(tmp_path / data), out=out, **quick, **settings)).summary["notes"])

    assert "feature 'x2' makes up" in notes("n.npz", seed=1)
    assert "makes up" not in notes("n.npz", **private)
    assert "makes up" not in notes("n.csv", label="y", seed=1)  # drafted
    said = notes("n.csv", label="y", **private)
    assert "makes up" not in said
    assert "nothing is declared of the columns" in said


def test_check_names_bounds_that_are_much_too_wide(write: Write) -> None:
    path = write("t.csv", TEXT)
    wide = SCHEMA["columns"] | {"cost": {"kind": "numeric", "low": 0, "high": 100_000}}
    found = check_file(DataSettings(data=path, schema=SCHEMA | {"columns": wide}))
    assert [note[:56] for note in found.notes] == ["column 'cost' takes 0.02% of its bounds, 0 to 100000, so"]
    assert check_file(DataSettings(data=path, schema=SCHEMA)).notes == ()
