"""From (epsilon, delta) to the noise of the proven forms (docs/algorithms.md, sec. 5).

One degree of freedom, a nominal zCDP budget: the gate gets its share of it, every release an equal part of the
rest. Bisection finds the largest one whose worst case stays within (epsilon, delta), all costs proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from admmnet.errors import BudgetError
from admmnet.privacy.budget import SLACK, Budget, Totals
from admmnet.privacy.conversion import ORDERS, allowance, best_order
from admmnet.privacy.events import AboveThreshold, Event, Gaussian, ObjectivePerturbation

INEXACT_SHARE = 1e-3
"""Share of a release's budget for the noise that hides how far the solve is from exact."""
SWITCH = 34.6
"""Rounds a release from which a held threshold has less noise than a noisy query a round (Theorem 9)."""
Q_MIN = 0.005
"""Fall of the average loss worth a broadcast, docs/algorithms.md eq. (23)."""
GATES = ("off", "gaussian", "above-threshold")


@dataclass(frozen=True)
class ProvenSetting:
    """What a proven method's noise depends on besides the agent.

    Parameters
    ----------
    release : str
        ``objective`` (Theorem 3) or ``output`` (Theorem 7).
    rounds, releases : int
        T, and the most broadcasts of an agent (T without a gate).
    beta : float
        Gradient norm of the certificate.
    lipschitz, curvature : float
        G and c1 of the loss.
    logistic : bool
        Whether the loss is logistic, with c1 = G^2 / 4.
    gate : str
        One of ``GATES``.
    gate_share : float
        Share of the budget for the gate.
    gate_radius, gate_gap : float
        Radius of the ball in the gate's query, and its certified optimality gap (Theorem 8).
    """

    release: str
    rounds: int
    releases: int
    beta: float
    lipschitz: float
    curvature: float
    logistic: bool = False
    gate: str = "off"
    gate_share: float = 0.0
    gate_radius: float = 5.0
    gate_gap: float = 1e-5


@dataclass(frozen=True)
class ProvenGate:
    """Noise of a proven gate; ``spread`` is the standard deviation of a comparison's noise."""

    kind: str
    event: Gaussian | AboveThreshold
    spread: float
    sensitivity: float
    radius: float
    gap: float


@dataclass(frozen=True)
class ProvenNoise:
    """Noise of one agent, the events that its rounds charge, and its budget.

    Attributes
    ----------
    sigma1 : float or None
        Standard deviation of b; None for output perturbation.
    sigma2 : float
        Standard deviation added to the minimiser.
    convexity : float
        m, the least over the run.
    release : tuple of Event
        What a broadcast charges.
    gate : ProvenGate or None
    charges : tuple of (Event, int)
        All that the run can charge.
    worst_case : Totals
        Its sum.
    budget : Budget
    """

    sigma1: float | None
    sigma2: float
    convexity: float
    release: tuple[Event, ...]
    gate: ProvenGate | None
    charges: tuple[tuple[Event, int], ...]
    worst_case: Totals
    budget: Budget


def sigma_objective(rho: float, records: int, lipschitz: float) -> float:
    """sigma1 at which the linear part of Theorem 3 costs rho: (2 G / n) / sqrt(2 rho), eq. (18)."""
    return 2.0 * lipschitz / (records * math.sqrt(2.0 * rho))


def choose_gate(rounds: int, releases: int) -> str:
    """Return the gate with the less noise at equal cost (Theorem 9)."""
    return "above-threshold" if rounds > SWITCH * releases else "gaussian"


def noise_at(rho: float, records: int, convexity: float, setting: ProvenSetting) -> ProvenNoise:
    """Noise at a nominal budget rho, with a placeholder for the agent's budget."""
    share = setting.gate_share if setting.gate != "off" else 0.0
    each = rho * (1.0 - share) / setting.releases
    inexact = 2.0 * setting.beta / convexity  # Theorem 4
    release: tuple[Event, ...]
    if setting.release == "output":
        sensitivity = 2.0 * setting.lipschitz / (records * convexity) + inexact  # Theorem 7
        sigma1, sigma2 = None, sensitivity / math.sqrt(2.0 * each)
        release = (Gaussian(sensitivity, sigma2),)
    else:
        sigma1 = sigma_objective(each * (1.0 - INEXACT_SHARE), records, setting.lipschitz)
        sigma2 = inexact / math.sqrt(2.0 * each * INEXACT_SHARE)
        release = (
            ObjectivePerturbation(
                2.0 * setting.lipschitz / records,
                sigma1,
                setting.lipschitz,
                setting.curvature,
                convexity,
                records,
                logistic=setting.logistic,
            ),
            Gaussian(inexact, sigma2),
        )
    charges: list[tuple[Event, int]] = [(event, setting.releases) for event in release]
    gate = None
    if setting.gate != "off":
        gate = _gate(rho * share, records, setting)
        charges.append((gate.event, setting.rounds if setting.gate == "gaussian" else setting.releases))
    worst = Totals.of(charges, "proven")
    placeholder = Budget(1.0, 0.5, "proven")
    return ProvenNoise(sigma1, sigma2, convexity, release, gate, tuple(charges), worst, placeholder)


