"""Who sees what of others: observers, the agents that they hear, the strangers, and sums that a readout shows.

Theorem N1: what sums along a public tree tell some of the agents. docs/network-ledger.md, eqs. (N1), (N2).
Theorem N2: what strangers give away in gossip with noisy gradients. docs/network-ledger.md, eqs. (N3)-(N6).

A deviation of an agent is what one record has moved it by. Whatever of it the agent's noise is shifted to hide costs,
and the rest goes on: a choice of rests that are public bounds is a proof, so no solver is trusted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from admmnet.graph.simple import Graph, Tree, parts_of
from admmnet.privacy.conversion import excess
from admmnet.types import Matrix, Vector

Mask: TypeAlias = NDArray[np.bool_]
MARGIN = 1.0 + 1e-9
"""Covers the rounding of these figures in floating point."""
STEPS, LOOK, SETTLED = 1000, 25, 1e-4
"""Most steps of the descent that looks for a good choice. Every 25 it ends where no figure fell by 1e-4 of it."""
TOGETHER = 32
"""Pairs of a view and an agent that are looked at in one piece."""
MOST_SETS = 5000
"""Sets of observers that are looked at; of more as many are drawn."""


@dataclass(frozen=True)
class View:
    """What a set of observers sees of the others.

    ``groups`` are the strangers of every connected part of a public tree less the observers: of their last vectors a
    readout along the tree shows the sum, and no more. Empty where nothing is read out.
    """

    observers: frozenset[int]
    heard: frozenset[int]
    """Neighbours of observers that are none: every vector of theirs is seen."""
    strangers: frozenset[int]
    """All others."""
    groups: tuple[frozenset[int], ...] = ()


def view_of(graph: Graph, observers: Sequence[int], tree: Tree | None = None) -> View:
    """View of some agents; ``tree`` is that of a readout which adds up the last vectors."""
    own = frozenset(observers)
    heard = frozenset(j for i in own for j in graph[i]) - own
    strangers = frozenset(graph) - own - heard
    parts = () if tree is None else components(tree, own)
    return View(own, heard, strangers, tuple(found for part in parts if (found := part & strangers)))


def components(tree: Tree, observers: frozenset[int]) -> tuple[frozenset[int], ...]:
    """Connected parts of a tree less the observers."""
    edges = [(i, int(tree.parent[i])) for i in tree.below.tolist()]
    left = frozenset(tree.agents) - observers
    return tuple(map(frozenset, parts_of(Graph(tree.agents, edges), left)))


def sets_of(agents: int, colluders: int, most: int = MOST_SETS) -> tuple[list[tuple[int, ...]], bool]:
    """Sets of so many agents, all of them or ``most`` drawn by a fixed seed; and whether these are all."""
    if math.comb(agents, colluders) <= most:
        return list(combinations(range(agents), colluders)), True
    rng = np.random.default_rng(0)
    drawn = (tuple(sorted(rng.choice(agents, colluders, replace=False).tolist())) for _ in range(most))
    return sorted(set(drawn)), False


@dataclass(frozen=True, eq=False)
class TreeFlow:
    """Noisy sums along a tree in public numbers."""

    moved: Matrix
    """Delta_i(t), shape (T, N): most that a record moves an agent's part of a sum."""
    noise: Matrix
    """Shape (T, N). Parameter of its discrete Gaussian noise."""
    grid: float
    """Step of the common grid."""
    dimension: int
    """Numbers of a sum."""

    @property
    def local(self) -> Vector:
        """Mu of every agent to somebody who sees its own parts, shape (N,)."""
        found: Vector = np.sqrt(((self.moved / self.noise) ** 2).sum(axis=0))
        return found


def summed(flow: TreeFlow, tree: Tree, observers: frozenset[int]) -> tuple[Vector, Vector]:
    """Mu and kappa of every agent, shapes (N,), nan of observers: those of the sum over its part of the tree."""
    mu, kappa = np.full((2, flow.noise.shape[1]), np.nan)
    for part in components(tree, observers):
        own = sorted(part)
        noise = flow.noise[:, own]
        mu[own] = np.sqrt((flow.moved[:, own] ** 2 / (noise**2).sum(axis=1, keepdims=True)).sum(axis=0))
        least = noise.min(axis=1) / flow.grid * math.sqrt(len(own))  # the least variance of a part goes into (P10)
        kappa[own] = sum(excess(flow.dimension, float(s), len(own)) for s in least)
    return mu, kappa


