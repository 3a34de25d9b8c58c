"""Totals of several ledgers on the same records, taken together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from admmnet.privacy.budget import Totals, joined


def added(parts: Sequence[Totals]) -> Totals:
    """Proven costs of all parts: curves, mu^2 and kappa add up (docs/proofs.md, Theorem 5)."""
    found = _joined(parts, np.sum)
    if len(charged := [part for part in parts if part.rho]) == 1:
        return found
    claims = [part.rho_published for part in charged]
    found.rho_published = None if None in claims else math.fsum(claim or 0.0 for claim in claims)
    first, *others = [part.alone for part in parts if part.rho] or [None]
    for other in others:
        first = None if first is None or other is None else joined(first, other, 1, fresh=False)
    found.alone = first  # steps of one kind on sampled batches have a reading of their own
    return found


def largest(parts: Sequence[Totals]) -> Totals:
    """At least the cost of each part: the largest value at every order, mu^2 and kappa by themselves."""
    return _joined(parts, np.max)


def _joined(parts: Sequence[Totals], join: Callable[..., Any]) -> Totals:
    parts = [part for part in parts if part.rho]
    if len(parts) == 1:
        return parts[0]  # what is alone has readings of its own
    found = Totals("proven")
    if not parts:
        return found
    for name in ("rho", "xi", "curve", "mu_squared", "kappa"):
        setattr(found, name, join([getattr(part, name) for part in parts], axis=0))
    if any(part.unmasked is not None for part in parts):
        found.unmasked = _joined([part.unmasked or part for part in parts], join)
        found.colluders = min(part.colluders for part in parts if part.colluders is not None)
    return found
