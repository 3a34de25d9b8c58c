"""Real targets: a public range mapped to [-1, 1], and the refusal of methods that need two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from admmnet.errors import RequestError
from admmnet.types import Vector

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Target:
    """How a real target becomes a label in [-1, 1]: (v - centre) / reach.

    Attributes
    ----------
    low, high : float
        Public range, in the target's unit; values outside are clipped to it.
    centre : float
        Value that becomes 0, inside the range.
    """

    low: float
    high: float
    centre: float

    @property
    def reach(self) -> float:
        """Distance from the centre to the farther end of the range: what becomes 1."""
        return max(self.high - self.centre, self.centre - self.low)

    def scaled(self, values: Vector) -> Vector:
        """Labels (n,) in [-1, 1] of values in the target's unit."""
        scaled: Vector = (np.clip(values, self.low, self.high) - self.centre) / self.reach
        return scaled

    def unscaled(self, labels: Vector) -> Vector:
        """Values (n,) in the target's unit of labels or predictions."""
        values: Vector = labels * self.reach + self.centre
        return values


class HasTask(Protocol):
    """Records, or rows for a model."""

    @property
    def name(self) -> str:
        """Name of the data set, or of the file."""
        ...

    @property
    def task(self) -> Task:
        """What the labels are."""
        ...


def require_classes(records: HasTask, what: str) -> None:
    """Refuse records with real targets where two classes are needed.

    Parameters
    ----------
    records : Records or NewRows
        The records.
    what : str
        What needs classes, such as "--loss logistic".

    Raises
    ------
    RequestError
        If the labels are real targets.
    """
    if records.task != "classification":
        raise RequestError(
            f"{what} needs two classes, and {records.name} has real targets: take a squared loss, or make classes"
            " with threshold = X in place of targets in [data.schema]"
        )
