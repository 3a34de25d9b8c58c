"""A method that lets numpy raise: no record decides how a run ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunError, run
from admmnet.holder import door


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    with np.errstate():
        yield


def ending(folder: Path, *, found: bool) -> str:
    """How a private run ends whose agent 0 has the record at which exp underflows far out, or not."""
    rng = np.random.default_rng(0)
    X = np.zeros((400, 5))
    X[:, 1:] = rng.standard_normal((400, 4))
    X[:, 1:] /= np.linalg.norm(X[:, 1:], axis=1, keepdims=True) * (1.0 + 1e-12)
    y = rng.choice([-1.0, 1.0], 400)
    y[0] = -1.0
    if found:
        X[0] = np.eye(5)[0]
    shards = [(X[part], y[part]) for part in np.split(np.arange(400), 2)]
    name = "tests.attacks.overspenders:Absorbing"
    try:
        given: dict[str, Any] = {"algorithm": name, "loss": "logistic", "topology": "path:2", "epsilon": 5.0}
        run(shards=shards, scaled=True, rounds=4, **given, delta=1e-5, no_test=True, no_account=True, out=folder)
    except RunError as error:
        return str(error)
    return ""


def test_both_worlds_end_alike(tmp_path: Path) -> None:
    assert [ending(tmp_path / str(found), found=found) for found in (False, True)] == ["", ""]


def test_without_the_doors_own_state_one_record_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "quietly", lambda quiet: nullcontext())
    out, inside = (ending(tmp_path / str(found), found=found) for found in (False, True))
    assert out == ""
    assert "a measurement failed in its own arithmetic" in inside
