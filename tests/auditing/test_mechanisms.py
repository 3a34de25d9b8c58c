"""Every mechanism through the real door: bounds stay below what is proven, and half of its noise is found.

Each bound is wrong with probability 1e-6 at most; there are 26 here, so that a true claim fails this file with
probability below 1e-4. Seeds are fixed. ``ADMMNET_AUDITS=N`` takes N times the trials (launch/nightly.sh).
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from admmnet.auditing import Audit, Mechanism, audit
from admmnet.auditing.canary import answered, door, far
from admmnet.auditing.network import (
    CONVEXITY,
    RECORDS,
    AgentRounds,
    GammaRelease,
    HeldQuestions,
    MinimiserRelease,
    NoisyQuestion,
    NormQuestion,
    steering,
)
from admmnet.auditing.sampled import SampledSteps
from admmnet.auditing.sums import GradientRounds, MaskedRounds, MomentRelease
from admmnet.holder import Ask, Released
from admmnet.holder.measurements import ExactMinimiser, sums
from admmnet.holder.secrets import Secret
from admmnet.holder.series import base, dp_scd, gradient
from admmnet.methods.consensus import ConsensusMethod
from admmnet.privacy.discrete import discrete_gaussian

DELTA, CONFIDENCE = 1e-5, 1.0 - 1e-6
TIMES = int(os.environ.get("ADMMNET_AUDITS", "1"))


def audited(mechanism: Mechanism, trials: int, seed: int = 1) -> Audit:
    return audit(mechanism, TIMES * trials, DELTA, seed, confidence=CONFIDENCE)


GAUSSIAN: dict[str, tuple[Mechanism, int]] = {
    "objective": (MinimiserRelease("objective"), 500),
    "output": (MinimiserRelease("output"), 500),
    "rounds": (AgentRounds(), 300),
    "noisy-question": (NoisyQuestion(), 600),
    "norm-question": (NormQuestion(), 900),
    "gradient-sums": (GradientRounds(), 300),
    "moments": (MomentRelease(), 500),
    "dp-sgd": (SampledSteps("dp-sgd", 1.0), 400),
    "dp-scd": (SampledSteps("dp-scd", 1.0), 400),
}
OTHERS: dict[str, tuple[Mechanism, int]] = {
    "held-questions": (HeldQuestions(), 800),
    "dvp": (GammaRelease(), 1000),
    "dp-sgd-sampled": (SampledSteps("dp-sgd"), 1500),
    "dp-scd-sampled": (SampledSteps("dp-scd"), 1500),
}


def short_of(name: str) -> float:
    """How far a plan may stay below its promise: discrete noise leaves a share of delta to kappa, (P11)."""
    return 1e-4 if name in ("gradient-sums", "moments") else 1e-6


@pytest.mark.parametrize("name", GAUSSIAN)
def test_gaussian_events_show_a_good_part_of_what_is_proven(name: str) -> None:
    found = audited(*GAUSSIAN[name])
    assert found.proven == pytest.approx(4.0, rel=short_of(name))
    assert found.lower_gaussian is not None
    assert found.holds, found
    assert found.lower_gaussian > (0.15 if TIMES == 1 else 0.6) * found.proven


@pytest.mark.parametrize("name", OTHERS)
def test_other_events_show_a_part_of_what_is_proven(name: str) -> None:
    found = audited(*OTHERS[name])
    assert found.proven == pytest.approx(4.0, rel=1e-3)
    assert found.lower_gaussian is None
    assert found.holds, found
    assert found.lower > (0.05 if TIMES == 1 else 0.2) * found.proven


def _halve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take out half of every Gaussian draw, behind the door and in the series of steps."""
    gaussian, with_noise = Secret.gaussian, base.with_noise
    monkeypatch.setattr(
        Secret, "gaussian", lambda secret, purpose, sigma, size: gaussian(secret, purpose, 0.5 * sigma, size)
    )
    monkeypatch.setattr(sums, "discrete_gaussian", lambda rng, s, size: discrete_gaussian(rng, 0.5 * s, size))
    for module in (dp_scd, gradient):
        monkeypatch.setattr(module, "with_noise", lambda x, sigma, rng: with_noise(x, 0.5 * sigma, rng))


@pytest.mark.parametrize("name", GAUSSIAN)
def test_half_the_noise_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _halve(monkeypatch)
    found = audited(*GAUSSIAN[name])
    assert found.proven == pytest.approx(4.0, rel=short_of(name))  # the ledger knows nothing of it
    assert not found.holds, found


MASKED = {"colluder": MaskedRounds(keys=False), "all keys": MaskedRounds(keys=True)}


@pytest.mark.parametrize("name", MASKED)
def test_both_epsilons_of_masked_sums_hold_and_are_needed(name: str) -> None:
    """A silent colluder reads no more than (A), who has all keys no more than (B), which is more than (A)."""
    found = audited(MASKED[name], 250)
    assert found.lower_gaussian is not None
    assert found.holds, found
    assert found.lower_gaussian > 0.3 * found.proven
    if name == "all keys":
        assert found.proven > 2.0 * MASKED[name].epsilon
        assert found.lower_gaussian > MASKED[name].epsilon  # (A) does not hold for whoever has the keys
    else:
        assert found.proven == pytest.approx(MASKED[name].epsilon, rel=1e-4)


@pytest.mark.parametrize("name", MASKED)
def test_half_the_noise_of_masked_sums_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _halve(monkeypatch)
    assert not audited(MASKED[name], 250).holds


def test_the_neighbours_of_an_agent_decide_its_linear_term() -> None:
    node = AgentRounds().node(1, np.random.default_rng(0))
    method = node.method
    assert isinstance(method, ConsensusMethod)
    for round in range(4):
        assert node.propose(round) is not None
        node.absorb({1: steering(node.agent, CONVEXITY * far(2))})
        np.testing.assert_allclose(method.linear_term(node.agent), CONVEXITY * far(2), rtol=1e-9, atol=1e-9)


def test_a_trial_never_spends_more_than_was_planned() -> None:
    rounds = AgentRounds(rounds=3)
    node = rounds.node(0, np.random.default_rng(0))
    said = []
    for round in range(4):
        said.append(node.propose(round))
        node.absorb({})
    assert [vector is None for vector in said] == [False] * 3 + [True]
    assert node.ledger.totals.epsilon_proven(DELTA) <= rounds.epsilon


def test_a_canary_and_its_replacement_move_the_gradient_by_nearly_the_sensitivity() -> None:
    points = []
    for world in (0, 1):
        at, _ = door(world, np.zeros((RECORDS - 1, 2)), None, np.random.default_rng(0))
        answer = answered(at, Ask(ExactMinimiser(CONVEXITY * far(2), CONVEXITY, 1e-10)))
        assert isinstance(answer, Released)
        points.append(answer.value)
    moved = np.linalg.norm(points[1] - points[0]) * RECORDS * CONVEXITY
    assert 0.99 < moved / 2.0 <= 1.0