@dataclass(frozen=True, eq=False)
class GossipFlow:
    """Gossip with noisy gradients in public numbers, eq. (N3); vectors have shape (N,), matrices (N, N)."""

    mixing: Matrix
    """W - eta r I: what becomes of vectors where gradients are held fixed."""
    contraction: Matrix
    """M: most that a deviation of one agent moves another one, (N4)."""
    own: Vector
    """a_u: most that one record of an agent moves its own next vector."""
    noise: Vector
    """s_i: standard deviation of the noise in an agent's vector."""
    rounding: Vector
    """c_i: what rounding adds to a deviation that reaches an agent."""
    step: Vector
    """sqrt(d) G: what a shift in whole steps adds."""
    rounds: int
    """T."""

    @property
    def local(self) -> Vector:
        """Mu of every agent to somebody who sees everything."""
        found: Vector = np.sqrt(self.rounds) * self.own / self.noise
        return found


class Shifted(NamedTuple):
    """A bound, and the choice that proves it."""

    mu: float
    """The observers' view is mu-GDP in the agent's records."""
    rests: Matrix
    """d_i(t), shape (T, N): row t bounds what is left of the deviations after round t + 1."""


class _Pairs(NamedTuple):
    """Views and agents, B of them, as arrays."""

    agents: NDArray[np.int64]
    free: Mask
    """Shape (B, N). Whether an agent may keep a deviation: strangers."""
    hidden: Mask
    """Whether an agent is no observer."""
    touched: Mask
    """Shape (B, T, N). Whether a deviation can have reached an agent by a round."""
    groups: NDArray[np.int64]
    """Shape (B, N). Number of the group that an agent's last vector is added up in; -1 for none."""
    read: Mask
    """Shape (B,). Whether there is a readout."""


def shifted(flow: GossipFlow, pairs: Sequence[tuple[View, int]]) -> list[Shifted]:
    """Bounds of pairs of a view and an agent that is no observer, eq. (N5).

    An agent that is heard has the bound of somebody who sees everything, and so has any where no choice is better.
    """
    found: list[Shifted] = []
    for start in range(0, len(pairs), TOGETHER):
        found += _together(flow, pairs[start : start + TOGETHER])
    return found


def _arrays(flow: GossipFlow, pairs: Sequence[tuple[View, int]]) -> _Pairs:
    size, count = len(flow.noise), len(pairs)
    agents = np.array([agent for _, agent in pairs])
    free, hidden, groups = np.zeros((count, size), bool), np.ones((count, size), bool), np.full((count, size), -1)
    read = np.array([bool(view.groups) for view, _ in pairs])
    for place, (view, _) in enumerate(pairs):
        free[place, list(view.strangers)] = True
        hidden[place, list(view.observers)] = False
        for number, group in enumerate(view.groups):
            groups[place, list(group)] = number
    touched = np.zeros((count, flow.rounds, size), bool)
    reaches, now = flow.contraction > 0.0, np.zeros((count, size), bool)
    now[np.arange(count), agents] = True
    for t in range(flow.rounds):
        touched[:, t] = now
        now = (now & free) @ reaches.T | now
        now &= hidden
    return _Pairs(agents, free, hidden, touched, groups, read)


def _reached(flow: GossipFlow, pairs: _Pairs, rests: Matrix) -> Matrix:
    """p_i(t), eq. (N5), shape (B, T, N): most that an agent deviates before noise."""
    before = np.concatenate([np.zeros_like(rests[:, :1]), rests[:, :-1]], axis=1)
    found: Matrix = before @ flow.contraction.T + pairs.touched * flow.rounding
    found[np.arange(len(rests)), :, pairs.agents] += flow.own[pairs.agents][:, None]
    return found * pairs.hidden[:, None]


def _held(pairs: _Pairs, rests: Matrix) -> Matrix:
    """Rests that the theorem allows: others, and of the last round where the view has groups, count as zero."""
    found: Matrix = np.maximum(rests, 0.0) * pairs.free[:, None]
    found[pairs.read, -1] = 0.0
    return found


def _added(flow: GossipFlow, pairs: _Pairs, last: Matrix) -> tuple[Matrix, Matrix]:
    """Sum of a quantity over each agent's group, and the share of the group's variance that is the agent's."""
    sums, shares, variance = np.zeros_like(last), np.zeros_like(last), flow.noise**2
    for number in range(int(pairs.groups.max(initial=-1)) + 1):
        inside = pairs.groups == number
        whole = (inside * variance).sum(axis=1, keepdims=True)
        sums += inside * (inside * last).sum(axis=1, keepdims=True)
        shares += inside * variance / np.where(whole > 0.0, whole, 1.0)
    return sums, shares


def _cost(flow: GossipFlow, pairs: _Pairs, rests: Matrix) -> tuple[Vector, Matrix]:
    """Return mu of every pair, shape (B,), and the shifts, shape (B, T, N)."""
    rests = _held(pairs, rests)
    reached = _reached(flow, pairs, rests)
    shifts = np.maximum(reached - rests, 0.0) + flow.step * (pairs.touched & pairs.free[:, None])
    grouped = pairs.groups >= 0
    sums, shares = _added(flow, pairs, reached[:, -1])
    last = np.where(grouped, shares * sums + flow.step * (sums > 0.0), shifts[:, -1])
    # who is in no group, and is not heard, keeps its last deviation to itself
    quiet = pairs.free & ~grouped
    shifts[:, -1] = np.where(quiet, flow.step * pairs.touched[:, -1], last)
    return np.sqrt((shifts**2 / flow.noise**2).sum(axis=(1, 2))), shifts


