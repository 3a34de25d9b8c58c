"""Plans: the promise is kept and used up, ledgers made of them verify, and what has no proof is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.baselines.fit import fit, fit_baseline
from admmnet.baselines.plan import plan_baseline
from admmnet.errors import BudgetError, CheckFailed, RequestError
from admmnet.holder import Holder
from admmnet.methods.single_site import BaselineSettings
from admmnet.privacy.budget import MemoryLedger
from admmnet.privacy.events import GammaNormVector, Gaussian, SubsampledGaussian
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Header, Ledger
from admmnet.rng import agent_streams

BASE = BaselineSettings(
    algorithm="dp-scd",
    loss="logistic",
    method="proven",
    accountant="proven",
    epsilon=1.0,
    delta=1e-4,
    regularisation=1e-3,
    batch=50,
    epochs=4,
    clip=0.5,
    learning_rate=1.0,
    sampling="poisson",
    dual_noise=False,
    accounting="rdp",
    schedule="sqrt",
    noise="laplace",
)
N, D = 1000, 6
SAMPLED: list[dict[str, Any]] = [
    {"algorithm": algorithm, "sampling": sampling, "dual_noise": noisy}
    for algorithm, sampling, noisy in product(
        ("dp-scd", "dp-sgd"), ("poisson", "fixed", "shuffled"), (False, True)
    )
    if algorithm == "dp-scd" or not noisy
] + [{"algorithm": "seq-dp-scd", "sampling": s, "dual_noise": True} for s in ("fixed", "shuffled")]
ONE_PASS: list[dict[str, Any]] = [
    {"algorithm": "song-sgd"},
    {"algorithm": "banco"},
    {"algorithm": "banco", "noise": "gaussian"},
]


@pytest.mark.parametrize("words", SAMPLED + ONE_PASS, ids=str)
@pytest.mark.parametrize("epsilon", [0.2, 3.0])
def test_the_promise_is_kept_and_used(words: dict[str, Any], epsilon: float, tmp_path: Path) -> None:
    plan = plan_baseline(replace(BASE, epsilon=epsilon, accounting="pld", **words), N, D)
    found = plan.worst_case.epsilon_proven(BASE.delta)
    assert 0.995 * epsilon <= found <= epsilon
    assert plan.budget is not None
    header = Header(
        agent=0,
        neighbours=(),
        records=N,
        epsilon=epsilon,
        delta=BASE.delta,
        accountant="proven",
        method="proven",
        algorithm=plan.settings.algorithm,
        noise="seeded",
        preprocessing="public-bounds",
        version="0",
        order=plan.budget.alpha,
        adjacency=plan.adjacency,
    )
    ledger = Ledger(tmp_path / "agent-000.jsonl", header, plan.budget, durable=False)
    assert ledger.pays(0, *plan.events)
    assert not ledger.affords(plan.events)  # once is all
    ledger.finish()
    account = audit.read(ledger.path)
    assert account.finished
    assert account.totals.epsilon_proven(BASE.delta) == found


@pytest.mark.parametrize(("rate", "passes"), [(0.05, True), (1e-5, False), (0.0505, False)])
def test_a_ledger_of_parts_of_records_does_not_verify(rate: float, passes: bool, tmp_path: Path) -> None:
    event = SubsampledGaussian(50.0, rate, 10, "poisson")
    header = Header(
        agent=0,
        neighbours=(),
        records=N,
        epsilon=1.0,
        delta=BASE.delta,
        accountant="proven",
        method="proven",
        algorithm="dp-scd",
        noise="seeded",
        preprocessing="public-bounds",
        version="0",
        adjacency="zero-out",
    )
    ledger = Ledger(tmp_path / "agent-000.jsonl", header, None, durable=False)
    ledger.charge(0, event)
    ledger.finish()
    if passes:
        assert audit.read(ledger.path).events[0][1] == event
        return
    with pytest.raises(CheckFailed, match="rate"):
        audit.read(ledger.path)


def test_no_proven_figure_where_columns_are_scaled_over_all_records() -> None:
    words: dict[str, Any] = {"algorithm": "primal-dp-scd", "batch": 2, "method": "published"}
    plan = plan_baseline(replace(BASE, accountant="published", **words), N, D)
    assert plan.epsilon_proven is None
    assert plan.worst_case.epsilon_published(BASE.delta) == pytest.approx(1.0, rel=1e-2)


def test_relations_and_the_noise_of_each_sampling() -> None:
    def planned(**words: Any) -> tuple[SubsampledGaussian, float, str]:
        plan = plan_baseline(replace(BASE, **words), N, D)
        (event,) = plan.events
        assert isinstance(event, SubsampledGaussian)
        assert plan.noise_multiplier is not None
        return event, plan.noise_multiplier, plan.adjacency

    event, own, adjacency = planned()
    assert (event.sampling, own, adjacency) == ("poisson", event.noise_multiplier, "zero-out")
    event, own, adjacency = planned(algorithm="dp-sgd", sampling="fixed")
    assert (event.sampling, own, adjacency) == ("fixed", 2.0 * event.noise_multiplier, "replace-one")
    # private dual variables remember who was in earlier batches: no amplification (test_subsampled.py shows why)
    event, own, adjacency = planned(sampling="fixed")
    assert (event.sampling, own, adjacency) == ("shown", event.noise_multiplier, "zero-out")
    event, own, adjacency = planned(sampling="shuffled")
    assert (event.sampling, own, adjacency) == ("shuffled", event.noise_multiplier, "zero-out")
    for sampling in ("poisson", "fixed"):
        event, own, adjacency = planned(sampling=sampling, dual_noise=True)
        assert (event.sampling, own, adjacency) == ("shown", event.noise_multiplier, "zero-out")
    # shown batches and partitions are not amplified: they need more noise
    noise = [planned(**words)[1] for words in ({}, {"dual_noise": True}, {"sampling": "shuffled"})]
    assert noise[0] < 0.8 * min(noise[1:])


def test_the_papers_arithmetic_amplifies_whatever_the_sampling() -> None:
    words: dict[str, Any] = {
        "method": "published",
        "accountant": "published",
        "sampling": "shuffled",
        "dual_noise": True,
    }
    plan = plan_baseline(replace(BASE, **words), N, D)
    claimed, proven = plan.worst_case.epsilon_published(1e-4), plan.worst_case.epsilon_proven(1e-4)
    assert claimed is not None
    assert 0.99 <= claimed <= 1.0
    assert proven > 2.0  # what is proven of it is another matter
    assert plan.budget is not None
    assert plan.budget.affords(type(plan.worst_case)("published"), plan.events)


def test_pure_epsilon_and_its_reading_at_delta() -> None:
    published = replace(BASE, algorithm="song-sgd", method="published", accountant="published")
    plan = plan_baseline(published, N, D)
    assert plan.pure == 1.0
    assert plan.events == (GammaNormVector(2.0, 0.5, D),)
    assert plan.worst_case.epsilon_published(1e-4) == 1.0
    wider = plan_baseline(replace(BASE, algorithm="song-sgd"), N, D)
    assert wider.pure is not None
    assert 1.0 <= wider.pure < 1.2  # a delta buys a little
    gaussian = plan_baseline(replace(BASE, algorithm="banco", noise="gaussian"), N, D)
    assert gaussian.events == (Gaussian(2.0, gaussian.sigma),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"algorithm": "seq-dp-scd"}, "poisson"),
        ({"algorithm": "primal-dp-scd", "batch": 2}, "refused under --accountant proven"),
        ({"algorithm": "banco", "noise": "gaussian", "method": "published"}, "--method proven"),
        ({"batch": 1001}, "batch"),
    ],
)
def test_what_has_no_proof_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        plan_baseline(replace(BASE, **words), N, D)


def test_a_budget_for_nothing_is_refused() -> None:
    with pytest.raises(BudgetError, match="affords no step"):
        plan_baseline(replace(BASE, epsilon=1e-9, delta=1e-12, sampling="shuffled", epochs=1000), N, D)


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X @ np.arange(1.0, D + 1.0) > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("words", SAMPLED + ONE_PASS, ids=str)
def test_epochs_are_told_of_released_models(words: dict[str, Any]) -> None:
    plan, seen = plan_baseline(replace(BASE, epsilon=5.0, **words), N, D), []
    holder, guard = (
        Holder(*rows(), unit=True),
        MemoryLedger(plan.budget, plan.settings.method, plan.adjacency),
    )
    fitted = fit_baseline(
        plan,
        holder,
        guard,
        agent_streams(0, 7),
        on_epoch=lambda epoch, theta: seen.append((epoch, theta.copy())),
    )
    epochs = 1 if words in ONE_PASS else BASE.epochs
    assert [epoch for epoch, _ in seen] == list(range(epochs))
    np.testing.assert_array_equal(seen[-1][1], fitted.theta)
    assert fitted.diagnostics == {}
    assert fitted.work == plan.steps
    # what the plan foresaw was charged, and no more is afforded
    assert guard.totals.rho == plan.worst_case.rho > 0.0
    with pytest.raises(BudgetError, match="does not afford"):
        fit_baseline(plan, holder, guard, agent_streams(0, 7))
    assert math.isfinite(float(np.abs(fitted.theta).sum()))


def test_a_plan_is_for_its_records() -> None:
    X, y = rows()
    plan = plan_baseline(BASE, N, D)
    guard = MemoryLedger(plan.budget, plan.settings.method, plan.adjacency)
    with pytest.raises(RequestError, match="the plan is for"):
        fit_baseline(plan, Holder(X[:-1], y[:-1]), guard, agent_streams(0, 7))


def test_the_sequential_method_uses_the_smaller_bound_where_it_is_proven() -> None:
    words: dict[str, Any] = {"algorithm": "seq-dp-scd", "sampling": "fixed", "dual_noise": True}
    assert "contraction" in repr(plan_baseline(replace(BASE, **words), N, D).series)
    words |= {"method": "published", "accountant": "published"}
    assert "contraction" not in repr(plan_baseline(replace(BASE, **words), N, D).series)


def test_columns_of_the_primal_method_are_scaled_and_scaled_back() -> None:
    X, y = rows()
    found = fit(X, y, algorithm="primal-dp-scd", seed=0, method="published", batch=2, epsilon=1e6)
    assert found.privacy["epsilon_published"] == pytest.approx(1e6, rel=1e-2)
    # with next to no noise the rule is that of the labels
    plane = X @ found.theta[:-1] + found.theta[-1]
    assert np.mean((plane > 0.0) == (y > 0.0)) > 0.8


def test_the_library_function_refuses_what_it_cannot_use() -> None:
    X, y = rows()
    for bad, labels, match in (
        (X[0], y, "table"),
        (np.where(X > 2.0, np.nan, X) * np.nan, y, "not finite"),
        (X, y[:-1], "shapes"),
        (X, y * 2.0, "neither -1 nor"),
    ):
        with pytest.raises(RequestError, match=match):
            fit(bad, labels, algorithm="dp-sgd", seed=0)
