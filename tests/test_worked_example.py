"""The method that docs/contributing.md adds in one file works as the page says."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, algorithms, config, run
from admmnet.data import Records, load
from admmnet.decisions import AnyNoise, Facts, decide
from admmnet.defaults import fixed
from admmnet.losses import get_loss
from admmnet.planning import data_settings, located
from admmnet.privacy.calibrate_proven import ProvenNoise
from admmnet.privacy.events import Gaussian
from admmnet.rng import Purpose, agent_streams
from admmnet.solve import LocalSolver
from admmnet.transport.local import LocalWorld

PAGE = Path(__file__).resolve().parents[1] / "docs" / "contributing.md"
FILE = "admmnet.algorithms.linear_admm"
ROUNDS, EPSILON, SEED, AGENTS = 8, 2.0, 3, 4


def blocks() -> tuple[str, str]:
    """The page's file, and its row in the registry."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Adding a method\n")[1].split("\n## ")[0]
    (file,) = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    (row,) = re.findall(r"^```text\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return file, row


@pytest.fixture
def method(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The page's file as a module, its row in the registry, its name among the settings' choices."""
    file, row = blocks()
    module = ModuleType(FILE)
    monkeypatch.setitem(sys.modules, FILE, module)  # dataclasses look their module up
    exec(compile(file, "docs/contributing.md", "exec"), module.__dict__)
    row_of = ast.literal_eval(row.partition(":")[0])
    factory = eval(f"{{{row}}}", module.__dict__)[row_of]
    monkeypatch.setitem(algorithms.ALGORITHMS, row_of, factory)
    monkeypatch.setattr(config, "ALGORITHMS", (*config.ALGORITHMS, row_of[0]))
    yield module
    config.metadata.cache_clear()


SETTINGS: dict[str, Any] = {
    "algorithm": "linear-admm",
    "epsilon": EPSILON,
    "topology": "ring:4",
    "seed": SEED,
}


def prepared(rounds: int) -> tuple[Records, Mapping[int, AnyNoise]]:
    """Records and noise of the run, made again."""
    settings, graph = located(fixed(RunConfig(**SETTINGS, rounds=rounds)), LocalWorld())
    records = load(data_settings(settings), len(graph), sorted(graph))
    facts = Facts(graph, records.counts, len(records.feature_names))
    noise = decide(settings, facts, LocalWorld()).noise
    assert noise is not None
    return records, noise


def test_the_example_runs_and_its_ledgers_verify(method: ModuleType, tmp_path: Path) -> None:
    result = run(RunConfig(**SETTINGS, rounds=ROUNDS, out=str(tmp_path / "run")))
    # reading verifies every one
    assert [len(ledger.events) for ledger in result.ledgers] == [ROUNDS] * AGENTS
    assert all(ledger.finished for ledger in result.ledgers)
    privacy = result.summary["privacy"]
    assert 0.9 * EPSILON < privacy["epsilon_spent"] <= privacy["epsilon_proven"] <= EPSILON
    positive = float(np.mean(prepared(ROUNDS)[0].y_test > 0.0))
    assert result.summary["test_error"]["consensus"] < 0.9 * min(positive, 1.0 - positive)


def test_its_first_broadcast_is_the_step_of_the_page(method: ModuleType, tmp_path: Path) -> None:
    result = run(RunConfig(**SETTINGS, rounds=1, out=str(tmp_path / "run")))
    records, noises = prepared(1)
    assert len(records.shards) == AGENTS
    for agent, (X, y) in records.shards.items():
        noise = noises[agent]
        assert isinstance(noise, ProvenNoise)
        event = method.LinearADMM.of(noise).event
        assert event == Gaussian(2.0 / len(y), noise.release[0].sigma)  # type: ignore[union-attr]
        b = event.sigma * agent_streams(agent, SEED)[Purpose.OBJECTIVE].standard_normal(X.shape[1])
        slope = LocalSolver(X, y, get_loss("logistic")).data_gradient(np.zeros(X.shape[1]))
        m = noise.convexity + 0.25
        # at zero all but gradient and noise vanish; the grid's step is below 1e-6 of the noise
        np.testing.assert_allclose(
            result.theta[agent], -(slope + b) / m, rtol=0.0, atol=1e-6 * event.sigma / m
        )


def test_a_budget_for_fewer_rounds_silences_it(method: ModuleType, tmp_path: Path) -> None:
    """The example asks its ledger: charged past the plan, it falls silent and the ledgers still verify."""
    planned = method.LinearADMM.of

    def dearer(noise: ProvenNoise) -> Any:
        own = planned(noise)
        return replace(own, event=replace(own.event, sigma=own.event.sigma / 2.0))

    method.LinearADMM.of = dearer
    result = run(RunConfig(**SETTINGS, rounds=ROUNDS, out=str(tmp_path / "dear")))
    for ledger in result.ledgers:
        assert 0 < len(ledger.events) < ROUNDS
    assert result.summary["privacy"]["epsilon_spent"] <= EPSILON
