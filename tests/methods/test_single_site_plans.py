"""Plans: the promise is kept and used up, ledgers made of them verify, and what has no proof is refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.config.run_config import settings_of
from admmnet.errors import BudgetError, RequestError
from admmnet.methods import METHODS
from admmnet.methods.base import Facts, Method
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Filter, MemoryLedger
from admmnet.privacy.conversion import best_order
from admmnet.privacy.events import GammaNormVector, Gaussian, SubsampledGaussian
from admmnet.running.plan import contract_of
from tests.planned import Planned

BASE: dict[str, Any] = {
    "algorithm": "dp-scd",
    "epsilon": 1.0,
    "delta": 1e-4,
    "regularisation": 1e-3,
    "batch": 50,
    "epochs": 4,
    "clip": 0.5,
    "sampling": "poisson",
    "dual_noise": False,
    "accounting": "rdp",
}
N, D, DELTA = 1000, 6, 1e-4
SAMPLED: list[dict[str, Any]] = [
    {"algorithm": algorithm, "sampling": sampling, "dual_noise": noisy}
    for algorithm, sampling, noisy in product(("dp-scd", "dp-sgd"), ("poisson", "fixed", "shuffled"), (False, True))
    if algorithm == "dp-scd" or not noisy
] + [{"algorithm": "seq-dp-scd", "sampling": s} for s in ("fixed", "shuffled")]
ONE_PASS: list[dict[str, Any]] = [
    {"algorithm": "song-sgd"},
    {"algorithm": "banco"},
    {"algorithm": "banco", "noise": "gaussian"},
]


def method_of(**words: Any) -> Method:
    """Method with the settings of ``BASE`` that it has."""
    values = BASE | words
    if values.get("method") == "published" and "accounting" not in words:
        values["accounting"] = "auto"
    own = {name: value for name, value in values.items() if name in settings_of(values["algorithm"])}
    return METHODS[values["algorithm"]](RunConfig(**own).sections.method, Facts(nx.empty_graph(1), {0: N}, D, {}))


def planned(**words: Any) -> Planned:
    method = method_of(**words)
    settings: Any = method.settings
    target = Target(settings.epsilon, settings.delta, settings.accountant, form=settings.method)
    plan = method.plan(0, target)
    return Planned.of(plan, contract_of(settings, plan.charges, target, 1))


def event_of(plan: Planned) -> Any:
    ((event, times),) = plan.charges
    assert times == 1
    return event


def check_once(plan: Planned) -> None:
    """The contract affords the plan's event once."""
    guard = MemoryLedger(plan.contract)
    guard.charge(0, event_of(plan))
    assert guard.totals.rho == plan.worst_case.rho
    assert not guard.affords([event_of(plan)])


@pytest.mark.parametrize(
    ("epsilon", "words"), [((0.2, 3.0)[k % 2], words) for k, words in enumerate(SAMPLED + ONE_PASS)], ids=str
)
def test_the_promise_is_kept_and_used(epsilon: float, words: dict[str, Any]) -> None:
    plan = planned(epsilon=epsilon, accounting="pld", **words)
    found = plan.worst_case.epsilon_proven(DELTA)
    assert 0.995 * epsilon <= found <= epsilon
    check_once(plan)


@pytest.mark.parametrize("words", [{"sampling": "shuffled"}, {"algorithm": "banco", "noise": "gaussian"}], ids=str)
def test_an_account_leaves_the_next_run_what_is_left(words: dict[str, Any]) -> None:
    method = method_of(**words)

    def worst(epsilon: float, **of: Any) -> Totals:
        return Totals.of(method.plan(0, Target(epsilon, DELTA, **of)).charges, "proven")

    order = best_order(worst(1.0).curve, DELTA)
    small, large = (Filter.keeping(epsilon, DELTA, order) for epsilon in (1.0, 2.0))
    first, whole = worst(1.0, account=small), worst(2.0, account=large)
    second = worst(2.0, spent=first, account=large)
    need, most = Target(2.0, DELTA, spent=first, account=large).at_order(second)
    assert 0.998 * most <= need <= most
    assert second.rho < whole.rho
    with pytest.raises(BudgetError, match="account"):
        worst(2.0, spent=whole, account=large)


