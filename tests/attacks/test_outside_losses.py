"""A loss of somebody else's: its code never meets a private record."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, run
from admmnet.cli import run_command_line
from admmnet.holder import door
from admmnet.solvers import certificate
from admmnet.solvers.certificate import gradient
from admmnet.solvers.losses import LOSSES, Logistic
from admmnet.types import Matrix, Vector

from . import doors
from .doors import Target, records

SIZE, WIDTH, RUNS = 60, 6, 4
LENGTH = 5e3
"""Norm of the vector that the neighbour makes agent 0's solution: scores of rows along it overflow an exponential."""


class Exponential(Logistic):
    """The logistic loss with ``math.exp``, as many write it: right constants, and an error at a score of 710."""

    __module__ = "admmnet.solvers.losses"  # a lie

    def derivative(self, u: Vector, y: Vector) -> Vector:
        slopes = [-label / (1.0 + math.exp(label * score)) for score, label in zip(u, y, strict=True)]
        return np.array(slopes)


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = ModuleType("strangers")
    module.Exponential = Exponential  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "strangers", module)
    yield
    for name in [name for name in LOSSES._loaded if "strangers:" in name or ".py:" in name]:
        del LOSSES[name]


def endings() -> list[list[str]]:
    """How runs end whose records lie across the neighbour's vector, and with one record along it."""
    X, y = records(SIZE, WIDTH)
    v = np.eye(WIDTH)[0]
    X[:, 0] = 0.0
    along, labels = X.copy(), y.copy()
    along[0], labels[0] = v * (1.0 - 2.0**-50), 1.0
    settings: dict[str, Any] = {"algorithm": "pp-admm", "epsilon": 0.5, "delta": 1e-5, "rounds": 2, "eta": 1.0}
    attacked = Target(SIZE, WIDTH, {"loss": "strangers:Exponential"} | settings)
    worlds = (X, y), (along, labels)
    return [[attacked.ending(*world, seed, [v * LENGTH])[1] for seed in range(RUNS)] for world in worlds]


def test_a_loss_that_raises_at_a_record_meets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where losses from outside meet records, runs end with the record and with no other."""
    with pytest.raises(RequestError, match="is not ours: its code would see records, which are private"):
        endings()
    monkeypatch.setattr(door, "_agree", lambda holder, loss: None)
    out, inside = endings()
    assert out == [""] * RUNS
    assert all(text.startswith("RunError") for text in inside)


def private(folder: Path, **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"epsilon": 5.0, "rounds": 2, "topology": "ring:4", "algorithm": "pp-admm"}
    return doors.private(folder, 400, 3, **given | settings)


SEEDED: dict[str, Any] = {"private": False, "no_account": False, "seed": 0}


def test_a_loss_from_outside_answers_in_simulations_alone(tmp_path: Path) -> None:
    settings = private(tmp_path, loss="strangers:Exponential")
    with pytest.raises(RequestError, match="--loss strangers:Exponential, whose code would see the records"):
        run(**settings)
    found = run(**settings | SEEDED | {"out": str(tmp_path / "seeded")})
    assert {ledger.header["loss"] for ledger in found.ledgers} == {"strangers:Exponential"}
    assert run_command_line(["ledger", "verify", str(found.folder)]) == 0


@pytest.mark.parametrize("mode", ["private", "simulation"])
def test_warnings_of_a_measurement_are_shown_in_simulations_alone(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solver's arithmetic is made to warn of its scores, and to overflow, in every pass over the records."""

    def warning(X: Matrix, *given: Any) -> Any:
        warnings.warn_explicit(f"score {X[0, 0]!r}", UserWarning, "gradient", 1, module=gradient.__module__)
        np.exp(X[:1] + 1e4)
        return gradient(X, *given)

    monkeypatch.setattr(certificate, "gradient", warning)
    settings = private(tmp_path, rounds=1) | (SEEDED if mode == "simulation" else {})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run(**settings)
    assert bool(said) == (mode == "simulation")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if mode == "private":
            run(**settings | {"out": str(tmp_path / "strict")})


@pytest.mark.processes
def test_agents_in_processes_of_their_own_read_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m5.py").write_text("from admmnet.solvers.losses import Logistic\n\n\nclass Twice(Logistic):\n    pass\n")
    given: dict[str, Any] = {"loss": "m5.py:Twice", "rounds": 1, "seed": 0, "topology": "path:2"}
    ends = [run(transport=name, out=f"{name}-run", **given) for name in ("zmq", "local")]
    np.testing.assert_array_equal(ends[0].theta, ends[1].theta)
