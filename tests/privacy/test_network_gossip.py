"""Theorem N2: two worlds are coupled against an attacker, and figures are held against other ways to find them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from admmnet import RunConfig
from admmnet.graph import network_of
from admmnet.graph.simple import Graph, spanning_tree
from admmnet.methods.agents import AgentPlan, Agents, Said, Told
from admmnet.methods.base import Facts
from admmnet.methods.dp_dsgd import DPDSGD
from admmnet.privacy.conversion import discrete_epsilon, excess
from admmnet.privacy.events import Gaussian
from admmnet.privacy.mechanisms import grid_step
from admmnet.privacy.network.account import extremes, learned
from admmnet.privacy.network.shifts import (
    MARGIN,
    GossipFlow,
    TreeFlow,
    View,
    _arrays,
    _cost,
    components,
    information,
    sets_of,
    shifted,
    view_of,
)
from admmnet.running.closing import whole_steps
from admmnet.types import Matrix, Vector

T, WIDTH, RECORDS, CLIP = 6, 3, 12, 0.3
GRAPHS = ("ring:7", "regular:8:3", "path:5")


def bound(flow: GossipFlow, view: View, agent: int, rests: Matrix) -> tuple[float, Matrix]:
    """Eq. (N5) for any choice of rests, shape (T, N): mu and the shifts."""
    mu, found = _cost(flow, _arrays(flow, [(view, agent)]), rests[None])
    return float(mu[0]) * MARGIN, found[0]


def graph_of(spec: str) -> Graph:
    return network_of(spec, agents=None, seed=0)


def plain(graph: Graph, rounds: int = 12, pull: float = 2.0) -> GossipFlow:
    """Equal noise, W of eq. (24), eta c1 = ``pull`` min W_ii, nothing rounded; a record moves a vector by 1."""
    size = len(graph)
    W = np.zeros((size, size))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1.0 / (1.0 + max(graph.degree(i), graph.degree(j)))
    np.fill_diagonal(W, 1.0 - W.sum(axis=1))
    M, step = W.copy(), pull * W.diagonal().min()
    np.fill_diagonal(M, np.maximum(np.abs(W.diagonal()), np.abs(W.diagonal() - step)))
    none = np.zeros(size)
    return GossipFlow(W, M, np.ones(size), np.ones(size), none, none, rounds)


class Stage(NamedTuple):
    """A network of dp-dsgd whose records the test has; the attacker is ``view.observers``."""

    method: DPDSGD
    flow: GossipFlow
    view: View
    sigma: float
    records: dict[int, tuple[Matrix, Vector]]


def stage(spec: str, observers: tuple[int, ...], *, readout: bool) -> Stage:
    graph = graph_of(spec)
    counts = {i: RECORDS + i % 2 for i in graph}
    words: dict[str, Any] = {"algorithm": "dp-dsgd", "mixing": "network", "rounds": T, "loss": "logistic"}
    config = RunConfig(**words, clip_norm=CLIP, regularisation=0.05, epsilon=1.0, delta=1e-5)
    method = DPDSGD(config.sections.method, Facts(graph, counts, WIDTH, dict.fromkeys(counts, 0.05)))
    sigma, rng = 0.2, np.random.default_rng(3)
    events = {}
    for i, n in counts.items():
        (event,) = method.question(i, np.zeros(WIDTH), sigma).cost(method.known(n))
        assert isinstance(event, Gaussian)
        events[i] = [event] * T
    flow = method.flow(events)
    assert flow is not None
    records = {}
    for i, n in counts.items():
        X = rng.standard_normal((n, WIDTH))
        records[i] = X / np.linalg.norm(X, axis=1, keepdims=True), rng.choice([-1.0, 1.0], n)
    tree = spanning_tree(graph) if readout else None
    return Stage(method, flow, view_of(graph, observers, tree), sigma, records)


def gradient(X: Matrix, y: Vector, theta: Vector) -> Vector:
    slopes = np.clip(-y * expit(-y * (X @ theta)), -CLIP, CLIP)
    found: Vector = X.T @ slopes / len(y)
    return found


def turn(own: Stage, agents: Agents, noisy: Callable[[Vector], Vector]) -> tuple[Vector, Vector]:
    """Where the method asks, and what it says if the door answers by ``noisy``, a function of that point."""
    steps = own.method.propose(agents, 0)
    here = next(steps).questions[0].here  # type: ignore[union-attr]
    there, none = np.ones(1, dtype=bool), np.zeros(1, dtype=bool)
    try:
        steps.send(Told(noisy(here)[None], there, none, here[None]))
    except StopIteration as done:
        return here, done.value.value[0]
    raise AssertionError


def answer_at(own: Stage, i: int, records: tuple[Matrix, Vector], noise: Vector, here: Vector) -> Vector:
    """What the door answers: the noisy gradient times eta w_i, on its grid."""
    scale = own.method.scale(i)
    grid = grid_step(scale * own.sigma)
    found: Vector = np.rint(scale * (gradient(*records, here) + noise) / grid) * grid
    return found


def worlds(own: Stage, u: int, rests: Matrix) -> tuple[float, bool]:
    """Couple two worlds; return the largest excess of a shift over q in units of Delta, and whether views are equal."""
    method, flow, view = own.method, own.flow, own.view
    _, allowed = bound(flow, view, u, rests)
    rng = np.random.default_rng(u)
    X, y = own.records[u]
    other = {**own.records, u: (X, np.concatenate([-y[:1], y[1:]]))}  # one label is another one
    plans = {
        i: AgentPlan(regularisation=0.05, weight=method.facts.weight(i), noise=own.sigma) for i in method.facts.graph
    }
    agents = [[method.agents({i: plans[i]}) for i in plans] for _ in range(2)]
    step = float(flow.step[0]) / math.sqrt(WIDTH)
    excess, equal = -math.inf, True
    for t in range(T):
        said: list[dict[int, Vector]] = [{}, {}]
        deviations: dict[int, Vector] = {}
        noises = {i: own.sigma * rng.standard_normal(WIDTH) for i in sorted(set(plans) - view.observers)}
        for i, noise in noises.items():
            _, said[0][i] = turn(own, agents[0][i], partial(answer_at, own, i, own.records[i], noise))
            # the point as it is mixed: the message where the noisy gradient is zero
            (here, mixed), (there, mixed_there) = (turn(own, agents[k][i], np.zeros_like) for k in (0, 1))
            pulled = gradient(*other[i], there) - gradient(*own.records[i], here)
            deviations[i] = mixed_there - mixed - method.scale(i) * pulled
        kept = remaining(own, t, deviations, rests, step)
        for i, noise in noises.items():
            shift = deviations[i] - kept[i]
            excess = max(excess, (float(np.linalg.norm(shift)) - allowed[t, i]) / flow.own[u])
            moved = noise + shift / method.scale(i)
            _, said[1][i] = turn(own, agents[1][i], partial(answer_at, own, i, other[i], moved))
            equal &= bool(np.array_equal(said[1][i], said[0][i] + kept[i]))
        heard = [[said[k][i].tobytes() for i in sorted(view.heard)] for k in (0, 1)]
        equal &= heard[0] == heard[1]
        lies = np.random.default_rng(abs(hash(b"".join(heard[0]))) % 2**32)  # a function of what A has seen
        sent = {
            (i, j): 10.0 ** lies.integers(-2, 30) * lies.standard_normal(WIDTH)
            for i in sorted(view.observers)
            for j in method.facts.graph[i]
        }
        for k in (0, 1):
            for i in said[k]:
                inbox = {j: sent[j, i] if j in view.observers else said[k][j] for j in method.facts.graph[i]}
                method.update(agents[k][i], agents[k][i].absorb(Said(said[k][i][None], np.ones(1, dtype=bool)), inbox))
    for part in view.groups:
        sums = [sum(whole_steps(agents[k][i].theta[0], step) for i in sorted(part)) for k in (0, 1)]
        equal &= bool(np.array_equal(sums[0], sums[1]))
    return excess, equal


def remaining(own: Stage, t: int, before: dict[int, Vector], rests: Matrix, step: float) -> dict[int, Vector]:
    """e_i of the proof: nothing of who is heard, at most d_i(t) of strangers; of a group at the end a sum of zero."""
    view, found = own.view, {}
    for i, deviation in before.items():
        size = float(np.linalg.norm(deviation))
        most = rests[t, i] if t < T - 1 else math.inf  # what nobody hears any more may stay
        share = min(1.0, most / size) if size and i in view.strangers else 0.0
        found[i] = np.trunc(share * deviation / step) * step
    for part in view.groups if t == T - 1 else ():
        variance = {i: own.flow.noise[i] ** 2 for i in part}
        whole = sum(before[i] for i in sorted(part))
        wanted = [(before[i] - variance[i] / sum(variance.values()) * whole) / step for i in sorted(part)]
        ends = np.rint(np.cumsum(wanted, axis=0))
        ends[-1] = 0.0
        for i, own_part in zip(sorted(part), np.diff(ends, axis=0, prepend=0.0), strict=True):
            found[i] = own_part * step
    return found


@pytest.mark.parametrize("readout", [False, True], ids=["rounds", "average"])
@pytest.mark.parametrize("spec", GRAPHS)
def test_no_attacker_sees_more_than_the_shifts_pay_for(spec: str, readout: bool) -> None:
    own = stage(spec, (1,), readout=readout)
    for u in sorted(own.view.strangers)[:2]:
        (best,) = shifted(own.flow, [(own.view, u)])
        assert best.mu < own.flow.local[u]
        excess, equal = worlds(own, u, best.rests)
        assert equal
        assert -0.01 < excess <= 1e-12  # q is needed whole: nine tenths of it would be exceeded


def test_rests_of_heard_agents_do_not_count() -> None:
    """With a rest at an agent that is heard, the view would differ: the bound takes none."""
    flow, view = plain(graph_of("ring:7")), view_of(graph_of("ring:7"), (0,))
    rests = np.full((flow.rounds, 7), 5.0)
    none = rests.copy()
    none[:, [0, 1, 6]] = 0.0
    assert bound(flow, view, 3, rests)[0] == bound(flow, view, 3, none)[0]
    assert shifted(flow, [(view, 1)])[0].mu == pytest.approx(math.sqrt(flow.rounds))


def test_a_step_that_is_too_long_is_seen_in_m() -> None:
    own = stage("ring:7", (0,), readout=False)
    W, c1 = own.flow.mixing.diagonal(), 0.25 * (1.0 + 1e-9) ** 2
    own_settings: Any = own.method.settings
    method = DPDSGD(own_settings.changed(step_size=9.0), own.method.facts)
    events = {}
    for i, n in method.facts.counts.items():
        (event,) = method.question(i, np.zeros(WIDTH), 0.2).cost(method.known(n))
        events[i] = [event] * T
    flow = method.flow(events)
    assert flow is not None
    for i in range(7):
        own_share = own.flow.mixing[i, i] + float(own.method.settings.step_size) * 0.05
        far = abs(own_share - 9.0 * (0.05 + method.facts.weight(i) * c1))
        assert flow.contraction[i, i] == pytest.approx(max(far, abs(own_share - 9.0 * 0.05)), rel=1e-12)
        assert flow.contraction[i, i] > own_share
        assert own.flow.contraction[i, i] <= own_share + 1e-8  # the automatic step is short enough
    assert (W > 0.0).all()


@pytest.mark.parametrize("spec", ["ring:9", "regular:10:3"])
@pytest.mark.parametrize("colluders", [1, 2])
def test_figures_against_a_dense_pseudo_inverse_and_each_other(spec: str, colluders: int) -> None:
    graph = graph_of(spec)
    flow, tree = plain(graph), spanning_tree(graph)
    for observers in sets_of(len(graph), colluders)[0][:: 5 * colluders]:
        for view in (view_of(graph, observers), view_of(graph, observers, tree)):
            linear, dense = information(flow, view), projected(flow, view)
            np.testing.assert_allclose(linear, dense, rtol=1e-9, equal_nan=True)
            strangers = sorted(view.strangers)
            for u, one in zip(strangers, shifted(flow, [(view, u) for u in strangers]), strict=True):
                assert linear[u] * (1.0 - 1e-9) <= one.mu <= flow.local[u] * (1.0 + 1e-8)


def projected(flow: GossipFlow, view: View) -> Vector:
    """(N7) by a pseudo-inverse of the whole map from noise to messages."""
    hidden = sorted(set(range(len(flow.noise))) - view.observers)
    size, W = len(hidden), flow.mixing[np.ix_(hidden, hidden)]
    powers = [np.linalg.matrix_power(W, k) for k in range(flow.rounds)]
    maps = [
        np.hstack([powers[t - s] if s <= t else np.zeros((size, size)) for s in range(flow.rounds)])
        for t in range(flow.rounds)
    ]
    rows = [m[[hidden.index(i) for i in sorted(view.heard)]] for m in maps]
    rows += [maps[-1][[hidden.index(i) for i in sorted(group)]].sum(axis=0, keepdims=True) for group in view.groups]
    B = np.vstack(rows)
    P = np.linalg.pinv(B, rcond=1e-12) @ B
    found = np.full(len(flow.noise), np.nan)
    for place, i in enumerate(hidden):
        e = np.tile(np.eye(size)[place], flow.rounds)
        found[i] = math.sqrt(e @ P @ e)
    return found


@pytest.mark.parametrize("readout", [False, True])
def test_the_descent_finds_no_less_than_scipy_does(readout: bool) -> None:
    """Agents of unequal noise; every choice is a proof, a good one is the point."""
    graph = graph_of("path:5")
    flow = replace(plain(graph, rounds=4), noise=np.linspace(0.7, 1.5, 5))
    view = view_of(graph, (0,), spanning_tree(graph) if readout else None)
    for u in sorted(view.strangers):
        (best,) = shifted(flow, [(view, u)])
        assert best.mu == pytest.approx(min(bound(flow, view, u, best.rests)[0], flow.local[u]), rel=1e-8)
        tried = minimize(
            lambda rests, u=u: bound(flow, view, u, rests.reshape(4, 5))[0],
            np.full(20, 0.3),
            method="L-BFGS-B",
            bounds=[(0.0, None)] * 20,
            options={"maxiter": 80},
        )
        assert best.mu <= float(tried.fun) * (1.0 + 1e-4)


def test_sums_along_a_tree_and_figures_of_every_set_against_networkx() -> None:
    """Theorem N1: what a set of observers sees is the sum over each part of the tree that is left."""
    graph, rng = graph_of("regular:10:3"), np.random.default_rng(4)
    tree, grid, every = spanning_tree(graph), 2.0**-16, nx.Graph(graph.edges)
    assert tree is not None
    plain_tree = nx.Graph([(i, int(tree.parent[i])) for i in tree.below.tolist()])
    sums = TreeFlow(rng.uniform(0.1, 1.0, (4, 10)), rng.uniform(2.0, 5.0, (4, 10)), grid, 7)
    sets, deltas = [(0,), (3, 7)], dict.fromkeys(range(10), 1e-5)
    gossip = plain(graph, rounds=3)
    told = learned(sums, graph, tree, sets, deltas), learned(gossip, graph, None, sets, deltas)
    for own in sets:
        left = plain_tree.subgraph(set(range(10)) - {*own})
        view, linear = view_of(graph, own), information(gossip, view_of(graph, own))
        for part in nx.connected_components(left):
            mine = sorted(part)
            for u in mine:
                noise = (sums.noise[:, mine] ** 2).sum(axis=1)
                mu = math.sqrt(float((sums.moved[:, u] ** 2 / noise).sum()))
                least = sums.noise[:, mine].min(axis=1) / grid * math.sqrt(len(mine))
                kappa = sum(excess(7, float(s), len(mine)) for s in least)
                one, other = (next(x for x in own_told if (x.observers, x.agent) == (own, u)) for own_told in told)
                assert one.mu == pytest.approx(mu, rel=2e-9)
                assert mu < one.mu
                assert one.epsilon == pytest.approx(discrete_epsilon(mu, kappa, 1e-5), rel=1e-7)
                local = math.sqrt(float(((sums.moved[:, u] / sums.noise[:, u]) ** 2).sum()))
                assert one.share == pytest.approx(min(1.0, mu / local))
                assert one.distance == other.distance == min(nx.shortest_path_length(every, u, i) for i in own)
                (bounded,) = shifted(gossip, [(view, u)])
                assert (one.mu_linear, other.mu_linear) == (None, linear[u])
                assert other.mu == pytest.approx(bounded.mu, rel=1e-3)
                assert other.epsilon == pytest.approx(discrete_epsilon(other.mu, 0.0, 1e-5))
    found = extremes(told[1])
    near, far = ([one.epsilon for one in told[1] if (one.distance > 1) is away] for away in (False, True))
    assert found == (max(near + far), math.fsum(near + far) / len(near + far), max(far), max(near))


def test_parts_of_a_tree_and_sets_of_observers() -> None:
    tree = spanning_tree(graph_of("path:5"))
    assert tree is not None
    assert components(tree, frozenset({2})) == (frozenset({0, 1}), frozenset({3, 4}))
    view = view_of(graph_of("path:5"), (2,), tree)
    assert (set(view.heard), set(view.strangers)) == ({1, 3}, {0, 4})
    assert view.groups == (frozenset({0}), frozenset({4}))
    assert sets_of(5, 2) == ([(i, j) for i in range(5) for j in range(i + 1, 5)], True)
    many, whole = sets_of(40, 5)
    assert not whole
    assert len(many) == len(set(many)) > 4900
