"""The method that docs/contributing.md adds in one file works as the page says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.config.defaults import with_delta
from admmnet.data import DataSettings, Records, load
from admmnet.errors import RequestError
from admmnet.holder.measurements import base
from admmnet.methods import METHODS, fixed
from admmnet.methods.base import AgentPlan
from admmnet.privacy.events import Gaussian
from admmnet.rng import Purpose, agent_streams
from admmnet.running.loading import located
from admmnet.running.plan import Public, decide
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver
from admmnet.transport.local import LocalWorld
from tests.doc_pages import section, whole_files

ROUNDS, EPSILON, SEED, AGENTS = 8, 2.0, 3, 4


class Example(NamedTuple):
    """The page's two files as modules."""

    measurement: ModuleType
    method: ModuleType


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Example]:
    """The page's files as modules, the method in the registry, its name among the settings' choices."""
    shown = section("contributing.md", "Adding a method")
    (line,) = re.findall(r"^```text\n(.*?)^```", shown, re.DOTALL | re.MULTILINE)
    before, modules = set(base.KINDS), []
    for file, code in sorted(whole_files(shown).items()):  # the measurement first
        module = ModuleType(file.replace("/", "."))
        modules.append(module)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(code, "docs/contributing.md", "exec"), module.__dict__)
    found: dict[str, Any] = {}
    exec(line, found)
    kind = found["LinearADMM"]
    monkeypatch.setitem(METHODS, kind.name, kind)
    assert {kind.__name__ for kind in base.KINDS - before} == {"NoisyGradient"}
    yield Example(*modules)
    base.KINDS.intersection_update(before)


SETTINGS: dict[str, Any] = {
    "algorithm": "linear-admm",
    "epsilon": EPSILON,
    "topology": "ring:4",
    "seed": SEED,
}


def prepared(rounds: int) -> tuple[Records, Mapping[int, AgentPlan]]:
    """Records and plans of the run, made again."""
    settings, graph = located(fixed(RunConfig(**SETTINGS, rounds=rounds)), LocalWorld())
    records = load(settings.section(DataSettings), len(graph), sorted(graph))
    settings = with_delta(settings, records.counts.values())
    public = Public(records.counts, len(records.feature_names))
    return records, decide(settings, graph, LocalWorld(), (tuple(graph),), public)[1]


def test_the_example_runs_and_its_ledgers_verify(example: Example, tmp_path: Path) -> None:
    result = run(RunConfig(**SETTINGS, rounds=ROUNDS, out=str(tmp_path / "run")))
    # reading verifies every one
    assert [len(ledger.events) for ledger in result.ledgers] == [ROUNDS] * AGENTS
    assert all(ledger.finished for ledger in result.ledgers)
    privacy = result.summary["privacy"]
    assert 0.9 * EPSILON < privacy["epsilon_spent"] <= privacy["epsilon_proven"] <= EPSILON
    positive = float(np.mean(prepared(ROUNDS)[0].y_test > 0.0))
    assert result.summary["test_error"]["consensus"] < 0.9 * min(positive, 1.0 - positive)


def test_its_first_broadcast_is_the_step_of_the_page(example: Example, tmp_path: Path) -> None:
    result = run(RunConfig(**SETTINGS, rounds=1, out=str(tmp_path / "run")))
    records, plans = prepared(1)
    assert len(records.shards) == AGENTS
    for agent, (X, y) in records.shards.items():
        sigma = plans[agent].noise
        booked = [event for _, event, _ in result.ledgers[agent].events]
        assert booked == [Gaussian(2.0 / len(y), sigma)]
        b = sigma * agent_streams(agent, SEED)[Purpose.OBJECTIVE].standard_normal(X.shape[1])
        slope = LocalSolver(X, y, get_loss("logistic")).data_gradient(np.zeros(X.shape[1]))
        m = plans[agent].convexity + 0.25
        # at zero all but gradient and noise vanish; the grid's step is below 1e-6 of the noise
        np.testing.assert_allclose(result.theta[agent], -(slope + b) / m, rtol=0.0, atol=1e-6 * sigma / m)


def test_a_budget_for_fewer_rounds_silences_it(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The door asks the ledger: charged past the plan, it falls silent and the ledgers still verify."""

    def dearer(here: Any, sigma: float) -> Any:
        asked = here.size > 0  # the plan counts without a point
        return example.measurement.NoisyGradient(here, sigma / 2.0 if asked else sigma)

    monkeypatch.setattr(example.method, "NoisyGradient", dearer)
    result = run(RunConfig(**SETTINGS, rounds=ROUNDS, out=str(tmp_path / "dear")))
    for ledger in result.ledgers:
        assert 0 < len(ledger.events) < ROUNDS
    assert result.summary["privacy"]["epsilon_spent"] <= EPSILON


def test_a_measurement_without_its_mark_is_not_answered(example: Example, tmp_path: Path) -> None:
    base.KINDS.remove(example.measurement.NoisyGradient)
    with pytest.raises(RequestError, match="NoisyGradient is no measurement of admmnet"):
        run(RunConfig(**SETTINGS, rounds=ROUNDS, out=str(tmp_path / "run")))
