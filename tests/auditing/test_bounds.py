"""The auditor's statistics on plain noise: how often bounds are wrong, and how close they come.

A bound at error 0.1 may be wrong in 10 % of repetitions. One that is wrong that often exceeds ``MOST`` of 400 with
probability below 1e-6; there are 3 such counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from admmnet.auditing.audit import (
    Audit,
    Drawn,
    Gain,
    Reading,
    Trial,
    World,
    choose_event,
    clopper_pearson,
    draw,
    epsilon_gain,
    event_bound,
    judge,
    mu_gain,
    mu_of_scores,
    readable,
)
from admmnet.errors import RunError
from admmnet.privacy.budget import Totals
from admmnet.privacy.conversion import gaussian_epsilon
from admmnet.privacy.events import Gaussian, Laplace
from admmnet.types import Vector

from .gates import audit

ERROR, REPEATS = 0.1, 400
MOST = int(stats.binom.isf(1e-6, REPEATS, ERROR))


@dataclass(frozen=True)
class Plain:
    """0 or 1 with noise of a scale, booked with scale 1."""

    law: str
    scale: float = 1.0
    reading: Reading = "scores"
    name: str = "plain"

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        noise = rng.standard_normal() if self.law == "normal" else rng.laplace()
        event = Gaussian(1.0, 1.0) if self.law == "normal" else Laplace(1.0, 1.0)
        return Trial(world + self.scale * noise, Totals.of([(event, 1)], "proven"))

    def probability(self, threshold: float, world: int) -> float:
        """Of a score of at least the threshold."""
        law = stats.norm if self.law == "normal" else stats.laplace
        return float(law.sf((threshold - world) / self.scale))


def samples(plain: Plain, count: int) -> Iterator[tuple[Vector, Vector]]:
    """Scores of both worlds, again and again."""
    rng = np.random.default_rng(5)
    for _ in range(REPEATS):
        noise = rng.standard_normal((2, count)) if plain.law == "normal" else rng.laplace(size=(2, count))
        yield plain.scale * noise[0], 1.0 + plain.scale * noise[1]


@pytest.mark.parametrize("error", [0.1, 1e-6])
@pytest.mark.parametrize("n", [1, 7, 60])
def test_clopper_pearson_is_wrong_no_more_often_than_it_says(n: int, error: float) -> None:
    counts = np.arange(n + 1)
    low, high = clopper_pearson(counts, n, error)
    worst = 0.0
    near = np.concatenate((low * (1.0 - 1e-8), np.minimum(high * (1.0 + 1e-8), 1.0)))
    for p in np.concatenate((np.linspace(0.0, 1.0, 301), near)).tolist():
        mass = stats.binom.pmf(counts, n, p)
        wrong = max(float(mass[low > p].sum()), float(mass[high < p].sum()))
        assert wrong <= error * (1.0 + 1e-6)
        worst = max(worst, wrong)
    assert worst > 0.5 * error


@pytest.mark.parametrize(("law", "gain"), [("normal", mu_gain), ("laplace", epsilon_gain(0.01))], ids=["mu", "epsilon"])
def test_an_event_chosen_elsewhere_is_overrated_no_more_often_than_stated(law: str, gain: Gain) -> None:
    plain, first, bounds, wrong = Plain(law), 40, list[float](), 0
    for out, inside in samples(plain, 200):
        event = choose_event(out[:first], inside[:first], gain, ERROR)
        p = [plain.probability(event.threshold, world) for world in (0, 1)]
        p = p if event.above else [1.0 - one for one in p]
        bounds.append(event_bound(event, out[first:], inside[first:], gain, ERROR))
        wrong += bounds[-1] > max(0.0, float(gain(p[event.inside], p[not event.inside])))
    assert wrong <= MOST
    assert sum(bound > 0.4 for bound in bounds) > 2 * MOST  # half the noise would be as wrong as the test is strong


def test_the_gaussian_reading_exceeds_mu_no_more_often_than_stated() -> None:
    bounds = np.array([mu_of_scores(*both, ERROR) for both in samples(Plain("normal", 2.0), 200)])
    assert 0 < (bounds > 0.5).sum() <= MOST
    assert (bounds > 0.25).sum() > 2 * MOST  # half the deviation is as wrong as the test is strong


def test_readings_are_those_of_the_definitions() -> None:
    """Epsilon of an event by ln((P - delta) / Q); mu by scipy's interval of a shift over a bound on the deviation."""
    assert epsilon_gain(0.01)(0.5, 0.1) == pytest.approx(math.log(0.49 / 0.1), rel=1e-12)
    assert epsilon_gain(0.01)(0.01, 0.1) == -math.inf
    rng = np.random.default_rng(1)
    out, inside = rng.standard_normal(30), 1.5 + rng.standard_normal(50)
    shift = stats.ttest_ind(inside, out, alternative="greater").confidence_interval(1.0 - 0.5 * ERROR).low
    squares = 29.0 * np.var(out, ddof=1) + 49.0 * np.var(inside, ddof=1)
    deviation = math.sqrt(squares / stats.chi2(78).ppf(0.5 * ERROR))
    assert mu_of_scores(out, inside, ERROR) == pytest.approx(shift / deviation, rel=1e-12)


