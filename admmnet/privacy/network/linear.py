"""The linear figure of the literature: what messages tell where all gradients but one are held fixed.

docs/network-ledger.md, eq. (N7). It is no bound for gradient descent, and no epsilon is made of it.
"""

from __future__ import annotations

import numpy as np

from admmnet.privacy.network.shifts import GossipFlow
from admmnet.privacy.network.views import View
from admmnet.types import Matrix, Vector


def information(flow: GossipFlow, view: View) -> Vector:
    """Mu of every agent for one fixed direction, shape (N,), nan of observers.

    A Kalman filter runs over what the observers hear without noise; the squares of what each agent's signal moves its
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
