"""From (epsilon, delta) to the noise of DVP, M-ADMM and R-ADMM (docs/algorithms.md, sec. 6).

Every round that reads records is pure epsilon, plus a little Gaussian noise for the inexact solve. One degree of
freedom, a nominal zCDP budget that those rounds share equally. ``published`` takes what the papers' arithmetic
gives; ``proven`` the largest whose proven worst case stays within (epsilon, delta).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from admmnet.errors import BudgetError, RequestError
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.calibrate_proven import (
    INEXACT_SHARE,
    budget_after,
    fits,
    largest,
    nominal_rho,
    pure_epsilon,
)
from admmnet.privacy.conversion import loose_rho
from admmnet.privacy.events import Event, GammaNorm, Gaussian, NoRecords

ROOM = 1e-9
"""Relative; DVP's ridge exceeds what (L) of Theorem 11 asks for by that much, or rounding could undo it."""
HIGHEST = 1e150
"""Nominal budget from which on no convexity is left to hope for."""


@dataclass(frozen=True)
class PureSetting:
    """What the noise depends on besides the agent.

    Parameters
    ----------
    algorithm : str
        ``dvp``, ``m-admm`` or ``r-admm``.
    published : bool
        Whether the papers' constants and conditions are used, or those of Theorem 11.
    accountant : str
        Which arithmetic calibrates and guards.
    rounds, releases : int
        T, and the rounds that read records: T, or for R-ADMM every other one.
    width : int
        d.
    beta : float
        Gradient norm of the certificate.
    lipschitz, curvature : float
        G and c1 of the loss.
    logistic : bool
        Whether the loss is logistic, with c1 = G^2 / 4.
    """

    algorithm: str
    published: bool
    accountant: str
    rounds: int
    releases: int
    width: int
    beta: float
    lipschitz: float
    curvature: float
    logistic: bool = False


@dataclass(frozen=True)
class PureFacts:
    """Public facts of an agent; ``convexity`` is m and ``penalty`` 2 eta |B_i|, both in the first round."""

    records: int
    convexity: float
    penalty: float


@dataclass(frozen=True)
class PureNoise:
    """Noise of one agent, the events that its rounds charge, and its budget.

    Attributes
    ----------
    epsilon : float
        Pure epsilon of a round that reads records, in the calibrating arithmetic.
    rate : float
        a of K(a), the density of the linear term.
    sigma2 : float
        Standard deviation added to the minimiser.
    extra : float
        Phi of DVP, eq. (27); 0 for the others.
    convexity : float
        m, the least over the run, ``extra`` included.
    release : tuple of Event
        What such a round charges.
    charges : tuple of (Event, int)
        All that the run can charge.
    worst_case : Totals
        Its sum.
    budget : Budget
    """

    epsilon: float
    rate: float
    sigma2: float
    extra: float
    convexity: float
    release: tuple[Event, ...]
    charges: tuple[tuple[Event, int], ...]
    worst_case: Totals
    budget: Budget


def least_convexity_pure(epsilon: float, records: int, curvature: float, *, logistic: bool) -> float:
    """Convexity at which curvature takes nothing of epsilon (logistic), or half: docs/algorithms.md eq. (27)."""
    kappa = (1.0 - ROOM) * epsilon / 8.0 if logistic else math.expm1(0.5 * epsilon)
    return curvature / (records * kappa)


def noise_at(rho: float, facts: PureFacts, setting: PureSetting) -> PureNoise | None:
    """Noise at a nominal budget rho, with a placeholder for the agent's; None if curvature alone costs a round's."""
    n, c1 = facts.records, setting.curvature
    each = rho / setting.releases
    exact, inexact = each * (1.0 - INEXACT_SHARE), each * INEXACT_SHARE
    # eq. (26): the papers book epsilon^2/2, Theorem 2 epsilon tanh(epsilon/2)
    epsilon = math.sqrt(2.0 * exact) if setting.published else pure_epsilon(exact)
    convexity = facts.convexity
    if setting.algorithm == "dvp":
        convexity = max(convexity, _wanted_by_dvp(epsilon, facts, setting))
    kappa = c1 / (n * convexity)
    penalty = None
    if setting.published:
        lost = 2.0 * math.log1p(kappa)  # eq. (P9)
        if setting.algorithm != "dvp":
            penalty, lost = facts.penalty, 2.8 * c1 / (n * facts.penalty)
    else:
        lost = 0.0 if setting.logistic and 8.0 * kappa <= epsilon else math.log1p(kappa)  # Theorem 11
    sensitivity = 2.0 * setting.lipschitz / n
    rate = (epsilon - lost) / sensitivity
    if not rate > 0.0:
        return None
    moved = 2.0 * setting.beta / convexity  # Theorem 4; the published arithmetic takes half, eq. (13)
    sigma2 = (0.5 if setting.published else 1.0) * moved / math.sqrt(2.0 * inexact)
    release: tuple[Event, ...] = (
        GammaNorm(sensitivity, rate, setting.width, c1, convexity, n, penalty, setting.logistic),
        Gaussian(moved, sigma2),
    )
    charges = tuple((event, setting.releases) for event in release)
    if setting.rounds > setting.releases:
        charges += ((NoRecords(), setting.rounds - setting.releases),)
    worst = Totals.of(charges, "published" if setting.published else "proven")
    extra = convexity - facts.convexity
    budget = Budget(1.0, 0.5, setting.accountant)
    return PureNoise(epsilon, rate, sigma2, extra, convexity, release, charges, worst, budget)