DELTA = 1e-3


def test_many_trials_of_plain_noise_come_close_to_what_it_costs() -> None:
    gaussian, exact = audit(Plain("normal"), 4000, DELTA, 2), gaussian_epsilon(1.0, DELTA)
    assert gaussian.proven == pytest.approx(exact)
    assert gaussian.lower > 0.3 * exact
    assert (gaussian.lower_gaussian or 0.0) > 0.85 * exact
    laplace = audit(Plain("laplace", reading="none"), 4000, DELTA, 2)
    assert (laplace.lower_gaussian, gaussian.holds, laplace.holds) == (None, True, True)
    assert laplace.lower > 0.75


def told(out: Any, inside: Any) -> Audit:
    """Of scores without the canary and with it."""
    worlds = [Drawn(np.array(scores, dtype=float), 0.0, None) for scores in (out, inside)]
    return judge("scored", "none", worlds[0], worlds[1], DELTA, 0.99)


def test_worlds_may_be_told_apart_in_either_direction_but_not_on_trials_that_choose_the_event() -> None:
    # worlds apart on the first quarter, alike on the rest
    rest = np.arange(300) % 2
    assert told([*np.zeros(100), *rest], [*np.ones(100), *rest]).lower == 0.0
    assert told(np.zeros(400), np.ones(400)).lower > 4.0
    # an outcome of one trial in ten in one world, of none in the other: the other three inequalities show ln 2 at most
    often = np.arange(2000) % 10 == 0
    for common in (0, 1):
        found = told(often * (common == 0), often * (common == 1))
        assert (found.event.above, found.event.inside) == (True, common)
        assert found.lower > 2.5


def test_scores_that_never_vary_tell_nothing_and_those_that_overflow_are_a_failure() -> None:
    same = np.ones(50)
    assert mu_of_scores(same, same, 0.01) == told(same, same).lower == 0.0
    for lost in (math.nan, -math.inf, 1e200):
        with pytest.raises(RunError, match=r"1 of 3 trials have no score, the first is .*: its numbers overflowed"):
            readable("scored", np.array([1.0, lost, 2.0]))
    with pytest.raises(RunError, match="1 of 1 trials"), np.errstate(over="ignore"):
        draw(Plain("normal", 1e308), 0, 0, range(1), DELTA)


def test_trials_depend_on_seed_world_and_place_alone() -> None:
    plain, worlds = Plain("normal"), tuple[World, World]((0, 1))
    drawn = [draw(plain, world, seed, range(6), DELTA).scores - world for seed in (7, 8) for world in worlds]
    assert len(np.unique(drawn)) == 24
    np.testing.assert_array_equal(drawn[0][2:4], draw(plain, 0, 7, range(2, 4), DELTA).scores)
    assert audit(plain, 40, DELTA, 7) == audit(plain, 40, DELTA, 7)


def test_a_claim_that_some_trials_lack_is_no_claim() -> None:
    one, none = (Drawn(np.zeros(2), 1.0, claim) for claim in (0.5, None))
    assert (Drawn.joined([one, one]).published, Drawn.joined([one, none]).published) == (0.5, None)
