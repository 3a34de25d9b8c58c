"""Calibration by the proven accountant: never above the promise, hardly below it, refusals with words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.errors import BudgetError, RequestError
from tests.planned import Planned

from .published_agents import PublishedAgent, published

PP = RunConfig(algorithm="pp-admm", method="published", accountant="proven", rounds=30, eta=0.5, beta=10.0**-3.5)
IPP = PP.changed(algorithm="ipp-admm", max_releases=15, gate_share=0.1)
BOTH = pytest.mark.parametrize("setting", [PP, IPP], ids=["pp-admm", "ipp-admm"])


def ratios(found: list[Planned], agents: list[PublishedAgent]) -> list[float]:
    """Worst case over promise, agent by agent."""
    return [
        plan.worst_case.epsilon_proven(facts.delta) / facts.epsilon for facts, plan in zip(agents, found, strict=True)
    ]


@BOTH
def test_the_whole_promise_is_used_and_no_more(setting: RunConfig) -> None:
    rng = np.random.default_rng(17)
    for _ in range(60):
        rounds = int(rng.integers(1, 400))
        others: dict[str, Any] = {}
        if setting.algorithm == "ipp-admm":
            others["max_releases"] = int(rng.integers(1, rounds + 1))
        eta, beta = float(np.exp(rng.uniform(-7, 3))), float(10.0 ** rng.uniform(-9, 0))
        drawn = setting.changed(rounds=rounds, eta=eta, beta=beta, **others)
        facts = PublishedAgent(
            int(np.exp(rng.uniform(4, 14))),
            int(rng.integers(1, 9)),
            float(rng.uniform(0.05, 20)),
            float(10.0 ** rng.uniform(-6, -2)),
        )
        (ratio,) = ratios(published([facts], drawn, of=int(rng.integers(2, 100)))[1], [facts])
        assert 1.0 - 1e-6 <= ratio <= 1.0, (drawn, facts)


def unequal(draws: int) -> list[list[PublishedAgent]]:
    rng = np.random.default_rng(23)
    return [
        [
            PublishedAgent(
                int(np.exp(rng.uniform(4, 12))), int(rng.integers(1, 5)), float(rng.choice([0.1, 1, 5])), 1e-4
            )
            for _ in range(4)
        ]
        for _ in range(draws)
    ]


@pytest.mark.parametrize("agents", unequal(15))
def test_unequal_agents_stay_within_their_promises(agents: list[PublishedAgent]) -> None:
    for setting in (PP, IPP):
        regularisation, found = published(agents, setting)
        assert max(ratios(found, agents)) <= 1.0 + 1e-9
        # one regularisation for all, the largest that any of them needs; each agent with its own noise
        alone = [published([facts], setting)[0] for facts in agents]
        assert max(alone) <= regularisation <= max(alone) * (1.0 + 1e-8)


@BOTH
def test_agents_are_calibrated_by_their_facts_alone(setting: RunConfig) -> None:
    a, b = PublishedAgent(7000, 2, 1.0, 1e-4), PublishedAgent(500, 1, 2.0, 1e-4)
    regularisation, found = published([a, b, a], setting)
    assert found[0] == found[2]
    assert found[0].noise.sigma1 != found[1].noise.sigma1
    again, swapped = published([b, a], setting)
    assert again == regularisation
    assert [plan.noise.sigma1 for plan in swapped] == [found[1].noise.sigma1, found[0].noise.sigma1]


@BOTH
@pytest.mark.parametrize("accountant", ["proven", "published"])
def test_a_regularisation_below_the_floor_is_refused(setting: RunConfig, accountant: str) -> None:
    setting, facts = setting.changed(accountant=accountant), PublishedAgent(7000, 2, 1.0, 1e-4)
    floor = published([facts], setting)[0]
    for below in (0.0, 0.5 * floor, floor * (1.0 - 1e-4)):
        with pytest.raises(RequestError) as caught:
            published([facts], setting.changed(regularisation=below))
        message = str(caught.value)
        assert message.startswith(f"regularisation = {below:g} is below ")
        assert all(word in message for word in ("Theorem 3.1", "auto", "--epsilon", "--rounds"))
    for above in (floor * 1.01, 10.0 * floor):
        regularisation, found = published([facts], setting.changed(regularisation=above))
        assert regularisation == above
        assert found[0].convexity == pytest.approx(above / 5 + 2.0, rel=1e-14, abs=0.0)
        assert found[0].objective.convexity == found[0].convexity, "what is solved is what is booked"
        if accountant == "proven":
            (ratio,) = ratios(found, [facts])
            assert 1.0 - 1e-6 <= ratio <= 1.0


@BOTH
@pytest.mark.parametrize("accountant", ["proven", "published"])
def test_a_budget_too_small_to_calculate_is_refused(setting: RunConfig, accountant: str) -> None:
    with pytest.raises(BudgetError, match=r"epsilon = 1e-200 (leaves|affords no release) .*raise --epsilon"):
        published([PublishedAgent(7000, 2, 1e-200, 1e-4)], setting.changed(accountant=accountant))


def test_an_epsilon_below_what_the_orders_can_certify_is_refused() -> None:
    with pytest.raises(BudgetError, match="epsilon = 1e-08 affords no release at all; raise --epsilon"):
        published([PublishedAgent(7000, 2, 1e-8, 1e-12)], PP)
