"""How many records the published PP-ADMM asks for: Ding et al. 2020, Theorems 3.4 and 3.5, docs/methods.md (110).

The theorems leave a constant V open, and two more, a and Delta^(t+1) >= 0, which are taken to be 0: what is computed
is the least that they can ask for, as a multiple of V, and the excess loss below which they promise nothing.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

from admmnet.settings import Section, about


class Goal(Section, frozen=True, kw_only=True):
    """What is asked of an agent: a_acc, excess of the expected loss over the reference's, of this norm; and xi."""

    table: ClassVar[str] = ""
    sample_complexity: Annotated[float, about(gt=0, metavar="A")] | None = None
    """of pp-admm as published: records that its paper's Theorems 3.4 and 3.5 need for excess loss A"""
    reference_norm: Annotated[float, about(gt=0, metavar="R")] = 1.0
    """there: norm of the reference classifier (1)"""
    failure: Annotated[float, about(gt=0, lt=1, metavar="XI")] = 0.05
    """there: probability that Theorem 3.4 fails (0.05); Theorem 3.5 three times"""


class Needed(NamedTuple):
    """n_i / V that Theorems 3.4 and 3.5 ask for at this noise, None where they promise nothing.

    ``least`` is the excess loss from which on Theorem 3.5 promises anything; ``least_ever`` the same without the noise
    in the objective, which falls with n_i; that on the solution does not.
    """

    without_noise: float | None
    private: float | None
    least: float
    least_ever: float


def needed(
    accuracy: float, norm: float, failure: float, beta: float, sigma1: float, sigma2: float, width: int
) -> Needed:
    """Eq. (110) for one agent's noise, at the figures of a ``Goal``."""
    log = math.log(1.0 / failure)
    along, square = sigma2 * math.sqrt(2.0 * width * log), norm**2
    objective = 2.0 * sigma1**2 * width * log
    hidden = along * accuracy / square + objective

    def multiple(error: float) -> float | None:
        room = accuracy**2 / (2.0 * square) - error
        return log / room if room > 0.0 else None

    def floor(error: float) -> float:
        """Root of A^2 / (2 R^2) = error + along A / R^2."""
        return along + math.sqrt(along**2 + 2.0 * square * error)

    return Needed(multiple(beta), multiple(beta + hidden), floor(beta + objective), floor(beta))
