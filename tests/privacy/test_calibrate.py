"""Calibration by the proven accountant: never above the promise, hardly below it, refusals with words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from admmnet.errors import BudgetError, RequestError
from admmnet.privacy import calibrate as module
from admmnet.privacy.calibrate import AgentFacts, Calibration, Setting, calibrate, plan

PP = Setting(5, 30, 0.5, 10.0**-3.5, 1.0, 0.25, "proven")
IPP = replace(PP, gated=True, max_releases=15, gate_share=0.1, loss_clip=2.0)
BOTH = pytest.mark.parametrize("setting", [PP, IPP], ids=["pp-admm", "ipp-admm"])


def ratios(found: Calibration, agents: list[AgentFacts]) -> list[float]:
    """Worst case over promise, agent by agent."""
    return [
        noise.worst_case.epsilon_proven(facts.delta) / facts.epsilon
        for facts, noise in zip(agents, found.noise, strict=True)
    ]


@BOTH
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 4.0, 20.0])
def test_the_whole_promise_is_used_and_no_more(setting: Setting, epsilon: float) -> None:
    for delta in (1e-6, 1e-4, 1e-2):
        for records in (50, 7000, 10**6):
            for degree in (1, 4):
                facts = AgentFacts(records, degree, epsilon, delta)
                (ratio,) = ratios(calibrate([facts], setting), [facts])
                assert 1.0 - 1e-6 <= ratio <= 1.0, facts


@BOTH
def test_other_rounds_losses_and_penalties(setting: Setting) -> None:
    rng = np.random.default_rng(17)
    for _ in range(40):
        rounds = int(rng.integers(1, 400))
        others: dict[str, Any] = {"max_releases": int(rng.integers(1, rounds + 1))} if setting.gated else {}
        drawn = replace(
            setting,
            agents=int(rng.integers(2, 100)),
            rounds=rounds,
            eta=float(np.exp(rng.uniform(-7, 3))),
            beta=float(10.0 ** rng.uniform(-9, 0)),
            lipschitz=float(np.exp(rng.uniform(-2, 2))),
            curvature=float(np.exp(rng.uniform(-3, 2))),
            **others,
        )
        facts = AgentFacts(
            int(np.exp(rng.uniform(4, 14))), int(rng.integers(1, 9)), float(rng.uniform(0.05, 20)), 1e-5
        )
        (ratio,) = ratios(calibrate([facts], drawn), [facts])
        assert 1.0 - 1e-6 <= ratio <= 1.0, (drawn, facts)


def unequal(draws: int) -> list[list[AgentFacts]]:
    rng = np.random.default_rng(23)
    return [
        [
            AgentFacts(
                int(np.exp(rng.uniform(4, 12))), int(rng.integers(1, 5)), float(rng.choice([0.1, 1, 5])), 1e-4
            )
            for _ in range(4)
        ]
        for _ in range(draws)
    ]


@pytest.mark.parametrize("agents", unequal(15))
def test_unequal_agents_stay_within_their_promises(agents: list[AgentFacts]) -> None:
    for setting in (PP, IPP):
        found = calibrate(agents, setting)
        assert max(ratios(found, agents)) <= 1.0 + 1e-9
        # one regularisation for all, the largest that any of them needs; each agent with its own noise
        alone = [calibrate([facts], setting).regularisation for facts in agents]
        assert max(alone) <= found.regularisation <= max(alone) * (1.0 + 1e-8)


def test_unequal_agents_stay_within_their_promises_at_a_loose_certificate() -> None:
    agents = [AgentFacts(7000, 2, 1.0, 1e-4), AgentFacts(10**6, 1, 1.0, 1e-4)]
    setting = replace(IPP, beta=1.0, loss_clip=0.5, gate_share=0.9, max_releases=1)
    assert max(ratios(calibrate(agents, setting), agents)) <= 1.0 + 1e-9


@BOTH
def test_agents_are_calibrated_by_their_facts_alone(setting: Setting) -> None:
    a, b = AgentFacts(7000, 2, 1.0, 1e-4), AgentFacts(500, 1, 2.0, 1e-4)
    found = calibrate([a, b, a], setting)
    assert found.noise[0] is found.noise[2]
    assert found.noise[0].sigma1 != found.noise[1].sigma1
    swapped = calibrate([b, a], setting)
    assert swapped.regularisation == found.regularisation
    assert [noise.sigma1 for noise in swapped.noise] == [found.noise[1].sigma1, found.noise[0].sigma1]


@BOTH
@pytest.mark.parametrize("accountant", ["proven", "published"])
def test_a_regularisation_below_the_floor_is_refused(setting: Setting, accountant: str) -> None:
    setting, facts = replace(setting, accountant=accountant), AgentFacts(7000, 2, 1.0, 1e-4)
    floor = calibrate([facts], setting).regularisation
    for below in (0.0, 0.5 * floor, floor * (1.0 - 1e-4)):
        with pytest.raises(RequestError) as caught:
            calibrate([facts], replace(setting, regularisation=below))
        message = str(caught.value)
        assert message.startswith(f"regularisation = {below:g} is below ")
        assert all(word in message for word in ("Theorem 3.1", "auto", "--epsilon", "--rounds"))
    for above in (floor * 1.01, 10.0 * floor):
        found = calibrate([facts], replace(setting, regularisation=above))
        assert found.regularisation == above
        assert found.noise[0].convexity == pytest.approx(above / 5 + 2.0, rel=1e-14, abs=0.0)
        if accountant == "proven":
            (ratio,) = ratios(found, [facts])
            assert 1.0 - 1e-6 <= ratio <= 1.0


@BOTH
@pytest.mark.parametrize("accountant", ["proven", "published"])
def test_a_budget_too_small_to_calculate_is_refused(setting: Setting, accountant: str) -> None:
    with pytest.raises(BudgetError, match=r"epsilon = 1e-200 (leaves|affords no release) .*raise --epsilon"):
        calibrate([AgentFacts(7000, 2, 1e-200, 1e-4)], replace(setting, accountant=accountant))


def test_an_epsilon_below_what_the_orders_can_certify_is_refused() -> None:
    with pytest.raises(BudgetError, match="epsilon = 1e-08 affords no release at all; raise --epsilon"):
        calibrate([AgentFacts(7000, 2, 1e-8, 1e-12)], PP)


@BOTH
def test_calibration_takes_few_evaluations(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return plan(*args)

    monkeypatch.setattr(module, "plan", counted)
    facts = [AgentFacts(records, 3, 0.987, 1e-4) for records in (60, 61, 60, 61, 60)]
    calibrate(facts, setting)
    assert 0 < calls <= 2 * 80, "equal agents are calculated once, by bisection"


@BOTH
def test_events_say_what_the_gate_did(setting: Setting) -> None:
    noise = calibrate([AgentFacts(7000, 2, 1.0, 1e-4)], setting).noise[0]
    assert (noise.gate is not None) is setting.gated
    assert noise.objective.gated is setting.gated
    assert (noise.release.objective_sigma is not None) is setting.gated