def _wanted_by_dvp(epsilon: float, facts: PureFacts, setting: PureSetting) -> float:
    """Convexity below which DVP adds a ridge of its own, eq. (27)."""
    n, c1 = facts.records, setting.curvature
    if not setting.published:
        return least_convexity_pure(epsilon, n, c1, logistic=setting.logistic)
    if epsilon > 2.0 * math.log1p(c1 / (n * facts.convexity)):
        return 0.0
    return c1 / (n * math.expm1(0.25 * epsilon))


def calibrate_pure(
    facts: PureFacts,
    epsilon: float,
    delta: float,
    setting: PureSetting,
    spent: Totals | None = None,
    order: int | None = None,
) -> PureNoise:
    """Noise of one agent of DVP, M-ADMM or R-ADMM.

    Parameters
    ----------
    facts : PureFacts
        The agent's.
    epsilon, delta : float
        Its budget, ``spent`` included.
    setting : PureSetting
        What else the noise depends on.
    spent, order : Totals, int, optional
        Totals of an account that this run continues, and the account's fixed order.

    Returns
    -------
    PureNoise
        Under ``proven`` its worst case is at most epsilon, to 1e-9 relative.

    Raises
    ------
    RequestError
        If penalty and regularisation are below what the method needs.
    BudgetError
        If the budget affords no release.
    """
    if setting.published and setting.algorithm != "dvp":
        _check_condition(facts, setting)
    if setting.accountant == "published":
        rho = nominal = loose_rho(epsilon, delta)
        if not INEXACT_SHARE * rho / setting.releases > 0.0:
            raise BudgetError(
                f"epsilon = {epsilon:g} affords no release at all; raise --epsilon or lower --rounds"
            )
    else:
        nominal = nominal_rho(epsilon, delta, spent, order)

        def ok(rho: float) -> bool:
            noise = noise_at(rho, facts, setting)
            # what cannot be calculated is too small, not too large: go on upwards
            if noise is None:
                return rho < HIGHEST
            return fits(noise.worst_case, epsilon, delta, spent, order)

        rho = largest(ok, nominal, epsilon)
    noise = noise_at(rho, facts, setting)
    if noise is None:
        each = nominal / setting.releases
        left = math.sqrt(2.0 * each) if setting.published else pure_epsilon(each)
        # eq. (P9): the papers of M-ADMM and R-ADMM count the penalty alone
        alone = setting.published and setting.algorithm != "dvp"
        what, remedy = ("penalty", "--eta") if alone else ("convexity", "--eta, --regularisation")
        raise RequestError(
            f"{setting.algorithm}: epsilon = {epsilon:g} leaves {left:.3g} a round, and the loss's curvature alone "
            f"costs that at a {what} of {facts.penalty if alone else facts.convexity:.3g}: raise {remedy} "
            "or --epsilon, or lower --rounds"
        )
    budget = budget_after(noise.worst_case, epsilon, delta, setting.accountant, spent, order)
    return replace(noise, budget=budget)


def _check_condition(facts: PureFacts, setting: PureSetting) -> None:
    """2 c1 < n (lambda/N + 2 eta |B_i|), which both papers assume: docs/algorithms.md eq. (30)."""
    if not 2.0 * setting.curvature < facts.records * facts.convexity:
        need = 2.0 * setting.curvature / facts.records
        raise RequestError(
            f"{setting.algorithm} as published needs lambda/N + 2 eta |B_i| above 2 c1/n = {need:.6g}; an agent of "
            f"{facts.records} records has {facts.convexity:.6g}: raise --eta or --regularisation"
        )
