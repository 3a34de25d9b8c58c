"""From a promise to the largest nominal budget whose worst case keeps it.

A method has one degree of freedom, a nominal zCDP budget rho, and says what a run can charge at most with the noise
that rho buys. Bisection finds the largest rho whose worst case stays within (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Generic, NamedTuple, TypeVar

from admmnet.errors import BudgetError
from admmnet.privacy.budget import SLACK, Charges, Totals
from admmnet.privacy.contract import Filter
from admmnet.privacy.conversion import ORDERS, allowance, discrete_epsilon, discrete_mu, excess, loose_rho, most_excess
from admmnet.privacy.conversion import epsilon as epsilon_of
from admmnet.privacy.events import Sampling, SubsampledGaussian
from admmnet.privacy.subsampled import epsilon_proven

N = TypeVar("N")
TOLERANCE = 5e-5
"""Relative accuracy of a calibrated noise multiplier, from above."""
HIGHEST = 1e150
"""Nominal budget from which on no noise is left to hope for."""


class NothingFound(Exception):
    """No nominal budget is large enough to calculate any noise."""


class Draft(NamedTuple, Generic[N]):
    """What a method would do with a nominal budget: its own numbers, all that they can charge; rho once calibrated."""

    noise: N
    charges: Charges
    rho: float = math.nan


@dataclass(frozen=True)
class Target:
    """What one agent may spend, and what is spent of it."""

    epsilon: float
    delta: float
    """The promise, over all runs of an account."""
    accountant: str = "proven"
    """``proven`` or ``published``: which arithmetic calibrates and guards."""
    spent: Totals | None = None
    """Totals of an account that this run continues."""
    account: Filter | None = None
    """The account's filter, fixed by its first run."""
    form: str = "proven"
    """Form of the method: only ``published`` ones have published costs."""
    before: Charges = ()
    """Charges of the run besides the calibrated ones: the sums that its encoding is made of."""

    @property
    def order(self) -> int | None:
        """Index of the account's fixed order; None without account, and of one that adds up mu^2."""
        return None if self.account is None else self.account.place

    @property
    def kappa(self) -> float:
        """Most that (P10) may come to where mu^2 is added up."""
        return most_excess(self.epsilon, self.delta) if self.account is None else self.account.kappa

    def at_order(self, worst: Totals) -> tuple[float, float]:
        """What a worst case needs at the account's order, on top of what was spent, and the most that is allowed."""
        assert self.order is not None
        before = 0.0 if self.spent is None else float(self.spent.curve[self.order])
        most = allowance(self.order, self.epsilon, self.delta) * (1.0 - SLACK)
        return before + float(worst.curve[self.order]), most

    def allows(self, worst: Totals) -> bool:
        """Whether a worst case, on top of what was spent, keeps the promise; at one order if there is one."""
        if self.order is not None:
            need, most = self.at_order(worst)
            return need <= most
        if self.spent is not None:
            kappa = self.spent.kappa_alone + worst.kappa_alone
            return self._within(Totals(mu_squared=self.spent.mu_squared + worst.mu_squared, kappa=kappa))
        if worst.kappa and math.isfinite(worst.mu_squared):
            if worst.gaussian(self.epsilon, self.delta):
                return self._within(worst)
            return epsilon_of(worst.curve, self.delta) <= self.epsilon
        if not worst.kappa and worst.alone is None and math.isfinite(worst.mu_squared):
            share = math.sqrt(worst.mu_squared) / discrete_mu(self.epsilon, self.delta, 0.0)
            if abs(share - 1.0) > 1e-9:  # no bisection on (P5), which grows with mu, but where it may round
                return share < 1.0 or epsilon_of(worst.curve, self.delta) <= self.epsilon
        return worst.epsilon_proven(self.delta) <= self.epsilon

    def _within(self, total: Totals) -> bool:
        """Whether totals stay in the rectangle of (mu^2, kappa): Theorems 5(b) and 19, (P11)."""
        guard = Filter.keeping(self.epsilon, self.delta, None, self.kappa)
        return total.mu_squared <= guard.most_added * (1.0 + SLACK) and total.kappa_alone <= guard.kappa * (1.0 + SLACK)

    def nominal_rho(self) -> float:
        """Return the largest zCDP budget that fits, eq. (P2), or what the published arithmetic takes, eq. (P4).

        Raises
        ------
        BudgetError
            If less than a millionth of the budget is left.
        """
        if self.accountant == "published":
            return loose_rho(self.epsilon, self.delta)
        if self.spent is not None and self.order is None:
            # as a first run's, by the share of mu^2 that is left: a convexity made for more has no mu^2 (Theorem 26)
            share = (gaussian_mu_left(self, 0) / discrete_mu(self.epsilon, self.delta, self.kappa)) ** 2
            return share * Target(self.epsilon, self.delta).nominal_rho()
        ahead = self.worst(())

        def fits(rho: float) -> bool:
            return self.allows(Totals(rho=ahead.rho + rho, curve=ahead.curve + rho * ORDERS, mu_squared=math.inf))

        start = self.epsilon * self.epsilon / (4.0 * math.log(1.0 / self.delta) + 4.0 * self.epsilon)
        if self.spent is not None and self.spent.rho > 0.0 and not fits(1e-6 * start):
            raise BudgetError(self.exhausted(self.spent))
        return largest(fits, start, self.epsilon)

    def exhausted(self, spent: Totals) -> str:
        """What an account has left, and the epsilon that a further run like a first one would make of it."""
        epsilon, used = self.epsilon, spent.epsilon_proven(self.delta)
        if self.order is None:
            fresh_mu = discrete_mu(epsilon, self.delta, self.kappa)
            needed = discrete_epsilon(math.hypot(math.sqrt(spent.mu_squared), fresh_mu), spent.kappa, self.delta)
            if spent.kappa_alone > most_excess(max(needed, epsilon), self.delta):  # a larger epsilon lowers its share
                anew = "name another folder with --account, whose epsilon comes on top"
                if spent.kappa_alone > most_excess(1.001 * used, self.delta):  # no epsilon above what is spent fits
                    restored = math.isinf(spent.rho)
                    cause = "an older copy of a run's folder was put back" if restored else "its noise was too coarse"
                    return (
                        f"all of epsilon {epsilon:g} is spent: the account has spent epsilon {used:.6g}, and {cause}: "
                        f"it pays for no further run; {anew}"
                    )
                most = largest(lambda larger: spent.kappa_alone <= most_excess(larger, self.delta), epsilon, epsilon)
                return (
                    f"epsilon {epsilon:g} leaves nothing for another run: the account has spent epsilon {used:.6g}, "
                    "and a larger one leaves less of delta to its discrete noise; give an --epsilon well above that "
                    f"and below {math.floor(1e3 * most) / 1e3:g}, or {anew}"
                )
            return self._raise_it(used, needed, "by the mu^2 that it adds up")
        fresh = Target(epsilon, self.delta).nominal_rho() * float(ORDERS[self.order])
        needed = epsilon + float(spent.curve[self.order]) + fresh - allowance(self.order, epsilon, self.delta)  # (P2)
        return self._raise_it(used, needed, "at the order fixed when it was opened")

    def _raise_it(self, used: float, needed: float, where: str) -> str:
        epsilon = self.epsilon
        return (
            f"all of epsilon {epsilon:g} is spent: the account has spent epsilon {used:.6g} of {epsilon:g}, and "
            f"{where} nothing is left for another run; raise --epsilon to "
            f"{math.ceil(1e3 * needed) / 1e3:g} for one like a first run at {epsilon:g} (the "
            "guarantee over all runs is then that epsilon), or stop here"
        )

    def worst(self, charges: Charges) -> Totals:
        """Sum of all that a run can charge, what comes before included."""
        return Totals.of((*self.before, *charges), self.form)


