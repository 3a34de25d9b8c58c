"""What ``auto`` means for delta: docs/methods.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from admmnet.methods.settings import Given

MOST_DELTA = 1e-5
"""Largest delta that is chosen by itself."""


def own_delta(counts: Collection[int]) -> float:
    """Delta that is chosen by itself: min(1e-5, 0.1 / smallest n_i)."""
    return min(MOST_DELTA, 0.1 / min(counts))


def is_loose(delta: float, count: int, own: float) -> bool:
    """Whether a delta deserves a note: above 0.1 / n_i; up to ``own``, which is chosen by itself, above 1 / n_i."""
    return delta > (1.0 if delta <= own else 0.1) / count


def with_delta(config: Given, counts: Collection[int], accounts: Mapping[int, float] | None = None) -> Given:
    """Replace ``delta = "auto"``: an agent's account's delta, else min(1e-5, 0.1 / smallest n_i).

    An explicit delta stays, and so does an agent's own of ``[privacy.agents.I]``. ``counts`` are n_i of all agents.
    ``accounts`` has the delta of every account that is there already; it is that agent's delta and no other's.
    """
    if config.delta != "auto":
        return config
    accounts = accounts or {}
    delta = own_delta(counts)
    if len(accounts) == len(counts) and len(set(accounts.values())) == 1:
        delta = next(iter(accounts.values()))
    own = {str(i): {"delta": value} for i, value in accounts.items() if value != delta}
    budgets = {i: {**own.get(i, {}), **config.budgets.get(i, {})} for i in {**config.budgets, **own}}
    return config.changed(delta=delta, budgets=budgets)