def test_relations_and_the_noise_of_each_sampling() -> None:
    def found(**words: Any) -> tuple[str, float, str]:
        plan, event = planned(**words), event_of(planned(**words))
        assert isinstance(event, SubsampledGaussian)
        return event.sampling, plan.noise.noise_multiplier / event.noise_multiplier, plan.contract.adjacency

    assert found() == ("poisson", 1.0, "zero-out")
    assert found(algorithm="dp-sgd", sampling="fixed") == ("fixed", 2.0, "replace-one")
    # private dual variables remember who was in earlier batches: no amplification (test_subsampled.py shows why)
    assert found(sampling="fixed") == ("shown", 1.0, "zero-out")
    assert found(sampling="shuffled") == ("shuffled", 1.0, "zero-out")
    for sampling in ("poisson", "fixed"):
        assert found(sampling=sampling, dual_noise=True) == ("shown", 1.0, "zero-out")
    # shown batches and partitions are not amplified: they need more noise
    noise = [planned(**words).noise.noise_multiplier for words in ({}, {"dual_noise": True}, {"sampling": "shuffled"})]
    assert noise[0] < 0.8 * min(noise[1:])


def test_the_papers_arithmetic_amplifies_whatever_the_sampling() -> None:
    plan = planned(method="published", sampling="shuffled", dual_noise=True)
    claimed = plan.worst_case.epsilon_published(DELTA)
    proven = plan.worst_case.epsilon_proven(DELTA)
    assert claimed is not None
    assert 0.99 <= claimed <= 1.0
    assert proven > 1.5  # what is proven of it is another matter
    check_once(plan)


def test_pure_epsilon_and_its_reading_at_delta() -> None:
    plan = planned(algorithm="song-sgd", method="published")
    assert plan.noise.epsilon == 1.0
    assert event_of(plan) == GammaNormVector(2.0, 0.5, D)
    assert plan.worst_case.epsilon_published(DELTA) == 1.0
    assert 1.0 <= planned(algorithm="song-sgd").noise.epsilon < 1.2  # a delta buys a little
    gaussian = planned(algorithm="banco", noise="gaussian")
    assert event_of(gaussian) == Gaussian(2.0, gaussian.noise.sigma)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"algorithm": "seq-dp-scd"}, "poisson"),
        ({"algorithm": "primal-dp-scd", "batch": 2, "method": "published", "accountant": "proven"}, "proven"),
        ({"algorithm": "banco", "noise": "gaussian", "method": "published"}, "gaussian"),
        ({"batch": 1001}, "batch"),
        ({"accounting": "moments"}, "accounting = 'moments' goes with accountant = 'published'"),
        ({"accounting": "rdp", "method": "published"}, "accounting = 'rdp' goes with accountant = 'proven'"),
        ({"method": "published", "epsilon": 0.07}, "the moments accountant's least reading"),
        ({"epsilon": 1e-9, "delta": 1e-12, "sampling": "shuffled", "epochs": 1000}, "affords no step"),
    ],
)
def test_what_cannot_be_planned_is_refused(words: dict[str, Any], text: str) -> None:
    with pytest.raises((RequestError, BudgetError), match=text):
        planned(**words)


def test_steps_of_each_form() -> None:
    """The margin of a logistic step, and the bound of the sequential method, are the papers' where the form is."""
    forms: list[dict[str, Any]] = [{}, {"method": "published"}, {"method": "published", "logistic_margin": 0.2}]
    series = [planned(**words, sampling="shuffled").noise for words in forms]
    assert [one.logistic_margin for one in series] == [1e-2, 1e-4, 0.2]
    words = {"algorithm": "seq-dp-scd", "sampling": "fixed"}
    assert [planned(**words, **form).noise.bound for form in forms[:2]] == ["contraction", "published"]


def test_columns_of_the_primal_method_are_scaled_and_scaled_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    y = np.where(X @ np.arange(1.0, D + 1.0) > 0.0, 1.0, -1.0)
    words: dict[str, Any] = {"algorithm": "primal-dp-scd", "method": "published", "batch": 2, "epsilon": 1e6}
    found = run(X=X, y=y, seed=0, no_test=True, out=str(tmp_path / "run"), **words)
    assert found.summary["privacy"]["epsilon_proven"] is None  # no figure covers the scaling
    assert found.summary["privacy"]["epsilon_published"] == pytest.approx(1e6, rel=1e-2)
    # with next to no noise the rule is that of the labels
    plane = X @ found.theta[0, :-1] + found.theta[0, -1]
    assert np.mean((plane > 0.0) == (y > 0.0)) > 0.8
