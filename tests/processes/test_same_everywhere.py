"""Same seed, same data: the same trajectory on every transport and for every number of ranks, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .launch import admmnet

pytestmark = pytest.mark.processes
COMMON = ("--method", "published", "--rounds", "4", "--quiet")


def run(ranks: int, folder: Path, *words: str) -> Path:
    ended = admmnet(ranks, "run", *COMMON, *words, "-o", str(folder))
    assert ended.code == 0, ended.err
    return folder


def model(folder: Path) -> dict[str, Any]:
    with np.load(folder / "model.npz", allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def ledgers(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "ledger").iterdir())}


def releases(folder: Path) -> list[int]:
    summary = json.loads((folder / "summary.json").read_text())
    return [entry["releases"] for entry in summary["per_agent"]]


def assert_same(one: Path, two: Path) -> None:
    first, second = model(one), model(two)
    assert sorted(first) == sorted(second) == ["consensus", "feature_names", "theta"]
    for name, values in first.items():
        assert values.dtype == second[name].dtype
        assert values.tobytes() == second[name].tobytes(), name
    assert ledgers(one) == ledgers(two)
    assert (one / "metrics.csv").read_bytes() == (two / "metrics.csv").read_bytes()


@pytest.mark.parametrize("algorithm", ["admm", "pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm"])
def test_five_ranks_equal_one_process(algorithm: str, tmp_path: Path) -> None:
    # epsilon 20: the gate of ipp-admm is a coin that lets some vectors pass and holds others back
    words: tuple[str, ...] = ("--algorithm", algorithm, "--seed", "3", "--epsilon", "20")
    words += ("--max-releases", "3") if algorithm == "ipp-admm" else ()
    one, five = run(0, tmp_path / "one", *words), run(5, tmp_path / "five", *words)
    assert_same(one, five)
    assert len(ledgers(one)) == 5
    assert np.abs(model(one)["theta"]).max() > 0.0
    if algorithm == "ipp-admm":
        assert len(set(releases(one))) > 1


@pytest.mark.parametrize(
    ("ranks", "algorithm"), [(2, "pp-admm"), (3, "pp-admm"), (1, "dvp"), (2, "m-admm"), (3, "r-admm")]
)
def test_ranks_that_host_several_agents(ranks: int, algorithm: str, tmp_path: Path) -> None:
    words: tuple[str, ...] = ("--algorithm", algorithm, "--agents", "5", "--seed", "3")
    words += () if algorithm == "pp-admm" else ("--method", "proven", "--epsilon", "20")
    one, few = run(0, tmp_path / "one", *words), run(ranks, tmp_path / "few", *words)
    np.testing.assert_allclose(model(few)["theta"], model(one)["theta"], rtol=0, atol=1e-9)
    assert_same(one, few)


def test_the_seed_matters(tmp_path: Path) -> None:
    words = ("--algorithm", "pp-admm", "--topology", "ring:5")
    one = run(0, tmp_path / "one", *words, "--seed", "3")
    other = run(0, tmp_path / "other", *words, "--seed", "4")
    assert (model(one)["theta"] != model(other)["theta"]).all()
    reordered = run(0, tmp_path / "reordered", *words, "--seed", "3", "--data-seed", "1")
    assert (model(one)["theta"] != model(reordered)["theta"]).all()
