"""Every mechanism through the real door: bounds stay below what is proven, and half of its noise is found.

Each bound is wrong with probability 1e-6 at most; there are 32 here, so that a true claim fails this file with
probability below 1e-4. Seeds are fixed. ``ADMMNET_AUDITS=N`` takes N times the trials (launch/nightly.sh), and plants
half the noise in every case, else in one of each way of drawing it.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from admmnet.auditing.audit import Audit
from admmnet.auditing.methods import FAR, MethodTrials, evidence
from admmnet.auditing.steps import StepTrials
from admmnet.methods import METHODS
from admmnet.methods.ipp_admm import IPPADMM
from admmnet.privacy.contract import MemoryLedger
from tests.auditing.gates import HeldQuestions, MaskedRounds, Mechanism, Questions, audit
from tests.auditing.planted import halved_noise

DELTA, CONFIDENCE = 1e-5, 1.0 - 1e-6
TIMES = int(os.environ.get("ADMMNET_AUDITS", "1"))


def audited(mechanism: Mechanism, trials: int, seed: int = 1) -> Audit:
    return audit(mechanism, TIMES * trials, DELTA, seed, confidence=CONFIDENCE)


def of(algorithm: str, records: int = 40, **settings: Any) -> MethodTrials | StepTrials:
    """Trials of a method at the budget of this file, its noise and rounds few."""
    kind = StepTrials if METHODS[algorithm].verb == "none" else MethodTrials
    return kind(algorithm, tuple({"epsilon": 4.0, "delta": DELTA, **settings}.items()), records=records)


GAUSSIAN: dict[str, tuple[Mechanism, int]] = {
    "objective": (of("pp-admm", rounds=2), 300),
    "output": (of("pp-admm", rounds=2, release="output"), 400),
    "noisy-question": (Questions(), 600),
    "norm-question": (Questions("joining", 3), 900),
    "gradient-sums": (of("noisy-gd", rounds=4), 225),
    "moments": (of("ssp"), 250),
    "dp-dsgd": (of("dp-dsgd", rounds=2), 250),
    "dp-sgd": (of("dp-sgd", epochs=2, batch=40), 270),
    "dp-scd": (of("dp-scd", epochs=2, batch=20, sampling="shuffled", dual_noise=True), 250),
    "seq-dp-scd": (of("seq-dp-scd", epochs=2, batch=20), 250),
}
OTHERS: dict[str, tuple[Mechanism, int]] = {
    "held-questions": (HeldQuestions(), 1600),
    "m-admm": (of("m-admm", rounds=1), 500),
    "dp-scd-sampled": (of("dp-scd", epochs=3, batch=20), 1200),
    "song-sgd": (of("song-sgd", batch=40), 500),
    "banco": (of("banco", records=20), 150),
}


SHORT = dict.fromkeys(OTHERS, 2e-3) | dict.fromkeys(("dp-sgd", "dp-scd", "seq-dp-scd"), 1e-3)
SHORT |= {"gradient-sums": 1e-4, "moments": 1e-4}
"""How far a plan may stay below its promise: eq. (P11) of discrete noise, the search for sampled steps; else 1e-6."""


@pytest.mark.parametrize("name", [*GAUSSIAN, *OTHERS])
def test_bounds_show_a_part_of_what_is_proven_and_no_more(name: str) -> None:
    gaussian = name in GAUSSIAN
    found = audited(*(GAUSSIAN if gaussian else OTHERS)[name])
    assert found.proven == pytest.approx(4.0, rel=SHORT.get(name, 1e-6))
    assert found.holds, found
    assert (found.lower_gaussian is not None) == gaussian
    shown, parts = (found.lower_gaussian, (0.15, 0.6)) if gaussian else (found.lower, (0.05, 0.2))
    assert shown is not None
    assert shown > parts[TIMES > 1] * found.proven


@pytest.mark.parametrize("name", GAUSSIAN if TIMES > 1 else ("objective", "norm-question", "gradient-sums", "dp-sgd"))
def test_half_the_noise_is_found(name: str) -> None:
    with halved_noise():
        found = audited(*GAUSSIAN[name])
    assert found.proven == pytest.approx(4.0, rel=SHORT.get(name, 1e-6))  # the ledger knows nothing of it
    assert not found.holds, found


def test_half_the_noise_of_pure_methods_and_charges_that_are_forgotten_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with halved_noise():
        assert not audit(of("song-sgd", batch=40), 1500, DELTA, 1).holds
    steps = MemoryLedger.steps
    monkeypatch.setattr(MemoryLedger, "steps", lambda own, t, events: () if t % 2 else steps(own, t, events))
    found = audit(of("noisy-gd", rounds=2), 600, DELTA, 1)
    assert found.proven < 3.0
    assert not found.holds, found


MASKED = {"colluder": MaskedRounds(keys=False, agents=3), "all keys": MaskedRounds(keys=True)}


@pytest.mark.parametrize("name", MASKED)
def test_both_epsilons_of_masked_sums_hold_and_are_needed(name: str) -> None:
    """A silent colluder reads no more than (A), who has all keys no more than (B), which is more than (A)."""
    found, promise = audited(MASKED[name], 250), MASKED[name].epsilon
    assert found.lower_gaussian is not None
    assert found.holds, found
    assert found.lower_gaussian > 0.3 * found.proven
    if name == "all keys":
        assert found.proven > 2.0 * promise
        assert found.lower_gaussian > promise  # (A) does not hold for whoever has the keys
    else:
        assert found.proven == pytest.approx(promise, rel=1e-4)
        with halved_noise():
            assert not audited(MASKED[name], 250).holds


@pytest.mark.parametrize("algorithm", ["pp-admm", "m-admm", "noisy-gd"])
def test_the_auditor_keeps_the_agent_where_the_canary_counts(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points: list[float] = []

    def seen(used: Any, value: Any, pair: Any) -> float:
        points.append(float(getattr(used, "here", value)[0]))
        return evidence(used, value, pair)

    monkeypatch.setattr("admmnet.auditing.methods.evidence", seen)
    of(algorithm, rounds=5).draw(1, np.random.default_rng(0))
    np.testing.assert_allclose(points[1:], -FAR, rtol=0.05)


def test_who_is_outside_of_the_core_is_asked_and_joins() -> None:
    mechanism = of("ipp-admm", records=1000, rounds=12)
    assert isinstance(mechanism, MethodTrials)
    assert isinstance(mechanism.method, IPPADMM)
    assert mechanism.method.asked(0)
    said = [mechanism.draw(1, np.random.default_rng(k)).spent.rho for k in range(20)]
    assert len({round(rho, 9) for rho in said}) > 1  # it joins in one round or another


def test_published_dp_scd_shows_more_than_it_claims() -> None:
    """Noise on the dual variables shows who is in a batch: what is read exceeds the claim, and not what is proven."""
    settings: dict[str, Any] = {"method": "published", "accountant": "published", "epsilon": 1.0, "delta": 1e-3}
    found = audit(of("dp-scd", records=40, batch=1, epochs=1, **settings), 300, 1e-3, 1)
    assert found.published is not None
    assert found.lower_gaussian is not None
    assert found.published <= 1.0 < found.lower_gaussian
    assert found.holds
