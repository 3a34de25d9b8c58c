"""The auditor's statistics on plain noise: how often bounds are wrong, and how close they come.

A bound at error 0.1 may be wrong in 10 % of repetitions. One that is wrong that often exceeds ``MOST`` of 400 with
probability below 1e-6; there are 3 such counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy import stats

from admmnet.auditing.audit import Drawn, Reading, Trial, draw
from admmnet.auditing.bounds import (
    Event,
    Gain,
    choose_event,
    clopper_pearson,
    epsilon_gain,
    event_bound,
    mu_gain,
    mu_of_scores,
)
from admmnet.auditing.evidence import World
from admmnet.errors import RunError
from admmnet.privacy.budget import Totals
from admmnet.privacy.conversion import gaussian_epsilon
from admmnet.types import Vector

from .plain import Plain, audit

ERROR, REPEATS = 0.1, 400
MOST = int(stats.binom.isf(1e-6, REPEATS, ERROR))


def samples(plain: Plain, count: int) -> Iterator[tuple[Vector, Vector]]:
    """Scores of both worlds, again and again."""
    rng = np.random.default_rng(5)
    for _ in range(REPEATS):
        noise = rng.standard_normal((2, count)) if plain.law == "normal" else rng.laplace(size=(2, count))
        yield plain.scale * noise[0], 1.0 + plain.scale * noise[1]


def shown(plain: Plain, event: Event, gain: Gain) -> float:
    """What an event shows with its true probabilities."""
    p = [plain.probability(event.threshold, world) for world in (0, 1)]
    p = p if event.above else [1.0 - one for one in p]
    return float(gain(p[event.inside], p[not event.inside]))


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
    plain, first, bounds, wrong = Plain(law, 1.0, 1.0), 40, list[float](), 0
    for out, inside in samples(plain, 200):
        event = choose_event(out[:first], inside[:first], gain, ERROR)
        bounds.append(event_bound(event, out[first:], inside[first:], gain, ERROR))
        wrong += bounds[-1] > max(0.0, shown(plain, event, gain))
    assert wrong <= MOST
    assert sum(bound > 0.4 for bound in bounds) > 2 * MOST  # half the noise would be as wrong as the test is strong


def test_the_gaussian_reading_exceeds_mu_no_more_often_than_stated() -> None:
    wrong, bounds = 0, []
    for out, inside in samples(Plain("normal", 1.0, 2.0), 200):
        bounds.append(mu_of_scores(out, inside, ERROR))
        wrong += bounds[-1] > 0.5
    assert 0 < wrong <= MOST
    assert sum(bound > 0.25 for bound in bounds) > 2 * MOST  # half the deviation is as wrong as the test is strong


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
    gaussian = audit(Plain("normal", 1.0, 1.0), 4000, DELTA, 2)
    exact = gaussian_epsilon(1.0, DELTA)
    assert gaussian.holds
    assert gaussian.proven == pytest.approx(exact)
    assert gaussian.lower > 0.3 * exact
    assert gaussian.lower_gaussian is not None
    assert gaussian.lower_gaussian > 0.85 * exact
    laplace = audit(Plain("laplace", 1.0, 1.0, "none"), 4000, DELTA, 2)
    assert laplace.holds
    assert laplace.lower > 0.75
    assert laplace.lower_gaussian is None


@pytest.mark.parametrize(("law", "trials"), [("normal", 400), ("laplace", 1500)])
def test_half_of_the_noise_that_is_booked_is_found(law: str, trials: int) -> None:
    reading: Reading = "scores" if law == "normal" else "none"
    right, half = (audit(Plain(law, 1.0, scale, reading), trials, DELTA, 3) for scale in (1.0, 0.5))
    assert right.holds
    assert not half.holds


class Scored:
    """Scores from a function of world and trial, without noise."""

    name = "scored"
    reading: Reading = "none"

    def __init__(self, score: Callable[[int, int], float]) -> None:
        self.score = score
        self.drawn = [0, 0]

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        self.drawn[world] += 1
        return Trial(self.score(world, self.drawn[world] - 1), Totals())


def test_trials_that_choose_the_event_are_not_tested() -> None:
    # worlds apart on the first quarter, alike on the rest
    told = audit(Scored(lambda world, k: float(world if k < 100 else k % 2)), 400, DELTA, 0)
    assert told.lower == 0.0
    assert audit(Scored(lambda world, k: float(world)), 400, DELTA, 0).lower > 4.0


@pytest.mark.parametrize("common", [0, 1])
def test_worlds_may_be_told_apart_in_either_direction(common: World) -> None:
    # an outcome of one trial in ten in one world, of none in the other: the other three inequalities show ln 2 at most
    found = audit(Scored(lambda world, k: float(world == common and k % 10 == 0)), 2000, DELTA, 0)
    assert found.event.above
    assert found.event.inside == common
    assert found.lower > 2.5


@pytest.mark.parametrize("lost", [math.nan, -math.inf, 1e200])
def test_scores_that_never_vary_tell_nothing_and_those_that_overflow_are_a_failure(lost: float) -> None:
    same = np.ones(50)
    assert mu_of_scores(same, same, 0.01) == 0.0
    assert audit(Scored(lambda world, k: 1.0), 40, DELTA, 0).lower == 0.0
    with pytest.raises(RunError, match=r"1 of 40 trials have no score, the first is .*: its numbers overflowed"):
        audit(Scored(lambda world, k: lost if world == 1 and k == 7 else float(world)), 40, DELTA, 0)


def test_trials_depend_on_seed_world_and_place_alone() -> None:
    plain, worlds = Plain("normal", 1.0, 1.0), tuple[World, World]((0, 1))
    drawn = [draw(plain, world, seed, range(6), DELTA).scores - world for seed in (7, 8) for world in worlds]
    assert len(np.unique(drawn)) == 24
    np.testing.assert_array_equal(drawn[0][2:4], draw(plain, 0, 7, range(2, 4), DELTA).scores)
    assert audit(plain, 40, DELTA, 7) == audit(plain, 40, DELTA, 7)


def test_a_claim_that_some_trials_lack_is_no_claim() -> None:
    one, none = (Drawn(np.zeros(2), 1.0, claim) for claim in (0.5, None))
    assert Drawn.joined([one, one]).published == 0.5
    assert Drawn.joined([one, none]).published is None
