"""What an attacker learns of a mechanism in trials: a lower bound on epsilon, beside what is proven.

Two worlds differ in one record, the canary. A trial runs the mechanism in one of them and reduces all that is seen
to a score; how well scores tell the worlds apart bounds epsilon from below (docs/privacy.md, "Auditing").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from admmnet.auditing.bounds import (
    Event,
    Gain,
    choose_event,
    epsilon_gain,
    event_bound,
    mu_gain,
    mu_of_scores,
)
from admmnet.errors import RequestError
from admmnet.privacy.budget import Totals
from admmnet.privacy.conversion import gaussian_epsilon

World = Literal[0, 1]
"""0 without the canary, 1 with it."""
Reading = Literal["none", "scores", "answers"]
"""How mu is read: from scores that are normal, of one variance; from an event, where all that is booked is Gaussian."""
LEAST_TRIALS = 20


class Trial(NamedTuple):
    """Outcome of a trial.

    Attributes
    ----------
    score : float
        Of all that was seen; larger with the canary.
    spent : Totals
        What the mechanism has charged.
    """

    score: float
    spent: Totals


class Mechanism(Protocol):
    """Something that is run in two worlds."""

    @property
    def name(self) -> str:
        """For tables."""
        ...

    @property
    def reading(self) -> Reading:
        """How mu is read from its scores."""
        ...

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Run once with fresh noise."""
        ...


@dataclass(frozen=True)
class Audit:
    """Lower bounds on epsilon from trials, and the epsilons that are claimed.

    Attributes
    ----------
    mechanism : str
        Its name.
    trials : int
        In each world.
    delta : float
        Of all epsilons here.
    confidence : float
        Of either lower bound by itself.
    event : Event
        What was tested: chosen on held-out trials.
    lower : float
        By counting, whatever the law of the scores.
    lower_gaussian : float or None
        By the Gaussian reading, eq. (P5); None where the events are not Gaussian.
    proven : float
        By the proven accountant, of what the trials charged.
    published : float or None
        By the published one, None where it has no figure.
    """

    mechanism: str
    trials: int
    delta: float
    confidence: float
    event: Event
    lower: float
    lower_gaussian: float | None
    proven: float
    published: float | None

    @property
    def holds(self) -> bool:
        """Whether no bound exceeds what is proven: of a true claim False with probability 2 (1 - confidence)."""
        return max(self.lower, self.lower_gaussian or 0.0) <= self.proven


def audit(
    mechanism: Mechanism,
    trials: int,
    delta: float,
    seed: int,
    *,
    confidence: float = 0.99,
    held_out: float = 0.25,
) -> Audit:
    """Bound the epsilon of a mechanism from below.

    Parameters
    ----------
    mechanism : Mechanism
        What to run.
    trials : int
        Runs in each world, at least 20.
    delta : float
        Of the epsilons, between 0 and 1.
    seed : int
        Of all trials: a trial's numbers depend on seed, world and its place alone.
    confidence : float
        Of either bound.
    held_out : float
        Share of the trials on which the tested event is chosen; they are not tested.

    Returns
    -------
    Audit
        Bounds and claims.

    Raises
    ------
    RequestError
        If a number is out of range.
    """
    for name, value in (("delta", delta), ("confidence", confidence), ("held_out", held_out)):
        if not 0.0 < value < 1.0:
            raise RequestError(f"{name} = {value!r} is not allowed: it must lie between 0 and 1")
    if trials < LEAST_TRIALS:
        raise RequestError(f"trials = {trials} is too few: at least {LEAST_TRIALS} a world")
    worlds: tuple[World, World] = (0, 1)
    drawn = [
        [mechanism.draw(world, np.random.default_rng((seed, world, k))) for k in range(trials)]
        for world in worlds
    ]
    out, inside = (np.array([trial.score for trial in one]) for one in drawn)
    error, first = 1.0 - confidence, max(1, round(held_out * trials))

    def counted(gain: Gain) -> tuple[Event, float]:
        chosen = choose_event(out[:first], inside[:first], gain, error)
        return chosen, event_bound(chosen, out[first:], inside[first:], gain, error)

    event, lower = counted(epsilon_gain(delta))
    mu: float | None = None
    if mechanism.reading == "answers":
        mu = counted(mu_gain)[1]
    elif mechanism.reading == "scores":  # nothing is chosen, so all trials count
        mu = mu_of_scores(out, inside, error)
    spent = _different(trial.spent for one in drawn for trial in one)
    published = [totals.epsilon_published(delta) for totals in spent]
    return Audit(
        mechanism.name,
        trials,
        delta,
        confidence,
        event,
        lower,
        None if mu is None else gaussian_epsilon(mu, delta) if mu > 0.0 else 0.0,
        max(totals.epsilon_proven(delta) for totals in spent),
        None if None in published else max(claim for claim in published if claim is not None),
    )


def _different(spent: Iterable[Totals]) -> list[Totals]:
    """Totals of different histories; equal ones are shared objects."""
    return list({id(totals): totals for totals in spent}.values())
