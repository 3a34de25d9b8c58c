"""The package of docs/contributing.md and docs/descents.py is built, installed and run as they stand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.data import load
from admmnet.methods import METHODS
from admmnet.privacy.events import Gaussian
from admmnet.rng import AgentStreams, Purpose
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver
from tests.command_runs import Admmnet
from tests.doc_pages import ROOT, fenced, section
from tests.interrupted_runs import Place, assert_same

NAMES = ("linear-admm", "noisy-descent")
EPSILON, SEED = 2.0, 3
CONFIG = RunConfig(epsilon=EPSILON, topology="ring:4", seed=SEED, rounds=1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built from the page and installed in a folder of its own."""
    source, site = tmp_path_factory.mktemp("descents"), tmp_path_factory.mktemp("site")
    page, code = section("contributing.md", "Adding a method"), (ROOT / "docs" / "descents.py").read_text()
    (project,) = fenced(page, "toml")
    (source / "descents.py").write_text(code)
    (source / "pyproject.toml").write_text(project)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, timeout=120)
    return site


@pytest.fixture(autouse=True)
def _installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(site))
    before = set(METHODS._loaded)
    yield
    sys.modules.pop("descents", None)
    for name in set(METHODS._loaded) - before:
        del METHODS[name]


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_and_its_ledgers_verify(name: str, tmp_path: Path, admmnet: Admmnet) -> None:
    result = run(algorithm=name, epsilon=EPSILON, seed=SEED, out=str(tmp_path / "run"))
    rounds = 60 if name == "linear-admm" else 30
    assert all(ledger.finished and len(ledger.events) == rounds for ledger in result.ledgers)
    privacy = result.summary["privacy"]
    assert 0.9 * EPSILON < privacy["epsilon_spent"] <= privacy["epsilon_proven"] <= EPSILON
    assert result.summary["test_error"]["consensus"] < 0.17  # the larger class: 0.24
    admmnet.ok("ledger", "verify", tmp_path / "run")
    admmnet.ok("report", tmp_path / "run", "-o", tmp_path / "report.html")
    assert name in admmnet.ok("calibrate" if rounds == 60 else "baseline", "--help").out.replace("\n", "")


def test_state_of_its_own_survives(place: Place) -> None:
    method = {"algorithm": "noisy-descent", "epochs": 6, "topology": None, "momentum": 0.7, "rounds": "auto"}
    assert_same(place.resume(place.interrupted("cut", 3, **method)), place.whole("whole", **method))


def test_its_first_broadcast_is_the_step_of_the_page(tmp_path: Path) -> None:
    config = CONFIG.changed(algorithm="linear-admm", answer="last", out=str(tmp_path / "run"))
    result = run(config)
    for agent, (X, y) in load(config.sections.data, 4, range(4)).shards.items():
        ((_, event, _),) = result.ledgers[agent].events
        assert isinstance(event, Gaussian)
        b = event.sigma * AgentStreams(agent, SEED)[Purpose.OBJECTIVE].standard_normal(X.shape[1])
        step = LocalSolver(X, y, get_loss("smoothed-hinge", 1.0)).data_gradient(np.zeros(X.shape[1])) + b
        # at zero all but gradient and noise vanish: one factor, the same in every coordinate
        factors = -result.theta[agent] / step
        np.testing.assert_allclose(factors, np.median(factors), rtol=1e-4)
