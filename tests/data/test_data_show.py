"""`admmnet data show`, and notes on columns that hardly count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.data import DataSettings, load
from admmnet.data.check import check_file, facts_of, swallowing
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


def columns(facts: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    return [(entry["feature"], entry["encoding"], entry["features"]) for entry in facts["columns"]]


@pytest.mark.parametrize("name", ["census"])
def test_a_named_set(name: str) -> None:
    facts = facts_of(DataSettings(data=name), balance=False)
    records = load(DataSettings(data=name), 2, [0])
    assert facts["features"] == len(records.feature_names)
    assert (facts["records"], facts["public"], facts["declared"]) == (48842, True, True)
    assert facts["label"]["values"] == ["low", "high"]
    assert sum(facts["label"]["records"].values()) == 48842
    assert sum(entry["features"] for entry in facts["columns"]) + 1 == facts["features"]


def test_a_file_shows_what_is_declared_and_no_record(write: Write) -> None:
    path = write("t.csv", TEXT)
    facts = facts_of(DataSettings(data=path, schema=SCHEMA, encode="declared"), balance=False)
    assert columns(facts) == [
        ("age", "centred, clipped to 0 to 100, one more where missing", 2),
        ("age-bin", "one-hot of intervals from 0, 20, 60", 3),
        ("ward", "one-hot of Aa, Bb, others share one, weight 2", 3),
        ("cost", "linear, bounds not declared: read from the rows", 1),
    ]
    assert (facts["records"], facts["features"], facts["declared"], facts["public"]) == (20, 10, False, False)
    assert facts["label"]["values"] == ["no", "yes"]
    assert "records" not in facts["label"]
    assert facts_of(DataSettings(data=path, schema=SCHEMA), balance=True)["label"]["records"] == {"no": 10, "yes": 10}
    X = load(DataSettings(data=path, schema=SCHEMA, no_test=True), 1, [0])
    assert len(X.feature_names) == facts["features"]


def test_what_is_not_declared_and_what_is_not_there(write: Write) -> None:
    path = write("t.csv", TEXT)
    changed = SCHEMA | {"drop": ["gone"]}
    facts = facts_of(DataSettings(data=path, schema=changed), balance=False)
    assert (facts["undeclared"], facts["absent"], facts["declared"]) == (["id"], ["gone"], False)
    plain = facts_of(DataSettings(data=path, label="y"), balance=False)
    assert [entry["column"] for entry in plain["columns"]] == ["id", "age", "ward", "cost"]
    assert plain["features"] is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "census",
            ["48,842 records, a public data set", "label income: low (-1) 75.9%, high (+1) 24.1%", "features: 109"],
        ),
        (
            "t.csv --schema s.toml",
            [
                "left out: id",
                "label y: no (-1), yes (+1)",
                "kinds are declared; noisy-gd, pp-admm, ipp-admm, dp-dsgd measure the rest",
            ],
        ),
        ("t.csv --schema s.toml --balance", ["label y: no (-1) 50.0%, yes (+1) 50.0%"]),
        ("t.csv", ["label: none is named", "not declared: a private run takes it for a number"]),
        (
            "n.npz",
            ["x1 to x3", "numbers as they are", "must be -1 and +1, or 0 and 1", "all of the encoding is declared"],
        ),
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
    printed = " ".join(admmnet.ok("data", "show", *words.split()).out.split())
    assert all(" ".join(part.split()) in printed for part in told), printed
    assert "Q1" not in printed
    assert admmnet.json("data", "show", *words.split())["data"] == words.split()[0]


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
