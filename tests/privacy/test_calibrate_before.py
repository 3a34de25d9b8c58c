"""Plans beside sums that come before them: together within the budget, and hardly below it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.errors import BudgetError
from admmnet.holder.encoding import Encoding, Number
from admmnet.methods import METHODS, fixed
from admmnet.methods.base import Facts
from admmnet.methods.encoding import EVEN, BoundsStage, ShapeStage, WhitenStage, unbounded
from admmnet.privacy.budget import Charges, Totals
from admmnet.privacy.calibrate import Target, gaussian_mu_left
from admmnet.privacy.filters import Count, Spend
from admmnet.running.contract import contract_of

AGENTS, D = 5, 33
DECLARED = Number(1.0, 0.0, 9.0, EVEN)
RAW = Encoding((Number(1.0, 0.0, 1.0), Number(1.0, 0.0, 1.0), Number(1.0, 0.0, 1.0), DECLARED))


def stages(config: Any, facts: Facts, shares: tuple[float, float, float], agent: int) -> Charges:
    """What the three cost an agent."""
    found = Encoding((DECLARED,) * 4)
    each = (
        BoundsStage(config, facts, shares[0], RAW, unbounded(RAW)),
        ShapeStage(config, facts, shares[1], found, RAW),
        WhitenStage(config, facts, shares[2]),
    )
    assert [len(stage.which) for stage in each[:2] if isinstance(stage, BoundsStage | ShapeStage)] == [3, 4]
    target = Target(1.0, 1e-5)
    return tuple(charge for stage in each for charge in stage.plan(agent, target).charges)


def planned(
    algorithm: str, target: Target, shares: tuple[float, float, float], **others: Any
) -> tuple[Any, Charges, Any]:
    """Target with what comes before, the method's charges, and the contract of both."""
    config = RunConfig(algorithm=algorithm, epsilon=target.epsilon, delta=target.delta, **others)
    settings = fixed(config.sections.method)
    counts = {i: 400 + 100 * i for i in range(AGENTS)}
    nominal = dict.fromkeys(counts, target.nominal_rho())
    facts = Facts(nx.cycle_graph(AGENTS), counts, D, nominal)
    before = stages(settings, facts, shares, 0)
    less = {i: rho * (1.0 - sum(shares)) for i, rho in nominal.items()}
    method = METHODS[algorithm](settings, replace(facts, nominal=less))
    target = replace(target, before=before)
    charges = method.plan(0, target).charges
    return target, charges, contract_of(settings, charges, target, AGENTS)


@pytest.mark.parametrize("algorithm", ["noisy-gd", "pp-admm", "ssp", "dp-dsgd", "masked noisy-gd"])
def test_before_and_plan_stay_within_the_budget(algorithm: str) -> None:
    rng = np.random.default_rng(11)
    masked = {"trust": "masked", "colluders": 1} if algorithm.startswith("masked") else {}
    algorithm = algorithm.removeprefix("masked ")
    for _ in range(40):
        epsilon, delta = float(np.exp(rng.uniform(-2.5, 2.3))), float(10.0 ** rng.uniform(-8, -3))
        shares = tuple(float(share) for share in rng.uniform(0.01, 0.25, 3))
        rounds = {} if algorithm == "ssp" else {"rounds": int(rng.integers(1, 60))}
        target, charges, contract = planned(algorithm, Target(epsilon, delta), shares, **rounds, **masked)  # type: ignore[arg-type]
        total = Totals.of((*target.before, *charges), "proven")
        reached = total.epsilon_proven(delta) / epsilon
        assert 0.99 < reached <= 1.0 + 1e-12, (epsilon, delta, shares)
        assert isinstance(contract.filter, Count)
        assert contract.filter.planned == (*target.before, *charges)
        assert contract.most().epsilon <= epsilon * (1.0 + 1e-9)
        assert target.worst(()).mu_squared == pytest.approx(2.0 * sum(shares) * Target(epsilon, delta).nominal_rho())


@pytest.mark.parametrize("order", [None, 300])
def test_on_top_of_an_account(order: int | None) -> None:
    """What an account has left is divided as a fresh budget is."""
    fresh = Target(1.0, 1e-5)
    account = Spend(1.0, 1e-5, order, fresh.kappa)
    left = replace(fresh, spent=Totals("proven"), account=account)
    _, first, _ = planned("noisy-gd", Target(0.5, 1e-5), (0.05, 0.05, 0.05), rounds=20)
    left = replace(left, spent=Totals.of(first, "proven"))
    target, charges, contract = planned("noisy-gd", left, (0.1, 0.1, 0.05), rounds=20)
    assert target.spent is not None
    everything = target.spent.plus([event for event, count in (*target.before, *charges) for _ in range(count)])
    assert account.affords(everything, ())
    assert not account.affords(everything.plus([target.before[0][0]]), ())
    assert contract.account == account


def test_what_is_used_up_before_leaves_nothing() -> None:
    fresh = Target(1.0, 1e-5)
    target, _, _ = planned("noisy-gd", fresh, (0.2, 0.2, 0.2), rounds=5)
    assert gaussian_mu_left(target) < gaussian_mu_left(fresh)
    with pytest.raises(BudgetError, match=r"nothing is left"):
        gaussian_mu_left(replace(target, before=target.before * 3))
