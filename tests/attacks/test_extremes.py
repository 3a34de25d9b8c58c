"""Settings so extreme that floating point undoes the noise, or fails for some records; charges that do not hold."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet.config.run_config import RunConfig
from admmnet.errors import RequestError
from admmnet.holder import Ask, Door, Holder
from admmnet.holder.measurements import GammaMinimiser
from admmnet.holder.series.coordinate import DualSteps
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.methods.agents import AgentPlan, Agents, Asking
from admmnet.methods.base import Facts, Method
from admmnet.privacy.contract import Contract, MemoryLedger, Promise
from admmnet.privacy.events import NoRecords
from admmnet.rng import AgentStreams
from admmnet.running.party import Node, Party
from admmnet.solvers.losses import LOSSES
from admmnet.transport.collective import fault_of

N, D = 200, 4


def door(guard: Any, seed: int = 0) -> Door:
    X = np.random.default_rng(7).normal(size=(N, D))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return Door(Holder(X, np.sign(X[:, 0])), 0, LOSSES["logistic"], guard, AgentStreams(0, seed))


def asked(measurement: Any, seed: int = 0) -> Any:
    guard = MemoryLedger(Contract(Promise(1.0, 1e-4, adjacency="zero-out")))
    return door(guard, seed).answer(Ask(measurement), 0)


def minimiser(scale: float) -> GammaMinimiser:
    return GammaMinimiser(np.zeros(D), 0.5, 1e-8, 0.25 * N, 1e-6, scale=scale)


def test_no_scale_undoes_the_noise() -> None:
    """M-ADMM at a tiny eta: noise of rate |scale| a overflowed, was clipped to 1e150, and times scale is nothing."""
    spread = np.std([asked(minimiser(-1e-100), seed).value for seed in range(8)])
    assert spread == pytest.approx(np.std([asked(minimiser(1.0), seed).value for seed in range(8)]), rel=0.5)
    for scale in (1e-200, -1e-200, 1e300, 0.0):
        with pytest.raises(RequestError, match="scale"):
            minimiser(scale)


TINY, HUGE = 5e-324, 1e300
NO_NOISE = DualSteps(1e-4, N, TINY, 0.4, 1, "shuffled")
EXTREMES: dict[str, Any] = {
    "a clip whose noise underflows": NO_NOISE,
    "a gradient's clip": GradientSteps(1e-4, N, 1.0, 1, "shuffled", clip=TINY, noise_multiplier=0.4),
    "a multiplier below the range": DualSteps(1e-4, N, 1.0, 1e-200, 1, "shuffled"),
    "a weight whose scores overflow": DualSteps(1e-310, N, 1.0, 1.0, 1, "shuffled"),
    "a step that overflows": DisjointSteps(1e-4, 10, np.array(0.1), "sqrt", HUGE),
    "an epsilon whose noise overflows": DisjointSteps(1e-4, 10, np.array(1e-310)),
    "banco's sigma": OnlineSteps(0.0, sigma=TINY),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_series_are_refused_before_a_draw(name: str) -> None:
    with pytest.raises(RequestError):
        asked(EXTREMES[name])


def test_what_is_made_of_released_vectors_is_held_to_the_bound_of_messages() -> None:
    """A neighbour's 2^40 grows in R-ADMM's recycled rounds; others would take its sender for a liar."""

    class Recycling(Method):
        def propose(self, agents: Agents, round: int) -> Asking[Any]:
            yield from ()
            return np.full((1, D), 1e30)

    class Book(MemoryLedger):
        charged: tuple[Any, ...] = ()

        def charge(self, round: int, *events: Any) -> None:
            self.charged += events

    guard: Any = Book(Contract())
    method = Recycling(RunConfig().sections.method, Facts(nx.path_graph(2), {0: D, 1: D}, D, {}))
    party = Party(method, {0: AgentPlan(0.1)}, [Node(0, door(guard), guard)])
    party.propose(0, np.ones(1, dtype=bool))
    said = party.said()[0]
    assert said is not None
    assert fault_of(said, D) is None
    assert guard.charged == (NoRecords(),)
