"""Runs on wide records: sparse rows stay so in every method of a network, dense ones give the same model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import random_array

from admmnet import RunConfig, run
from admmnet.data import DataSettings, load, rows
from admmnet.errors import RequestError
from admmnet.experiments.holdout import hold_out
from admmnet.files import free_memory
from admmnet.holder import holder
from admmnet.holder.measurements import sums
from admmnet.predict.apply import NewData, evaluate
from admmnet.predict.model import read_model
from admmnet.running import precheck, references
from admmnet.running.resume import resumed_config
from admmnet.solvers import radius
from admmnet.solvers.accurate import is_sparse
from admmnet.solvers.losses import LOSSES
from admmnet.solvers.newton import WideSolver
from tests.benchmarks.common import unit_rows
from tests.people_runs import Stop, stopping
from tests.wide_files import write_wide

COMMON: dict[str, Any] = {"agents": 3, "topology": "ring:3", "rounds": 4, "epsilon": 20.0, "seed": 3}
EVERY: dict[str, dict[str, Any]] = {
    "admm": {"beta": 1e-11},
    "pp-admm": {},
    "ipp-admm": {"gate": "gaussian", "max_releases": 3},
    "dvp": {},
    "m-admm": {},
    "r-admm": {},
    "noisy-gd": {},
    "dp-dsgd": {},
}


WIDE = 300
"""Of these tests: dense solves of 1,500 features take seconds."""


def widths(monkeypatch: pytest.MonkeyPatch, wide: int) -> None:
    for module in (rows, holder, radius):
        monkeypatch.setattr(module, "WIDE", wide)
    monkeypatch.setattr(holder, "MANY", wide)


@pytest.fixture(autouse=True)
def less(monkeypatch: pytest.MonkeyPatch) -> None:
    widths(monkeypatch, WIDE)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return write_wide(tmp_path / "wide.libsvm", width=WIDE + 50)


@pytest.mark.parametrize("algorithm", EVERY)
@pytest.mark.parametrize("block", [1, 3])
def test_sparse_runs_equal_dense_ones(
    algorithm: str, block: int, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    first = WideSolver.__init__

    def noted(self: WideSolver, X: Any, *rest: Any) -> None:
        made.append(X)
        first(self, X, *rest)

    monkeypatch.setattr(WideSolver, "__init__", noted)
    values = COMMON | EVERY[algorithm] | {"data": file, "algorithm": algorithm, "block": block}
    sparse = run(RunConfig(**values, out=str(tmp_path / "sparse")))
    assert all(is_sparse(X) for X in made)
    assert bool(made) is (algorithm != "noisy-gd")
    widths(monkeypatch, 10**9)  # dense rows, and solves with (d, d) matrices
    made.clear()
    dense = run(RunConfig(**values, out=str(tmp_path / "dense")))
    assert not made
    assert sparse.theta.any()
    atol = 1e-9 if algorithm in ("admm", "noisy-gd") else 1e-6  # else within beta
    np.testing.assert_allclose(sparse.theta, dense.theta, rtol=0.0, atol=atol)
    ledgers = [sorted((tmp_path / name / "ledger").iterdir()) for name in ("sparse", "dense")]
    assert [path.read_bytes() for path in ledgers[0]] == [path.read_bytes() for path in ledgers[1]]


def test_rows_stay_sparse_from_a_public_width_on_whatever_they_hold(tmp_path: Path) -> None:
    for filled in (1, 200):
        file = write_wide(tmp_path / f"{filled}.libsvm", rows=6, width=WIDE - 2, filled=filled)
        for features, sparse in ((WIDE - 2, False), (WIDE - 1, True), (WIDE, True)):  # the intercept is one more
            records = load(DataSettings(data=file, features=features), 2, [0, 1])
            assert [is_sparse(X) for X, _ in records.shards.values()] == [sparse, sparse]
            assert is_sparse(records.X_test) is sparse
            projected = load(DataSettings(data=file, features=features, project=3), 2, [0])
            assert projected.shards[0][0].shape[1] == 4


def test_files_of_agents_of_a_run_without_a_seed_and_what_reads_the_model(tmp_path: Path) -> None:
    for agent in range(3):
        write_wide(tmp_path / f"own{agent}.libsvm", rows=20 + agent, width=WIDE, seed=agent)
    values = COMMON | {"data": str(tmp_path / "own{agent}.libsvm"), "features": WIDE, "no_test": True}
    found = run(
        RunConfig(**values | {"algorithm": "pp-admm", "seed": None}, no_account=True, out=str(tmp_path / "run"))
    )
    assert found.summary["mode"] == "private"
    assert [entry["records"] for entry in found.summary["per_agent"]] == [20, 21, 22]
    told = evaluate(read_model(tmp_path / "run"), NewData(data=str(tmp_path / "own1.libsvm")), public=True)
    assert told["data"]["rows"] == 21


def test_a_run_on_wide_records_goes_on_bitwise(file: str, tmp_path: Path) -> None:
    values = COMMON | {"data": file, "algorithm": "ipp-admm", "gate": "gaussian", "block": 3}
    whole = run(RunConfig(**values, out=str(tmp_path / "whole")))
    cut = tmp_path / "cut"
    with pytest.raises(Stop):
        run(RunConfig(**values, out=str(cut)), on_round=stopping(1))
    again = run(resumed_config(cut))
    assert again.theta.tobytes() == whole.theta.tobytes()


def test_arrays_stay_as_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    X = random_array((60, WIDE + 1), density=0.2, rng=rng, format="csr")
    y = np.where(rng.random(60) < 0.5, 1, -1)
    kinds = []
    checked = holder._checked

    def noted(rows: Any, *rest: Any, **named: Any) -> Any:
        kinds.append(is_sparse(rows))
        return checked(rows, *rest, **named)

    monkeypatch.setattr(holder, "_checked", noted)
    found = [
        run(**COMMON, algorithm="admm", beta=1e-11, X=rows, y=y, no_test=True, out=tmp_path / name)
        for name, rows in (("sparse", X), ("dense", X.toarray()))
    ]
    assert kinds == [True] * 3 + [False] * 3
    np.testing.assert_allclose(found[0].theta, found[1].theta, rtol=0.0, atol=1e-9)


def test_what_does_not_fit_is_refused_before_rows_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_wide(tmp_path / "narrow.libsvm", rows=90, width=100)
    monkeypatch.setattr(rows, "free_memory", lambda: 90_899.0)
    told = r"narrow.libsvm: 90 dense rows of d = 101 features take 0.0 GB, and .*\.libsvm \(sparse from d = 300 on\)"
    with monkeypatch.context() as patch:
        patch.setattr(rows, "finished", lambda *_: pytest.fail("rows were made"))
        with pytest.raises(RequestError, match=told):  # 10 bytes a number
            load(DataSettings(data=file), 3, [0, 1, 2])
    monkeypatch.setattr(rows, "free_memory", lambda: 90_901.0)
    load(DataSettings(data=file), 3, [0, 1, 2])
    wide = write_wide(tmp_path / "wide.libsvm", width=WIDE)
    load(DataSettings(data=wide), 3, [0, 1, 2])  # sparse rows need no such room


def test_moments_that_do_not_fit_are_refused_before_any_is_made(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = COMMON | {"data": file, "algorithm": "ssp", "out": str(tmp_path / "run")}
    del values["rounds"]
    needed = (66 + 4 * 3) * (WIDE + 51) ** 2  # three agents, and the intercept
    with monkeypatch.context() as patch:
        patch.setattr(precheck, "free_memory", lambda: needed - 1.0)
        patch.setattr(sums, "_products", lambda *_: pytest.fail("moments were made"))
        with pytest.raises(RequestError, match=r"ssp needs 0.0 GB for moments of d = 351 features, .* noisy-gd"):
            run(RunConfig(**values))
    monkeypatch.setattr(precheck, "free_memory", lambda: needed + 1.0)
    assert run(RunConfig(**values)).theta.any()


def test_free_memory_is_a_number_of_bytes() -> None:
    assert 1e6 < free_memory() <= math.inf


@pytest.mark.parametrize("name", ["logistic", "squared"])
def test_the_optimum_of_wide_records_is_the_one_of_narrow_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = unit_rows(np.random.default_rng(1), 40, WIDE)
    task: Any = "real" if name == "squared" else "binary"
    found = []
    for wide in (WIDE, WIDE + 1):
        monkeypatch.setattr(references, "WIDE", wide)
        found.append(np.asarray(references.optimum(X, y, LOSSES[name], 0.05, task, 2)))
    np.testing.assert_allclose(found[0], found[1], rtol=0.0, atol=1e-6)
    monkeypatch.setattr(references, "WIDE", WIDE)
    assert references.optimum(X, (y + 1.0) / 2.0, LOSSES["squared"], 0.05, "classes", 3) is None


def test_comparisons_take_wide_records(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [hold_out(load(DataSettings(data=file), 3, [0, 1, 2]), 0)]
    widths(monkeypatch, 10**9)
    records.append(hold_out(load(DataSettings(data=file), 3, [0, 1, 2]), 0))
    assert [is_sparse(found.X_test) for found in records] == [True, False]
    dense: Any = records[0].X_test
    np.testing.assert_allclose(dense.toarray(), records[1].X_test, rtol=1e-14)