def _gate(rho: float, records: int, setting: ProvenSetting) -> ProvenGate:
    sensitivity = 2.0 * setting.lipschitz * setting.gate_radius / records + setting.gate_gap  # Theorem 8
    event: Gaussian | AboveThreshold
    if setting.gate == "gaussian":
        spread = sensitivity / math.sqrt(2.0 * rho / setting.rounds)
        event = Gaussian(sensitivity, spread)
    else:
        epsilon = pure_epsilon(rho / setting.releases)
        first = epsilon / (1.0 + 2.0 ** (2.0 / 3.0))
        event = AboveThreshold(sensitivity, first, epsilon - first)
        spread = math.sqrt(2.0) * math.hypot(
            sensitivity / event.epsilon_threshold, 2.0 * sensitivity / event.epsilon_query
        )
    return ProvenGate(setting.gate, event, spread, sensitivity, setting.gate_radius, setting.gate_gap)


def pure_epsilon(rho: float) -> float:
    """Pure epsilon whose zCDP cost epsilon tanh(epsilon/2) is rho (Theorem 2), by bisection from below."""
    low, high = 0.0, max(2.0 * math.sqrt(rho), 2.0 * rho) + 1e-300
    while high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle * math.tanh(0.5 * middle) <= rho else (low, middle)
    return low


def fits(worst: Totals, epsilon: float, delta: float, spent: Totals | None, order: int | None) -> bool:
    """Whether a worst case, on top of what was spent, stays within (epsilon, delta); at one order if given."""
    if order is not None:
        before = 0.0 if spent is None else float(spent.curve[order])
        return before + float(worst.curve[order]) <= allowance(order, epsilon, delta) * (1.0 - SLACK)
    if spent is None:
        return worst.epsilon_proven(delta) <= epsilon
    total = Totals("proven")
    total.rho, total.curve = spent.rho + worst.rho, spent.curve + worst.curve
    total.mu_squared = spent.mu_squared + worst.mu_squared
    return total.epsilon_proven(delta) <= epsilon


def largest(fits: Callable[[float], bool], start: float, epsilon: float) -> float:
    """Return the largest nominal budget that fits, to 1e-10 relative and never above, by bisection.

    Raises
    ------
    BudgetError
        If not even a vanishing one fits.
    """
    low = high = start
    for _ in range(60):
        if low > 0.0 and fits(low):
            break
        high, low = low, low / 16.0
    else:
        raise BudgetError(
            f"epsilon = {epsilon:g} affords no release at all; raise --epsilon or lower --rounds "
            "(or raise --eta or --proximal, if they are set by hand)"
        )
    while high == low or fits(high):
        low, high = high, 4.0 * high
    while high / low > 1.0 + 1e-10:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def nominal_rho(epsilon: float, delta: float, spent: Totals | None = None, order: int | None = None) -> float:
    """Return the largest zCDP budget that fits (epsilon, delta), eq. (P2): what the settings are chosen by.

    Raises
    ------
    BudgetError
        If less than a millionth of the budget is left.
    """

    def ok(rho: float) -> bool:
        total = Totals("proven")
        total.rho, total.curve, total.mu_squared = rho, rho * ORDERS, math.inf
        return fits(total, epsilon, delta, spent, order)

    start = epsilon * epsilon / (4.0 * math.log(1.0 / delta) + 4.0 * epsilon)
    if spent is not None and spent.rho > 0.0 and not ok(1e-6 * start):
        raise BudgetError(_exhausted(epsilon, delta, spent, order))
    return largest(ok, start, epsilon)


def _exhausted(epsilon: float, delta: float, spent: Totals, order: int | None) -> str:
    """What an account has left, and the epsilon that a further run like a first one would make of it."""
    used = spent.epsilon_proven(delta)
    at = best_order(spent.curve, delta) if order is None else order
    fresh = nominal_rho(epsilon, delta) * float(ORDERS[at])
    needed = epsilon + float(spent.curve[at]) + fresh - allowance(at, epsilon, delta)  # (P2) at one order
    return (
        f"the account has spent epsilon {used:.6g} of {epsilon:g}, and of the {max(epsilon - used, 0.0):.2g} between "
        "them, at the order fixed when it was opened, nothing is left for another run; raise --epsilon to "
        f"{math.ceil(1e3 * needed) / 1e3:g} for one like a first run at {epsilon:g} (a record is then promised that "
        "over all runs, and no less), or stop here"
    )


def calibrate_agent(
    records: int,
    convexity: float,
    epsilon: float,
    delta: float,
    setting: ProvenSetting,
    spent: Totals | None = None,
    order: int | None = None,
) -> ProvenNoise:
    """Noise of one agent of a proven method.

    Parameters
    ----------
    records, convexity : int, float
        n_i and m_i.
    epsilon, delta : float
        The agent's budget, ``spent`` included.
    setting : ProvenSetting
        What else the noise depends on.
    spent, order : Totals, int, optional
        Totals of an account that this run continues, and the account's fixed order.

    Returns
    -------
    ProvenNoise
        Its worst case is at most epsilon, to 1e-9 relative.

    Raises
    ------
    BudgetError
        If the budget affords no release.
    """
    start = nominal_rho(epsilon, delta, spent, order)

    def ok(rho: float) -> bool:
        return fits(noise_at(rho, records, convexity, setting).worst_case, epsilon, delta, spent, order)

    noise = noise_at(largest(ok, start, epsilon), records, convexity, setting)
    return replace(noise, budget=budget_after(noise.worst_case, epsilon, delta, "proven", spent, order))


def budget_after(
    worst: Totals, epsilon: float, delta: float, accountant: str, spent: Totals | None, order: int | None
) -> Budget:
    """Budget of a plan: at the best order for its worst case, or at the order of the account that it continues."""
    if spent is None and order is None:
        return Budget.for_plan(epsilon, delta, accountant, worst)
    return Budget(epsilon, delta, accountant, order)