FINEST_GRID = 2.0**-30
"""Largest step of the grid of discrete noise, in units of its sigma."""


def gaussian_mu_left(target: Target, coordinates: int = 2**20) -> float:
    """Largest mu that a plan of (discrete) Gaussian events may spend under a target.

    Parameters
    ----------
    target : Target
        Fresh, or continuing an account of mu^2 or of a Renyi order.
    coordinates : int
        Bound on all noisy numbers of the plan, on a grid of at most sigma 2^-30: their kappa must fit its share, (P11).
        Where it does not (a huge epsilon) a fresh plan is read at the best Renyi order, and so is its guard.

    Returns
    -------
    float
        Square root of the sum of (sensitivity/sigma)^2, 1e-11 below the limit; never above it.

    Raises
    ------
    BudgetError
        If an account leaves less than a millionth of a fresh budget.
    """
    epsilon, delta, spent = target.epsilon, target.delta, target.spent
    ahead = target.worst(())
    room = target.kappa - ahead.kappa_alone - (0.0 if spent is None else spent.kappa_alone)
    near = excess(coordinates, 1.0 / FINEST_GRID) <= room
    if (spent is None or not spent.rho) and target.order is None and not near:
        return math.sqrt(2.0 * Target(epsilon, delta, before=target.before).nominal_rho()) * _BELOW
    fresh = discrete_mu(epsilon, delta, target.kappa if target.order is None else most_excess(epsilon, delta)) ** 2
    if target.order is None:
        left = fresh - ahead.mu_squared - (0.0 if spent is None else spent.mu_squared) if near else 0.0
    else:
        used, most = target.at_order(ahead)
        left = 2.0 * (most - used) / float(ORDERS[target.order])
    if not left > 1e-6 * fresh:
        raise BudgetError(target.exhausted(spent or Totals()))
    return math.sqrt(left) * _BELOW