def _slope(flow: GossipFlow, pairs: _Pairs, shifts: Matrix) -> Matrix:
    """Gradient of the sum of squares by the rests, shape (B, T, N)."""
    pull = 2.0 * shifts / flow.noise**2
    active = np.where(pairs.free[:, None], pull * (shifts > flow.step), pull)
    by_rest = -active * pairs.free[:, None]
    last = pull[:, -1]
    weighted, shares = _added(flow, pairs, np.zeros_like(last))
    for number in range(int(pairs.groups.max(initial=-1)) + 1):
        inside = pairs.groups == number
        weighted += inside * (inside * shares * last).sum(axis=1, keepdims=True)
    heard = ~pairs.free & pairs.hidden
    active[:, -1] = np.where(pairs.groups >= 0, weighted, np.where(heard, last, 0.0))
    by_rest[:, -1] = 0.0
    by_rest[:, :-1] += active[:, 1:] @ flow.contraction
    return by_rest


def _together(flow: GossipFlow, pairs: Sequence[tuple[View, int]]) -> list[Shifted]:
    """Look for good rests by accelerated projected descent, restarted where it rises (Beck, Teboulle 2009)."""
    given = _arrays(flow, pairs)
    scale = flow.noise**2
    length = scale / (2.0 * (1.0 + np.linalg.norm(flow.contraction, 2)) ** 2)
    length = np.full_like(scale, length.min())
    rests = np.zeros((len(pairs), flow.rounds, len(scale)))
    best, ahead, momentum = rests, rests, np.ones((len(pairs), 1, 1))
    least, _ = _cost(flow, given, best)
    before = looked = least
    for step in range(STEPS):
        _, shifts = _cost(flow, given, ahead)
        new = _held(given, ahead - length * _slope(flow, given, shifts))
        now, _ = _cost(flow, given, new)
        risen = (now > before)[:, None, None]
        grown = np.where(risen, 1.0, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)))
        ahead = new + np.where(risen, 0.0, (momentum - 1.0) / grown) * (new - rests)
        rests, momentum, before = new, grown, now
        better = now < least
        least, best = np.where(better, now, least), np.where(better[:, None, None], new, best)
        if step % LOOK == LOOK - 1:
            if (least >= looked * (1.0 - SETTLED)).all():
                break
            looked = least
    local = flow.local[given.agents]
    strange = given.free[np.arange(len(pairs)), given.agents]
    mu = np.where(strange, np.minimum(least * MARGIN, local * MARGIN), local * MARGIN)
    return [Shifted(float(one), own) for one, own in zip(mu, best, strict=True)]


def information(flow: GossipFlow, view: View) -> Vector:
    """Mu of every agent for one fixed direction, shape (N,), nan of observers: the literature's figure, eq. (N7).

    It holds all gradients but one fixed: no bound for gradient descent, and no epsilon is made of it. A Kalman
    filter runs over what the observers hear without noise; the squares of what each agent's signal moves its
    innovations by add up.
    """
    size = len(flow.noise)
    hidden = np.array(sorted(set(range(size)) - view.observers))
    heard = np.isin(hidden, sorted(view.heard))
    mixing, noise = flow.mixing[np.ix_(hidden, hidden)], flow.noise[hidden]
    signal = np.diag(flow.own[hidden])
    state = np.zeros((len(hidden), len(hidden)))  # of every agent's signal, what is left of the others' estimates
    spread = np.zeros_like(state)
    found = np.zeros(len(hidden))
    for t in range(flow.rounds):
        state = mixing @ state + signal
        spread = mixing @ spread @ mixing.T + np.diag(noise**2)
        rows = np.eye(len(hidden))[heard]
        if t == flow.rounds - 1 and view.groups:
            sums = np.array([np.isin(hidden, sorted(group)) for group in view.groups], dtype=float)
            rows = np.vstack([rows, sums])
        if len(rows):
            state, spread, told = _seen(rows, state, spread)
            found += told
    whole = np.full(size, np.nan)
    whole[hidden] = np.sqrt(found)
    return whole


def _seen(rows: Matrix, state: Matrix, spread: Matrix) -> tuple[Matrix, Matrix, Vector]:
    """Update means and covariance by observations without noise; also the information in them about every signal."""
    moved, variance = rows @ state, rows @ spread @ rows.T
    gain = np.linalg.solve(variance, rows @ spread).T
    told = np.einsum("ou,ou->u", moved, np.linalg.solve(variance, moved))
    kept = spread - gain @ rows @ spread
    return state - gain @ moved, 0.5 * (kept + kept.T), told
