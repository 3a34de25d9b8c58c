"""Runs on wide records: sparse rows stay so in every method of a network, dense ones give the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import random_array

from admmnet import RunConfig, run
from admmnet.data import rows
from admmnet.errors import RequestError
from admmnet.holder import Holder, holder
from admmnet.holder.measurements import sums
from admmnet.running import before, references
from admmnet.solvers import radius
from admmnet.solvers.certificate import is_sparse
from admmnet.solvers.losses import LOSSES
from admmnet.solvers.newton import WideSolver
from tests.benchmarks.common import unit_rows
from tests.wide_files import write_wide

COMMON: dict[str, Any] = {"agents": 3, "topology": "ring:3", "rounds": 3, "epsilon": 20.0, "seed": 3}
EVERY: dict[str, dict[str, Any]] = {
    "admm": {"beta": 1e-11, "block": 3},
    "pp-admm": {},
    "ipp-admm": {"gate": "gaussian", "gate_threshold": 0.05, "max_releases": 3, "block": 3},
    "dvp": {"block": 3},
    "m-admm": {},
    "r-admm": {"block": 3},
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
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Records that are wide from so many features on."""
    widths(monkeypatch, WIDE)
    return write_wide(tmp_path / "wide.libsvm", width=WIDE + 50)


@pytest.mark.parametrize("algorithm", EVERY)
def test_sparse_runs_equal_dense_ones(
    algorithm: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of them solved together."""
    made: list[Any] = []
    first = WideSolver.__init__

    def noted(self: WideSolver, X: Any, *rest: Any) -> None:
        made.append(X)
        first(self, X, *rest)

    monkeypatch.setattr(WideSolver, "__init__", noted)
    values = COMMON | EVERY[algorithm] | {"data": file, "algorithm": algorithm}
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


def test_arrays_stay_as_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    X = random_array((60, WIDE + 1), density=0.2, rng=rng, format="csr")
    y, kinds, checked = np.where(rng.random(60) < 0.5, 1, -1), list[bool](), Holder._checked

    def noted(own: Holder, rows: Any, *rest: Any, **named: Any) -> Any:
        kinds.append(is_sparse(rows))
        return checked(own, rows, *rest, **named)

    monkeypatch.setattr(Holder, "_checked", noted)
    how: dict[str, Any] = {**COMMON, "algorithm": "admm", "beta": 1e-11, "y": y, "no_test": True}
    one, other = run(**how, X=X, out=tmp_path / "sparse"), run(**how, X=X.toarray(), out=tmp_path / "dense")
    assert kinds == [True] * 3 + [False] * 3
    np.testing.assert_allclose(one.theta, other.theta, rtol=0.0, atol=1e-9)


def test_moments_that_do_not_fit_are_refused_before_any_is_made(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = COMMON | {"data": file, "algorithm": "ssp", "out": str(tmp_path / "run")}
    del values["rounds"]
    needed = (66 + 4 * 3) * (WIDE + 51) ** 2  # three agents, and the intercept
    with monkeypatch.context() as patch:
        patch.setattr(before, "free_memory", lambda: needed - 1.0)
        patch.setattr(sums, "_products", lambda *_: pytest.fail("moments were made"))
        with pytest.raises(RequestError, match=r"ssp needs 0.0 GB for moments of d = 351 features, .* noisy-gd"):
            run(RunConfig(**values))
    monkeypatch.setattr(before, "free_memory", lambda: needed + 1.0)
    assert run(RunConfig(**values)).theta.any()


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