_BELOW = 1.0 - 1e-11


def calibrate(make: Callable[[float], Draft[N] | None], target: Target, start: float | None = None) -> Draft[N]:
    """Noise of the largest nominal budget that keeps the promise, to 1e-10 relative and never above.

    Parameters
    ----------
    make : callable
        Nominal rho to a draft; None where nothing can be calculated because rho is too small.
    target : Target
        The promise. Under ``published`` its arithmetic alone decides rho.
    start : float, optional
        Where the search begins; by default at ``target.nominal_rho()``, or all the mu^2 that an account has left.

    Raises
    ------
    BudgetError
        If the budget affords no release.
    NothingFound
        If nothing can be calculated with any budget: settings are to blame.
    """
    if start is None:
        adding = target.spent is not None and target.order is None and target.accountant == "proven"
        start = 0.5 * gaussian_mu_left(target, 0) ** 2 if adding else target.nominal_rho()
    rho = start
    if target.accountant == "proven":

        def fits(rho: float) -> bool:
            draft = make(rho)
            # what cannot be calculated is too small, not too large: go on upwards
            return rho < HIGHEST if draft is None else target.allows(target.worst(draft.charges))

        rho = largest(fits, rho, target.epsilon)
    draft = make(rho)
    if draft is None:
        raise NothingFound
    return draft._replace(rho=rho)


def largest(fits: Callable[[float], bool], start: float, epsilon: float) -> float:
    """Return the largest nominal budget that fits, to 1e-10 relative and never above, by bisection.

    BudgetError if not even a vanishing one fits.
    """
    found = _below(fits, start, 1.0 / 16.0, 60)
    found = found or _below(fits, start, 0.97, 64)  # where mu^2 alone is added up Theorem 26 has a least budget, too
    if found is None:
        raise BudgetError(
            f"epsilon = {epsilon:g} affords no release at all; raise --epsilon or lower --rounds "
            "(or raise --eta or --proximal, if they are set by hand)"
        )
    low, high = found
    while high == low or fits(high):
        low, high = high, 4.0 * high
    while high / low > 1.0 + 1e-10:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _below(fits: Callable[[float], bool], start: float, factor: float, tries: int) -> tuple[float, float] | None:
    """First of start, start factor, ... that fits, and the one before it."""
    low = high = start
    for _ in range(tries):
        if low > 0.0 and fits(low):
            return low, high
        high, low = low, low * factor
    return None


def pure_epsilon(rho: float) -> float:
    """Pure epsilon whose zCDP cost epsilon tanh(epsilon/2) is rho (Theorem 2), by bisection from below."""
    low, high = 0.0, max(2.0 * math.sqrt(rho), 2.0 * rho) + 1e-300
    while high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle * math.tanh(0.5 * middle) <= rho else (low, middle)
    return low


def noise_multiplier(
    epsilon: float,
    delta: float,
    rate: float,
    steps: int,
    sampling: Sampling,
    reading: Callable[[SubsampledGaussian, float], float] = epsilon_proven,
) -> float:
    """Least noise multiplier whose epsilon is at most the target, to 1e-3 relative and never below.

    It is relative to the sensitivity that the sampling's event has: C, or 2 C where ``fixed``. ``reading`` is the
    epsilon of an event at a delta, which falls as the noise grows. BudgetError if no noise up to 1e6 is enough.
    """
    from scipy.optimize import brentq

    @cache
    def excess(log: float) -> float:
        """Logarithm of epsilon over its target, between -3 and 3, at a logarithm of the noise multiplier."""
        found = reading(SubsampledGaussian(math.exp(log), rate, steps, sampling), delta)
        return min(max(math.log(found / epsilon), -3.0), 3.0) if found > 0.0 else -3.0

    low = high = 0.0
    while excess(high) > 0.0:
        low, high = high, high + 0.7
        if high > 14.0:
            raise BudgetError(f"epsilon = {epsilon:g} affords no step at all; raise --epsilon or lower --epochs")
    while excess(low) <= 0.0 and low > -9.0:
        low, high = low - 0.7, low
    if excess(low) <= 0.0:
        return math.exp(low)
    log = brentq(excess, low, high, xtol=TOLERANCE, rtol=1e-12)
    while excess(log) > 0.0:
        log += TOLERANCE
    return math.exp(log)
