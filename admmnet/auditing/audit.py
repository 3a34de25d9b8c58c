"""What an attacker learns of a mechanism in trials: a lower bound on epsilon, beside what is proven.

Two worlds differ in one record, the canary. A trial runs the mechanism in one of them and reduces all that is seen
to a score; how well scores tell the worlds apart bounds epsilon from below (docs/proofs.md, "Auditing").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from admmnet.auditing.bounds import Event, Gain, choose_event, epsilon_gain, event_bound, mu_gain, mu_of_scores
from admmnet.auditing.evidence import World
from admmnet.errors import RunError
from admmnet.privacy.budget import Totals
from admmnet.privacy.conversion import gaussian_epsilon
from admmnet.types import Vector

Reading = Literal["none", "scores", "answers"]
"""How mu is read: from scores that are normal, of one variance; from an event, where all that is booked is Gaussian."""
LEAST_TRIALS = 20
LARGEST = 1e150
"""Size of a score whose square is a number."""


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


class Drawn(NamedTuple):
    """Trials in one world."""

    scores: Vector  # (trials,)
    proven: float  # largest proven epsilon of what they charged
    published: float | None  # likewise; None where any has no figure

    @classmethod
    def joined(cls, parts: Sequence[Drawn]) -> Drawn:
        """Trials of several parts, in their order."""
        scores = np.concatenate([part.scores for part in parts])
        return cls(scores, max(part.proven for part in parts), _largest(part.published for part in parts))


def draw(mechanism: Mechanism, world: World, seed: int, trials: Sequence[int], delta: float) -> Drawn:
    """Trials of these places: each depends on seed, world and its place alone."""
    drawn = [mechanism.draw(world, np.random.default_rng((seed, world, k))) for k in trials]
    spent = list({id(trial.spent): trial.spent for trial in drawn}.values())  # equal histories share an object
    return Drawn(
        readable(mechanism.name, np.array([trial.score for trial in drawn])),
        max(totals.epsilon_proven(delta) for totals in spent),
        _largest(totals.epsilon_published(delta) for totals in spent),
    )


def _largest(claims: Iterable[float | None]) -> float | None:
    """None where any has no figure."""
    known = list(claims)
    return None if None in known else max(claim for claim in known if claim is not None)


def readable(name: str, scores: Vector) -> Vector:
    """Scores that bounds can be read from.

    RunError if one is no number, or too large for its square to be one: it would be in no event, and counted against
    all.
    """
    lost = scores[~(np.abs(scores) <= LARGEST)]  # nan, too
    if len(lost):
        raise RunError(
            f"{name}: {len(lost)} of {len(scores)} trials have no score, the first is {lost[0]:g}: its numbers "
            "overflowed, so that nothing can be read from them; choose settings that keep them small, such as a "
            "smaller learning rate"
        )
    return scores


def judge(
    name: str, reading: Reading, out: Drawn, inside: Drawn, delta: float, confidence: float, held_out: float = 0.25
) -> Audit:
    """Bounds of trials without the canary and with it, each wrong with probability 1 - ``confidence``.

    The tested event is chosen on a share of the trials, ``held_out``, which are not tested.
    """
    trials, error = len(out.scores), 1.0 - confidence
    first = max(1, round(held_out * trials))

    def counted(gain: Gain) -> tuple[Event, float]:
        chosen = choose_event(out.scores[:first], inside.scores[:first], gain, error)
        return chosen, event_bound(chosen, out.scores[first:], inside.scores[first:], gain, error)

    event, lower = counted(epsilon_gain(delta))
    mu: float | None = None
    if reading == "answers":
        mu = counted(mu_gain)[1]
    elif reading == "scores":  # nothing is chosen, so all trials count
        mu = mu_of_scores(out.scores, inside.scores, error)
    claims = Drawn.joined([out, inside])
    return Audit(
        name,
        trials,
        delta,
        confidence,
        event,
        lower,
        None if mu is None else gaussian_epsilon(mu, delta) if mu > 0.0 else 0.0,
        claims.proven,
        claims.published,
    )
