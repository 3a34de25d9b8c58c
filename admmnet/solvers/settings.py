"""The problem: section [problem] of a run's settings."""

from __future__ import annotations

from dataclasses import dataclass

from admmnet.settings import Auto, in_problem


@dataclass(frozen=True, kw_only=True)
class ProblemSettings:
    """Loss and regulariser."""

    loss: str = in_problem(
        "auto",
        "loss function; auto: by the method (docs/methods.md)",
        metavar="auto|logistic|smoothed-hinge|huber|squared|NAME",
    )
    loss_width: float | Auto = in_problem(
        "auto",
        "half-width of the quadratic part; auto: 1, or 0.5 where --loss smoothed-hinge is given",
        within="[1e-06, 1e+06]",
        scope="network",
    )
    regularisation: float | Auto = in_problem(
        "auto", "auto: the least that is needed, 1e-4 for admm", within="[0, 1e+12]", tunable=True
    )
