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
from admmnet.solvers import certificate
from admmnet.solvers.certificate import gradient
from admmnet.solvers.losses import LOSSES, Logistic
from admmnet.types import Matrix, Vector

from . import doors
from .doors import Target, records


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


def test_a_loss_that_says_it_is_ours_meets_no_record() -> None:
    with pytest.raises(RequestError, match="is not ours: its code would see records, which are private"):
        Target(60, 6, {"algorithm": "pp-admm", "loss": "strangers:Exponential"}).party(*records(60, 6), 0)


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

    def warning(X: Matrix, *given: Any, **named: Any) -> Any:
        warnings.warn_explicit(f"score {X[0, 0]!r}", UserWarning, "gradient", 1, module=gradient.__module__)
        np.exp(X[:1] + 1e4)
        return gradient(X, *given, **named)

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
